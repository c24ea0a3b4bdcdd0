//! A learned vector for each node, put beside its features.
//!
//! ```text
//! y[n] = [x[n] | e[n]]        x: [sample, slice, node, input]   e: [node, width]
//! ```
//!
//! Backward: `de[n] += Σ dy[n, input…]` over samples and slices.
//!
//! ```
//! use neural::{Learner, NodeEmbedding, Plan};
//! let mut layer = Learner::new(NodeEmbedding::new(1, 2, 1, 1), 0, Plan::default());
//! layer.set_parameters(&[7.0, 8.0]).unwrap();
//! let mut y = [0.0; 4];
//! layer.infer(&[1.0, 2.0], &mut y);
//! assert_eq!(y, [1.0, 7.0, 2.0, 8.0]);
//! ```

use crate::layer::{BackwardPass, Layer, Memory, Pass};
use crate::layout::Layout;
use crate::random::Draw;
use crate::vector;

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct NodeEmbedding {
    slices: usize,
    nodes: usize,
    inputs: usize,
    width: usize,
    layout: Layout,
}

impl NodeEmbedding {
    /// For samples `[slices, nodes, inputs]`; each node gets `width` numbers.
    pub fn new(slices: usize, nodes: usize, inputs: usize, width: usize) -> Self {
        let mut layout = Layout::default();
        layout.add("table", &[nodes, width]);
        NodeEmbedding { slices, nodes, inputs, width, layout }
    }
}

impl Layer for NodeEmbedding {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.slices * self.nodes * self.inputs
    }
    fn output_len(&self) -> usize {
        self.slices * self.nodes * (self.inputs + self.width)
    }

    /// Small normal numbers: nodes start out nearly alike.
    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        parameters.iter_mut().for_each(|value| *value = 0.1 * draw.normal());
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        let row = self.inputs + self.width;
        for (i, y) in y.chunks_exact_mut(row).enumerate() {
            let node = i % self.nodes;
            y[..self.inputs].copy_from_slice(&x[i * self.inputs..(i + 1) * self.inputs]);
            let table = &pass.parameters[node * self.width..(node + 1) * self.width];
            y[self.inputs..].copy_from_slice(table);
        }
    }

    fn backward(&self, _pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { dy, mut dx, gradient, .. } = work;
        let row = self.inputs + self.width;
        for (i, dy) in dy.chunks_exact(row).enumerate() {
            let node = i % self.nodes;
            let table = &mut gradient[node * self.width..(node + 1) * self.width];
            vector::add(table, &dy[self.inputs..]);
            if let Some(dx) = dx.as_deref_mut() {
                dx[i * self.inputs..(i + 1) * self.inputs].copy_from_slice(&dy[..self.inputs]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_layer;

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        check_layer(&NodeEmbedding::new(2, 3, 2, 4), 2, 1, |w, x| {
            let rows = x.chunks_exact(2).enumerate();
            rows.flat_map(|(i, x)| [x, &w[i % 3 * 4..i % 3 * 4 + 4]].concat()).collect()
        });
    }
}
