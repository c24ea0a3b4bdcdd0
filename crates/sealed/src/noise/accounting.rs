//! What a Gaussian noise promises: (ε, δ) for a change of at most Δ (in the Euclidean norm).
//!
//! The exact curve of the Gaussian mechanism (Balle and Wang 2018), with r = σ/Δ:
//!
//! ```text
//! δ(ε) = Φ(1/2r − ε·r) − e^ε·Φ(−1/2r − ε·r)
//! ```
//!
//! Noise drawn once pays once: whatever is computed from the noised data later has this same (ε, δ).
//! The curve is that of continuous noise. Discrete noise of one number is within 1e-3 of its δ from
//! σ ≥ 4 steps on ([`discrete_delta`] is exact, a test compares them); for vectors, [`concentrated_epsilon`]
//! is a bound that is proven for discrete noise too, a few per cent wider.

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

    /// ε.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// δ.
    pub fn delta(&self) -> f64 {
        self.delta
    }
}

/// δ at ε for noise of σ/Δ = `ratio`.
pub fn delta(epsilon: f64, ratio: f64) -> f64 {
    let (half, slope) = (0.5 / ratio, epsilon * ratio);
    let second = log_normal_tail(half + slope) + epsilon;
    (normal_below(half - slope) - second.exp()).clamp(0.0, 1.0)
}

/// The least σ/Δ that keeps a budget, to a relative 1e-12, from above.
pub fn least_ratio(budget: Budget) -> f64 {
    // δ falls as the ratio grows; the ends hold every valid budget.
    let (mut low, mut high) = (1e-6f64, 1e12f64);
    while high / low > 1.0 + 1e-12 {
        let middle = (low * high).sqrt();
        if delta(budget.epsilon, middle) > budget.delta { low = middle } else { high = middle }
    }
    high
}

/// The least ε that noise of σ/Δ = `ratio` keeps with a mass of `delta`, to 1e-9, from above.
pub fn least_epsilon(ratio: f64, mass: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while delta(high, ratio) > mass {
        high *= 2.0;
    }
    while high - low > 1e-9 * high.max(1.0) {
        let middle = (low + high) / 2.0;
        if delta(middle, ratio) > mass { low = middle } else { high = middle }
    }
    high
}

/// δ at ε of discrete Gaussian noise on one whole number that changes by `change`: exact, by summation.
pub fn discrete_delta(epsilon: f64, sigma: f64, change: u32) -> f64 {
    let change = f64::from(change);
    let reach = (12.0 * sigma + change).ceil() as i64 + 40;
    let weight = |k: f64| (-k * k / (2.0 * sigma * sigma)).exp();
    let total: f64 = (-reach..=reach).map(|k| weight(k as f64)).sum();
    // Σ max(P(k) − e^ε·P(k + change), 0), where P(k) > e^ε·P(k + change) means a large enough k.
    let shifted = |k: f64| (epsilon - (k + change) * (k + change) / (2.0 * sigma * sigma)).exp();
    let excess = |k: f64| weight(k) - shifted(k);
    let sum: f64 = (-reach..=reach).map(|k| excess(k as f64).max(0.0)).sum();
    sum / total
}

/// ε at a mass of `mass` by concentrated privacy, ρ = 1/2r²: proven for discrete noise on vectors as well.
pub fn concentrated_epsilon(ratio: f64, mass: f64) -> f64 {
    let rho = 0.5 / (ratio * ratio);
    // Canonne, Kamath, Steinke (2020), the best order α > 1 by ternary search on a logarithmic scale.
    let epsilon = |log: f64| {
        let over = log.exp();
        let alpha = 1.0 + over;
        rho * alpha + ((1.0 / (alpha * mass)).ln() + alpha * (over / alpha).ln()) / over
            - (over / alpha).ln()
    };
    let (mut low, mut high) = (-12.0f64, 12.0f64);
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
    // Mills' ratio; the next term is below 2e-5 relative from here on.
    -0.5 * x * x - (x * (2.0 * std::f64::consts::PI).sqrt()).ln()
        + (-1.0 / (x * x) + 2.5 / x.powi(4))
}

#[cfg(test)]
mod tests;
