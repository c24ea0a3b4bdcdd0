//! The memory of lanes and chunks.

use crate::layer::{BackwardPass, Given, Layer, Memory, Pass};

/// One accumulator of gradients and losses.
#[derive(Default)]
pub(super) struct Lane {
    /// Chunks whose gradients it adds up. Without any, the gradient is not touched.
    pub chunks: usize,
    pub gradient: Vec<f32>,
    pub loss: f64,
}

/// Memory for one chunk.
pub(super) struct Work {
    pub y: Vec<f32>,
    pub dy: Vec<f32>,
    pub saved: Vec<f32>,
    pub scratch: Vec<f32>,
}

impl Lane {
    pub fn start(&mut self, parameters: usize, chunks: usize) {
        (self.chunks, self.loss) = (chunks, 0.0);
        if chunks > 0 {
            self.gradient.resize(parameters, 0.0);
            self.gradient.fill(0.0);
        }
    }
}

impl Work {
    pub fn new(model: &impl Layer, samples: usize) -> Self {
        Work {
            y: vec![0.0; samples * model.output_len()],
            dy: vec![0.0; samples * model.output_len()],
            saved: vec![0.0; model.saved_len(samples)],
            scratch: vec![0.0; model.scratch_len(samples)],
        }
    }

    pub(crate) fn forward(&mut self, model: &impl Layer, pass: &Pass<'_>, x: &[f32]) {
        let y = &mut self.y[..pass.samples * model.output_len()];
        let memory = Memory { saved: &mut self.saved, scratch: &mut self.scratch };
        model.forward(pass, x, y, memory);
    }

    pub(crate) fn backward(
        &mut self,
        model: &impl Layer,
        pass: &Pass<'_>,
        x: &[f32],
        dx: Option<&mut [f32]>,
        gradient: &mut [f32],
    ) {
        let length = pass.samples * model.output_len();
        let given = Given { x, y: &self.y[..length] };
        let memory = Memory { saved: &mut self.saved, scratch: &mut self.scratch };
        model.backward(
            pass,
            BackwardPass { given, dy: &mut self.dy[..length], dx, gradient, memory },
        );
    }
}
