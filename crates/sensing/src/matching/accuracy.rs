//! How well a matching agrees with the truth.

use rustc_hash::FxHashMap;
use serde::Serialize;
use traffic::{Metres, Network, VehicleId, VehicleSample};

/// Agreement of matched samples with true ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// True samples.
    pub points: usize,
    /// Of these, how many were matched at all.
    pub matched: usize,
    /// Share of the true samples that were matched to the right link; unmatched ones count as wrong.
    pub right_link: f64,
    /// Median distance between true and matched position, in the plane, of the matched ones.
    pub median_error: Metres,
    /// The distance that 95 % of the matched ones stay within.
    pub error_95: Metres,
}

/// Compares matched samples with the truth of the same vehicles and moments (to the millisecond).
///
/// Matched samples without a true one are not counted. `None` if there is no truth.
pub fn accuracy(
    network: &Network,
    truth: &[VehicleSample],
    matched: &[VehicleSample],
) -> Option<Accuracy> {
    let key = |sample: &VehicleSample| (sample.vehicle, (sample.time * 1000.0).round() as i64);
    let known: FxHashMap<(VehicleId, i64), &VehicleSample> =
        matched.iter().map(|sample| (key(sample), sample)).collect();
    let mut right = 0usize;
    let mut errors = Vec::with_capacity(truth.len());
    for real in truth {
        let Some(found) = known.get(&key(real)) else { continue };
        right += usize::from(found.link == real.link);
        let point = |sample: &VehicleSample| {
            network.link(sample.link).point_at(Metres::new(f64::from(sample.position)))
        };
        errors.push(point(real).distance(point(found)));
    }
    if truth.is_empty() {
        return None;
    }
    errors.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| {
        let rank = (share * errors.len() as f64).ceil().max(1.0) as usize - 1;
        Metres::new(errors.get(rank).copied().unwrap_or(f64::NAN))
    };
    Some(Accuracy {
        points: truth.len(),
        matched: errors.len(),
        right_link: right as f64 / truth.len() as f64,
        median_error: quantile(0.5),
        error_95: quantile(0.95),
    })
}
