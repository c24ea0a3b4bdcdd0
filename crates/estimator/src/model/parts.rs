//! What a guest may have as its sub-model: its links' windows in, what crosses to the host out.
//!
//! | kind | model |
//! |---|---|
//! | `link` | one set of weights for all links, message passing, a linear path of each link's own |
//! | `stgcn` | the paper's spatio-temporal graph convolution |
//! | `mlp` | two hidden layers: the same for all links, or over the whole network |
//! | `linear` | a linear map: of each link's own, or over the whole network |
//! | `own`, `own-by-step` | a guest's custom sub-model, with its features by link or by step |
//!
//! A guest gives some numbers for each link, or some for the whole network ([`EmbeddingShape`]).

use neural::{
    Chain, Dropout, Layer, Linear, NodeEmbedding, Sparse, StgcnShape, hash, scaled_laplacian, stgcn,
};
use serde::{Deserialize, Serialize};
use traffic::Network;

use crate::data::inputs::Arrangement;
use crate::data::study::WINDOW;
use crate::model::layers::{PerNode, Sum};
use crate::model::model_error::ModelError;
use crate::model::sizes::Sizes;

/// Weight of a turn in the paper's graph: exp(−(1/10)²/0.1).
const TURN_WEIGHT: f32 = 0.904_837_4;
/// Most numbers per link, or for the whole network, that a guest may give.
const MOST_PER_LINK: usize = 256;
const MOST_WHOLE: usize = 1 << 16;

/// The kinds of sub-models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubModelKind {
    /// One set of weights for all links.
    Link,
    /// The paper's.
    Stgcn,
    /// Two hidden layers.
    Mlp,
    /// A linear map.
    Linear,
    /// The guest's own, which nobody else can build.
    #[serde(rename = "own")]
    Custom,
    /// The same, with its features by step.
    #[serde(rename = "own-by-step")]
    CustomByStep,
}

impl SubModelKind {
    /// How it wants its features.
    pub fn arrangement(self) -> Arrangement {
        match self {
            SubModelKind::Stgcn | SubModelKind::CustomByStep => Arrangement::ByStep,
            _ => Arrangement::ByLink,
        }
    }
}

/// What a guest gives for each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddingShape {
    /// This many numbers for each link.
    PerLink(usize),
    /// This many for the whole network.
    Whole(usize),
}

impl EmbeddingShape {
    /// Numbers of one sample.
    pub fn len(self, links: usize) -> usize {
        match self {
            EmbeddingShape::PerLink(each) => links * each,
            EmbeddingShape::Whole(all) => all,
        }
    }

    pub(crate) fn check(self, guest: &str) -> Result<(), ModelError> {
        let (found, most) = match self {
            EmbeddingShape::PerLink(each) => (each, MOST_PER_LINK),
            EmbeddingShape::Whole(all) => (all, MOST_WHOLE),
        };
        if (1..=most).contains(&found) {
            return Ok(());
        }
        Err(ModelError::EmbeddingShape { guest: guest.to_owned(), found, most })
    }
}

/// A guest's sub-model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestShape {
    /// The guest's name: tells its draws of weights and dropout from the others'.
    pub name: String,
    /// Which model.
    pub sub_model: SubModelKind,
    /// Numbers for each link in one sample, those of `stgcn` in one step.
    pub channels: usize,
    /// Whether the numbers of a link start with density, flow and mask of each step.
    pub totals: bool,
    /// What it gives.
    pub embedding: EmbeddingShape,
    /// Its sizes.
    pub sizes: Sizes,
    /// Steps of a window.
    #[serde(default = "usual_window", skip_serializing_if = "is_usual_window")]
    pub window: usize,
}

/// That of shapes that were saved before one could choose it.
pub(crate) fn usual_window() -> usize {
    WINDOW
}

pub(crate) fn is_usual_window(window: &usize) -> bool {
    *window == WINDOW
}

impl GuestShape {
    /// Whether the first numbers of a link start as its last density and flow.
    pub(crate) fn direct(&self) -> bool {
        let kind = matches!(self.sub_model, SubModelKind::Link | SubModelKind::Linear);
        kind && self.totals && matches!(self.embedding, EmbeddingShape::PerLink(_))
    }

