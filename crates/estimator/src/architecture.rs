//! The joint models: the host's part, the guest's part and the host's head.
//!
//! `link`, the default: one set of weights for all links.
//!
//! ```text
//! guest   [window, embedding] → 64 → 2 × (x + f(x, mean upstream, mean downstream)) → d per link
//!         + a linear map of each link's own window → d per link
//! host    [loops, signal clock] → 32 for all links; green shares per link
//! head    [host | guest | embedding] → 64 → 1 × message passing → 64 → correction and gate
//!         density, flow = correction + gate · (a linear map of each link's own inputs)
//! ```
//!
//! `paper`: an STGCN for each party, embeddings of 9 numbers, a head of one hidden layer.
//!
//! Only the guest's output crosses between parties: `d` numbers per link, or 9 in all.

use neural::{
    Activate, Activation, Chain, Dropout, Fusion, Layer, Linear, MessagePassing, MessageShape,
    NodeEmbedding, Residual, Sparse, SparseError, StgcnError, StgcnShape, head, scaled_laplacian,
    stgcn,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::Network;

use crate::inputs::Arrangement;
use crate::layers::{Gated, Interleave, PerNode, Spread, Sum};
use crate::study::WINDOW;

/// Weight of a turn in the paper's graph: exp(−(1/10)²/0.1).
const TURN_WEIGHT: f32 = 0.904_837_4;
/// Width of the paper's embeddings.
const PAPER_EMBEDDING: usize = 9;
/// Hidden units of the paper's head.
const PAPER_HIDDEN: usize = 272;

/// Which model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// One set of weights for all links, with message passing.
    Link,
    /// The paper's: STGCN sub-models and a small head.
    Paper,
}

impl Architecture {
    /// How it wants its features.
    pub fn arrangement(self) -> Arrangement {
        match self {
            Architecture::Link => Arrangement::ByLink,
            Architecture::Paper => Arrangement::ByStep,
        }
    }
}

/// Sizes of a joint model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// Which model.
    pub architecture: Architecture,
    /// Numbers that the host has for the whole network.
    pub shared: usize,
    /// Numbers that the host has for each link.
    pub host: usize,
    /// Numbers that the guest has for each link; 0 without a guest.
    pub guest: usize,
    /// Whether the guest's numbers are density, flow and mask of each step, to be passed on.
    pub direct: bool,
    /// Sizes of the `link` model.
    pub sizes: Sizes,
}

/// Sizes of the `link` model that one may choose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Numbers per link that cross from guest to host.
    pub crossing: usize,
    /// Units of a link.
    pub units: usize,
    /// Numbers that are learned for each link.
    pub embedding: usize,
    /// Rounds of message passing in the guest's part.
    pub guest_rounds: usize,
    /// Rounds of message passing in the head.
    pub head_rounds: usize,
    /// Share of units dropped in training.
    pub dropout: f32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { crossing: 4, units: 64, embedding: 8, guest_rounds: 2, head_rounds: 1, dropout: 0.1 }
    }
}

