//! A linear map of its own for each node, or one for all of them.
//!
//! ```text
//! y_n = x_n·W_n + b_n      x: [sample, node, input]   W: [node, input, output]
//! ```

use std::ops::Range;

use neural::{BackwardPass, Draw, Layer, Layout, Memory, Pass, Product, Start};

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct PerNode {
    nodes: usize,
    /// As many as nodes, or 1.
    maps: usize,
    inputs: usize,
    outputs: usize,
    /// (input, output, weight) of those that do not start at 0.
    chosen: Vec<(usize, usize, f32)>,
}

impl PerNode {
    /// Starts at zero, apart from the chosen weights: (input, output, weight).
    pub(crate) fn new(
        nodes: usize,
        inputs: usize,
        outputs: usize,
        chosen: &[(usize, usize, f32)],
    ) -> Self {
        PerNode { nodes, maps: nodes, inputs, outputs, chosen: chosen.to_vec() }
    }

    /// The same map for all nodes.
    pub(crate) fn alike(self) -> Self {
        PerNode { maps: self.nodes.min(1), ..self }
    }

    fn weights(&self) -> usize {
        self.inputs * self.outputs
    }

    fn map(&self, node: usize) -> usize {
        if self.maps == self.nodes { node } else { 0 }
    }

    fn weight(&self, node: usize) -> Range<usize> {
        let from = self.map(node) * self.weights();
        from..from + self.weights()
    }

    fn bias(&self, node: usize) -> Range<usize> {
        let from = self.maps * self.weights() + self.map(node) * self.outputs;
        from..from + self.outputs
    }
}

impl Layer for PerNode {
    fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        layout.add("weight", &[self.maps, self.inputs, self.outputs]);
        layout.add("bias", &[self.maps, self.outputs]);
        layout
    }
    fn input_len(&self) -> usize {
        self.nodes * self.inputs
    }
    fn output_len(&self) -> usize {
        self.nodes * self.outputs
    }
    /// The transposed weights.
    fn prepared_len(&self) -> usize {
        self.maps * self.weights()
    }

    fn initialise(&self, _draw: &mut Draw, parameters: &mut [f32]) {
        parameters.fill(0.0);
        for node in 0..self.maps {
            let weight = &mut parameters[self.weight(node)];
            for &(input, output, start) in &self.chosen {
                weight[input * self.outputs + output] = start;
            }
        }
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        for node in 0..self.maps {
            let to = &mut prepared[self.weight(node)];
            for (i, row) in parameters[self.weight(node)].chunks_exact(self.outputs).enumerate() {
                for (j, value) in row.iter().enumerate() {
                    to[j * self.inputs + i] = *value;
                }
            }
        }
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        let product = Product {
            a_row: self.input_len(),
            c_row: self.output_len(),
            ..Product::dense(pass.samples, self.inputs, self.outputs)
        };
        for node in 0..self.nodes {
            let (x, y) = (&x[node * self.inputs..], &mut y[node * self.outputs..]);
            let bias = Start::Row(&pass.parameters[self.bias(node)]);
            product.run(x, &pass.parameters[self.weight(node)], bias, y);
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, mut dx, gradient, .. } = work;
        let samples = pass.samples;
        let weight = Product {
            a_depth: self.input_len(),
            b_row: self.output_len(),
            ..Product::transposed(samples, self.inputs, self.outputs)
        };
        let input = Product {
            a_row: self.output_len(),
            c_row: self.input_len(),
            ..Product::dense(samples, self.outputs, self.inputs)
        };
        for node in 0..self.nodes {
            let d_node = &dy[node * self.outputs..];
            let x = &given.x[node * self.inputs..];
            weight.run(x, d_node, Start::Keep, &mut gradient[self.weight(node)]);
            for sample in dy.chunks_exact(self.output_len()) {
                let d_node = &sample[node * self.outputs..][..self.outputs];
                super::add(&mut gradient[self.bias(node)], d_node);
            }
            if let Some(dx) = dx.as_deref_mut() {
                let dx = &mut dx[node * self.inputs..];
                input.run(d_node, &pass.prepared[self.weight(node)], Start::Zero, dx);
            }
        }
    }
}
