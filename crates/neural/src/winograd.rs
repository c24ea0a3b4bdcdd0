//! Three taps along time with fewer products (Winograd's minimal filtering).
//!
//! ```text
//! y_i = Σ_τ x_{i+τ}·W_τ            i = 0 … m−1,  τ = 0, 1, 2
//! ```
//!
//! are 3·m products of matrices. Read as polynomials in time, `x` and `W` may instead be multiplied
//! at m + 2 points, which determine the result:
//!
//! ```text
//! u = B·x      V = G·W      p_j = u_j·V_j      y = A·p            j = 0 … m + 1
//! ```
//!
//! That is 4 products instead of 6 for m = 2, and 5 instead of 9 for m = 3; longer outputs are cut
//! into such blocks. The constant matrices A and B act on whole slices, so they are cheap beside
//! the products as soon as there are some channels. The algebra is exact; rounding errors grow by
//! 1.4 for m = 2 and 2.7 for m = 3 (root mean square, normal numbers).
//!
//! Backward is the transpose of each step: `dp = Aᵀ·dy`, `dV_j = u_jᵀ·dp_j`, `du_j = dp_j·V_jᵀ`,
//! `dx = Bᵀ·du`, `dW = Gᵀ·dV`.

mod schemes;

use std::ops::Range;

use crate::gemm::{Product, Start};
use crate::layer::carve;
use crate::vector;

use schemes::{Add, AddOverlap, Relu, Scheme, Three, Turned, Two, Write, combine};

/// Taps of the filter.
pub(crate) const TAPS: usize = 3;

/// Channels from which on the saved products outweigh the sums.
const FEWEST_INPUTS: usize = 16;

/// Rows (nodes of one or more samples) that go through all steps together, to stay in cache.
const ROWS: usize = 64;

/// A filter over samples `x: [sample, time, node, inputs]`, to `[sample, time − 2, node, width]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Winograd {
    pub time: usize,
    pub nodes: usize,
    pub inputs: usize,
    pub width: usize,
}

/// Rows that go through all steps together: all nodes of some samples, or some nodes of one.
struct Group {
    samples: Range<usize>,
    nodes: Range<usize>,
}

impl Winograd {
    /// Whether this is worth while for such a convolution.
    pub(crate) fn pays(kernel: usize, time: usize, inputs: usize) -> bool {
        kernel == TAPS && time > TAPS && inputs >= FEWEST_INPUTS
    }

    fn outputs(&self) -> usize {
        self.time + 1 - TAPS
    }

    /// First outputs of the blocks of three, and of the blocks of two after them.
    fn blocks(&self) -> [impl Iterator<Item = usize> + use<>; 2] {
        let in_twos = match self.outputs() % 3 {
            0 => 0,
            1 => 4,
            _ => 2,
        };
        let in_threes = self.outputs() - in_twos;
        [(0..in_threes).step_by(3), (in_threes..self.outputs()).step_by(2)]
    }

    /// Values of the weights at the points of blocks of three, and of two.
    fn point_lens(&self) -> [usize; 2] {
        let [mut threes, mut twos] = self.blocks();
        let one = self.inputs * self.width;
        [threes.next().map_or(0, |_| 5 * one), twos.next().map_or(0, |_| 4 * one)]
    }

    fn points_len(&self) -> usize {
        self.point_lens().iter().sum()
    }

    /// Values that [`prepare`](Self::prepare) writes.
    pub(crate) fn prepared_len(&self) -> usize {
        2 * self.points_len()
    }

    /// Brings the taps, `[inputs, width]` each, and their transposes to the points.
    pub(crate) fn prepare(
        &self,
        taps: [&[f32]; TAPS],
        turned: [&[f32]; TAPS],
        prepared: &mut [f32],
    ) {
        let (points, turned_points) = prepared.split_at_mut(self.points_len());
        for (taps, points) in [(taps, points), (turned, turned_points)] {
            let [threes, twos] = carve(points, self.point_lens());
            self.at_points::<Three, 3, 5>(taps, threes);
            self.at_points::<Two, 2, 4>(taps, twos);
        }
    }

    /// `V = G·W`.
    fn at_points<S: Scheme<M, N>, const M: usize, const N: usize>(
        &self,
        taps: [&[f32]; TAPS],
        points: &mut [f32],
    ) {
        if !points.is_empty() {
            let points = steps_mut(points, 0, 1, &(0..1), self.inputs * self.width);
            combine::<S::Points, Write, TAPS, N>(taps, points);
        }
    }

