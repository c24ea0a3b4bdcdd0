//! The generator behind every repeatable draw: SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number
//! generators*, OOPSLA 2014).
//!
//! Simulated demand, fleets, initial weights and dropout are functions of a seed, so the output of this crate is part of
//! every result: it never changes. Secrets and privacy noise come from a cryptographic generator in `sealed`, never from
//! here.
//!
//! Written here rather than taken from `rand_xoshiro`: most draws are hashes of counters, which need the output function
//! [`mix`] by itself, and that crate exports only the whole generator.
//!
//! ```
//! let mut generator = seeded::SplitMix64::new(7);
//! let share = generator.next_f64();
//! assert!((0.0..1.0).contains(&share));
//! assert_eq!(share, seeded::SplitMix64::new(7).next_f64());
//! ```

/// The increment of the state: 2⁶⁴ divided by the golden ratio, odd.
pub const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of the generator: a bijection of 64 bits in which every input bit affects every output bit.
#[inline]
pub const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The upper 53 bits, which fill the mantissa of a double, as a number in [0, 1).
#[inline]
pub const fn unit_f64(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// A stream of numbers that is a function of its seed.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of this seed.
    #[inline]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        mix(self.state)
    }

    /// The next number, uniform in [0, 1).
    #[inline]
    pub const fn next_f64(&mut self) -> f64 {
        unit_f64(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for two seeds, as published implementations of the algorithm give them.
    #[test]
    fn outputs_are_those_of_the_published_algorithm() {
        let known = [
            (
                0,
                [
                    0xe220_a839_7b1d_cdaf,
                    0x6e78_9e6a_a1b9_65f4,
                    0x06c4_5d18_8009_454f,
                    0xf88b_b8a8_724c_81ec,
                    0x1b39_896a_51a8_749b,
                ],
            ),
            (
                1_234_567,
                [
                    6_457_827_717_110_365_317,
                    3_203_168_211_198_807_973,
                    9_817_491_932_198_370_423,
                    4_593_380_528_125_082_431,
                    16_408_922_859_458_223_821,
                ],
            ),
        ];
        for (seed, expected) in known {
            let mut generator = SplitMix64::new(seed);
            assert_eq!([(); 5].map(|()| generator.next_u64()), expected, "seed {seed}");
        }
    }

    #[test]
    fn unit_numbers_are_exact_and_below_one() {
        assert_eq!(unit_f64(0), 0.0);
        assert_eq!(unit_f64(1 << 63), 0.5);
        assert_eq!(unit_f64((1 << 11) - 1), 0.0);
        assert_eq!(unit_f64(u64::MAX), 1.0 - f64::EPSILON / 2.0);
        assert_eq!(SplitMix64::new(0).next_f64(), unit_f64(0xe220_a839_7b1d_cdaf));
    }
}
