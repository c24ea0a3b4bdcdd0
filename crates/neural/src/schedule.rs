//! Learning rates as functions of the step.
//!
//! ```
//! use neural::Schedule;
//! let halving = Schedule::Step { rate: 0.1, every: 10, factor: 0.5 };
//! assert_eq!((halving.rate(9), halving.rate(10), halving.rate(25)), (0.1, 0.05, 0.025));
//! ```

use serde::{Deserialize, Serialize};

/// A learning rate for every step, the first being step 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Schedule {
    /// Always the same.
    Constant {
        /// The rate.
        rate: f32,
    },
    /// `rate·factor^⌊step/every⌋`.
    Step {
        /// The first rate.
        rate: f32,
        /// Steps between two changes.
        every: u64,
        /// By which the rate is multiplied.
        factor: f32,
    },
    /// From `highest`/25 up to `highest` in the first 30 % of all steps, then down to
    /// `highest`/250,000, both along half a cosine; PyTorch's defaults.
    OneCycle {
        /// The highest rate.
        highest: f32,
        /// Number of all steps.
        steps: u64,
    },
}

impl Schedule {
    /// The rate of a step.
    pub fn rate(&self, step: u64) -> f32 {
        match *self {
            Schedule::Constant { rate } => rate,
            Schedule::Step { rate, every, factor } => {
                let changes = step / every.max(1);
                (f64::from(rate) * f64::from(factor).powf(changes as f64)) as f32
            }
            Schedule::OneCycle { highest, steps } => {
                let highest = f64::from(highest);
                let (first, last) = (highest / 25.0, highest / 25.0 / 1e4);
                let top = 0.3 * steps as f64 - 1.0;
                let end = steps.saturating_sub(1) as f64;
                let step = (step as f64).min(end);
                let rate = if step <= top {
                    half_cosine(first, highest, if top > 0.0 { step / top } else { 1.0 })
                } else {
                    half_cosine(highest, last, (step - top) / (end - top).max(f64::MIN_POSITIVE))
                };
                rate as f32
            }
        }
    }
}

/// From `start` (at 0) to `end` (at 1).
fn half_cosine(start: f64, end: f64, at: f64) -> f64 {
    end + (start - end) / 2.0 * (1.0 + (std::f64::consts::PI * at).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cycle_survives_few_steps_and_steps_past_the_end() {
        for steps in 0..5u64 {
            let schedule = Schedule::OneCycle { highest: 1.0, steps };
            for step in 0..10 {
                let rate = schedule.rate(step);
                // From the last step on, the lowest: a 250,000th of the highest, to the rounding of 1 + cos π.
                if step + 1 >= steps {
                    assert!((rate - 4e-6).abs() < 1e-12, "{steps} {step} {rate}");
                }
                assert!((4e-6 - 1e-12..=1.0).contains(&rate), "{steps} {step} {rate}");
            }
        }
        let schedule = Schedule::OneCycle { highest: 1.0, steps: 100 };
        assert_eq!(schedule.rate(29), 1.0);
        assert_eq!(schedule.rate(99), schedule.rate(1000));
    }

    #[test]
    fn one_cycle_goes_up_and_down_along_cosines() {
        let schedule = Schedule::OneCycle { highest: 0.5, steps: 100 };
        // The top is at step 29, the end at 99: half way up 14.5, half way down 64.
        let rate = |step| f64::from(schedule.rate(step));
        let near =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-6, "{found}");
        near(rate(0), 0.5 / 25.0);
        near(rate(29), 0.5);
        near(rate(64), (0.5 + 0.5 / 25e4) / 2.0);
        near(rate(99), 0.5 / 25e4);
        // Steps as far from half way on either side make up the sum of both ends.
        for away in 0..15 {
            near(rate(14 - away) + rate(15 + away), 0.5 + 0.02);
        }
        assert!((1..=29).all(|step| rate(step) > rate(step - 1)));
        assert!((30..100).all(|step| rate(step) < rate(step - 1)));
    }

    #[test]
    fn steps_multiply_by_their_factor() {
        let schedule = Schedule::Step { rate: 1.0, every: 3, factor: 0.25 };
        let rates: Vec<f32> = (0..8).map(|step| schedule.rate(step)).collect();
        assert_eq!(rates, [1.0, 1.0, 1.0, 0.25, 0.25, 0.25, 0.0625, 0.0625]);
        // Steps of no length are steps of one.
        let each = Schedule::Step { rate: 1.0, every: 0, factor: 0.5 };
        assert_eq!((each.rate(0), each.rate(3)), (1.0, 0.125));
        // Far out it vanishes, and does not become a number that is none.
        assert_eq!(schedule.rate(u64::MAX), 0.0);
        assert_eq!(Schedule::Constant { rate: 0.3 }.rate(u64::MAX), 0.3);
    }

    #[test]
    fn schedules_are_read_by_their_kind() {
        for (text, expected) in [
            (r#"{"kind":"constant","rate":0.5}"#, Schedule::Constant { rate: 0.5 }),
            (
                r#"{"kind":"step","rate":0.5,"every":10,"factor":0.25}"#,
                Schedule::Step { rate: 0.5, every: 10, factor: 0.25 },
            ),
            (
                r#"{"kind":"one-cycle","highest":0.5,"steps":100}"#,
                Schedule::OneCycle { highest: 0.5, steps: 100 },
            ),
        ] {
            assert_eq!(serde_json::from_str::<Schedule>(text).unwrap(), expected);
            assert_eq!(serde_json::to_string(&expected).unwrap(), text);
        }
        for (text, expected) in [
            (r#"{"kind":"cosine","rate":0.5}"#, "unknown variant `cosine`"),
            (r#"{"kind":"constant"}"#, "missing field `rate`"),
            (r#"{"kind":"constant","rate":0.5,"every":1}"#, "unknown field `every`"),
        ] {
            let error = serde_json::from_str::<Schedule>(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
