//! A fleet's folds as a model learns from them.
//!
//! Everything here comes from loops and folds. No function takes a [`Study`](crate::Study), which
//! holds the truth, nor a path under which it could be found.

use std::sync::Arc;

use sensing::Split;
use serde::{Deserialize, Serialize};
use traffic::{FleetView, Step, Window};

use super::error::HeldOutError;
use super::estimator::HeldOutEstimator;
use super::folds::{Choices, trailing_state};
use super::local::{FollowedShares, LocalShareModel};
use super::noise::LabelNoise;
use super::penetration::penetration;
use super::rates::FoldRates;
use crate::artifact::record::{DataSpec, HostRecord, ModelRecord};
use crate::baseline::scale_up::averaged_steps;
use crate::data::inputs::{GuestInputs, HostInputs};
use crate::data::joint::{JointData, ViewInputs};
use crate::data::scales::{HostScales, Scale};
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::train_span;
use crate::data::timeline::Timeline;
use crate::data::window_source::WindowSource;
use crate::loss::objective::{Labelled, LossWeights};
use crate::model::architecture::{GuestSlot, ModelShape};
use crate::model::plan::NeuralPlan;

/// How a fleet's share of the traffic is taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Penetration {
    /// The same everywhere and always: of a fair sample.
    Constant,
    /// By link and time, as loops and the conservation of vehicles tell.
    Local,
}

/// Loops and folds, ready to be learned from.
pub struct HeldOutStudy {
    data: JointData,
    rates: FoldRates,
    local: Option<FollowedShares>,
    noise: LabelNoise,
    labels: Arc<HeldOutLabels>,
    weights: LossWeights,
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
        let span = train_span(&split.train, loops.timeline().window());
        let rates = FoldRates::new(penetration(loops, folds, &span)?, folds.len())?;
        let local = match penetrates {
            Penetration::Constant => None,
            Penetration::Local => {
                let model = LocalShareModel::fit(loops, folds, &span)?;
                Some(FollowedShares::of(model, loops, folds)?)
            }
        };
        let shares = local.as_ref().map(|local| &local.shares);
        let choices = Choices::of(loops, folds, &rates)?.shared_as(shares);
        let timeline = Arc::clone(loops.timeline());

        let scales = HostScales::fit(loops, &span).map_err(crate::artifact::NeuralError::from)?;
        let host = HostInputs::new(loops, plan.host_arrangement(), &scales)
            .map_err(crate::artifact::NeuralError::from)?;
        // One model for all choices of folds, so one set of scales.
        let (first, guest_record) = guest.read(&choices.seen[0], &span)?;
        let mut seen = vec![first];
        for fleet in &choices.seen[1..] {
            let arrangement = guest.sub_model.arrangement();
            let inputs = GuestInputs::new(fleet, guest.features, arrangement, &guest_record.inputs);
            seen.push(inputs.map_err(crate::artifact::NeuralError::from)?);
        }
        let outputs = output_scales(&choices, &rates, split, &timeline);
        let shape = guest.shape(&seen[0], plan.sizes);
        let slots = vec![GuestSlot::of(&shape)];
        let shape = ModelShape { host: plan.host_shape(&host, slots), guests: vec![shape] };
        let names = loops.names();
        let common = DataSpec::of(&timeline);
        let host_record = HostRecord { common, loops: names, inputs: scales, outputs };

        let windows: Vec<Step> = [&split.train[..], &split.validation[..]].concat();
        let views: Vec<FleetView> = (0..folds.len()).filter_map(FleetView::without).collect();
        let each = |windows: &[Step]| -> Vec<Window> {
            let of_window = |&last| views.iter().map(move |&view| Window { last, view });
            windows.iter().flat_map(of_window).collect()
        };
        let labels = HeldOutLabels {
            labels: labels(&choices, &windows, &plan, &host_record, &timeline),
            outputs: 2 * timeline.network().links().len(),
            folds: folds.len(),
            windows,
        };
        Ok(Self {
            noise: LabelNoise::of(&choices.held_out, &rates, &split.train),
            labels: Arc::new(labels),
            weights: LossWeights::of(timeline.network(), &plan.recipe),
            data: JointData {
                train: each(&split.train),
                validation: each(&split.validation),
                record: ModelRecord { plan, shape, host: host_record, guests: vec![guest_record] },
                host: Arc::new(host),
                guests: vec![Arc::new(ViewInputs(seen))],
                segment: 1,
                network: timeline.shared_network(),
            },
            rates,
            local,
        })
    }

    /// The shares of fleet and folds, with the penetration rate that the loops tell.
    pub fn rates(&self) -> &FoldRates {
        &self.rates
    }

    /// How noisy the labels of the training part are.
    pub fn noise(&self) -> &LabelNoise {
        &self.noise
    }

    /// Inputs and windows.
    pub fn data(&self) -> &JointData {
        &self.data
    }

    /// The loss: squared errors against what the fold that is held out scales up to.
    pub fn objective(&self) -> Labelled<Arc<HeldOutLabels>> {
        Labelled::new(Arc::clone(&self.labels), self.weights.clone())
    }

    /// The estimator made of trained parts: the host's part and head, then the guest's.
    pub fn assemble(self, parts: &[&[f32]]) -> Result<HeldOutEstimator, HeldOutError> {
        let learner = self.data.assemble(parts)?;
        Ok(HeldOutEstimator::new(self.data.record, self.rates, learner, self.local))
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
    record: &HostRecord,
    timeline: &Timeline,
) -> Vec<f32> {
    let steps = averaged_steps(plan.target, timeline.step());
    let mut labels = Vec::new();
    for &last in windows {
        for fold in &choices.held_out {
            for (link, scales) in timeline.network().link_ids().zip(&record.outputs) {
                let state = trailing_state(fold, last, steps, link);
                let pair = [state.density.get(), state.flow.get()];
                labels.extend(pair.iter().zip(scales).map(|(value, scale)| scale.apply(*value)));
            }
        }
    }
    labels
}

/// What each held-out fold scales up to, `[window, fold, link, (density, flow)]`, scaled.
pub struct HeldOutLabels {
    windows: Vec<Step>,
    folds: usize,
    outputs: usize,
    labels: Vec<f32>,
}

impl WindowSource for HeldOutLabels {
    fn row_len(&self) -> usize {
        self.outputs
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        let row = self.windows.partition_point(|own| *own < window.last);
        assert_eq!(self.windows.get(row), Some(&window.last), "a window to learn from");
        let at = (row * self.folds + window.view.held_out().unwrap_or(0)) * self.outputs;
        to.copy_from_slice(&self.labels[at..at + self.outputs]);
    }
}
