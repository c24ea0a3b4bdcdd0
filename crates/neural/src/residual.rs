//! A path around a layer: `y = align(x) + inner(x)`.
//!
//! Rows of `inputs` channels are brought to `outputs` channels by zeros if that is wider, or by a
//! linear map with bias if it is narrower (`x·A + a`, `A: [input, output]`).
//!
//! ```
//! use neural::{Learner, Linear, Plan, Residual};
//! let layer = Residual::new(1, 1, 2, Linear::new(1, 1, 2));
//! let mut layer = Learner::new(layer, 0, Plan::default());
//! layer.set_parameters(&[10.0, 20.0, 0.0, 0.5]).unwrap();
//! let mut y = [0.0; 2];
//! layer.infer(&[3.0], &mut y);
//! assert_eq!(y, [33.0, 60.5]); // [3 | 0] + [30 | 60.5]
//! ```

use std::ops::Range;

use crate::gemm::{Product, Start};
use crate::layer::{BackwardPass, Given, Layer, Memory, Pass};
use crate::layout::Layout;
use crate::linear::transpose;
use crate::random::Draw;
use crate::vector;

/// The layer, see the [module](self).
pub struct Residual<L> {
    inner: L,
    rows: usize,
    inputs: usize,
    outputs: usize,
    layout: Layout,
    inside: Range<usize>,
    /// Weight and bias of the map, where there is one.
    align: Option<(Range<usize>, Range<usize>)>,
}

impl<L: Layer> Residual<L> {
    /// Around a layer from samples `[rows, inputs]` to `[rows, outputs]`.
    ///
    /// # Panics
    /// If the layer has other sizes.
    pub fn new(rows: usize, inputs: usize, outputs: usize, inner: L) -> Self {
        assert_eq!(
            (inner.input_len(), inner.output_len()),
            (rows * inputs, rows * outputs),
            "the inner layer does not go from {rows} x {inputs} to {rows} x {outputs}"
        );
        let mut layout = Layout::default();
        let inside = layout.add_part("inner", &inner.layout());
        let align = (inputs > outputs).then(|| {
            (layout.add("align.weight", &[inputs, outputs]), layout.add("align.bias", &[outputs]))
        });
        Residual { inner, rows, inputs, outputs, layout, inside, align }
    }

    fn inner_pass<'a>(&self, pass: &Pass<'a>) -> Pass<'a> {
        pass.part(self.inside.clone(), 0..self.inner.prepared_len())
    }
}

impl<L: Layer> Layer for Residual<L> {
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
        self.inner.prepared_len() + self.align.as_ref().map_or(0, |(weight, _)| weight.len())
    }
    fn saved_len(&self, samples: usize) -> usize {
        // The inner layer's own output, which its backward may ask for.
        self.inner.saved_len(samples) + samples * self.output_len()
    }
    fn scratch_len(&self, samples: usize) -> usize {
        self.inner.scratch_len(samples) + samples * self.output_len()
    }

    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        self.inner.initialise(draw, &mut parameters[self.inside.clone()]);
        if let Some((weight, bias)) = &self.align {
            let bound = 1.0 / (self.inputs as f32).sqrt();
            draw.fill(&mut parameters[weight.start..bias.end], bound);
        }
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        let (inner, transposed) = prepared.split_at_mut(self.inner.prepared_len());
        self.inner.prepare(&parameters[self.inside.clone()], inner);
        if let Some((weight, _)) = &self.align {
            transpose(&parameters[weight.clone()], self.outputs, transposed);
        }
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let (inner_y, saved) = memory.saved.split_at_mut(y.len());
        let memory = Memory { saved, scratch: memory.scratch };
        self.inner.forward(&self.inner_pass(pass), x, inner_y, memory);
        if let Some((weight, bias)) = &self.align {
            let product = Product::dense(pass.samples * self.rows, self.inputs, self.outputs);
            let bias = Start::Row(&pass.parameters[bias.clone()]);
            product.run(x, &pass.parameters[weight.clone()], bias, y);
            vector::add(y, inner_y);
        } else {
            y.copy_from_slice(inner_y);
            for (y, x) in y.chunks_exact_mut(self.outputs).zip(x.chunks_exact(self.inputs)) {
                vector::add(&mut y[..self.inputs], x);
            }
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, mut dx, gradient, memory } = work;
        let (inner_y, saved) = memory.saved.split_at_mut(dy.len());
        // The inner layer may overwrite what it is given.
        let (inner_dy, scratch) = memory.scratch.split_at_mut(dy.len());
        inner_dy.copy_from_slice(dy);
        self.inner.backward(
            &self.inner_pass(pass),
            BackwardPass {
                given: Given { x: given.x, y: inner_y },
                dy: inner_dy,
                dx: dx.as_deref_mut(),
                gradient: &mut gradient[self.inside.clone()],
                memory: Memory { saved, scratch },
            },
        );
        let rows = pass.samples * self.rows;
        if let Some((weight, bias)) = &self.align {
            let product = Product::transposed(rows, self.inputs, self.outputs);
            product.run(given.x, dy, Start::Keep, &mut gradient[weight.clone()]);
            vector::add_rows(&mut gradient[bias.clone()], dy);
            if let Some(dx) = dx {
                let transposed = &pass.prepared[self.inner.prepared_len()..];
                let product = Product::dense(rows, self.outputs, self.inputs);
                product.run(dy, transposed, Start::Keep, dx);
            }
        } else if let Some(dx) = dx {
            for (dx, dy) in dx.chunks_exact_mut(self.inputs).zip(dy.chunks_exact(self.outputs)) {
                vector::add(dx, &dy[..self.inputs]);
            }
        }
    }

    fn finish_gradient(&self, gradient: &mut [f32]) {
        self.inner.finish_gradient(&mut gradient[self.inside.clone()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_layer;
    use crate::{Activation, Linear};

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        for (inputs, outputs) in [(3, 3), (2, 4), (4, 2)] {
            let inner = Linear::new(2, inputs, outputs).then(Activation::Tanh);
            check_layer(&Residual::new(2, inputs, outputs, inner), 2, 1, |w, x| {
                let (inner, align) = w.split_at(inputs * outputs + outputs);
                let map = |w: &[f64], x: &[f64], j: usize| -> f64 {
                    let product: f64 = (0..inputs).map(|i| x[i] * w[i * outputs + j]).sum();
                    product + w[inputs * outputs + j]
                };
                let mut y = Vec::new();
                for x in x.chunks_exact(inputs) {
                    for j in 0..outputs {
                        let around = match inputs > outputs {
                            true => map(align, x, j),
                            false => x.get(j).copied().unwrap_or(0.0),
                        };
                        y.push(around + map(inner, x, j).tanh());
                    }
                }
                y
            });
        }
    }
}
