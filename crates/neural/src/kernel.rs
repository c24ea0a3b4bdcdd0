//! The one module with unsafe code: SIMD by run-time dispatch (`x86.rs` has the kernels).
//!
//! It offers two things to the rest of the crate, both safe to call:
//!
//! - [`multiply`]: the register-tiled matrix product behind [`Product`];
//! - [`vectorise`]: runs a plain loop compiled for the best instruction set of this machine.
//!
//! # Why this is sound
//!
//! 1. Functions compiled for AVX-512 or AVX2 are called only after [`level`] has found these
//!    instructions with `is_x86_feature_detected!`.
//! 2. [`multiply`] is reached only through [`Product::run`], which checks before the call that the
//!    largest index of each operand, from all its strides, lies inside its slice. Every pointer
//!    below is `base + index` for an index that this check covers, or is never dereferenced; lanes
//!    past the last column are masked in loads and stores.
//! 3. `c` is a `&mut` slice, so it overlaps neither `a` nor `b`.
//!
//! Each element of the product is one chain of fused multiply-adds in the order of segments and
//! depth, whatever the tile it falls in: AVX-512 and AVX2 give the same bits.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::gemm::{Ends, Product};

/// A plain loop that gains from being compiled for wider vectors.
///
/// `run` must be `#[inline(always)]`, so that it is compiled anew inside each dispatched function.
pub(crate) trait Vectorised {
    /// What the loop returns.
    type Output;
    /// The loop. `FUSED`: this machine has fused multiply-add, see [`fma`].
    fn run<const FUSED: bool>(self) -> Self::Output;
}

/// `a·b + c`, fused where that is one instruction.
#[inline(always)]
pub(crate) fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Instruction sets that we compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// The best level of this machine. The standard library keeps the answer, so this is one load.
#[inline]
pub(crate) fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("fma")
        {
            return Level::Avx512;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Level::Avx2;
        }
    }
    Level::Portable
}

/// Runs a loop compiled for the best instruction set of this machine.
#[inline]
pub(crate) fn vectorise<V: Vectorised>(work: V) -> V::Output {
    match level() {
        // SAFETY: `level` found the instructions.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::vectorise_avx512(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::vectorise_avx2(work) },
        Level::Portable => work.run::<false>(),
    }
}

/// The product at a given level; `false` if this level has no kernel of its own.
///
/// The caller ([`Product::run`]) has checked the operands against the strides.
#[inline]
pub(crate) fn multiply(
    level: Level,
    product: &Product,
    a: &[f32],
    b: &[f32],
    ends: Ends<'_>,
    c: &mut [f32],
) -> bool {
    match level {
        // SAFETY: `level` found the instructions; `Product::run` checked all indices.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::multiply_avx512(product, a, b, ends, c) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::multiply_avx2(product, a, b, ends, c) },
        Level::Portable => return false,
    }
    true
}
