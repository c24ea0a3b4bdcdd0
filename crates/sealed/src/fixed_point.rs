//! Real numbers as whole numbers whose products cannot overflow.
//!
//! A guest's values lie on a public [`Grid`]: u = centre + step·k with |k| ≤ levels. A host's row a becomes
//! whole weights w_j = round(a_j·s), with a *secret* scale s of its own for each row:
//!
//! ```text
//! s = (⌊limit / levels⌋ − n/2) / ‖a‖₁      so   |Σ w_j k_j| ≤ levels·Σ|w_j| ≤ levels·(s·‖a‖₁ + n/2) ≤ limit
//! ```
//!
//! whatever the guest's values are. The error of a product is that of rounding the weights: at most
//! n·levels/2 in units of 1/s, times step.

use thiserror::Error;
use zeroize::Zeroize;

use crate::kernel::ROUND;

/// Why numbers cannot be represented.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FixedPointError {
    /// Limits that make no range.
    #[error("grid: found the range {low} to {high}, expected finite limits in this order")]
    Range {
        /// Lower limit.
        low: f64,
        /// Upper limit.
        high: f64,
    },
    /// Too few or too many levels.
    #[error("grid: found {found} levels, expected 1 to {most}")]
    Levels {
        /// Levels found.
        found: i32,
        /// Most levels.
        most: i32,
    },
    /// A number that is none.
    #[error("{what}: found {found}, expected a finite number")]
    NotFinite {
        /// Which number.
        what: &'static str,
        /// Its value.
        found: f64,
    },
    /// A row that would not keep its numbers.
    #[error(
        "row: found {values} values on a grid of {levels} levels for products of at most {limit}, expected room \
         for weights of {LEAST_WEIGHT} on average"
    )]
    NoPrecision {
        /// Values of the row.
        values: usize,
        /// Levels of the grid.
        levels: i32,
        /// The largest product.
        limit: i64,
    },
    /// A value outside its grid.
    #[error("found level {found}, expected −{most} to {most}")]
    OffGrid {
        /// Level found.
        found: i32,
        /// Largest level.
        most: i32,
    },
}

/// Evenly spaced values, symmetric about a centre: centre + step·k, |k| ≤ levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    centre: f64,
    step: f64,
    levels: i32,
}

/// The most levels of a grid: what the lattice products have room for.
pub const MOST_LEVELS: i32 = 1 << 14;

impl Grid {
    /// The grid from `low` to `high` with `levels` steps on either side of the middle.
    pub fn new(low: f64, high: f64, levels: i32) -> Result<Self, FixedPointError> {
        let (centre, half) = (low / 2.0 + high / 2.0, high / 2.0 - low / 2.0);
        if !(1..=MOST_LEVELS).contains(&levels) {
            return Err(FixedPointError::Levels { found: levels, most: MOST_LEVELS });
        }
        let step = half / f64::from(levels);
        if !(centre.is_finite() && step.is_normal() && step > 0.0) {
            return Err(FixedPointError::Range { low, high });
        }
        Ok(Self { centre, step, levels })
    }

    /// A grid by its middle, its step and its levels, as they travel.
    pub(crate) fn of_parts(centre: f64, step: f64, levels: i32) -> Result<Self, FixedPointError> {
        let half = step * f64::from(levels);
        let grid = Self::new(centre - half, centre + half, levels)?;
        // The same in every bit: limits would be rounded.
        if step.is_normal() && step > 0.0 {
            return Ok(Self { centre, step, ..grid });
        }
        Err(FixedPointError::Range { low: centre - half, high: centre + half })
    }

    /// The middle of the range.
    pub fn centre(&self) -> f64 {
        self.centre
    }

    /// The distance between neighbours.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Steps from the middle to either end.
    pub fn levels(&self) -> i32 {
        self.levels
    }

    /// The nearest level; what lies outside is clipped.
    pub fn level(&self, value: f64) -> Result<i32, FixedPointError> {
        if !value.is_finite() {
            return Err(FixedPointError::NotFinite { what: "value", found: value });
        }
        let most = f64::from(self.levels);
        Ok(((value - self.centre) / self.step).round().clamp(-most, most) as i32)
    }

    /// The levels of values.
    pub fn levels_of(&self, values: &[f64]) -> Result<Vec<i32>, FixedPointError> {
        values.iter().map(|&value| self.level(value)).collect()
    }

    /// The value of a level.
    pub fn value(&self, level: i32) -> f64 {
        self.centre + self.step * f64::from(level)
    }

    /// Checks that levels lie on the grid.
    pub fn check(&self, levels: &[i32]) -> Result<(), FixedPointError> {
        let off = levels.iter().find(|level| level.unsigned_abs() > self.levels.unsigned_abs());
        match off {
            Some(&found) => Err(FixedPointError::OffGrid { found, most: self.levels }),
            None => Ok(()),
        }
    }
}

