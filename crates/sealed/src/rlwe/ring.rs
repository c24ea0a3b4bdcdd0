//! The ring ℤ_q[X]/(X^8192 + 1), q of 150 bits, as residues modulo three primes; and its constants.

use std::sync::OnceLock;

use zeroize::Zeroize;

use super::residue::Modulus;
use super::transform::{DEGREE, Transform};
use crate::kernel::{LANES, Lanes, Vectorised, vectorise};
use crate::random::Randomness;

/// How many primes make q.
pub(crate) const PRIMES: usize = 3;
/// The largest primes below 2^50 that are 1 modulo 16384.
pub(crate) const PRIME: [u64; PRIMES] =
    [1_125_899_906_826_241, 1_125_899_906_629_633, 1_125_899_905_744_897];
/// A primitive 16384th root of unity of each.
const PSI: [u64; PRIMES] = [971_709_613_313_032, 1_096_684_567_043_902, 340_368_873_960_073];

/// Bits of the plaintext modulus t = 2^40.
pub(crate) const PLAIN_BITS: u32 = 40;
/// The largest product that a plaintext can hold, in magnitude.
pub(crate) const PLAIN_LIMIT: i64 = (1 << (PLAIN_BITS - 1)) - 1;
/// The weights of a row sum to at most 2^25, however few levels the grid has: that bounds the noise, and with
/// it what the flood must hide.
pub(crate) const WEIGHT_LIMIT: i64 = 1 << 25;
/// ⌊q/t⌋ modulo each prime; a test computes them anew.
pub(crate) const DELTA: [u64; PRIMES] =
    [239_417_314_768_484, 18_415_678_912_100, 3_573_177_906_788];
/// Flooding noise is uniform below 2^108 in magnitude: a quarter of q/t.
pub(crate) const FLOOD_BITS: u32 = 108;

/// Tables that all exchanges share.
#[derive(Debug)]
pub(crate) struct Ring {
    /// One for each prime.
    pub(crate) transforms: [Transform; PRIMES],
    /// ⌊q/t⌋, 2^50 and 2^100 modulo each prime, balanced.
    delta: [f64; PRIMES],
    shifts: [[f64; 2]; PRIMES],
    /// 1/p_2 modulo p_0 and p_1, and 1/p_1 modulo p_0.
    last_inverse: [f64; 2],
    middle_inverse: f64,
}

/// The shared tables; made on first use, in about ten milliseconds.
pub(crate) fn ring() -> &'static Ring {
    static RING: OnceLock<Ring> = OnceLock::new();
    RING.get_or_init(|| {
        let transforms = std::array::from_fn(|i| Transform::new(PRIME[i], PSI[i]));
        let moduli = PRIME.map(Modulus::new);
        let inverse = |of: usize, modulo: usize| {
            let p = moduli[modulo];
            p.reduce(p.inverse_of(PRIME[of] % PRIME[modulo]) as f64)
        };
        Ring {
            transforms,
            delta: std::array::from_fn(|i| moduli[i].reduce(DELTA[i] as f64)),
            shifts: moduli.map(|p| [50, 100].map(|bits| p.reduce(p.power(2, bits) as f64))),
            last_inverse: [inverse(2, 0), inverse(2, 1)],
            middle_inverse: inverse(1, 0),
        }
    })
}

impl Ring {
    /// The modulus of a prime.
    pub(crate) fn modulus(&self, prime: usize) -> Modulus {
        self.transforms[prime].modulus()
    }

    /// 2^50 and 2^100 modulo a prime, balanced.
    pub(crate) fn shifts(&self, prime: usize) -> [f64; 2] {
        self.shifts[prime]
    }

    /// A plaintext (below 2^40 in magnitude) modulo q, scaled by ⌊q/t⌋, modulo one prime.
    #[inline(always)]
    pub(crate) fn scaled(&self, prime: usize, plain: f64) -> f64 {
        self.modulus(prime).multiply(plain, self.delta[prime])
    }

    /// A number in −2^108..2^108 from 109 random bits, modulo each prime.
    pub(crate) fn flood(&self, bits: u128) -> [f64; PRIMES] {
        let mask = (1 << 50) - 1;
        let limbs = [bits, bits >> 50].map(|limb| (limb as u64 & mask) as f64);
        // The top limb has 9 bits; 2^108 = 2^8·2^100 is taken off there.
        let top = ((bits >> 100) as u64 & 0x1FF) as f64 - 256.0;
        std::array::from_fn(|i| {
            let (p, [middle, high]) = (self.modulus(i), self.shifts[i]);
            let sum = p.reduce(limbs[0]) + p.multiply(p.reduce(limbs[1]), middle);
            p.reduce(sum + p.multiply(top, high))
        })
    }

