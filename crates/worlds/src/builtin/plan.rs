//! What to simulate, and what can be wrong with it.

use thiserror::Error;
use traffic::Seconds;

use crate::driving::REACTION_TIME;

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationPlan {
    /// Time of the first moment, since the epoch.
    pub begin: Seconds,
    /// No moment is later than this.
    pub until: Seconds,
    /// Time between moments; at most the drivers' reaction time.
    pub step: Seconds,
    /// Where all randomness of driving comes from.
    pub seed: u64,
    /// How much drivers dawdle and differ: 1 as in reality, 0 for perfect and equal drivers.
    pub noise: f64,
}

impl Default for SimulationPlan {
    /// An hour in steps of one second.
    fn default() -> Self {
        Self {
            begin: Seconds::ZERO,
            until: Seconds::new(3600.0),
            step: Seconds::new(1.0),
            seed: 1,
            noise: 1.0,
        }
    }
}

/// Why a simulation cannot start or go on.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SimulationError {
    /// The plan's step is unusable.
    #[error(
        "step: found {step}, expected more than 0 s and at most the reaction time of {REACTION_TIME} s"
    )]
    Step {
        /// The step found.
        step: Seconds,
    },
    /// The plan's times or noise are unusable.
    #[error("{field}: found {value}, expected {expected}")]
    Plan {
        /// The field at fault.
        field: &'static str,
        /// What it holds.
        value: f64,
        /// What it should.
        expected: &'static str,
    },
    /// A departure cannot be driven.
    #[error("vehicle {vehicle}: {problem}")]
    Departure {
        /// Its number.
        vehicle: u32,
        /// What was found and what was expected.
        problem: String,
    },
}

impl SimulationPlan {
    /// Whether it can be simulated.
    pub(super) fn check(&self) -> Result<(), SimulationError> {
        let step = self.step.get();
        if !(step > 0.0 && step <= REACTION_TIME) {
            return Err(SimulationError::Step { step: self.step });
        }
        let fail = |field, value, expected| Err(SimulationError::Plan { field, value, expected });
        if !self.begin.get().is_finite() {
            return fail("begin", self.begin.get(), "a number of seconds");
        }
        if self.until.get().is_nan() {
            return fail("until", self.until.get(), "a number of seconds");
        }
        if !(0.0..=1.0).contains(&self.noise) {
            return fail("noise", self.noise, "0 to 1");
        }
        Ok(())
    }
}
