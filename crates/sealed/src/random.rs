//! Randomness: a seed from the operating system, expanded by ChaCha20.

use std::fmt;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use thiserror::Error;
use zeroize::Zeroize;

/// The operating system gave no randomness.
#[derive(Debug, Error)]
#[error("the operating system gave no randomness: {0}")]
pub struct RandomnessError(String);

/// A stream of secret random bits, erased when dropped.
pub struct Randomness(ChaCha20Rng);

impl Randomness {
    /// A new stream, seeded by the operating system.
    pub fn from_os() -> Result<Self, RandomnessError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| RandomnessError(error.to_string()))?;
        let stream = Self(ChaCha20Rng::from_seed(seed));
        seed.zeroize();
        Ok(stream)
    }

    /// A stream that anyone who has the seed can repeat, and that protects nothing: for tests, test vectors, benchmarks and
    /// audits. Only with the feature `insecure-seeds`, which a party's code has no reason to ask for.
    #[cfg(any(test, feature = "insecure-seeds"))]
    pub fn insecure_from_seed(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(ChaCha20Rng::from_seed(bytes))
    }

    /// The stream of a secret seed.
    pub(crate) fn from_secret(seed: &[u8; 32]) -> Self {
        Self(ChaCha20Rng::from_seed(*seed))
    }

    /// One of the many streams of a secret seed.
    pub(crate) fn from_secret_stream(seed: &[u8; 32], stream: u64) -> Self {
        let mut random = ChaCha20Rng::from_seed(*seed);
        random.set_stream(stream);
        Self(random)
    }

    /// 32 random bytes.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        seed
    }

    /// Random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 128 random bits.
    pub fn bits128(&mut self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }

    /// A number in 0..bound, each equally likely, exactly; 0 for a bound of 0.
    pub fn below(&mut self, bound: u128) -> u128 {
        let Some(most) = bound.checked_sub(1) else { return 0 };
        let mask = u128::MAX.checked_shr(most.leading_zeros()).unwrap_or(0);
        loop {
            let wide = if mask >> 64 == 0 { u128::from(self.bits()) } else { self.bits128() };
            if wide & mask <= most {
                return wide & mask;
            }
        }
    }
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Randomness(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_uniform_and_keeps_the_bound() {
        let mut random = Randomness::insecure_from_seed(1);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        // 10 000 expected each, standard deviation 91: five of them.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 460), "{counts:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        assert!(random.below(u128::MAX) < u128::MAX);
    }

    #[test]
    fn the_system_gives_different_streams() {
        let (a, b) = (Randomness::from_os().unwrap().seed(), Randomness::from_os().unwrap().seed());
        assert_ne!(a, b);
    }
}
