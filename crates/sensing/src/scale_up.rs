//! Scale-up: the fleet's totals divided by its penetration rate, and how wrong that must be.
//!
//! If each of the vehicles in a box belongs to the fleet by chance `p`, and vehicle *i* spends
//! `cᵢ` seconds there, the fleet's total is `S = Σ Bᵢ·cᵢ` with `Bᵢ` zero or one. Then `S/p` is
//! unbiased, and its variance is
//!
//! ```text
//! Var(S/p) = (1 − p)/p · Σ cᵢ²
//! ```
//!
//! so the expected error of scale-up follows from the squares that [`StepFeatures`] carries. It is
//! the plainest estimator there is: one that loses to it is not worth its name.
//!
//! [`StepFeatures`]: crate::StepFeatures

use serde::Serialize;
use traffic::{LinkId, Network, Seconds};

use crate::features::FeatureTable;

/// Errors of scale-up over the target links, and what sampling alone explains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ScaleUpErrors {
    /// Penetration rate.
    pub rate: f64,
    /// Root mean square error of density, veh/km/lane.
    pub density_rmse: f64,
    /// The same in expectation, from the closed form.
    pub density_expected: f64,
    /// Root mean square error of flow, veh/min/lane.
    pub flow_rmse: f64,
    /// The same in expectation.
    pub flow_expected: f64,
}

/// Compares a fleet's scaled-up totals with the truth.
pub fn scale_up_errors(
    network: &Network,
    step: Seconds,
    truth: &FeatureTable,
    fleet: &FeatureTable,
    rate: f64,
    targets: &[LinkId],
) -> ScaleUpErrors {
    let mut sums = [0.0; 4];
    let mut count = 0.0;
    for (at, totals) in truth.totals.iter().enumerate() {
        let id = LinkId((at % truth.links) as u32);
        if !targets.contains(&id) {
            continue;
        }
        let lane_seconds = network.link(id).lane_length().get() * step.get();
        // From totals per lane-metre and second to veh/km/lane and veh/min/lane.
        let (to_density, to_flow) = (1000.0 / lane_seconds, 60.0 / lane_seconds);
        let seen = fleet.totals[at];
        let density = (seen.time.get() / rate - totals.time.get()) * to_density;
        let flow = (seen.distance.get() / rate - totals.distance.get()) * to_flow;
        let spread = (1.0 - rate) / rate;
        let [time_square, distance_square] = truth.squares[at];
        sums[0] += density * density;
        sums[1] += spread * time_square * to_density * to_density;
        sums[2] += flow * flow;
        sums[3] += spread * distance_square * to_flow * to_flow;
        count += 1.0;
    }
    let [density_rmse, density_expected, flow_rmse, flow_expected] =
        sums.map(|sum: f64| if count > 0.0 { (sum / count).sqrt() } else { f64::NAN });
    ScaleUpErrors { rate, density_rmse, density_expected, flow_rmse, flow_expected }
}

#[cfg(test)]
mod tests {
    use traffic::{Metres, Step, Totals, corridor};

    use super::*;
    use crate::HeldSteps;

    fn table(totals: Vec<(f64, f64)>, squares: Vec<[f64; 2]>) -> FeatureTable {
        let totals: Vec<Totals> = totals
            .into_iter()
            .map(|(time, distance)| Totals {
                time: Seconds::new(time),
                distance: Metres::new(distance),
            })
            .collect();
        FeatureTable {
            held: HeldSteps::of_range(Step(0), Step(totals.len() as i64 / 2 - 1)),
            links: 2,
            cell_count: 0,
            vehicles: vec![0; totals.len()],
            totals,
            squares,
            cells: Vec::new(),
        }
    }

    /// Two links of the corridor, two steps of 10 s; link 0 is scored.
    #[test]
    fn errors_have_their_closed_form() {
        let network = corridor().unwrap();
        let lane_seconds = network.link(LinkId(0)).lane_length().get() * 10.0;
        let truth = table(
            vec![(100.0, 500.0), (1.0, 1.0), (50.0, 400.0), (1.0, 1.0)],
            vec![[900.0, 2500.0], [1e9, 1e9], [100.0, 1600.0], [1e9, 1e9]],
        );
        // At a rate of a quarter: 30 s stand for 120 s, 10 s for 40 s; 100 m for 400 m, 125 m for 500 m.
        let fleet =
            table(vec![(30.0, 100.0), (9.0, 9.0), (10.0, 125.0), (9.0, 9.0)], vec![[0.0; 2]; 4]);
        let step = Seconds::new(10.0);
        let found = scale_up_errors(&network, step, &truth, &fleet, 0.25, &[LinkId(0)]);
        let rms = |a: f64, b: f64| ((a * a + b * b) / 2.0).sqrt();
        let (density, flow) = (1000.0 / lane_seconds, 60.0 / lane_seconds);
        for (found, expected) in [
            (found.density_rmse, density * rms(20.0, -10.0)),
            (found.flow_rmse, flow * rms(-100.0, 100.0)),
            // (1 − p)/p = 3, times the mean of the squares.
            (found.density_expected, density * (3.0f64 * 500.0).sqrt()),
            (found.flow_expected, flow * (3.0f64 * 2050.0).sqrt()),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
        }
        assert_eq!(found.rate, 0.25);
    }

    #[test]
    fn all_vehicles_have_no_error_and_no_targets_have_none_to_tell() {
        let network = corridor().unwrap();
        let truth = table(vec![(100.0, 500.0), (3.0, 4.0)], vec![[900.0, 2500.0]; 2]);
        let step = Seconds::new(10.0);
        let targets = [LinkId(0), LinkId(1)];
        let whole = scale_up_errors(&network, step, &truth, &truth, 1.0, &targets);
        let errors =
            [whole.density_rmse, whole.density_expected, whole.flow_rmse, whole.flow_expected];
        assert_eq!(errors, [0.0; 4]);
        let none = scale_up_errors(&network, step, &truth, &truth, 1.0, &[]);
        assert!(none.density_rmse.is_nan() && none.flow_expected.is_nan());
    }
}
