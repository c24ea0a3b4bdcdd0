//! The number-theoretic transform of polynomials modulo X^8192 + 1 and a prime.
//!
//! ```text
//! forward:  x_0 … x_8191  ►  values at the 8192 odd powers of ψ      ψ^8192 = −1
//! ```
//!
//! Products of polynomials become products of values. Ten layers of butterflies go over lanes of eight
//! neighbours; the last three, whose partners are neighbours themselves, follow a transposition of each
//! 8 × 8 block, which is not undone: the value at place 64·b + 8·k + l is that of the usual (bit-reversed)
//! place 64·b + 8·l + k. All parties keep this order, and the encodings fix it.
//!
//! How values grow: a butterfly adds at most 0.76 p (see [`residue`](super::residue)); factors are at most
//! p/2 and what they multiply must stay below 3.9 p. Four layers after a reduction give 3.54 p, the fifth may
//! still multiply that, and 4.3 p < 2^53. Backwards, two layers make at most 3.04 p of what is within 0.76 p, and
//! what was multiplied is within 0.76 p again: sums are reduced after every second layer.

mod roots;

use roots::{Narrow, Roots};

use super::residue::{Factor, LaneModulus, Modulus};
use crate::kernel::{LANES, Lanes, Vectorised, vectorise};

/// Coefficients of a polynomial.
pub(crate) const DEGREE: usize = 8192;
/// Blocks of 8 × 8 neighbours.
const BLOCKS: usize = DEGREE / (LANES * LANES);

/// Tables of one prime.
#[derive(Debug)]
pub(crate) struct Transform {
    modulus: Modulus,
    forward: Roots,
    inverse: Roots,
    /// 1/8192.
    shrink: Factor,
}

/// A root in each lane, with its quotient by the modulus.
#[derive(Clone, Copy)]
struct Root<L>(L, L);

impl Transform {
    /// Tables for a prime ≡ 1 modulo 16384, with a primitive 16384th root ψ of unity.
    pub(crate) fn new(prime: u64, psi: u64) -> Self {
        let modulus = Modulus::new(prime);
        Self {
            modulus,
            forward: Roots::new(modulus, psi),
            inverse: Roots::new(modulus, modulus.inverse_of(psi)),
            shrink: modulus.factor(modulus.inverse_of(DEGREE as u64)),
        }
    }

    /// The modulus of the tables.
    pub(crate) fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// From coefficients to values; balanced in, balanced out.
    pub(crate) fn forward(&self, x: &mut [f64; DEGREE]) {
        vectorise(Forward(self, x));
    }

    /// From values to coefficients; balanced in, balanced out.
    pub(crate) fn inverse(&self, x: &mut [f64; DEGREE]) {
        vectorise(Inverse(self, x));
    }

    /// [`Transform::forward`] inside a loop that is dispatched already.
    #[inline(always)]
    pub(crate) fn forward_within<L: Lanes>(&self, x: &mut [f64; DEGREE]) {
        let p = self.modulus.lanes::<L>();
        let (first, second) = self.forward.layers(1, 0, 1);
        pair_of_layers::<L, false>(p, first, second, x);
        self.forward_after_two::<L, _>(x, &mut Stored);
    }

