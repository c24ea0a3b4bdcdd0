//! What a Gaussian noise promises: (ε, δ) for a change of at most Δ (in the Euclidean norm).
//!
//! The exact curve of the Gaussian mechanism (Balle and Wang 2018), with r = σ/Δ:
//!
//! ```text
//! δ(ε) = Φ(1/2r − ε·r) − e^ε·Φ(−1/2r − ε·r)
//! ```
//!
//! Noise drawn once pays once: whatever is computed from the noised data later has this same (ε, δ).
//!
//! That curve is of *continuous* noise; ours is discrete, and its δ can exceed the curve's: by up to 5 % of
//! it from σ = 4 steps on where δ is near 1e-6 (a test compares it with exact sums), by more
//! below. So nothing is promised by the curve alone.
//!
//! [`least_ratio`] rests on [`concentrated_epsilon`], which is proven for discrete noise on vectors whose
//! change, in whole steps, has a Euclidean norm of at most Δ. It asks for 6 to 8 % more noise than the curve.
//!
//! It does not know of values put on the grid: see [`NoisedVector::draw`](super::NoisedVector::draw).

use super::NoiseError;

/// A promise: outputs with and without the privacy unit differ by a factor e^ε, but for a mass of δ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    epsilon: f64,
    delta: f64,
}

impl Budget {
    /// A budget; ε from 0.001 to 1000, δ strictly between 0 and 1.
    pub fn new(epsilon: f64, delta: f64) -> Result<Self, NoiseError> {
        if (1e-3..=1e3).contains(&epsilon) && delta > 0.0 && delta < 1.0 {
            return Ok(Self { epsilon, delta });
        }
        Err(NoiseError::Budget { epsilon, delta })
    }

    /// δ.
    pub fn delta(&self) -> f64 {
        self.delta
    }
}

/// Ratios σ/Δ that can be asked about.
const RATIOS: std::ops::RangeInclusive<f64> = 1e-6..=1e12;
/// The fewest steps of the grid that σ may have. [`concentrated_epsilon`] holds for any σ; below this, the curve of
/// continuous noise no longer tells what discrete noise is like.
pub(crate) const LEAST_STEPS: f64 = 4.0;

fn check(
    what: &'static str,
    found: f64,
    sound: bool,
    expected: &'static str,
) -> Result<(), NoiseError> {
    if sound { Ok(()) } else { Err(NoiseError::Argument { what, found, expected }) }
}

fn check_epsilon(epsilon: f64) -> Result<(), NoiseError> {
    check("ε", epsilon, (0.0..=1e3).contains(&epsilon), "0 to 1000")
}

fn check_ratio(ratio: f64) -> Result<(), NoiseError> {
    check("σ/Δ", ratio, RATIOS.contains(&ratio), "1e-6 to 1e12")
}

fn check_mass(mass: f64) -> Result<(), NoiseError> {
    check("δ", mass, mass > 0.0 && mass < 1.0, "more than 0 and less than 1")
}

/// δ at ε for continuous noise of σ/Δ = `ratio`.
pub fn delta(epsilon: f64, ratio: f64) -> Result<f64, NoiseError> {
    check_epsilon(epsilon)?;
    check_ratio(ratio)?;
    Ok(curve(epsilon, ratio))
}

fn curve(epsilon: f64, ratio: f64) -> f64 {
    let (half, slope) = (0.5 / ratio, epsilon * ratio);
    let second = log_normal_tail(half + slope) + epsilon;
    (normal_below(half - slope) - second.exp()).clamp(0.0, 1.0)
}

/// The least σ/Δ that keeps a budget with discrete noise on vectors, to a relative 1e-12, from above.
pub fn least_ratio(budget: Budget) -> f64 {
    least(|ratio| concentrated(ratio, budget.delta) > budget.epsilon)
}

/// The least σ/Δ by the curve of continuous noise, to a relative 1e-12, from above: to compare with, not to
/// draw by.
pub fn continuous_ratio(budget: Budget) -> f64 {
    least(|ratio| curve(budget.epsilon, ratio) > budget.delta)
}

/// Where a condition that holds for small ratios ends.
fn least(too_small: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (*RATIOS.start(), *RATIOS.end());
    while high / low > 1.0 + 1e-12 {
        let middle = (low * high).sqrt();
        if too_small(middle) { low = middle } else { high = middle }
    }
    high
}

/// The least ε that continuous noise of σ/Δ = `ratio` keeps with a mass of `mass`, to 1e-9, from above.
pub fn least_epsilon(ratio: f64, mass: f64) -> Result<f64, NoiseError> {
    check_ratio(ratio)?;
    check_mass(mass)?;
    let (mut low, mut high) = (0.0, 1.0);
    while curve(high, ratio) > mass {
        high *= 2.0;
    }
    while high - low > 1e-9 * high.max(1.0) {
        let middle = (low + high) / 2.0;
        if curve(middle, ratio) > mass { low = middle } else { high = middle }
    }
    Ok(high)
}

/// ε at a mass of `mass` by concentrated privacy, ρ = 1/2r²: proven for discrete noise on vectors as well.
pub fn concentrated_epsilon(ratio: f64, mass: f64) -> Result<f64, NoiseError> {
    check_ratio(ratio)?;
    check_mass(mass)?;
    Ok(concentrated(ratio, mass))
}

/// Canonne, Kamath and Steinke (2020): ε = ρα + ln(1/αδ)/(α − 1) + ln(1 − 1/α) for every order α > 1; the best
/// of them by ternary search over ln(α − 1).
fn concentrated(ratio: f64, mass: f64) -> f64 {
    let rho = 0.5 / (ratio * ratio);
    let epsilon = |log: f64| {
        let over = log.exp();
        let alpha = 1.0 + over;
        rho * alpha - (alpha.ln() + mass.ln()) / over + (over / alpha).ln()
    };
    // As far as the ratios and masses that are accepted can ask for.
    let (mut low, mut high) = (-30.0f64, 40.0f64);
    for _ in 0..200 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if epsilon(a) < epsilon(b) { high = b } else { low = a }
    }
    epsilon((low + high) / 2.0).max(0.0)
}

/// Φ(x).
fn normal_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// ln Φ(−x), also where Φ(−x) is below the smallest number.
fn log_normal_tail(x: f64) -> f64 {
    if x < 30.0 {
        return (0.5 * libm::erfc(x / std::f64::consts::SQRT_2)).ln();
    }
    // The logarithm of Mills' ratio; the next term, −(37/3)/x⁶, is below 2e-8 from here on.
    -0.5 * x * x - (x * (2.0 * std::f64::consts::PI).sqrt()).ln()
        + (-1.0 / (x * x) + 2.5 / x.powi(4))
}

#[cfg(test)]
mod tests;
