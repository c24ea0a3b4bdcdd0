//! Errors as the paper reports them: RMSE and MAE of density and flow over the target links.

use serde::{Deserialize, Serialize};
use traffic::{LinkState, Step};

use crate::data::study::{Study, TargetKind};

/// Estimated states `[window][target link]`.
pub type Estimates = Vec<LinkState>;

/// Root mean square and mean absolute error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Root mean square error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
}

/// Errors of density (veh/km/lane) and flow (veh/min/lane).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Of density.
    pub density: Errors,
    /// Of flow.
    pub flow: Errors,
}

/// Compares estimates of windows (by last step) with the truth.
pub fn score(study: &Study, kind: TargetKind, windows: &[Step], estimates: &[LinkState]) -> Score {
    let mut density = Sums::default();
    let mut flow = Sums::default();
    let targets = study.targets();
    for (row, &step) in estimates.chunks(targets.len().max(1)).zip(windows) {
        for (estimate, &link) in row.iter().zip(targets) {
            let truth = study.target(kind, step, link);
            density.add((estimate.density - truth.density).get());
            flow.add((estimate.flow - truth.flow).get());
        }
    }
    Score { density: density.errors(), flow: flow.errors() }
}

#[derive(Default)]
struct Sums {
    squares: f64,
    absolutes: f64,
    count: f64,
}

impl Sums {
    fn add(&mut self, error: f64) {
        self.squares += error * error;
        self.absolutes += error.abs();
        self.count += 1.0;
    }

    fn errors(&self) -> Errors {
        Errors { rmse: (self.squares / self.count).sqrt(), mae: self.absolutes / self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_closed_form() {
        let mut sums = Sums::default();
        [3.0, -4.0, 0.0, 5.0].into_iter().for_each(|error| sums.add(error));
        let errors = sums.errors();
        assert_eq!((errors.rmse, errors.mae), ((50.0f64 / 4.0).sqrt(), 3.0));
    }
}
