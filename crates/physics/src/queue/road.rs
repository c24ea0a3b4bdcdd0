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
    pub(crate) fn standing(&self, distance: f64) -> f64 {
        self.jam * distance.clamp(0.0, self.length)
    }
}

#[cfg(test)]
mod tests {
    use traffic::{MetresPerSecond, VehPerKmLane};

    use super::*;

    #[test]
    fn a_road_counts_all_lanes_in_metres_and_seconds() {
        let diagram = FundamentalDiagram::triangular(
            MetresPerSecond::new(12.0),
            MetresPerSecond::new(6.0),
            VehPerKmLane::new(150.0),
        )
        .unwrap();
        let road = Road::new(Metres::new(200.0), 3, &diagram).unwrap();
        assert_eq!((road.free_speed, road.wave_speed), (12.0, 6.0));
        // 150 veh/km on three lanes over 200 m; 36 veh/min on each.
        assert!((road.jam - 0.45).abs() < 1e-15 && (road.capacity - 1.8).abs() < 1e-15);
        assert!((road.room() - 90.0).abs() < 1e-12);
        assert!((road.standing(100.0) - 45.0).abs() < 1e-12);
        // No queue is shorter than none or longer than the link.
        assert_eq!((road.standing(-5.0), road.standing(900.0)), (0.0, road.room()));
        let refusal = |length: f64, lanes| {
            Road::new(Metres::new(length), lanes, &diagram).unwrap_err().to_string()
        };
        assert_eq!(refusal(200.0, 0), "queue: lanes: found 0, expected more than 0");
        for length in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let expected = format!("queue: length: found {length}, expected more than 0");
            assert_eq!(refusal(length, 1), expected);
        }
    }
}
