//! The unscented Kalman filter in square-root form.
//!
//! The covariance is kept as its root R, upper triangular, P = RᵀR. Points are `x ± γ·(row j of R)`
//! with γ = α·√(n+κ), after van der Merwe, with his weights; written around the centre point X₀
//! instead of the mean these are, for any function f with values Y,
//!
//! ```text
//!  ȳ = Y₀ + w·Σ_j (Y_j − Y₀)                                 w = 1/(2γ²)
//!  P = w·Σ_j (Y_j − Y₀)(Y_j − Y₀)ᵀ + (β − α²)·(ȳ − Y₀)(ȳ − Y₀)ᵀ + noise
//! ```
//!
//! which is the same matrix as the usual sum with a large negative weight on the centre, but a sum
//! of squares for β ≥ α²: positive definite by construction, with no downdate that could fail.
//!
//! A measurement is taken in by one triangulation of the joint deviations of z and x,
//!
//! ```text
//!  [ deviations of z   deviations of x ]      [ R_zz  R_zx ]      x ← x + R_zxᵀ·R_zz⁻ᵀ·(z − z̄)
//!  [ √noise                   0        ]  →   [  0    R_xx ]      R ← R_xx
//! ```

use super::error::{FilterError, check_len, check_positive};
use super::triangle::Rows;

/// How far the points lie from the mean, and how the centre counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SigmaPointSpread {
    /// Distance of the points.
    pub alpha: f64,
    /// 2 is best for a normal distribution; at least α².
    pub beta: f64,
    /// More distance; 0 or 3 − n are usual.
    pub kappa: f64,
}

impl Default for SigmaPointSpread {
    /// α = 0.1, β = 2, κ = 0, as the authors of the paper had it.
    fn default() -> Self {
        Self { alpha: 0.1, beta: 2.0, kappa: 0.0 }
    }
}

/// A mean and the root of its covariance.
#[derive(Clone, Debug)]
pub struct SquareRootFilter {
    spread: SigmaPointSpread,
    mean: Vec<f64>,
    root: Rows,
    /// γ and w of the file's head.
    reach: f64,
    weight: f64,
    point: Vec<f64>,
    centre: Vec<f64>,
    image: Vec<f64>,
    average: Vec<f64>,
    deviations: Rows,
    even: Rows,
    innovation: Vec<f64>,
    variance: Vec<f64>,
    taken: Vec<f64>,
    seen: Vec<f64>,
    seen_centre: Vec<f64>,
    seen_mean: Vec<f64>,
    correction: Vec<f64>,
    corrected: Vec<f64>,
}

impl SquareRootFilter {
    /// Starts from a mean and standard deviations of its numbers.
    pub fn new(
        mean: Vec<f64>,
        deviations: &[f64],
        spread: SigmaPointSpread,
    ) -> Result<Self, FilterError> {
        let n = mean.len();
        check_len("standard deviations", deviations.len(), n)?;
        check_positive(|| "alpha".into(), spread.alpha)?;
        check_positive(|| "state size + kappa".into(), n as f64 + spread.kappa)?;
        if !(spread.beta >= spread.alpha * spread.alpha && spread.beta.is_finite()) {
            return Err(FilterError::Number {
                place: "beta".into(),
                found: spread.beta,
                expected: "at least alpha², so that covariances are positive definite",
            });
        }
        let mut root = Rows::default();
        root.clear(n);
        for (i, &deviation) in deviations.iter().enumerate() {
            check_positive(|| format!("standard deviation {i}"), deviation)?;
            root.push()[i] = deviation;
        }
        let reach = spread.alpha * (n as f64 + spread.kappa).sqrt();
        let zeros = || vec![0.0; n];
        Ok(Self {
            spread,
            root,
            reach,
            weight: 0.5 / (reach * reach),
            point: zeros(),
            centre: zeros(),
            image: zeros(),
            average: zeros(),
            deviations: Rows::default(),
            even: Rows::default(),
            innovation: Vec::new(),
            variance: Vec::new(),
            taken: Vec::new(),
            seen: Vec::new(),
            seen_centre: Vec::new(),
            seen_mean: Vec::new(),
            correction: zeros(),
            corrected: zeros(),
            mean,
        })
    }

