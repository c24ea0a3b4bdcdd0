//! A least-squares problem with linear limits, and its solution by Clarabel.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};

/// A sum of few unknowns with their factors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    terms: [(usize, f64); Self::MOST],
    count: usize,
}

impl Terms {
    const MOST: usize = 6;

    /// Adds unknowns.
    pub(super) fn and(mut self, others: &[(usize, f64)]) -> Self {
        for &term in others.iter().take(Self::MOST - self.count) {
            self.terms[self.count] = term;
            self.count += 1;
        }
        self
    }

    /// Takes off unknowns.
    pub(super) fn less(self, others: &[(usize, f64)]) -> Self {
        others.iter().fold(self, |sum, &(unknown, factor)| sum.and(&[(unknown, -factor)]))
    }

    /// The unknowns and their factors.
    pub fn all(&self) -> &[(usize, f64)] {
        &self.terms[..self.count]
    }

    fn value(&self, unknowns: &[f64]) -> f64 {
        self.all().iter().map(|&(unknown, factor)| factor * unknowns[unknown]).sum()
    }
}

/// Minimise ½ Σ weight·(terms − value)² with terms ≤ limit.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    unknowns: usize,
    /// Terms, value, weight.
    pub(super) measured: Vec<(Terms, f64, f64)>,
    /// Terms, most.
    pub(super) limits: Vec<(Terms, f64)>,
}

/// How a problem came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SolveOutcome {
    /// Solved.
    Solved,
    /// Solved without some queue positions, which contradict all others.
    SetAside(usize),
    /// Solved without the loop, whose counts contradict the fleet's.
    WithoutLoop,
    /// Not solved.
    Failed,
}

impl Problem {
    pub(super) fn new(unknowns: usize) -> Self {
        Self { unknowns, ..Self::default() }
    }

    /// How many unknowns.
    pub fn unknowns(&self) -> usize {
        self.unknowns
    }

    /// What the terms should be, and the weight of that.
    pub fn measured(&self) -> &[(Terms, f64, f64)] {
        &self.measured
    }

    /// What the terms are at most.
    pub fn limits(&self) -> &[(Terms, f64)] {
        &self.limits
    }

    /// The terms should be the value.
    pub(super) fn weigh(&mut self, terms: Terms, value: f64, weight: f64) {
        self.measured.push((terms, value, weight));
    }

    /// The terms are at most this.
    pub(super) fn limit(&mut self, terms: Terms, most: f64) {
        self.limits.push((terms, most));
    }

    /// How many standard deviations a measurement is off.
    pub(super) fn residual(&self, measurement: usize, unknowns: &[f64]) -> f64 {
        let (terms, value, weight) = &self.measured[measurement];
        (terms.value(unknowns) - value) * weight.sqrt()
    }

    /// The quadratic part, row after row.
    pub(super) fn hessian(&self) -> Vec<f64> {
        let n = self.unknowns;
        let mut hessian = vec![0.0; n * n];
        for (terms, _, weight) in &self.measured {
            for &(i, a) in terms.all() {
                for &(j, b) in terms.all() {
                    hessian[i * n + j] += weight * a * b;
                }
            }
        }
        hessian
    }

    /// The unknowns; none if the solver gives up or the limits contradict each other.
    pub fn solve(&self) -> Option<Vec<f64>> {
        self.solve_with(&self.hessian())
    }

    /// The same with the quadratic part at hand: the unknowns; none if the solver gives up or the limits contradict each other.
    pub(super) fn solve_with(&self, hessian: &[f64]) -> Option<Vec<f64>> {
        let n = self.unknowns;
        let mut linear = vec![0.0; n];
        for (terms, value, weight) in &self.measured {
            for &(i, a) in terms.all() {
                linear[i] -= weight * a * value;
            }
        }
        let most: Vec<f64> = self.limits.iter().map(|&(_, most)| most).collect();
        let cones = [NonnegativeConeT(most.len())];
        let settings = DefaultSettings {
            verbose: false,
            // A hundredth of a vehicle is more than the data know; problems are small, and links are
            // solved side by side.
            tol_gap_abs: 1e-6,
            tol_gap_rel: 1e-6,
            tol_feas: 1e-6,
            max_iter: 60,
            max_threads: 1,
            presolve_enable: false,
            ..DefaultSettings::default()
        };
        let (quadratic, limits) = (upper(hessian, n), self.columns());
        let mut solver =
            DefaultSolver::new(&quadratic, &linear, &limits, &most, &cones, settings).ok()?;
        solver.solve();
        let solved =
            matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved);
        let sound = solver.solution.x.iter().all(|value| value.is_finite());
        (solved && sound).then(|| std::mem::take(&mut solver.solution.x))
    }

    /// The limits' matrix by columns.
    fn columns(&self) -> CscMatrix<f64> {
        let n = self.unknowns;
        let mut columns: Vec<Vec<(usize, f64)>> = vec![Vec::new(); n];
        for (row, (terms, _)) in self.limits.iter().enumerate() {
            for &(unknown, factor) in terms.all() {
                match columns[unknown].last_mut() {
                    Some(last) if last.0 == row => last.1 += factor,
                    _ => columns[unknown].push((row, factor)),
                }
            }
        }
        sparse(self.limits.len(), &columns)
    }
}

/// The upper triangle of a symmetric matrix.
fn upper(matrix: &[f64], n: usize) -> CscMatrix<f64> {
    let column = |j: usize| {
        let rows = (0..=j).map(|i| (i, matrix[i * n + j]));
        rows.filter(|&(_, value)| value != 0.0).collect()
    };
    let columns: Vec<Vec<(usize, f64)>> = (0..n).map(column).collect();
    sparse(n, &columns)
}

fn sparse(rows: usize, columns: &[Vec<(usize, f64)>]) -> CscMatrix<f64> {
    let mut begins = vec![0];
    let (mut places, mut values) = (Vec::new(), Vec::new());
    for column in columns {
        for &(row, value) in column {
            places.push(row);
            values.push(value);
        }
        begins.push(places.len());
    }
    CscMatrix::new(rows, columns.len(), begins, places, values)
}

/// The lower Cholesky factor, row after row, of a positive definite matrix; none of any other.
pub(super) fn cholesky(mut matrix: Vec<f64>, n: usize) -> Option<Vec<f64>> {
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| matrix[i * n + k] * matrix[j * n + k]).sum();
            let value = matrix[i * n + j] - sum;
            matrix[i * n + j] = if i == j {
                if value <= 0.0 || value.is_nan() {
                    return None;
                }
                value.sqrt()
            } else {
                value / matrix[j * n + j]
            };
        }
    }
    Some(matrix)
}

/// The variance of a sum of unknowns, given the factor of the quadratic part: |L⁻¹a|².
pub(super) fn variance(factor: &[f64], n: usize, terms: &Terms, scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.resize(n, 0.0);
    for &(unknown, value) in terms.all() {
        scratch[unknown] += value;
    }
    let first = scratch.iter().position(|&value| value != 0.0).unwrap_or(n);
    for i in first..n {
        let sum: f64 = (first..i).map(|k| factor[i * n + k] * scratch[k]).sum();
        scratch[i] = (scratch[i] - sum) / factor[i * n + i];
    }
    scratch[first..].iter().map(|value| value * value).sum()
}
