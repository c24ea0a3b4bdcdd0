//! Vehicles that wait outside, and how they enter.
//!
//! Outside the network there is a queue without limit for each link where someone wants to start.
//! A vehicle enters with its front at the start of the link (wholly on the link, if others can come
//! from upstream), in a lane that serves its next turn, as fast as is safe.

use std::collections::{BTreeSet, VecDeque};

use super::road::Road;
use super::streets::LaneId;
use super::vehicle::Vehicle;

/// How many of a queue are tried in a step, for each lane: the first may need a lane that is full.
const TRIES_PER_LANE: usize = 2;

/// The queues outside the network.
pub(super) struct Outside {
    queues: Vec<VecDeque<Vehicle>>,
    /// The links with a queue, in order.
    links: BTreeSet<u32>,
    pub waiting: usize,
}

impl Outside {
    pub(super) fn new(links: usize) -> Self {
        Self { queues: vec![VecDeque::new(); links], links: BTreeSet::new(), waiting: 0 }
    }

    pub(super) fn arrive(&mut self, link: u32, vehicle: Vehicle) {
        self.queues[link as usize].push_back(vehicle);
        self.links.insert(link);
        self.waiting += 1;
    }

    /// Lets in as many as there is room for.
    pub(super) fn enter(&mut self, road: &mut Road, mut entered: impl FnMut(&Vehicle)) {
        self.links.retain(|&link| {
            let queue = &mut self.queues[link as usize];
            let tries = TRIES_PER_LANE * usize::from(road.streets.streets[link as usize].lanes);
            let mut index = 0;
            for _ in 0..tries {
                let Some(vehicle) = queue.get_mut(index) else {
                    break;
                };
                match road.place_to_enter(link, vehicle) {
                    None => index += 1,
                    Some(place) => {
                        if let Some(mut vehicle) = queue.remove(index) {
                            vehicle.position = place.position;
                            vehicle.speed = place.speed;
                            road.streets.settle(&mut vehicle, place.lane);
                            entered(&vehicle);
                            road.insert(place.lane, vehicle);
                            self.waiting -= 1;
                        }
                    }
                }
            }
            !queue.is_empty()
        });
    }
}

struct EntryPosition {
    lane: LaneId,
    position: f64,
    speed: f64,
}

impl Road {
    /// Where a vehicle can enter a link now: of the lanes with room, the one that needs the fewest
    /// lane changes, then the one with the most room.
    fn place_to_enter(&self, link: u32, vehicle: &mut Vehicle) -> Option<EntryPosition> {
        let street = &self.streets.streets[link as usize];
        if vehicle.lane_costs.is_empty() {
            self.streets.settle(vehicle, street.first_lane);
        }
        let mut best: Option<(u8, f64, LaneId)> = None;
        for lane in street.first_lane..street.first_lane + LaneId::from(street.lanes) {
            if vehicle.must_change(&self.streets, lane) != 0 {
                continue;
            }
            let cost = vehicle.lane_costs[usize::from(self.streets.lane(lane).number)];
            let room = self.last_tail(lane);
            let better =
                best.is_none_or(|(lowest, most, _)| cost < lowest || cost == lowest && room > most);
            if better && room >= self.entry_position(lane, vehicle) + vehicle.min_gap {
                best = Some((cost, room, lane));
            }
        }
        let (_, _, lane) = best?;
        let position = self.entry_position(lane, vehicle);
        let speed = self.entry_speed(lane, vehicle, position);
        self.upstream_can_follow(lane, position - vehicle.length, speed).then_some(EntryPosition {
            lane,
            position,
            speed,
        })
    }

    fn entry_position(&self, lane: LaneId, vehicle: &Vehicle) -> f64 {
        let lane = self.streets.lane(lane);
        if lane.sources.is_empty() { 0.0 } else { vehicle.length.min(lane.length) }
    }

    /// Where the last vehicle of a lane ends; infinity for none.
    fn last_tail(&self, lane: LaneId) -> f64 {
        let length = self.streets.lane(lane).length;
        let leaving = self.leaving(lane).map(|(_, other)| length + other.tail());
        self.last(lane).map(Vehicle::tail).into_iter().chain(leaving).fold(f64::INFINITY, f64::min)
    }

    /// The highest speed from which a vehicle can follow the last one in the lane and stop before
    /// the stop line: it may turn out to be closed.
    fn entry_speed(&self, lane: LaneId, vehicle: &Vehicle, position: f64) -> f64 {
        let street = self.streets.lane(lane);
        let mut speed = (street.limit * vehicle.speed_factor)
            .min(self.krauss.speed_for(street.length - position - vehicle.min_gap));
        let leaving = self.leaving(lane).map(|(_, other)| (street.length + other.tail(), other));
        for (tail, other) in
            self.last(lane).map(|last| (last.tail(), last)).into_iter().chain(leaving)
        {
            let gap = tail - position - vehicle.min_gap;
            speed = speed.min(self.krauss.behind(gap, other.speed));
        }
        speed
    }
}
