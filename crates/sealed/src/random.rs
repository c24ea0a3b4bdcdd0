//! Randomness: a seed from the operating system, expanded by ChaCha20.

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
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 128 random bits.
    pub(crate) fn bits128(&mut self) -> u128 {
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

crate::debug_sizes!(Randomness, |_it| "Randomness(…)");

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
        // Half of the draws below 2^127 + 1 are thrown away: what is kept has the top bit once in 2^127.
        assert!((0..100).all(|_| random.below((1 << 127) + 1) >> 127 == 0));
        // All 128 bits are used: in 64 draws each is set and each is clear, but for a chance of 128·2^-63.
        let draws: Vec<u128> = (0..64).map(|_| random.below(u128::MAX)).collect();
        assert_eq!(draws.iter().fold(0, |all, draw| all | draw), u128::MAX);
        assert_eq!(draws.iter().fold(u128::MAX, |all, draw| all & draw), 0);
    }

    #[test]
    fn the_stream_is_that_of_chacha20() {
        // RFC 8439, A.1, test vector 1: the key of zeros, block 0; and vector 2, block 1.
        let expected = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
                        da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586\
                        9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed";
        let mut random = Randomness::insecure_from_seed(0);
        let mut bytes = [0; 96];
        random.fill(&mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
        // The same bytes in other portions.
        let mut again = Randomness::insecure_from_seed(0);
        assert_eq!(again.seed(), bytes[..32]);
        assert_eq!(again.bits(), u64::from_le_bytes(bytes[32..40].try_into().unwrap()));
        let halves = [&bytes[40..48], &bytes[48..56]]
            .map(|half| u128::from(u64::from_le_bytes(half.try_into().unwrap())));
        assert_eq!(again.bits128(), halves[0] << 64 | halves[1]);
    }

    #[test]
    fn streams_of_a_seed_are_repeated_and_share_nothing() {
        let seed = [3; 32];
        let words = |mut random: Randomness| (0..100).map(|_| random.bits()).collect::<Vec<u64>>();
        assert_eq!(
            words(Randomness::from_secret_stream(&seed, 0)),
            words(Randomness::from_secret(&seed))
        );
        // 400 words of 64 bits: two are the same with a probability of 400²/2^65.
        let mut all: Vec<u64> = [0, 1, 2, u64::MAX]
            .into_iter()
            .flat_map(|stream| words(Randomness::from_secret_stream(&seed, stream)))
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 400);
        assert_eq!(format!("{:?}", Randomness::from_secret(&seed)), "Randomness(…)");
    }

    #[test]
    fn the_system_gives_different_streams() {
        // 32 bytes each: the same with a probability of 2^-256.
        let (a, b) = (Randomness::from_os().unwrap().seed(), Randomness::from_os().unwrap().seed());
        assert_ne!(a, b);
        // Half of 512 bits are set: deviation 11.3, eight of them.
        let set: u32 = a.iter().chain(&b).map(|byte| byte.count_ones()).sum();
        assert!(set.abs_diff(256) < 91, "{set}");
    }
}