    /// x·p_0/q, rounded, modulo p_0: the last two primes are divided away one after the other.
    pub(crate) fn switch(&self, [x0, x1, x2]: [f64; PRIMES]) -> u64 {
        let (p0, p1, p2) = (self.modulus(0), self.modulus(1), self.modulus(2));
        let x2 = p2.reduce(x2);
        let y0 = p0.multiply(p0.reduce(x0 - x2), self.last_inverse[0]);
        let y1 = p1.reduce(p1.multiply(p1.reduce(x1 - x2), self.last_inverse[1]));
        p0.canonical(p0.multiply(p0.reduce(y0 - y1), self.middle_inverse))
    }
}

impl Ring {
    /// [`Ring::switch`] of all coefficients, with noise added.
    pub(crate) fn switch_all(&self, sums: [&Poly; PRIMES], noise: &Poly) -> Vec<u64> {
        let mut switched = vec![0; DEGREE];
        vectorise(Switch { ring: self, sums, noise, switched: &mut switched });
        switched
    }
}

struct Switch<'a> {
    ring: &'a Ring,
    sums: [&'a Poly; PRIMES],
    noise: &'a Poly,
    switched: &'a mut [u64],
}

impl Vectorised for Switch<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let ring = self.ring;
        let p0 = ring.modulus(0).lanes::<L>();
        let p1 = ring.modulus(1).lanes::<L>();
        let p2 = ring.modulus(2).lanes::<L>();
        let last = [L::splat(ring.last_inverse[0]), L::splat(ring.last_inverse[1])];
        let middle = L::splat(ring.middle_inverse);
        let [s0, s1, s2] = self.sums;
        let sums = s0.0.as_chunks::<LANES>().0.iter().zip(s1.0.as_chunks::<LANES>().0);
        let sums = sums.zip(s2.0.as_chunks::<LANES>().0).zip(self.noise.0.as_chunks::<LANES>().0);
        let mut residues = [0.0; LANES];
        for ((((x0, x1), x2), noise), to) in sums.zip(self.switched.as_chunks_mut::<LANES>().0) {
            let noise = L::load(noise);
            let x2 = p2.reduce(L::load(x2).add(noise));
            let x0 = p0.reduce(L::load(x0).add(noise).sub(x2));
            let x1 = p1.reduce(L::load(x1).add(noise).sub(x2));
            let y0 = p0.reduce(p0.multiply(x0, last[0]));
            let y1 = p1.reduce(p1.multiply(x1, last[1]));
            p0.multiply(p0.reduce(y0.sub(y1)), middle).store(&mut residues);
            for (to, residue) in to.iter_mut().zip(residues) {
                *to = ring.modulus(0).canonical(residue);
            }
        }
    }
}

/// Coefficients, or values of a transform, modulo one prime. Erased when dropped.
#[derive(Clone)]
pub(crate) struct Poly(pub(crate) Box<[f64; DEGREE]>);

impl Poly {
    pub(crate) fn zero() -> Self {
        Self(Box::new([0.0; DEGREE]))
    }

    /// A polynomial of [errors](error).
    pub(crate) fn error(random: &mut Randomness) -> Self {
        let mut poly = Self::zero();
        poly.draw_error(random);
        poly
    }

    /// The same into a polynomial that there is.
    pub(crate) fn draw_error(&mut self, random: &mut Randomness) {
        error(random, &mut self.0[..]);
    }

    /// −1, 0 and 1, equally likely.
    pub(crate) fn ternary(random: &mut Randomness) -> Self {
        let mut poly = Self::zero();
        poly.draw_ternary(random);
        poly
    }

    /// The same into a polynomial that there is.
    pub(crate) fn draw_ternary(&mut self, random: &mut Randomness) {
        let mut word = [0; 8];
        let mut kept = 0;
        // One more than are needed: so keys have always been drawn from their seeds.
        while kept <= DEGREE {
            random.fill(&mut word);
            let mut bits = u64::from_le_bytes(word);
            for _ in 0..32 {
                // Which draws are thrown away, and written over by the next, says nothing about those that are kept.
                if let Some(x) = self.0.get_mut(kept) {
                    *x = (bits & 3) as f64 - 1.0;
                }
                kept += usize::from(bits & 3 != 3);
                bits >>= 2;
            }
        }
        word.zeroize();
    }
}

/// Errors: centred binomial with 42 bits, variance 10.5, magnitude at most 21.
pub(crate) fn error(random: &mut Randomness, out: &mut [f64]) {
    let mut bytes = [0; 4096];
    for out in out.chunks_mut(bytes.len() / 8) {
        let bytes = &mut bytes[..8 * out.len()];
        random.fill(bytes);
        vectorise(Binomial { bytes, out });
    }
    bytes.zeroize();
}

struct Binomial<'a> {
    bytes: &'a [u8],
    out: &'a mut [f64],
}

impl Vectorised for Binomial<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for (x, bytes) in self.out.iter_mut().zip(self.bytes.as_chunks::<8>().0) {
            let bits = u64::from_le_bytes(*bytes);
            *x = f64::from(ones(bits) - ones(bits >> 21));
        }
    }
}

/// How many of the lowest 21 bits are 1.
#[inline(always)]
fn ones(bits: u64) -> i32 {
    (bits & 0x1F_FFFF).count_ones() as i32
}

impl Drop for Poly {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
