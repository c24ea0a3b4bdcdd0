//! The neural estimator, all data in one place: what a federation is measured against.
//!
//! 1. [`NeuralPlan`](crate::NeuralPlan) says who sees what, which model and how it is trained.
//! 2. [`NeuralStudy`] holds a dataset as the model reads it; [`NeuralStudy::trainer`] starts a run.
//! 3. [`NeuralEstimator`] is the result: a model with its weights and everything it assumes.

use neural::{Fusion, Layer, Learner};
use thiserror::Error;
use traffic::{LinkState, Network, Step};

use crate::artifact::record::{DataSpec, GuestRecord, ModelRecord};
use crate::data::host_study::HostStudy;
use crate::data::inputs::{GuestInputs, HostInputs, InputsError};
use crate::data::scales::GuestScales;
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::{GuestFeatures, Study};
use crate::metrics::Estimates;
use crate::model::architecture::{GuestSlot, ModelShape};
use crate::model::model_error::ModelError;
use crate::model::plan::{GuestPlan, NeuralPlan};
use crate::trainer::{Examples, Trainer, estimate_windows};

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
pub struct NeuralStudy {
    host: HostStudy,
    guests: Vec<GuestInputs>,
    card: ModelRecord,
}

impl NeuralStudy {
    /// Reads a study, with scales from its training part. Guests and fleets go together in their
    /// order; without guests, fleets are not looked at.
    pub fn new(study: &Study, plan: NeuralPlan) -> Result<Self, NeuralError> {
        let host = HostStudy::new(study, &plan)?;
        let (mut guests, mut shapes, mut cards) = (Vec::new(), Vec::new(), Vec::new());
        check_fleets(&plan, study.fleets().len())?;
        for (guest, fleet) in plan.guests.iter().zip(study.fleets()) {
            let (inputs, card) = guest.read(fleet, &study.train_span())?;
            shapes.push(guest.shape(&inputs, plan.sizes));
            guests.push(inputs);
            cards.push(card);
        }
        let slots = shapes.iter().map(GuestSlot::of).collect();
        let shape = ModelShape { host: plan.host_shape(host.inputs(), slots), guests: shapes };
        let card = ModelRecord { shape, host: host.card().clone(), guests: cards, plan };
        Ok(Self { host, guests, card })
    }

    /// A training run before its first epoch.
    pub fn trainer(&self) -> Result<Trainer, NeuralError> {
        let learner = new_learner(self.host.timeline().network(), &self.card)?;
        let blocks = self.card.shape.blocks(learner.model());
        let plan = &self.card.plan;
        Ok(Trainer::new(learner, blocks, plan.recipe, plan.seed, self.train().len()))
    }

    /// The estimator that a run has led to.
    pub fn finish(self, trainer: Trainer) -> NeuralEstimator {
        NeuralEstimator { card: self.card, learner: trainer.finish() }
    }

    /// The estimator made of parts that were trained apart: the host's part and head, then each
    /// guest's part in the order of the plan.
    pub fn assemble(self, parts: &[&[f32]]) -> Result<NeuralEstimator, NeuralError> {
        let mut learner = new_learner(self.host.timeline().network(), &self.card)?;
        let blocks = self.card.shape.blocks(learner.model());
        let length = |ranges: &[std::ops::Range<usize>]| ranges.iter().map(|r| r.len()).sum();
        let expected: Vec<usize> = blocks.iter().map(|ranges| length(ranges)).collect();
        let found: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        if found != expected {
            let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
            return Err(NeuralError::Mismatch { what: "weights of each party", found, expected });
        }
        learner.update(|parameters, _| {
            for (ranges, part) in blocks.into_iter().zip(parts) {
                let mut rest = *part;
                for range in ranges {
                    let (own, after) = rest.split_at(range.len());
                    parameters[range].copy_from_slice(own);
                    rest = after;
                }
            }
        });
        Ok(NeuralEstimator { card: self.card, learner })
    }

    /// Estimates the scored links of windows, `[window][target link]`, by the weights that a run
    /// would keep now.
    pub fn estimate(&self, trainer: &mut Trainer, study: &Study, windows: &[Step]) -> Estimates {
        let mut states = Vec::with_capacity(windows.len() * study.targets().len());
        trainer.estimate(self, windows, |_, estimate| {
            let all: Vec<LinkState> = self.card.host.states(estimate).collect();
            states.extend(study.targets().iter().map(|link| all[link.index()]));
        });
        states
    }

    /// What its models assume.
    pub fn card(&self) -> &ModelRecord {
        &self.card
    }
}

impl GuestPlan {
    /// A fleet as this guest's part reads it, with scales from the steps of the training part.
    pub fn read(
        &self,
        fleet: &FleetData,
        steps: &std::ops::RangeInclusive<Step>,
    ) -> Result<(GuestInputs, GuestRecord), NeuralError> {
        let scales = GuestScales::fit(fleet, self.features, steps)?;
        let arrangement = self.sub_model.arrangement();
        let inputs = GuestInputs::new(fleet, self.features, arrangement, &scales)?;
        let with_cells = self.features == GuestFeatures::TotalsAndCells;
        let card = GuestRecord {
            common: DataSpec::of(fleet.timeline()),
            fleet: fleet.name().to_owned(),
            rate: fleet.rate(),
            features: self.features,
            cells: with_cells.then(|| fleet.timeline().cell_shape()),
            inputs: scales,
        };
        Ok((inputs, card))
    }
}

