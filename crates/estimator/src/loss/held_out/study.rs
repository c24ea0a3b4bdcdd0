//! A fleet's folds as a model learns from them.
//!
//! Everything here comes from loops and folds. No function takes a [`Study`](crate::Study), which
//! holds the truth, nor a path under which it could be found.

use std::sync::Arc;

use sensing::Split;
use traffic::Step;

use super::error::HeldOutError;
use super::estimator::HeldOutEstimator;
use super::folds::{Choices, trailing_state};
use super::local::{ShareVariation, local_shares};
use super::noise::LabelNoise;
use super::penetration::penetration;
use super::rates::FoldRates;
use crate::artifact::neural_estimator::{length, new_learner, write_all};
use crate::artifact::record::{DataSpec, HostRecord, ModelRecord};
use crate::baseline::scale_up::averaged_steps;
use crate::data::host_study::loss_weights;
use crate::data::inputs::{GuestInputs, HostInputs};
use crate::data::scales::{HostScales, Scale};
use crate::data::sources::{FleetData, LocalShares, LoopData};
use crate::data::study::train_span;
use crate::data::timeline::Timeline;
use crate::model::architecture::{GuestSlot, ModelShape};
use crate::model::plan::NeuralPlan;
use crate::trainer::{Examples, Trainer};

/// A window, and the fold that is held out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldOutWindow {
    /// The window's last step.
    pub last: Step,
    /// The fold.
    pub fold: usize,
}

/// How a fleet's share of the traffic is taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penetration {
    /// The same everywhere and always: of a fair sample.
    Constant,
    /// By link and time, as loops and the conservation of vehicles tell.
    Local,
}

/// Loops and folds, ready to be learned from.
pub struct HeldOutStudy {
    timeline: Arc<Timeline>,
    card: ModelRecord,
    rates: FoldRates,
    local: Option<(Arc<LocalShares>, ShareVariation)>,
    noise: LabelNoise,
    host: HostInputs,
    /// What all folds but one see, by that one.
    seen: Vec<GuestInputs>,
    /// `[window, fold, link, (density, flow)]`, scaled, for training and validation.
    labels: Vec<f32>,
    windows: Vec<Step>,
    train: Vec<HeldOutWindow>,
    validation: Vec<HeldOutWindow>,
    weights: Vec<f32>,
    judged: Vec<f32>,
}

impl HeldOutStudy {
    /// Reads loops and the folds of one guest's fleet. The plan says what the guest makes of what it
    /// sees; the penetration rate comes from the loops and the training part.
    pub fn new(
        loops: &LoopData,
        folds: &[FleetData],
        split: &Split,
        plan: NeuralPlan,
        penetrates: Penetration,
    ) -> Result<Self, HeldOutError> {
        let [guest] = &plan.guests[..] else { return Err(HeldOutError::Guests(plan.guests.len())) };
        let span = train_span(&split.train);
        let rates = FoldRates::new(penetration(loops, folds, &span)?, folds.len())?;
        let local = match penetrates {
            Penetration::Constant => None,
            Penetration::Local => {
                let (shares, variation) = local_shares(loops, folds, &span)?;
                Some((Arc::new(shares), variation))
            }
        };
        let shares = local.as_ref().map(|(shares, _)| shares);
        let choices = Choices::of(loops, folds, &rates)?.shared_as(shares);
        let timeline = Arc::clone(loops.timeline());

        let scales = HostScales::fit(loops, &span).map_err(crate::NeuralError::from)?;
        let host = HostInputs::new(loops, plan.host_arrangement(), &scales)
            .map_err(crate::NeuralError::from)?;
        // One model for all choices of folds, so one set of scales.
        let (first, guest_card) = guest.read(&choices.seen[0], &span)?;
        let mut seen = vec![first];
        for fleet in &choices.seen[1..] {
            let arrangement = guest.sub_model.arrangement();
            let inputs = GuestInputs::new(fleet, guest.features, arrangement, &guest_card.inputs);
            seen.push(inputs.map_err(crate::NeuralError::from)?);
        }
        let outputs = output_scales(&choices, &rates, split, &timeline);
        let shape = guest.shape(&seen[0], plan.sizes);
        let slots = vec![GuestSlot::of(&shape)];
        let shape = ModelShape { host: plan.host_shape(&host, slots), guests: vec![shape] };
        let names = loops.names();
        let common = DataSpec::of(&timeline);
        let host_card = HostRecord { common, loops: names, inputs: scales, outputs };

        let windows: Vec<Step> = [&split.train[..], &split.validation[..]].concat();
        let each = |windows: &[Step]| -> Vec<HeldOutWindow> {
            let of_window = |&last| (0..folds.len()).map(move |fold| HeldOutWindow { last, fold });
            windows.iter().flat_map(of_window).collect()
        };
        let recipe = plan.recipe;
        Ok(Self {
            noise: LabelNoise::of(&choices.held_out, &rates, &split.train),
            labels: labels(&choices, &windows, &plan, &host_card, &timeline),
            train: each(&split.train),
            validation: each(&split.validation),
            weights: loss_weights(timeline.network(), recipe.flow_weight, recipe.other_links),
            judged: loss_weights(timeline.network(), recipe.flow_weight, 0.0),
            card: ModelRecord { plan, shape, host: host_card, guests: vec![guest_card] },
            timeline,
            rates,
            local,
            host,
            seen,
            windows,
        })
    }

