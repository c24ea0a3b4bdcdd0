//! Σ w_b(X)·c_b: the host's rows times the guest's ciphertexts, the bulk of the work.

use super::codec::expand;
use super::message::SeededHalf;
use super::residue::LaneModulus;
use super::ring::{PRIMES, Poly, ring};
use super::transform::{DEGREE, Sink};
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
    /// Products since the last reduction; none if there are no sums yet, and the halves hold anything.
    added: Option<usize>,
}

impl Sums {
    pub(super) fn new() -> Self {
        let halves = std::array::from_fn(|_| std::array::from_fn(|_| Poly::zero()));
        Self { halves, added: None }
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.added = None;
    }

    /// Adds the product of a ciphertext with weights.
    pub(super) fn add(&mut self, weights: &Poly, scratch: &mut Poly, ciphertext: &Expanded) {
        // A product adds at most 0.76 p to what is at most p/2 after a reduction, and 2^53 is 8 p. Seven of
        // them leave room for Enc_pk(0).
        let added = self.added.map_or(1, |added| added + 1);
        let end = if added == 7 { End::Reduced } else { End::Added };
        let end = if self.added.is_none() { End::First } else { end };
        self.accumulate(weights, scratch, ciphertext, end);
        self.added = Some(added % 7);
    }

    fn accumulate(&mut self, weights: &Poly, room: &mut Poly, factors: &Expanded, end: End) {
        for (prime, (sums, factors)) in self.halves.iter_mut().zip(&factors.0).enumerate() {
            let (weights, room) = (&weights.0, &mut room.0);
            vectorise(Accumulate { prime, weights, room, factors, sums, end });
        }
    }

    /// Adds another's sums.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.added.is_none() {
            return;
        }
        for (prime, (ours, theirs)) in self.halves.iter_mut().zip(&other.halves).enumerate() {
            for (ours, theirs) in ours.iter_mut().zip(theirs) {
                if self.added.is_none() {
                    ours.0.copy_from_slice(&*theirs.0);
                } else {
                    vectorise(Merge { prime, ours: &mut ours.0, theirs: &theirs.0 });
                }
            }
        }
        self.added = if self.added.is_none() { other.added } else { Some(0) };
    }

    /// Adds Enc_pk(0) without its noise, and goes from values to coefficients.
    pub(super) fn blind(&mut self, blind: &Poly, scratch: &mut Poly, public: &Expanded) {
        let end = if self.added.is_none() { End::First } else { End::Reduced };
        self.accumulate(blind, scratch, public, end);
        for (prime, halves) in self.halves.iter_mut().enumerate() {
            for half in halves {
                ring().transforms[prime].inverse(&mut half.0);
            }
        }
    }
}

/// What becomes of products.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// They are the first.
    First,
    /// They are added.
    Added,
    /// They are added, and the sums reduced.
    Reduced,
}

/// Transforms the weights and adds their products with both halves of a ciphertext.
struct Accumulate<'a> {
    prime: usize,
    weights: &'a [f64; DEGREE],
    room: &'a mut [f64; DEGREE],
    factors: &'a [Box<[f64; DEGREE]>; 2],
    sums: &'a mut [Poly; 2],
    end: End,
}

impl Vectorised for Accumulate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let transform = &ring().transforms[self.prime];
        let p = transform.modulus().lanes::<L>();
        let [f0, f1] = self.factors;
        let [s0, s1] = self.sums;
        let factors = [blocks(f0), blocks(f1)];
        let sums = [blocks_mut(&mut s0.0), blocks_mut(&mut s1.0)];
        let (weights, room) = (self.weights, self.room);
        match self.end {
            End::First => {
                let mut sink = Products::<L, true, false> { p, factors, sums };
                transform.forward_from::<L, _>(weights, room, &mut sink);
            }
            End::Added => {
                let mut sink = Products::<L, false, false> { p, factors, sums };
                transform.forward_from::<L, _>(weights, room, &mut sink);
            }
            End::Reduced => {
                let mut sink = Products::<L, false, true> { p, factors, sums };
                transform.forward_from::<L, _>(weights, room, &mut sink);
            }
        }
    }
}

type Block = [[f64; LANES]; LANES];

#[inline(always)]
fn blocks(poly: &[f64; DEGREE]) -> &[Block] {
    poly.as_chunks::<LANES>().0.as_chunks::<LANES>().0
}

#[inline(always)]
fn blocks_mut(poly: &mut [f64; DEGREE]) -> &mut [Block] {
    poly.as_chunks_mut::<LANES>().0.as_chunks_mut::<LANES>().0
}

/// Adds the products of transformed weights as they come, while they are in registers.
struct Products<'a, L, const FIRST: bool, const REDUCE: bool> {
    p: LaneModulus<L>,
    factors: [&'a [Block]; 2],
    sums: [&'a mut [Block]; 2],
}

impl<L: Lanes, const FIRST: bool, const REDUCE: bool> Sink<L> for Products<'_, L, FIRST, REDUCE> {
    #[inline(always)]
    fn take(&mut self, number: usize, weights: [L; LANES], _block: &mut Block) {
        let p = self.p;
        let factors = self.factors[0][number].iter().zip(&self.factors[1][number]);
        let [sums0, sums1] = &mut self.sums;
        let sums = sums0[number].iter_mut().zip(&mut sums1[number]);
        for ((w, (f0, f1)), (s0, s1)) in weights.into_iter().zip(factors).zip(sums) {
            let (mut a, mut b) = (p.multiply(w, L::load(f0)), p.multiply(w, L::load(f1)));
            if !FIRST {
                (a, b) = (L::load(s0).add(a), L::load(s1).add(b));
            }
            if REDUCE {
                (a, b) = (p.reduce(a), p.reduce(b));
            }
            a.store(s0);
            b.store(s1);
        }
    }
}

/// Adds sums that may have grown, and reduces.
struct Merge<'a> {
    prime: usize,
    ours: &'a mut [f64; DEGREE],
    theirs: &'a [f64; DEGREE],
}

impl Vectorised for Merge<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let p = ring().modulus(self.prime).lanes::<L>();
        let theirs = self.theirs.as_chunks::<LANES>().0;
        for (a, b) in self.ours.as_chunks_mut::<LANES>().0.iter_mut().zip(theirs) {
            p.reduce(p.reduce(L::load(a)).add(p.reduce(L::load(b)))).store(a);
        }
    }
}
