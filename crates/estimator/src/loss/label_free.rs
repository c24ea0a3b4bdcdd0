//! Training without ground truth, all data in one place: measurements and a traffic model.
//!
//! [`LabelFreeStudy`] takes loops, fleets and the borders of the parts, and no ground truth. Which
//! measurements count is a choice ([`MeasuredTerms`]), and so is the traffic model. With a held-out
//! fold among the measurements, each window is seen by all folds but one, and a segment has one view.

use std::collections::BTreeMap;
use std::sync::Arc;

use sensing::Split;
use thiserror::Error;
use traffic::{FleetView, Step, Window};

use crate::artifact::neural_estimator::{NeuralError, NeuralEstimator};
use crate::artifact::record::ModelRecord;
use crate::artifact::saved::SavedEstimator;
use crate::data::host_study::HostStudy;
use crate::data::inputs::GuestInputs;
use crate::data::joint::{JointData, ViewInputs};
use crate::data::measurement_table::MeasurementTable;
use crate::data::measurements::MeasurementSource;
use crate::data::segments::whole_batch;
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::train_span;
use crate::loss::held_out::{
    Choices, FoldRates, HeldOutError, HeldOutEstimator, LabelNoise, held_out_totals, penetration,
};
use crate::loss::physics_informed::{Physics, PhysicsInformed, SomeLabels};
use crate::loss::signal::MeasuredTerms;
use crate::model::architecture::{GuestSlot, ModelShape};
use crate::model::plan::NeuralPlan;
use crate::model::sub_model::PassError;

