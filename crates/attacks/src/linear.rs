//! Linear equations that come in over many rounds, and their least-squares solution.
//!
//! Kept is the triangle R of a QR decomposition and Qᵀb: new rows are folded in by Householder reflections, so
//! memory does not grow with the number of rounds, and nothing is squared (normal equations would lose half of
//! the digits).

use thiserror::Error;

/// Equations that do not fit.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{what}: found {found} numbers, expected {expected}")]
pub struct ShapeError {
    /// Which numbers.
    pub what: &'static str,
    /// Given.
    pub found: usize,
    /// Expected.
    pub expected: usize,
}

/// Everything that is known of some unknowns by linear equations.
pub struct Equations {
    unknowns: usize,
    /// Row after row: the triangle, and the right side as its last column.
    triangle: Vec<f64>,
    rows: usize,
}

impl Equations {
    /// With a guess of each unknown that counts as `weight` equations' worth: what no equation says anything
    /// about stays at the guess.
    pub fn with_guess(guess: &[f64], weight: f64) -> Self {
        let (unknowns, width) = (guess.len(), guess.len() + 1);
        let mut triangle = vec![0.0; unknowns * width];
        for (i, (row, guess)) in triangle.chunks_exact_mut(width).zip(guess).enumerate() {
            row[i] = weight;
            row[unknowns] = weight * guess;
        }
        Self { unknowns, triangle, rows: 0 }
    }

    /// Equations so far, the guess aside.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes in equations: `matrix` row after row, and what each row's product is.
    pub fn add(&mut self, matrix: &[f64], products: &[f64]) -> Result<(), ShapeError> {
        let (n, width) = (self.unknowns, self.unknowns + 1);
        if matrix.len() != products.len() * n {
            let (found, expected) = (matrix.len(), products.len() * n);
            return Err(ShapeError { what: "entries of the equations", found, expected });
        }
        if n == 0 {
            self.rows += products.len();
            return Ok(());
        }
        let mut rows = Vec::with_capacity(products.len() * width);
        for (row, product) in matrix.chunks_exact(n).zip(products) {
            rows.extend_from_slice(row);
            rows.push(*product);
        }
        let mut sums = vec![0.0; width];
        for column in 0..n {
            let own = &mut self.triangle[column * width..][..width];
            let square: f64 = rows.chunks_exact(width).map(|row| row[column] * row[column]).sum();
            if square == 0.0 {
                continue;
            }
            // The reflection that takes (own, rows) in this column to (−sign·norm, 0).
            let norm = (own[column] * own[column] + square).sqrt();
            let head = own[column] + norm.copysign(own[column]);
            let scale = 2.0 / (head * head + square);
            let sums = &mut sums[column..];
            for (sum, own) in sums.iter_mut().zip(&own[column..]) {
                *sum = head * own;
            }
            for row in rows.chunks_exact(width) {
                let factor = row[column];
                for (sum, entry) in sums.iter_mut().zip(&row[column..]) {
                    *sum += factor * entry;
                }
            }
            for (own, sum) in own[column..].iter_mut().zip(&*sums) {
                *own -= scale * head * sum;
            }
            for row in rows.chunks_exact_mut(width) {
                let factor = scale * row[column];
                for (entry, sum) in row[column..].iter_mut().zip(&*sums) {
                    *entry -= factor * sum;
                }
            }
        }
        self.rows += products.len();
        Ok(())
    }

