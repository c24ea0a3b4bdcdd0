//! The times of records on the clock of the wall.

use std::time::{Duration, Instant};

/// Lets recorded time pass, so many times as fast as it did.
pub struct Pace {
    speed_up: f64,
    /// A moment and the recorded time that it stands for.
    start: Option<(Instant, f64)>,
}

impl Pace {
    pub fn new(speed_up: f64) -> Self {
        Pace { speed_up, start: None }
    }

    /// Begins at a moment, which stands for a recorded time.
    pub fn begin(&mut self, start: Instant, time: f64) {
        self.start = Some((start, time));
    }

    /// When a recorded time is due; the first one is now.
    pub fn due(&mut self, time: f64) -> Instant {
        let (start, first) = *self.start.get_or_insert_with(|| (Instant::now(), time));
        let seconds = ((time - first) / self.speed_up).clamp(0.0, 1e9);
        start + Duration::from_secs_f64(seconds)
    }

    /// Waits until a recorded time is due. Whoever is late does not wait, and so catches up.
    pub fn wait(&mut self, time: f64) {
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
}
