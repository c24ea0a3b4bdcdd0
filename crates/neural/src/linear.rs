//! Linear map of the last axis, with an optional activation; also the 1×1 convolution.
//!
//! ```text
//! y = f(x·W + b)      x: [sample, row, input]   W: [input, output]   y: [sample, row, output]
//! ```
//!
//! Backward, with g the gradient before the activation: `dW += xᵀ·g`, `db += Σ g`, `dx = g·Wᵀ`.
//!
//! ```
//! use neural::{Learner, Linear, Plan};
//! let mut linear = Learner::new(Linear::new(1, 2, 1), 0, Plan::default());
//! linear.set_parameters(&[2.0, 3.0, 0.5]).unwrap(); // W, then b
//! let mut y = [0.0];
//! linear.infer(&[10.0, 1.0], &mut y);
//! assert_eq!(y, [23.5]);
//! ```

use std::ops::Range;

use crate::activation::Activation;
use crate::gemm::{Product, Start};
use crate::layer::{BackwardPass, Layer, Memory, Pass};
use crate::layout::Layout;
use crate::random::Draw;
use crate::vector;

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct Linear {
    rows: usize,
    inputs: usize,
    outputs: usize,
    activation: Activation,
    layout: Layout,
    weight: Range<usize>,
    bias: Range<usize>,
}

impl Linear {
    /// For samples of `rows` rows (1 for a plain vector, nodes or time × nodes for a 1×1
    /// convolution) of `inputs` values.
    pub fn new(rows: usize, inputs: usize, outputs: usize) -> Self {
        let mut layout = Layout::default();
        let weight = layout.add("weight", &[inputs, outputs]);
        let bias = layout.add("bias", &[outputs]);
        Linear { rows, inputs, outputs, activation: Activation::Identity, layout, weight, bias }
    }

    /// The same, followed by a pointwise function.
    pub fn then(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }
}

impl Layer for Linear {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.rows * self.inputs
    }
    fn output_len(&self) -> usize {
        self.rows * self.outputs
    }
    fn prepared_len(&self) -> usize {
        self.inputs * self.outputs
    }
    fn saved_len(&self, samples: usize) -> usize {
        if self.activation.needs_input() { samples * self.output_len() } else { 0 }
    }

    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        draw.fill(parameters, 1.0 / (self.inputs as f32).sqrt());
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        transpose(&parameters[self.weight.clone()], self.outputs, prepared);
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let product = Product::dense(pass.samples * self.rows, self.inputs, self.outputs);
        let (weight, bias) = (&pass.parameters[self.weight.clone()], self.bias.clone());
        let relu = self.activation == Activation::Relu;
        product.run_relu(x, weight, Start::Row(&pass.parameters[bias]), relu, y);
        if self.activation.needs_input() {
            memory.saved[..y.len()].copy_from_slice(y);
        }
        if !relu {
            self.activation.apply(y);
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, dx, gradient, memory } = work;
        let needs_input = self.activation.needs_input();
        let known = if needs_input { &memory.saved[..dy.len()] } else { given.y };
        self.activation.backward(known, dy);
        let rows = pass.samples * self.rows;
        let weight = Product::transposed(rows, self.inputs, self.outputs);
        weight.run(given.x, dy, Start::Keep, &mut gradient[self.weight.clone()]);
        vector::add_rows(&mut gradient[self.bias.clone()], dy);
        if let Some(dx) = dx {
            let input = Product::dense(rows, self.outputs, self.inputs);
            input.run(dy, pass.prepared, Start::Zero, dx);
        }
    }
}

/// Writes the transpose of a row-major matrix with this many columns.
pub(crate) fn transpose(matrix: &[f32], columns: usize, to: &mut [f32]) {
    let rows = matrix.len() / columns.max(1);
    for (r, row) in matrix.chunks_exact(columns.max(1)).enumerate() {
        for (c, value) in row.iter().enumerate() {
            to[c * rows + r] = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_layer;

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        for (rows, inputs, outputs) in [(3, 5, 18), (1, 7, 4), (2, 1, 1), (2, 20, 33)] {
            for activation in [
                Activation::Identity,
                Activation::Tanh,
                Activation::Silu,
                Activation::Sigmoid,
                Activation::Relu,
            ] {
                let layer = Linear::new(rows, inputs, outputs).then(activation);
                check_layer(&layer, 3, 2, |w, x| {
                    let (w, b) = w.split_at(inputs * outputs);
                    let row = |x: &[f64]| -> Vec<f64> {
                        let column = |j: usize| -> f64 {
                            b[j] + (0..inputs).map(|i| x[i] * w[i * outputs + j]).sum::<f64>()
                        };
                        (0..outputs)
                            .map(|j| match activation {
                                Activation::Tanh => column(j).tanh(),
                                Activation::Silu => column(j) / (1.0 + (-column(j)).exp()),
                                Activation::Sigmoid => 1.0 / (1.0 + (-column(j)).exp()),
                                Activation::Relu => column(j).max(0.0),
                                _ => column(j),
                            })
                            .collect()
                    };
                    x.chunks_exact(inputs).flat_map(row).collect()
                });
            }
        }
    }
}
