//! Temporal convolution with a residual, gated or not.
//!
//! ```text
//! c[t, n] = b + Σ_τ x[t + τ, n]·W[τ]                 τ = 0 … K−1, no padding: T' = T − K + 1
//! y[t, n] = (P + r)·σ(Q)        gated: c = [P | Q], W: [K, input, 2·output]
//! y[t, n] = f(c + r)            otherwise,          W: [K, input, output]
//! ```
//!
//! `x: [sample, T, node, input]`, `y: [sample, T', node, output]`. The residual `r[t]` is
//! `x[t + K − 1]`, brought to the output's width by zeros if it is narrower, or by a linear map
//! `A: [input, output]` with bias if it is wider.
//!
//! Since `r` is linear in the last tap, it costs nothing: the identity or `A` is added to `W[K−1]`
//! before the pass (exact algebra), and the gradient of `A` is that of `W[K−1]`.
//!
//! ```
//! use neural::{Activation, Learner, Plan, TemporalConv, TemporalShape};
//! let shape = TemporalShape { kernel: 2, time: 3, nodes: 1, inputs: 1, outputs: 1 };
//! let layer = TemporalConv::new(shape, Activation::Identity);
//! let mut conv = Learner::new(layer, 0, Plan::default());
//! conv.set_parameters(&[1.0, 10.0, 0.5]).unwrap(); // two taps, bias
//! let mut y = [0.0; 2];
//! conv.infer(&[1.0, 2.0, 3.0], &mut y);
//! // 1·1 + 10·2 + 0.5 + residual 2, and 1·2 + 10·3 + 0.5 + residual 3
//! assert_eq!(y, [23.5, 35.5]);
//! ```

use std::ops::Range;

use crate::activation::Activation;
use crate::gemm::{Product, Start};
use crate::kernel::{Vectorised, vectorise};
use crate::layer::{Given, Layer, Memory, Pass};
use crate::layout::Layout;
use crate::linear::transpose;
use crate::random::Draw;
use crate::vector;

/// Sizes of a temporal convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemporalShape {
    /// Taps K.
    pub kernel: usize,
    /// Steps T of the input.
    pub time: usize,
    /// Nodes.
    pub nodes: usize,
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
}

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct TemporalConv {
    shape: TemporalShape,
    gated: bool,
    activation: Activation,
    layout: Layout,
    weight: Range<usize>,
    bias: Range<usize>,
    /// Weight and bias of the residual's map, where there is one.
    align: Option<(Range<usize>, Range<usize>)>,
}

impl TemporalConv {
    /// A convolution followed by a pointwise function of its output (not SiLU or GELU, whose
    /// gradient needs the input: put those in a layer of their own).
    ///
    /// # Panics
    /// If the kernel is empty or longer than the time, or for SiLU and GELU.
    pub fn new(shape: TemporalShape, activation: Activation) -> Self {
        assert!(!activation.needs_input(), "{activation:?} must be a layer of its own");
        Self::build(shape, false, activation)
    }

    /// A gated convolution: twice the channels, one half the gate of the other.
    ///
    /// # Panics
    /// If the kernel is empty or longer than the time.
    pub fn gated(shape: TemporalShape) -> Self {
        Self::build(shape, true, Activation::Identity)
    }

    fn build(shape: TemporalShape, gated: bool, activation: Activation) -> Self {
        assert!(
            (1..=shape.time).contains(&shape.kernel),
            "a kernel of {} taps does not fit {} steps",
            shape.kernel,
            shape.time
        );
        let width = if gated { 2 * shape.outputs } else { shape.outputs };
        let mut layout = Layout::default();
        let weight = layout.add("weight", &[shape.kernel, shape.inputs, width]);
        let bias = layout.add("bias", &[width]);
        let align = (shape.inputs > shape.outputs).then(|| {
            (
                layout.add("align.weight", &[shape.inputs, shape.outputs]),
                layout.add("align.bias", &[shape.outputs]),
            )
        });
        TemporalConv { shape, gated, activation, layout, weight, bias, align }
    }

    /// Steps of the output.
    pub fn time_after(&self) -> usize {
        self.shape.time - self.shape.kernel + 1
    }

    /// Columns of the convolution: gates count.
    fn width(&self) -> usize {
        if self.gated { 2 * self.shape.outputs } else { self.shape.outputs }
    }