    /// The values of `from`, block by block, to a sink; `x` is scratch memory.
    #[inline(always)]
    pub(crate) fn forward_from<L: Lanes, S: Sink<L>>(
        &self,
        from: &[f64; DEGREE],
        x: &mut [f64; DEGREE],
        sink: &mut S,
    ) {
        let p = self.modulus.lanes::<L>();
        let (w, v) = (&self.forward.wide[1], &self.forward.wide[2..4]);
        let (w, v0, v1) = (Root::splat(*w), Root::splat(v[0]), Root::splat(v[1]));
        let from = from.as_chunks::<LANES>().0.as_chunks::<{ DEGREE / LANES / 4 }>().0;
        let x_lanes = x.as_chunks_mut::<LANES>().0.as_chunks_mut::<{ DEGREE / LANES / 4 }>().0;
        let ([a_from, b_from, c_from, d_from], [a_to, b_to, c_to, d_to]) = (from, x_lanes) else {
            return;
        };
        for i in 0..DEGREE / LANES / 4 {
            let (mut a, mut b) = (L::load(&a_from[i]), L::load(&b_from[i]));
            let (mut c, mut d) = (L::load(&c_from[i]), L::load(&d_from[i]));
            butterfly(p, w, &mut a, &mut c);
            butterfly(p, w, &mut b, &mut d);
            butterfly(p, v0, &mut a, &mut b);
            butterfly(p, v1, &mut c, &mut d);
            a.store(&mut a_to[i]);
            b.store(&mut b_to[i]);
            c.store(&mut c_to[i]);
            d.store(&mut d_to[i]);
        }
        self.forward_after_two::<L, S>(x, sink);
    }

    /// All layers but the first two. A quarter after the other: it fits the nearest cache.
    #[inline(always)]
    fn forward_after_two<L: Lanes, S: Sink<L>>(&self, x: &mut [f64; DEGREE], sink: &mut S) {
        let p = self.modulus.lanes::<L>();
        let roots = &self.forward;
        let narrow = roots.narrow.chunks_exact(BLOCKS / 4);
        for (quarter, (x, narrow)) in x.chunks_exact_mut(DEGREE / 4).zip(narrow).enumerate() {
            let (first, second) = roots.layers(4, quarter, 4);
            pair_of_layers::<L, true>(p, first, second, x);
            let (first, second) = roots.layers(16, quarter, 4);
            pair_of_layers::<L, false>(p, first, second, x);
            let (first, second) = roots.layers(64, quarter, 4);
            pair_of_layers::<L, true>(p, first, second, x);
            let (first, second) = roots.layers(256, quarter, 4);
            pair_of_layers::<L, false>(p, first, second, x);
            let blocks = x.as_chunks_mut::<LANES>().0.as_chunks_mut::<LANES>().0;
            for (i, (block, roots)) in blocks.iter_mut().zip(narrow).enumerate() {
                let roots = Root::<L>::load_all(roots);
                let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] =
                    L::transpose(load_block(block));
                butterfly(p, roots[0], &mut a, &mut e);
                butterfly(p, roots[0], &mut b, &mut f);
                butterfly(p, roots[0], &mut c, &mut g);
                butterfly(p, roots[0], &mut d, &mut h);
                butterfly(p, roots[1], &mut a, &mut c);
                butterfly(p, roots[1], &mut b, &mut d);
                butterfly(p, roots[2], &mut e, &mut g);
                butterfly(p, roots[2], &mut f, &mut h);
                butterfly(p, roots[3], &mut a, &mut b);
                butterfly(p, roots[4], &mut c, &mut d);
                butterfly(p, roots[5], &mut e, &mut f);
                butterfly(p, roots[6], &mut g, &mut h);
                let lanes = [
                    p.reduce(a),
                    p.reduce(b),
                    p.reduce(c),
                    p.reduce(d),
                    p.reduce(e),
                    p.reduce(f),
                    p.reduce(g),
                    p.reduce(h),
                ];
                sink.take(quarter * (BLOCKS / 4) + i, lanes, block);
            }
        }
    }

    #[inline(always)]
    fn inverse_within<L: Lanes>(&self, x: &mut [f64; DEGREE]) {
        let p = self.modulus.lanes::<L>();
        let roots = &self.inverse;
        let narrow = roots.narrow.chunks_exact(BLOCKS / 4);
        for (quarter, (x, narrow)) in x.chunks_exact_mut(DEGREE / 4).zip(narrow).enumerate() {
            let blocks = x.as_chunks_mut::<LANES>().0.as_chunks_mut::<LANES>().0;
            for (block, roots) in blocks.iter_mut().zip(narrow) {
                let roots = Root::<L>::load_all(roots);
                let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = load_block(block);
                unbutterfly(p, roots[3], &mut a, &mut b);
                unbutterfly(p, roots[4], &mut c, &mut d);
                unbutterfly(p, roots[5], &mut e, &mut f);
                unbutterfly(p, roots[6], &mut g, &mut h);
                unbutterfly(p, roots[1], &mut a, &mut c);
                unbutterfly(p, roots[1], &mut b, &mut d);
                unbutterfly(p, roots[2], &mut e, &mut g);
                unbutterfly(p, roots[2], &mut f, &mut h);
                (a, b, e, f) = (p.reduce(a), p.reduce(b), p.reduce(e), p.reduce(f));
                unbutterfly(p, roots[0], &mut a, &mut e);
                unbutterfly(p, roots[0], &mut b, &mut f);
                unbutterfly(p, roots[0], &mut c, &mut g);
                unbutterfly(p, roots[0], &mut d, &mut h);
                (a, b, c, d) = (p.reduce(a), p.reduce(b), p.reduce(c), p.reduce(d));
                for (out, lane) in block.iter_mut().zip(L::transpose([a, b, c, d, e, f, g, h])) {
                    lane.store(out);
                }
            }
            for groups in [256, 64, 16, 4] {
                let (first, second) = roots.layers(groups, quarter, 4);
                unpair_of_layers::<L, false>(p, first, second, self.shrink, x);
            }
        }
        let (first, second) = roots.layers(1, 0, 1);
        unpair_of_layers::<L, true>(p, first, second, self.shrink, x);
    }
}

