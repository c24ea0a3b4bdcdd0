//! Estimates by the unscented filter on the CTM: loop flow and fleet speed, and nothing is trained.
//!
//! The model is that of the losses without ground truth ([`calibrated_ctm`](crate::loss::calibrated_ctm)):
//! usual diagrams, turning ratios that the fleet counted, the host's signals. The demand at an entry
//! wanders about the fleet's mean flow there over its rate. Where steps are missing the filter begins
//! anew. The filter's densities are those of a step's end; Edie's are means over the step, so that the
//! mean of the densities before and after it is reported (demand seed 1, validation part, 20 %: it errs by
//! 10.9 veh/km/lane, the density at the end by 11.7).

use std::ops::RangeInclusive;
use std::sync::Arc;

use physics::filter::{FilterError, FilterNoise, FilterPlan, Measurements, Reading, TrafficFilter};
use physics::{GreenPlan, TrafficModel};
use thiserror::Error;
use traffic::{LinkId, LinkState, Quantity, Step, VehPerKmLane, VehPerMinLane};

use crate::baseline::scale_up::averaged;
use crate::data::measurement_table::MeasurementTable;
use crate::data::measurements::{Gathered, MeasurementSource};
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::{Study, TargetKind};
use crate::data::timeline::Timeline;
use crate::loss::calibrated_ctm::{counted_ctm, movement_counts};
use crate::loss::label_free::LabelFreeError;
use crate::metrics::Estimates;
use traffic::Window;

/// The filter's one speed of a link stands for vehicles that stand and vehicles that drive, so that a
/// fleet's speed tells it less than sampling alone would let it: variances are larger by this factor.
const SPEED_VARIANCE_FACTOR: f64 = 16.0;

/// What the CTM misses in a step. These and the factor above were chosen with ground truth, on the
/// validation part of demand seed 1 at 20 and 80 %: a favour that is done to the filter alone. With
/// the filter's usual 6 veh/km/lane of density its error was half as large again.
fn plan() -> FilterPlan {
    let noise = FilterNoise { density: 20.0, flow: 1.0, demand: 1.0, ..FilterNoise::default() };
    FilterPlan { noise, ..FilterPlan::default() }
}

/// The states of all links in all steps held, each from what was measured until then.
pub struct FilteredStates {
    timeline: Arc<Timeline>,
    /// `[row, link]`.
    states: Vec<LinkState>,
    /// Measurements that contradicted all else and got less weight.
    pub softened: usize,
}

/// Why there are none.
#[derive(Debug, Error)]
pub enum FilteredError {
    /// The traffic model.
    #[error(transparent)]
    Model(#[from] LabelFreeError),
    /// The filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The signals.
    #[error(transparent)]
    Signals(#[from] physics::ModelError),
}

impl FilteredStates {
    /// Filters all steps that loops and fleet hold. Ratios and usual demand come from the steps of the
    /// training part.
    pub fn run(
        loops: &LoopData,
        fleet: &FleetData,
        training: &RangeInclusive<Step>,
    ) -> Result<Self, FilteredError> {
        let timeline = Arc::clone(loops.timeline());
        let network = timeline.network();
        let (turned, left) = movement_counts(network, std::slice::from_ref(fleet), training);
        let (model, _) = counted_ctm(&timeline, &turned, &left, None)?;
        let links = network.links().len();
        let (densities, demand) = usual(fleet, training);
        let start = || TrafficFilter::new(network, model.clone(), &densities, &demand, plan());
        let signals = GreenPlan::of(network);
        let sub_steps = model.sub_steps();
        let mut green = vec![1.0; sub_steps * model.graph().movements()];
        let flows = MeasurementTable::loop_flows(loops, training);
        let speeds = MeasurementTable::fleet_speeds(fleet);
        let (mut from_loops, mut from_fleet) = (Gathered::default(), Gathered::default());
        let (mut filter, mut before, mut softened) = (start()?, None, 0);
        let mut states = Vec::new();
        let (mut last, mut now) = (vec![0.0; links], vec![0.0; links]);
        for step in timeline.steps() {
            if before.is_some_and(|before: Step| before.0 + 1 != step.0) {
                (filter, before) = (start()?, None);
            }
            let begin = timeline.step() * step.0 as f64;
            signals.fill(begin, begin + timeline.step(), sub_steps, &mut green)?;
            let mut measured = Measurements::none(links);
            from_loops.gather(&flows, &[Window::whole(step)]);
            from_fleet.gather(&speeds, &[Window::whole(step)]);
            take(&flows, &from_loops, 1.0, &mut measured);
            take(&speeds, &from_fleet, SPEED_VARIANCE_FACTOR, &mut measured);
            softened += filter.step(&green, &measured)?.softened.len();
            last.copy_from_slice(&now);
            filter.densities(&mut now)?;
            // Before its first step the filter knows usual values alone.
            let earlier = if before.is_some() { &last } else { &now };
            let densities = earlier.iter().zip(&now).map(|(before, after)| (before + after) / 2.0);
            states.extend(densities.zip(filter.flows()).map(|(density, &flow)| LinkState {
                density: VehPerKmLane::new(density),
                flow: VehPerMinLane::new(flow),
            }));
            before = Some(step);
        }
        Ok(Self { timeline, states, softened })
    }

    /// The state of a link in a step held.
    pub fn state(&self, step: Step, link: LinkId) -> LinkState {
        let links = self.timeline.network().links().len();
        self.states[self.timeline.row(step) * links + link.index()]
    }

    /// Estimates of windows at a study's target links; smooth targets by the mean over the last 60 s.
    pub fn estimate(&self, study: &Study, kind: TargetKind, windows: &[Step]) -> Estimates {
        averaged(study, kind, windows, |step, link| self.state(step, link))
    }
}

/// Mean density of each link, veh/km/lane, and mean flow of each entry, veh/min of all lanes, as the
/// fleet scales up to in some steps.
fn usual(fleet: &FleetData, steps: &RangeInclusive<Step>) -> (Vec<f64>, Vec<f64>) {
    let network = fleet.timeline().network();
    let steps: Vec<Step> = fleet.timeline().steps().filter(|step| steps.contains(step)).collect();
    let mean = |link: LinkId, value: fn(LinkState) -> f64| {
        let sum: f64 = steps.iter().map(|&step| value(fleet.scaled_up(step, link))).sum();
        sum / steps.len().max(1) as f64
    };
    let densities = network.link_ids().map(|link| mean(link, |state| state.density.get()));
    let mut demand = vec![0.0; network.links().len()];
    for link in network.entries() {
        let lanes = f64::from(network.link(link).lanes);
        demand[link.index()] = lanes * mean(link, |state| state.flow.get());
    }
    (densities.collect(), demand)
}

/// Puts one party's numbers of a step where the filter looks for them.
fn take(party: &dyn MeasurementSource, gathered: &Gathered, factor: f64, to: &mut Measurements) {
    let readings = gathered.readings();
    let numbers = readings.values.iter().zip(readings.weights);
    for (entry, (&value, &weight)) in party.entries().iter().zip(numbers) {
        if weight <= 0.0 {
            continue;
        }
        let (value, variance) = (f64::from(value), factor / f64::from(weight));
        let reading = Some(Reading { value, variance });
        match entry.quantity {
            Quantity::Flow => to.flows[entry.link.index()] = reading,
            Quantity::Speed => to.speeds[entry.link.index()] = reading,
            // The filter takes none.
            Quantity::Density => {}
        }
    }
}
