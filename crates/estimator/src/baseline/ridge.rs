//! Ridge regression on whole windows: linear, closed-form, and hard to beat.
//!
//! With `X` the standardised windows (one row a sample) and `Y` the standardised targets,
//!
//! ```text
//! W = (XᵀX + λI)⁻¹ XᵀY
//! ```
//!
//! by Cholesky's factorisation; λ is the one of a grid that does best on the validation part.

use rayon::prelude::*;
use thiserror::Error;
use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane};

use crate::data::study::{FeatureSet, Study, TargetKind};
use crate::metrics::{Estimates, score};

/// Strengths of regularisation that are tried, relative to the number of samples.
const STRENGTHS: [f64; 9] = [1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0];

/// Why a fit failed.
#[derive(Debug, Error, PartialEq)]
pub enum RidgeError {
    /// A feature or target is not a number.
    #[error("{what} of the window that ends with step {step}: found a value that is not a number")]
    NotANumber {
        /// Features or targets.
        what: &'static str,
        /// The window's last step.
        step: i64,
    },
    /// The normal equations cannot be solved.
    #[error("ridge regression: the normal equations are not positive definite at strength {0}")]
    Singular(f64),
}

/// A fitted regression.
#[derive(Clone, Debug, PartialEq)]
pub struct Ridge {
    party: FeatureSet,
    strength: f64,
    features: Scaler,
    outputs: Scaler,
    /// `[feature][output]`
    weights: Vec<f64>,
}

/// Mean and standard deviation of each column, from the training part.
#[derive(Clone, Debug, PartialEq)]
struct Scaler {
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

impl Scaler {
    fn fit(rows: &[f64], columns: usize) -> Self {
        let count = (rows.len() / columns.max(1)).max(1) as f64;
        let mut mean = vec![0.0; columns];
        for row in rows.chunks(columns) {
            mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value / count);
        }
        let mut deviation = vec![0.0; columns];
        for row in rows.chunks(columns) {
            for ((sum, value), mean) in deviation.iter_mut().zip(row).zip(&mean) {
                *sum += (value - mean).powi(2) / count;
            }
        }
        // A column that never changes says nothing: zero after centring, whatever the divisor.
        let deviation = deviation.into_iter().map(|variance| variance.sqrt().max(1e-9)).collect();
        Self { mean, deviation }
    }

    fn apply(&self, rows: &mut [f64]) {
        for row in rows.chunks_mut(self.mean.len()) {
            for ((value, mean), deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
                *value = (*value - mean) / deviation;
            }
        }
    }
}

impl Ridge {
    /// Fits on the training part and chooses the strength on the validation part.
    pub fn fit(study: &Study, kind: TargetKind, party: FeatureSet) -> Result<Self, RidgeError> {
        let train = &study.split().train;
        let mut x = windows(study, party, train)?;
        let columns = x.len() / train.len();
        let features = Scaler::fit(&x, columns);
        features.apply(&mut x);
        let mut y = targets(study, kind, train)?;
        let output_count = y.len() / train.len();
        let outputs = Scaler::fit(&y, output_count);
        outputs.apply(&mut y);
        let gram = products(&x, columns, &x, columns);
        let moments = products(&x, columns, &y, output_count);

        let validation = &study.split().validation;
        let mut best: Option<(f64, Self)> = None;
        for strength in STRENGTHS {
            let mut matrix = gram.clone();
            for at in 0..columns {
                matrix[at * columns + at] += strength * train.len() as f64;
            }
            let mut weights = moments.clone();
            if !solve(&mut matrix, columns, &mut weights, output_count) {
                return Err(RidgeError::Singular(strength));
            }
            let fitted = Self {
                party,
                strength,
                features: features.clone(),
                outputs: outputs.clone(),
                weights,
            };
            let errors = score(study, kind, validation, &fitted.estimate(study, validation)?);
            // Both quantities count alike: each in units of its own spread would be the same for
            // all strengths.
            let loss = errors.density.rmse + errors.flow.rmse;
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, fitted));
            }
        }
        best.map(|(_, fitted)| fitted).ok_or(RidgeError::Singular(0.0))
    }

    /// Estimates windows, given by their last steps.
    pub fn estimate(&self, study: &Study, steps: &[Step]) -> Result<Estimates, RidgeError> {
        let mut x = windows(study, self.party, steps)?;
        self.features.apply(&mut x);
        let (columns, outputs) = (self.features.mean.len(), self.outputs.mean.len());
        let mut estimates = Vec::with_capacity(steps.len() * outputs / 2);
        let mut row_out = vec![0.0; outputs];
        for row in x.chunks(columns) {
            row_out.fill(0.0);
            for (value, weights) in row.iter().zip(self.weights.chunks(outputs)) {
                row_out.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
            }
            for (at, pair) in row_out.chunks(2).enumerate() {
                let scaled = |i: usize| {
                    let column = 2 * at + i;
                    // Negative traffic does not exist.
                    (pair[i] * self.outputs.deviation[column] + self.outputs.mean[column]).max(0.0)
                };
                estimates.push(LinkState {
                    density: VehPerKmLane::new(scaled(0)),
                    flow: VehPerMinLane::new(scaled(1)),
                });
            }
        }
        Ok(estimates)
    }
}

