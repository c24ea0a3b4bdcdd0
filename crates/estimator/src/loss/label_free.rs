//! Training without ground truth, all data in one place: measurements and a traffic model.
//!
//! [`LabelFreeStudy`] takes loops, fleets and the borders of the parts; truth has no way in. Which
//! measurements count is a choice ([`Measures`]), and so is the traffic model's share. With a held-out
//! fold among the measurements, samples are windows as seen by all folds but one, and segments have one
//! view each.

use std::collections::BTreeMap;
use std::sync::Arc;

use neural::Layer;
use sensing::Split;
use traffic::Step;

use crate::artifact::neural_estimator::{NeuralEstimator, length, new_learner, write_all};
use crate::artifact::record::ModelRecord;
use crate::data::host_study::HostStudy;
use crate::data::inputs::GuestInputs;
use crate::data::measurement_table::MeasurementTable;
use crate::data::measurements::{Gathered, MeasuredBatch, MeasurementSource};
use crate::data::segments::{epoch_order, segments, whole_batch};
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::train_span;
use crate::data::timeline::Timeline;
use crate::loss::held_out::{
    Choices, FoldRates, HeldOutEstimator, LabelNoise, held_out_totals, penetration,
};
use crate::loss::label_free_error::LabelFreeError;
use crate::loss::objective::Objective;
use crate::loss::physics_informed::{Physics, PhysicsInformed, SYSTEMATIC, SomeLabels};
use crate::model::architecture::{GuestSlot, ModelShape};
use crate::model::plan::NeuralPlan;
use crate::trainer::{Epoch, TrainError, Trainer};
use traffic::{FleetView, Window};

/// Samples that are judged together: many segments.
const JUDGED: usize = 512;
/// Names of those who measure.
const HOST: &str = "host";
const GUEST: &str = "guest";

/// What a loss without ground truth is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Flow at loops.
    pub loops: bool,
    /// Speed of the fleet.
    pub speeds: bool,
    /// A fold of the fleet that the model does not see.
    pub held_out: bool,
    /// The usual flow of each link, for who has nothing else to tell how much traffic there is.
    pub usual: bool,
}

/// Loops and fleets, ready to be learned from, with what they measure.
pub struct LabelFreeStudy {
    timeline: Arc<Timeline>,
    card: ModelRecord,
    host: HostStudy,
    /// What is seen of the fleet, by view.
    seen: Vec<GuestInputs>,
    measured: BTreeMap<&'static str, MeasurementTable>,
    rates: Option<FoldRates>,
    train: Vec<Window>,
    validation: Vec<Window>,
    segment: usize,
}

/// A run: the trainer with what it makes small.
pub struct LabelFreeRun {
    /// Weights and history.
    pub trainer: Trainer,
    objective: PhysicsInformed,
    gathered: BTreeMap<&'static str, Gathered>,
    x: Vec<f32>,
    y: Vec<f32>,
    dy: Vec<f32>,
}

