//! The built-in world: a microscopic simulator of urban traffic that needs nothing installed.
//!
//! 1. `streets` lays the network out in lanes; `lights` shows the fixed-time signals; `vehicle`,
//!    with [`Driving`](crate::Driving), says what drives.
//! 2. Each step, from one and the same state: `lane_change` collects wishes and carries them out,
//!    `merging` decides who may enter lanes that several lanes lead into, `speed` (with `krauss` for
//!    car-following) chooses everyone's speed, `moving` moves them, hands them on to the next link
//!    or out, and `entering` lets new ones in.
//!
//! **What it models.** Krauss' car-following with dawdling drivers; lane changes that the route
//! needs, with others yielding, and changes for speed, also around double-parked vehicles; signals
//! (at yellow and red, who can stop with the comfortable deceleration stops); merging one by one;
//! spill-back: nobody enters a link whose queue leaves no room to clear the junction; queues outside
//! the network where demand exceeds what can enter. **What it does not:** conflicts between paths
//! that cross inside a junction (signals are taken to separate them), slower turning, overtaking
//! within a lane. A driver in a wrong lane waits at the stop line for a gap; after missing 10 s of
//! its own green it turns from where it is when there is room, and is counted in [`Incidents`].
//!
//! **Nobody collides** and nobody brakes harder than 4.5 m/s²: see `krauss` for the argument.
//!
//! **Samples.** A vehicle's position is its front bumper. Its speed is that of the step that ends at
//! the sample, so positions of successive samples differ by exactly speed × step. A vehicle first
//! appears at the start of its first link. The last step of a vehicle ends somewhere beyond its
//! last link; its last sample puts it exactly at the end of that link, at the end of that step. So
//! no distance is lost, and the time on the last link is too long by the part of a step that the
//! vehicle was already gone: half a step on average. Leaving it out instead would lose distance and
//! time.
//!
//! **Deterministic.** Random numbers are hashes of seed, vehicle and step, speeds are chosen from
//! the state before the step, and all that needs an order has a fixed one. So the number of threads
//! changes nothing. Memory grows with the vehicles present and waiting, never with time.

mod entering;
mod krauss;
mod lane_change;
mod lane_choice;
mod lights;
mod merging;
mod moving;
mod random;
mod road;
mod speed;
mod streets;
mod vehicle;

use std::iter::Peekable;

use rayon::prelude::*;
use thiserror::Error;
use traffic::{Network, Samples, Seconds, TurnId, VehicleClass, VehicleId, VehicleSample};

use self::entering::Outside;
use self::krauss::Krauss;
use self::lane_change::Wish;
use self::lights::Lights;
use self::merging::Merge;
pub use self::moving::Incidents;
use self::moving::advance;
use self::random::uniform;
use self::road::Road;
use self::streets::{LaneId, Streets};
use self::vehicle::{Parking, Vehicle};
use crate::departure::Departure;
use crate::driving::{DECELERATION, REACTION_TIME};

/// From this many vehicles on, sharing the work between threads pays.
const WORTH_SHARING: usize = 2_000;
/// Lanes handed to a thread at once.
const LANES_AT_ONCE: usize = 64;

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationPlan {
    /// Time of the first moment, since the epoch.
    pub begin: Seconds,
    /// No moment is later than this.
    pub until: Seconds,
    /// Time between moments; at most the drivers' reaction time.
    pub step: Seconds,
    /// Where all randomness of driving comes from.
    pub seed: u64,
    /// How much drivers dawdle and differ: 1 as in reality, 0 for perfect and equal drivers.
    pub noise: f64,
}

impl Default for SimulationPlan {
    /// An hour in steps of one second.
    fn default() -> Self {
        Self {
            begin: Seconds::ZERO,
            until: Seconds::new(3600.0),
            step: Seconds::new(1.0),
            seed: 1,
            noise: 1.0,
        }
    }
}

