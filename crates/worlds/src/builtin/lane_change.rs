//! When drivers change lanes, and when it is safe.
//!
//! Reasons, the strongest first: the lane does not serve the next turn (*needed*); another lane
//! suits the turns ahead better; another lane is faster, or the one ahead is double-parked.
//!
//! A change is instantaneous. It is made only by a vehicle that stands wholly on the link and could
//! still stop before its stop line, so that it never upsets who may enter the next link; and only
//! if it and its new follower can both go on without braking harder than allowed.

use super::road::Road;
use super::streets::LaneId;
use super::vehicle::Vehicle;

/// How much faster another lane must promise to be, in m/s.
const WORTHWHILE: f64 = 1.0;
/// Over which time drivers expect to use up the gap ahead, in seconds.
const OUTLOOK: f64 = 5.0;
/// Farther away than this nobody ahead matters for the choice of lane, in metres.
const VIEW: f64 = 80.0;
/// Seconds between changes for the sake of speed.
const PATIENCE: f64 = 5.0;
/// Distance between a double-parked vehicle and the stop line to come back into its lane, in metres.
const RETURN: f64 = 30.0;
/// How hard a follower may have to brake for a change that is not needed, in m/s².
const POLITE: f64 = 2.0;

/// A wish to change lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub vehicle: u32,
    pub from: LaneId,
    pub to: LaneId,
    needed: bool,
}

/// How strongly a change is wanted: compared field by field.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Urge {
    needed: bool,
    lanes_saved: i16,
    faster: f64,
}

impl Road {
    /// What a vehicle wants to do, given that it is safe; `step` is the number of the step.
    pub(super) fn wish(&self, lane: LaneId, index: usize, step: u64) -> Option<Wish> {
        let vehicles = self.vehicles(lane);
        let me = &vehicles[index];
        if !self.may_leave_lane(me, lane) {
            return None;
        }
        let leader = index.checked_sub(1).map(|ahead| &vehicles[ahead]);
        let promised = self.promised_speed(me, lane, leader);
        let number = usize::from(self.streets.lane(lane).number);
        let free = self.streets.lane(lane).limit * me.speed_factor;
        if me.lane_costs[number] == 0 && free - promised <= WORTHWHILE {
            return None;
        }
        let mut best: Option<(Urge, Wish)> = None;
        for side in [-1, 1] {
            let Some(beside) = self.streets.beside(lane, side) else {
                continue;
            };
            let Some(urge) = self.urge(me, lane, side, beside, leader, promised, step) else {
                continue;
            };
            if best.is_none_or(|(other, _)| urge > other) {
                let wish = Wish { vehicle: me.number, from: lane, to: beside, needed: urge.needed };
                if self.is_safe(me, &wish) {
                    best = Some((urge, wish));
                }
            }
        }
        best.map(|(_, wish)| wish)
    }

    /// Makes a change if it is still safe after those of others.
    pub(super) fn change(&mut self, wish: &Wish, step: u64) {
        let from = wish.from as usize;
        let Some(index) = self.lanes[from].iter().position(|v| v.number == wish.vehicle) else {
            return;
        };
        if !self.is_safe(&self.lanes[from][index], wish) {
            return;
        }
        let mut vehicle = self.lanes[from].remove(index);
        vehicle.changed_at = step;
        vehicle.onward = self.streets.onward(&vehicle, vehicle.leg as usize, wish.to);
        self.insert(wish.to, vehicle);
    }

    fn may_leave_lane(&self, me: &Vehicle, lane: LaneId) -> bool {
        let distance = self.streets.lane(lane).length - me.position;
        me.tail() >= 0.0
            && self.streets.street_of(lane).lanes > 1
            && !me.parked()
            && self.krauss.can_follow(me.speed, distance - me.min_gap, 0.0)
    }

