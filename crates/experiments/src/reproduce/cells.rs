//! Means and spreads over seeds.

use std::collections::BTreeMap;

use estimator::{Errors, Score};
use serde::{Deserialize, Serialize};

/// What the finished jobs behind one place of a table say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Cell {
    /// The demand seeds that have been run.
    pub demand_seeds: Vec<u64>,
    /// Jobs, over all demand and training seeds.
    pub runs: usize,
    pub density: ErrorSpreads,
    pub flow: ErrorSpreads,
}

/// Errors over demand seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ErrorSpreads {
    pub rmse: SeedStatistics,
    pub mae: SeedStatistics,
}

/// A number over demand seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SeedStatistics {
    pub mean: f64,
    /// Standard deviation between demand seeds (n − 1); none for a single one.
    pub deviation: Option<f64>,
    /// The mean over training seeds, of each demand seed.
    pub by_seed: Vec<f64>,
}

impl Cell {
    /// From scores with their demand seeds: first the mean over training seeds, then mean and
    /// spread over demand seeds. None if there is no score.
    pub(super) fn of(scores: &[(u64, Score)]) -> Option<Self> {
        let mut seeds: BTreeMap<u64, Vec<Score>> = BTreeMap::new();
        for &(seed, score) in scores {
            seeds.entry(seed).or_default().push(score);
        }
        let spread = |number: fn(&Score) -> f64| {
            let means = seeds.values().map(|scores| mean(scores.iter().map(number)));
            SeedStatistics::of(means.collect())
        };
        if seeds.is_empty() {
            return None;
        }
        Some(Self {
            demand_seeds: seeds.keys().copied().collect(),
            runs: scores.len(),
            density: ErrorSpreads {
                rmse: spread(|score| score.density.rmse),
                mae: spread(|score| score.density.mae),
            },
            flow: ErrorSpreads {
                rmse: spread(|score| score.flow.rmse),
                mae: spread(|score| score.flow.mae),
            },
        })
    }

    /// The RMSE of a quantity, of one demand seed.
    pub(super) fn rmse_of(&self, quantity: Quantity, seed: u64) -> Option<f64> {
        let at = self.demand_seeds.iter().position(|&one| one == seed)?;
        self.rmse(quantity).by_seed.get(at).copied()
    }

    pub(super) fn rmse(&self, quantity: Quantity) -> &SeedStatistics {
        quantity.pick(&self.density.rmse, &self.flow.rmse)
    }
}

/// What is estimated of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    Density,
    Flow,
}

impl Quantity {
    /// What belongs to the quantity, of what belongs to density and to flow.
    pub(super) fn pick<T>(self, density: T, flow: T) -> T {
        match self {
            Quantity::Density => density,
            Quantity::Flow => flow,
        }
    }

    pub fn name(self) -> &'static str {
        self.pick("density", "flow")
    }

    pub(crate) fn unit(self) -> &'static str {
        self.pick("veh/km/lane", "veh/min/lane")
    }
}

impl SeedStatistics {
    fn of(by_seed: Vec<f64>) -> Self {
        let mean = mean(by_seed.iter().copied());
        let squares: f64 = by_seed.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (by_seed.len() > 1).then(|| (squares / (by_seed.len() - 1) as f64).sqrt());
        Self { mean, deviation, by_seed }
    }
}

/// The mean of some numbers; zero of none.
pub(super) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

/// The paper's errors of one method, one number for each column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[Vec<f64>; 4]")]
pub(super) struct PaperErrors {
    pub density: Vec<Errors>,
    pub flow: Vec<Errors>,
}

/// RMSE and MAE of density, then of flow.
impl From<[Vec<f64>; 4]> for PaperErrors {
    fn from([density_rmse, density_mae, flow_rmse, flow_mae]: [Vec<f64>; 4]) -> Self {
        let pairs = |rmse: Vec<f64>, mae| {
            rmse.into_iter().zip(mae).map(|(rmse, mae)| Errors { rmse, mae }).collect()
        };
        Self { density: pairs(density_rmse, density_mae), flow: pairs(flow_rmse, flow_mae) }
    }
}

impl PaperErrors {
    pub(super) fn rmse(&self, quantity: Quantity, column: usize) -> Option<f64> {
        let errors = quantity.pick(&self.density, &self.flow);
        errors.get(column).map(|errors| errors.rmse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn density(rmse: f64) -> Score {
        Score { density: Errors { rmse, mae: 0.0 }, ..Score::default() }
    }

    #[test]
    fn training_seeds_are_averaged_before_demand_seeds() {
        let scores = [(1, density(2.0)), (1, density(4.0)), (2, density(7.0))];
        let cell = Cell::of(&scores).unwrap();
        assert_eq!((cell.runs, &cell.demand_seeds[..]), (3, &[1, 2][..]));
        let rmse = cell.rmse(Quantity::Density);
        assert_eq!((rmse.mean, &rmse.by_seed[..]), (5.0, &[3.0, 7.0][..]));
        // Of 3 and 7: √((4 + 4) / 1).
        assert_eq!(rmse.deviation, Some(8.0f64.sqrt()));
        assert_eq!(cell.rmse_of(Quantity::Density, 2), Some(7.0));
        assert_eq!(cell.rmse_of(Quantity::Density, 3), None);
    }

    #[test]
    fn one_seed_has_no_spread_and_no_seed_no_cell() {
        assert_eq!(Cell::of(&[(1, density(2.0))]).unwrap().density.rmse.deviation, None);
        assert!(Cell::of(&[]).is_none());
    }
}
