//! The neural estimator, all data in one place: what a federation is measured against.
//!
//! 1. [`NeuralPlan`] says who sees what, which model and how it is trained.
//! 2. [`NeuralStudy`] holds a dataset as the model reads it; [`NeuralStudy::trainer`] starts a run.
//! 3. [`NeuralEstimator`] is the result: a model with its weights and everything it assumes.

use neural::{Fusion, Layer, Learner};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane};

use crate::architecture::{Architecture, HostShape, ModelError, ModelShape, Seat, Sizes};
use crate::inputs::{Inputs, InputsError};
use crate::metrics::Estimates;
use crate::parts::GuestShape;
use crate::recipe::Recipe;
use crate::scales::{InputScales, Scale};
use crate::study::{Party, Study, TargetKind, WINDOW};
use crate::trainer::{Examples, Trainer, estimate_windows};

/// What is to be trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeuralPlan {
    /// Whose features it sees.
    pub party: Party,
    /// Which model.
    pub architecture: Architecture,
    /// What it estimates.
    pub target: TargetKind,
    /// Seed of first weights, order and dropout.
    pub seed: u64,
    /// Sizes of the `link` model.
    pub sizes: Sizes,
    /// How it is trained.
    pub recipe: Recipe,
}

/// What a model assumes about its data, besides its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCard {
    /// What was trained.
    pub plan: NeuralPlan,
    /// Sizes.
    pub shape: ModelShape,
    /// Hash of the network.
    pub network_hash: String,
    /// Length of a step.
    pub step_s: f64,
    /// Steps of a window.
    pub window: usize,
    /// Names of the host's loops.
    pub loops: Vec<String>,
    /// Name of the fleet.
    pub fleet: String,
    /// Its penetration rate.
    pub rate: f64,
    /// Cells of a link and sub-steps of a step, of models that see cells.
    pub cells: Option<[usize; 2]>,
    /// Scales of the inputs.
    pub inputs: InputScales,
    /// Scales of density and flow of each link.
    pub outputs: Vec<[Scale; 2]>,
}

/// Why a model cannot be trained or used on some data.
#[derive(Debug, Error, PartialEq)]
pub enum NeuralError {
    /// The features.
    #[error(transparent)]
    Inputs(#[from] InputsError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A target is not a number.
    #[error("step {step}, link `{link}`: target: found a value that is not finite")]
    Target {
        /// The step.
        step: i64,
        /// The link.
        link: String,
    },
    /// Model and data do not belong together.
    #[error("the model does not fit the data: {what}: found {found}, expected {expected}")]
    Mismatch {
        /// Which property.
        what: &'static str,
        /// In the data.
        found: String,
        /// In the model.
        expected: String,
    },
}

/// A dataset as a model reads it.
pub struct NeuralStudy<'a> {
    study: &'a Study,
    card: ModelCard,
    inputs: Inputs,
    /// `[window of the study, link, (density, flow)]`, scaled, for all steps by their row.
    targets: Vec<f32>,
    first_step: i64,
    rows: Vec<u32>,
    weights: Vec<f32>,
    judged: Vec<f32>,
}

impl NeuralPlan {
    /// The default for an architecture.
    pub fn new(party: Party, architecture: Architecture, target: TargetKind, seed: u64) -> Self {
        let recipe = Recipe::of(architecture);
        Self { party, architecture, target, seed, sizes: Sizes::default(), recipe }
    }
}