    #[expect(clippy::too_many_arguments, reason = "one driver's view of one neighbouring lane")]
    fn urge(
        &self,
        me: &Vehicle,
        lane: LaneId,
        side: i16,
        beside: LaneId,
        leader: Option<&Vehicle>,
        promised: f64,
        step: u64,
    ) -> Option<Urge> {
        let cost = |id: LaneId| i16::from(me.lane_costs[usize::from(self.streets.lane(id).number)]);
        let lanes_saved = cost(lane) - cost(beside);
        let needed = me.must_change(&self.streets, lane) * side > 0;
        let ahead = self.count_ahead(beside, me.position);
        let new_leader = ahead.checked_sub(1).map(|index| &self.vehicles(beside)[index]);
        let length = self.streets.lane(lane).length;
        let passable = |other: &Vehicle| {
            other.parked()
                && other.position - me.position < VIEW
                && length - other.position >= RETURN
        };
        let faster = self.promised_speed(me, beside, new_leader) - promised;
        let rested = (step - me.changed_at) as f64 * self.krauss.step >= PATIENCE;
        let wanted = if new_leader.is_some_and(passable) {
            // Behind a double-parked vehicle is no place to go; come back when past it.
            false
        } else if needed {
            true
        } else if lanes_saved > 0 {
            faster >= -WORTHWHILE
        } else if lanes_saved == 0 {
            rested && faster > WORTHWHILE
        } else {
            rested && faster > WORTHWHILE && leader.is_some_and(passable)
        };
        wanted.then_some(Urge { needed, lanes_saved, faster })
    }

    /// The speed that a lane lets one hope for over the next seconds.
    fn promised_speed(&self, me: &Vehicle, lane: LaneId, leader: Option<&Vehicle>) -> f64 {
        let free = self.streets.lane(lane).limit * me.speed_factor;
        let leader = leader.filter(|other| other.position - me.position < VIEW);
        leader.map_or(free, |other| {
            let gap = (other.tail() - me.position - me.min_gap).max(0.0);
            free.min(other.speed + gap / OUTLOOK)
        })
    }

    fn is_safe(&self, me: &Vehicle, wish: &Wish) -> bool {
        let Wish { to, needed, .. } = *wish;
        let lane = self.streets.lane(to);
        let safe_behind = |space: f64, other: &Vehicle| {
            let gap = space - me.min_gap;
            gap >= 0.0 && self.krauss.can_follow(me.speed, gap, other.speed)
        };
        let ahead = self.count_ahead(to, me.position);
        let vehicles = self.vehicles(to);
        let leader_agrees = match ahead.checked_sub(1).map(|index| &vehicles[index]) {
            Some(leader) => safe_behind(leader.tail() - me.position, leader),
            None => self
                .leaving(to)
                .all(|(_, other)| safe_behind(lane.length - me.position + other.tail(), other)),
        };
        leader_agrees
            && match vehicles.get(ahead) {
                Some(follower) => {
                    let gap = me.tail() - follower.position - follower.min_gap;
                    let braking =
                        if needed { self.krauss.slowdown } else { POLITE * self.krauss.step };
                    gap >= 0.0 && follower.speed - braking <= self.krauss.behind(gap, me.speed)
                }
                None => self.upstream_can_follow(to, me.tail(), me.speed),
            }
    }

    /// Whether all who come towards a lane can follow a vehicle there, whose tail is at `tail`
    /// metres from the lane's start (0 or more) and which drives at `speed`.
    pub(super) fn upstream_can_follow(&self, lane: LaneId, tail: f64, speed: f64) -> bool {
        // Everyone who is farther away than the longest braking distance can stop anyway. The
        // largest speed factor is below 1.25.
        let farthest = self.krauss.space_for(1.25 * self.streets.top_limit);
        self.all_can_follow(lane, lane, 0.0, farthest, tail, speed)
    }

    fn all_can_follow(
        &self,
        goal: LaneId,
        lane: LaneId,
        from_lane: f64,
        farthest: f64,
        tail: f64,
        speed: f64,
    ) -> bool {
        self.streets.lane(lane).sources.iter().all(|&source| {
            let length = self.streets.lane(source).length;
            for other in self.vehicles(source) {
                let distance = length - other.position + from_lane;
                let halts = self.krauss.can_follow(other.speed, distance - other.min_gap, 0.0);
                if halts && tail >= 0.0 {
                    // So can all behind it.
                    return true;
                }
                let comes = lane != goal || other.onward == super::vehicle::Onward::Into(goal);
                let gap = distance + tail - other.min_gap;
                if comes && !self.krauss.can_follow(other.speed, gap, speed) {
                    return false;
                }
            }
            let from_source = from_lane + length;
            from_source >= farthest
                || self.all_can_follow(goal, source, from_source, farthest, tail, speed)
        })
    }
}
