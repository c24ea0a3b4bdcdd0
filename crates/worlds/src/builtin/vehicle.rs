//! A vehicle on the road.

use traffic::{TurnId, VehicleClass};

use super::krauss::Krauss;
use super::streets::{LaneId, NOWHERE, Streets};
use crate::driving::Driving;

/// Where its lane leads a vehicle at the end of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Onward {
    /// Out of the network.
    Exit,
    /// Into a lane of the next link of its route.
    Into(LaneId),
    /// Not where it wants to go.
    Nowhere,
}

/// A planned stop in a driving lane, and how much of it is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parking {
    pub leg: u32,
    pub lane: u8,
    /// Metres from the start of the link.
    pub position: f64,
    /// Seconds of standing left.
    pub left: f64,
    /// Standing there now.
    pub parked: bool,
}

/// A vehicle. Metres, seconds.
#[derive(Clone, Debug)]
pub(super) struct Vehicle {
    /// Front bumper, from the start of the link.
    pub position: f64,
    pub speed: f64,
    pub length: f64,
    pub min_gap: f64,
    pub acceleration: f64,
    pub imperfection: f64,
    /// Its ratio of free speed to speed limit.
    pub speed_factor: f64,
    pub number: u32,
    pub class: VehicleClass,
    /// Which link of its route it is on.
    pub leg: u32,
    /// The lane from which it entered its link.
    pub came_from: LaneId,
    /// Where its present lane leads it.
    pub onward: Onward,
    /// For each lane of its link, how many lane changes its route needs from there.
    pub lane_costs: Vec<u8>,
    /// The turns of its route; one less than links.
    pub turns: Box<[TurnId]>,
    pub parking: Option<Parking>,
    /// The step of its last change of lane.
    pub changed_at: u64,
    /// Seconds that it has been standing.
    pub standing: f64,
    /// Seconds of green that it missed at the stop line for being in a wrong lane.
    pub missed_green: f64,
}

impl Vehicle {
    /// A vehicle outside the network. `individuality` (0–1) is its place among drivers; `noise`
    /// scales how much drivers differ and dawdle.
    pub(super) fn new(
        number: u32,
        class: VehicleClass,
        turns: Box<[TurnId]>,
        parking: Option<Parking>,
        individuality: f64,
        noise: f64,
    ) -> Self {
        let driving = Driving::of(class);
        Self {
            position: 0.0,
            speed: 0.0,
            length: driving.length,
            min_gap: driving.min_gap,
            acceleration: driving.acceleration,
            imperfection: noise * driving.imperfection,
            speed_factor: 1.0 + noise * (driving.speed_factor(individuality) - 1.0),
            number,
            class,
            leg: 0,
            came_from: NOWHERE,
            onward: Onward::Nowhere,
            lane_costs: Vec::new(),
            turns,
            parking,
            changed_at: 0,
            standing: 0.0,
            missed_green: 0.0,
        }
    }

    /// The turn at the end of its link; none if it leaves the network there.
    #[inline]
    pub(super) fn turn(&self) -> Option<TurnId> {
        self.turns.get(self.leg as usize).copied()
    }

    /// Its rear bumper, from the start of the link; negative while it still sticks out behind.
    #[inline]
    pub(super) fn tail(&self) -> f64 {
        self.position - self.length
    }

    #[inline]
    pub(super) fn parked(&self) -> bool {
        self.parking.is_some_and(|parking| parking.parked)
    }

    /// Whether it will stop on the link where it is, or stands there already.
    #[inline]
    pub(super) fn parks_here(&self) -> bool {
        self.parking.is_some_and(|parking| parking.leg == self.leg)
    }

    /// How many lanes to the left (negative: right) it *must* change for its next turn.
    #[inline]
    pub(super) fn must_change(&self, streets: &Streets, lane: LaneId) -> i16 {
        match self.turn() {
            Some(turn) => streets.way(turn).away[usize::from(streets.lane(lane).number)],
            None => 0,
        }
    }

    /// The highest speed that it could have after a step on a link, were the road empty.
    #[inline]
    pub(super) fn free_speed(&self, limit: f64, krauss: &Krauss) -> f64 {
        (self.speed + self.acceleration * krauss.step).min(limit * self.speed_factor)
    }
}
