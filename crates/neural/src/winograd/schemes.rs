//! The constant matrices, and combinations of slices by them.

use std::marker::PhantomData;

use super::TAPS;
use crate::kernel::{Vectorised, fma, vectorise};

/// The matrices of a block of `M` outputs, from `N` inputs by `N` products.
pub(super) trait Scheme<const M: usize, const N: usize> {
    /// A.
    type Gather: Matrix<N, M>;
    /// B.
    type Spread: Matrix<N, N>;
    /// G.
    type Points: Matrix<TAPS, N>;
}

/// A constant matrix, from `I` to `J` values.
pub(super) trait Matrix<const I: usize, const J: usize> {
    const ENTRIES: [[f32; I]; J];
}

/// The transpose of a matrix.
pub(super) struct Turned<M>(PhantomData<M>);

impl<const I: usize, const J: usize, M: Matrix<I, J>> Matrix<J, I> for Turned<M> {
    const ENTRIES: [[f32; J]; I] = {
        let mut turned = [[0.0; J]; I];
        let mut place = 0;
        while place < I * J {
            turned[place % I][place / I] = M::ENTRIES[place / I][place % I];
            place += 1;
        }
        turned
    };
}

/// Two outputs: values at 0, 1, −1 and the highest coefficient.
pub(super) struct Two;
pub(super) struct GatherTwo;
pub(super) struct SpreadTwo;
pub(super) struct PointsTwo;

impl Matrix<4, 2> for GatherTwo {
    const ENTRIES: [[f32; 4]; 2] = [[1., 1., 1., 0.], [0., 1., -1., 1.]];
}
impl Matrix<4, 4> for SpreadTwo {
    const ENTRIES: [[f32; 4]; 4] =
        [[1., 0., -1., 0.], [0., 1., 1., 0.], [0., -1., 1., 0.], [0., -1., 0., 1.]];
}
impl Matrix<3, 4> for PointsTwo {
    const ENTRIES: [[f32; 3]; 4] =
        [[1., 0., 0.], [1. / 2., 1. / 2., 1. / 2.], [1. / 2., -1. / 2., 1. / 2.], [0., 0., 1.]];
}
impl Scheme<2, 4> for Two {
    type Gather = GatherTwo;
    type Spread = SpreadTwo;
    type Points = PointsTwo;
}

/// Three outputs: values at 0, 1, −1, 2 and the highest coefficient.
pub(super) struct Three;
pub(super) struct GatherThree;
pub(super) struct SpreadThree;
pub(super) struct PointsThree;

impl Matrix<5, 3> for GatherThree {
    const ENTRIES: [[f32; 5]; 3] =
        [[1., 1., 1., 1., 0.], [0., 1., -1., 2., 0.], [0., 1., 1., 4., 1.]];
}
impl Matrix<5, 5> for SpreadThree {
    const ENTRIES: [[f32; 5]; 5] = [
        [2., -1., -2., 1., 0.],
        [0., 2., 1., -1., 0.],
        [0., -2., 3., -1., 0.],
        [0., -1., 0., 1., 0.],
        [0., 2., -1., -2., 1.],
    ];
}
impl Matrix<3, 5> for PointsThree {
    const ENTRIES: [[f32; 3]; 5] = [
        [1. / 2., 0., 0.],
        [1. / 2., 1. / 2., 1. / 2.],
        [1. / 6., -1. / 6., 1. / 6.],
        [1. / 6., 2. / 6., 4. / 6.],
        [0., 0., 1.],
    ];
}
impl Scheme<3, 5> for Three {
    type Gather = GatherThree;
    type Spread = SpreadThree;
    type Points = PointsThree;
}

/// How the j-th combination is stored. `put` must be `#[inline(always)]`.
pub(super) trait Put {
    fn put(j: usize, old: f32, new: f32) -> f32;
}
pub(super) struct Write;
pub(super) struct Relu;
pub(super) struct Add;
/// To the first two steps, which the block before has written, the sum is added.
pub(super) struct AddOverlap;

impl Put for Write {
    #[inline(always)]
    fn put(_j: usize, _old: f32, new: f32) -> f32 {
        new
    }
}
impl Put for Relu {
    #[inline(always)]
    fn put(_j: usize, _old: f32, new: f32) -> f32 {
        // Keeps NaN, which `max` would hide.
        if new < 0.0 { 0.0 } else { new }
    }
}
impl Put for Add {
    #[inline(always)]
    fn put(_j: usize, old: f32, new: f32) -> f32 {
        old + new
    }
}

impl Put for AddOverlap {
    #[inline(always)]
    fn put(j: usize, old: f32, new: f32) -> f32 {
        if j < TAPS - 1 { old + new } else { new }
    }
}

/// `to_j = Σ_i K_ji·from_i`, value by value.
pub(super) fn combine<K: Matrix<I, J>, P: Put, const I: usize, const J: usize>(
    from: [&[f32]; I],
    to: [&mut [f32]; J],
) {
    vectorise(Combine::<K, P, I, J> { from, to, kind: PhantomData });
}

struct Combine<'a, K, P, const I: usize, const J: usize> {
    from: [&'a [f32]; I],
    to: [&'a mut [f32]; J],
    kind: PhantomData<(K, P)>,
}

impl<K: Matrix<I, J>, P: Put, const I: usize, const J: usize> Vectorised
    for Combine<'_, K, P, I, J>
{
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Combine { from, mut to, .. } = self;
        let len = to.first().map_or(0, |to| to.len());
        let whole = len / 16 * 16;
        // Plain loops of known length, and copies before anything is written: only so does the
        // compiler keep all blocks in registers. The black box keeps it from making vectors of
        // several blocks' values instead.
        for block in 0..whole / 16 {
            let block = std::hint::black_box(block);
            let mut values = [[0.0f32; 16]; I];
            for i in 0..I {
                values[i] = from[i].as_chunks::<16>().0[block];
            }
            for j in 0..J {
                let to = &mut to[j].as_chunks_mut::<16>().0[block];
                let mut sum = [0.0f32; 16];
                for (i, values) in values.iter().enumerate() {
                    let factor = K::ENTRIES[j][i];
                    if factor != 0.0 {
                        for l in 0..16 {
                            sum[l] = fma::<FUSED>(factor, values[l], sum[l]);
                        }
                    }
                }
                let mut put = *to;
                for l in 0..16 {
                    put[l] = P::put(j, put[l], sum[l]);
                }
                *to = put;
            }
        }
        for place in whole..len {
            for (j, (to, factors)) in to.iter_mut().zip(K::ENTRIES).enumerate() {
                let terms = factors.into_iter().zip(from);
                let sum = terms.fold(0.0, |sum, (f, from)| fma::<FUSED>(f, from[place], sum));
                to[place] = P::put(j, to[place], sum);
            }
        }
    }
}
