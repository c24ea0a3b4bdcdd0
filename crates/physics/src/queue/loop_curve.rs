//! What a loop detector counts on a link with queues.

use super::road::{QueueError, positive};
use super::tally::Tally;

/// Counts of a loop across all lanes, interval after interval.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopCurve {
    /// Metres to the stop line.
    pub distance: f64,
    /// When the first interval begins.
    pub begin: f64,
    /// Length of an interval in seconds.
    pub interval: f64,
    /// Vehicles in each interval; none where the loop did not report.
    pub counts: Vec<Option<f64>>,
}

impl LoopCurve {
    /// Checks its numbers.
    pub fn check(&self) -> Result<(), QueueError> {
        positive("interval of the loop", self.interval)?;
        let wrong =
            self.counts.iter().flatten().find(|count| !(**count >= 0.0 && count.is_finite()));
        match wrong {
            Some(&found) => {
                Err(QueueError::Number { what: "loop count", found, expected: "0 or more" })
            }
            None => Ok(()),
        }
    }

    /// Counts by slot: each interval spread evenly.
    pub(super) fn in_slots(&self, tally: &Tally) -> Vec<Option<f64>> {
        let mut slots: Vec<Option<f64>> = vec![Some(0.0); tally.left.len()];
        for (at, slot) in slots.iter_mut().enumerate() {
            let begin = tally.begin + at as f64 * tally.slot;
            let end = begin + tally.slot;
            let mut sum = Some(0.0);
            let mut time = begin;
            while time < end {
                let interval = ((time - self.begin) / self.interval).floor();
                let until = (self.begin + (interval + 1.0) * self.interval).min(end);
                let known = (interval >= 0.0).then(|| self.counts.get(interval as usize)).flatten();
                sum = match (sum, known.copied().flatten()) {
                    (Some(sum), Some(count)) => Some(sum + count * (until - time) / self.interval),
                    _ => None,
                };
                // Rounding may leave a border where it was.
                time = if until > time { until } else { end };
            }
            *slot = sum;
        }
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Span, Timing};

    fn tally(begin: f64, end: f64) -> Tally {
        // Slots of 5 s from the last green before the begin.
        Tally::count(Span { begin, end }, &Timing::planned(60.0, 0.0).unwrap(), &[]).unwrap()
    }

    #[test]
    fn counts_are_spread_evenly_over_slots() {
        let counts = vec![Some(12.0), Some(6.0), None, Some(3.0), Some(0.0), Some(1.0)];
        let curve = LoopCurve { distance: 20.0, begin: 0.0, interval: 10.0, counts };
        curve.check().unwrap();
        let slots = curve.in_slots(&tally(0.0, 60.0));
        let expected = [6.0, 6.0, 3.0, 3.0].map(Some).to_vec();
        let expected =
            [expected, vec![None, None], [1.5, 1.5, 0.0, 0.0, 0.5, 0.5].map(Some).to_vec()]
                .concat();
        assert_eq!(slots, expected);
    }

    #[test]
    fn intervals_that_lie_across_slots_are_cut() {
        // Intervals of 8 s from 2 s on: slot 5–10 has 5 of 8 s of the first.
        let curve =
            LoopCurve { distance: 0.0, begin: 2.0, interval: 8.0, counts: vec![Some(8.0); 7] };
        let slots = curve.in_slots(&tally(0.0, 60.0));
        assert_eq!(slots[0], None, "nothing is known of the first two seconds");
        // A vehicle a second, however intervals lie; 58 s are covered.
        for slot in &slots[1..11] {
            assert!((slot.unwrap() - 5.0).abs() < 1e-12, "{slots:?}");
        }
        assert_eq!(slots[11], None);
    }

    #[test]
    fn loops_that_cannot_be_are_refused() {
        let curve = |interval, counts| LoopCurve { distance: 1.0, begin: 0.0, interval, counts };
        let refusal = |curve: LoopCurve| curve.check().unwrap_err().to_string();
        for interval in [0.0, -1.0, f64::NAN] {
            let expected =
                format!("queue: interval of the loop: found {interval}, expected more than 0");
            assert_eq!(refusal(curve(interval, vec![])), expected);
        }
        for count in [-1.0, f64::NAN, f64::INFINITY] {
            let expected = format!("queue: loop count: found {count}, expected 0 or more");
            assert_eq!(refusal(curve(10.0, vec![None, Some(0.0), Some(count)])), expected);
        }
        assert_eq!(curve(10.0, vec![None; 3]).check(), Ok(()));
    }
}
