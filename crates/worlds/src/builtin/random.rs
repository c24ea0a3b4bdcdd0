//! Random numbers that depend only on what they are for, never on who asks first.

use seeded::{INCREMENT, mix, unit_f64};

/// A uniform number in 0–1 from a seed and two counters.
///
/// SplitMix64's finaliser over the mixed counters: any thread gets the same number for the same
/// vehicle and step.
#[inline]
pub(super) fn uniform(seed: u64, vehicle: u32, counter: u64) -> f64 {
    let key = seed ^ mix(u64::from(vehicle).wrapping_add(INCREMENT));
    unit_f64(mix(key.wrapping_add(counter.wrapping_mul(INCREMENT))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored datasets can be made again: their drivers follow from these numbers.
    #[test]
    fn numbers_are_those_of_every_version() {
        let bits =
            |seed, vehicle, counter| (uniform(seed, vehicle, counter) * 2f64.powi(53)) as u64;
        assert_eq!(bits(0, 0, 0), GOLDEN_BITS[0]);
        assert_eq!(bits(7, 3, 1), GOLDEN_BITS[1]);
        assert_eq!(bits(u64::MAX, u32::MAX, u64::MAX), GOLDEN_BITS[2]);
    }

    const GOLDEN_BITS: [u64; 3] =
        [2_537_880_150_861_722, 8_180_457_249_677_292, 389_875_375_617_174];

    #[test]
    fn numbers_are_uniform_and_uncorrelated_between_vehicles_and_steps() {
        const N: u32 = 100_000;
        for (vehicle_stride, step_stride) in [(1, 0), (0, 1)] {
            let number = |i: u32| uniform(7, i * vehicle_stride, u64::from(i * step_stride));
            let mean = (0..N).map(number).sum::<f64>() / f64::from(N);
            let lagged = (0..N).map(|i| (number(i) - 0.5) * (number(i + 1) - 0.5)).sum::<f64>()
                / f64::from(N);
            // Standard errors: √(1/12/N) = 9.1e-4 and 1/12/√N = 2.6e-4; five of each.
            assert!((mean - 0.5).abs() < 4.6e-3, "{mean}");
            assert!(lagged.abs() < 1.4e-3, "{lagged}");
        }
    }
}