    /// The product of one sample: rows are (time, node), segments are taps.
    fn product(&self) -> Product {
        let TemporalShape { kernel, nodes, inputs, .. } = self.shape;
        Product {
            segments: kernel,
            a_segment: nodes * inputs,
            b_segment: inputs * self.width(),
            ..Product::dense(self.time_after() * nodes, inputs, self.width())
        }
    }

    fn multiply(&self, prepared: &[f32], x: &[f32], c: &mut [f32]) {
        let (weight, rest) = prepared.split_at(self.weight.len());
        let bias = Start::Row(&rest[..self.width()]);
        let product = self.product();
        let c_len = self.time_after() * self.shape.nodes * self.width();
        let relu = self.activation == Activation::Relu;
        for (x, c) in x.chunks_exact(self.input_len()).zip(c.chunks_exact_mut(c_len)) {
            product.run_relu(x, weight, bias, relu, c);
        }
    }

    /// Gradients from that of the convolution's result `g: [sample, T', node, width]`.
    fn multiply_back(
        &self,
        pass: &Pass<'_>,
        x: &[f32],
        g: &[f32],
        dx: Option<&mut [f32]>,
        gradient: &mut [f32],
    ) {
        let TemporalShape { kernel, time, nodes, inputs, .. } = self.shape;
        let (width, time_after) = (self.width(), self.time_after());
        let g_len = time_after * nodes * width;
        // Weights of one tap: the sum over rows (depth) and samples (segments).
        let tap = Product {
            segments: pass.samples,
            a_segment: self.input_len(),
            b_segment: g_len,
            ..Product::transposed(time_after * nodes, inputs, width)
        };
        for (tau, dw) in gradient[self.weight.clone()].chunks_exact_mut(inputs * width).enumerate()
        {
            tap.run(&x[tau * nodes * inputs..], g, Start::Keep, dw);
        }
        vector::add_rows(&mut gradient[self.bias.clone()], g);

        let Some(dx) = dx else { return };
        // dx[t] = Σ_τ g[t − τ]·W[τ]ᵀ over the taps with 0 ≤ t − τ < T'. Steps that share their
        // taps are one product; the transposed taps are stored last first, so that both operands
        // run forward.
        let reversed = &pass.prepared[self.weight.len() + width..];
        let mut first = 0;
        while first < time {
            let taps_at = |t: usize| (t + 1).saturating_sub(time_after)..kernel.min(t + 1);
            let taps = taps_at(first);
            let end = (first..time).find(|&t| taps_at(t) != taps).unwrap_or(time);
            let product = Product {
                segments: taps.len(),
                a_segment: nodes * width,
                b_segment: inputs * width,
                ..Product::dense((end - first) * nodes, width, inputs)
            };
            let from = (first + 1 - taps.end) * nodes * width;
            let weights = &reversed[(kernel - taps.end) * inputs * width..];
            for (g, dx) in g.chunks_exact(g_len).zip(dx.chunks_exact_mut(self.input_len())) {
                let dx = &mut dx[first * nodes * inputs..end * nodes * inputs];
                product.run(&g[from..], weights, Start::Zero, dx);
            }
            first = end;
        }
    }
}

