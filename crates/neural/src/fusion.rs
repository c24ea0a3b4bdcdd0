//! Several parts side by side, and a head that takes all their outputs.
//!
//! ```text
//! y = head([part_1(x_1) | part_2(x_2) | …])
//! ```
//!
//! A sample of the input holds `x_1`, `x_2`, … one after the other, those of the head `z_1`, `z_2`, ….
//! This is the joint model of parties that could share their data; a federation computes the same
//! function with the parts in different places.
//!
//! ```
//! use neural::{Fusion, Learner, Linear, Plan};
//! let fusion = Fusion::new(Linear::new(1, 2, 1))
//!     .with("host", Linear::new(1, 1, 1))
//!     .with("guest", Linear::new(1, 1, 1));
//! let mut fusion = Learner::new(fusion, 0, Plan::default());
//! // host 2x, guest 3x, head z₁ + 10·z₂ + 0.5
//! fusion.set_parameters(&[2.0, 0.0, 3.0, 0.0, 1.0, 10.0, 0.5]).unwrap();
//! let mut y = [0.0];
//! fusion.infer(&[1.0, 1.0], &mut y);
//! assert_eq!(y, [32.5]);
//! ```

use std::ops::Range;

use crate::layer::{BackwardPass, Given, Layer, Memory, Pass, carve};
use crate::layout::Layout;
use crate::random::Draw;

/// The model, see the [module](self). Parameters: those of the parts, then those of the head.
pub struct Fusion {
    parts: Vec<Part>,
    head: Part,
}

struct Part {
    name: String,
    layer: Box<dyn Layer>,
    parameters: Range<usize>,
    prepared: Range<usize>,
    /// Within a sample of the whole input.
    input: Range<usize>,
    /// Within a sample of the fused vector.
    output: Range<usize>,
}

impl Fusion {
    /// A head, to which parts are added by [`with`](Self::with).
    pub fn new(head: impl Layer + 'static) -> Self {
        Fusion { parts: Vec::new(), head: Part::after(None, "head", Box::new(head)) }
    }

    /// Adds a part; its parameters get this name before theirs.
    ///
    /// # Panics
    /// If the parts give more than the head takes.
    pub fn with(mut self, name: &str, part: impl Layer + 'static) -> Self {
        self.parts.push(Part::after(self.parts.last(), name, Box::new(part)));
        assert!(
            self.fused_len() <= self.head.layer.input_len(),
            "the parts give {} values, the head takes {}",
            self.fused_len(),
            self.head.layer.input_len()
        );
        self.head = Part::after(self.parts.last(), "head", self.head.layer);
        self
    }

    /// Place of one part's parameters in the whole; that of the head is `"head"`.
    pub fn parameters_of(&self, part: &str) -> Option<Range<usize>> {
        self.all().find(|p| p.name == part).map(|p| p.parameters.clone())
    }

    fn all(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().chain([&self.head])
    }

    fn fused_len(&self) -> usize {
        self.parts.last().map_or(0, |part| part.output.end)
    }

    /// Lengths in `saved`: inputs part by part, outputs part by part, the fused vector.
    fn shared_lens(&self, samples: usize) -> [usize; 3] {
        let fused = samples * self.fused_len();
        [samples * self.input_len(), fused, fused]
    }
}

impl Part {
    fn after(last: Option<&Part>, name: &str, layer: Box<dyn Layer>) -> Self {
        let next = |end: Option<usize>, len: usize| end.unwrap_or(0)..end.unwrap_or(0) + len;
        Part {
            name: name.to_owned(),
            parameters: next(last.map(|p| p.parameters.end), layer.layout().len()),
            prepared: next(last.map(|p| p.prepared.end), layer.prepared_len()),
            input: next(last.map(|p| p.input.end), layer.input_len()),
            output: next(last.map(|p| p.output.end), layer.output_len()),
            layer,
        }
    }

    fn pass<'a>(&self, pass: &Pass<'a>) -> Pass<'a> {
        pass.part(self.parameters.clone(), self.prepared.clone())
    }
}

