//! Queues at signals from the trajectories of a fleet: QEST and QEST-f.
//!
//! The unknowns of a link in a cycle are two curves: vehicles that have entered, A(t), and left, D(t),
//! of *all* vehicles, piecewise linear in slots of about five seconds. With a triangular diagram they
//! fix all else (Newell): the vehicle at distance y from the stop line at time t has the number
//!
//! ```text
//! N(t, y) = min( A(t − (L − y)/v_f) ,  D(t − y/w) + κ·y )        κ: standing vehicles a metre, all lanes
//! ```
//!
//! The queue lies where the second term is the smaller; its back and front, density and flow follow.
//! The curves come from a convex quadratic program (Clarabel), which weighs
//!
//! - what *others* than the fleet do in a slot, about what is usual at this time of the cycle nowadays;
//! - how many of the fleet are on the link, over its rate;
//! - where a vehicle of the fleet joined the queue: A(entered) − D(joined − y/w) = κ·y;
//! - where it was released:                         D(left) − D(released − y/w) = κ·y;
//!
//! under constraints that always hold: at least the fleet enters, leaves and is there; no more leave
//! than saturation flow and the signal let go; no more are there than fit; loop counts lie between the
//! curves (conservation).
//!
//! 1. [`Timing`]: cycle and green from the fleet, or from the plan.
//! 2. [`Tally`]: the fleet's counts in slots, and [`Found`], the pairs of "κ·y" and the fleet's own count.
//! 3. [`penetration`]: the rate from these pairs alone; [`Relations`]: offset and spread of the two
//!    relations on this link, where lanes differ and vehicles overtake.
//! 4. [`LinkQueues`]: solves cycle after cycle; [`Profile`] is the result of one.
//!
//! This program is ours; the one that the paper cites was not seen. See `docs/physics.md`.

mod link_queues;
mod loop_curve;
mod profile;
mod program;
mod relation;
mod road;
mod steps;
mod tally;
#[cfg(test)]
mod test_queues;
mod timing;
mod usual;
mod window;

pub use link_queues::{CycleReport, Knowledge, LinkQueues};
pub use loop_curve::LoopCurve;
pub use profile::Profile;
pub use program::{Problem, SolveOutcome, Terms};
pub use relation::{Relation, Relations, penetration};
pub use road::{QueueError, Road};
pub use steps::StepQueue;
pub use tally::{Found, Pair, Span, Tally};
pub use timing::{CYCLES, Timing, TimingSource};