fn windows(study: &Study, party: FeatureSet, steps: &[Step]) -> Result<Vec<f64>, RidgeError> {
    let mut rows = Vec::new();
    for &step in steps {
        let begin = rows.len();
        study.window(party, step, &mut rows);
        if rows[begin..].iter().any(|value| !value.is_finite()) {
            return Err(RidgeError::NotANumber { what: "features", step: step.0 });
        }
    }
    Ok(rows)
}

fn targets(study: &Study, kind: TargetKind, steps: &[Step]) -> Result<Vec<f64>, RidgeError> {
    let mut rows = Vec::new();
    for &step in steps {
        for &link in study.targets() {
            let state = study.target(kind, step, link);
            let values = [state.density.get(), state.flow.get()];
            if values.iter().any(|value| !value.is_finite()) {
                return Err(RidgeError::NotANumber { what: "targets", step: step.0 });
            }
            rows.extend(values);
        }
    }
    Ok(rows)
}

/// `AᵀB` for matrices of equally many rows. Each output row is summed by one thread in the order of
/// the samples, so the result does not depend on the number of threads.
fn products(a: &[f64], a_columns: usize, b: &[f64], b_columns: usize) -> Vec<f64> {
    const ROWS_AT_ONCE: usize = 16;
    let mut out = vec![0.0; a_columns * b_columns];
    out.par_chunks_mut(b_columns * ROWS_AT_ONCE).enumerate().for_each(|(block, out)| {
        let first = block * ROWS_AT_ONCE;
        for (a_row, b_row) in a.chunks(a_columns).zip(b.chunks(b_columns)) {
            for (sums, value) in out.chunks_mut(b_columns).zip(&a_row[first..]) {
                sums.iter_mut().zip(b_row).for_each(|(sum, other)| *sum += value * other);
            }
        }
    });
    out
}

/// Solves `A·X = B` in place for a symmetric positive definite `A` (n × n) and `B` (n × m): `B`
/// becomes `X`. False if `A` is not positive definite.
fn solve(a: &mut [f64], n: usize, b: &mut [f64], m: usize) -> bool {
    // Cholesky: A = L·Lᵀ, L in the lower triangle.
    for column in 0..n {
        for row in column..n {
            let (before, here) = a.split_at_mut(row * n);
            let upper = if row == column { None } else { Some(&before[column * n..][..column]) };
            let dot: f64 = match upper {
                Some(upper) => here[..column].iter().zip(upper).map(|(x, y)| x * y).sum(),
                None => here[..column].iter().map(|x| x * x).sum(),
            };
            let value = here[column] - dot;
            if row == column {
                if !(value > 0.0 && value.is_finite()) {
                    return false;
                }
                here[column] = value.sqrt();
            } else {
                here[column] = value / before[column * n + column];
            }
        }
    }
    for row in 0..n {
        for k in 0..row {
            let factor = a[row * n + k];
            let (before, here) = b.split_at_mut(row * m);
            let source = &before[k * m..][..m];
            here[..m].iter_mut().zip(source).for_each(|(x, y)| *x -= factor * y);
        }
        b[row * m..][..m].iter_mut().for_each(|x| *x /= a[row * n + row]);
    }
    for row in (0..n).rev() {
        for k in row + 1..n {
            let factor = a[k * n + row];
            let (here, after) = b.split_at_mut(k * m);
            let target = &mut here[row * m..][..m];
            target.iter_mut().zip(&after[..m]).for_each(|(x, y)| *x -= factor * y);
        }
        b[row * m..][..m].iter_mut().for_each(|x| *x /= a[row * n + row]);
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A = MᵀM + I is positive definite: A·X must give B back.
        #[test]
        fn solutions_solve(
            n in 1usize..12,
            m in 1usize..4,
            values in prop::collection::vec(-2.0..2.0f64, 12 * 12 + 12 * 4),
        ) {
            let matrix = &values[..n * n];
            let mut a = products(matrix, n, matrix, n);
            (0..n).for_each(|i| a[i * n + i] += 1.0);
            let b = values[144..144 + n * m].to_vec();
            let mut x = b.clone();
            prop_assert!(solve(&mut a.clone(), n, &mut x, m));
            for row in 0..n {
                for column in 0..m {
                    let product: f64 = (0..n).map(|k| a[row * n + k] * x[k * m + column]).sum();
                    // Condition numbers up to some 600 and sums of 12 terms: 1e-9 is generous.
                    prop_assert!((product - b[row * m + column]).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn what_is_not_positive_definite_is_refused() {
        assert!(!solve(&mut [1.0, 2.0, 2.0, 1.0], 2, &mut [1.0, 1.0], 1));
        assert!(!solve(&mut [f64::NAN], 1, &mut [1.0], 1));
    }
}
