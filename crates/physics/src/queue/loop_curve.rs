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
