//! How fast a driver goes on: the smallest of what the road allows.

use traffic::Aspect;

use super::road::Road;
use super::streets::LaneId;
use super::vehicle::{Onward, Vehicle};
use crate::driving::LONGEST;

/// How far before a closed stop line drivers come to rest, in metres.
const LINE_MARGIN: f64 = 1.0;
/// How hard drivers brake to let others in or to fall behind them, in m/s².
const COURTESY: f64 = 2.0;
/// After standing this long drivers forget their courtesy, in seconds: else a few who wait for each
/// other behind a double-parked vehicle could hold up all lanes.
const PATIENCE: f64 = 10.0;
/// From how far before the stop line on a needed lane change makes others yield, in metres.
const URGENT: f64 = 80.0;

/// The driver whose speed is chosen, and the largest speed found allowed so far.
struct Choice<'a> {
    me: &'a Vehicle,
    speed: f64,
    /// What lies farther ahead than this cannot matter, in metres.
    reach: f64,
}

impl Road {
    /// The speed of a vehicle in the coming step; `dawdle` is uniform in 0–1.
    pub(super) fn next_speed(&self, lane: LaneId, index: usize, dawdle: f64) -> f64 {
        let vehicles = self.vehicles(lane);
        let me = &vehicles[index];
        if me.parked() {
            return 0.0;
        }
        let free = me.free_speed(self.streets.lane(lane).limit, &self.krauss);
        let reach = self.krauss.space_for(free) + me.min_gap;
        let mut choice = Choice { me, speed: free, reach };
        if index > 0 {
            self.follow(
                &mut choice,
                vehicles[index - 1].tail() - me.position,
                &vehicles[index - 1],
            );
        }
        if let Some(parking) = me.parking
            && parking.leg == me.leg
        {
            self.stop_within(&mut choice, parking.position - me.position);
        }
        self.look_beyond_the_line(&mut choice, lane);
        self.yield_to_changers(&mut choice, lane);
        let Choice { speed: wanted, .. } = choice;
        let dawdled =
            wanted - me.imperfection * wanted.min(me.acceleration * self.krauss.step) * dawdle;
        // Dawdling may not become braking harder than possible: followers rely on that.
        dawdled.max(wanted.min(me.speed - self.krauss.slowdown)).max(0.0)
    }

    /// Keeps a safe gap to a leader, whose tail is `space` metres ahead.
    #[inline]
    fn follow(&self, choice: &mut Choice, space: f64, leader: &Vehicle) {
        if space < choice.reach {
            let safe = self.krauss.behind(space - choice.me.min_gap, leader.speed);
            choice.speed = choice.speed.min(safe);
        }
    }

    /// Stops within a distance, or as soon after as possible.
    #[inline]
    fn stop_within(&self, choice: &mut Choice, distance: f64) {
        let slowest = choice.me.speed - self.krauss.slowdown;
        choice.speed = choice.speed.min(self.krauss.speed_for(distance).max(slowest));
    }

