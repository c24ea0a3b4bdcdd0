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
//! before the pass (exact algebra), and the gradient of `A` is that of `W[K−1]`. In the same way a
//! linear map of the channels before the convolution ([`after_mix`](TemporalConv::after_mix)) is
//! multiplied into the taps. Three taps over many channels are computed with fewer products, as
//! the module `winograd` says.
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

mod gate;
mod weights;

use std::ops::Range;

use crate::activation::Activation;
use crate::gemm::{Product, Start};
use crate::kernel::vectorise;
use crate::layer::{BackwardPass, Layer, Memory, Pass};
use crate::layout::Layout;
use crate::random::Draw;
use crate::vector;
use crate::winograd::Winograd;

use gate::{Gate, GateBack};

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
    /// Weight and bias of the map before the convolution, where there is one.
    mix: Option<(Range<usize>, Range<usize>)>,
    winograd: Option<Winograd>,
}

impl TemporalConv {
    /// A convolution followed by a pointwise function of its output (not SiLU or GELU, whose
    /// gradient needs the input: put those in a layer of their own).
    ///
    /// # Panics
    /// If the kernel is empty or longer than the time, or for SiLU and GELU.
    pub fn new(shape: TemporalShape, activation: Activation) -> Self {
        assert!(!activation.needs_input(), "{activation:?} must be a layer of its own");
        Self::build(shape, false, activation, false)
    }

    /// A gated convolution: twice the channels, one half the gate of the other.
    ///
    /// # Panics
    /// If the kernel is empty or longer than the time.
    pub fn gated(shape: TemporalShape) -> Self {
        Self::build(shape, true, Activation::Identity, false)
    }

    fn build(shape: TemporalShape, gated: bool, activation: Activation, mixed: bool) -> Self {
        assert!(
            (1..=shape.time).contains(&shape.kernel),
            "a kernel of {} taps does not fit {} steps",
            shape.kernel,
            shape.time
        );
        let TemporalShape { kernel, time, nodes, inputs, outputs } = shape;
        let width = if gated { 2 * outputs } else { outputs };
        let mut layout = Layout::default();
        let mut pair = |name: &str, rows: &[usize], columns: usize| {
            let weight = layout.add(&format!("{name}weight"), &[rows, &[columns]].concat());
            (weight, layout.add(&format!("{name}bias"), &[columns]))
        };
        let mix = mixed.then(|| pair("mix.", &[inputs], inputs));
        let name = if mixed { "conv." } else { "" };
        let (weight, bias) = pair(name, &[kernel, inputs], width);
        let align = (inputs > outputs).then(|| pair(&format!("{name}align."), &[inputs], outputs));
        let pays = Winograd::pays(kernel, time, inputs);
        let winograd = pays.then_some(Winograd { time, nodes, inputs, width });
        TemporalConv { shape, gated, activation, layout, weight, bias, align, mix, winograd }
    }

    /// The same after a linear map of each row, `x·M + m` with `M: [input, input]`: a 1×1
    /// convolution at no cost. Parameters are named `mix.…` and `conv.…`.
    pub fn after_mix(self) -> Self {
        Self::build(self.shape, self.gated, self.activation, true)
    }

