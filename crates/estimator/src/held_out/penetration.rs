//! The fleet's share of the traffic, from loops.

use std::ops::RangeInclusive;

use traffic::Step;

use super::error::HeldOutError;
use super::folds::check_steps;
use crate::sources::{FleetData, LoopData};

/// More than the traffic by this much is sampling and counting error, and counts as all of it.
const MOST: f64 = 1.05;

/// Passages of a fleet, given as folds, on the links of loops over what these counted, in some
/// steps: those of the training part.
///
/// By Edie, the distance travelled on a link over its length is how often it was passed. Steps in
/// which a loop did not report are left out on both sides. In a federation the fleet's passages
/// are one number that leaves the guest.
pub fn penetration(
    loops: &LoopData,
    folds: &[FleetData],
    steps: &RangeInclusive<Step>,
) -> Result<f64, HeldOutError> {
    check_steps(loops, folds)?;
    let network = loops.timeline().network();
    let (mut passages, mut counted) = (0.0, 0.0);
    for step in loops.timeline().steps().filter(|step| steps.contains(step)) {
        for (count, detector) in loops.counts(step).iter().zip(network.loops()) {
            let Some(count) = count else { continue };
            let length = network.link(detector.link).length;
            counted += count;
            for fold in folds {
                passages += fold.totals(step, detector.link).distance / length;
            }
        }
    }
    let share = passages / counted;
    if share > 0.0 && share <= MOST {
        Ok(share.min(1.0))
    } else {
        Err(HeldOutError::Penetration { passages, counted })
    }
}
