//! Estimates by the unscented filter on the CTM: loop flow, fleet speed and densities by queue profiles, and nothing is
//! trained.
//!
//! The model is that of the losses without ground truth ([`calibrated_physics`](crate::loss::calibrated_physics)):
//! free speeds and turning ratios that the fleet told, the host's signals. The demand at an entry
//! wanders about the fleet's mean flow there over its rate. Where steps are missing the filter begins
//! anew. The filter's densities are those of a step's end; Edie's are means over the step, so that the
//! mean of the densities before and after it is reported.
//!
//! Its constants are those with which its measurements in the training part are likeliest: no ground truth is read. Queue
//! profiles have hindsight, see [`QueueStates`], and the filter has it with them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use physics::filter::{
    FilterError, FilterNoise, FilterPlan, FilterReport, Measurements, Reading, TrafficFilter,
};
use physics::{Ctm, GreenPlan, TrafficModel};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{LinkId, LinkState, Quantity, Step, VehPerKmLane, VehPerMinLane};

use crate::baseline::queue_states::QueueStates;
use crate::baseline::scale_up::averaged;
use crate::data::measurement_table::MeasurementTable;
use crate::data::measurements::{Gathered, MeasurementSource};
use crate::data::observed::Asked;
use crate::data::sources::{FleetData, LoopData};
use crate::data::timeline::Timeline;
use crate::loss::calibrated_physics::{Counted, counted_ctm};
use crate::loss::label_free::LabelFreeError;
use crate::metrics::Estimates;
use traffic::Window;

/// More links take hours: the filter's cost grows with their cube.
const MOST_LINKS: usize = 400;
/// Steps of the training part on which its constants are found, and those at the start that are not looked at.
const CALIBRATION: usize = 240;
const SETTLING: usize = 20;
/// No density by queue profiles is taken to be surer than this, (veh/km/lane)².
const LEAST_DENSITY_VARIANCE: f64 = 1.0;

/// Constants of the filter: found by how likely its own measurements are, never by ground truth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Constants {
    /// The filter's one speed of a link stands for vehicles that stand and vehicles that drive, so that a
    /// fleet's speed tells it less than sampling alone would let it: variances are larger by this factor.
    speed: f64,
    /// The same of densities by queue profiles, whose errors last for a cycle.
    density: f64,
    /// What the CTM misses in a step, veh/km/lane.
    model: f64,
}

impl Constants {
    const FIRST: Self = Self { speed: 4.0, density: 4.0, model: 12.0 };
    const FACTORS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];
    const MODEL: [f64; 4] = [3.0, 6.0, 12.0, 24.0];

    fn plan(&self) -> FilterPlan {
        let noise =
            FilterNoise { density: self.model, flow: 1.0, demand: 1.0, ..FilterNoise::default() };
        FilterPlan { noise, ..FilterPlan::default() }
    }

    /// The likeliest, one constant after the other.
    fn likeliest(
        likelihood: impl Fn(Self) -> Result<f64, FilteredError>,
    ) -> Result<Self, FilteredError> {
        let mut best = (likelihood(Self::FIRST)?, Self::FIRST);
        type Constant = fn(&mut Constants) -> &mut f64;
        let constants: [(Constant, [f64; 4]); 3] = [
            (|own| &mut own.model, Self::MODEL),
            (|own| &mut own.density, Self::FACTORS),
            (|own| &mut own.speed, Self::FACTORS),
        ];
        for (number, values) in constants {
            let from = best.1;
            for value in values {
                let mut other = from;
                *number(&mut other) = value;
                if other == from {
                    continue;
                }
                let found = likelihood(other)?;
                if found > best.0 {
                    best = (found, other);
                }
            }
        }
        Ok(best.1)
    }
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
    /// A large network.
    #[error("ukf: found {0} links, expected at most {MOST_LINKS}: its cost grows with their cube")]
    Size(usize),
    /// A filter of another network.
    #[error("ukf: found a filter for {found} links or loops, expected one for {expected}")]
    OtherNetwork {
        /// In the filter.
        found: usize,
        /// In the network.
        expected: usize,
    },
}

/// A filter with all that it takes from the training part: what was counted there, usual values, its constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibratedFilter {
    constants: Constants,
    counted: Counted,
    /// Of each loop: one over the variance of its flow.
    flow_weights: Vec<f64>,
    /// Usual density of each link, veh/km/lane.
    densities: Vec<f64>,
    /// Usual demand at each entry, veh/min.
    demand: Vec<f64>,
}

impl CalibratedFilter {
    /// From the steps of the training part, with densities by queue profiles if there are some.
    pub fn fit(
        loops: &LoopData,
        fleet: &FleetData,
        queues: Option<&QueueStates>,
        training: &RangeInclusive<Step>,
    ) -> Result<Self, FilteredError> {
        let links = loops.timeline().network().links().len();
        if links > MOST_LINKS {
            return Err(FilteredError::Size(links));
        }
        let (densities, demand) = usual(fleet, training);
        let mut filter = Self {
            constants: Constants::FIRST,
            counted: Counted::of(loops, fleet, training),
            flow_weights: MeasurementTable::loop_flow_weights(loops, training),
            densities,
            demand,
        };
        let scene = Scene::new(loops, fleet, queues, &filter)?;
        let learned: Vec<Step> =
            scene.timeline.steps().filter(|step| training.contains(step)).collect();
        let learned = &learned[..learned.len().min(CALIBRATION)];
        filter.constants = Constants::likeliest(|constants| {
            let (mut sum, mut seen) = (0.0, 0);
            scene.filter(constants, learned, |report, _, _| {
                seen += 1;
                if seen > SETTLING {
                    sum -= 0.5 * (report.squared_innovation + report.log_determinant);
                }
            })?;
            Ok(sum)
        })?;
        Ok(filter)
    }

