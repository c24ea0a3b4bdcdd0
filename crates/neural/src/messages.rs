//! Message passing: each node hears the means of its neighbours, upstream and downstream apart.
//!
//! ```text
//! y[n] = f(b + x[n]·W_self + (U·x)[n]·W_up + (D·x)[n]·W_down)
//! ```
//!
//! `x: [sample, slice, node, input]`, `y: [sample, slice, node, output]`, `W: [3, input, output]`.
//! `U` and `D` are any sparse matrices over the nodes, usually means ([`Sparse::mean_over`]). All
//! nodes share the weights, so the cost is linear in nodes and edges.
//!
//! ```
//! use neural::{Activation, Learner, MessagePassing, MessageShape, Plan, Sparse};
//! // Node 0 flows into node 1: 1 hears 0 from upstream, 0 hears 1 from downstream.
//! let up = Sparse::mean_over(2, &[(1, 0)]).unwrap();
//! let down = Sparse::mean_over(2, &[(0, 1)]).unwrap();
//! let shape = MessageShape { slices: 1, inputs: 1, outputs: 1 };
//! let layer = MessagePassing::new(shape, &up, &down, Activation::Identity);
//! let mut layer = Learner::new(layer, 0, Plan::default());
//! layer.set_parameters(&[1.0, 10.0, 100.0, 0.5]).unwrap(); // self, up, down, bias
//! let mut y = [0.0; 2];
//! layer.infer(&[2.0, 3.0], &mut y);
//! assert_eq!(y, [302.5, 23.5]);
//! ```

use std::ops::Range;

use crate::activation::Activation;
use crate::gemm::{Product, Start};
use crate::layer::{BackwardPass, Layer, Memory, Pass, carve};
use crate::layout::Layout;
use crate::linear::transpose;
use crate::random::Draw;
use crate::sparse::{Sparse, Strided};
use crate::vector;

/// Sizes of a round of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageShape {
    /// Slices of a sample (1, or time steps).
    pub slices: usize,
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
}

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct MessagePassing {
    shape: MessageShape,
    up: Sparse,
    down: Sparse,
    activation: Activation,
    layout: Layout,
    weight: Range<usize>,
    bias: Range<usize>,
}

impl MessagePassing {
    /// A round of messages along two graphs.
    ///
    /// # Panics
    /// If the graphs have different nodes.
    pub fn new(shape: MessageShape, up: &Sparse, down: &Sparse, activation: Activation) -> Self {
        assert_eq!(up.nodes(), down.nodes(), "graphs up and down differ in nodes");
        let mut layout = Layout::default();
        let weight = layout.add("weight", &[3, shape.inputs, shape.outputs]);
        let bias = layout.add("bias", &[shape.outputs]);
        let (up, down) = (up.clone(), down.clone());
        MessagePassing { shape, up, down, activation, layout, weight, bias }
    }

    fn rows(&self, samples: usize) -> usize {
        samples * self.shape.slices * self.up.nodes()
    }

    /// Lengths in `saved`: messages from up, from down, and the activation's input if needed.
    fn saved_lens(&self, samples: usize) -> [usize; 3] {
        let messages = self.rows(samples) * self.shape.inputs;
        let input = if self.activation.needs_input() { samples * self.output_len() } else { 0 };
        [messages, messages, input]
    }
}