/// How a row becomes whole weights, and a product a real number again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowScale {
    /// A power of two that brings the largest entry to 1..2. Rows of subnormal numbers count as zero.
    normal: f64,
    /// Weight = round(a · normal · scale).
    scale: f64,
    /// Σ a_j · normal · centre.
    offset: f64,
    step: f64,
}

/// What weights must be on average, at least: rounding them by half then costs a sixteenth of the largest
/// product at the very most.
const LEAST_WEIGHT: i64 = 8;

/// What the weights of a row of so many values may sum to before they are rounded, for products of at most
/// `limit`.
pub(crate) fn room(values: usize, grid: &Grid, limit: i64) -> Result<i64, FixedPointError> {
    let room = limit / i64::from(grid.levels) - values.div_ceil(2) as i64;
    if room >= LEAST_WEIGHT * values as i64 {
        return Ok(room);
    }
    Err(FixedPointError::NoPrecision { values, levels: grid.levels, limit })
}

impl Zeroize for RowScale {
    fn zeroize(&mut self) {
        for number in [&mut self.normal, &mut self.scale, &mut self.offset] {
            number.zeroize();
        }
    }
}

impl RowScale {
    /// The scale of a row, for products of at most `limit`; an error if that leaves no room for its entries.
    #[inline]
    pub(crate) fn new(row: &[f64], grid: &Grid, limit: i64) -> Result<Self, FixedPointError> {
        let largest = largest(row)?;
        let normal = if largest < f64::MIN_POSITIVE { 0.0 } else { inverse_power(largest) };
        let Sums { norm, sum } = Sums::of(row, normal);
        let room = room(row.len(), grid, limit)?;
        // The last factor: the norm is a sum of rounded numbers.
        let scale = if norm > 0.0 { room as f64 / norm * (1.0 - 1e-12) } else { 0.0 };
        Ok(Self { normal, scale, offset: sum * grid.centre, step: grid.step })
    }

    /// The weight of one entry, a whole number.
    #[inline(always)]
    pub(crate) fn weight(&self, a: f64) -> f64 {
        ((a * self.normal) * self.scale + ROUND) - ROUND
    }

    /// What a weight of 1 stands for.
    pub(crate) fn unit(&self) -> f64 {
        if self.scale == 0.0 { 0.0 } else { 1.0 / self.scale / self.normal }
    }

    /// The product as a real number.
    pub(crate) fn product(&self, whole: i64) -> f64 {
        if self.scale == 0.0 {
            return 0.0;
        }
        (whole as f64 / self.scale * self.step + self.offset) / self.normal
    }
}

/// 2^−⌊log₂ x⌋ of a normal number.
fn inverse_power(x: f64) -> f64 {
    let exponent = (x.to_bits() >> 52 & 0x7FF) as i32 - 1023;
    libm::ldexp(1.0, -exponent)
}

/// The largest magnitude of a row of finite numbers.
#[inline]
fn largest(row: &[f64]) -> Result<f64, FixedPointError> {
    let (chunks, rest) = row.as_chunks::<8>();
    let (mut largest, mut poison) = ([0.0f64; 8], [0.0f64; 8]);
    for chunk in chunks {
        for i in 0..8 {
            largest[i] = largest[i].max(chunk[i].abs());
            // Of a number that is not finite this is NaN, and stays so.
            poison[i] += chunk[i] * 0.0;
        }
    }
    let mut most = largest.into_iter().fold(0.0, f64::max);
    let mut sound = poison.iter().all(|&x| x == 0.0);
    for a in rest {
        most = most.max(a.abs());
        sound &= a.is_finite();
    }
    match row.iter().find(|a| !sound && !a.is_finite()) {
        Some(&found) => Err(FixedPointError::NotFinite { what: "matrix", found }),
        None => Ok(most),
    }
}

struct Sums {
    norm: f64,
    sum: f64,
}

impl Sums {
    /// Σ |a·normal| and Σ a·normal.
    #[inline]
    fn of(row: &[f64], normal: f64) -> Self {
        let (chunks, rest) = row.as_chunks::<8>();
        let (mut norm, mut sum) = ([0.0f64; 8], [0.0f64; 8]);
        for chunk in chunks {
            for i in 0..8 {
                let a = chunk[i] * normal;
                norm[i] += a.abs();
                sum[i] += a;
            }
        }
        let mut total = Self { norm: norm.iter().sum(), sum: sum.iter().sum() };
        for a in rest {
            total.norm += (a * normal).abs();
            total.sum += a * normal;
        }
        total
    }
}

#[cfg(test)]
mod tests;
