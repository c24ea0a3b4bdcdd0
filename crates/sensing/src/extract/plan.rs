//! What to extract.

use traffic::{Seconds, StepClock};

use super::ExtractError;
use crate::fleet::Fleets;

/// Shorter steps could not be counted through all of time.
const MIN_STEP: Seconds = Seconds::new(0.001);
/// The most cells or sub-steps: more is a mistake, and would fill the memory.
pub(crate) const MAX_PARTS: usize = 100;

/// What to extract.
#[derive(Clone, Debug, PartialEq)]
pub struct FeaturePlan {
    /// The steps.
    pub clock: StepClock,
    /// Cells that each link is cut into.
    pub cells: usize,
    /// Sub-steps that each step is cut into.
    pub sub_steps: usize,
    /// How long a vehicle may go unseen and still be on its way.
    pub patience: Seconds,
    /// Who sees what.
    pub fleets: Fleets,
}

impl FeaturePlan {
    /// The paper's: steps of 10 s, 6 cells, 2 sub-steps.
    pub fn paper(fleets: Fleets) -> Self {
        Self {
            clock: StepClock { length: Seconds::new(10.0) },
            cells: 6,
            sub_steps: 2,
            patience: Seconds::new(5.0),
            fleets,
        }
    }

    /// Whether its numbers make sense.
    pub(super) fn check(&self) -> Result<(), ExtractError> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let fail =
            |field, found: String, expected| Err(ExtractError::Plan { field, found, expected });
        if !(positive(self.clock.length.get()) && self.clock.length >= MIN_STEP) {
            return fail("step", self.clock.length.to_string(), "0.001 s or more");
        }
        if !positive(self.patience.get()) {
            return fail("patience", self.patience.to_string(), "more than 0 s");
        }
        if self.cells == 0 || self.cells > MAX_PARTS {
            return fail("cells", self.cells.to_string(), "1 to 100");
        }
        if self.sub_steps == 0 || self.sub_steps > MAX_PARTS {
            return fail("sub-steps", self.sub_steps.to_string(), "1 to 100");
        }
        Ok(())
    }
}
