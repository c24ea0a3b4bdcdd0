//! The one module with unsafe code: eight numbers at once, by the best instructions of this machine.
//!
//! [`Lanes`] is what the loops of this crate are written in; [`vectorise`] runs such a loop with the lanes
//! that this machine has: AVX-512, AVX2 with FMA, or plain numbers. All three give the same residues.
//!
//! # Why this is sound
//!
//! 1. `x86.rs` makes values of its lane types in loops run by [`vectorise`] only (the types are private to
//!    this module and [`Lanes`] has no other implementors), and [`vectorise`] runs a loop with a lane type
//!    only after `is_x86_feature_detected!` has found its instructions.
//! 2. Loads and stores go through references to arrays of eight numbers, by unaligned instructions.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod x86;

/// How many numbers are handled at once.
pub(crate) const LANES: usize = 8;

/// Adding and subtracting this rounds to the nearest whole number, for |x| < 2^51.
pub(crate) const ROUND: f64 = 6_755_399_441_055_744.0;

/// Eight numbers.
pub(crate) trait Lanes: Copy {
    /// The same number in all lanes.
    fn splat(x: f64) -> Self;
    /// From memory.
    fn load(from: &[f64; LANES]) -> Self;
    /// To memory.
    fn store(self, to: &mut [f64; LANES]);
    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product, rounded.
    fn mul(self, other: Self) -> Self;
    /// The whole number nearest to x·y, |x·y| < 2^51; within ½ + 2^-52·|x·y|.
    fn nearest_product(self, y: Self) -> Self;
    /// x − q·p, of whole numbers, where q·p has at most 53 bits.
    fn minus_product(self, q: Self, p: Self) -> Self;
    /// x·y − q·p, of whole numbers, exactly, if the result is below 2^52.
    fn rest(self, y: Self, q: Self, p: Self) -> Self;
    /// Rows become columns.
    fn transpose(rows: [Self; LANES]) -> [Self; LANES];
}

/// A loop over lanes. `run` and what it calls must be `#[inline(always)]`, so that it is compiled anew for
/// each kind, and lanes must not pass through closures, which are not.
pub(crate) trait Vectorised {
    /// What the loop returns.
    type Output;
    /// The loop.
    fn run<L: Lanes>(self) -> Self::Output;
}

/// Runs a loop with the best lanes of this machine.
#[inline]
pub(crate) fn vectorise<V: Vectorised>(work: V) -> V::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
        {
            // SAFETY: the instructions were found just now.
            return unsafe { x86::with_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: as above.
            return unsafe { x86::with_avx2(work) };
        }
    }
    work.run::<Plain>()
}

/// The same loop with each kind of lanes that this machine has.
#[cfg(test)]
pub(crate) fn in_all_ways<V: Vectorised + Clone>(work: &V) -> Vec<V::Output> {
    let mut results = vec![work.clone().run::<Plain>()];
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the instructions were found just now.
        results.push(unsafe { x86::with_avx2(work.clone()) });
    }
    results.push(vectorise(work.clone()));
    results
}

/// Lanes without special instructions.
#[derive(Clone, Copy)]
struct Plain([f64; LANES]);

impl Plain {
    #[inline(always)]
    fn each(f: impl Fn(usize) -> f64) -> Self {
        Self(std::array::from_fn(f))
    }
}

impl Lanes for Plain {
    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self([x; LANES])
    }
    #[inline(always)]
    fn load(from: &[f64; LANES]) -> Self {
        Self(*from)
    }
    #[inline(always)]
    fn store(self, to: &mut [f64; LANES]) {
        *to = self.0;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::each(|i| self.0[i] + other.0[i])
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self::each(|i| self.0[i] - other.0[i])
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::each(|i| self.0[i] * other.0[i])
    }
    #[inline(always)]
    fn nearest_product(self, y: Self) -> Self {
        Self::each(|i| (self.0[i] * y.0[i] + ROUND) - ROUND)
    }
    #[inline(always)]
    fn minus_product(self, q: Self, p: Self) -> Self {
        Self::each(|i| self.0[i] - q.0[i] * p.0[i])
    }
    #[inline(always)]
    fn rest(self, y: Self, q: Self, p: Self) -> Self {
        Self::each(|i| rest(self.0[i], y.0[i], q.0[i], p.0[i]))
    }
    #[inline(always)]
    fn transpose(rows: [Self; LANES]) -> [Self; LANES] {
        std::array::from_fn(|k| Self::each(|i| rows[i].0[k]))
    }
}

/// x·y − q·p of whole numbers: the result is below 2^63, so the low 64 bits of both products suffice.
#[inline(always)]
pub(crate) fn rest(x: f64, y: f64, q: f64, p: f64) -> f64 {
    let product = (x as i64).wrapping_mul(y as i64);
    product.wrapping_sub((q as i64).wrapping_mul(p as i64)) as f64
}