impl LabelFreeStudy {
    /// Reads loops and one guest's fleet: the fleet itself, or its folds if one is to be held out.
    /// `queues`: what queue profiles measure, if that counts too.
    pub fn new(
        loops: &LoopData,
        fleets: &[FleetData],
        split: &Split,
        mut plan: NeuralPlan,
        measures: Measures,
        queues: Option<MeasurementTable>,
        segment: usize,
    ) -> Result<Self, LabelFreeError> {
        let [guest] = &plan.guests[..] else {
            return Err(LabelFreeError::Guests(plan.guests.len()));
        };
        let span = train_span(&split.train);
        // Batches are of whole segments; the schedule of learning rates counts them.
        plan.recipe.batch = whole_batch(plan.recipe.batch, segment);
        let host = HostStudy::without_truth(loops, split, &plan)?;
        // Beside a fold, whose noise averages out over samples, what errs alike each time counts less.
        let trust = if measures.held_out { SYSTEMATIC } else { 1.0 };
        let queues = queues.map(|queues| queues.trusted(trust));
        let mut tables: Vec<MeasurementTable> = queues.into_iter().collect();
        let mut rates = None;
        let choices;
        let views: Vec<&FleetData> = if measures.held_out {
            let own = FoldRates::new(penetration(loops, fleets, &span)?, fleets.len())?;
            choices = Choices::of(loops, fleets, &own)?;
            let noise = LabelNoise::of(&choices.held_out, &own, &split.train);
            tables.extend(held_out_totals(&choices, &own, &noise));
            rates = Some(own);
            choices.seen.iter().collect()
        } else {
            let [fleet] = fleets else { return Err(LabelFreeError::Fleets(fleets.len())) };
            vec![fleet]
        };
        if measures.speeds {
            let of_view = views.iter().map(|fleet| MeasurementTable::fleet_speeds(fleet));
            let of_view: Vec<_> = of_view.collect();
            let speeds = if measures.held_out {
                MeasurementTable::of_views(of_view)
            } else {
                of_view.into_iter().next()
            };
            tables.extend(speeds.map(|speeds| speeds.trusted(trust)));
        }
        if measures.usual {
            let rate = penetration(loops, fleets, &span)?;
            tables.push(MeasurementTable::usual_flows(loops.timeline(), fleets, rate, &span));
        }
        let mut measured = BTreeMap::new();
        if measures.loops {
            measured.insert(HOST, MeasurementTable::loop_flows(loops, &span).trusted(trust));
        }
        if let Some(all) = tables.into_iter().reduce(MeasurementTable::beside) {
            measured.insert(GUEST, all);
        }

        // One model for all views, so one set of scales.
        let (first, guest_card) = guest.read(views[0], &span)?;
        let mut seen = vec![first];
        for fleet in &views[1..] {
            let arrangement = guest.sub_model.arrangement();
            let inputs = GuestInputs::new(fleet, guest.features, arrangement, &guest_card.inputs);
            seen.push(inputs.map_err(crate::NeuralError::from)?);
        }
        let shape = guest.shape(&seen[0], plan.sizes);
        let slots = vec![GuestSlot::of(&shape)];
        let shape = ModelShape { host: plan.host_shape(host.inputs(), slots), guests: vec![shape] };
        let each = |windows: &[Step]| -> Vec<Window> {
            let views: Vec<FleetView> = match &rates {
                None => vec![FleetView::WHOLE],
                Some(rates) => (0..rates.folds()).filter_map(FleetView::without).collect(),
            };
            let of_view = |view| windows.iter().map(move |&last| Window { last, view });
            segments(&views.into_iter().flat_map(of_view).collect::<Vec<_>>(), segment)
        };
        let card = ModelRecord { plan, shape, host: host.card().clone(), guests: vec![guest_card] };
        let (train, validation) = (each(&split.train), each(&split.validation));
        let timeline = Arc::clone(loops.timeline());
        Ok(Self { timeline, card, host, seen, measured, rates, train, validation, segment })
    }

    /// What its models assume.
    pub fn card(&self) -> &ModelRecord {
        &self.card
    }

    /// Samples of an epoch.
    pub fn train(&self) -> &[Window] {
        &self.train
    }

    /// A training run before its first epoch. With a traffic model, or none; with labels of some
    /// steps, or none.
    pub fn run(
        &self,
        physics: Option<Physics>,
        labels: Option<SomeLabels>,
    ) -> Result<LabelFreeRun, LabelFreeError> {
        let learner = new_learner(self.timeline.network(), &self.card)?;
        let blocks = self.card.shape.blocks(learner.model());
        let plan = &self.card.plan;
        let trainer = Trainer::new(learner, blocks, plan.recipe, plan.seed, self.train.len());
        let parties = self.measured.iter();
        let parties = parties.map(|(name, table)| ((*name).to_owned(), table.entries().to_vec()));
        let outputs = self.card.host.outputs.clone();
        let trust = if self.rates.is_some() { SYSTEMATIC } else { 1.0 };
        let physics = physics.map(|physics| physics.trusted(trust));
        let mut objective =
            PhysicsInformed::new(physics, outputs, parties.collect()).map_err(TrainError::from)?;
        if let Some(labels) = labels {
            objective = objective.with_labels(labels).map_err(TrainError::from)?;
        }
        let [x, y, dy] = [const { Vec::new() }; 3];
        Ok(LabelFreeRun { trainer, objective, gathered: BTreeMap::new(), x, y, dy })
    }