impl Layer for TemporalConv {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.shape.time * self.shape.nodes * self.shape.inputs
    }
    fn output_len(&self) -> usize {
        self.time_after() * self.shape.nodes * self.shape.outputs
    }
    fn prepared_len(&self) -> usize {
        2 * self.weight.len() + self.width()
    }
    fn saved_len(&self, samples: usize) -> usize {
        // The two halves, side by side as the product writes them.
        if self.gated { 2 * samples * self.output_len() } else { 0 }
    }

    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        let fan_in = self.shape.kernel * self.shape.inputs;
        let conv = self.weight.start..self.bias.end;
        draw.fill(&mut parameters[conv], 1.0 / (fan_in as f32).sqrt());
        if let Some((weight, bias)) = &self.align {
            let bound = 1.0 / (self.shape.inputs as f32).sqrt();
            draw.fill(&mut parameters[weight.start..bias.end], bound);
        }
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        let TemporalShape { kernel, inputs, outputs, .. } = self.shape;
        let width = self.width();
        let (weight, rest) = prepared.split_at_mut(self.weight.len());
        let (bias, reversed) = rest.split_at_mut(width);
        weight.copy_from_slice(&parameters[self.weight.clone()]);
        bias.copy_from_slice(&parameters[self.bias.clone()]);
        let last = &mut weight[(kernel - 1) * inputs * width..];
        if let Some((align, align_bias)) = &self.align {
            let align = parameters[align.clone()].chunks_exact(outputs);
            for (row, align) in last.chunks_exact_mut(width).zip(align) {
                vector::add(&mut row[..outputs], align);
            }
            vector::add(&mut bias[..outputs], &parameters[align_bias.clone()]);
        } else {
            for channel in 0..inputs {
                last[channel * width + channel] += 1.0;
            }
        }
        let taps = reversed.chunks_exact_mut(inputs * width).rev();
        for (tap, transposed) in weight.chunks_exact(inputs * width).zip(taps) {
            transpose(tap, width, transposed);
        }
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        if self.gated {
            let halves = &mut memory.saved[..2 * y.len()];
            self.multiply(pass.prepared, x, halves);
            vectorise(Gate { halves, y, channels: self.shape.outputs });
        } else {
            self.multiply(pass.prepared, x, y);
            if self.activation != Activation::Relu {
                self.activation.apply(y);
            }
        }
    }

    fn backward(
        &self,
        pass: &Pass<'_>,
        given: Given<'_>,
        dy: &mut [f32],
        dx: Option<&mut [f32]>,
        gradient: &mut [f32],
        memory: Memory<'_>,
    ) {
        if self.gated {
            let halves = &mut memory.saved[..2 * dy.len()];
            let channels = self.shape.outputs;
            vectorise(GateBack { y: given.y, dy, halves, channels });
            self.multiply_back(pass, given.x, halves, dx, gradient);
        } else {
            self.activation.backward(given.y, dy);
            self.multiply_back(pass, given.x, dy, dx, gradient);
        }
    }

    fn finish_gradient(&self, gradient: &mut [f32]) {
        let Some((align, align_bias)) = &self.align else { return };
        let (width, outputs) = (self.width(), self.shape.outputs);
        let (conv, aligned) = gradient.split_at_mut(align.start);
        let last = &conv[self.weight.end - self.shape.inputs * width..self.weight.end];
        for (to, from) in
            aligned[..align.len()].chunks_exact_mut(outputs).zip(last.chunks_exact(width))
        {
            to.copy_from_slice(&from[..outputs]);
        }
        let bias = &conv[self.bias.start..self.bias.start + outputs];
        aligned[align.len()..][..align_bias.len()].copy_from_slice(bias);
    }
}

/// `y = P·σ(Q)` for halves `[P | Q]` in each row; leaves `σ(Q)` in place of `Q`.
struct Gate<'a> {
    halves: &'a mut [f32],
    y: &'a mut [f32],
    channels: usize,
}

impl Vectorised for Gate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let rows = self.halves.chunks_exact_mut(2 * self.channels);
        for (row, y) in rows.zip(self.y.chunks_exact_mut(self.channels)) {
            let (p, q) = row.split_at_mut(self.channels);
            // Blocks of a fixed size, copied before they are written: only so does the compiler
            // see that nothing overlaps.
            let ((p, p_rest), (q, q_rest)) = (p.as_chunks::<16>(), q.as_chunks_mut::<16>());
            let (y, y_rest) = y.as_chunks_mut::<16>();
            for ((y, p), q) in y.iter_mut().zip(p).zip(q) {
                let (mut gate, mut gated) = (*q, *p);
                for l in 0..16 {
                    gate[l] = vector::sigmoid::<FUSED>(gate[l]);
                    gated[l] *= gate[l];
                }
                (*q, *y) = (gate, gated);
            }
            for ((y, p), q) in y_rest.iter_mut().zip(p_rest).zip(q_rest) {
                *q = vector::sigmoid::<FUSED>(*q);
                *y = *p * *q;
            }
        }
    }
}

/// From halves `[P | σ(Q)]` to their gradients: `dP = dy·σ`, `dQ = dy·P·σ·(1−σ) = dy·y·(1−σ)`.
struct GateBack<'a> {
    y: &'a [f32],
    dy: &'a [f32],
    halves: &'a mut [f32],
    channels: usize,
}

