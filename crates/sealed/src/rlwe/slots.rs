//! Plaintexts that are multiplied place by place: 8192 numbers modulo a prime t.
//!
//! ```text
//! numbers  ──encode──►  the polynomial modulo t with these values at the roots of X^8192 + 1
//! ```
//!
//! Products of such polynomials have the products of their values. t is 1 modulo 16384, as the primes of q are, so
//! the same transform does it.
//!
//! A plaintext m is scaled by q/t itself, not by ⌊q/t⌋, and then rounded: so a product that wraps around t wraps around q,
//! and leaves nothing behind in the noise. With r = q·m mod t, rounding gives (q·m − r)/t, which is −r/t modulo every
//! prime of q.

use std::sync::OnceLock;

use zeroize::Zeroize;

use super::residue::Modulus;
use super::ring::{PRIME, PRIMES, Poly, ring};
use super::transform::{DEGREE, Transform};
use crate::kernel::{LANES, Lanes, ROUND, Vectorised, vectorise};
use crate::random::Randomness;

/// t: the largest prime below 2^40 that is 1 modulo 16384.
pub(crate) const SLOT_PRIME: u64 = 1_099_511_480_321;
/// Numbers are below t/2 in magnitude.
pub(crate) const SLOT_LIMIT: i64 = (SLOT_PRIME / 2) as i64;
/// A primitive 16384th root of unity modulo t.
const PSI: u64 = 456_294_246_567;
/// q modulo t.
pub(super) const Q_MOD_T: u64 = 837_790_290_811;
/// Flooding noise is below 2^108 in magnitude: a quarter of q/t.
pub(crate) const SLOT_FLOOD_BITS: u32 = 108;
/// Bits of the numbers that a mask is drawn from; one in seven million is thrown away.
const MASK_BITS: u32 = 40;

/// Tables that all exchanges share.
#[derive(Debug)]
pub(crate) struct Slots {
    transform: Transform,
    /// q modulo t, balanced.
    q: f64,
    /// −1/t modulo each prime of q, balanced.
    shrink: [f64; PRIMES],
}

/// The shared tables; made on first use.
pub(crate) fn slots() -> &'static Slots {
    static SLOTS: OnceLock<Slots> = OnceLock::new();
    SLOTS.get_or_init(|| {
        let transform = Transform::new(SLOT_PRIME, PSI);
        let q = transform.modulus().reduce(Q_MOD_T as f64);
        let shrink = PRIME.map(|prime| {
            let p = Modulus::new(prime);
            p.reduce(-(p.inverse_of(SLOT_PRIME) as f64))
        });
        Slots { transform, q, shrink }
    })
}

impl Slots {
    /// t.
    pub(crate) fn modulus(&self) -> Modulus {
        self.transform.modulus()
    }

    /// From numbers (balanced) to the polynomial that has them as values.
    pub(crate) fn encode(&self, numbers: &mut Poly) {
        self.transform.inverse(&mut numbers.0);
    }

    /// From a polynomial (balanced) to its values.
    pub(crate) fn decode(&self, poly: &mut Poly) {
        self.transform.forward(&mut poly.0);
    }

    /// From plaintexts m, balanced, to r = q·m mod t.
    pub(crate) fn remainders(&self, plain: &mut Poly) {
        vectorise(Remainders { slots: self, plain: &mut plain.0 });
    }

    /// Adds plaintexts, given by their [remainders](Self::remainders) and scaled, modulo one prime.
    pub(crate) fn add_scaled(&self, prime: usize, remainders: &Poly, sums: &mut [f64; DEGREE]) {
        vectorise(AddScaled { slots: self, prime, remainders: &remainders.0, sums });
    }

    /// The plaintexts of phases modulo the first prime, balanced.
    pub(crate) fn plaintexts(&self, phases: &mut Poly) {
        let (t, share) = (self.modulus(), SLOT_PRIME as f64 / PRIME[0] as f64);
        for x in phases.0.iter_mut() {
            // The noise stays a quarter of a unit away from the next number, this rounding 2^-12.
            *x = t.reduce((*x * share + ROUND) - ROUND);
        }
    }

    /// The mask that a seed stands for, of one polynomial of several: uniform modulo t, balanced.
    pub(crate) fn mask(&self, seed: &[u8; 32], number: usize, out: &mut Poly) {
        let mut stream = Randomness::from_secret_stream(seed, number as u64 + 1);
        let t = self.modulus();
        let mut bytes = [0; 4096];
        let mut filled = 0;
        while filled < DEGREE {
            stream.fill(&mut bytes);
            for bytes in bytes.as_chunks::<8>().0 {
                let candidate = u64::from_le_bytes(*bytes) >> (64 - MASK_BITS);
                // What is thrown away says nothing about what is kept.
                if candidate < SLOT_PRIME && filled < DEGREE {
                    out.0[filled] = t.reduce(candidate as f64);
                    filled += 1;
                }
            }
        }
        bytes.zeroize();
    }
}

