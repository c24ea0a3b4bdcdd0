//! Carrying out a step: positions, crossings of stop lines, stops, and turns from a wrong lane.

use traffic::{Aspect, LinkId, VehicleId, VehiclePosition};

use super::road::{Road, SLOW};
use super::streets::LaneId;
use super::vehicle::{Onward, Vehicle};

/// How near to its planned place a vehicle counts as arrived for its stop: metres and m/s.
const AT_STOP: (f64, f64) = (1.0, 0.5);
/// Slower than this is standing, in m/s.
const STANDING: f64 = 0.1;
/// How near to the stop line a standing vehicle in a wrong lane is stuck, in metres.
const AT_LINE: f64 = 5.0;
/// After missing this much green at the stop line in a wrong lane, a driver turns from there.
const ENDURANCE: f64 = 10.0;

/// What happened in all steps so far that is worth counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Incidents {
    /// Turns made from a lane that does not serve them, after long waiting at the stop line for a
    /// gap to change lanes.
    pub turns_from_wrong_lane: u64,
    /// Double-parked vehicles that did not get into the lane they wanted to block, and stopped in
    /// another.
    pub stops_in_other_lane: u64,
    /// Planned stops that were driven past, because the vehicle could not halt on the link in time.
    pub missed_stops: u64,
    /// Steps in which a vehicle had to brake harder than it could comfortably; expected to stay 0.
    pub hard_brakings: u64,
}

impl Incidents {
    pub(super) fn add(&mut self, other: Self) {
        self.turns_from_wrong_lane += other.turns_from_wrong_lane;
        self.stops_in_other_lane += other.stops_in_other_lane;
        self.missed_stops += other.missed_stops;
        self.hard_brakings += other.hard_brakings;
    }
}

/// Moves the vehicles of one lane by their new speeds; all stay in the lane for now.
pub(super) fn advance(
    vehicles: &mut [Vehicle],
    speeds: &[f64],
    lane_number: u8,
    step: f64,
    slowdown: f64,
) -> Incidents {
    let mut incidents = Incidents::default();
    for (vehicle, &speed) in vehicles.iter_mut().zip(speeds) {
        // Rounding is no emergency.
        if speed < vehicle.speed - slowdown - 1e-6 {
            incidents.hard_brakings += 1;
        }
        vehicle.speed = speed;
        vehicle.position += speed * step;
        if speed < STANDING {
            vehicle.standing += step;
        } else if speed > SLOW {
            vehicle.standing = 0.0;
        }
        if let Some(parking) = &mut vehicle.parking
            && parking.leg == vehicle.leg
        {
            if parking.parked {
                parking.left -= step;
            } else if parking.position - vehicle.position < AT_STOP.0 && speed < AT_STOP.1 {
                parking.parked = true;
                incidents.stops_in_other_lane += u64::from(parking.lane != lane_number);
            }
        }
    }
    incidents
}

impl Road {
    /// Hands vehicles beyond their stop line on to the next link or out of the network, ends stops,
    /// and lets those turn who waited too long in a wrong lane. `left` gets a last sample of each
    /// vehicle that left, at the end of its last link.
    pub(super) fn hand_on(&mut self, time: f64, left: &mut Vec<VehiclePosition>) -> Incidents {
        let mut incidents = Incidents::default();
        for lane in 0..self.lanes.len() as LaneId {
            while let Some(vehicle) = self.take_crossing(lane) {
                self.cross(vehicle, lane, time, left, &mut incidents);
            }
        }
        for lane in 0..self.lanes.len() as LaneId {
            if !self.lanes[lane as usize].is_empty() {
                self.end_stops(lane);
                self.turn_from_wrong_lane(lane, &mut incidents);
            }
        }
        incidents
    }

    fn take_crossing(&mut self, lane: LaneId) -> Option<Vehicle> {
        let length = self.streets.lane(lane).length;
        let vehicles = &mut self.lanes[lane as usize];
        vehicles.first().is_some_and(|first| first.position > length).then(|| vehicles.remove(0))
    }

