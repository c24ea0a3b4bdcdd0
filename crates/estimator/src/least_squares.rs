//! Regularised least squares in closed form: what ridge regression and the read-out share.

use serde::{Deserialize, Serialize};

/// Strengths of regularisation that are tried, relative to the number of samples.
pub(crate) const STRENGTHS: [f64; 9] = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 10.0, 100.0];

/// Deviations from its mean at which a feature is cut off: a line through what was seen says little about what lies
/// far beyond.
pub(crate) const FURTHEST: f64 = 4.0;

/// Mean and standard deviation of each column, from the training part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scaler {
    pub(crate) mean: Vec<f64>,
    /// Infinite of a column that never changed: JSON has no such number, and has null for it.
    #[serde(with = "null_for_infinite")]
    pub(crate) deviation: Vec<f64>,
}

impl Scaler {
    /// Of rows of so many columns.
    pub(crate) fn fit(rows: &[f64], columns: usize) -> Self {
        let count = (rows.len() / columns.max(1)).max(1) as f64;
        let mut mean = vec![0.0; columns];
        for row in rows.chunks(columns.max(1)) {
            mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value / count);
        }
        let mut deviation = vec![0.0; columns];
        for row in rows.chunks(columns.max(1)) {
            for ((sum, value), mean) in deviation.iter_mut().zip(row).zip(&mean) {
                *sum += (value - mean).powi(2) / count;
            }
        }
        // A column that never changes in training says nothing, and a change later must not count a
        // millionfold: it is left out.
        let deviation = deviation.into_iter().map(f64::sqrt);
        let deviation = deviation.map(|value| if value > 1e-6 { value } else { f64::INFINITY });
        Self { mean, deviation: deviation.collect() }
    }

    /// Standardises rows, and cuts off what lies too far out.
    pub(crate) fn apply(&self, rows: &mut [f64]) {
        for row in rows.chunks_mut(self.mean.len().max(1)) {
            for ((value, mean), deviation) in row.iter_mut().zip(&self.mean).zip(&self.deviation) {
                *value = ((*value - mean) / deviation).clamp(-FURTHEST, FURTHEST);
            }
        }
    }
}

/// Numbers as JSON, with null for those that are infinite.
mod null_for_infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        let finite = values.iter().map(|value| value.is_finite().then_some(*value));
        finite.collect::<Vec<Option<f64>>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let values = Vec::<Option<f64>>::deserialize(from)?;
        Ok(values.into_iter().map(|value| value.unwrap_or(f64::INFINITY)).collect())
    }
}

/// `AᵀB` for matrices of equally many rows.
pub(crate) fn products(a: &[f64], a_columns: usize, b: &[f64], b_columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; a_columns * b_columns];
    for (a_row, b_row) in a.chunks(a_columns.max(1)).zip(b.chunks(b_columns.max(1))) {
        for (sums, value) in out.chunks_mut(b_columns.max(1)).zip(a_row) {
            sums.iter_mut().zip(b_row).for_each(|(sum, other)| *sum += value * other);
        }
    }
    out
}

/// Cholesky's factorisation `A = L·Lᵀ` of a symmetric `A` (n × n) in place, `L` in the lower triangle. False if
/// `A` is not positive definite.
pub(crate) fn factorise(a: &mut [f64], n: usize) -> bool {
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
    true
}

/// Solves `L·Lᵀ·X = B` in place for `B` (n × m): `B` becomes `X`.
pub(crate) fn substitute(a: &[f64], n: usize, b: &mut [f64], m: usize) {
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
            let mut factor = a.clone();
            prop_assert!(factorise(&mut factor, n));
            substitute(&factor, n, &mut x, m);
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
        assert!(!factorise(&mut [1.0, 2.0, 2.0, 1.0], 2));
        assert!(!factorise(&mut [f64::NAN], 1));
    }
}
