//! Who may enter a lane that several lanes lead into.
//!
//! Each step, and for each such lane, the vehicles near enough to need an answer are put in order of
//! their distance to the stop line. In this order each gets a *grant* if it can follow the one
//! granted before it as if that were its leader (a virtual leader, on another lane). The first who
//! cannot ends the list: so lanes take turns, and nobody is overtaken for ever. Who has no grant
//! waits at the stop line.
//!
//! Why nobody collides: who can no longer stop must have had a grant in the step before, so it
//! follows its virtual leader already and keeps its place; it is granted again. A newcomer comes
//! in before such a vehicle only if that vehicle can follow it.

use super::road::{Road, SLOW};
use super::streets::LaneId;
use super::vehicle::Onward;

/// Where the virtual leader is if there is none: too far beyond the line to matter, in metres.
const FAR_BEYOND: f64 = -1.0e6;

/// Leave to enter a merging lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergePermit {
    /// To which vehicle.
    pub vehicle: u32,
    /// How far before the line the tail of its virtual leader is, in metres; negative beyond it.
    pub leader_tail: f64,
    /// The virtual leader's speed, in m/s.
    pub leader_speed: f64,
}

/// The grants of one merging lane, and the space in which they are found.
#[derive(Clone, Debug, Default)]
pub(super) struct Merge {
    /// In the order of entering.
    pub grants: Vec<MergePermit>,
    candidates: Vec<Candidate>,
}

/// A vehicle that wants to enter a merging lane.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// To the stop line, in metres.
    distance: f64,
    speed: f64,
    length: f64,
    min_gap: f64,
    vehicle: u32,
    /// Can no longer stop before the line.
    committed: bool,
}

impl Road {
    /// Decides who may enter a merging lane in this step.
    pub(super) fn grant(&self, lane: LaneId, Merge { grants, candidates }: &mut Merge) {
        grants.clear();
        candidates.clear();
        for &source in &self.streets.lane(lane).sources {
            self.find_candidates(source, lane, candidates);
        }
        // Stable, so that equal distances keep the order of the sources.
        candidates.sort_by(|a, b| a.distance.total_cmp(&b.distance));
        let mut leader = match self.last(lane) {
            Some(last) => (-last.tail(), last.speed),
            None => (FAR_BEYOND, 0.0),
        };
        let can_follow = |follower: &Candidate, (tail, speed): (f64, f64)| {
            let gap = follower.distance - tail - follower.min_gap;
            // Who is still level with its leader has to let it pass first.
            gap >= 0.0 && self.krauss.can_follow(follower.speed, gap, speed)
        };
        let mut open = true;
        for (index, candidate) in candidates.iter().enumerate() {
            let as_leader = (candidate.distance + candidate.length, candidate.speed);
            if !candidate.committed {
                let next_committed = candidates[index + 1..].iter().find(|c| c.committed);
                open = open
                    && can_follow(candidate, leader)
                    && next_committed.is_none_or(|next| can_follow(next, as_leader));
                if !open {
                    continue;
                }
            }
            grants.push(MergePermit {
                vehicle: candidate.vehicle,
                leader_tail: leader.0,
                leader_speed: leader.1,
            });
            leader = as_leader;
        }
    }

    fn find_candidates(&self, source: LaneId, target: LaneId, candidates: &mut Vec<Candidate>) {
        let street = self.streets.lane(source);
        // Behind a queue that goes elsewhere: claiming a place now would only hold up the others.
        let mut held = false;
        for (index, vehicle) in self.vehicles(source).iter().enumerate() {
            let distance = street.length - vehicle.position;
            let free = vehicle.free_speed(street.limit, &self.krauss);
            if distance >= self.krauss.space_for(free) + vehicle.min_gap {
                break;
            }
            if index == 0 {
                held =
                    self.leaving(source).any(|(into, other)| into != target && other.speed < SLOW);
            }
            let committed = !self.krauss.can_stop(vehicle.speed, distance);
            if vehicle.onward != Onward::Into(target) {
                held |= vehicle.speed < SLOW;
                continue;
            }
            if !committed
                && (held || vehicle.parks_here() || self.line_is_closed(vehicle, source, distance))
            {
                held = true;
                continue;
            }
            candidates.push(Candidate {
                distance,
                speed: vehicle.speed,
                length: vehicle.length,
                min_gap: vehicle.min_gap,
                vehicle: vehicle.number,
                committed,
            });
        }
    }
}
