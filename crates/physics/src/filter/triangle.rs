//! Triangular roots of sums of squares, by Householder reflections.
//!
//! For a matrix A of rows, `AᵀA = RᵀR` with R upper triangular: if the rows are deviations, R is the
//! root of their covariance, found without ever forming it. So a covariance is positive
//! semidefinite whatever rounding does.

/// A matrix by rows whose triangle is sought.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    values: Vec<f64>,
    columns: usize,
    /// The reflected sum of rows.
    sum: Vec<f64>,
}

impl Rows {
    /// No rows of so many numbers; keeps its space.
    pub(super) fn clear(&mut self, columns: usize) {
        self.values.clear();
        self.columns = columns;
        self.sum.resize(columns, 0.0);
    }

    /// One more row of zeros, to be filled.
    pub(super) fn push(&mut self) -> &mut [f64] {
        let start = self.values.len();
        self.values.resize(start + self.columns, 0.0);
        &mut self.values[start..]
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..][..self.columns]
    }

    pub(super) fn count(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Turns the rows into R, with a diagonal that is not negative; rows of zeros are added where
    /// there are too few.
    pub(super) fn triangulate(&mut self) {
        while self.count() < self.columns {
            self.push();
        }
        for column in 0..self.columns {
            self.reflect(column);
        }
        self.values.truncate(self.columns * self.columns);
    }

    /// Makes all below the diagonal of a column zero.
    fn reflect(&mut self, at: usize) {
        let width = self.columns;
        let square: f64 = self.values[at * width + at..].iter().step_by(width).map(|x| x * x).sum();
        if square == 0.0 {
            return;
        }
        let diagonal = self.values[at * width + at];
        let norm = square.sqrt();
        // The vector v is the column with its head moved away from the norm's sign, so that
        // nothing cancels: A ← A − v·(vᵀA)·2/(vᵀv).
        let head = if diagonal > 0.0 { diagonal + norm } else { diagonal - norm };
        let scale = 1.0 / (norm * head.abs());
        let sum = &mut self.sum[at + 1..];
        self.values[at * width + at] = head;
        sum.fill(0.0);
        // Four rows at a time: the sum is loaded and stored once for them.
        let below = &self.values[at * width..];
        let fours = below.chunks_exact(4 * width);
        for row in fours.remainder().chunks_exact(width) {
            let v = row[at];
            sum.iter_mut().zip(&row[at + 1..]).for_each(|(sum, value)| *sum += v * value);
        }
        for rows in fours {
            let v = [0, 1, 2, 3].map(|i| rows[i * width + at]);
            if v == [0.0; 4] {
                continue;
            }
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| &rows[i * width + at + 1..(i + 1) * width]);
            let rows = a.iter().zip(b).zip(c.iter().zip(d));
            for (sum, ((a, b), (c, d))) in sum.iter_mut().zip(rows) {
                *sum += (v[0] * a + v[1] * b) + (v[2] * c + v[3] * d);
            }
        }
        sum.iter_mut().for_each(|sum| *sum *= scale);
        // The reflected diagonal is −norm or +norm; its row is turned over where it is negative.
        let over = if diagonal > 0.0 { -1.0 } else { 1.0 };
        for (row, values) in self.values.chunks_exact_mut(width).enumerate().skip(at) {
            let v = values[at];
            if v != 0.0 {
                values[at + 1..].iter_mut().zip(&*sum).for_each(|(value, sum)| *value -= v * sum);
            }
            if row == at {
                values[at..].iter_mut().for_each(|value| *value *= over);
                values[at] = norm;
            } else {
                values[at] = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_networks::Draw;

    proptest! {
        #[test]
        fn the_triangle_has_the_same_squares(seed: u64, rows in 1..12_usize, columns in 1..7_usize) {
            let draw = &mut Draw::new(seed);
            let mut matrix = Rows::default();
            matrix.clear(columns);
            for _ in 0..rows {
                matrix.push().iter_mut().for_each(|x| *x = draw.between(-3.0, 3.0).trunc());
            }
            let square = |m: &Rows, i: usize, j: usize| -> f64 {
                (0..m.count()).map(|row| m.row(row)[i] * m.row(row)[j]).sum()
            };
            let before = matrix.clone();
            matrix.triangulate();
            prop_assert_eq!(matrix.count(), columns);
            for i in 0..columns {
                prop_assert!(matrix.row(i)[i] >= 0.0);
                for j in 0..columns {
                    // Householder is backward stable: 1e-16 times a few times rows · columns.
                    let (found, expected) = (square(&matrix, i, j), square(&before, i, j));
                    prop_assert!((found - expected).abs() < 1e-12 * (1.0 + rows as f64 * 9.0));
                    prop_assert!(j >= i || matrix.row(i)[j] == 0.0);
                }
            }
        }
    }
}