    /// The model over a network. Inputs as [`GuestInputs`](crate::GuestInputs) writes them.
    pub fn build(&self, network: &Network) -> Result<Box<dyn Layer>, ModelError> {
        self.embedding.check(&self.name)?;
        self.sizes.check()?;
        if self.channels == 0 {
            return Err(ModelError::NoChannels { guest: self.name.clone() });
        }
        let nodes = network.links().len();
        let sizes = &self.sizes;
        Ok(match (self.sub_model, self.embedding) {
            (SubModelKind::Custom | SubModelKind::CustomByStep, _) => {
                return Err(ModelError::CustomSubModel { guest: self.name.clone() });
            }
            (SubModelKind::Stgcn, embedding) => {
                let embedding = embedding.len(nodes);
                let time = self.window;
                let shape = StgcnShape { time, embedding, ..StgcnShape::paper(self.channels) };
                Box::new(stgcn(&shape, &laplacian(network)?)?)
            }
            (SubModelKind::Link, EmbeddingShape::PerLink(each)) => {
                let roads = Roads::new(network)?;
                let draws = name_key(&self.name) + 100;
                let body = sizes
                    .rounds(self.embedded(nodes), &roads, sizes.guest_rounds, draws)
                    .then("out", Linear::new(nodes, sizes.units, each));
                Box::new(Sum::new(("body", body), ("direct", self.own_maps(nodes, each))))
            }
            (SubModelKind::Link, EmbeddingShape::Whole(_)) => {
                return Err(ModelError::NotPerLink { guest: self.name.clone() });
            }
            (SubModelKind::Mlp, EmbeddingShape::PerLink(each)) => Box::new(
                self.embedded(nodes)
                    .then("second", sizes.dense(nodes, sizes.units))
                    .then("out", Linear::new(nodes, sizes.units, each)),
            ),
            (SubModelKind::Mlp, EmbeddingShape::Whole(outputs)) => Box::new(
                Chain::new()
                    .then("hidden", sizes.dense(1, nodes * self.channels))
                    .then("drop", Dropout::new(sizes.dropout, sizes.units, name_key(&self.name)))
                    .then("second", sizes.dense(1, sizes.units))
                    .then("out", Linear::new(1, sizes.units, outputs)),
            ),
            (SubModelKind::Linear, EmbeddingShape::PerLink(each)) => {
                Box::new(self.own_maps(nodes, each))
            }
            (SubModelKind::Linear, EmbeddingShape::Whole(outputs)) => {
                Box::new(Linear::new(1, nodes * self.channels, outputs))
            }
        })
    }

    /// Each link's window beside what is learned of the link, to hidden units.
    fn embedded(&self, nodes: usize) -> Chain {
        let sizes = &self.sizes;
        let units = nodes * sizes.units;
        Chain::new()
            .then("embedding", NodeEmbedding::new(1, nodes, self.channels, sizes.embedding))
            .then("hidden", sizes.dense(nodes, self.channels + sizes.embedding))
            .then("drop", Dropout::new(sizes.dropout, units, name_key(&self.name)))
    }

    /// A linear map of each link's own window. The last step's density and flow are where it
    /// starts; where one number crosses, density alone.
    fn own_maps(&self, nodes: usize, each: usize) -> PerNode {
        let last = 3 * self.window.saturating_sub(1);
        let chosen: Vec<_> = (0..each.min(2)).map(|i| (last + i, i, 1.0)).collect();
        let chosen: &[_] = if self.direct() { &chosen } else { &[] };
        PerNode::new(nodes, self.channels, each, chosen)
    }
}

/// A number for a name. Its low bits are free for a few counters.
pub(crate) fn name_key(name: &str) -> u64 {
    name.bytes().fold(0, |key, byte| hash([key, byte.into()])) & !0xffff
}

/// The seed from which a party draws its first weights, whoever else there is.
pub(crate) fn party_seed(seed: u64, name: &str) -> u64 {
    hash([seed, name_key(name)])
}

/// The means over neighbours.
pub(crate) struct Roads {
    pub nodes: usize,
    pub upstream: Sparse,
    pub downstream: Sparse,
}

impl Roads {
    pub(crate) fn new(network: &Network) -> Result<Self, ModelError> {
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

    /// Links without turns between them.
    pub(crate) fn none(nodes: usize) -> Result<Self, ModelError> {
        let none = Sparse::mean_over(nodes, &[])?;
        Ok(Self { nodes, upstream: none.clone(), downstream: none })
    }
}

/// The graph of the paper's models.
pub(crate) fn laplacian(network: &Network) -> Result<Sparse, ModelError> {
    let turns = network.turns().iter();
    let turns: Vec<_> =
        turns.map(|turn| (turn.from.index(), turn.to.index(), TURN_WEIGHT)).collect();
    let largest = if has_cycle(network) { 2.0 } else { 1.0 };
    Ok(scaled_laplacian(&Sparse::new(network.links().len(), &turns)?, largest))
}

/// Whether one can drive in a circle: links are taken away from the entries on, and some stay.
pub(crate) fn has_cycle(network: &Network) -> bool {
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
