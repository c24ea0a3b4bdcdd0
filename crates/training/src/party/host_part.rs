//! The host's data, sub-model and head, as a federation drives them.

use std::path::Path;
use std::sync::Arc;

use estimator::artifact::IntervalsError;
use estimator::data::train_span;
use estimator::loss::counted_per_step;
use estimator::{
    Architecture, Arrangement, Estimates, GuestSlot, HostStudy, Intervals, LoopData, NeuralPlan,
    Score, Study, TrainedHost, TrainingSignal, score,
};
use federation::host::MakeHostModel;
use federation::{Agreed, MeasurementBounds, ModelFailure, Samples};
use protocol::message::Terms;
use protocol::message::parts::Text;
use protocol::{Compression, PartyId, Plan};
use sensing::Split;
use traffic::{LinkId, Step};

use super::guest_part::terms;
use super::guest_party::CustomSubModelSpec;
use super::host_party::{HOST_SUB_MODEL, HostParty, HostWindows};
use super::trained::TrainedParty;
use crate::error::Result;
use crate::fingerprint::run_fingerprint;
use crate::learner::{CustomGuestLearner, HostLearner, host_plan, update_rule};
use crate::signal::{LossOptions, split_of, windows_of};

/// All that the host brings.
pub struct HostPart {
    loops: Arc<LoopData>,
    windows: Arc<HostStudy>,
    /// With ground truth: to learn from, or for the score alone.
    truth: Option<Study>,
    plan: NeuralPlan,
    options: LossOptions,
}

impl HostPart {
    /// Reads loops and nothing of any fleet; ground truth only where it is learned from, or, if there is
    /// any, to score the estimates at the end.
    pub fn read(
        folder: &Path,
        plan: NeuralPlan,
        options: LossOptions,
        window: usize,
    ) -> Result<Self> {
        let loops = LoopData::open(folder)?.windowed(window);
        let truth = || Study::open_fleets(folder, &[])?.windowed(window);
        let (windows, truth) = match options.signal.has_labels() {
            true => {
                let study = truth()?;
                (HostStudy::new(&study, &plan)?, Some(study))
            }
            false => {
                let windows = HostStudy::without_truth(&loops, &split_of(&loops), &plan)?;
                (windows, truth().ok())
            }
        };
        Ok(HostPart { loops: Arc::new(loops), windows: Arc::new(windows), truth, plan, options })
    }

    /// What all parties must agree on.
    pub fn terms(&self, compression: Compression) -> Terms {
        terms(self.windows.timeline(), compression)
    }

    /// What its checkpoints belong to.
    pub fn fingerprint(
        &self,
        slots: &[GuestSlot],
        custom: Option<&CustomSubModelSpec>,
    ) -> Result<Text> {
        let (record, windows) = (self.windows.record(), self.windows.timeline().windows());
        let embedding = custom.map(|custom| custom.embedding);
        run_fingerprint(&(&self.plan, record, slots, windows, self.options, embedding))
    }

    /// What is left of it when the training has finished: all that it needs to estimate live.
    pub fn trained(
        &self,
        name: &PartyId,
        slots: &[GuestSlot],
        own: Option<&CustomSubModelSpec>,
    ) -> TrainedParty<TrainedHost> {
        trained(&self.windows, &self.loops, &self.plan, name, (slots.to_vec(), own))
    }

    /// Links of the network.
    pub fn links(&self) -> usize {
        self.windows.timeline().network().links().len()
    }

    /// What it needs to check what guests measure.
    pub fn measurement_bounds(&self) -> MeasurementBounds {
        measurement_bounds(&self.loops, self.windows.split())
    }

    /// The samples to learn from, to validate by and to be estimated at the end: the test part, and what else
    /// the signal asks for.
    pub fn samples(&self) -> Samples {
        let split = self.windows.split();
        samples(&self.options.signal, split, &split.test)
    }

    /// Fits the read-out of a model that learned from labels, and moves its estimates.
    pub fn fit_read_out(&self, model: &mut HostParty) -> Result<(), ModelFailure> {
        model.fit_read_out(&self.windows)
    }

    /// Makes the host's model, with slots for its guests, when the plan is known.
    pub fn maker(
        &self,
        slots: Vec<GuestSlot>,
        own: Option<&CustomSubModelSpec>,
    ) -> MakeHostModel<HostParty> {
        maker(&self.windows, &self.loops, &self.plan, self.options, (slots, own))
    }

    /// Errors on the samples that were estimated, over the links that are scored; none without truth.
    pub fn score(&self, model: &HostParty) -> Option<Score> {
        let study = self.truth.as_ref()?;
        let test = &self.windows.split().test;
        let estimates = model.estimates();
        let scored = estimates.iter().filter(|(step, _)| test.binary_search(step).is_ok());
        let (steps, rows): (Vec<Step>, Vec<&[f32]>) =
            scored.map(|(step, row)| (*step, row.as_slice())).unzip();
        let states = of_targets(study.targets(), &self.windows, rows.into_iter());
        Some(score(study, self.plan.target, &steps, &states))
    }