impl<'a> NeuralStudy<'a> {
    /// Reads a study, with scales from its training part.
    pub fn new(study: &'a Study, plan: NeuralPlan) -> Result<Self, NeuralError> {
        let scales = InputScales::fit(study, plan.party)?;
        let arrangement = plan.architecture.sub_model().arrangement();
        let inputs = Inputs::new(study, plan.party, arrangement, &scales)?;
        let with_cells = plan.party == Party::BothAndCells;
        let guest = GuestShape {
            name: "guest".into(),
            sub_model: plan.architecture.sub_model(),
            channels: inputs.guest_channels(),
            totals: matches!(plan.party, Party::Both | Party::BothAndCells),
            crossing: plan.architecture.crossing(),
            sizes: plan.sizes,
        };
        let guests: Vec<_> = (guest.channels > 0).then_some(guest).into_iter().collect();
        let host = HostShape {
            architecture: plan.architecture,
            shared: inputs.shared(),
            channels: inputs.host_channels(),
            seats: guests.iter().map(Seat::of).collect(),
            party_dropout: 0.0,
            sizes: plan.sizes,
        };
        let shape = ModelShape { host, guests };
        let card = ModelCard {
            shape,
            network_hash: study.network_hash().to_owned(),
            step_s: study.step().get(),
            window: WINDOW,
            loops: loop_names(study),
            fleet: study.fleet_name().to_owned(),
            rate: study.rate(),
            cells: with_cells.then(|| study.cell_shape()),
            inputs: scales,
            outputs: output_scales(study, plan.target)?,
            plan,
        };
        Self::with_card(study, card, inputs)
    }

    fn with_card(study: &'a Study, card: ModelCard, inputs: Inputs) -> Result<Self, NeuralError> {
        let windows = study.split().train.iter().chain(&study.split().validation);
        let first_step = windows.clone().next().map_or(0, |step| step.0);
        let span = windows.clone().last().map_or(0, |step| step.0 - first_step + 1);
        let mut rows = vec![0; span.max(0) as usize];
        let mut targets = Vec::new();
        for (row, &step) in windows.enumerate() {
            rows[(step.0 - first_step) as usize] = row as u32;
            for (link, scales) in study.network().link_ids().zip(&card.outputs) {
                let state = study.target(card.plan.target, step, link);
                let pair = [state.density.get(), state.flow.get()];
                targets.extend(pair.iter().zip(scales).map(|(value, scale)| scale.apply(*value)));
            }
        }
        let recipe = &card.plan.recipe;
        let weights = loss_weights(study, recipe.flow_weight, recipe.other_links);
        let judged = loss_weights(study, recipe.flow_weight, 0.0);
        Ok(Self { study, inputs, targets, first_step, rows, weights, judged, card })
    }

    /// A training run before its first epoch.
    pub fn trainer(&self) -> Result<Trainer, NeuralError> {
        let learner = new_learner(self.study, &self.card)?;
        let plan = &self.card.plan;
        let blocks = self.card.shape.blocks(learner.model());
        Ok(Trainer::new(learner, blocks, plan.recipe, plan.seed, self.train().len()))
    }

    /// The estimator that a run has led to.
    pub fn finish(self, trainer: Trainer) -> NeuralEstimator {
        NeuralEstimator { card: self.card, learner: trainer.finish() }
    }

    /// What its models assume.
    pub fn card(&self) -> &ModelCard {
        &self.card
    }
}

/// The model of a card, with first weights.
pub(crate) fn new_learner(study: &Study, card: &ModelCard) -> Result<Learner<Fusion>, NeuralError> {
    Ok(card.shape.learner(study.network(), card.plan.seed)?)
}

/// One scale for each quantity, pooled over links and repeated for each: a large error counts
/// alike wherever it is, as in the score.
fn output_scales(study: &Study, kind: TargetKind) -> Result<Vec<[Scale; 2]>, NeuralError> {
    let links = study.network().links().len();
    let mut states = Vec::with_capacity(links * study.split().train.len());
    for &step in study.split().train.iter().chain(&study.split().validation) {
        for link in study.network().link_ids() {
            let state = study.target(kind, step, link);
            if !(state.density.get() + state.flow.get()).is_finite() {
                let link = study.network().link(link).name.clone();
                return Err(NeuralError::Target { step: step.0, link });
            }
            states.push(state);
        }
    }
    states.truncate(links * study.split().train.len());
    let density = Scale::fit(states.iter().map(|state| state.density.get()));
    let flow = Scale::fit(states.iter().map(|state| state.flow.get()));
    Ok(vec![[density, flow]; links])
}

fn loop_names(study: &Study) -> Vec<String> {
    study.network().loops().iter().map(|detector| detector.name.clone()).collect()
}

/// Weights of density and flow of each link, such that those of density add up to 1.
fn loss_weights(study: &Study, flow: f32, others: f32) -> Vec<f32> {
    let each = study.network().link_ids();
    let links: Vec<f32> =
        each.map(|link| if study.targets().contains(&link) { 1.0 } else { others }).collect();
    let total: f32 = links.iter().sum();
    links.iter().flat_map(|weight| [weight / total, flow * weight / total]).collect()
}