    /// The stop line and what lies beyond it along the route, as far as it can matter.
    fn look_beyond_the_line(&self, choice: &mut Choice, lane: LaneId) {
        let me = choice.me;
        let (mut lane, mut leg, mut onward) = (lane, me.leg as usize, me.onward);
        let mut distance = self.streets.lane(lane).length - me.position;
        // Who is leaving a lane may still stick out into it by its whole length.
        while distance < choice.reach + LONGEST {
            for (_, other) in self.leaving(lane) {
                self.follow(choice, distance + other.tail(), other);
            }
            let entered = match onward {
                Onward::Into(target) => self.last(target).map(|last| (target, last)),
                _ => None,
            };
            // Where lanes merge, who may follow whom is decided by grants.
            if let Some((target, last)) = entered
                && self.streets.lane(target).merge.is_none()
            {
                self.follow(choice, distance + last.tail(), last);
            }
            if distance >= choice.reach {
                return;
            }
            let own_line = leg == me.leg as usize;
            let closed = if own_line {
                self.line_is_closed(me, lane, distance)
            } else {
                onward == Onward::Nowhere
                    || self.aspect(me, leg, lane) != Aspect::Green
                        && self.krauss.can_stop(me.speed, distance)
            };
            if closed || !self.may_merge(choice, onward, own_line, distance) {
                self.stop_within(choice, distance - LINE_MARGIN);
                return;
            }
            let Onward::Into(target) = onward else {
                return;
            };
            let ahead = self.streets.lane(target);
            self.slow_down_to(choice, distance, ahead.limit * me.speed_factor);
            if let Some((_, last)) = entered {
                self.follow(choice, distance + last.tail(), last);
            }
            leg += 1;
            if let Some(parking) = me.parking
                && parking.leg as usize == leg
            {
                self.stop_within(choice, distance + parking.position);
            }
            lane = target;
            onward = self.streets.onward(me, leg, lane);
            distance += ahead.length;
        }
    }

    /// Whether the way into the next lane is granted, if it needs a grant; keeps behind the virtual
    /// leader. Grants are given on the last link only: farther lines are closed until then.
    fn may_merge(
        &self,
        choice: &mut Choice,
        onward: Onward,
        own_line: bool,
        distance: f64,
    ) -> bool {
        let Onward::Into(target) = onward else {
            return true;
        };
        let Some(merge) = self.streets.lane(target).merge else {
            return true;
        };
        if !own_line {
            return false;
        }
        let grants = &self.merges[merge as usize].grants;
        let Some(grant) = grants.iter().find(|grant| grant.vehicle == choice.me.number) else {
            return false;
        };
        let gap = distance - grant.leader_tail - choice.me.min_gap;
        choice.speed = choice.speed.min(self.krauss.behind(gap, grant.leader_speed));
        true
    }

    /// Is no faster than `limit` when the front passes a point `distance` metres ahead.
    fn slow_down_to(&self, choice: &mut Choice, distance: f64, limit: f64) {
        if limit < choice.speed {
            // Braking from the chosen speed passes the point at the limit or less. One step's loss
            // of speed is kept in hand, since speeds fall in steps.
            let lower = (limit - self.krauss.slowdown).max(0.0);
            let before = self.krauss.behind(distance, lower);
            choice.speed = choice.speed.min(before.max(limit));
        }
    }

    /// Lets in who must change into this lane or is stuck behind a double-parked vehicle, and falls
    /// behind those of the lane where it must go itself.
    ///
    /// Everyone yields only to vehicles ahead, so nobody waits for each other in a circle.
    fn yield_to_changers(&self, choice: &mut Choice, lane: LaneId) {
        let me = choice.me;
        if me.standing > PATIENCE {
            return;
        }
        let own_need = me.must_change(&self.streets, lane);
        let length = self.streets.lane(lane).length;
        for side in [-1, 1] {
            let Some(beside) = self.streets.beside(lane, side) else {
                continue;
            };
            let vehicles = self.vehicles(beside);
            let (ahead, other) = match vehicles[..self.count_ahead(beside, me.position)] {
                [.., ref ahead, ref other] => (Some(ahead), other),
                [ref other] => (None, other),
                [] => continue,
            };
            let gap = other.tail() - me.position - me.min_gap;
            if gap >= choice.reach || other.parked() {
                continue;
            }
            let stuck = ahead.is_some_and(Vehicle::parked);
            let must_change = length - other.position < URGENT
                && other.must_change(&self.streets, beside) * side < 0;
            let lets_in = gap >= 0.0 && (stuck || must_change);
            let falls_behind = own_need * side > 0 && length - me.position < URGENT;
            if lets_in || falls_behind {
                let courteous = me.speed - COURTESY * self.krauss.step;
                let behind = self.krauss.behind(gap, other.speed);
                choice.speed = choice.speed.min(behind.max(courteous));
            }
        }
    }
}