    /// Steps of the output.
    pub(crate) fn time_after(&self) -> usize {
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

    fn multiply(&self, pass: &Pass<'_>, x: &[f32], c: &mut [f32], scratch: &mut [f32]) {
        let weights = self.weights(pass);
        let relu = self.activation == Activation::Relu;
        if let Some(winograd) = &self.winograd {
            let weights = (weights.points, weights.bias);
            return winograd.forward(pass.samples, weights, relu, x, c, scratch);
        }
        let product = self.product();
        let c_len = self.time_after() * self.shape.nodes * self.width();
        for (x, c) in x.chunks_exact(self.input_len()).zip(c.chunks_exact_mut(c_len)) {
            product.run_relu(x, weights.taps, Start::Row(weights.bias), relu, c);
        }
    }

    /// Gradients from that of the convolution's result `g: [sample, T', node, width]`.
    fn multiply_back(
        &self,
        pass: &Pass<'_>,
        (x, g): (&[f32], &[f32]),
        dx: Option<&mut [f32]>,
        gradient: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (mixed, scratch) = scratch.split_at_mut(self.mixed_len());
        if self.mix.is_none() {
            let (d_taps, d_bias) = gradient[self.weight.start..].split_at_mut(self.weight.len());
            self.taps_back(pass, (x, g), dx, (d_taps, &mut d_bias[..self.bias.len()]), scratch);
        } else {
            mixed.fill(0.0);
            let (d_taps, d_bias) = mixed.split_at_mut(self.weight.len());
            self.taps_back(pass, (x, g), dx, (d_taps, d_bias), scratch);
            self.unmix(pass, d_taps, d_bias, gradient);
        }
    }

    /// The same, with the gradients of the pass's own taps and bias.
    fn taps_back(
        &self,
        pass: &Pass<'_>,
        (x, g): (&[f32], &[f32]),
        dx: Option<&mut [f32]>,
        (d_taps, d_bias): (&mut [f32], &mut [f32]),
        scratch: &mut [f32],
    ) {
        let TemporalShape { nodes, inputs, .. } = self.shape;
        let (width, time_after) = (self.width(), self.time_after());
        let weights = self.weights(pass);
        if let Some(winograd) = &self.winograd {
            let (points, gradients) = (weights.points, (d_taps, d_bias));
            return winograd.backward(pass.samples, points, (x, g), dx, gradients, scratch);
        }
        vector::add_rows(d_bias, g);
        // Weights of one tap: the sum over rows (depth) and samples (segments).
        let tap = Product {
            segments: pass.samples,
            a_segment: self.input_len(),
            b_segment: time_after * nodes * width,
            ..Product::transposed(time_after * nodes, inputs, width)
        };
        for (tau, d_tap) in d_taps.chunks_exact_mut(inputs * width).enumerate() {
            tap.run(&x[tau * nodes * inputs..], g, Start::Keep, d_tap);
        }
        if let Some(dx) = dx {
            self.input_back(weights.reversed, g, dx);
        }
    }

    /// dx[t] = Σ_τ g[t − τ]·W[τ]ᵀ over the taps with 0 ≤ t − τ < T'. Steps that share their taps
    /// are one product; the transposed taps are stored last first, so that both operands run
    /// forward.
    fn input_back(&self, reversed: &[f32], g: &[f32], dx: &mut [f32]) {
        let TemporalShape { kernel, time, nodes, inputs, .. } = self.shape;
        let (width, time_after) = (self.width(), self.time_after());
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
            let samples = g.chunks_exact(time_after * nodes * width);
            for (g, dx) in samples.zip(dx.chunks_exact_mut(self.input_len())) {
                let dx = &mut dx[first * nodes * inputs..end * nodes * inputs];
                product.run(&g[from..], weights, Start::Zero, dx);
            }
            first = end;
        }
    }

    /// Gradients of the pass's taps and bias, if they are not those of the parameters.
    fn mixed_len(&self) -> usize {
        if self.mix.is_some() { self.weight.len() + self.bias.len() } else { 0 }
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
        self.weight_lens().iter().sum()
    }
    fn saved_len(&self, samples: usize) -> usize {
        // The two halves, side by side as the product writes them.
        if self.gated { 2 * samples * self.output_len() } else { 0 }
    }
    fn scratch_len(&self, samples: usize) -> usize {
        self.mixed_len() + self.winograd.map_or(0, |winograd| winograd.scratch_len(samples))
    }

    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        let fan_in = self.shape.kernel * self.shape.inputs;
        if let Some((weight, bias)) = &self.mix {
            let bound = 1.0 / (self.shape.inputs as f32).sqrt();
            draw.fill(&mut parameters[weight.start..bias.end], bound);
        }
        let conv = self.weight.start..self.bias.end;
        draw.fill(&mut parameters[conv], 1.0 / (fan_in as f32).sqrt());
        if let Some((weight, bias)) = &self.align {
            let bound = 1.0 / (self.shape.inputs as f32).sqrt();
            draw.fill(&mut parameters[weight.start..bias.end], bound);
        }
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        self.prepare_weights(parameters, prepared);
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        if self.gated {
            let halves = &mut memory.saved[..2 * y.len()];
            self.multiply(pass, x, halves, memory.scratch);
            vectorise(Gate { halves, y, channels: self.shape.outputs });
        } else {
            self.multiply(pass, x, y, memory.scratch);
            if self.activation != Activation::Relu {
                self.activation.apply(y);
            }
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, dx, gradient, memory } = work;
        if self.gated {
            let halves = &mut memory.saved[..2 * dy.len()];
            let channels = self.shape.outputs;
            vectorise(GateBack { y: given.y, dy, halves, channels });
            self.multiply_back(pass, (given.x, halves), dx, gradient, memory.scratch);
        } else {
            self.activation.backward(given.y, dy);
            self.multiply_back(pass, (given.x, dy), dx, gradient, memory.scratch);
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

#[cfg(test)]
mod tests;
