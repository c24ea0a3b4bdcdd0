//! The paper's models: the spatio-temporal graph convolutional network (STGCN) and the head.
//!
//! ```text
//! block [a, b, c]:  gated conv a→b (3 steps)  →  Chebyshev conv b→b, residual, ReLU  →  linear b→b
//!                   →  conv b→c (3 steps), residual, ReLU  →  layer norm over (nodes, channels)
//! sub-model:        block  →  block  →  gated conv over the steps left  →  layer norm
//!                   →  conv of 1 step, residual, sigmoid  →  linear c→2  →  linear 2·nodes→9, ReLU
//! head:             linear 18→272, ReLU  →  linear 272→34
//! ```
//!
//! `x: [sample, time, node, channel]`, output `[sample, embedding]`. With 9 steps, blocks
//! `[c, 16, 64]`, `[64, 16, 64]` and kernels of 3, one step is left for the output.
//!
//! ```
//! use neural::{Layer, Sparse, StgcnShape, head, scaled_laplacian, stgcn};
//! let road = Sparse::new(17, &[(0, 1, 1.0)]).unwrap();
//! let laplacian = scaled_laplacian(&road, 1.0);
//! let host = stgcn(&StgcnShape::paper(1), &laplacian).unwrap();
//! assert_eq!((host.input_len(), host.output_len()), (9 * 17, 9));
//! assert_eq!(host.layout().len(), 35_181);
//! assert_eq!(head(18, 272, 34).layout().len(), 14_450);
//! ```

use crate::activation::Activation;
use crate::chain::Chain;
use crate::chebyshev::{ChebConv, ChebShape};
use crate::linear::Linear;
use crate::norm::LayerNorm;
use crate::sparse::Sparse;
use crate::temporal::{TemporalConv, TemporalShape};

/// Sizes of an STGCN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StgcnShape {
    /// Steps of a window.
    pub time: usize,
    /// Channels of the input.
    pub channels: usize,
    /// For each block, the channels within and after it.
    pub blocks: Vec<[usize; 2]>,
    /// Steps of a temporal kernel.
    pub kernel: usize,
    /// Orders of a Chebyshev polynomial.
    pub orders: usize,
    /// Numbers per node before the last map.
    pub per_node: usize,
    /// Length of the output.
    pub embedding: usize,
}

impl StgcnShape {
    /// The paper's: 9 steps, two blocks, kernels of 3, an embedding of 9.
    pub fn paper(channels: usize) -> Self {
        StgcnShape {
            time: 9,
            channels,
            blocks: vec![[16, 64], [16, 64]],
            kernel: 3,
            orders: 3,
            per_node: 2,
            embedding: 9,
        }
    }
}

/// Sizes that make no network.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StgcnError {
    /// The blocks use up more steps than there are.
    #[error("{blocks} blocks with kernels of {kernel} steps need more than the {time} steps given")]
    TooShort {
        /// Blocks.
        blocks: usize,
        /// Steps of a kernel.
        kernel: usize,
        /// Steps of a window.
        time: usize,
    },
    /// A size is zero.
    #[error("{what} must be at least 1")]
    Zero {
        /// Which size.
        what: &'static str,
    },
}