impl Layer for Fusion {
    fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        for part in self.all() {
            layout.add_part(&part.name, &part.layer.layout());
        }
        layout
    }
    fn input_len(&self) -> usize {
        self.parts.last().map_or(0, |part| part.input.end)
    }
    fn output_len(&self) -> usize {
        self.head.layer.output_len()
    }
    fn prepared_len(&self) -> usize {
        self.head.prepared.end
    }
    fn saved_len(&self, samples: usize) -> usize {
        let own: usize = self.all().map(|part| part.layer.saved_len(samples)).sum();
        own + self.shared_lens(samples).iter().sum::<usize>()
    }
    fn scratch_len(&self, samples: usize) -> usize {
        let own = self.all().map(|part| part.layer.scratch_len(samples)).max();
        own.unwrap_or(0) + self.shared_lens(samples).iter().sum::<usize>()
    }

    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        for part in self.all() {
            part.layer.initialise(draw, &mut parameters[part.parameters.clone()]);
        }
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        for part in self.all() {
            let (from, to) = (part.parameters.clone(), part.prepared.clone());
            part.layer.prepare(&parameters[from], &mut prepared[to]);
        }
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let samples = pass.samples;
        let lens = self.shared_lens(samples);
        let (shared, mut saved) = memory.saved.split_at_mut(lens.iter().sum());
        let [inputs, outputs, fused] = carve(shared, lens);
        for part in &self.parts {
            let x_part = &mut inputs[samples * part.input.start..samples * part.input.end];
            take_columns(x, self.input_len(), part.input.clone(), x_part);
            let z = &mut outputs[samples * part.output.start..samples * part.output.end];
            let (own, rest) = saved.split_at_mut(part.layer.saved_len(samples));
            let memory = Memory { saved: own, scratch: &mut *memory.scratch };
            part.layer.forward(&part.pass(pass), x_part, z, memory);
            put_columns(z, self.fused_len(), part.output.clone(), fused);
            saved = rest;
        }
        let memory = Memory { saved, scratch: memory.scratch };
        self.head.layer.forward(&self.head.pass(pass), fused, y, memory);
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, mut dx, gradient, memory } = work;
        let samples = pass.samples;
        let lens = self.shared_lens(samples);
        let total = lens.iter().sum();
        let saved = &mut memory.saved[..self.saved_len(samples)];
        let (shared, saved) = saved.split_at_mut(total);
        let [inputs, outputs, fused] = carve(shared, lens);
        let (buffers, scratch) = memory.scratch.split_at_mut(total);
        let [d_inputs, d_outputs, d_fused] = carve(buffers, lens);

        let head = &self.head;
        let (mut saved, own) = saved.split_at_mut(saved.len() - head.layer.saved_len(samples));
        let known = Given { x: fused, y: given.y };
        let own = Memory { saved: own, scratch: &mut *scratch };
        let d_head = &mut gradient[head.parameters.clone()];
        head.layer.backward(
            &head.pass(pass),
            BackwardPass { given: known, dy, dx: Some(d_fused), gradient: d_head, memory: own },
        );
        for part in self.parts.iter().rev() {
            let dz = &mut d_outputs[samples * part.output.start..samples * part.output.end];
            take_columns(d_fused, self.fused_len(), part.output.clone(), dz);
            let (rest, own) = saved.split_at_mut(saved.len() - part.layer.saved_len(samples));
            let known = Given {
                x: &inputs[samples * part.input.start..samples * part.input.end],
                y: &outputs[samples * part.output.start..samples * part.output.end],
            };
            let memory = Memory { saved: own, scratch: &mut *scratch };
            let d_part = &mut gradient[part.parameters.clone()];
            let dx_part = &mut d_inputs[samples * part.input.start..samples * part.input.end];
            let wanted = dx.is_some().then_some(&mut *dx_part);
            part.layer.backward(
                &part.pass(pass),
                BackwardPass { given: known, dy: dz, dx: wanted, gradient: d_part, memory },
            );
            if let Some(dx) = dx.as_deref_mut() {
                put_columns(dx_part, self.input_len(), part.input.clone(), dx);
            }
            saved = rest;
        }
    }

    fn finish_gradient(&self, gradient: &mut [f32]) {
        for part in self.all() {
            part.layer.finish_gradient(&mut gradient[part.parameters.clone()]);
        }
    }
}

/// Copies some columns of a row-major matrix of this width.
fn take_columns(matrix: &[f32], width: usize, columns: Range<usize>, to: &mut [f32]) {
    for (row, to) in matrix.chunks_exact(width).zip(to.chunks_exact_mut(columns.len())) {
        to.copy_from_slice(&row[columns.clone()]);
    }
}

/// The opposite of [`take_columns`].
fn put_columns(from: &[f32], width: usize, columns: Range<usize>, matrix: &mut [f32]) {
    for (row, from) in matrix.chunks_exact_mut(width).zip(from.chunks_exact(columns.len())) {
        row[columns.clone()].copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_layer;
    use crate::{Activation, Chain, Linear};

    /// Two chains and a head, composed by hand.
    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        let part = |inputs| {
            Chain::new()
                .then("a", Linear::new(1, inputs, 3).then(Activation::Silu))
                .then("b", Linear::new(1, 3, 2).then(Activation::Tanh))
        };
        let fusion = Fusion::new(Linear::new(1, 4, 2)).with("p", part(3)).with("q", part(2));
        assert_eq!(fusion.parameters_of("q"), Some(20..37));
        let apply = |w: &[f64], x: &[f64], outputs: usize| -> Vec<f64> {
            let (w, b) = w.split_at(x.len() * outputs);
            (0..outputs)
                .map(|j| b[j] + (0..x.len()).map(|i| x[i] * w[i * outputs + j]).sum::<f64>())
                .collect()
        };
        let chain = |w: &[f64], x: &[f64]| -> Vec<f64> {
            let (first, second) = w.split_at(3 * x.len() + 3);
            let hidden: Vec<f64> =
                apply(first, x, 3).iter().map(|v| v / (1.0 + (-v).exp())).collect();
            apply(second, &hidden, 2).iter().map(|v| v.tanh()).collect()
        };
        check_layer(&fusion, 3, 4, |w, x| {
            let mut z = chain(&w[..20], &x[..3]);
            z.extend(chain(&w[20..37], &x[3..]));
            apply(&w[37..], &z, 2)
        });
    }
}