fn check_fleets(plan: &NeuralPlan, found: usize) -> Result<(), NeuralError> {
    let expected = plan.guests.len();
    if expected == 0 || found == expected {
        return Ok(());
    }
    let (found, expected) = (found.to_string(), expected.to_string());
    Err(NeuralError::Mismatch { what: "fleets", found, expected })
}

/// The model of a card, with first weights.
pub(crate) fn new_learner(
    network: &Network,
    card: &ModelRecord,
) -> Result<Learner<Fusion>, NeuralError> {
    Ok(card.shape.learner(network, card.plan.seed)?)
}

/// Writes the host's numbers, then each guest's.
pub(crate) fn write_all(host: &HostInputs, guests: &[GuestInputs], last: Step, to: &mut [f32]) {
    let (own, mut rest) = to.split_at_mut(host.len());
    host.write(last, own);
    for guest in guests {
        let (own, after) = rest.split_at_mut(guest.len());
        guest.write(last, own);
        rest = after;
    }
}

pub(crate) fn length(host: &HostInputs, guests: &[GuestInputs]) -> usize {
    host.len() + guests.iter().map(GuestInputs::len).sum::<usize>()
}

impl Examples for NeuralStudy {
    type Window = Step;
    fn inputs(&self) -> usize {
        length(self.host.inputs(), &self.guests)
    }
    fn outputs(&self) -> usize {
        self.host.outputs()
    }
    fn write_input(&self, last: Step, to: &mut [f32]) {
        write_all(self.host.inputs(), &self.guests, last, to);
    }
    fn write_target(&self, last: Step, to: &mut [f32]) {
        self.host.write_target(last, to);
    }
    fn weights(&self) -> &[f32] {
        self.host.weights()
    }
    fn judged(&self) -> &[f32] {
        self.host.judged()
    }
    fn train(&self) -> &[Step] {
        &self.host.split().train
    }
    fn validation(&self) -> &[Step] {
        &self.host.split().validation
    }
}

/// A trained model.
pub struct NeuralEstimator {
    card: ModelRecord,
    learner: Learner<Fusion>,
}

impl NeuralEstimator {
    pub(crate) fn new(card: ModelRecord, learner: Learner<Fusion>) -> Self {
        Self { card, learner }
    }

    /// What it assumes.
    pub fn card(&self) -> &ModelRecord {
        &self.card
    }

    /// Its model and weights.
    pub fn learner(&self) -> &Learner<Fusion> {
        &self.learner
    }

    /// Estimates all links of windows, given by their last steps: `[window][link]`. Needs no truth.
    pub fn estimate_all(
        &self,
        loops: &LoopData,
        fleets: &[FleetData],
        steps: &[Step],
    ) -> Result<Estimates, NeuralError> {
        Ok(self.prepare(loops, fleets)?.estimate(steps))
    }

    /// Reads the features of a dataset, to estimate its windows part by part.
    pub fn prepare(
        &self,
        loops: &LoopData,
        fleets: &[FleetData],
    ) -> Result<PreparedEstimator<'_>, NeuralError> {
        self.card.check(loops, fleets)?;
        let plan = &self.card.plan;
        let host = HostInputs::new(loops, plan.host_arrangement(), &self.card.host.inputs)?;
        let mut guests = Vec::new();
        for ((guest, card), fleet) in plan.guests.iter().zip(&self.card.guests).zip(fleets) {
            let arrangement = guest.sub_model.arrangement();
            guests.push(GuestInputs::new(fleet, guest.features, arrangement, &card.inputs)?);
        }
        // A network whose signals came or went has the same hash, but another clock.
        let (found, expected) = (length(&host, &guests), self.learner.model().input_len());
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(NeuralError::Mismatch { what: "features of a window", found, expected });
        }
        Ok(PreparedEstimator { estimator: self, host, guests })
    }

    /// Estimates the scored links of windows: `[window][target link]`.
    pub fn estimate(&self, study: &Study, steps: &[Step]) -> Result<Estimates, NeuralError> {
        let all = self.estimate_all(study.loops(), study.fleets(), steps)?;
        let of_window = |row: &[LinkState]| -> Estimates {
            study.targets().iter().map(|link| row[link.index()]).collect()
        };
        Ok(all.chunks(self.card.host.outputs.len()).flat_map(of_window).collect())
    }
}

/// A trained model with the features of a dataset.
pub struct PreparedEstimator<'a> {
    estimator: &'a NeuralEstimator,
    host: HostInputs,
    guests: Vec<GuestInputs>,
}

impl PreparedEstimator<'_> {
    /// Estimates all links of windows, given by their last steps: `[window][link]`.
    pub fn estimate(&self, steps: &[Step]) -> Estimates {
        let host = &self.estimator.card.host;
        let mut states = Vec::with_capacity(steps.len() * host.outputs.len());
        estimate_windows(
            &self.estimator.learner,
            steps,
            |last, x| write_all(&self.host, &self.guests, last, x),
            |_, estimate| states.extend(host.states(estimate)),
        );
        states
    }
}

impl ModelRecord {
    /// Refuses data that the model was not made for.
    pub(crate) fn check(&self, loops: &LoopData, fleets: &[FleetData]) -> Result<(), NeuralError> {
        self.host.check(loops)?;
        check_fleets(&self.plan, fleets.len())?;
        self.guests.iter().zip(fleets).try_for_each(|(card, fleet)| card.check(fleet))
    }
}
