//! A layer around which its input also passes unchanged: `y = x + f(x)`.

use neural::{Draw, Given, Layer, Layout, Memory, Pass};

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct Residual<L> {
    inner: L,
}

impl<L: Layer> Residual<L> {
    /// Around a layer.
    ///
    /// # Panics
    /// If its output has another length than its input.
    pub fn new(inner: L) -> Self {
        assert_eq!(inner.input_len(), inner.output_len(), "a residual keeps the length");
        Residual { inner }
    }
}

impl<L: Layer> Layer for Residual<L> {
    fn layout(&self) -> Layout {
        self.inner.layout()
    }
    fn input_len(&self) -> usize {
        self.inner.input_len()
    }
    fn output_len(&self) -> usize {
        self.inner.output_len()
    }
    fn prepared_len(&self) -> usize {
        self.inner.prepared_len()
    }
    /// What the inner layer keeps, then its output.
    fn saved_len(&self, samples: usize) -> usize {
        self.inner.saved_len(samples) + samples * self.output_len()
    }
    fn scratch_len(&self, samples: usize) -> usize {
        self.inner.scratch_len(samples) + samples * self.output_len()
    }
    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        self.inner.initialise(draw, parameters);
    }
    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        self.inner.prepare(parameters, prepared);
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let (own, inner_y) = memory.saved.split_at_mut(self.inner.saved_len(pass.samples));
        let inner_y = &mut inner_y[..y.len()];
        let memory = Memory { saved: own, scratch: memory.scratch };
        self.inner.forward(pass, x, inner_y, memory);
        y.copy_from_slice(x);
        super::add(y, inner_y);
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
        let (own, inner_y) = memory.saved.split_at_mut(self.inner.saved_len(pass.samples));
        let (kept, scratch) = memory.scratch.split_at_mut(dy.len());
        kept.copy_from_slice(dy);
        let known = Given { x: given.x, y: &inner_y[..given.y.len()] };
        let memory = Memory { saved: own, scratch };
        match dx {
            Some(dx) => {
                self.inner.backward(pass, known, dy, Some(&mut *dx), gradient, memory);
                super::add(dx, kept);
            }
            None => self.inner.backward(pass, known, dy, None, gradient, memory),
        }
    }

    fn finish_gradient(&self, gradient: &mut [f32]) {
        self.inner.finish_gradient(gradient);
    }
}
