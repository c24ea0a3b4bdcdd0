//! Chebyshev graph convolution: each node mixes its neighbourhood, order by order.
//!
//! ```text
//! y[n] = f(b + r[n] + Σ_k Σ_m T_k(L)[n, m]·x[m]·Θ_k)        k = 0 … K−1
//! T_0 = I,  T_1 = L,  T_k = 2·L·T_{k−1} − T_{k−2}
//! ```
//!
//! `x: [sample, slice, node, input]`, `Θ: [input, K, output]`, `y: [sample, slice, node, output]`,
//! `L` a scaled Laplacian ([`scaled_laplacian`]). The optional residual `r` is `x`, widened by
//! zeros; it is added to Θ_0 before the pass.
//!
//! With `Z_k = x·Θ_k`, graphs of at most [`SMALL_NODES`] nodes use the matrices `T_k`, which are
//! sparse too; larger ones use Clenshaw's recurrence on `L`, so that `T_k` is never formed:
//! `B_k = Z_k + 2·L·B_{k+1} − B_{k+2}`, `y = Z_0 + L·B_1 − B_2`. Backward is the recurrence of `T_k`
//! itself on `Lᵀ`.
//!
//! ```
//! use neural::{Activation, ChebConv, ChebShape, Learner, Plan, Sparse};
//! // Two nodes; L swaps them. T_0 = I, T_1 = L.
//! let swap = Sparse::new(2, &[(0, 1, 1.0), (1, 0, 1.0)]).unwrap();
//! let shape = ChebShape { orders: 2, slices: 1, inputs: 1, outputs: 1 };
//! let layer = ChebConv::new(shape, &swap, Activation::Identity, false);
//! let mut conv = Learner::new(layer, 0, Plan::default());
//! conv.set_parameters(&[1.0, 10.0, 0.5]).unwrap(); // Θ_0, Θ_1, b
//! let mut y = [0.0; 2];
//! conv.infer(&[3.0, 4.0], &mut y);
//! assert_eq!(y, [43.5, 34.5]);
//! ```

use std::ops::Range;

use crate::activation::Activation;
use crate::gemm::{Product, Start};
use crate::layer::{BackwardPass, Layer, Memory, Pass, carve};
use crate::layout::Layout;
use crate::linear::transpose;
use crate::random::Draw;
use crate::sparse::{Oblong, Sparse, Strided};
use crate::vector;

/// Graphs up to this size are convolved with the polynomials of their Laplacian.
pub const SMALL_NODES: usize = 32;

/// Sizes of a Chebyshev convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChebShape {
    /// Orders K of the polynomial.
    pub orders: usize,
    /// Slices (time steps) of a sample.
    pub slices: usize,
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
}

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct ChebConv {
    shape: ChebShape,
    nodes: usize,
    graph: Graph,
    activation: Activation,
    residual: bool,
    layout: Layout,
    weight: Range<usize>,
    bias: Range<usize>,
}

#[derive(Clone, Debug)]
enum Graph {
    /// T_1 … T_{K−1} side by side: columns are (node m, order k − 1).
    Small(Oblong),
    /// L.
    Large(Sparse),
}

/// The scaled Laplacian of a weighted graph, as in the STGCN: `L = D − W`, divided by
/// `√(d_i·d_j)` where both degrees are positive, then `2·L/λ − I`.
///
/// `d` are row sums. λ should be the largest eigenvalue: 1 for a directed graph without cycles
/// whose every node has successors or none, at most 2 for a symmetric one.
pub fn scaled_laplacian(weights: &Sparse, largest_eigenvalue: f32) -> Sparse {
    let mut degree = vec![0.0f32; weights.nodes()];
    for (row, _, weight) in weights.entries() {
        degree[row] += weight;
    }
    let mut entries = Vec::new();
    for (node, &d) in degree.iter().enumerate() {
        // The degree over itself; a node without successors has 0.
        let diagonal = if d > 0.0 { 1.0 } else { d };
        entries.push((node, node, 2.0 * diagonal / largest_eigenvalue - 1.0));
    }
    for (row, column, weight) in weights.entries() {
        let both = degree[row] * degree[column];
        let scaled = if both > 0.0 { weight / both.sqrt() } else { weight };
        entries.push((row, column, -2.0 * scaled / largest_eigenvalue));
    }
    // The entries come from a matrix of this size: they cannot lie outside.
    Sparse::new(weights.nodes(), &entries).unwrap_or_else(|_| weights.clone())
}

