//! The kernels for AVX-512 and AVX2; the module above says why they are sound.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{Ends, Product, Vectorised};
use crate::gemm::Start;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) fn vectorise_avx512<V: Vectorised>(work: V) -> V::Output {
    work.run::<true>()
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn vectorise_avx2<V: Vectorised>(work: V) -> V::Output {
    work.run::<true>()
}

/// # Safety
/// All indices that `product` makes must lie inside the slices.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) unsafe fn multiply_avx512(
    product: &Product,
    a: &[f32],
    b: &[f32],
    ends: Ends<'_>,
    c: &mut [f32],
) {
    let product = *product;
    let (start, bias) = begin(ends.start);
    let relu = ends.relu;
    let most_rows = 12;
    let mut column = 0;
    while column < product.columns {
        let width = (product.columns - column).min(32);
        let (vectors, last) = if width > 16 { (2, width - 16) } else { (1, width) };
        let edge = Edge512(if last == 16 { 0xffff } else { (1u16 << last) - 1 });
        for (row, rows) in even_tiles(product.rows, most_rows) {
            // SAFETY: offsets of the tile's first element, inside the slices by the contract.
            let (a, b, c, bias) = unsafe {
                (
                    a.as_ptr().wrapping_add(row * product.a_row),
                    b.as_ptr().wrapping_add(column),
                    c.as_mut_ptr().add(row * product.c_row + column),
                    if start == Begin::Row { bias.add(column) } else { bias },
                )
            };
            macro_rules! tiles {
                ($($n:literal)*) => {
                    match (rows, vectors) {
                        // SAFETY: the tile lies inside the product, by the contract.
                        $(($n, 1) => unsafe {
                            tile::<__m512, Edge512, $n, 1>(&product, a, b, (start, bias, relu), c, edge)
                        },
                        ($n, _) => unsafe {
                            tile::<__m512, Edge512, $n, 2>(&product, a, b, (start, bias, relu), c, edge)
                        },)*
                        _ => {}
                    }
                };
            }
            tiles!(1 2 3 4 5 6 7 8 9 10 11 12);
        }
        column += width;
    }
}

