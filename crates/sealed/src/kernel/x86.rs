//! Lanes of AVX-512 and of AVX2; see the parent module for why the calls are sound.

use std::arch::x86_64::*;

use super::{LANES, Lanes, ROUND, Vectorised};

/// # Safety
/// The machine must have AVX-512F, AVX-512DQ, AVX2 and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
pub(super) fn with_avx512<V: Vectorised>(work: V) -> V::Output {
    work.run::<Avx512>()
}

/// # Safety
/// The machine must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) fn with_avx2<V: Vectorised>(work: V) -> V::Output {
    work.run::<Avx2>()
}

#[derive(Clone, Copy)]
struct Avx512(__m512d);

// SAFETY, of all blocks below: the instructions were found before the loop was started.
impl Lanes for Avx512 {
    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self(unsafe { _mm512_set1_pd(x) })
    }
    #[inline(always)]
    fn load(from: &[f64; LANES]) -> Self {
        Self(unsafe { _mm512_loadu_pd(from.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, to: &mut [f64; LANES]) {
        unsafe { _mm512_storeu_pd(to.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(unsafe { _mm512_add_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(unsafe { _mm512_sub_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(unsafe { _mm512_mul_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn nearest_product(self, y: Self) -> Self {
        let round = Self::splat(ROUND);
        Self(unsafe { _mm512_fmadd_pd(self.0, y.0, round.0) }).sub(round)
    }
    #[inline(always)]
    fn minus_product(self, q: Self, p: Self) -> Self {
        Self(unsafe { _mm512_fnmadd_pd(q.0, p.0, self.0) })
    }
    #[inline(always)]
    fn rest(self, y: Self, q: Self, p: Self) -> Self {
        let h = self.mul(y);
        let l = Self(unsafe { _mm512_fmsub_pd(self.0, y.0, h.0) });
        h.minus_product(q, p).add(l)
    }
    #[inline(always)]
    fn transpose(rows: [Self; LANES]) -> [Self; LANES] {
        let [a, b, c, d, e, f, g, h] = rows;
        // Pairs of rows, then pairs of pairs, then halves. No closures: they would not be compiled for
        // these instructions.
        let (ab0, ab1) = (a.interleave_even(b), a.interleave_odd(b));
        let (cd0, cd1) = (c.interleave_even(d), c.interleave_odd(d));
        let (ef0, ef1) = (e.interleave_even(f), e.interleave_odd(f));
        let (gh0, gh1) = (g.interleave_even(h), g.interleave_odd(h));
        let (top0, top2) = (ab0.pairs_even(cd0), ab0.pairs_odd(cd0));
        let (top1, top3) = (ab1.pairs_even(cd1), ab1.pairs_odd(cd1));
        let (low0, low2) = (ef0.pairs_even(gh0), ef0.pairs_odd(gh0));
        let (low1, low3) = (ef1.pairs_even(gh1), ef1.pairs_odd(gh1));
        [
            top0.pairs_even(low0),
            top1.pairs_even(low1),
            top2.pairs_even(low2),
            top3.pairs_even(low3),
            top0.pairs_odd(low0),
            top1.pairs_odd(low1),
            top2.pairs_odd(low2),
            top3.pairs_odd(low3),
        ]
    }
}

impl Avx512 {
    #[inline(always)]
    fn interleave_even(self, other: Self) -> Self {
        Self(unsafe { _mm512_unpacklo_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn interleave_odd(self, other: Self) -> Self {
        Self(unsafe { _mm512_unpackhi_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn pairs_even(self, other: Self) -> Self {
        Self(unsafe { _mm512_shuffle_f64x2::<0b10_00_10_00>(self.0, other.0) })
    }
    #[inline(always)]
    fn pairs_odd(self, other: Self) -> Self {
        Self(unsafe { _mm512_shuffle_f64x2::<0b11_01_11_01>(self.0, other.0) })
    }
}

#[derive(Clone, Copy)]
struct Avx2(__m256d, __m256d);

// SAFETY, of all blocks below: the instructions were found before the loop was started.
impl Lanes for Avx2 {
    #[inline(always)]
    fn splat(x: f64) -> Self {
        let x = unsafe { _mm256_set1_pd(x) };
        Self(x, x)
    }
    #[inline(always)]
    fn load(from: &[f64; LANES]) -> Self {
        let from = from.as_ptr();
        unsafe { Self(_mm256_loadu_pd(from), _mm256_loadu_pd(from.add(4))) }
    }
    #[inline(always)]
    fn store(self, to: &mut [f64; LANES]) {
        let to = to.as_mut_ptr();
        unsafe {
            _mm256_storeu_pd(to, self.0);
            _mm256_storeu_pd(to.add(4), self.1);
        }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        unsafe { Self(_mm256_add_pd(self.0, other.0), _mm256_add_pd(self.1, other.1)) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        unsafe { Self(_mm256_sub_pd(self.0, other.0), _mm256_sub_pd(self.1, other.1)) }
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        unsafe { Self(_mm256_mul_pd(self.0, other.0), _mm256_mul_pd(self.1, other.1)) }
    }
    #[inline(always)]
    fn nearest_product(self, y: Self) -> Self {
        let round = Self::splat(ROUND);
        let sum = unsafe {
            Self(_mm256_fmadd_pd(self.0, y.0, round.0), _mm256_fmadd_pd(self.1, y.1, round.1))
        };
        sum.sub(round)
    }
    #[inline(always)]
    fn minus_product(self, q: Self, p: Self) -> Self {
        unsafe { Self(_mm256_fnmadd_pd(q.0, p.0, self.0), _mm256_fnmadd_pd(q.1, p.1, self.1)) }
    }
    #[inline(always)]
    fn rest(self, y: Self, q: Self, p: Self) -> Self {
        let h = self.mul(y);
        let l =
            unsafe { Self(_mm256_fmsub_pd(self.0, y.0, h.0), _mm256_fmsub_pd(self.1, y.1, h.1)) };
        h.minus_product(q, p).add(l)
    }
    #[inline(always)]
    fn transpose(rows: [Self; LANES]) -> [Self; LANES] {
        let [a, b, c, d, e, f, g, h] = rows;
        let top_left = transpose_four([a.0, b.0, c.0, d.0]);
        let top_right = transpose_four([a.1, b.1, c.1, d.1]);
        let bottom_left = transpose_four([e.0, f.0, g.0, h.0]);
        let bottom_right = transpose_four([e.1, f.1, g.1, h.1]);
        [
            Self(top_left[0], bottom_left[0]),
            Self(top_left[1], bottom_left[1]),
            Self(top_left[2], bottom_left[2]),
            Self(top_left[3], bottom_left[3]),
            Self(top_right[0], bottom_right[0]),
            Self(top_right[1], bottom_right[1]),
            Self(top_right[2], bottom_right[2]),
            Self(top_right[3], bottom_right[3]),
        ]
    }
}

#[inline(always)]
fn transpose_four(r: [__m256d; 4]) -> [__m256d; 4] {
    // SAFETY: as above.
    unsafe {
        let (a, b) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
        let (c, d) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
        [
            _mm256_permute2f128_pd::<0x20>(a, c),
            _mm256_permute2f128_pd::<0x20>(b, d),
            _mm256_permute2f128_pd::<0x31>(a, c),
            _mm256_permute2f128_pd::<0x31>(b, d),
        ]
    }
}
