//! The discrete Gaussian: P(k) ∝ exp(−k²/2σ²) on the whole numbers, sampled exactly.
//!
//! The method of Canonne, Kamath and Steinke (2020): a discrete Laplace draw, accepted with a probability
//! exp(−γ) for a rational γ, which needs whole numbers only. No floating point comes near the noise, so its
//! low bits tell nothing.
//!
//! **The time of a draw depends on the number that is drawn**: loops run as often as it is large. So nobody else
//! may be able to time a draw: noise is drawn once, offline, before any exchange, and stored
//! ([`NoisedVector`](super::NoisedVector)); never in answer to a message.

use thiserror::Error;

use crate::random::Randomness;

/// A noise that cannot be drawn.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum NoiseError {
    /// Too small, too large, or no number.
    #[error("standard deviation: found {found} steps of the grid, expected 1/64 to {MOST_SIGMA}")]
    Sigma {
        /// What was found.
        found: f64,
    },
    /// A number that an account cannot be made of.
    #[error("{what}: found {found}, expected {expected}")]
    Argument {
        /// Which number.
        what: &'static str,
        /// Its value.
        found: f64,
        /// What can be asked about.
        expected: &'static str,
    },
    /// A budget that is none.
    #[error(
        "privacy budget: found ε = {epsilon}, δ = {delta}, expected ε from 0.001 to 1000 and δ in (0, 1)"
    )]
    Budget {
        /// ε.
        epsilon: f64,
        /// δ.
        delta: f64,
    },
}

/// The largest standard deviation, in steps of the grid.
pub(crate) const MOST_SIGMA: f64 = 65_536.0;
/// σ² is a multiple of 2^-12.
const DENOMINATOR: u128 = 1 << 12;

/// A discrete Gaussian with mean 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscreteGaussian {
    /// σ² = numerator / 2^12.
    numerator: u128,
    /// ⌊σ⌋ + 1, the scale of the Laplace draws.
    scale: u128,
}

impl DiscreteGaussian {
    /// The noise of standard deviation σ; σ² is rounded up to a multiple of 2^-12.
    pub fn new(sigma: f64) -> Result<Self, NoiseError> {
        if !(1.0 / 64.0..=MOST_SIGMA).contains(&sigma) {
            return Err(NoiseError::Sigma { found: sigma });
        }
        let numerator = (sigma * sigma * DENOMINATOR as f64).ceil() as u128;
        let scale = (numerator / DENOMINATOR).isqrt() + 1;
        Ok(Self { numerator, scale })
    }

    /// The parameter σ that is used; the standard deviation is at most this.
    pub fn sigma(&self) -> f64 {
        (self.numerator as f64 / DENOMINATOR as f64).sqrt()
    }

    /// One draw.
    pub fn draw(&self, random: &mut Randomness) -> i64 {
        loop {
            let k = laplace(self.scale, random);
            // (|k| − σ²/scale)² / 2σ², as a fraction.
            let size = u128::from(k.unsigned_abs());
            let distance = (size * self.scale * DENOMINATOR).abs_diff(self.numerator);
            let below = 2 * self.scale * self.scale * DENOMINATOR * self.numerator;
            // No room from |k| = 2^52/scale on, which is 2^20 scales at the least: it comes with a probability below
            // exp(−2^20), and would be accepted with one below that.
            let Some(square) = distance.checked_mul(distance) else { continue };
            if exp_minus(square, below, random) {
                return k;
            }
        }
    }
}

/// P(k) ∝ exp(−|k|/scale).
fn laplace(scale: u128, random: &mut Randomness) -> i64 {
    loop {
        let rest = random.below(scale);
        if !exp_minus(rest, scale, random) {
            continue;
        }
        let mut whole = 0;
        while exp_minus(1, 1, random) {
            whole += 1;
        }
        let negative = random.below(2) == 1;
        let size = (rest + scale * whole) as i64;
        // Zero would come twice.
        if !(negative && size == 0) {
            return if negative { -size } else { size };
        }
    }
}

/// True with probability exp(−above/below).
fn exp_minus(mut above: u128, below: u128, random: &mut Randomness) -> bool {
    while above > below {
        if !exp_minus_fraction(1, 1, random) {
            return false;
        }
        above -= below;
    }
    exp_minus_fraction(above, below, random)
}

/// The same for above ≤ below: how many draws of probability γ/1, γ/2, γ/3 … succeed in a row is even with
/// probability 1 − γ + γ²/2! − … = exp(−γ).
fn exp_minus_fraction(above: u128, below: u128, random: &mut Randomness) -> bool {
    let mut k = 1;
    while random.below(k) == 0 && random.below(below) < above {
        k += 1;
    }
    k % 2 == 1
}

#[cfg(test)]
mod tests;