impl ChebConv {
    /// A convolution over the graph of `laplacian`.
    ///
    /// # Panics
    /// If there is no order, for SiLU and GELU (put those in a layer of their own), and for a
    /// residual wider than the output.
    pub fn new(
        shape: ChebShape,
        laplacian: &Sparse,
        activation: Activation,
        residual: bool,
    ) -> Self {
        let small = laplacian.nodes() <= SMALL_NODES;
        Self::build(shape, laplacian, activation, residual, small)
    }

    fn build(
        shape: ChebShape,
        laplacian: &Sparse,
        activation: Activation,
        residual: bool,
        small: bool,
    ) -> Self {
        assert!(shape.orders > 0, "a polynomial needs at least one order");
        assert!(!activation.needs_input(), "{activation:?} must be a layer of its own");
        assert!(
            !residual || shape.inputs <= shape.outputs,
            "a residual of {} channels does not fit {}",
            shape.inputs,
            shape.outputs
        );
        let mut layout = Layout::default();
        let weight = layout.add("weight", &[shape.inputs, shape.orders, shape.outputs]);
        let bias = layout.add("bias", &[shape.outputs]);
        let graph = if small {
            Graph::Small(polynomials(laplacian, shape.orders))
        } else {
            Graph::Large(laplacian.clone())
        };
        let nodes = laplacian.nodes();
        ChebConv { shape, nodes, graph, activation, residual, layout, weight, bias }
    }

    /// The products `x·Θ_k` of the orders above 0, into `z`.
    fn project(&self, rows: usize, x: &[f32], weight: &[f32], z: &mut [f32]) {
        let ChebShape { orders, inputs, outputs, .. } = self.shape;
        let product = Product { b_row: orders * outputs, ..Product::dense(rows, inputs, outputs) };
        match self.graph {
            // Orders side by side in each row.
            Graph::Small(_) => {
                let columns = (orders - 1) * outputs;
                let product = Product { columns, c_row: columns, ..product };
                product.run(x, &weight[outputs..], Start::Zero, z);
            }
            // One plane for each order, as the recurrence needs them.
            Graph::Large(_) => {
                for (k, z) in z.chunks_exact_mut(rows * outputs).enumerate() {
                    product.run(x, &weight[(k + 1) * outputs..], Start::Zero, z);
                }
            }
        }
    }

    /// `y ← f(y + Σ_{k ≥ 1} T_k·z_k)`; overwrites `z`.
    fn gather(&self, z: &mut [f32], y: &mut [f32]) {
        let (orders, outputs) = (self.shape.orders, self.shape.outputs);
        match &self.graph {
            Graph::Small(polynomials) => {
                let relu = self.activation == Activation::Relu;
                polynomials.add(outputs, z, relu, y);
                if relu {
                    return;
                }
            }
            Graph::Large(laplacian) => {
                let at = Strided::plain(outputs);
                let plane = y.len();
                for k in (0..orders - 1).rev() {
                    let (below, above) = z.split_at_mut((k + 1) * plane);
                    let b = &mut below[k * plane..];
                    if above.len() >= plane {
                        laplacian.add(at, &above[..plane], 2.0, b);
                    }
                    if above.len() >= 2 * plane {
                        vector::add_scaled(b, -1.0, &above[plane..2 * plane]);
                    }
                }
                laplacian.add(at, &z[..plane], 1.0, y);
                if z.len() >= 2 * plane {
                    vector::add_scaled(y, -1.0, &z[plane..2 * plane]);
                }
            }
        }
        self.activation.apply(y);
    }

    /// The gradients `dz_k = T_kᵀ·dy` of the orders above 0.
    fn scatter(&self, dy: &[f32], dz: &mut [f32]) {
        let (orders, outputs) = (self.shape.orders, self.shape.outputs);
        match &self.graph {
            Graph::Small(polynomials) => polynomials.multiply_transposed(outputs, dy, dz),
            Graph::Large(laplacian) => {
                let at = Strided::plain(outputs);
                let plane = dy.len();
                dz.fill(0.0);
                for k in 0..orders - 1 {
                    let (below, here) = dz.split_at_mut(k * plane);
                    let here = &mut here[..plane];
                    if k == 0 {
                        laplacian.add_transposed(at, dy, 1.0, here);
                        continue;
                    }
                    laplacian.add_transposed(at, &below[(k - 1) * plane..], 2.0, here);
                    let two_below =
                        if k == 1 { dy } else { &below[(k - 2) * plane..(k - 1) * plane] };
                    vector::add_scaled(here, -1.0, two_below);
                }
            }
        }
    }

    /// Values of the orders above 0.
    fn above_len(&self, samples: usize) -> usize {
        samples * self.output_len() * (self.shape.orders - 1)
    }
}

