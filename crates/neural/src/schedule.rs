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
        for steps in 0..5 {
            let schedule = Schedule::OneCycle { highest: 1.0, steps };
            for step in 0..10 {
                let rate = schedule.rate(step);
                assert!((0.0..=1.0).contains(&rate), "{steps} {step} {rate}");
            }
        }
        let schedule = Schedule::OneCycle { highest: 1.0, steps: 100 };
        assert_eq!(schedule.rate(29), 1.0);
        assert_eq!(schedule.rate(99), schedule.rate(1000));
    }
}