    /// Intervals from the validation part; none without truth that is learned from.
    pub fn intervals(&self, model: &HostParty) -> Option<Result<Intervals, IntervalsError>> {
        let study = self.truth.as_ref().filter(|_| self.options.signal.has_labels())?;
        let links: Vec<LinkId> = study.network().link_ids().collect();
        let estimates = model.estimates();
        let (mut states, mut truths) = (Vec::new(), Vec::new());
        for step in &self.windows.split().validation {
            let Some(row) = estimates.get(step) else { continue };
            states.extend(self.windows.record().states(row));
            truths.extend(links.iter().map(|link| study.target(self.plan.target, *step, *link)));
        }
        Some(Intervals::calibrate(&states, &truths, links.len()))
    }
}

/// What a host needs to check what guests measure.
pub(crate) fn measurement_bounds(loops: &LoopData, split: &Split) -> MeasurementBounds {
    let links = loops.timeline().network().links().len() as u32;
    MeasurementBounds {
        links,
        counted: counted_per_step(loops, &train_span(&split.train, loops.timeline().window())),
    }
}

/// The samples of a run. What is estimated is seen by whole fleets: some windows, and where truth is learned from the
/// training and validation part too, for the read-out and the intervals.
pub(crate) fn samples(signal: &TrainingSignal, split: &Split, estimate: &[Step]) -> Samples {
    let mut estimate = estimate.to_vec();
    if signal.has_labels() {
        estimate.extend(split.train.iter().chain(&split.validation));
        estimate.sort_unstable();
        estimate.dedup();
    }
    Samples {
        train: windows_of(signal, &split.train),
        validation: windows_of(signal, &split.validation),
        ..Samples::whole(&[], &[], &estimate)
    }
}

/// What is left of a host when the training has finished.
pub(crate) fn trained(
    windows: &HostStudy,
    loops: &LoopData,
    plan: &NeuralPlan,
    name: &PartyId,
    (slots, own): (Vec<GuestSlot>, Option<&CustomSubModelSpec>),
) -> TrainedParty<TrainedHost> {
    let slots = with_own(slots, own, plan.architecture);
    let part = TrainedHost {
        host: windows.record().clone(),
        shape: plan.host_shape(windows.inputs(), slots),
        target: plan.target,
    };
    TrainedParty::new(name, part, Arc::clone(loops.timeline()))
}

/// The slots of guests, and of a sub-model of the host's own.
fn with_own(
    mut slots: Vec<GuestSlot>,
    own: Option<&CustomSubModelSpec>,
    architecture: Architecture,
) -> Vec<GuestSlot> {
    slots.extend(own.map(|own| GuestSlot {
        name: HOST_SUB_MODEL.to_owned(),
        embedding: own.embedding.unwrap_or(architecture.embedding()),
        direct: false,
    }));
    slots
}

/// Makes the host's model, with slots for its guests and its custom sub-model, when the plan is known.
pub(crate) fn maker(
    windows: &Arc<HostStudy>,
    loops: &Arc<LoopData>,
    plan: &NeuralPlan,
    options: LossOptions,
    (slots, own): (Vec<GuestSlot>, Option<&CustomSubModelSpec>),
) -> MakeHostModel<HostParty> {
    let (windows, loops, own) = (Arc::clone(windows), Arc::clone(loops), own.cloned());
    let links = windows.timeline().network().links().len();
    let sample = match plan.host_arrangement() {
        Arrangement::ByLink => vec![windows.inputs().len()],
        Arrangement::ByStep => {
            vec![windows.inputs().window(), links, windows.inputs().channels()]
        }
    };
    let slots = with_own(slots, own.as_ref(), plan.architecture);
    let width = slots.last().map_or(0, |slot| slot.embedding.len(links));
    let (shape, recipe) = (plan.host_shape(windows.inputs(), slots), plan.recipe);
    Box::new(move |plan: &Plan, agreed: &Agreed| {
        let plan = &host_plan(plan, &recipe);
        let network = windows.timeline().network();
        let model = estimator::HostModel::new(&shape, network, plan.seed, update_rule(plan))
            .map_err(|error| ModelFailure(error.to_string()))?;
        let loss = options.loss(&windows, &loops, agreed)?;
        let part = match &own {
            None => None,
            Some(own) => {
                let (model, study) = ((own.make)(&sample)?, Arc::clone(&windows));
                // It is the host's: it moves with the host.
                let mut plan = plan.clone();
                plan.local.count = plan.local.of_host();
                Some(CustomGuestLearner::new(model, study, width, &plan, Vec::new())?)
            }
        };
        let seen = HostWindows { study: Arc::clone(&windows), blind: part.is_some() };
        let learner = HostLearner::new(model, seen, loss, plan)?;
        let learner = match options.signal.has_labels() {
            true => learner.keeping_embeddings(),
            false => learner,
        };
        HostParty::new(learner, part)
    })
}

/// The states of the links that are scored, of one estimate after the other.
pub(crate) fn of_targets<'a>(
    targets: &[LinkId],
    windows: &HostStudy,
    estimates: impl Iterator<Item = &'a [f32]>,
) -> Estimates {
    let mut states = Vec::new();
    for estimate in estimates {
        let all: Vec<_> = windows.record().states(estimate).collect();
        states.extend(targets.iter().map(|link| all[link.index()]));
    }
    states
}