    /// Lengths in scratch: u, p, du of a group, and the gradients at the points.
    fn scratch_lens(&self, samples: usize) -> [usize; 4] {
        let rows = self.groups(samples).map(|group| group.rows()).max().unwrap_or(0);
        [5 * rows * self.inputs, 5 * rows * self.width, 5 * rows * self.inputs, self.points_len()]
    }

    /// Values needed within one call, for this many samples.
    pub(crate) fn scratch_len(&self, samples: usize) -> usize {
        self.scratch_lens(samples).iter().sum()
    }

    /// All rows, in groups.
    fn groups(&self, samples: usize) -> impl Iterator<Item = Group> + use<> {
        let nodes = self.nodes;
        let cuts = nodes.div_ceil(ROWS);
        let together = (ROWS / nodes.max(1)).max(1);
        (0..samples).step_by(together).flat_map(move |first| {
            (0..cuts).map(move |cut| Group {
                samples: first..(first + together).min(samples),
                nodes: cut * nodes / cuts..(cut + 1) * nodes / cuts,
            })
        })
    }

    /// `c = bias + filter(x)`, followed by `max(0, c)` if `relu`.
    pub(crate) fn forward(
        &self,
        samples: usize,
        (prepared, bias): (&[f32], &[f32]),
        relu: bool,
        x: &[f32],
        c: &mut [f32],
        scratch: &mut [f32],
    ) {
        let [spread, products, ..] = carve(scratch, self.scratch_lens(samples));
        let mut pass = Forward { shape: self, bias, relu, x, c, spread, products };
        let (of_three, of_two) = prepared[..self.points_len()].split_at(self.point_lens()[0]);
        for group in self.groups(samples) {
            let [threes, twos] = self.blocks();
            threes.for_each(|first| pass.block::<Three, 3, 5>(&group, first, of_three));
            twos.for_each(|first| pass.block::<Two, 2, 4>(&group, first, of_two));
        }
    }

    /// From the gradient `g` of the result: adds those of the taps, `[3, inputs, width]`, and of
    /// the bias, and writes that of the input to `dx`, if wanted.
    pub(crate) fn backward(
        &self,
        samples: usize,
        prepared: &[f32],
        (x, g): (&[f32], &[f32]),
        dx: Option<&mut [f32]>,
        (d_taps, d_bias): (&mut [f32], &mut [f32]),
        scratch: &mut [f32],
    ) {
        let [spread, products, d_spread, d_points] = carve(scratch, self.scratch_lens(samples));
        let turned = &prepared[self.points_len()..];
        let (of_three, of_two) = turned.split_at(self.point_lens()[0]);
        let (d_three, d_two) = d_points.split_at_mut(self.point_lens()[0]);
        d_three.fill(0.0);
        d_two.fill(0.0);
        let mut pass = Backward { shape: self, x, g, dx, d_bias, spread, products, d_spread };
        for group in self.groups(samples) {
            let [threes, twos] = self.blocks();
            threes.for_each(|first| pass.block::<Three, 3, 5>(&group, first, of_three, d_three));
            twos.for_each(|first| pass.block::<Two, 2, 4>(&group, first, of_two, d_two));
        }
        self.points_back::<Three, 3, 5>(d_three, d_taps);
        self.points_back::<Two, 2, 4>(d_two, d_taps);
    }

    /// `dW += Gᵀ·dV`.
    fn points_back<S: Scheme<M, N>, const M: usize, const N: usize>(
        &self,
        d_points: &[f32],
        d_taps: &mut [f32],
    ) {
        if !d_points.is_empty() {
            let one = self.inputs * self.width;
            let d_points = steps(d_points, 0, 1, &(0..1), one);
            let d_taps = steps_mut(d_taps, 0, 1, &(0..1), one);
            combine::<Turned<S::Points>, Add, N, TAPS>(d_points, d_taps);
        }
    }
}

struct Forward<'a> {
    shape: &'a Winograd,
    bias: &'a [f32],
    relu: bool,
    x: &'a [f32],
    c: &'a mut [f32],
    spread: &'a mut [f32],
    products: &'a mut [f32],
}

