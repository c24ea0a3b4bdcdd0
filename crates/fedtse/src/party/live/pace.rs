//! The times of records on the clock of the wall.

use std::time::{Duration, Instant};

/// Lets recorded time pass, so many times as fast as it did.
pub(crate) struct Pace {
    speed_up: f64,
    /// A moment and the recorded time that it stands for.
    start: Option<(Instant, f64)>,
    /// The most that time may jump, and the time before.
    gap: f64,
    before: Option<f64>,
}

impl Pace {
    pub(crate) fn new(speed_up: f64) -> Self {
        Pace { speed_up, start: None, gap: f64::INFINITY, before: None }
    }

    /// Begins anew, now, where time jumps by more than a gap: nobody waits for a wrong clock.
    pub(crate) fn with_gap(self, gap: f64) -> Self {
        Pace { gap, ..self }
    }

    /// Begins at a moment, which stands for a recorded time.
    pub(crate) fn begin(&mut self, start: Instant, time: f64) {
        self.start = Some((start, time));
    }

    /// When a recorded time is due; the first one is now.
    pub(crate) fn due(&mut self, time: f64) -> Instant {
        if self.before.replace(time).is_some_and(|before| (time - before).abs() > self.gap) {
            self.start = None;
        }
        let (start, first) = *self.start.get_or_insert_with(|| (Instant::now(), time));
        let seconds = ((time - first) / self.speed_up).clamp(0.0, 1e9);
        start + Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Waits until a recorded time is due. Whoever is late does not wait, and so catches up.
    pub(crate) fn wait(&mut self, time: f64) {
        let due = self.due(time);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_due_in_proportion_and_never_before_the_first() {
        let mut pace = Pace::new(10.0);
        let first = pace.due(600.0);
        assert_eq!(pace.due(605.0) - first, Duration::from_millis(500));
        assert_eq!(pace.due(590.0), first);
    }

    #[test]
    fn a_jump_of_time_is_due_at_once() {
        let mut pace = Pace::new(0.001).with_gap(10.0);
        // The first time may be the wrong one.
        for time in [9e10, 600.0, 610.1, 1e11, 599.0, f64::NAN] {
            let due = pace.due(time);
            assert!(due <= Instant::now(), "{time}");
        }
        let mut pace = Pace::new(1.0).with_gap(10.0);
        let first = pace.due(600.0);
        // Within the gap one waits, however far the beginning is.
        for time in [610.0, 620.0, 630.0] {
            assert_eq!(pace.due(time) - first, Duration::from_secs_f64(time - 600.0));
        }
    }
}