/// What is wrong with data or plan.
#[derive(Debug, Error)]
pub enum LabelFreeError {
    /// The model or its inputs.
    #[error(transparent)]
    Neural(#[from] NeuralError),
    /// The folds.
    #[error(transparent)]
    HeldOut(#[from] HeldOutError),
    /// The loss.
    #[error(transparent)]
    Loss(#[from] PassError),
    /// The traffic model.
    #[error(transparent)]
    Physics(#[from] physics::ModelError),
    /// What the traffic model is calibrated with.
    #[error(transparent)]
    Calibration(#[from] physics::calibrate::CalibrationError),
    /// Not one guest.
    #[error("found {0} guests, expected one, all of whose data are in one place")]
    Guests(usize),
    /// Not one fleet where none is held out.
    #[error("found {0} fleets, expected one where no fold is held out")]
    Fleets(usize),
}

/// Names of those who measure.
const HOST: &str = "host";
const GUEST: &str = "guest";

/// Loops and fleets, ready to be learned from, with what they measure.
pub struct LabelFreeStudy {
    data: JointData,
    terms: MeasuredTerms,
    measured: BTreeMap<String, Arc<MeasurementTable>>,
    rates: Option<FoldRates>,
}

impl LabelFreeStudy {
    /// Reads loops and one guest's fleet: the fleet itself, or its folds if one is to be held out.
    /// `queues`: what queue profiles measure, if that counts too.
    pub fn new(
        loops: &LoopData,
        fleets: &[FleetData],
        split: &Split,
        mut plan: NeuralPlan,
        terms: MeasuredTerms,
        queues: Option<MeasurementTable>,
        segment: usize,
    ) -> Result<Self, LabelFreeError> {
        let [guest] = &plan.guests[..] else {
            return Err(LabelFreeError::Guests(plan.guests.len()));
        };
        let span = train_span(&split.train, loops.timeline().window());
        // Batches are of whole segments; the schedule of learning rates counts them.
        plan.recipe.batch = whole_batch(plan.recipe.batch, segment);
        let host = HostStudy::without_truth(loops, split, &plan)?;
        let trust = terms.systematic_trust();
        let queues = queues.map(|queues| queues.trusted(trust));
        let mut tables: Vec<MeasurementTable> = queues.into_iter().collect();
        let mut rates = None;
        let choices;
        let views: Vec<&FleetData> = if terms.held_out.is_some() {
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
        if terms.speeds {
            let of_view = views.iter().map(|fleet| MeasurementTable::fleet_speeds(fleet));
            let of_view: Vec<_> = of_view.collect();
            let speeds = if terms.held_out.is_some() {
                MeasurementTable::of_views(of_view)
            } else {
                of_view.into_iter().next()
            };
            tables.extend(speeds.map(|speeds| speeds.trusted(trust)));
        }
        if terms.usual_flows {
            let rate = penetration(loops, fleets, &span)?;
            tables.push(MeasurementTable::usual_flows(loops.timeline(), fleets, rate, &span));
        }
        let mut measured = BTreeMap::new();
        if terms.loops {
            let flows = MeasurementTable::loop_flows(loops, &span).trusted(trust);
            measured.insert(HOST.to_owned(), Arc::new(flows));
        }
        if let Some(all) = tables.into_iter().reduce(MeasurementTable::beside) {
            measured.insert(GUEST.to_owned(), Arc::new(all));
        }

        // One model for all views, so one set of scales.
        let (first, guest_record) = guest.read(views[0], &span)?;
        let mut seen = vec![first];
        for fleet in &views[1..] {
            let arrangement = guest.sub_model.arrangement();
            let inputs = GuestInputs::new(fleet, guest.features, arrangement, &guest_record.inputs);
            seen.push(inputs.map_err(crate::artifact::NeuralError::from)?);
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
            views.into_iter().flat_map(of_view).collect()
        };
        let (train, validation) = (each(&split.train), each(&split.validation));
        let data = JointData {
            record: ModelRecord {
                plan,
                shape,
                host: host.record().clone(),
                guests: vec![guest_record],
            },
            network: loops.timeline().shared_network(),
            host: Arc::new(host),
            guests: vec![Arc::new(ViewInputs(seen))],
            train,
            validation,
            segment,
        };
        Ok(Self { data, terms, measured, rates })
    }

    /// Inputs and windows.
    pub fn data(&self) -> &JointData {
        &self.data
    }

    /// What host and guest measure, by the names under which [`objective`](Self::objective) finds it.
    pub fn measured(&self) -> &BTreeMap<String, Arc<MeasurementTable>> {
        &self.measured
    }

    /// The loss, with a traffic model or none, and with labels of some steps or none.
    pub fn objective(
        &self,
        physics: Option<Physics>,
        labels: Option<SomeLabels>,
    ) -> Result<PhysicsInformed, PassError> {
        let parties = self.measured.iter();
        let parties = parties.map(|(name, table)| (name.clone(), table.entries().to_vec()));
        let outputs = self.data.record.host.outputs.clone();
        let physics = physics.map(|physics| physics.trusted(self.terms.systematic_trust()));
        let objective = PhysicsInformed::new(physics, outputs, parties.collect())?;
        match labels {
            Some(labels) => objective.with_labels(labels),
            None => Ok(objective),
        }
    }

    /// The estimator made of trained parts: the host's part and head, then the guest's.
    pub fn assemble(self, parts: &[&[f32]]) -> Result<LabelFreeEstimator, LabelFreeError> {
        let learner = self.data.assemble(parts)?;
        let record = self.data.record;
        Ok(match self.rates {
            None => LabelFreeEstimator::Whole(NeuralEstimator::new(record, learner)),
            Some(rates) => {
                LabelFreeEstimator::HeldOut(HeldOutEstimator::of_totals(record, rates, learner))
            }
        })
    }
}

/// A model trained without ground truth, at use.
pub enum LabelFreeEstimator {
    /// On what a whole fleet sees.
    Whole(NeuralEstimator),
    /// On what all folds but one see.
    HeldOut(HeldOutEstimator),
}

impl From<LabelFreeEstimator> for SavedEstimator {
    fn from(estimator: LabelFreeEstimator) -> Self {
        match estimator {
            LabelFreeEstimator::Whole(estimator) => Self::Neural(estimator),
            LabelFreeEstimator::HeldOut(estimator) => Self::HeldOut(estimator),
        }
    }
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