impl Examples for NeuralStudy<'_> {
    fn inputs(&self) -> usize {
        self.inputs.len()
    }
    fn outputs(&self) -> usize {
        self.weights.len()
    }
    fn write_input(&self, last: Step, to: &mut [f32]) {
        self.inputs.write(last, to);
    }
    fn write_target(&self, last: Step, to: &mut [f32]) {
        let row = self.rows[(last.0 - self.first_step) as usize] as usize;
        to.copy_from_slice(&self.targets[row * self.weights.len()..][..self.weights.len()]);
    }
    fn weights(&self) -> &[f32] {
        &self.weights
    }
    fn judged(&self) -> &[f32] {
        &self.judged
    }
    fn train(&self) -> &[Step] {
        &self.study.split().train
    }
    fn validation(&self) -> &[Step] {
        &self.study.split().validation
    }
}

/// A trained model.
pub struct NeuralEstimator {
    card: ModelCard,
    learner: Learner<Fusion>,
}

impl NeuralEstimator {
    pub(crate) fn new(card: ModelCard, learner: Learner<Fusion>) -> Self {
        Self { card, learner }
    }

    /// What it assumes.
    pub fn card(&self) -> &ModelCard {
        &self.card
    }

    /// Its model and weights.
    pub fn learner(&self) -> &Learner<Fusion> {
        &self.learner
    }

    /// Estimates all links of windows, given by their last steps: `[window][link]`.
    pub fn estimate_all(&self, study: &Study, steps: &[Step]) -> Result<Estimates, NeuralError> {
        self.card.check(study)?;
        let plan = &self.card.plan;
        let arrangement = plan.architecture.sub_model().arrangement();
        let inputs = Inputs::new(study, plan.party, arrangement, &self.card.inputs)?;
        // A network whose signals came or went has the same hash, but another clock.
        let (found, expected) = (inputs.len(), self.learner.model().input_len());
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(NeuralError::Mismatch { what: "features of a window", found, expected });
        }
        let mut states = Vec::with_capacity(steps.len() * self.card.outputs.len());
        estimate_windows(
            &self.learner,
            steps,
            |last, x| inputs.write(last, x),
            |_, estimate| {
                for (pair, [density, flow]) in estimate.chunks_exact(2).zip(&self.card.outputs) {
                    // Negative traffic does not exist.
                    states.push(LinkState {
                        density: VehPerKmLane::new(density.undo(pair[0]).max(0.0)),
                        flow: VehPerMinLane::new(flow.undo(pair[1]).max(0.0)),
                    });
                }
            },
        );
        Ok(states)
    }

    /// Estimates the scored links of windows: `[window][target link]`.
    pub fn estimate(&self, study: &Study, steps: &[Step]) -> Result<Estimates, NeuralError> {
        let all = self.estimate_all(study, steps)?;
        let of_window = |row: &[LinkState]| -> Estimates {
            study.targets().iter().map(|link| row[link.index()]).collect()
        };
        Ok(all.chunks(self.card.outputs.len()).flat_map(of_window).collect())
    }
}

impl ModelCard {
    /// Refuses data that the model was not made for.
    pub(crate) fn check(&self, study: &Study) -> Result<(), NeuralError> {
        let card = self;
        let cells = card.cells.map(|_| study.cell_shape());
        let pairs = [
            ("network hash", study.network_hash().to_owned(), card.network_hash.clone()),
            ("length of a step, s", study.step().get().to_string(), card.step_s.to_string()),
            ("steps of a window", WINDOW.to_string(), card.window.to_string()),
            ("loops", loop_names(study).join(", "), card.loops.join(", ")),
            ("penetration rate", study.rate().to_string(), card.rate.to_string()),
            ("cells and sub-steps", format!("{cells:?}"), format!("{:?}", card.cells)),
        ];
        for (what, found, expected) in pairs {
            if found != expected {
                return Err(NeuralError::Mismatch { what, found, expected });
            }
        }
        Ok(())
    }
}