    /// The shares of fleet and folds, with the penetration rate that the loops tell.
    pub fn rates(&self) -> &FoldRates {
        &self.rates
    }

    /// How the share was found to vary, where that was asked for.
    pub fn variation(&self) -> Option<ShareVariation> {
        self.local.as_ref().map(|(_, variation)| *variation)
    }

    /// How noisy the labels of the training part are.
    pub fn noise(&self) -> &LabelNoise {
        &self.noise
    }

    /// What its models assume.
    pub fn card(&self) -> &ModelRecord {
        &self.card
    }

    /// A training run before its first epoch.
    pub fn trainer(&self) -> Result<Trainer, HeldOutError> {
        let learner = new_learner(self.timeline.network(), &self.card)?;
        let blocks = self.card.shape.blocks(learner.model());
        let plan = &self.card.plan;
        Ok(Trainer::new(learner, blocks, plan.recipe, plan.seed, self.train.len()))
    }

    /// The estimator that a run has led to.
    pub fn finish(self, trainer: Trainer) -> HeldOutEstimator {
        let local = self.local.map(|(shares, _)| shares);
        HeldOutEstimator::new(self.card, self.rates, trainer.finish(), local)
    }
}

/// One scale for each quantity, from what the whole fleet scales up to in the training part.
fn output_scales(
    choices: &Choices,
    rates: &FoldRates,
    split: &Split,
    timeline: &Timeline,
) -> Vec<[Scale; 2]> {
    let links = timeline.network().links().len();
    let mut states = Vec::with_capacity(links * split.train.len());
    for &step in &split.train {
        let of_link = |link| choices.whole.scaled_up(step, link);
        states.extend(timeline.network().link_ids().map(of_link));
    }
    let density = states.iter().map(|state| state.density.get() / rates.fleet());
    let flow = states.iter().map(|state| state.flow.get() / rates.fleet());
    vec![[Scale::fit(density), Scale::fit(flow)]; links]
}

/// What each held-out fold scales up to, window by window.
fn labels(
    choices: &Choices,
    windows: &[Step],
    plan: &NeuralPlan,
    card: &HostRecord,
    timeline: &Timeline,
) -> Vec<f32> {
    let steps = averaged_steps(plan.target, timeline.step());
    let mut labels = Vec::new();
    for &last in windows {
        for fold in &choices.held_out {
            for (link, scales) in timeline.network().link_ids().zip(&card.outputs) {
                let state = trailing_state(fold, last, steps, link);
                let pair = [state.density.get(), state.flow.get()];
                labels.extend(pair.iter().zip(scales).map(|(value, scale)| scale.apply(*value)));
            }
        }
    }
    labels
}

impl Examples for HeldOutStudy {
    type Window = HeldOutWindow;

    fn inputs(&self) -> usize {
        length(&self.host, &self.seen[..1])
    }
    fn outputs(&self) -> usize {
        self.weights.len()
    }
    fn write_input(&self, sample: HeldOutWindow, to: &mut [f32]) {
        let seen = &self.seen[sample.fold..=sample.fold];
        write_all(&self.host, seen, sample.last, to);
    }
    fn write_target(&self, sample: HeldOutWindow, to: &mut [f32]) {
        let window = self.windows.partition_point(|window| *window < sample.last);
        assert_eq!(self.windows.get(window), Some(&sample.last), "a window to learn from");
        let at = (window * self.rates.folds() + sample.fold) * self.weights.len();
        to.copy_from_slice(&self.labels[at..at + self.weights.len()]);
    }
    fn weights(&self) -> &[f32] {
        &self.weights
    }
    fn judged(&self) -> &[f32] {
        &self.judged
    }
    fn train(&self) -> &[HeldOutWindow] {
        &self.train
    }
    fn validation(&self) -> &[HeldOutWindow] {
        &self.validation
    }
}