impl Forward<'_> {
    fn block<S: Scheme<M, N>, const M: usize, const N: usize>(
        &mut self,
        group: &Group,
        first: usize,
        points: &[f32],
    ) {
        let Winograd { time, nodes, inputs, width } = *self.shape;
        let rows = group.rows();
        for sample in group.samples.clone() {
            let x = steps(self.x, (sample * time + first) * nodes, nodes, &group.nodes, inputs);
            let u = steps_mut(self.spread, 0, rows, &group.rows_of(sample), inputs);
            combine::<S::Spread, Write, N, N>(x, u);
        }
        let product = Product::dense(rows, inputs, width);
        for point in 0..N {
            // The product at 1 is in all outputs, once: with it, so is the bias.
            let start = if point == 1 { Start::Row(self.bias) } else { Start::Zero };
            let u = &self.spread[point * rows * inputs..(point + 1) * rows * inputs];
            let p = &mut self.products[point * rows * width..(point + 1) * rows * width];
            product.run(u, &points[point * inputs * width..], start, p);
        }
        for sample in group.samples.clone() {
            let p = steps(self.products, 0, rows, &group.rows_of(sample), width);
            let at = (sample * self.shape.outputs() + first) * nodes;
            let c = steps_mut(self.c, at, nodes, &group.nodes, width);
            if self.relu {
                combine::<S::Gather, Relu, N, M>(p, c);
            } else {
                combine::<S::Gather, Write, N, M>(p, c);
            }
        }
    }
}

struct Backward<'a> {
    shape: &'a Winograd,
    x: &'a [f32],
    g: &'a [f32],
    dx: Option<&'a mut [f32]>,
    d_bias: &'a mut [f32],
    spread: &'a mut [f32],
    products: &'a mut [f32],
    d_spread: &'a mut [f32],
}

impl Backward<'_> {
    fn block<S: Scheme<M, N>, const M: usize, const N: usize>(
        &mut self,
        group: &Group,
        first: usize,
        turned: &[f32],
        d_points: &mut [f32],
    ) {
        let Winograd { time, nodes, inputs, width } = *self.shape;
        let rows = group.rows();
        for sample in group.samples.clone() {
            let x = steps(self.x, (sample * time + first) * nodes, nodes, &group.nodes, inputs);
            let u = steps_mut(self.spread, 0, rows, &group.rows_of(sample), inputs);
            combine::<S::Spread, Write, N, N>(x, u);
            let at = (sample * self.shape.outputs() + first) * nodes;
            let g = steps(self.g, at, nodes, &group.nodes, width);
            let dp = steps_mut(self.products, 0, rows, &group.rows_of(sample), width);
            combine::<Turned<S::Gather>, Write, M, N>(g, dp);
        }
        // The bias went in with the product at 1.
        vector::add_rows(self.d_bias, &self.products[rows * width..2 * rows * width]);
        for (point, d_point) in d_points.chunks_exact_mut(inputs * width).enumerate() {
            let u = &self.spread[point * rows * inputs..];
            let dp = &self.products[point * rows * width..];
            Product::transposed(rows, inputs, width).run(u, dp, Start::Keep, d_point);
        }
        let Some(dx) = &mut self.dx else { return };
        for (point, turned) in turned.chunks_exact(inputs * width).take(N).enumerate() {
            let dp = &self.products[point * rows * width..];
            let du = &mut self.d_spread[point * rows * inputs..(point + 1) * rows * inputs];
            Product::dense(rows, width, inputs).run(dp, turned, Start::Zero, du);
        }
        for sample in group.samples.clone() {
            let du = steps(self.d_spread, 0, rows, &group.rows_of(sample), inputs);
            let dx = steps_mut(dx, (sample * time + first) * nodes, nodes, &group.nodes, inputs);
            if first == 0 {
                combine::<Turned<S::Spread>, Write, N, N>(du, dx);
            } else {
                combine::<Turned<S::Spread>, AddOverlap, N, N>(du, dx);
            }
        }
    }
}

impl Group {
    fn rows(&self) -> usize {
        self.samples.len() * self.nodes.len()
    }

    /// Where a sample's rows are among those of the group.
    fn rows_of(&self, sample: usize) -> Range<usize> {
        let from = (sample - self.samples.start) * self.nodes.len();
        from..from + self.nodes.len()
    }
}

/// `N` matrices of `height` rows, one after the other from row `first` on; of each, these rows.
fn steps<'a, const N: usize>(
    values: &'a [f32],
    first: usize,
    height: usize,
    rows: &Range<usize>,
    channels: usize,
) -> [&'a [f32]; N] {
    std::array::from_fn(|step| {
        let from = first + step * height;
        &values[(from + rows.start) * channels..(from + rows.end) * channels]
    })
}

/// The same, to be written.
fn steps_mut<'a, const N: usize>(
    values: &'a mut [f32],
    first: usize,
    height: usize,
    rows: &Range<usize>,
    channels: usize,
) -> [&'a mut [f32]; N] {
    let mut all = values[first * channels..].chunks_exact_mut(height * channels);
    let within = rows.start * channels..rows.end * channels;
    std::array::from_fn(|_| match all.next() {
        Some(step) => &mut step[within.clone()],
        None => &mut [],
    })
}
