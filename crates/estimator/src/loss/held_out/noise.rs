//! How noisy labels are, from how the folds differ.
//!
//! If all vehicles counted alike in a box, the noise would be binomial. They do not: each brings
//! its own time and distance `x`. With `Q = Σ x²` over all vehicles of the box, the totals of the
//! folds, `H_1 … H_F`, have `Var(H_j) = r(1−r)·Q` and `Cov(H_i, H_j) = −r²·Q`, so the sample variance
//! among them expects `r·Q`, and `Q` is known without any truth.

use traffic::{LinkId, Step};

use super::rates::FoldRates;
use crate::data::sources::FleetData;

/// Mean variances of labels, by link.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelNoise {
    /// `[link][density, flow]`, of labels of the unseen part, scaled up: (veh/km/lane)² and
    /// (veh/min/lane)².
    unseen: Vec<[f64; 2]>,
}

impl LabelNoise {
    /// From folds in scale-up units of their rate, over some steps.
    pub fn of(folds: &[FleetData], rates: &FoldRates, steps: &[Step]) -> Self {
        let Some(first) = folds.first() else { return Self { unseen: Vec::new() } };
        let count = steps.len().max(1) as f64;
        let of_link = |link: LinkId| {
            let mut variances = [0.0; 2];
            for &step in steps {
                for (sum, squares) in variances.iter_mut().zip(squares(folds, rates, step, link)) {
                    *sum += rates.unseen_label_variance(squares) / count;
                }
            }
            variances
        };
        Self { unseen: first.timeline().network().link_ids().map(of_link).collect() }
    }

    /// Mean variance of a link's labels of the unseen part, scaled up: of density and of flow.
    pub fn unseen(&self, link: LinkId) -> [f64; 2] {
        self.unseen[link.index()]
    }
}

/// `Σ x²` of a box, as states, estimated from the folds without bias.
pub(super) fn squares(
    folds: &[FleetData],
    rates: &FoldRates,
    step: Step,
    link: LinkId,
) -> [f64; 2] {
    let states = folds.iter().map(|fold| fold.scaled_up(step, link));
    let states: Vec<[f64; 2]> = states.map(|s| [s.density.get(), s.flow.get()]).collect();
    [0, 1].map(|at| {
        let mean = states.iter().map(|state| state[at]).sum::<f64>() / states.len() as f64;
        let sum: f64 = states.iter().map(|state| (state[at] - mean).powi(2)).sum();
        // Scaled up, the sample variance expects Q/r instead of r·Q.
        rates.held_out() * sum / (states.len() - 1).max(1) as f64
    })
}
