//! Randomness that is a function of counters, never of the order of calls.
//!
//! ```
//! use neural::{Draw, hash};
//! // Initial weights are made of these numbers: they never change.
//! assert_eq!(hash([7, 1]), 0x0965_6f6b_5c48_be32);
//! assert_ne!(hash([7, 1]), hash([1, 7]));
//! let x = Draw::new(42).uniform(-1.0, 1.0);
//! assert!((-1.0..1.0).contains(&x));
//! ```

use seeded::{INCREMENT, mix};

/// A 64-bit hash of some counters.
#[inline]
pub fn hash<const N: usize>(counters: [u64; N]) -> u64 {
    counters.into_iter().fold(INCREMENT, |state, counter| {
        mix(state ^ counter.wrapping_add(INCREMENT)).wrapping_add(state.rotate_left(17))
    })
}

/// The upper 24 bits of a hash as a number in [0, 1).
#[inline]
pub fn unit(hash: u64) -> f32 {
    (hash >> 40) as f32 * (1.0 / (1 << 24) as f32)
}

/// An order that is a function of a key (Fisher–Yates).
///
/// ```
/// let (mut a, mut b) = ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]);
/// neural::random::shuffle(&mut a, 7);
/// neural::random::shuffle(&mut b, 7);
/// assert_eq!(a, b);
/// a.sort();
/// assert_eq!(a, [1, 2, 3, 4, 5, 6]); // all of them, each once
/// ```
pub fn shuffle<T>(values: &mut [T], key: u64) {
    for i in (1..values.len()).rev() {
        let j = hash([key, i as u64]) % (i as u64 + 1);
        values.swap(i, j as usize);
    }
}

/// A stream of draws from a seed, for first parameters.
#[derive(Clone, Debug)]
pub struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Draw { seed, drawn: 0 }
    }

    /// The next number, uniform in `[low, high)`.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        self.drawn += 1;
        low + (high - low) * unit(hash([self.seed, self.drawn]))
    }

    /// Fills a slice with numbers uniform in `±bound`.
    pub fn fill(&mut self, values: &mut [f32], bound: f32) {
        for value in values {
            *value = self.uniform(-bound, bound);
        }
    }

    /// The next number, normal with mean 0 and standard deviation 1 (Box–Muller).
    pub(crate) fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform(0.0, 1.0)).ln()).sqrt();
        radius * (std::f32::consts::TAU * self.uniform(0.0, 1.0)).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masks and first weights of stored runs follow from these: a changed hash would change all of them.
    #[test]
    fn hashes_are_those_of_every_version() {
        assert_eq!(hash([]), 0x9e37_79b9_7f4a_7c15);
        assert_eq!(hash([0]), 0xf372_fe94_f82b_3c6e);
        assert_eq!(hash([1]), 0x11c6_5d82_db3f_655e);
        assert_eq!(hash([7, 1]), 0x0965_6f6b_5c48_be32);
        assert_eq!(hash([1, 7]), 0xc74d_da35_8107_d8fd);
        assert_eq!(hash([u64::MAX, 0, 3]), 0x9824_26a0_6959_b5c4);
    }

    #[test]
    fn units_are_multiples_of_two_to_the_minus_24_below_one() {
        assert_eq!(unit(0), 0.0);
        assert_eq!(unit(u64::MAX), 1.0 - f32::EPSILON / 2.0);
        assert_eq!(unit(1 << 63), 0.5);
        // The low 40 bits are not looked at.
        assert_eq!(unit((1 << 63) + (1 << 40) - 1), 0.5);
    }

    /// A bit changed in a counter changes half of the bits of its hash.
    #[test]
    fn every_bit_of_a_counter_counts() {
        for bit in 0..64 {
            let changed: u32 =
                (0..64u64).map(|n| (hash([3, n]) ^ hash([3, n ^ 1 << bit])).count_ones()).sum();
            // 4096 bits, deviation 32: six of them.
            assert!(changed.abs_diff(2048) < 192, "bit {bit}: {changed}");
        }
    }

    #[test]
    fn uniform_numbers_fill_their_range_evenly() {
        let mut draw = Draw::new(1);
        let mut counts = [0u32; 10];
        for _ in 0..10_000 {
            let x = draw.uniform(-2.0, 3.0);
            counts[((x + 2.0) * 2.0) as usize] += 1;
        }
        // 1000 expected in each, deviation 30: five of them.
        assert!(counts.iter().all(|&count| count.abs_diff(1000) < 150), "{counts:?}");
        let mut values = [f32::NAN; 7];
        Draw::new(9).fill(&mut values, 0.0);
        assert_eq!(values, [0.0; 7]);
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let mut draw = Draw::new(2);
        let count = 100_000;
        let mut moments = [0.0f64; 4];
        for _ in 0..count {
            let x = f64::from(draw.normal());
            (0..4).for_each(|power| moments[power] += x.powi(power as i32 + 1) / f64::from(count));
        }
        // E[xⁿ] = 0, 1, 0, 3 with deviations √(1, 2, 15, 96)/√count: five of each.
        for (found, (expected, variance)) in
            moments.into_iter().zip([(0.0, 1.0f64), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0)])
        {
            let most = 5.0 * (variance / f64::from(count)).sqrt();
            assert!((found - expected).abs() < most, "{found} {expected}");
        }
    }

    /// All six orders of three things come equally often.
    #[test]
    fn every_order_is_as_likely_as_any_other() {
        let mut counts = std::collections::BTreeMap::new();
        for key in 0..6000 {
            let mut values = [0, 1, 2];
            shuffle(&mut values, key);
            *counts.entry(values).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // 1000 expected, deviation 29: five of them.
        assert!(counts.values().all(|count| count.abs_diff(1000) < 145), "{counts:?}");
        let (mut none, mut one): ([u8; 0], [u8; 1]) = ([], [7]);
        shuffle(&mut none, 1);
        shuffle(&mut one, 1);
        assert_eq!(one, [7]);
    }
}
