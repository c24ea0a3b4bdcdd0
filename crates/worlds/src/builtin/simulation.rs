//! The simulation: one step after the other.

use std::iter::Peekable;

use rayon::prelude::*;
use traffic::{Network, PositionSource, Seconds, VehicleClass, VehicleId, VehiclePosition};

use super::entering::Outside;
use super::krauss::Krauss;
use super::lane_change::Wish;
use super::lights::Lights;
use super::merging::Merge;
use super::moving::{Incidents, advance};
use super::plan::{SimulationError, SimulationPlan};
use super::random::uniform;
use super::road::Road;
use super::streets::{LaneId, Streets};
use super::trips::Trips;
use super::vehicle::Vehicle;
use crate::departure::Departure;
use crate::driving::{DECELERATION, REACTION_TIME};

/// From this many vehicles on, sharing the work between threads pays.
const WORTH_SHARING: usize = 2_000;
/// Lanes handed to a thread at once.
const LANES_AT_ONCE: usize = 64;

/// How many vehicles are where. `entered = left + present` at every moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Vehicles that have entered the network so far.
    pub entered: u64,
    /// Vehicles that have left it.
    pub left: u64,
    /// Vehicles on the network.
    pub present: usize,
    /// Vehicles that wait outside for room to enter.
    pub waiting: usize,
}

/// A vehicle that entered the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entered {
    /// Its number.
    pub vehicle: VehicleId,
    /// What kind it is.
    pub class: VehicleClass,
    /// Its ratio of free speed to speed limit.
    pub speed_factor: f64,
}

/// A running simulation: a source of samples of all vehicles.
///
/// ```
/// use traffic::{PositionSource, VehicleClass, VehicleId, Seconds, corridor};
/// use worlds::{Departure, Simulation, SimulationPlan};
/// let corridor = corridor()?;
/// let route = ["E1", "off_R1"].map(|name| corridor.link_named(name).unwrap());
/// let departure = Departure {
///     time: Seconds::new(5.0),
///     vehicle: VehicleId(0),
///     class: VehicleClass::Car,
///     route: route.into(),
///     stop: None,
/// };
/// let mut world = Simulation::new(&corridor, SimulationPlan::default(), [departure])?;
/// let mut samples = Vec::new();
/// let mut seen = 0;
/// while let Some(_time) = world.next_moment(&mut samples)? {
///     seen += samples.len();
/// }
/// assert!(seen > 10 && world.counts().left == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation<D: Iterator<Item = Departure>> {
    plan: SimulationPlan,
    pub(super) road: Road,
    outside: Outside,
    departures: Peekable<D>,
    trips: Trips,
    /// Number of the next moment.
    moment: u64,
    counts: Counts,
    incidents: Incidents,
    entered: Vec<Entered>,
    pub(super) left: Vec<VehiclePosition>,
    scratch: Scratch,
    /// From how many vehicles on the work is shared between threads.
    pub(super) worth_sharing: usize,
}

/// Space that is used again in every step, one of each per lane.
struct Scratch {
    wishes: Vec<Vec<Wish>>,
    speeds: Vec<Vec<f64>>,
}

impl<D: Iterator<Item = Departure>> Simulation<D> {
    /// An empty network at the plan's begin. Departures must come in order of time and number.
    pub fn new(
        network: &Network,
        plan: SimulationPlan,
        departures: impl IntoIterator<IntoIter = D>,
    ) -> Result<Self, SimulationError> {
        plan.check()?;
        let streets = Streets::new(network);
        let lanes = streets.lanes.len();
        let merges = streets.merges.len();
        Ok(Self {
            plan,
            outside: Outside::new(streets.streets.len()),
            road: Road {
                krauss: Krauss::new(plan.step.get(), REACTION_TIME, DECELERATION),
                lanes: vec![Vec::new(); lanes],
                stuck_out: vec![false; lanes],
                lights: Lights::new(network),
                merges: vec![Merge::default(); merges],
                streets,
            },
            departures: departures.into_iter().peekable(),
            trips: Trips::default(),
            moment: 0,
            counts: Counts::default(),
            incidents: Incidents::default(),
            entered: Vec::new(),
            left: Vec::new(),
            scratch: Scratch { wishes: vec![Vec::new(); lanes], speeds: vec![Vec::new(); lanes] },
            worth_sharing: WORTH_SHARING,
        })
    }

    /// How many vehicles are where, at the last moment given out.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What happened so far that should be rare.
    pub fn incidents(&self) -> Incidents {
        self.incidents
    }

    /// The vehicles that entered at the last moment given out, in order of entry.
    #[cfg(test)]
    pub(crate) fn entered(&self) -> &[Entered] {
        &self.entered
    }

    fn time_of(&self, moment: u64) -> f64 {
        self.plan.begin.get() + moment as f64 * self.plan.step.get()
    }

