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
//! still multiply that, and 4.3 p < 2^53.

use super::residue::{Factor, LaneModulus, Modulus};
use crate::kernel::{LANES, Lanes, Vectorised, vectorise};

/// Coefficients of a polynomial.
pub(crate) const DEGREE: usize = 8192;
const BLOCK: usize = LANES * LANES;

/// Tables of one prime.
#[derive(Debug)]
pub(crate) struct Transform {
    modulus: Modulus,
    forward: Roots,
    inverse: Roots,
    /// 1/8192.
    shrink: Factor,
}

/// Roots of unity in the order in which the layers use them.
#[derive(Debug)]
struct Roots {
    /// Group i of the layer with g groups uses `wide[g + i]`.
    wide: Vec<Factor>,
    /// For each block of 64 the 1 + 2 + 4 lanes of the last three layers.
    narrow: Vec<[Narrow; 7]>,
}

#[derive(Clone, Copy, Debug)]
struct Narrow {
    values: [f64; LANES],
    quotients: [f64; LANES],
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
        let roots = &self.forward;
        pair_of_layers::<L, false>(p, &roots.wide, 1, x);
        pair_of_layers::<L, true>(p, &roots.wide, 4, x);
        pair_of_layers::<L, false>(p, &roots.wide, 16, x);
        pair_of_layers::<L, true>(p, &roots.wide, 64, x);
        pair_of_layers::<L, false>(p, &roots.wide, 256, x);
        let blocks = x.as_chunks_mut::<LANES>().0.as_chunks_mut::<LANES>().0;
        for (block, roots) in blocks.iter_mut().zip(&roots.narrow) {
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
            for (out, lane) in block.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                p.reduce(lane).store(out);
            }
        }
    }

    #[inline(always)]
    fn inverse_within<L: Lanes>(&self, x: &mut [f64; DEGREE]) {
        let p = self.modulus.lanes::<L>();
        let roots = &self.inverse;
        let blocks = x.as_chunks_mut::<LANES>().0.as_chunks_mut::<LANES>().0;
        for (block, roots) in blocks.iter_mut().zip(&roots.narrow) {
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
            unbutterfly(p, roots[0], &mut a, &mut e);
            unbutterfly(p, roots[0], &mut b, &mut f);
            unbutterfly(p, roots[0], &mut c, &mut g);
            unbutterfly(p, roots[0], &mut d, &mut h);
            for (out, lane) in block.iter_mut().zip(L::transpose([a, b, c, d, e, f, g, h])) {
                lane.store(out);
            }
        }
        let mut groups = DEGREE / (2 * LANES);
        while groups >= 1 {
            let half = DEGREE / (2 * groups);
            for (group, root) in x.chunks_exact_mut(2 * half).zip(&roots.wide[groups..]) {
                let (low, high) = group.split_at_mut(half);
                let root = Root::splat(*root);
                let lanes = low.as_chunks_mut::<LANES>().0.iter_mut();
                for (low, high) in lanes.zip(high.as_chunks_mut::<LANES>().0) {
                    let (mut a, mut b) = (L::load(low), L::load(high));
                    unbutterfly(p, root, &mut a, &mut b);
                    a.store(low);
                    b.store(high);
                }
            }
            groups /= 2;
        }
        let Root(shrink, quotient) = Root::splat(self.shrink);
        for x in x.as_chunks_mut::<LANES>().0 {
            p.reduce(p.multiply_by(L::load(x), shrink, quotient)).store(x);
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

/// The layers with `groups` and with 2·`groups` groups, in one pass over memory.
#[inline(always)]
fn pair_of_layers<L: Lanes, const REDUCE: bool>(
    p: LaneModulus<L>,
    roots: &[Factor],
    groups: usize,
    x: &mut [f64; DEGREE],
) {
    let quarter = DEGREE / (4 * groups);
    let first = &roots[groups..2 * groups];
    let second = roots[2 * groups..4 * groups].as_chunks::<2>().0;
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

#[inline(always)]
fn butterfly<L: Lanes>(p: LaneModulus<L>, root: Root<L>, a: &mut L, b: &mut L) {
    let product = p.multiply_by(*b, root.0, root.1);
    (*a, *b) = (a.add(product), a.sub(product));
}

#[inline(always)]
fn unbutterfly<L: Lanes>(p: LaneModulus<L>, root: Root<L>, a: &mut L, b: &mut L) {
    let (sum, difference) = (a.add(*b), a.sub(*b));
    *a = p.reduce(sum);
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

impl Roots {
    fn new(modulus: Modulus, psi: u64) -> Self {
        let p = u128::from(modulus.get());
        let mut powers = vec![1u64; DEGREE];
        for i in 1..DEGREE {
            powers[i] = (u128::from(powers[i - 1]) * u128::from(psi) % p) as u64;
        }
        let bits = DEGREE.trailing_zeros();
        let reversed = |i: usize| powers[i.reverse_bits() >> (usize::BITS - bits)];
        let all: Vec<Factor> = (0..DEGREE).map(|i| modulus.factor(reversed(i))).collect();
        let narrow = (0..DEGREE / BLOCK)
            .map(|block| {
                let lanes = |groups: usize, part: usize, parts: usize| {
                    let of = |l: usize| all[groups + (block * LANES + l) * parts + part];
                    Narrow {
                        values: std::array::from_fn(|l| of(l).value),
                        quotients: std::array::from_fn(|l| of(l).quotient),
                    }
                };
                let [four, two, one] = [DEGREE / 8, DEGREE / 4, DEGREE / 2];
                [
                    lanes(four, 0, 1),
                    lanes(two, 0, 2),
                    lanes(two, 1, 2),
                    lanes(one, 0, 4),
                    lanes(one, 1, 4),
                    lanes(one, 2, 4),
                    lanes(one, 3, 4),
                ]
            })
            .collect();
        Self { wide: all[..DEGREE / LANES].to_vec(), narrow }
    }
}
