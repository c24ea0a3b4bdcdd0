//! A fleet's counts on a link in slots of time.

use traffic::Passage;

use super::road::{QueueError, Road};
use super::timing::Timing;

/// A time in which everything on the link was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Seconds since the epoch.
    pub begin: f64,
    /// Seconds since the epoch.
    pub end: f64,
}

/// What the fleet did in each slot of a span. Slots begin with a green.
#[derive(Clone, Debug)]
pub struct Tally {
    pub(super) begin: f64,
    pub(super) slot: f64,
    /// Slots of a cycle.
    pub(super) per_cycle: usize,
    /// Vehicles that entered, by slot.
    pub(super) entered: Vec<f64>,
    /// Vehicles that left, by slot.
    pub(super) left: Vec<f64>,
    /// Vehicles on the link at the borders of slots.
    pub(super) present: Vec<f64>,
    /// Times of entering, in order.
    entries: Vec<f64>,
    /// Times of leaving, in order.
    exits: Vec<f64>,
}

/// A queue position of the fleet: vehicles ahead by spacing, and those of the fleet that were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// κ·y.
    pub expected: f64,
    /// How many of the fleet.
    pub counted: f64,
}

/// What a fleet found on a link.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// When vehicles joined the queue: between entering and joining.
    pub joining: Vec<Pair>,
    /// When they were released: between the front's start and leaving.
    pub leaving: Vec<Pair>,
}

impl Found {
    /// Adds those of another span.
    pub fn extend(&mut self, other: Self) {
        self.joining.extend(other.joining);
        self.leaving.extend(other.leaving);
    }
}

/// A span has at most this many slots: more is a mistake in a time.
const MOST_SLOTS: f64 = 1e8;

impl Tally {
    /// Counts passages, in any order; those outside of the span only as far as they reach into it.
    pub fn count(span: Span, timing: &Timing, passages: &[Passage]) -> Result<Self, QueueError> {
        let per_cycle = timing.slots();
        let slot = timing.cycle / per_cycle as f64;
        let length = span.end - span.begin;
        if !(length > 0.0 && length / slot < MOST_SLOTS) {
            let expected = "an end after the begin";
            return Err(QueueError::Number { what: "span", found: length, expected });
        }
        // The first cycle begins with the last green before the span.
        let begin = span.begin - (span.begin - timing.green).rem_euclid(timing.cycle);
        let cycles = ((span.end - begin) / timing.cycle).ceil().max(1.0) as usize;
        let slots = cycles * per_cycle;
        let mut entries = Vec::with_capacity(passages.len());
        let mut exits = Vec::with_capacity(passages.len());
        for (index, passage) in passages.iter().enumerate() {
            check(passage).map_err(|problem| QueueError::Passage { index, problem })?;
            entries.push(passage.entered);
            exits.push(passage.left.unwrap_or(f64::INFINITY));
        }
        entries.sort_by(f64::total_cmp);
        exits.sort_by(f64::total_cmp);
        let at = |times: &[f64], border: usize| before(times, begin + border as f64 * slot) as f64;
        let counts = |times: &[f64]| -> Vec<f64> {
            (0..slots).map(|s| at(times, s + 1) - at(times, s)).collect()
        };
        let present = (0..=slots).map(|s| at(&entries, s) - at(&exits, s)).collect();
        let (entered, left) = (counts(&entries), counts(&exits));
        Ok(Self { begin, slot, per_cycle, entered, left, present, entries, exits })
    }

    /// Cycles, whole ones.
    pub fn cycles(&self) -> usize {
        self.entered.len() / self.per_cycle
    }

    /// When a cycle begins.
    pub(crate) fn start_of(&self, cycle: usize) -> f64 {
        self.begin + (cycle * self.per_cycle) as f64 * self.slot
    }

    /// The fleet's own counts between the ends of each relation.
    pub fn found(&self, road: &Road, passages: &[Passage]) -> Found {
        let mut found = Found::default();
        for passage in passages {
            let (Some(queued), Some(left)) = (passage.queued, passage.left) else { continue };
            let joined = queued.joined;
            let lag = joined.distance / road.wave_speed;
            let ahead =
                before(&self.entries, passage.entered) - before(&self.exits, joined.time - lag);
            found
                .joining
                .push(Pair { expected: road.standing(joined.distance), counted: ahead as f64 });
            let released = queued.released;
            let start = released.time.min(left) - released.distance / road.wave_speed;
            let ahead = before(&self.exits, left) - before(&self.exits, start);
            found
                .leaving
                .push(Pair { expected: road.standing(released.distance), counted: ahead as f64 });
        }
        found
    }
}

