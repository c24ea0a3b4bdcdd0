//! Each node beside the means of its neighbours, of two kinds: one half of message passing, to be
//! followed by a linear map.
//!
//! ```text
//! y_n = [x_n | mean over upstream m of x_m | mean over downstream m of x_m]
//! ```
//!
//! `x: [sample, node, channel]`; a node without neighbours of a kind gets zeros for it.

use neural::{Given, Layer, Layout, Memory, Pass, Sparse, carve};

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct Neighbours {
    means: [Sparse; 2],
    channels: usize,
}

impl Neighbours {
    /// The means over upstream and downstream neighbours, as matrices over the same nodes.
    pub fn new(upstream: &Sparse, downstream: &Sparse, channels: usize) -> Self {
        Neighbours { means: [upstream.clone(), downstream.clone()], channels }
    }
}

impl Layer for Neighbours {
    fn layout(&self) -> Layout {
        Layout::default()
    }
    fn input_len(&self) -> usize {
        self.means[0].nodes() * self.channels
    }
    fn output_len(&self) -> usize {
        3 * self.input_len()
    }
    fn scratch_len(&self, samples: usize) -> usize {
        2 * samples * self.input_len()
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let c = self.channels;
        put(x, c, 0, y);
        let mean = &mut memory.scratch[..pass.samples * self.input_len()];
        for (kind, matrix) in self.means.iter().enumerate() {
            matrix.multiply(c, x, mean);
            put(mean, c, 1 + kind, y);
        }
    }

    fn backward(
        &self,
        pass: &Pass<'_>,
        _given: Given<'_>,
        dy: &mut [f32],
        dx: Option<&mut [f32]>,
        _gradient: &mut [f32],
        memory: Memory<'_>,
    ) {
        let Some(dx) = dx else { return };
        let c = self.channels;
        let length = pass.samples * self.input_len();
        let [d_mean, back] = carve(memory.scratch, [length, length]);
        take(dy, c, 0, dx);
        for (kind, matrix) in self.means.iter().enumerate() {
            take(dy, c, 1 + kind, d_mean);
            matrix.multiply_transposed(c, d_mean, back);
            super::add(dx, back);
        }
    }
}

/// Writes rows of `c` values to the given third of rows three times as wide.
fn put(from: &[f32], c: usize, third: usize, to: &mut [f32]) {
    for (to, from) in to.chunks_exact_mut(3 * c).zip(from.chunks_exact(c)) {
        to[third * c..][..c].copy_from_slice(from);
    }
}

/// The opposite of [`put`].
fn take(from: &[f32], c: usize, third: usize, to: &mut [f32]) {
    for (from, to) in from.chunks_exact(3 * c).zip(to.chunks_exact_mut(c)) {
        to.copy_from_slice(&from[third * c..][..c]);
    }
}
