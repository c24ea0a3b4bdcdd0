//! How well a matching agrees with the truth.

use rustc_hash::FxHashMap;
use serde::Serialize;
use traffic::{Metres, Network, VehicleId, VehiclePosition};

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
    truth: &[VehiclePosition],
    matched: &[VehiclePosition],
) -> Option<Accuracy> {
    let key = |sample: &VehiclePosition| (sample.vehicle, (sample.time * 1000.0).round() as i64);
    let known: FxHashMap<(VehicleId, i64), &VehiclePosition> =
        matched.iter().map(|sample| (key(sample), sample)).collect();
    let mut right = 0usize;
    let mut errors = Vec::with_capacity(truth.len());
    for real in truth {
        let Some(found) = known.get(&key(real)) else { continue };
        right += usize::from(found.link == real.link);
        let point = |sample: &VehiclePosition| {
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

#[cfg(test)]
mod tests {
    use traffic::{LinkId, corridor};

    use super::*;

    fn sample(vehicle: u32, time: f64, link: LinkId, position: f32) -> VehiclePosition {
        VehiclePosition { time, vehicle: VehicleId(vehicle), link, position, lane: 0, speed: 0.0 }
    }

    #[test]
    fn shares_are_of_all_true_samples_and_errors_of_the_matched_ones() {
        let network = corridor().unwrap();
        let [e1, e2] = ["E1", "E2"].map(|name| network.link_named(name).unwrap());
        // 20 moments; all but the last are matched, the first 18 to the right link, each a metre further off.
        let truth: Vec<VehiclePosition> =
            (0..20).map(|i| sample(3, f64::from(i), e1, 50.0)).collect();
        let mut matched: Vec<VehiclePosition> =
            (0..18).map(|i| sample(3, f64::from(i) + 0.0004, e1, 50.0 + i as f32)).collect();
        matched.push(sample(3, 18.0, e2, 0.0));
        // Of another vehicle, and at another time: neither counts.
        matched.push(sample(4, 19.0, e1, 50.0));
        matched.push(sample(3, 19.5, e1, 50.0));
        let found = accuracy(&network, &truth, &matched).unwrap();
        assert_eq!((found.points, found.matched), (20, 19));
        assert_eq!(found.right_link, 18.0 / 20.0);
        // Distances are in the plane: metres along the link, by the scale of its drawing.
        let link = network.link(e1);
        let scale = traffic::polyline_length(&link.shape) / link.length.get();
        let away = |metres: f64| scale * metres;
        // The tenth of nineteen is 9 m off (the first is exact).
        assert!((found.median_error.get() - away(9.0)).abs() < 1e-4, "{found:?}");
        // The nineteenth (⌈0.95·19⌉) is the one on E2.
        let far =
            link.point_at(Metres::new(50.0)).distance(network.link(e2).point_at(Metres::ZERO));
        assert!((found.error_95.get() - far).abs() < 1e-4, "{found:?} {far}");
    }

    #[test]
    fn without_truth_there_is_no_accuracy_and_without_matches_no_error() {
        let network = corridor().unwrap();
        let one = sample(0, 0.0, LinkId(0), 1.0);
        assert_eq!(accuracy(&network, &[], &[one]), None);
        let found = accuracy(&network, &[one], &[]).unwrap();
        assert_eq!((found.points, found.matched, found.right_link), (1, 0, 0.0));
        assert!(found.median_error.get().is_nan() && found.error_95.get().is_nan());
    }
}