    /// The unknowns that fit best.
    pub fn solve(&self) -> Vec<f64> {
        let (n, width) = (self.unknowns, self.unknowns + 1);
        let mut x = vec![0.0; n];
        for i in (0..n).rev() {
            let row = &self.triangle[i * width..][..width];
            let known: f64 = row[i + 1..n].iter().zip(&x[i + 1..]).map(|(a, x)| a * x).sum();
            x[i] = if row[i] == 0.0 { 0.0 } else { (row[n] - known) / row[i] };
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use neural::{hash, unit};

    use super::*;

    fn numbers(count: usize, key: u64) -> Vec<f64> {
        (0..count).map(|i| 2.0 * f64::from(unit(hash([key, i as u64]))) - 1.0).collect()
    }

    fn products(matrix: &[f64], x: &[f64]) -> Vec<f64> {
        let dot = |row: &[f64]| row.iter().zip(x).map(|(a, x)| a * x).sum();
        matrix.chunks_exact(x.len()).map(dot).collect()
    }

    #[test]
    fn enough_equations_give_the_unknowns_whatever_their_order() {
        let x = numbers(30, 1);
        let mut equations = Equations::with_guess(&[0.0; 30], 0.0);
        for round in 0..4 {
            let matrix = numbers(10 * 30, 10 + round);
            equations.add(&matrix, &products(&matrix, &x)).unwrap();
        }
        // 40 random equations of 30 unknowns have a condition of about 20; rounding is 1e-16.
        for (found, x) in equations.solve().iter().zip(&x) {
            assert!((found - x).abs() < 1e-12, "{found} {x}");
        }
        assert_eq!(equations.rows(), 40);
    }

    #[test]
    fn the_solution_is_that_of_the_normal_equations() {
        // Products that do not fit: the residual of the best solution is at right angles to all columns.
        let (matrix, right) = (numbers(25 * 6, 3), numbers(25, 4));
        let mut equations = Equations::with_guess(&[0.0; 6], 0.0);
        for (rows, right) in matrix.chunks(5 * 6).zip(right.chunks(5)) {
            equations.add(rows, right).unwrap();
        }
        let fitted = products(&matrix, &equations.solve());
        for column in 0..6 {
            let entries = matrix.iter().skip(column).step_by(6);
            let along: f64 = entries.zip(&right).zip(&fitted).map(|((a, b), f)| a * (b - f)).sum();
            // 25 terms of at most 3.
            assert!(along.abs() < 1e-13, "{along}");
        }
    }

    #[test]
    fn what_no_equation_tells_stays_at_the_guess() {
        let mut equations = Equations::with_guess(&[5.0, 7.0, 9.0], 1e-9);
        equations.add(&[1.0, 1.0, 0.0], &[2.0]).unwrap();
        let x = equations.solve();
        // The nearest point to the guess on a + b = 2; the guess's weight moves it by 1e-18 relative.
        for (found, expected) in x.iter().zip([0.0, 2.0, 9.0]) {
            assert!((found - expected).abs() < 1e-6, "{x:?}");
        }
    }

    #[test]
    fn equations_of_another_width_are_refused_and_change_nothing() {
        let mut equations = Equations::with_guess(&[5.0, 7.0], 1.0);
        for (matrix, products) in
            [(&[1.0][..], &[1.0][..]), (&[1.0; 4], &[1.0; 3]), (&[1.0; 2], &[])]
        {
            let expected = 2 * products.len();
            let error = equations.add(matrix, products).unwrap_err();
            let what = "entries of the equations";
            assert_eq!(error, ShapeError { what, found: matrix.len(), expected });
        }
        assert_eq!((equations.rows(), equations.solve()), (0, vec![5.0, 7.0]));
        // Without equations, and without unknowns, there is nothing to solve.
        equations.add(&[], &[]).unwrap();
        assert_eq!(equations.solve(), [5.0, 7.0]);
        let mut nothing = Equations::with_guess(&[], 1.0);
        nothing.add(&[], &[1.0, 2.0]).unwrap();
        assert_eq!((nothing.rows(), nothing.solve()), (2, Vec::new()));
    }

    /// One unknown: x = (w²·g + Σ a·b)/(w² + Σ a²), the guess being an equation w·x = w·g among others.
    #[test]
    fn a_guess_counts_as_its_weight_says() {
        let (coefficients, right) = ([1.0, -2.0, 0.5], [3.0, 1.0, 4.0]);
        for (guess, weight) in [(0.0, 1.0), (10.0, 2.0), (-4.0, 1e-3), (7.0, 1e6)] {
            let mut equations = Equations::with_guess(&[guess], weight);
            equations.add(&coefficients, &right).unwrap();
            let above: f64 = coefficients.iter().zip(right).map(|(a, b)| a * b).sum();
            let below: f64 = coefficients.iter().map(|a| a * a).sum();
            let expected = (weight * weight * guess + above) / (weight * weight + below);
            // Relative to the guess: a few roundings.
            let found = equations.solve()[0];
            assert!((found - expected).abs() < 1e-13 * (1.0 + guess.abs()), "{found} {expected}");
        }
    }

    /// However rows are dealt out, the triangle's Gram matrix is the same, and so is the solution.
    #[test]
    fn rounds_of_any_size_give_the_same_solution() {
        let (matrix, right) = (numbers(24 * 5, 5), numbers(24, 6));
        let solved = |each: usize| {
            let mut equations = Equations::with_guess(&[0.1; 5], 0.01);
            for (rows, right) in matrix.chunks(each * 5).zip(right.chunks(each)) {
                equations.add(rows, right).unwrap();
            }
            equations.solve()
        };
        let whole = solved(24);
        for each in [1, 2, 5, 23] {
            // A condition of about ten, times rounding.
            assert!(solved(each).iter().zip(&whole).all(|(a, b)| (a - b).abs() < 1e-13), "{each}");
        }
    }

    #[test]
    fn without_a_guess_what_is_not_told_is_zero() {
        let mut equations = Equations::with_guess(&[9.0, 9.0], 0.0);
        equations.add(&[0.0, 2.0], &[6.0]).unwrap();
        assert_eq!(equations.solve(), [0.0, 3.0]);
        equations.add(&[0.0, 0.0], &[1.0]).unwrap();
        assert_eq!(equations.solve(), [0.0, 3.0], "a row of zeros tells nothing");
    }
}
