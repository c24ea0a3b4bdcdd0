//! A learned row of numbers for each node, beside its channels.
//!
//! ```text
//! y_n = [x_n | e_n]      x: [sample, node, input]   e: [node, width]
//! ```

use neural::{Draw, Given, Layer, Layout, Memory, Pass};

/// The layer, see the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    nodes: usize,
    inputs: usize,
    width: usize,
}

impl Embedding {
    /// Adds `width` learned channels to the `inputs` of each node.
    pub fn new(nodes: usize, inputs: usize, width: usize) -> Self {
        Embedding { nodes, inputs, width }
    }
}

impl Layer for Embedding {
    fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        layout.add("rows", &[self.nodes, self.width]);
        layout
    }
    fn input_len(&self) -> usize {
        self.nodes * self.inputs
    }
    fn output_len(&self) -> usize {
        self.nodes * (self.inputs + self.width)
    }
    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        parameters.iter_mut().for_each(|value| *value = 0.5 * draw.normal());
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        let rows = pass.parameters.chunks_exact(self.width).cycle();
        let to = y.chunks_exact_mut(self.inputs + self.width);
        for ((y, x), row) in to.zip(x.chunks_exact(self.inputs)).zip(rows) {
            y[..self.inputs].copy_from_slice(x);
            y[self.inputs..].copy_from_slice(row);
        }
    }

    fn backward(
        &self,
        _pass: &Pass<'_>,
        _given: Given<'_>,
        dy: &mut [f32],
        dx: Option<&mut [f32]>,
        gradient: &mut [f32],
        _memory: Memory<'_>,
    ) {
        let width = self.inputs + self.width;
        for sample in dy.chunks_exact(self.nodes * width) {
            let rows = gradient.chunks_exact_mut(self.width);
            for (row, dy) in rows.zip(sample.chunks_exact(width)) {
                super::add(row, &dy[self.inputs..]);
            }
        }
        let Some(dx) = dx else { return };
        for (dx, dy) in dx.chunks_exact_mut(self.inputs).zip(dy.chunks_exact(width)) {
            dx.copy_from_slice(&dy[..self.inputs]);
        }
    }
}
