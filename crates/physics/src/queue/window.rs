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
    pub fn entered(&self, border: usize) -> usize {
        border
    }

    /// The curve of those who left.
    pub fn left(&self, border: usize) -> usize {
        self.slots + 1 + border
    }

    /// A curve between borders; none outside.
    pub fn at(&self, curve: fn(&Self, usize) -> usize, time: f64) -> Option<[(usize, f64); 2]> {
        let place = (time - self.begin) / self.slot;
        if !(place >= 0.0 && place <= self.slots as f64) {
            return None;
        }
        let border = (place as usize).min(self.slots - 1);
        let share = place - border as f64;
        Some([(curve(self, border), 1.0 - share), (curve(self, border + 1), share)])
    }
}
