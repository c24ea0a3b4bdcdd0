//! A link as queues see it.

use thiserror::Error;
use traffic::{FundamentalDiagram, Metres};

/// Why queues could not be estimated.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum QueueError {
    /// A number that cannot be.
    #[error("queue: {what}: found {found}, expected {expected}")]
    Number {
        /// Which.
        what: &'static str,
        /// Its value.
        found: f64,
        /// What it should be.
        expected: &'static str,
    },
    /// Passages that cannot be.
    #[error("queue: passage {index}: {problem}")]
    Passage {
        /// Its place in the list.
        index: usize,
        /// What is wrong.
        problem: &'static str,
    },
}

/// Checks a number that must be positive.
pub(super) fn positive(what: &'static str, found: f64) -> Result<f64, QueueError> {
    let sound = found > 0.0 && found.is_finite();
    if sound { Ok(found) } else { Err(QueueError::Number { what, found, expected: "more than 0" }) }
}

/// Length, lanes and diagram of a link, in metres, seconds and vehicles of all lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Road {
    pub(super) length: f64,
    pub(super) lanes: f64,
    pub(super) free_speed: f64,
    pub(super) wave_speed: f64,
    /// Standing vehicles a metre.
    pub(super) jam: f64,
    /// Vehicles a second.
    pub(super) capacity: f64,
}

impl Road {
    /// A link's.
    pub fn new(
        length: Metres,
        lanes: u8,
        diagram: &FundamentalDiagram,
    ) -> Result<Self, QueueError> {
        let lanes = positive("lanes", f64::from(lanes))?;
        Ok(Self {
            length: positive("length", length.get())?,
            lanes,
            free_speed: diagram.free_speed().get(),
            wave_speed: diagram.wave_speed().get(),
            jam: diagram.jam_density().get() / 1000.0 * lanes,
            capacity: diagram.capacity().get() / 60.0 * lanes,
        })
    }

    /// How many vehicles fit on it.
    pub fn room(&self) -> f64 {
        self.jam * self.length
    }

    /// Standing vehicles ahead of a distance from the stop line.
    pub fn standing(&self, distance: f64) -> f64 {
        self.jam * distance.clamp(0.0, self.length)
    }
}
