//! Parts that lie one after the other, put side by side at each node.
//!
//! ```text
//! x = [part_1: node × c_1 | part_2: c_2 | …]   →   y_n = [part_1 of n | part_2 | …]
//! ```
//!
//! A part is given for each node, or once for all and then repeated.

use neural::{BackwardPass, Layer, Memory, Pass};

/// How a part lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartLayout {
    /// This many channels of each node.
    PerNode(usize),
    /// This many channels, the same for all nodes.
    Shared(usize),
}

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Interleave {
    nodes: usize,
    parts: Vec<PartLayout>,
}

impl Interleave {
    /// Of these parts.
    pub(crate) fn new(nodes: usize, parts: &[PartLayout]) -> Self {
        Interleave { nodes, parts: parts.to_vec() }
    }

    /// Channels of a node, of all parts.
    pub(crate) fn channels(&self) -> usize {
        self.parts.iter().map(|part| part.channels()).sum()
    }

    /// Visits each run of values: (where in x, where in y, how many), for one sample.
    fn runs(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let width = self.channels();
        let (mut from, mut column) = (0, 0);
        for part in &self.parts {
            let count = part.channels();
            for node in 0..self.nodes {
                let ahead = if matches!(part, PartLayout::PerNode(_)) { node * count } else { 0 };
                visit(from + ahead, node * width + column, count);
            }
            from += part.len(self.nodes);
            column += count;
        }
    }
}

impl PartLayout {
    fn channels(self) -> usize {
        match self {
            PartLayout::PerNode(channels) | PartLayout::Shared(channels) => channels,
        }
    }

    fn len(self, nodes: usize) -> usize {
        match self {
            PartLayout::PerNode(channels) => nodes * channels,
            PartLayout::Shared(channels) => channels,
        }
    }
}

impl Layer for Interleave {
    fn input_len(&self) -> usize {
        self.parts.iter().map(|part| part.len(self.nodes)).sum()
    }
    fn output_len(&self) -> usize {
        self.nodes * self.channels()
    }

    fn forward(&self, _pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        let samples = x.chunks_exact(self.input_len());
        for (x, y) in samples.zip(y.chunks_exact_mut(self.output_len())) {
            self.runs(|from, to, count| {
                y[to..to + count].copy_from_slice(&x[from..from + count]);
            });
        }
    }

    fn backward(&self, _pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { dy, dx, .. } = work;
        let Some(dx) = dx else { return };
        dx.fill(0.0);
        let samples = dx.chunks_exact_mut(self.input_len());
        for (dx, dy) in samples.zip(dy.chunks_exact(self.output_len())) {
            self.runs(|from, to, count| {
                super::add(&mut dx[from..from + count], &dy[to..to + count]);
            });
        }
    }
}