impl Vectorised for GateBack<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let rows = self.halves.chunks_exact_mut(2 * self.channels);
        let given = self.y.chunks_exact(self.channels).zip(self.dy.chunks_exact(self.channels));
        for (row, (y, dy)) in rows.zip(given) {
            let (p, s) = row.split_at_mut(self.channels);
            // Blocks of a fixed size, copied before they are written: only so does the compiler
            // see that nothing overlaps.
            let (p, p_rest) = p.as_chunks_mut::<16>();
            let (s, s_rest) = s.as_chunks_mut::<16>();
            let ((y, y_rest), (dy, dy_rest)) = (y.as_chunks::<16>(), dy.as_chunks::<16>());
            for (((p, s), y), dy) in p.iter_mut().zip(s).zip(y).zip(dy) {
                let (mut dp, mut dq) = ([0.0; 16], *s);
                for l in 0..16 {
                    dp[l] = dy[l] * dq[l];
                    dq[l] = dy[l] * y[l] * (1.0 - dq[l]);
                }
                (*p, *s) = (dp, dq);
            }
            for (((p, s), y), dy) in p_rest.iter_mut().zip(s_rest).zip(y_rest).zip(dy_rest) {
                (*p, *s) = (dy * *s, dy * y * (1.0 - *s));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_layer;

    /// The formula of the module, for one sample.
    fn formula(s: TemporalShape, gated: bool, relu: bool, w: &[f64], x: &[f64]) -> Vec<f64> {
        let width = if gated { 2 * s.outputs } else { s.outputs };
        let (w, rest) = w.split_at(s.kernel * s.inputs * width);
        let (b, align) = rest.split_at(width);
        let at = |t: usize, n: usize, c: usize| x[(t * s.nodes + n) * s.inputs + c];
        let mut y = Vec::new();
        for t in 0..s.time - s.kernel + 1 {
            for n in 0..s.nodes {
                let conv = |j: usize| {
                    let tap = |tau: usize| -> f64 {
                        let term = |i| at(t + tau, n, i) * w[(tau * s.inputs + i) * width + j];
                        (0..s.inputs).map(term).sum()
                    };
                    b[j] + (0..s.kernel).map(tap).sum::<f64>()
                };
                let last = t + s.kernel - 1;
                let residual = |j: usize| {
                    if s.inputs <= s.outputs {
                        return if j < s.inputs { at(last, n, j) } else { 0.0 };
                    }
                    let map = |i| at(last, n, i) * align[i * s.outputs + j];
                    align[s.inputs * s.outputs + j] + (0..s.inputs).map(map).sum::<f64>()
                };
                y.extend((0..s.outputs).map(|j| {
                    let value = conv(j) + residual(j);
                    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
                    match (gated, relu) {
                        (true, _) => value * sigmoid(conv(s.outputs + j)),
                        (_, true) => value.max(0.0),
                        _ => sigmoid(value),
                    }
                }));
            }
        }
        y
    }

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        for (inputs, outputs) in [(2, 5), (4, 4), (5, 3)] {
            for (kernel, time) in [(3, 6), (1, 2), (3, 4), (4, 4)] {
                let shape = TemporalShape { kernel, time, nodes: 3, inputs, outputs };
                check_layer(&TemporalConv::gated(shape), 2, 1, |w, x| {
                    formula(shape, true, false, w, x)
                });
                for (activation, relu) in [(Activation::Relu, true), (Activation::Sigmoid, false)] {
                    check_layer(&TemporalConv::new(shape, activation), 2, 2, |w, x| {
                        formula(shape, false, relu, w, x)
                    });
                }
            }
        }
    }

    /// The residual enters through the weights; here it is computed as the formula says.
    #[test]
    fn residual_is_the_aligned_last_step() {
        let shape = TemporalShape { kernel: 2, time: 2, nodes: 1, inputs: 2, outputs: 1 };
        let conv = TemporalConv::gated(shape);
        let mut learner = crate::Learner::new(conv, 0, crate::Plan::default());
        // Taps are zero, gate bias is 0 (σ = ½), P bias 1; A = (3, 5)ᵀ with bias 7.
        let mut parameters = vec![0.0; 8];
        parameters.extend([1.0, 0.0, 3.0, 5.0, 7.0]);
        learner.set_parameters(&parameters).unwrap();
        let mut y = [0.0];
        learner.infer(&[9.0, 9.0, 10.0, 100.0], &mut y);
        assert_eq!(y, [(1.0 + 3.0 * 10.0 + 5.0 * 100.0 + 7.0) / 2.0]);
    }
}
