//! The unknowns of a program: two curves over a stretch of slots.

/// The stretch of slots of a problem.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// The first slot, counted in the tally.
    pub first: usize,
    pub slots: usize,
    /// Time of its begin.
    pub begin: f64,
    /// Seconds of a slot.
    pub slot: f64,
}

impl Window {
    /// The curve of those who entered, at the border of slots.
    pub(super) fn entered(&self, border: usize) -> usize {
        border
    }

    /// The curve of those who left.
    pub(super) fn left(&self, border: usize) -> usize {
        self.slots + 1 + border
    }

    /// A curve between borders; none outside.
    pub(super) fn at(
        &self,
        curve: fn(&Self, usize) -> usize,
        time: f64,
    ) -> Option<[(usize, f64); 2]> {
        let place = (time - self.begin) / self.slot;
        if !(place >= 0.0 && place <= self.slots as f64) {
            return None;
        }
        let border = (place as usize).min(self.slots - 1);
        let share = place - border as f64;
        Some([(curve(self, border), 1.0 - share), (curve(self, border + 1), share)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_borders_are_shares_of_both() {
        let window = Window { first: 3, slots: 4, begin: 100.0, slot: 5.0 };
        assert_eq!(window.at(Window::entered, 100.0), Some([(0, 1.0), (1, 0.0)]));
        assert_eq!(window.at(Window::entered, 107.5), Some([(1, 0.5), (2, 0.5)]));
        // The curve of those who left begins after the five borders of the other.
        assert_eq!(window.at(Window::left, 107.5), Some([(6, 0.5), (7, 0.5)]));
        // The end belongs to the last slot; what is outside to none.
        assert_eq!(window.at(Window::entered, 120.0), Some([(3, 0.0), (4, 1.0)]));
        for time in [99.9, 120.1, f64::NAN] {
            assert_eq!(window.at(Window::entered, time), None, "{time}");
        }
    }
}