/// What becomes of the values of a transform.
pub(crate) trait Sink<L: Lanes> {
    /// The values of the block with this number, balanced; `block` is where they would be stored.
    fn take(&mut self, number: usize, lanes: [L; LANES], block: &mut [[f64; LANES]; LANES]);
}

/// They stay where they are.
struct Stored;

impl<L: Lanes> Sink<L> for Stored {
    #[inline(always)]
    fn take(&mut self, _number: usize, lanes: [L; LANES], block: &mut [[f64; LANES]; LANES]) {
        for (out, lane) in block.iter_mut().zip(lanes) {
            lane.store(out);
        }
    }
}

struct Forward<'a>(&'a Transform, &'a mut [f64; DEGREE]);

impl Vectorised for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        self.0.forward_within::<L>(self.1);
    }
}

struct Inverse<'a>(&'a Transform, &'a mut [f64; DEGREE]);

impl Vectorised for Inverse<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        self.0.inverse_within::<L>(self.1);
    }
}

/// Two layers in one pass over memory, with the roots of each group's first and second layer.
#[inline(always)]
fn pair_of_layers<L: Lanes, const REDUCE: bool>(
    p: LaneModulus<L>,
    first: &[Factor],
    second: &[[Factor; 2]],
    x: &mut [f64],
) {
    let quarter = x.len() / (4 * first.len());
    for ((group, w), v) in x.chunks_exact_mut(4 * quarter).zip(first).zip(second) {
        let (w, v0, v1) = (Root::splat(*w), Root::splat(v[0]), Root::splat(v[1]));
        let (low, high) = group.split_at_mut(2 * quarter);
        let (a, b) = low.split_at_mut(quarter);
        let (c, d) = high.split_at_mut(quarter);
        let lanes = a.as_chunks_mut::<LANES>().0.iter_mut();
        let lanes = lanes.zip(b.as_chunks_mut::<LANES>().0);
        let lanes = lanes.zip(c.as_chunks_mut::<LANES>().0);
        for (((a_at, b_at), c_at), d_at) in lanes.zip(d.as_chunks_mut::<LANES>().0) {
            let (mut a, mut b, mut c, mut d) =
                (L::load(a_at), L::load(b_at), L::load(c_at), L::load(d_at));
            butterfly(p, w, &mut a, &mut c);
            butterfly(p, w, &mut b, &mut d);
            butterfly(p, v0, &mut a, &mut b);
            butterfly(p, v1, &mut c, &mut d);
            if REDUCE {
                (a, b, c, d) = (p.reduce(a), p.reduce(b), p.reduce(c), p.reduce(d));
            }
            a.store(a_at);
            b.store(b_at);
            c.store(c_at);
            d.store(d_at);
        }
    }
}