    /// Drives from the last moment to `time`.
    fn drive(&mut self, time: f64) {
        self.road.lights.show(self.time_of(self.moment - 1));
        let shared = self.counts.present >= self.worth_sharing && rayon::current_num_threads() > 1;
        self.change_lanes(shared);
        self.grant_merges(shared);
        self.choose_speeds(shared);
        self.advance(shared);
        let incidents = self.road.hand_on(time, &mut self.left);
        self.road.note_leaving();
        self.incidents.add(incidents);
        self.counts.left += self.left.len() as u64;
        self.counts.present -= self.left.len();
    }

    fn change_lanes(&mut self, shared: bool) {
        let (road, step) = (&self.road, self.moment);
        for_each(shared, &mut self.scratch.wishes, |lane, wishes: &mut Vec<Wish>| {
            wishes.clear();
            let count = road.lanes[lane].len();
            wishes.extend((0..count).filter_map(|i| road.wish(lane as LaneId, i, step)));
        });
        for wish in self.scratch.wishes.iter().flatten() {
            self.road.change(wish, step);
        }
    }

    fn grant_merges(&mut self, shared: bool) {
        let mut merges = std::mem::take(&mut self.road.merges);
        let road = &self.road;
        for_each(shared, &mut merges, |index, merge| {
            road.grant(road.streets.merges[index], merge);
        });
        self.road.merges = merges;
    }

    fn choose_speeds(&mut self, shared: bool) {
        let (road, seed, moment) = (&self.road, self.plan.seed, self.moment);
        for_each(shared, &mut self.scratch.speeds, |lane, speeds: &mut Vec<f64>| {
            speeds.clear();
            speeds.extend(road.lanes[lane].iter().enumerate().map(|(index, vehicle)| {
                let dawdle = uniform(seed, vehicle.number, moment);
                road.next_speed(lane as LaneId, index, dawdle)
            }));
        });
    }

    fn advance(&mut self, shared: bool) {
        let Krauss { step, slowdown, .. } = self.road.krauss;
        let streets = &self.road.streets;
        let speeds = &self.scratch.speeds;
        let move_lane = |(lane, vehicles): (usize, &mut Vec<Vehicle>)| {
            advance(vehicles, &speeds[lane], streets.lanes[lane].number, step, slowdown)
        };
        let add = |mut sum: Incidents, one: Incidents| {
            sum.add(one);
            sum
        };
        let lanes = &mut self.road.lanes;
        // Sums of whole numbers: their order does not matter.
        let incidents = if shared {
            let lanes = lanes.par_iter_mut().with_min_len(LANES_AT_ONCE).enumerate();
            lanes.map(move_lane).reduce(Incidents::default, add)
        } else {
            lanes.iter_mut().enumerate().map(move_lane).fold(Incidents::default(), add)
        };
        self.incidents.add(incidents);
    }

    /// Takes in the departures up to a time, and lets in whom there is room for.
    fn let_in(&mut self, time: f64) -> Result<(), SimulationError> {
        while let Some(departure) = self.departures.next_if(|d| d.time.get() <= time) {
            let network = &self.road.streets.network;
            let vehicle = self.trips.next(network, &self.plan, &departure)?;
            self.outside.arrive(departure.route[0].0, vehicle);
        }
        let entered = &mut self.entered;
        self.outside.enter(&mut self.road, |vehicle| {
            entered.push(Entered {
                vehicle: VehicleId(vehicle.number),
                class: vehicle.class,
                speed_factor: vehicle.speed_factor,
            });
        });
        self.counts.entered += self.entered.len() as u64;
        self.counts.present += self.entered.len();
        self.counts.waiting = self.outside.waiting;
        Ok(())
    }
}

impl<D: Iterator<Item = Departure>> PositionSource for Simulation<D> {
    type Error = SimulationError;

    fn next_moment(
        &mut self,
        out: &mut Vec<VehiclePosition>,
    ) -> Result<Option<Seconds>, SimulationError> {
        let time = self.time_of(self.moment);
        if time > self.plan.until.get() {
            return Ok(None);
        }
        self.left.clear();
        self.entered.clear();
        if self.moment > 0 {
            self.drive(time);
        }
        self.let_in(time)?;
        self.moment += 1;

        out.clear();
        out.extend_from_slice(&self.left);
        for (lane, vehicles) in self.road.lanes.iter().enumerate() {
            out.extend(vehicles.iter().map(|v| self.road.sample(v, lane as LaneId, time)));
        }
        if out.len() >= WORTH_SHARING {
            out.par_sort_unstable_by_key(|sample| sample.vehicle);
        } else {
            out.sort_unstable_by_key(|sample| sample.vehicle);
        }
        Ok(Some(Seconds::new(time)))
    }
}

/// Runs `work` on each item with its index, on several threads if `shared`; same result both ways.
fn for_each<T: Send>(shared: bool, items: &mut [T], work: impl Fn(usize, &mut T) + Sync + Send) {
    if shared {
        let items = items.par_iter_mut().with_min_len(LANES_AT_ONCE).enumerate();
        items.for_each(|(index, item)| work(index, item));
    } else {
        items.iter_mut().enumerate().for_each(|(index, item)| work(index, item));
    }
}