/// # Safety
/// All indices that `product` makes must lie inside the slices.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn multiply_avx2(
    product: &Product,
    a: &[f32],
    b: &[f32],
    ends: Ends<'_>,
    c: &mut [f32],
) {
    let product = *product;
    let (start, bias) = begin(ends.start);
    let relu = ends.relu;
    let most_rows = 6;
    let mut column = 0;
    while column < product.columns {
        let width = (product.columns - column).min(16);
        let edge = Edge256(width as i32);
        for (row, rows) in even_tiles(product.rows, most_rows) {
            // SAFETY: offsets of the tile's first element, inside the slices by the contract.
            let (a, b, c, bias) = unsafe {
                (
                    a.as_ptr().wrapping_add(row * product.a_row),
                    b.as_ptr().wrapping_add(column),
                    c.as_mut_ptr().add(row * product.c_row + column),
                    if start == Begin::Row { bias.add(column) } else { bias },
                )
            };
            macro_rules! tiles {
                ($($n:literal)*) => {
                    match rows {
                        // SAFETY: the tile lies inside the product, by the contract.
                        $($n => unsafe {
                            tile::<Pair, Edge256, $n, 1>(&product, a, b, (start, bias, relu), c, edge)
                        },)*
                        _ => {}
                    }
                };
            }
            tiles!(1 2 3 4 5 6);
        }
        column += width;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    Zero,
    Keep,
    Row,
}

fn begin(start: Start<'_>) -> (Begin, *const f32) {
    match start {
        Start::Zero => (Begin::Zero, std::ptr::null()),
        Start::Keep => (Begin::Keep, std::ptr::null()),
        Start::Row(row) => (Begin::Row, row.as_ptr()),
    }
}

/// Divides rows into tiles of nearly equal height: 17 as 9 + 8, not as 12 + 5.
#[inline(always)]
fn even_tiles(rows: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let tiles = rows.div_ceil(most).max(1);
    let (height, higher) = (rows / tiles, rows % tiles);
    (0..tiles).map(move |i| (i * height + i.min(higher), height + usize::from(i < higher)))
}

/// The same number, of which the compiler no longer knows where it comes from.
#[inline(always)]
fn opaque(mut value: usize) -> usize {
    // SAFETY: an empty program that keeps its operand.
    unsafe {
        asm!("/* {0} */", inout(reg) value, options(pure, nomem, nostack, preserves_flags));
    }
    value
}

/// Sixteen lanes of f32.
trait Lanes<Edge>: Copy {
    fn zero() -> Self;
    unsafe fn splat(from: *const f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn load_edge(from: *const f32, edge: Edge) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn store_edge(self, to: *mut f32, edge: Edge);
    fn fma(self, b: Self, c: Self) -> Self;
    fn add(self, b: Self) -> Self;
    /// `max(0, x)`, which keeps NaN.
    fn relu(self) -> Self;
}

/// One tile: `R` rows of `V` vectors, the last of them masked by `edge`.
#[inline(always)]
unsafe fn tile<L: Lanes<E>, E: Copy, const R: usize, const V: usize>(
    product: &Product,
    a: *const f32,
    b: *const f32,
    (start, bias, relu): (Begin, *const f32, bool),
    c: *mut f32,
    edge: E,
) {
    // SAFETY: the caller gives a tile that lies inside all three operands, columns past the
    // last one excepted, and those are masked.
    unsafe {
        let read = |from: *const f32| {
            let mut vectors = [L::zero(); V];
            for (v, vector) in vectors.iter_mut().enumerate() {
                *vector = if v + 1 == V {
                    L::load_edge(from.add(16 * v), edge)
                } else {
                    L::load(from.add(16 * v))
                };
            }
            vectors
        };
        let mut sums = [[L::zero(); V]; R];
        for s in 0..product.segments {
            let mut b = b.wrapping_add(s * product.b_segment);
            // Every third row has a pointer of its own; the two after it are reached by an
            // offset. Left to itself the compiler makes one row's address from the last one's,
            // a chain of additions as long as the multiplications.
            let (one, two) = (opaque(product.a_row), opaque(2 * product.a_row));
            let offsets = [0, one, two];
            let mut bases = [a; 4];
            for (q, base) in bases.iter_mut().enumerate() {
                let offset = s * product.a_segment + 3 * q * product.a_row;
                *base = a.wrapping_add(opaque(offset));
            }
            for _ in 0..product.depth {
                let columns = read(b);
                for r in 0..R {
                    let value = L::splat(bases[r / 3].wrapping_add(offsets[r % 3]));
                    for v in 0..V {
                        sums[r][v] = value.fma(columns[v], sums[r][v]);
                    }
                }
                for base in &mut bases {
                    *base = base.wrapping_add(product.a_depth);
                }
                b = b.wrapping_add(product.b_row);
            }
        }
        let first = if start == Begin::Row { read(bias) } else { [L::zero(); V] };
        for (r, sums) in sums.iter().enumerate() {
            let to = c.add(r * product.c_row);
            let first = if start == Begin::Keep { read(to) } else { first };
            for v in 0..V {
                let mut sum = sums[v].add(first[v]);
                if relu {
                    sum = sum.relu();
                }
                if v + 1 == V {
                    sum.store_edge(to.add(16 * v), edge);
                } else {
                    sum.store(to.add(16 * v));
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Edge512(__mmask16);

impl Lanes<Edge512> for __m512 {
    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: reached only from `multiply_avx512`, as are all functions of this impl.
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        unsafe { _mm512_set1_ps(*from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_edge(from: *const f32, edge: Edge512) -> Self {
        unsafe { _mm512_maskz_loadu_ps(edge.0, from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn store_edge(self, to: *mut f32, edge: Edge512) {
        unsafe { _mm512_mask_storeu_ps(to, edge.0, self) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        unsafe { _mm512_fmadd_ps(self, b, c) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        unsafe { _mm512_add_ps(self, b) }
    }
    #[inline(always)]
    fn relu(self) -> Self {
        // Of a NaN and a number, the instruction returns its second operand.
        unsafe { _mm512_max_ps(_mm512_setzero_ps(), self) }
    }
}

/// Sixteen lanes as two AVX registers.
#[derive(Clone, Copy)]
struct Pair(__m256, __m256);

/// How many of the sixteen lanes are columns.
#[derive(Clone, Copy)]
struct Edge256(i32);

impl Edge256 {
    #[inline(always)]
    unsafe fn masks(self) -> (__m256i, __m256i) {
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            (
                _mm256_cmpgt_epi32(_mm256_set1_epi32(self.0), lanes),
                _mm256_cmpgt_epi32(_mm256_set1_epi32(self.0 - 8), lanes),
            )
        }
    }
}

impl Lanes<Edge256> for Pair {
    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: reached only from `multiply_avx2`, as are all functions of this impl.
        unsafe { Pair(_mm256_setzero_ps(), _mm256_setzero_ps()) }
    }
    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        unsafe {
            let value = _mm256_broadcast_ss(&*from);
            Pair(value, value)
        }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Pair(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }
    #[inline(always)]
    unsafe fn load_edge(from: *const f32, edge: Edge256) -> Self {
        unsafe {
            if edge.0 == 16 {
                return Self::load(from);
            }
            let (low, high) = edge.masks();
            Pair(_mm256_maskload_ps(from, low), _mm256_maskload_ps(from.wrapping_add(8), high))
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }
    #[inline(always)]
    unsafe fn store_edge(self, to: *mut f32, edge: Edge256) {
        unsafe {
            if edge.0 == 16 {
                return self.store(to);
            }
            let (low, high) = edge.masks();
            _mm256_maskstore_ps(to, low, self.0);
            _mm256_maskstore_ps(to.wrapping_add(8), high, self.1);
        }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        unsafe { Pair(_mm256_fmadd_ps(self.0, b.0, c.0), _mm256_fmadd_ps(self.1, b.1, c.1)) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        unsafe { Pair(_mm256_add_ps(self.0, b.0), _mm256_add_ps(self.1, b.1)) }
    }
    #[inline(always)]
    fn relu(self) -> Self {
        unsafe {
            let zero = _mm256_setzero_ps();
            Pair(_mm256_max_ps(zero, self.0), _mm256_max_ps(zero, self.1))
        }
    }
}