struct Remainders<'a> {
    slots: &'a Slots,
    plain: &'a mut [f64; DEGREE],
}

impl Vectorised for Remainders<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let t = self.slots.modulus().lanes::<L>();
        let q = L::splat(self.slots.q);
        for x in self.plain.as_chunks_mut::<LANES>().0 {
            t.reduce(t.multiply(L::load(x), q)).store(x);
        }
    }
}

struct AddScaled<'a> {
    slots: &'a Slots,
    prime: usize,
    remainders: &'a [f64; DEGREE],
    sums: &'a mut [f64; DEGREE],
}

impl Vectorised for AddScaled<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let p = ring().modulus(self.prime).lanes::<L>();
        let shrink = L::splat(self.slots.shrink[self.prime]);
        let remainders = self.remainders.as_chunks::<LANES>().0;
        for (x, r) in self.sums.as_chunks_mut::<LANES>().0.iter_mut().zip(remainders) {
            p.reduce(L::load(x).add(p.multiply(L::load(r), shrink))).store(x);
        }
    }
}

/// Flooding noise for a whole polynomial, drawn anew for each. Erased when dropped.
///
/// Each coefficient is the sum of two numbers that are uniform in ±2^107. Uniform noise has edges: what it hides moves them,
/// and that adds up over coefficients; the sum has none, and what it hides adds up by squares (docs/sealed.md).
pub(super) struct Flood {
    /// l_0 + 2^50·l_1 + 2^100·l_2.
    limbs: [Poly; 3],
}

impl Flood {
    pub(super) fn new() -> Self {
        Self { limbs: std::array::from_fn(|_| Poly::zero()) }
    }

    pub(super) fn draw(&mut self, random: &mut Randomness) {
        const LIMB: u64 = (1 << 50) - 1;
        let mut bytes = [0; 6144];
        let [low, middle, high] = &mut self.limbs;
        let each = bytes.len() / 48;
        let limbs = low.0.chunks_exact_mut(each).zip(middle.0.chunks_exact_mut(each));
        for ((low, middle), high) in limbs.zip(high.0.chunks_exact_mut(each)) {
            random.fill(&mut bytes);
            let words = bytes.as_chunks::<8>().0.as_chunks::<6>().0;
            for (((low, middle), high), words) in low.iter_mut().zip(middle).zip(high).zip(words) {
                let [a, b, c, d, e, f] = words.map(u64::from_le_bytes);
                // Two numbers of 108 bits, limb by limb; their sum has 109, and 2^108 is taken off.
                let sum = (a >> 14) + (d >> 14);
                *low = (sum & LIMB) as i64 as f64;
                let sum = (b >> 14) + (e >> 14) + (sum >> 50);
                *middle = (sum & LIMB) as i64 as f64;
                let top = 64 - (SLOT_FLOOD_BITS - 100);
                let sum = (c >> top) + (f >> top) + (sum >> 50);
                *high = sum as i64 as f64 - f64::from(1 << (SLOT_FLOOD_BITS - 100));
            }
        }
        bytes.zeroize();
    }

    /// Adds it modulo one prime.
    pub(super) fn add(&self, prime: usize, sums: &mut [f64; DEGREE]) {
        vectorise(AddFlood { limbs: &self.limbs, prime, sums });
    }
}

struct AddFlood<'a> {
    limbs: &'a [Poly; 3],
    prime: usize,
    sums: &'a mut [f64; DEGREE],
}

impl Vectorised for AddFlood<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let ring = ring();
        let p = ring.modulus(self.prime).lanes::<L>();
        let [middle_shift, high_shift] = ring.shifts(self.prime).map(L::splat);
        let [low, middle, high] = self.limbs;
        let limbs = low.0.as_chunks::<LANES>().0.iter().zip(middle.0.as_chunks::<LANES>().0);
        let limbs = limbs.zip(high.0.as_chunks::<LANES>().0);
        for (x, ((low, middle), high)) in self.sums.as_chunks_mut::<LANES>().0.iter_mut().zip(limbs)
        {
            let low = p.reduce(L::load(low)).add(p.multiply(L::load(middle), middle_shift));
            let flood = p.reduce(low.add(p.multiply(L::load(high), high_shift)));
            p.reduce(L::load(x).add(flood)).store(x);
        }
    }
}