impl Layer for MessagePassing {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.rows(1) * self.shape.inputs
    }
    fn output_len(&self) -> usize {
        self.rows(1) * self.shape.outputs
    }
    fn prepared_len(&self) -> usize {
        self.weight.len()
    }
    fn saved_len(&self, samples: usize) -> usize {
        self.saved_lens(samples).iter().sum()
    }
    fn scratch_len(&self, samples: usize) -> usize {
        self.rows(samples) * self.shape.inputs
    }

    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        draw.fill(parameters, 1.0 / (3.0 * self.shape.inputs as f32).sqrt());
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        let one = self.shape.inputs * self.shape.outputs;
        let weights = parameters[self.weight.clone()].chunks_exact(one);
        for (weight, transposed) in weights.zip(prepared.chunks_exact_mut(one)) {
            transpose(weight, self.shape.outputs, transposed);
        }
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let MessageShape { inputs, outputs, .. } = self.shape;
        let lens = self.saved_lens(pass.samples);
        let (messages, rest) = memory.saved.split_at_mut(2 * lens[0]);
        let (from_up, from_down) = messages.split_at_mut(lens[0]);
        self.up.multiply(inputs, x, from_up);
        self.down.multiply(inputs, x, from_down);
        let weight = &pass.parameters[self.weight.clone()];
        let bias = Start::Row(&pass.parameters[self.bias.clone()]);
        let own = Product::dense(self.rows(pass.samples), inputs, outputs);
        own.run(x, weight, bias, y);
        let heard = Product { segments: 2, a_segment: lens[0], b_segment: inputs * outputs, ..own };
        heard.run(messages, &weight[inputs * outputs..], Start::Keep, y);
        rest[..lens[2]].copy_from_slice(&y[..lens[2]]);
        self.activation.apply(y);
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, dx, gradient, memory } = work;
        let MessageShape { inputs, outputs, .. } = self.shape;
        let lens = self.saved_lens(pass.samples);
        let [from_up, from_down, input] = carve(memory.saved, lens);
        let known = if self.activation.needs_input() { &*input } else { given.y };
        self.activation.backward(known, dy);
        let rows = self.rows(pass.samples);
        let product = Product::transposed(rows, inputs, outputs);
        let weights = gradient[self.weight.clone()].chunks_exact_mut(inputs * outputs);
        for (heard, dw) in [given.x, from_up, from_down].into_iter().zip(weights) {
            product.run(heard, dy, Start::Keep, dw);
        }
        vector::add_rows(&mut gradient[self.bias.clone()], dy);

        let Some(dx) = dx else { return };
        let product = Product::dense(rows, outputs, inputs);
        let (own, heard) = pass.prepared.split_at(inputs * outputs);
        product.run(dy, own, Start::Zero, dx);
        let [message] = carve(memory.scratch, [lens[0]]);
        for (weight, graph) in heard.chunks_exact(inputs * outputs).zip([&self.up, &self.down]) {
            product.run(dy, weight, Start::Zero, message);
            graph.add_transposed(Strided::plain(inputs), message, 1.0, dx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_layer;

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        let edges = [(0, 1), (0, 2), (2, 3), (3, 0)];
        let reversed: Vec<_> = edges.iter().map(|&(a, b)| (b, a)).collect();
        let (up, down) =
            (Sparse::mean_over(4, &edges).unwrap(), Sparse::mean_over(4, &reversed).unwrap());
        let shape = MessageShape { slices: 2, inputs: 3, outputs: 5 };
        for activation in [Activation::Tanh, Activation::Silu] {
            let layer = MessagePassing::new(shape, &up, &down, activation);
            check_layer(&layer, 2, 1, |w, x| {
                let mut y = Vec::new();
                for x in x.chunks_exact(12) {
                    let mean = |graph: &Sparse, n: usize, i: usize| -> f64 {
                        let row = graph.entries().filter(|&(row, ..)| row == n);
                        row.map(|(_, m, v)| f64::from(v) * x[m * 3 + i]).sum()
                    };
                    for n in 0..4 {
                        for j in 0..5 {
                            let mut sum = w[45 + j];
                            for i in 0..3 {
                                sum += x[n * 3 + i] * w[i * 5 + j]
                                    + mean(&up, n, i) * w[15 + i * 5 + j]
                                    + mean(&down, n, i) * w[30 + i * 5 + j];
                            }
                            y.push(match activation {
                                Activation::Tanh => sum.tanh(),
                                _ => sum / (1.0 + (-sum).exp()),
                            });
                        }
                    }
                }
                y
            });
        }
    }
}
