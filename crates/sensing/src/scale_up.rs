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