    /// Refuses other networks than that of the fit.
    pub fn check(&self, loops: &LoopData) -> Result<(), FilteredError> {
        let network = loops.timeline().network();
        let sizes = [
            (self.flow_weights.len(), network.loops().len()),
            (self.densities.len(), network.links().len()),
            (self.demand.len(), network.links().len()),
        ];
        match sizes.into_iter().find(|(found, expected)| found != expected) {
            Some((found, expected)) => Err(FilteredError::OtherNetwork { found, expected }),
            None => Ok(()),
        }
    }

    /// Filters all steps that loops and fleet hold.
    pub fn states(
        &self,
        loops: &LoopData,
        fleet: &FleetData,
        queues: Option<&QueueStates>,
    ) -> Result<FilteredStates, FilteredError> {
        self.check(loops)?;
        let scene = Scene::new(loops, fleet, queues, self)?;
        let (mut states, mut softened) = (Vec::new(), 0);
        let steps: Vec<Step> = scene.timeline.steps().collect();
        scene.filter(self.constants, &steps, |report, densities, flows| {
            softened += report.softened.len();
            states.extend(densities.iter().zip(flows).map(|(&density, &flow)| LinkState {
                density: VehPerKmLane::new(density),
                flow: VehPerMinLane::new(flow),
            }));
        })?;
        Ok(FilteredStates { timeline: scene.timeline, states, softened })
    }
}

impl FilteredStates {
    /// The state of a link in a step held.
    pub fn state(&self, step: Step, link: LinkId) -> LinkState {
        let links = self.timeline.network().links().len();
        self.states[self.timeline.row(step) * links + link.index()]
    }

    /// Estimates of windows; smooth targets by the mean over the last 60 s.
    pub fn estimate(&self, asked: &Asked<'_>) -> Estimates {
        averaged(self.timeline.step(), asked, |step, link| self.state(step, link))
    }
}

/// All that a filter needs.
struct Scene {
    timeline: Arc<Timeline>,
    model: Ctm,
    densities: Vec<f64>,
    demand: Vec<f64>,
    signals: GreenPlan,
    flows: MeasurementTable,
    speeds: MeasurementTable,
    queues: Option<MeasurementTable>,
}

impl Scene {
    fn new(
        loops: &LoopData,
        fleet: &FleetData,
        queues: Option<&QueueStates>,
        filter: &CalibratedFilter,
    ) -> Result<Self, FilteredError> {
        let timeline = Arc::clone(loops.timeline());
        let (model, signals) = counted_ctm(timeline.network(), timeline.step(), &filter.counted)?;
        let (densities, demand) = (filter.densities.clone(), filter.demand.clone());
        Ok(Self {
            model,
            signals,
            flows: MeasurementTable::weighted_loop_flows(loops, &filter.flow_weights),
            speeds: MeasurementTable::fleet_speeds(fleet),
            queues: queues.map(MeasurementTable::queue_densities),
            densities,
            demand,
            timeline,
        })
    }

    /// Runs over some steps; gives of each the filter's report, and densities and flows of all links.
    fn filter(
        &self,
        constants: Constants,
        steps: &[Step],
        mut each: impl FnMut(&FilterReport, &[f64], &[f64]),
    ) -> Result<(), FilteredError> {
        let network = self.timeline.network();
        let links = network.links().len();
        let start = || {
            let model = self.model.clone();
            TrafficFilter::new(network, model, &self.densities, &self.demand, constants.plan())
        };
        let sub_steps = self.model.sub_steps();
        let mut green = vec![1.0; sub_steps * self.model.graph().movements()];
        let mut gathered = Gathered::default();
        let (mut filter, mut before) = (start()?, None);
        let (mut last, mut now, mut means) = (vec![0.0; links], vec![0.0; links], vec![0.0; links]);
        for &step in steps {
            if before.is_some_and(|before: Step| before.0 + 1 != step.0) {
                (filter, before) = (start()?, None);
            }
            let begin = self.timeline.step() * step.0 as f64;
            self.signals.fill(begin, begin + self.timeline.step(), sub_steps, &mut green)?;
            let mut measured = Measurements::none(links);
            let tables = [(&self.flows, 1.0), (&self.speeds, constants.speed)];
            let queues = self.queues.iter().map(|queues| (queues, constants.density));
            for (table, factor) in tables.into_iter().chain(queues) {
                gathered.gather(table, &[Window::whole(step)]);
                take(table, &gathered, factor, &mut measured);
            }
            let report = filter.step(&green, &measured)?.clone();
            last.copy_from_slice(&now);
            filter.densities(&mut now)?;
            // Before its first step the filter knows usual values alone.
            let earlier = if before.is_some() { &last } else { &now };
            for (mean, (before, after)) in means.iter_mut().zip(earlier.iter().zip(&now)) {
                *mean = (before + after) / 2.0;
            }
            each(&report, &means, filter.flows());
            before = Some(step);
        }
        Ok(())
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
            Quantity::Density => {
                let variance = variance.max(LEAST_DENSITY_VARIANCE);
                to.densities[entry.link.index()] =
                    Some(Reading { value: value.max(0.0), variance });
            }
        }
    }
}
