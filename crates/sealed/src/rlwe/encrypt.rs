//! Encryption with a secret key: half a ciphertext, the other half being the stream of a seed.

use super::codec::expand;
use super::message::SeededHalf;
use super::residue::Modulus;
use super::ring::{PRIMES, Poly, ring};
use super::transform::DEGREE;
use crate::kernel::{LANES, Lanes, Vectorised, vectorise};

/// A secret key, transformed modulo each prime.
pub(super) fn transformed(secret: &Poly) -> [Poly; PRIMES] {
    std::array::from_fn(|prime| {
        let mut poly = secret.clone();
        ring().transforms[prime].forward(&mut poly.0);
        poly
    })
}

/// b = −a·s + e + m, transformed, where a is what the seed stands for; `add` adds m modulo a prime.
pub(super) fn encrypt(
    key: &[Poly; PRIMES],
    seed: [u8; 32],
    noise: &Poly,
    add: impl Fn(usize, &mut [f64; DEGREE]),
) -> SeededHalf {
    // Erased when dropped: a becomes a·s.
    let (mut a, mut message) = (Poly::zero(), Poly::zero());
    let residues = std::array::from_fn(|prime| {
        let transform = &ring().transforms[prime];
        let p = transform.modulus();
        message.0.copy_from_slice(&*noise.0);
        add(prime, &mut message.0);
        transform.forward(&mut message.0);
        expand(&seed, prime, &mut a.0);
        multiply_into(prime, &mut a, &key[prime]);
        let mut difference = vec![0; DEGREE];
        vectorise(Difference { p, x: &message.0, y: &a.0, out: &mut difference });
        difference
    });
    SeededHalf::new(seed, residues)
}

/// x ← x·y, balanced.
pub(super) fn multiply_into(prime: usize, x: &mut Poly, y: &Poly) {
    vectorise(MultiplyInto { prime, x: &mut x.0, y: &y.0 });
}

struct MultiplyInto<'a> {
    prime: usize,
    x: &'a mut [f64; DEGREE],
    y: &'a [f64; DEGREE],
}

impl Vectorised for MultiplyInto<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let p = ring().modulus(self.prime).lanes::<L>();
        let factors = self.y.as_chunks::<LANES>().0;
        for (x, y) in self.x.as_chunks_mut::<LANES>().0.iter_mut().zip(factors) {
            p.reduce(p.multiply(L::load(x), L::load(y))).store(x);
        }
    }
}

/// x − y, in 0..p.
struct Difference<'a> {
    p: Modulus,
    x: &'a [f64; DEGREE],
    y: &'a [f64; DEGREE],
    out: &'a mut [u64],
}

impl Vectorised for Difference<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for ((out, x), y) in self.out.iter_mut().zip(self.x).zip(self.y) {
            *out = self.p.canonical(x - y);
        }
    }
}