/// How many times are earlier.
fn before(times: &[f64], time: f64) -> i64 {
    times.partition_point(|&other| other < time) as i64
}

fn check(passage: &Passage) -> Result<(), &'static str> {
    let left = passage.left.unwrap_or(f64::MAX);
    if !(passage.entered.is_finite() && left.is_finite() && left >= passage.entered) {
        return Err(
            "found times that are no numbers or run backwards, expected entering, then leaving",
        );
    }
    if let Some(queued) = passage.queued {
        let (joined, released) = (queued.joined, queued.released);
        let distances = [joined.distance, released.distance];
        if !distances.iter().all(|distance| distance.is_finite()) {
            return Err("found a distance that is no number");
        }
        if !(joined.time >= passage.entered
            && released.time >= joined.time
            && released.time.is_finite())
        {
            return Err("found a stand that begins before entering or ends before it begins");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use traffic::{Mark, Queued};

    use super::*;

    fn passage(entered: f64, left: Option<f64>) -> Passage {
        Passage { entered, left, queued: None }
    }

    /// Cycles of 30 s in six slots of 5 s; green at 10 s.
    fn timing() -> Timing {
        Timing::planned(30.0, 10.0).unwrap()
    }

    #[test]
    fn slots_begin_with_the_last_green_before_the_span() {
        let span = Span { begin: 100.0, end: 150.0 };
        let passages = [
            passage(80.0, Some(101.0)),
            passage(104.9, Some(105.0)),
            passage(105.0, None),
            passage(400.0, Some(500.0)),
        ];
        let tally = Tally::count(span, &timing(), &passages).unwrap();
        assert_eq!((tally.begin, tally.slot, tally.per_cycle), (100.0, 5.0, 6));
        assert_eq!((tally.cycles(), tally.start_of(0), tally.start_of(1)), (2, 100.0, 130.0));
        // A border belongs to the later slot.
        assert_eq!(tally.entered[..3], [1.0, 1.0, 0.0]);
        assert_eq!(tally.left[..3], [1.0, 1.0, 0.0]);
        assert_eq!(tally.present[..4], [1.0, 1.0, 1.0, 1.0]);
        // Conservation: present changes by those who enter and leave, in each slot.
        for slot in 0..tally.entered.len() {
            let change = tally.present[slot + 1] - tally.present[slot];
            assert_eq!(change, tally.entered[slot] - tally.left[slot]);
        }
        // One that begins between greens is cut from the green before it.
        let early = Tally::count(Span { begin: 99.0, end: 101.0 }, &timing(), &[]).unwrap();
        assert_eq!((early.begin, early.cycles()), (70.0, 2));
    }

    #[test]
    fn spans_that_are_none_are_refused() {
        for (begin, end) in
            [(5.0, 5.0), (5.0, 4.0), (0.0, f64::NAN), (0.0, f64::INFINITY), (0.0, 1e12)]
        {
            let error = Tally::count(Span { begin, end }, &timing(), &[]).unwrap_err().to_string();
            let found = end - begin;
            assert_eq!(
                error,
                format!("queue: span: found {found}, expected an end after the begin")
            );
        }
    }

    #[test]
    fn passages_that_cannot_be_are_named() {
        let span = Span { begin: 0.0, end: 60.0 };
        let stand = |joined: (f64, f64), released: (f64, f64)| Passage {
            entered: 10.0,
            left: Some(50.0),
            queued: Some(Queued {
                joined: Mark { time: joined.0, distance: joined.1 },
                released: Mark { time: released.0, distance: released.1 },
            }),
        };
        let times =
            "found times that are no numbers or run backwards, expected entering, then leaving";
        let distance = "found a distance that is no number";
        let backwards = "found a stand that begins before entering or ends before it begins";
        for (bad, problem) in [
            (passage(f64::NAN, None), times),
            (passage(5.0, Some(4.9)), times),
            (passage(5.0, Some(f64::INFINITY)), times),
            (stand((12.0, f64::NAN), (20.0, 5.0)), distance),
            (stand((12.0, 5.0), (20.0, f64::INFINITY)), distance),
            (stand((9.0, 5.0), (20.0, 5.0)), backwards),
            (stand((20.0, 5.0), (12.0, 5.0)), backwards),
            (stand((20.0, 5.0), (f64::NAN, 5.0)), backwards),
        ] {
            let error = Tally::count(span, &timing(), &[passage(0.0, None), bad]).unwrap_err();
            assert_eq!(error, QueueError::Passage { index: 1, problem });
        }
        // Entering and leaving at once is possible.
        assert_eq!(check(&passage(5.0, Some(5.0))), Ok(()));
    }
}