    /// The mean.
    pub(crate) fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// To project the mean onto what is possible.
    pub(crate) fn mean_mut(&mut self) -> &mut [f64] {
        &mut self.mean
    }

    /// The covariance of two numbers.
    #[cfg(test)]
    pub(crate) fn covariance(&self, i: usize, j: usize) -> f64 {
        (0..=i.min(j)).map(|row| self.root.row(row)[i] * self.root.row(row)[j]).sum()
    }

    /// The standard deviation of a number.
    #[cfg(test)]
    pub(crate) fn deviation(&self, i: usize) -> f64 {
        self.covariance(i, i).sqrt()
    }

    /// The smallest number on the root's diagonal: above zero as long as the covariance is
    /// positive definite.
    pub(crate) fn smallest_pivot(&self) -> f64 {
        (0..self.mean.len()).map(|i| self.root.row(i)[i]).fold(f64::INFINITY, f64::min)
    }

    /// Moves on by a function of the state, with noise of these standard deviations.
    ///
    /// `active`: the function depends on the first so many numbers only, which saves the points
    /// that would not change it (rows of R have no part before the diagonal).
    pub(crate) fn predict<E: From<FilterError>>(
        &mut self,
        active: usize,
        noise: &[f64],
        mut function: impl FnMut(&[f64], &mut [f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let n = self.mean.len();
        check_len("process noise", noise.len(), n)?;
        for (i, &deviation) in noise.iter().enumerate() {
            check_positive(|| format!("process noise {i}"), deviation)?;
        }
        function(&self.mean, &mut self.centre)?;
        self.average.copy_from_slice(&self.centre);
        self.deviations.clear(n);
        let scale = self.weight.sqrt();
        for j in 0..active.min(n) {
            for sign in [self.reach, -self.reach] {
                place(&mut self.point, &self.mean, self.root.row(j), sign);
                function(&self.point, &mut self.image)?;
                let row = self.deviations.push();
                for (i, value) in row.iter_mut().enumerate() {
                    let deviation = self.image[i] - self.centre[i];
                    self.average[i] += self.weight * deviation;
                    *value = scale * deviation;
                }
            }
        }
        let bend = self.bend();
        let row = self.deviations.push();
        for (i, value) in row.iter_mut().enumerate() {
            *value = bend * (self.average[i] - self.centre[i]);
        }
        for (i, &deviation) in noise.iter().enumerate() {
            self.deviations.push()[i] = deviation;
        }
        self.deviations.triangulate();
        std::mem::swap(&mut self.deviations, &mut self.root);
        self.mean.copy_from_slice(&self.average);
        Ok(())
    }

    /// What the measurements will be: innovations z − z̄ and the variances of z̄ without noise.
    ///
    /// To be followed by [`Self::take`], between which the caller may change the noise.
    pub(crate) fn compare<E: From<FilterError>>(
        &mut self,
        z: &[f64],
        mut function: impl FnMut(&[f64], &mut [f64]) -> Result<(), E>,
    ) -> Result<(&[f64], &[f64]), E> {
        let (n, m) = (self.mean.len(), z.len());
        let lists = [&mut self.innovation, &mut self.variance, &mut self.taken, &mut self.seen];
        for list in lists.into_iter().chain([&mut self.seen_centre, &mut self.seen_mean]) {
            list.clear();
            list.resize(m, 0.0);
        }
        function(&self.mean, &mut self.seen_centre)?;
        self.seen_mean.copy_from_slice(&self.seen_centre);
        self.even.clear(m);
        self.deviations.clear(m + n);
        let scale = (0.5 * self.weight).sqrt();
        for j in 0..n {
            // Of the two points of a row the difference goes with the state's deviation, and the
            // sum, which a linear function does not have, with none.
            let (even, odd) = (self.even.push(), self.deviations.push());
            let row = self.root.row(j);
            for sign in [1.0, -1.0] {
                place(&mut self.point, &self.mean, row, sign * self.reach);
                function(&self.point, &mut self.seen)?;
                for i in 0..m {
                    let deviation = self.seen[i] - self.seen_centre[i];
                    self.seen_mean[i] += self.weight * deviation;
                    even[i] += scale * deviation;
                    odd[i] += sign * scale * deviation;
                }
            }
            odd[m..].copy_from_slice(row);
        }
        let bend = self.bend();
        for (i, value) in self.even.push().iter_mut().enumerate() {
            *value = bend * (self.seen_mean[i] - self.seen_centre[i]);
            self.innovation[i] = z[i] - self.seen_mean[i];
        }
        for row in 0..self.even.count() {
            self.variance.iter_mut().zip(self.even.row(row)).for_each(|(v, x)| *v += x * x);
        }
        for row in 0..n {
            self.variance.iter_mut().zip(self.deviations.row(row)).for_each(|(v, x)| *v += x * x);
        }
        Ok((&self.innovation, &self.variance))
    }

    /// Takes in what `compare` was given, with noise of these standard deviations.
    pub(crate) fn take(&mut self, noise: &[f64]) -> Result<Taken, FilterError> {
        let (n, m) = (self.mean.len(), self.innovation.len());
        check_len("measurement noise", noise.len(), m)?;
        for (i, &deviation) in noise.iter().enumerate() {
            check_positive(|| format!("measurement noise {i}"), deviation)?;
            self.even.push()[i] = deviation;
        }
        self.even.triangulate();
        for row in 0..m {
            self.deviations.push()[..m].copy_from_slice(self.even.row(row));
        }
        self.deviations.triangulate();
        // R_zzᵀ·y = innovation, from the top.
        let (mut squared, mut log_determinant) = (0.0, 0.0);
        for i in 0..m {
            log_determinant += 2.0 * self.deviations.row(i)[i].abs().ln();
            let known: f64 = (0..i).map(|j| self.deviations.row(j)[i] * self.taken[j]).sum();
            self.taken[i] = (self.innovation[i] - known) / self.deviations.row(i)[i];
            squared += self.taken[i] * self.taken[i];
        }
        self.correction.fill(0.0);
        self.corrected.fill(0.0);
        for (i, &taken) in self.taken.iter().enumerate() {
            let row = &self.deviations.row(i)[m..];
            self.correction.iter_mut().zip(row).for_each(|(c, r)| *c += taken * r);
            self.corrected.iter_mut().zip(row).for_each(|(v, r)| *v += r * r);
        }
        self.mean.iter_mut().zip(&self.correction).for_each(|(x, c)| *x += c);
        self.root.clear(n);
        for row in 0..n {
            self.root.push().copy_from_slice(&self.deviations.row(m + row)[m..]);
        }
        self.innovation.clear();
        Ok(Taken { squared_innovation: squared, log_determinant })
    }

    /// The root of the weight of ȳ − Y₀.
    fn bend(&self) -> f64 {
        (self.spread.beta - self.spread.alpha * self.spread.alpha).sqrt()
    }

    /// How the last [`Self::take`] moved the mean, and the variances that it expected of that.
    pub(crate) fn correction(&self) -> (&[f64], &[f64]) {
        (&self.correction, &self.corrected)
    }
}

/// What [`SquareRootFilter::take`] says of measurements.
pub(crate) struct Taken {
    /// The squared innovation in units of its covariance.
    pub squared_innovation: f64,
    /// The logarithm of that covariance's determinant.
    pub log_determinant: f64,
}

/// The point `mean + reach·row`.
fn place(point: &mut [f64], mean: &[f64], row: &[f64], reach: f64) {
    for ((x, m), r) in point.iter_mut().zip(mean).zip(row) {
        *x = m + reach * r;
    }
}

#[cfg(test)]
mod tests;
