//! The state that fedtse estimates: density and flow of a link in a step.

use serde::{Deserialize, Serialize};

use crate::units::{MetresPerSecond, Seconds, VehPerKmLane, VehPerMinLane};

/// Density and flow of one link in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// Vehicles on a kilometre of lane.
    pub density: VehPerKmLane,
    /// Vehicles a minute and lane.
    pub flow: VehPerMinLane,
}

impl LinkState {
    /// Flow over density; an empty link has no speed.
    pub fn speed(self) -> Option<MetresPerSecond> {
        (self.density > VehPerKmLane::ZERO).then(|| self.flow / self.density)
    }
}

/// The number of a step, counted from the epoch that parties agree on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Step(pub i64);

/// Steps of equal length from the epoch (time zero).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepClock {
    /// Length of a step.
    pub length: Seconds,
}

impl StepClock {
    /// The step that contains a time; a border belongs to the later step.
    pub fn step_at(self, time: Seconds) -> Step {
        Step((time / self.length).floor() as i64)
    }

    /// When a step begins.
    pub fn start_of(self, step: Step) -> Seconds {
        self.length * step.0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_belong_to_the_later_step() {
        let clock = StepClock { length: Seconds::new(10.0) };
        assert_eq!(clock.step_at(Seconds::new(9.99)), Step(0));
        assert_eq!(clock.step_at(Seconds::new(10.0)), Step(1));
        assert_eq!(clock.step_at(Seconds::new(-0.1)), Step(-1));
        assert_eq!(clock.start_of(Step(3)), Seconds::new(30.0));
    }

    #[test]
    fn a_step_begins_in_itself_and_ends_with_the_next() {
        for length in [1.0, 10.0, 12.5, 60.0, 300.0] {
            let clock = StepClock { length: Seconds::new(length) };
            for step in [-1_000_000_i64, -3, -1, 0, 1, 7, 86_400, 10_000_000] {
                let start = clock.start_of(Step(step));
                assert_eq!(clock.step_at(start), Step(step), "{length} s");
                assert_eq!(clock.step_at(start + Seconds::new(length / 2.0)), Step(step));
                assert_eq!(clock.start_of(Step(step + 1)) - start, Seconds::new(length));
            }
        }
    }

    #[test]
    fn a_links_speed_is_flow_over_density() {
        assert_eq!(LinkState::default().speed(), None, "an empty link has none");
        let flowing =
            LinkState { density: VehPerKmLane::new(30.0), flow: VehPerMinLane::new(18.0) };
        // 18 veh/min over 30 veh/km is 0.6 km/min; three roundings.
        assert!((flowing.speed().unwrap().get() - 10.0).abs() < 1e-14);
        let standing = LinkState { density: VehPerKmLane::new(150.0), ..LinkState::default() };
        assert_eq!(
            standing.speed(),
            Some(MetresPerSecond::ZERO),
            "a queue has speed zero, not none"
        );
    }
}
