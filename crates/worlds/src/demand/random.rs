//! Random numbers by counter: each is a hash of the seed, what it is for, and its index.
//!
//! So a draw never depends on how many others were made before it.

use seeded::{SplitMix64, unit_f64};

/// What a number is drawn for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    FirstHeadway,
    Headway,
    Noise,
    Class,
    Route,
    BlockageTime,
    BlockageDuration,
    BlockagePlace,
}

/// Uniform in [0, 1).
pub(super) fn uniform(seed: u64, purpose: Purpose, stream: usize, index: u64) -> f64 {
    unit_f64(bits(seed, purpose, stream, index))
}

/// Normal with mean 0 and variance 1, by Box and Muller.
pub(super) fn normal(seed: u64, purpose: Purpose, stream: usize, index: u64) -> f64 {
    // 1 − u is never zero, so its logarithm is finite.
    let radius = (-2.0 * (1.0 - uniform(seed, purpose, stream, 2 * index)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(seed, purpose, stream, 2 * index + 1)).cos()
}

/// Exponential with mean 1.
pub(super) fn exponential(seed: u64, purpose: Purpose, stream: usize, index: u64) -> f64 {
    -(1.0 - uniform(seed, purpose, stream, index)).ln()
}

pub(super) fn bits(seed: u64, purpose: Purpose, stream: usize, index: u64) -> u64 {
    let first = |seed| SplitMix64::new(seed).next_u64();
    first(first(first(first(seed) ^ purpose as u64) ^ stream as u64) ^ index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Departures of stored datasets follow from these numbers.
    #[test]
    fn numbers_are_those_of_every_version() {
        assert_eq!(bits(0, Purpose::FirstHeadway, 0, 0), 0x2130748aaac80268);
        assert_eq!(bits(7, Purpose::BlockagePlace, 3, 12), 0x8673f550e2763adb);
        // Each argument counts.
        let all = [
            bits(1, Purpose::Class, 2, 3),
            bits(2, Purpose::Class, 2, 3),
            bits(1, Purpose::Route, 2, 3),
            bits(1, Purpose::Class, 3, 3),
            bits(1, Purpose::Class, 2, 4),
            bits(1, Purpose::Class, 3, 2),
        ];
        assert!((0..6).all(|i| !all[..i].contains(&all[i])), "{all:x?}");
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let count = 100_000;
        let mean = |draw: &dyn Fn(u64) -> f64| (0..count).map(draw).sum::<f64>() / count as f64;
        // Five standard errors of a mean of 100,000 draws are 0.016 standard deviations.
        let close = |found: f64, expected: f64, deviation: f64| {
            assert!((found - expected).abs() < 0.016 * deviation, "{found} {expected}");
        };
        let u = |i| uniform(7, Purpose::Headway, 3, i);
        let n = |i| normal(7, Purpose::Noise, 3, i);
        let e = |i| exponential(7, Purpose::Headway, 4, i);
        close(mean(&u), 0.5, 12_f64.sqrt().recip());
        close(mean(&n), 0.0, 1.0);
        close(mean(&|i| n(i) * n(i)), 1.0, 2_f64.sqrt());
        close(mean(&|i| n(i) * n(i + 1)), 0.0, 1.0);
        close(mean(&e), 1.0, 1.0);
    }
}