/// The opposite of [`pair_of_layers`]; the last of all divides by 8192.
#[inline(always)]
fn unpair_of_layers<L: Lanes, const LAST: bool>(
    p: LaneModulus<L>,
    first: &[Factor],
    second: &[[Factor; 2]],
    shrink: Factor,
    x: &mut [f64],
) {
    let quarter = x.len() / (4 * first.len());
    let Root(shrink, shrink_quotient) = Root::splat(shrink);
    for ((group, w), v) in x.chunks_exact_mut(4 * quarter).zip(first).zip(second) {
        let (w, v0, v1) = (Root::splat(*w), Root::splat(v[0]), Root::splat(v[1]));
        let (low, high) = group.split_at_mut(2 * quarter);
        let (a, b) = low.split_at_mut(quarter);
        let (c, d) = high.split_at_mut(quarter);
        let lanes = a.as_chunks_mut::<LANES>().0.iter_mut();
        let lanes = lanes.zip(b.as_chunks_mut::<LANES>().0);
        let lanes = lanes.zip(c.as_chunks_mut::<LANES>().0);
        for (((a_at, b_at), c_at), d_at) in lanes.zip(d.as_chunks_mut::<LANES>().0) {
            let (mut a, mut b, mut c, mut d) =
                (L::load(a_at), L::load(b_at), L::load(c_at), L::load(d_at));
            unbutterfly(p, v0, &mut a, &mut b);
            unbutterfly(p, v1, &mut c, &mut d);
            unbutterfly(p, w, &mut a, &mut c);
            unbutterfly(p, w, &mut b, &mut d);
            if LAST {
                a = p.multiply_by(a, shrink, shrink_quotient);
                b = p.multiply_by(b, shrink, shrink_quotient);
                c = p.multiply_by(c, shrink, shrink_quotient);
                d = p.multiply_by(d, shrink, shrink_quotient);
                (c, d) = (p.reduce(c), p.reduce(d));
            }
            p.reduce(a).store(a_at);
            p.reduce(b).store(b_at);
            c.store(c_at);
            d.store(d_at);
        }
    }
}

#[inline(always)]
fn butterfly<L: Lanes>(p: LaneModulus<L>, root: Root<L>, a: &mut L, b: &mut L) {
    let product = p.multiply_by(*b, root.0, root.1);
    (*a, *b) = (a.add(product), a.sub(product));
}

#[inline(always)]
fn unbutterfly<L: Lanes>(p: LaneModulus<L>, root: Root<L>, a: &mut L, b: &mut L) {
    let (sum, difference) = (a.add(*b), a.sub(*b));
    *a = sum;
    *b = p.multiply_by(difference, root.0, root.1);
}

impl<L: Lanes> Root<L> {
    #[inline(always)]
    fn splat(factor: Factor) -> Self {
        Self(L::splat(factor.value), L::splat(factor.quotient))
    }

    #[inline(always)]
    fn load(narrow: &Narrow) -> Self {
        Self(L::load(&narrow.values), L::load(&narrow.quotients))
    }

    #[inline(always)]
    fn load_all([a, b, c, d, e, f, g]: &[Narrow; 7]) -> [Self; 7] {
        [
            Self::load(a),
            Self::load(b),
            Self::load(c),
            Self::load(d),
            Self::load(e),
            Self::load(f),
            Self::load(g),
        ]
    }
}

#[inline(always)]
fn load_block<L: Lanes>([a, b, c, d, e, f, g, h]: &[[f64; LANES]; LANES]) -> [L; LANES] {
    [L::load(a), L::load(b), L::load(c), L::load(d), L::load(e), L::load(f), L::load(g), L::load(h)]
}