/// Why a simulation cannot start or go on.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SimulationError {
    /// The plan's step is unusable.
    #[error(
        "step: found {step}, expected more than 0 s and at most the reaction time of {REACTION_TIME} s"
    )]
    Step {
        /// The step found.
        step: Seconds,
    },
    /// The plan's times or noise are unusable.
    #[error("{field}: found {value}, expected {expected}")]
    Plan {
        /// The field at fault.
        field: &'static str,
        /// What it holds.
        value: f64,
        /// What it should.
        expected: &'static str,
    },
    /// A departure cannot be driven.
    #[error("vehicle {vehicle}: {problem}")]
    Departure {
        /// Its number.
        vehicle: u32,
        /// What was found and what was expected.
        problem: String,
    },
}

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
/// use traffic::{Samples, VehicleClass, VehicleId, Seconds, corridor};
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
/// assert!(seen > 20 && world.counts().left == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation<D: Iterator<Item = Departure>> {
    plan: SimulationPlan,
    road: Road,
    outside: Outside,
    departures: Peekable<D>,
    last_departure: Option<(Seconds, VehicleId)>,
    /// Number of the next moment.
    moment: u64,
    counts: Counts,
    incidents: Incidents,
    entered: Vec<Entered>,
    left: Vec<VehicleSample>,
    scratch: Scratch,
    /// From how many vehicles on the work is shared between threads.
    worth_sharing: usize,
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
        check(&plan)?;
        let streets = Streets::new(network);
        let lanes = streets.lanes.len();
        let merges = streets.merges.len();
        Ok(Self {
            plan,
            outside: Outside::new(streets.streets.len()),
            road: Road {
                krauss: Krauss::new(plan.step.get(), REACTION_TIME, DECELERATION),
                lanes: vec![Vec::new(); lanes],
                lights: Lights::new(network),
                merges: vec![Merge::default(); merges],
                streets,
            },
            departures: departures.into_iter().peekable(),
            last_departure: None,
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
    pub fn entered(&self) -> &[Entered] {
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
            let vehicle = self.vehicle_of(&departure)?;
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

    fn vehicle_of(&mut self, departure: &Departure) -> Result<Vehicle, SimulationError> {
        let network = &self.road.streets.network;
        let number = departure.vehicle.0;
        let fail = |problem: String| Err(SimulationError::Departure { vehicle: number, problem });
        if !departure.time.get().is_finite() {
            return fail(format!("departure time: found {}, expected a number", departure.time));
        }
        if let Some((time, vehicle)) = self.last_departure
            && (departure.time < time || departure.vehicle <= vehicle)
        {
            return fail(format!(
                "departs at {} after vehicle {} at {time}, expected departures in order of time and number",
                departure.time, vehicle.0
            ));
        }
        if departure.route.is_empty() {
            return fail("route: found no links, expected at least one".into());
        }
        if let Some(link) = departure.route.iter().find(|l| l.index() >= network.links().len()) {
            return fail(format!(
                "route: found link number {}, expected less than {}",
                link.0,
                network.links().len()
            ));
        }
        let mut turns: Vec<TurnId> = Vec::with_capacity(departure.route.len() - 1);
        for pair in departure.route.windows(2) {
            match network.turn_between(pair[0], pair[1]) {
                Some(turn) => turns.push(turn),
                None => {
                    let name = |i: usize| network.link(pair[i]).name.as_str();
                    return fail(format!(
                        "route: there is no turn from `{}` to `{}`",
                        name(0),
                        name(1)
                    ));
                }
            }
        }
        let mut parking = None;
        if let Some(stop) = departure.stop {
            let Some(leg) = departure.route.iter().position(|&link| link == stop.link) else {
                let link = network.links().get(stop.link.index()).map_or("?", |link| &link.name);
                return fail(format!("stop: link `{link}` is not on the route"));
            };
            let link = network.link(stop.link);
            let (position, left) = (stop.position.get(), stop.duration.get());
            let fits = stop.lane < link.lanes && position > 0.0 && position <= link.length.get();
            if !fits || !(left >= 0.0 && left.is_finite()) {
                return fail(format!(
                    "stop: found lane {} at {} for {}, expected a lane below {} at most {} along `{}` for 0 s or more",
                    stop.lane, stop.position, stop.duration, link.lanes, link.length, link.name
                ));
            }
            let leg = leg as u32;
            parking = Some(Parking { leg, lane: stop.lane, position, left, parked: false });
        }
        self.last_departure = Some((departure.time, departure.vehicle));
        // Steps count from 1, so counter 0 is free for what a driver is like.
        let individuality = uniform(self.plan.seed, number, 0);
        let noise = self.plan.noise;
        Ok(Vehicle::new(number, departure.class, turns.into(), parking, individuality, noise))
    }
}

impl<D: Iterator<Item = Departure>> Samples for Simulation<D> {
    type Error = SimulationError;

    fn next_moment(
        &mut self,
        out: &mut Vec<VehicleSample>,
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

fn check(plan: &SimulationPlan) -> Result<(), SimulationError> {
    let step = plan.step.get();
    if !(step > 0.0 && step <= REACTION_TIME) {
        return Err(SimulationError::Step { step: plan.step });
    }
    let fail = |field, value, expected| Err(SimulationError::Plan { field, value, expected });
    if !plan.begin.get().is_finite() {
        return fail("begin", plan.begin.get(), "a number of seconds");
    }
    if plan.until.get().is_nan() {
        return fail("until", plan.until.get(), "a number of seconds");
    }
    if !(0.0..=1.0).contains(&plan.noise) {
        return fail("noise", plan.noise, "0 to 1");
    }
    Ok(())
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

#[cfg(test)]
mod tests;