impl Layer for ChebConv {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.shape.slices * self.nodes * self.shape.inputs
    }
    fn output_len(&self) -> usize {
        self.shape.slices * self.nodes * self.shape.outputs
    }
    fn prepared_len(&self) -> usize {
        2 * self.weight.len()
    }
    fn scratch_len(&self, samples: usize) -> usize {
        self.above_len(samples)
    }

    fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
        // The bound of PyTorch's default for a weight [input, output, K].
        let fan_in = self.shape.outputs * self.shape.orders;
        draw.fill(parameters, 1.0 / (fan_in as f32).sqrt());
    }

    fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
        let ChebShape { orders, inputs, outputs, .. } = self.shape;
        let (weight, transposed) = prepared.split_at_mut(self.weight.len());
        weight.copy_from_slice(&parameters[self.weight.clone()]);
        if self.residual {
            for channel in 0..inputs {
                weight[channel * orders * outputs + channel] += 1.0;
            }
        }
        transpose(weight, orders * outputs, transposed);
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
        let ChebShape { orders, slices, inputs, outputs } = self.shape;
        let rows = pass.samples * slices * self.nodes;
        let weight = &pass.prepared[..self.weight.len()];
        let first = Product { b_row: orders * outputs, ..Product::dense(rows, inputs, outputs) };
        first.run(x, weight, Start::Row(&pass.parameters[self.bias.clone()]), y);
        if orders > 1 {
            let [z] = carve(memory.scratch, [self.above_len(pass.samples)]);
            self.project(rows, x, weight, z);
            self.gather(z, y);
        } else {
            self.activation.apply(y);
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, mut dx, gradient, memory } = work;
        let ChebShape { orders, slices, inputs, outputs } = self.shape;
        let rows = pass.samples * slices * self.nodes;
        self.activation.backward(given.y, dy);
        let transposed = &pass.prepared[self.weight.len()..];
        vector::add_rows(&mut gradient[self.bias.clone()], dy);
        let dw = &mut gradient[self.weight.clone()];
        let weights =
            Product { c_row: orders * outputs, ..Product::transposed(rows, inputs, outputs) };
        weights.run(given.x, dy, Start::Keep, dw);
        if let Some(dx) = dx.as_deref_mut() {
            Product::dense(rows, outputs, inputs).run(dy, transposed, Start::Zero, dx);
        }
        if orders == 1 {
            return;
        }
        let [dz] = carve(memory.scratch, [self.above_len(pass.samples)]);
        self.scatter(dy, dz);
        let above = (orders - 1) * outputs;
        let input = match self.graph {
            Graph::Small(_) => {
                let weights = Product { columns: above, b_row: above, ..weights };
                weights.run(given.x, dz, Start::Keep, &mut dw[outputs..]);
                Product::dense(rows, above, inputs)
            }
            Graph::Large(_) => {
                for (k, dz) in dz.chunks_exact(rows * outputs).enumerate() {
                    weights.run(given.x, dz, Start::Keep, &mut dw[(k + 1) * outputs..]);
                }
                Product {
                    segments: orders - 1,
                    a_segment: rows * outputs,
                    b_segment: outputs * inputs,
                    ..Product::dense(rows, outputs, inputs)
                }
            }
        };
        if let Some(dx) = dx {
            input.run(dz, &transposed[outputs * inputs..], Start::Keep, dx);
        }
    }
}

/// T_1 … T_{K−1} side by side, computed in f64.
fn polynomials(laplacian: &Sparse, orders: usize) -> Oblong {
    let nodes = laplacian.nodes();
    let mut before: Vec<f64> =
        (0..nodes * nodes).map(|i| f64::from(i % (nodes + 1) == 0)).collect();
    let times = |matrix: &[f64]| {
        let mut product = vec![0.0; nodes * nodes];
        for (row, column, value) in laplacian.entries() {
            for m in 0..nodes {
                product[row * nodes + m] += f64::from(value) * matrix[column * nodes + m];
            }
        }
        product
    };
    let mut current = times(&before);
    let above = orders.saturating_sub(1);
    let mut entries = Vec::new();
    for k in 0..above {
        for (place, &value) in current.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            entries.push((place / nodes, place % nodes * above + k, value as f32));
        }
        let next = times(&current).iter().zip(&before).map(|(lt, b)| 2.0 * lt - b).collect();
        before = std::mem::replace(&mut current, next);
    }
    entries.sort_by_key(|&(row, column, _)| (row, column));
    Oblong::new(nodes, nodes * above, &entries)
}

#[cfg(test)]
mod tests;
