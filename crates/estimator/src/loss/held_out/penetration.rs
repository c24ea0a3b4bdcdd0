//! The fleet's share of the traffic, from loops.

use std::ops::RangeInclusive;

use traffic::Step;

use super::error::HeldOutError;
use super::folds::check_steps;
use crate::data::sources::{FleetData, LoopData};

/// How many vehicles of a fleet, given as folds, pass the links of loops in a step, in the mean of some
/// steps: what a guest says for a host to tell its share of the traffic.
pub fn passages_per_step(folds: &[FleetData], steps: &RangeInclusive<Step>) -> f64 {
    let Some(first) = folds.first() else { return 0.0 };
    let network = first.timeline().network();
    let (mut passages, mut count) = (0.0, 0.0);
    for step in first.timeline().steps().filter(|step| steps.contains(step)) {
        count += 1.0;
        for detector in network.loops() {
            let length = network.link(detector.link).length;
            for fold in folds {
                passages += fold.totals(step, detector.link).distance / length;
            }
        }
    }
    if count > 0.0 { passages / count } else { 0.0 }
}

/// What loops count in a step, all together, in the mean of some steps; each loop in the mean of those
/// in which it reported. None if one never did.
pub fn counted_per_step(loops: &LoopData, steps: &RangeInclusive<Step>) -> Option<f64> {
    let timeline = loops.timeline();
    let mut sums = vec![(0.0, 0.0); timeline.network().loops().len()];
    for step in timeline.steps().filter(|step| steps.contains(step)) {
        for ((sum, reports), count) in sums.iter_mut().zip(loops.counts(step)) {
            if let Some(count) = count {
                (*sum, *reports) = (*sum + count, *reports + 1.0);
            }
        }
    }
    let means = sums.iter().map(|(sum, reports)| (*reports > 0.0).then(|| sum / reports));
    means.sum::<Option<f64>>().filter(|counted| *counted > 0.0)
}

/// More than the traffic by this much is sampling and counting error, and counts as all of it.
const MOST: f64 = 1.05;

/// Passages of a fleet, given as folds, on the links of loops over what these counted, in some
/// steps: those of the training part. None where that is no share: nobody passes them, or they count fewer than pass.
///
/// By Edie, the distance travelled on a link over its length is how often it was passed. Steps in
/// which a loop did not report are left out on both sides.
///
/// # Errors
/// If loops and folds are not of the same steps.
pub fn share_by_loops(
    loops: &LoopData,
    folds: &[FleetData],
    steps: &RangeInclusive<Step>,
) -> Result<Option<f64>, HeldOutError> {
    let (passages, counted) = passed_and_counted(loops, folds, steps)?;
    let share = passages / counted;
    Ok((share > 0.0 && share <= MOST).then_some(share.min(1.0)))
}

/// The fleet's share of the traffic: by loops where these tell one, else what the fleet says of itself.
///
/// In a federation the fleet's passages are one number that leaves the guest.
///
/// # Errors
/// If loops and folds are not of the same steps, or tell no share.
pub fn penetration(
    loops: &LoopData,
    folds: &[FleetData],
    steps: &RangeInclusive<Step>,
) -> Result<f64, HeldOutError> {
    if let Some(share) = share_by_loops(loops, folds, steps)? {
        return Ok(share);
    }
    let stated = folds.iter().map(FleetData::rate).sum::<f64>();
    let (passages, counted) = passed_and_counted(loops, folds, steps)?;
    if !folds.is_empty() && !folds.iter().any(|fold| fold.is_seen_in(steps)) {
        return Err(HeldOutError::EmptyFleet);
    }
    // Whoever is all vehicles of its own dataset does not know its share: loops that say otherwise are believed.
    let known = stated > 0.0 && (stated < 1.0 || (counted == 0.0 && stated <= MOST));
    match known {
        true => Ok(stated.min(1.0)),
        false if counted == 0.0 && passages == 0.0 => Err(HeldOutError::Rate(stated)),
        false => Err(HeldOutError::Penetration { passages, counted }),
    }
}

/// Passages of folds on the links of loops, and vehicles that these counted.
fn passed_and_counted(
    loops: &LoopData,
    folds: &[FleetData],
    steps: &RangeInclusive<Step>,
) -> Result<(f64, f64), HeldOutError> {
    check_steps(loops.timeline(), folds)?;
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
    Ok((passages, counted))
}