/// The sub-model over the graph of a scaled Laplacian.
pub fn stgcn(shape: &StgcnShape, laplacian: &Sparse) -> Result<Chain, StgcnError> {
    let nodes = laplacian.nodes();
    for (what, size) in [
        ("nodes", nodes),
        ("channels", shape.channels),
        ("blocks", shape.blocks.len()),
        ("kernel", shape.kernel),
        ("orders", shape.orders),
        ("per_node", shape.per_node),
        ("embedding", shape.embedding),
        ("width of a block", shape.blocks.iter().flatten().copied().min().unwrap_or(0)),
    ] {
        if size == 0 {
            return Err(StgcnError::Zero { what });
        }
    }
    let (blocks, kernel) = (shape.blocks.len(), shape.kernel);
    if shape.time <= 2 * blocks * (kernel - 1) {
        return Err(StgcnError::TooShort { blocks, kernel, time: shape.time });
    }
    let mut chain = Chain::new();
    let (mut time, mut inputs) = (shape.time, shape.channels);
    for (number, &[inner, outer]) in shape.blocks.iter().enumerate() {
        let block = format!("block{}", number + 1);
        let name = |layer: &str| format!("{block}.{layer}");
        let first = TemporalShape { kernel, time, nodes, inputs, outputs: inner };
        time -= kernel - 1;
        let graph = ChebShape { orders: shape.orders, slices: time, inputs: inner, outputs: inner };
        let second = TemporalShape { kernel, time, nodes, inputs: inner, outputs: outer };
        chain = chain
            .then(&name("gate"), TemporalConv::gated(first))
            .then(&name("graph"), ChebConv::new(graph, laplacian, Activation::Relu, true))
            .then(&block, TemporalConv::new(second, Activation::Relu).after_mix());
        time -= kernel - 1;
        chain = chain.then(&name("norm"), LayerNorm::new(time, nodes * outer));
        inputs = outer;
    }
    let gate = TemporalShape { kernel: time, time, nodes, inputs, outputs: inputs };
    let conv = TemporalShape { kernel: 1, time: 1, ..gate };
    let embed = Linear::new(1, nodes * shape.per_node, shape.embedding);
    Ok(chain
        .then("output.gate", TemporalConv::gated(gate))
        .then("output.norm", LayerNorm::new(1, nodes * inputs))
        .then("output.conv", TemporalConv::new(conv, Activation::Sigmoid))
        .then("output.node", Linear::new(nodes, inputs, shape.per_node))
        .then("output.embed", embed.then(Activation::Relu)))
}

/// A head with one hidden layer: linear, ReLU, linear.
pub fn head(inputs: usize, hidden: usize, outputs: usize) -> Chain {
    Chain::new()
        .then("hidden", Linear::new(1, inputs, hidden).then(Activation::Relu))
        .then("out", Linear::new(1, hidden, outputs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;

    #[test]
    fn sizes_that_make_no_network_are_refused() {
        let laplacian = Sparse::new(2, &[]).unwrap();
        let short = StgcnShape { time: 8, ..StgcnShape::paper(1) };
        let expected = StgcnError::TooShort { blocks: 2, kernel: 3, time: 8 };
        assert_eq!(stgcn(&short, &laplacian).err(), Some(expected));
        let paper = || StgcnShape::paper(1);
        for (shape, what) in [
            (StgcnShape::paper(0), "channels"),
            (StgcnShape { blocks: Vec::new(), ..paper() }, "blocks"),
            (StgcnShape { kernel: 0, ..paper() }, "kernel"),
            (StgcnShape { orders: 0, ..paper() }, "orders"),
            (StgcnShape { per_node: 0, ..paper() }, "per_node"),
            (StgcnShape { embedding: 0, ..paper() }, "embedding"),
            (StgcnShape { blocks: vec![[16, 64], [16, 0]], ..paper() }, "width of a block"),
        ] {
            assert_eq!(stgcn(&shape, &laplacian).err(), Some(StgcnError::Zero { what }));
        }
        let nobody = Sparse::new(0, &[]).unwrap();
        assert_eq!(stgcn(&paper(), &nobody).err(), Some(StgcnError::Zero { what: "nodes" }));
    }

    /// Whatever steps are left after the blocks, the last gate takes all of them.
    #[test]
    fn windows_of_any_sufficient_length_give_one_embedding() {
        let laplacian = Sparse::new(3, &[]).unwrap();
        for time in [9, 10, 14] {
            let shape = StgcnShape { time, embedding: 4, ..StgcnShape::paper(2) };
            let model = stgcn(&shape, &laplacian).unwrap();
            assert_eq!((model.input_len(), model.output_len()), (time * 3 * 2, 4));
            // The gate's kernel has time − 8 steps of 64 → 2·64 channels.
            let gate = model.layout();
            let weight = gate.find("output.gate.weight").unwrap();
            assert_eq!(weight.range.len(), (time - 8) * 64 * 128);
        }
        // Kernels of one step use up none.
        let shape = StgcnShape { time: 1, kernel: 1, ..StgcnShape::paper(1) };
        assert_eq!(stgcn(&shape, &laplacian).unwrap().output_len(), 9);
    }

    /// The counts of the paper's code: 35,181 for one channel, 35,277 for two.
    #[test]
    fn the_paper_has_this_many_parameters() {
        let laplacian = Sparse::new(17, &[]).unwrap();
        for (channels, expected) in [(1, 35_181), (2, 35_277)] {
            let model = stgcn(&StgcnShape::paper(channels), &laplacian).unwrap();
            assert_eq!(model.layout().len(), expected);
        }
    }
}