    fn cross(
        &mut self,
        mut vehicle: Vehicle,
        mut lane: LaneId,
        time: f64,
        left: &mut Vec<VehiclePosition>,
        incidents: &mut Incidents,
    ) {
        while vehicle.position > self.streets.lane(lane).length {
            let street = self.streets.lane(lane);
            if vehicle.parks_here() {
                vehicle.parking = None;
                incidents.missed_stops += 1;
            }
            match vehicle.onward {
                Onward::Into(target) => {
                    vehicle.position -= street.length;
                    self.enter_next(&mut vehicle, lane, target);
                    lane = target;
                }
                Onward::Exit => {
                    vehicle.position = street.length;
                    left.push(self.sample(&vehicle, lane, time));
                    return;
                }
                Onward::Nowhere => {
                    // The plan of speeds stops everyone who would get here.
                    incidents.hard_brakings += 1;
                    vehicle.position = street.length;
                    vehicle.speed = 0.0;
                }
            }
        }
        self.insert(lane, vehicle);
    }

    fn enter_next(&self, vehicle: &mut Vehicle, from: LaneId, to: LaneId) {
        vehicle.leg += 1;
        vehicle.came_from = from;
        vehicle.missed_green = 0.0;
        self.streets.settle(vehicle, to);
    }

    fn end_stops(&mut self, lane: LaneId) {
        for vehicle in &mut self.lanes[lane as usize] {
            if vehicle.parking.is_some_and(|parking| parking.parked && parking.left <= 0.0) {
                vehicle.parking = None;
                self.streets.settle(vehicle, lane);
            }
        }
    }

    fn turn_from_wrong_lane(&mut self, lane: LaneId, incidents: &mut Incidents) {
        let street = self.streets.lane(lane);
        let step = self.krauss.step;
        let Some(first) = self.lanes[lane as usize].first_mut() else {
            return;
        };
        let (Onward::Nowhere, Some(turn)) = (first.onward, first.turn()) else {
            return;
        };
        let at_line = street.length - first.position < AT_LINE && first.speed < STANDING;
        if !at_line || first.parks_here() || self.lights.turn(turn) != Aspect::Green {
            return;
        }
        first.missed_green += step;
        if first.missed_green < ENDURANCE {
            return;
        }
        let Some(target) = self.place_for_turn(lane) else {
            return;
        };
        let mut vehicle = self.lanes[lane as usize].remove(0);
        vehicle.position = 0.0;
        vehicle.speed = 0.0;
        self.enter_next(&mut vehicle, lane, target);
        self.insert(target, vehicle);
        incidents.turns_from_wrong_lane += 1;
    }

    /// Where the first vehicle of a wrong lane can turn to: the way of the nearest serving lane, if
    /// there is room and all who come can stop behind it.
    fn place_for_turn(&self, lane: LaneId) -> Option<LaneId> {
        let first = self.vehicles(lane).first()?;
        let way = self.streets.way(first.turn()?);
        let number = i16::from(self.streets.lane(lane).number);
        let serving = number + way.away[usize::from(self.streets.lane(lane).number)];
        let option = *way.onto.get(usize::try_from(serving).ok()?)?.first()?;
        let target = self.streets.lane_of(LinkId(way.to), option);
        let room = self.last(target).is_none_or(|last| last.tail() >= first.min_gap);
        (room && self.upstream_can_follow(target, -first.length, 0.0)).then_some(target)
    }

    /// A vehicle as its sensors report it.
    pub(super) fn sample(&self, vehicle: &Vehicle, lane: LaneId, time: f64) -> VehiclePosition {
        let lane = self.streets.lane(lane);
        let mut position = vehicle.position as f32;
        if f64::from(position) > lane.length {
            // Rounding to the shorter type may not put a vehicle beyond its link.
            position = position.next_down();
        }
        VehiclePosition {
            time,
            vehicle: VehicleId(vehicle.number),
            link: LinkId(lane.link),
            position,
            lane: lane.number,
            speed: vehicle.speed as f32,
        }
    }
}
