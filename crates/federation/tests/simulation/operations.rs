//! What can happen.

use proptest::prelude::*;

use crate::disk::Death;

/// One thing that happens. Messages are on their way in one line, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// This many messages arrive.
    Deliver(usize),
    /// The oldest message is lost.
    Lose,
    /// The oldest message arrives and has its effect, but all that it leads to is lost.
    LoseAnswers,
    /// The oldest message arrives, and again after all others.
    Double,
    /// The oldest message goes behind this many others.
    Delay(usize),
    /// All messages that are on their way arrive in the opposite order.
    Reverse,
    /// A message from the past arrives again: so many before the last one.
    Replay(usize),
    /// A party loses its memory (0 is the host) and what is on its way to it.
    Crash(usize),
    /// A party will lose its memory in the middle of its next checkpoint (0 is the host).
    CrashInCheckpoint(usize, Death),
    /// It comes back with its disk.
    Restart(usize),
    /// A guest loses its memory and its disk.
    LoseDisk(usize),
    /// The last line of a crashed party's ledger, and nothing after it, was not written whole.
    Tear(usize),
    /// Time passes, in seconds.
    Pause(u64),
}

/// Lists of up to so many operations; with or without pauses beyond the parties' limits.
pub fn lists(most: usize, long: bool) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(if long { 2000 } else { 40 }), 0..most)
}

fn death() -> impl Strategy<Value = Death> {
    prop_oneof![Just(Death::Before), Just(Death::Between), Just(Death::After)]
}

fn op(longest: u64) -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1..12usize).prop_map(Op::Deliver),
        2 => Just(Op::Lose),
        2 => Just(Op::LoseAnswers),
        2 => Just(Op::Double),
        2 => (1..6usize).prop_map(Op::Delay),
        1 => Just(Op::Reverse),
        2 => (0..60usize).prop_map(Op::Replay),
        1 => (0..4usize).prop_map(Op::Crash),
        1 => (0..4usize, death()).prop_map(|(party, death)| Op::CrashInCheckpoint(party, death)),
        1 => (0..4usize).prop_map(Op::Restart),
        1 => (0..4usize).prop_map(Op::Tear),
        2 => (1..=longest).prop_map(Op::Pause),
    ]
}