    /// The estimator that a run has led to.
    pub fn finish(self, run: LabelFreeRun) -> LabelFreeEstimator {
        let learner = run.trainer.finish();
        match self.rates {
            None => LabelFreeEstimator::Whole(NeuralEstimator::new(self.card, learner)),
            Some(rates) => {
                LabelFreeEstimator::HeldOut(HeldOutEstimator::of_totals(self.card, rates, learner))
            }
        }
    }

    fn write_input(&self, sample: Window, to: &mut [f32]) {
        let view = sample.view.held_out().unwrap_or(0);
        write_all(self.host.inputs(), &self.seen[view..=view], sample.last, to);
    }
}

impl LabelFreeRun {
    /// One pass over the training part, then the validation part.
    pub fn epoch(&mut self, data: &LabelFreeStudy) -> Result<Epoch, TrainError> {
        let recipe = &data.card.plan.recipe;
        let number = self.trainer.history().len() as u64 + 1;
        let order = if recipe.shuffle {
            epoch_order(&data.train, data.segment, data.card.plan.seed, number)
        } else {
            data.train.clone()
        };
        let Self { trainer, objective, gathered, x, y, dy } = self;
        let train = trainer.pass(&order, recipe.batch, |trainer, batch, step| {
            let measured = gather(data, batch, gathered);
            let inputs = length(data.host.inputs(), &data.seen[..1]);
            x.resize(batch.len() * inputs, 0.0);
            for (&sample, x) in batch.iter().zip(x.chunks_exact_mut(inputs)) {
                data.write_input(sample, x);
            }
            let outputs = batch.len() * trainer.learner.model().output_len();
            y.resize(outputs, 0.0);
            dy.resize(outputs, 0.0);
            let noise = Some(trainer.noise(step));
            trainer.learner.forward(x, y, noise);
            let loss = objective.train(batch, &measured, y, dy)?;
            trainer.learner.backward(x, dy, None, noise);
            trainer.update(step);
            objective.update();
            Ok(loss)
        })?;
        let validation = self.judge(data, &data.validation)?;
        self.trainer.record(train, validation)
    }

    /// The mean loss of some samples by the weights that are judged.
    fn judge(&mut self, data: &LabelFreeStudy, samples: &[Window]) -> Result<f64, TrainError> {
        let mut total = 0.0;
        for block in samples.chunks(whole_batch(JUDGED, data.segment)) {
            self.y.clear();
            let y = &mut self.y;
            let write = |sample, x: &mut [f32]| data.write_input(sample, x);
            self.trainer.estimate_with(block, write, |_, estimate| y.extend_from_slice(estimate));
            let measured = gather(data, block, &mut self.gathered);
            total = self.objective.judge(block, &measured, &self.y, total)?;
        }
        Ok(total / samples.len().max(1) as f64)
    }
}

fn gather<'a>(
    data: &LabelFreeStudy,
    samples: &[Window],
    gathered: &'a mut BTreeMap<&'static str, Gathered>,
) -> MeasuredBatch<'a> {
    for (name, table) in &data.measured {
        gathered.entry(name).or_default().gather(table, samples);
    }
    gathered.iter().map(|(name, gathered)| (*name, gathered.readings())).collect()
}

/// A model trained without ground truth, at use.
pub enum LabelFreeEstimator {
    /// On what a whole fleet sees.
    Whole(NeuralEstimator),
    /// On what all folds but one see.
    HeldOut(HeldOutEstimator),
}

impl LabelFreeEstimator {
    /// Estimates the scored links of windows, given by their last steps: `[window][target link]`.
    pub fn estimate(
        &self,
        loops: &LoopData,
        fleets: &[FleetData],
        windows: &[Step],
    ) -> Result<crate::metrics::Estimates, LabelFreeError> {
        match self {
            Self::HeldOut(estimator) => Ok(estimator.estimate(loops, fleets, windows)?),
            Self::Whole(estimator) => {
                let all = estimator.estimate_all(loops, fleets, windows)?;
                let network = loops.timeline().network();
                let targets = network.targets();
                let rows = all.chunks(network.links().len().max(1));
                Ok(rows.flat_map(|row| targets.iter().map(|link| row[link.index()])).collect())
            }
        }
    }
}
