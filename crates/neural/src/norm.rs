//! Layer norm: each group of values to mean 0 and variance 1, then scaled and shifted.
//!
//! ```text
//! x̂ = (x − mean(x))/√(var(x) + 1e-5)        y = γ·x̂ + β
//! ```
//!
//! A group is the last `width` values: channels, or nodes × channels as in the STGCN; γ and β have
//! one value for each. `x`, `y`: `[sample, group, width]`.
//!
//! Backward, with `g = γ·dy`: `dx = (g − mean(g) − x̂·mean(g·x̂))/√(var + 1e-5)`.
//!
//! ```
//! use neural::{LayerNorm, Learner, Plan};
//! let mut norm = Learner::new(LayerNorm::new(1, 2), 0, Plan::default());
//! let mut y = [0.0; 2];
//! norm.infer(&[-1000.0, 3000.0], &mut y);
//! assert_eq!(y, [-1.0, 1.0]);
//! ```

use std::ops::Range;

use crate::kernel::{Vectorised, fma, vectorise};
use crate::layer::{BackwardPass, Layer, Memory, Pass};
use crate::layout::Layout;
use crate::random::Draw;
use crate::vector::across;

/// Added to the variance, as PyTorch does.
const EPSILON: f32 = 1e-5;

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct LayerNorm {
    groups: usize,
    width: usize,
    layout: Layout,
    scale: Range<usize>,
    shift: Range<usize>,
}

impl LayerNorm {
    /// For samples of `groups` groups of `width` values.
    pub fn new(groups: usize, width: usize) -> Self {
        let mut layout = Layout::default();
        let scale = layout.add("scale", &[width]);
        let shift = layout.add("shift", &[width]);
        LayerNorm { groups, width, layout, scale, shift }
    }
}

impl Layer for LayerNorm {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.groups * self.width
    }
    fn saved_len(&self, samples: usize) -> usize {
        2 * samples * self.groups
    }

    fn initialise(&self, _draw: &mut Draw, parameters: &mut [f32]) {
        parameters[self.scale.clone()].fill(1.0);
        parameters[self.shift.clone()].fill(0.0);
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let scale = &pass.parameters[self.scale.clone()];
        let shift = &pass.parameters[self.shift.clone()];
        vectorise(Forward { x, y, scale, shift, moments: memory.saved });
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, dx, gradient, memory } = work;
        let scale = &pass.parameters[self.scale.clone()];
        let (d_scale, d_shift) = gradient.split_at_mut(self.width);
        let moments = &*memory.saved;
        vectorise(Backward { x: given.x, dy, dx, scale, d_scale, d_shift, moments });
    }
}

struct Forward<'a> {
    x: &'a [f32],
    y: &'a mut [f32],
    scale: &'a [f32],
    shift: &'a [f32],
    /// Mean and reciprocal standard deviation of each group.
    moments: &'a mut [f32],
}

impl Vectorised for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let width = self.scale.len();
        let groups = self.x.chunks_exact(width).zip(self.y.chunks_exact_mut(width));
        for ((x, y), moments) in groups.zip(self.moments.chunks_exact_mut(2)) {
            let mean = sum(x, |x| x) / width as f32;
            let variance = sum(x, |x| (x - mean) * (x - mean)) / width as f32;
            let reciprocal = 1.0 / (variance + EPSILON).sqrt();
            moments.copy_from_slice(&[mean, reciprocal]);
            let affine = self.scale.iter().zip(self.shift);
            for ((y, x), (scale, shift)) in y.iter_mut().zip(x).zip(affine) {
                *y = fma::<FUSED>((x - mean) * reciprocal, *scale, *shift);
            }
        }
    }
}

struct Backward<'a> {
    x: &'a [f32],
    dy: &'a [f32],
    dx: Option<&'a mut [f32]>,
    scale: &'a [f32],
    d_scale: &'a mut [f32],
    d_shift: &'a mut [f32],
    moments: &'a [f32],
}

