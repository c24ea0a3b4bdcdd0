//! Σ w_b(X)·c_b: the host's rows times the guest's ciphertexts, the bulk of the work.

use super::codec::expand;
use super::message::SeededHalf;
use super::ring::{PRIMES, Poly, ring};
use super::transform::DEGREE;
use crate::kernel::{LANES, Lanes, Vectorised, vectorise};

/// A ciphertext or public key with both halves, transformed: c0 and c1 for each prime.
pub(super) struct Expanded(pub(super) [[Box<[f64; DEGREE]>; 2]; PRIMES]);

impl Expanded {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| Box::new([0.0; DEGREE]))))
    }

    pub(super) fn fill(&mut self, half: &SeededHalf) {
        for (prime, [c0, c1]) in self.0.iter_mut().enumerate() {
            half.residues(prime, c0);
            expand(&half.seed, prime, c1);
        }
    }
}

/// Σ w_b·c_b, transformed: c0 and c1 for each prime.
pub(super) struct Sums {
    pub(super) halves: [[Poly; 2]; PRIMES],
    /// Products since the last reduction.
    added: usize,
}

impl Sums {
    pub(super) fn zero() -> Self {
        let halves = std::array::from_fn(|_| std::array::from_fn(|_| Poly::zero()));
        Self { halves, added: 0 }
    }

    /// Adds the product of a ciphertext with weights.
    pub(super) fn add(&mut self, weights: &Poly, scratch: &mut Poly, ciphertext: &Expanded) {
        // A product adds at most 0.76 p to what is at most p/2 after a reduction, and 2^53 is 8 p. Seven of
        // them leave room for Enc_pk(0).
        self.added += 1;
        let reduce = self.added == 7;
        for (prime, (sums, factors)) in self.halves.iter_mut().zip(&ciphertext.0).enumerate() {
            let [sum0, sum1] = sums;
            scratch.0.copy_from_slice(&*weights.0);
            let weights = &mut scratch.0;
            vectorise(Accumulate { prime, weights, factors, sums: [sum0, sum1], reduce });
        }
        if reduce {
            self.added = 0;
        }
    }

    /// Adds another's sums.
    pub(super) fn merge(&mut self, other: Self) {
        for (prime, (ours, theirs)) in self.halves.iter_mut().zip(&other.halves).enumerate() {
            let p = ring().modulus(prime);
            for (ours, theirs) in ours.iter_mut().zip(theirs) {
                for (a, &b) in ours.0.iter_mut().zip(theirs.0.iter()) {
                    *a = p.reduce(p.reduce(*a) + p.reduce(b));
                }
            }
        }
        self.added = 0;
    }
}

impl Sums {
    /// Adds Enc_pk(0) without its noise, and goes from values to coefficients.
    pub(super) fn blind(&mut self, blind: &Poly, public: &Expanded) {
        let mut scratch = Poly::zero();
        for (prime, (sums, factors)) in self.halves.iter_mut().zip(&public.0).enumerate() {
            let [sum0, sum1] = sums;
            scratch.0.copy_from_slice(&*blind.0);
            let weights = &mut scratch.0;
            vectorise(Accumulate { prime, weights, factors, sums: [sum0, sum1], reduce: true });
            ring().transforms[prime].inverse(&mut sum0.0);
            ring().transforms[prime].inverse(&mut sum1.0);
        }
    }
}

/// Transforms the weights and adds their products with both halves of a ciphertext.
struct Accumulate<'a> {
    prime: usize,
    weights: &'a mut [f64; DEGREE],
    factors: &'a [Box<[f64; DEGREE]>; 2],
    sums: [&'a mut Poly; 2],
    reduce: bool,
}

impl Vectorised for Accumulate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let transform = &ring().transforms[self.prime];
        let p = transform.modulus().lanes::<L>();
        transform.forward_within::<L>(self.weights);
        let weights = self.weights.as_chunks::<LANES>().0;
        let factors = self.factors[0].as_chunks::<LANES>().0.iter();
        let factors = factors.zip(self.factors[1].as_chunks::<LANES>().0);
        let [sum0, sum1] = self.sums;
        let sums = sum0.0.as_chunks_mut::<LANES>().0.iter_mut();
        let sums = sums.zip(sum1.0.as_chunks_mut::<LANES>().0);
        for ((w, (f0, f1)), (s0, s1)) in weights.iter().zip(factors).zip(sums) {
            let w = L::load(w);
            let mut a = L::load(s0).add(p.multiply(w, L::load(f0)));
            let mut b = L::load(s1).add(p.multiply(w, L::load(f1)));
            if self.reduce {
                (a, b) = (p.reduce(a), p.reduce(b));
            }
            a.store(s0);
            b.store(s1);
        }
    }
}
