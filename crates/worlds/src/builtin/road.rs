//! The state of the road in one step, and what drivers see of it.

use traffic::Aspect;

use super::krauss::Krauss;
use super::lights::Lights;
use super::merging::Merge;
use super::streets::{LaneId, NOWHERE, Streets};
use super::vehicle::{Onward, Vehicle};

/// Slower than this, a vehicle ahead counts as a queue, in m/s.
pub(super) const SLOW: f64 = 1.0;

/// Where all vehicles are, and what the signals show.
pub(super) struct Road {
    pub streets: Streets,
    pub krauss: Krauss,
    /// The vehicles of each lane, the foremost first.
    pub lanes: Vec<Vec<Vehicle>>,
    /// For each lane, whether someone who left it still sticks out into it.
    pub stuck_out: Vec<bool>,
    pub lights: Lights,
    /// Who may enter each merging lane in this step, in order.
    pub merges: Vec<Merge>,
}

impl Road {
    pub(super) fn vehicles(&self, lane: LaneId) -> &[Vehicle] {
        &self.lanes[lane as usize]
    }

    /// The vehicle that entered a lane last.
    #[inline]
    pub(super) fn last(&self, lane: LaneId) -> Option<&Vehicle> {
        self.lanes[lane as usize].last()
    }

    /// How many vehicles of a lane are level with a position or ahead of it.
    #[inline]
    pub(super) fn count_ahead(&self, lane: LaneId, position: f64) -> usize {
        self.lanes[lane as usize].partition_point(|other| other.position >= position)
    }

    /// The vehicles that have left a lane but still stick out into it behind.
    #[inline]
    pub(super) fn leaving(&self, lane: LaneId) -> impl Iterator<Item = (LaneId, &Vehicle)> {
        let downstream: &[LaneId] = match self.stuck_out[lane as usize] {
            true => &self.streets.street_of(lane).downstream,
            false => &[],
        };
        downstream.iter().filter_map(move |&next| {
            let last = self.last(next)?;
            (last.came_from == lane && last.tail() < 0.0).then_some((next, last))
        })
    }

    /// Finds out which lanes vehicles that left them still stick out into.
    ///
    /// That changes only where vehicles move: who changes lanes is wholly on its link.
    pub(super) fn note_leaving(&mut self) {
        self.stuck_out.fill(false);
        for last in self.lanes.iter().filter_map(|vehicles| vehicles.last()) {
            if last.tail() < 0.0 && last.came_from != NOWHERE {
                self.stuck_out[last.came_from as usize] = true;
            }
        }
    }

    /// What a vehicle's signal at the end of its lane's link shows.
    pub(super) fn aspect(&self, vehicle: &Vehicle, leg: usize, lane: LaneId) -> Aspect {
        match vehicle.turns.get(leg) {
            Some(&turn) => self.lights.turn(turn),
            None => self.lights.exit(self.streets.lane(lane).link),
        }
    }

    /// Whether a vehicle has to wait at the stop line of its own lane, `distance` metres ahead.
    ///
    /// Who cannot stop any more goes on. Merging is another matter: see [`super::merging`].
    pub(super) fn line_is_closed(&self, vehicle: &Vehicle, lane: LaneId, distance: f64) -> bool {
        if !self.krauss.can_stop(vehicle.speed, distance) {
            return false;
        }
        let target = match vehicle.onward {
            Onward::Nowhere => return true,
            Onward::Exit => None,
            Onward::Into(target) => Some(target),
        };
        if self.aspect(vehicle, vehicle.leg as usize, lane) != Aspect::Green {
            return true;
        }
        target.is_some_and(|target| !self.has_room(target, vehicle))
    }

    /// Whether a vehicle that enters a lane could clear the junction, or the queue there moves.
    fn has_room(&self, target: LaneId, vehicle: &Vehicle) -> bool {
        self.last(target).is_none_or(|last| {
            let needed = self.streets.lane(target).junction + vehicle.length + vehicle.min_gap;
            last.speed >= SLOW || last.tail() >= needed
        })
    }

    /// Inserts a vehicle at its place in a lane.
    pub(super) fn insert(&mut self, lane: LaneId, vehicle: Vehicle) {
        let index = self.count_ahead(lane, vehicle.position);
        self.lanes[lane as usize].insert(index, vehicle);
    }
}