impl Vectorised for Backward<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(mut self) {
        let width = self.scale.len();
        let groups = self.x.chunks_exact(width).zip(self.dy.chunks_exact(width));
        for (i, ((x, dy), moments)) in groups.zip(self.moments.chunks_exact(2)).enumerate() {
            let (mean, reciprocal) = (moments[0], moments[1]);
            // One pass over the group: parameter gradients, and both means by lanes.
            let mut sums = [0.0f32; 16];
            let mut products = [0.0f32; 16];
            let ((x16, x_rest), (dy16, dy_rest)) = (x.as_chunks::<16>(), dy.as_chunks::<16>());
            let (scale16, scale_rest) = self.scale.as_chunks::<16>();
            let (d_scale16, d_scale_rest) = self.d_scale.as_chunks_mut::<16>();
            let (d_shift16, d_shift_rest) = self.d_shift.as_chunks_mut::<16>();
            let given = x16.iter().zip(dy16).zip(scale16);
            for ((d_scale, d_shift), ((x, dy), scale)) in
                d_scale16.iter_mut().zip(d_shift16).zip(given)
            {
                // Copied before they are written: so the compiler sees that nothing overlaps.
                let (mut to_scale, mut to_shift) = (*d_scale, *d_shift);
                for l in 0..16 {
                    let normal = (x[l] - mean) * reciprocal;
                    to_scale[l] = fma::<FUSED>(dy[l], normal, to_scale[l]);
                    to_shift[l] += dy[l];
                    let g = dy[l] * scale[l];
                    sums[l] += g;
                    products[l] = fma::<FUSED>(g, normal, products[l]);
                }
                (*d_scale, *d_shift) = (to_scale, to_shift);
            }
            let given = x_rest.iter().zip(dy_rest).zip(scale_rest).enumerate();
            for ((d_scale, d_shift), (l, ((x, dy), scale))) in
                d_scale_rest.iter_mut().zip(d_shift_rest).zip(given)
            {
                let normal = (x - mean) * reciprocal;
                *d_scale = fma::<FUSED>(*dy, normal, *d_scale);
                *d_shift += dy;
                sums[l] += dy * scale;
                products[l] = fma::<FUSED>(dy * scale, normal, products[l]);
            }
            let Some(dx) = self.dx.as_deref_mut() else { continue };
            let sum = across(sums) / width as f32;
            let product = across(products) / width as f32;
            let dx = &mut dx[i * width..(i + 1) * width];
            for (((dx, x), dy), scale) in dx.iter_mut().zip(x).zip(dy).zip(self.scale) {
                let normal = (x - mean) * reciprocal;
                *dx = (fma::<FUSED>(*dy, *scale, -sum) - normal * product) * reciprocal;
            }
        }
    }
}

/// Sum of a function over all values, by four times sixteen lanes.
#[inline(always)]
fn sum(values: &[f32], function: impl Fn(f32) -> f32) -> f32 {
    // One chain of additions would wait for itself; an array of chains would stay in memory.
    let (mut a, mut b, mut c, mut d) = ([0.0f32; 16], [0.0f32; 16], [0.0f32; 16], [0.0f32; 16]);
    let (blocks, rest) = values.as_chunks::<64>();
    for block in blocks {
        for l in 0..16 {
            a[l] += function(block[l]);
            b[l] += function(block[16 + l]);
            c[l] += function(block[32 + l]);
            d[l] += function(block[48 + l]);
        }
    }
    for (i, value) in rest.iter().enumerate() {
        a[i % 16] += function(*value);
    }
    for l in 0..16 {
        a[l] = (a[l] + b[l]) + (c[l] + d[l]);
    }
    across(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_layer;

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        for (groups, width) in [(3, 5), (2, 16), (2, 35), (1, 1), (4, 2), (1, 64), (1, 131)] {
            check_layer(&LayerNorm::new(groups, width), 2, 1, |w, x| {
                let (scale, shift) = w.split_at(width);
                let group = |x: &[f64]| -> Vec<f64> {
                    let mean = x.iter().sum::<f64>() / width as f64;
                    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
                    let deviation = (variance + 1e-5).sqrt();
                    (0..width).map(|i| (x[i] - mean) / deviation * scale[i] + shift[i]).collect()
                };
                x.chunks_exact(width).flat_map(group).collect()
            });
        }
    }
}