/// Why there is no such model.
#[derive(Debug, Error, PartialEq)]
pub enum ModelError {
    /// The graph.
    #[error(transparent)]
    Graph(#[from] SparseError),
    /// The STGCN.
    #[error(transparent)]
    Stgcn(#[from] StgcnError),
    /// Too few numbers cross.
    #[error("numbers per link that cross: found {found}, expected at least 2")]
    Crossing {
        /// Asked for.
        found: usize,
    },
}

impl ModelShape {
    /// The joint model over a network. Inputs and outputs as [`Inputs`](crate::Inputs) writes
    /// them: the host's, then the guest's; density and flow of each link.
    pub fn build(&self, network: &Network) -> Result<Fusion, ModelError> {
        match self.architecture {
            Architecture::Link => self.build_link(network),
            Architecture::Paper => self.build_paper(network),
        }
    }

    fn build_link(&self, network: &Network) -> Result<Fusion, ModelError> {
        let roads = Roads::new(network)?;
        let nodes = roads.nodes;
        if self.guest > 0 && self.sizes.crossing < 2 {
            return Err(ModelError::Crossing { found: self.sizes.crossing });
        }
        let context = self.sizes.units / 2;
        let host_width = if self.shared > 0 { context + self.host } else { self.host };
        let crossing = if self.guest > 0 { self.sizes.crossing } else { 0 };

        let mut parts = vec![Spread::PerNode(host_width)];
        parts.extend((self.guest > 0).then_some(Spread::PerNode(crossing)));
        let width = host_width + crossing;
        let body = Chain::new()
            .then("embedding", NodeEmbedding::new(1, nodes, width, self.sizes.embedding))
            .then("hidden", self.dense(nodes, width + self.sizes.embedding))
            .then("drop", Dropout::new(self.sizes.dropout, nodes * self.sizes.units, 100));
        let body = self
            .rounds(body, &roads, self.sizes.head_rounds, 200)
            .then("second", self.dense(nodes, self.sizes.units))
            .then("out", Linear::new(nodes, self.sizes.units, 4));
        let chosen: &[_] = if self.direct { &[(host_width, 0), (host_width + 1, 1)] } else { &[] };
        let head = Chain::new()
            .then("beside", Interleave::new(nodes, &parts))
            .then("estimate", Gated::new(body, PerNode::new(nodes, width, 2, chosen), 2));

        let local = Activate::new(Activation::Identity, nodes * self.host);
        let fusion = if self.shared > 0 {
            let beside =
                Interleave::new(nodes, &[Spread::Shared(context), Spread::PerNode(self.host)]);
            let shared = Linear::new(1, self.shared, context).then(Activation::Silu);
            let host = Fusion::new(beside).with("context", shared).with("local", local);
            Fusion::new(head).with("host", host)
        } else {
            Fusion::new(head).with("host", local)
        };
        Ok(if self.guest > 0 { fusion.with("guest", self.guest_part(&roads)) } else { fusion })
    }

    /// The guest's sub-model: its links' windows to what crosses.
    fn guest_part(&self, roads: &Roads) -> Sum {
        let nodes = roads.nodes;
        let body = Chain::new()
            .then("embedding", NodeEmbedding::new(1, nodes, self.guest, self.sizes.embedding))
            .then("hidden", self.dense(nodes, self.guest + self.sizes.embedding))
            .then("drop", Dropout::new(self.sizes.dropout, nodes * self.sizes.units, 300));
        let body = self
            .rounds(body, roads, self.sizes.guest_rounds, 400)
            .then("out", Linear::new(nodes, self.sizes.units, self.sizes.crossing));
        // The last step's density and flow are where the direct path starts.
        let last = 3 * (WINDOW - 1);
        let chosen: &[_] = if self.direct { &[(last, 0), (last + 1, 1)] } else { &[] };
        let direct = PerNode::new(nodes, self.guest, self.sizes.crossing, chosen);
        Sum::new(("body", body), ("direct", direct))
    }

    fn dense(&self, nodes: usize, inputs: usize) -> Linear {
        Linear::new(nodes, inputs, self.sizes.units).then(Activation::Silu)
    }

    fn rounds(&self, mut chain: Chain, roads: &Roads, rounds: usize, salt: u64) -> Chain {
        let (nodes, units) = (roads.nodes, self.sizes.units);
        for round in 0..rounds {
            let shape = MessageShape { slices: 1, inputs: units, outputs: units };
            let mix =
                MessagePassing::new(shape, &roads.upstream, &roads.downstream, Activation::Silu);
            let message = Chain::new()
                .then("mix", mix)
                .then("drop", Dropout::new(self.sizes.dropout, nodes * units, salt + round as u64));
            let round_name = format!("round{}", round + 1);
            chain = chain.then(&round_name, Residual::new(nodes, units, units, message));
        }
        chain
    }

    fn build_paper(&self, network: &Network) -> Result<Fusion, ModelError> {
        let nodes = network.links().len();
        let turns: Vec<_> = network
            .turns()
            .iter()
            .map(|turn| (turn.from.index(), turn.to.index(), TURN_WEIGHT))
            .collect();
        let largest = if has_cycle(network) { 2.0 } else { 1.0 };
        let laplacian = scaled_laplacian(&Sparse::new(nodes, &turns)?, largest);
        let parties = if self.guest > 0 { 2 } else { 1 };
        let fusion = Fusion::new(head(parties * PAPER_EMBEDDING, PAPER_HIDDEN, 2 * nodes))
            .with("host", stgcn(&StgcnShape::paper(self.host), &laplacian)?);
        Ok(if self.guest > 0 {
            fusion.with("guest", stgcn(&StgcnShape::paper(self.guest), &laplacian)?)
        } else {
            fusion
        })
    }
}

/// The means over neighbours.
struct Roads {
    nodes: usize,
    upstream: Sparse,
    downstream: Sparse,
}

impl Roads {
    fn new(network: &Network) -> Result<Self, SparseError> {
        let nodes = network.links().len();
        let turns: Vec<_> =
            network.turns().iter().map(|turn| (turn.from.index(), turn.to.index())).collect();
        let back: Vec<_> = turns.iter().map(|&(from, to)| (to, from)).collect();
        Ok(Self {
            nodes,
            upstream: Sparse::mean_over(nodes, &back)?,
            downstream: Sparse::mean_over(nodes, &turns)?,
        })
    }
}

/// Whether one can drive in a circle: links are taken away from the entries on, and some stay.
fn has_cycle(network: &Network) -> bool {
    let mut waiting: Vec<usize> =
        network.link_ids().map(|link| network.incoming(link).len()).collect();
    let mut free: Vec<_> = network.entries().collect();
    let mut taken = 0;
    while let Some(link) = free.pop() {
        taken += 1;
        for &turn in network.outgoing(link) {
            let next = network.turn(turn).to;
            waiting[next.index()] -= 1;
            if waiting[next.index()] == 0 {
                free.push(next);
            }
        }
    }
    taken < network.links().len()
}

/// Number of parameters, all parts together.
pub fn parameter_count(model: &Fusion) -> usize {
    model.layout().len()
}

#[cfg(test)]
mod tests;
