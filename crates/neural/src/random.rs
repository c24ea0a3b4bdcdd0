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
/// assert!(a == [1, 2, 3, 4, 5, 6] && a != b);
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
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform(0.0, 1.0)).ln()).sqrt();
        radius * (std::f32::consts::TAU * self.uniform(0.0, 1.0)).cos()
    }
}
