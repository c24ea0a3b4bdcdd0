//! The joint models: the host's part, the guests' parts and the host's head.
//!
//! `link`, the default: one set of weights for all links.
//!
//! ```text
//! guest   [window, embedding] → 64 → 2 × (x + f(x, mean upstream, mean downstream)) → d per link
//!         + a linear map of each link's own window → d per link
//! host    [loops, signal clock] → 32 for all links (alone: → 64 → 32); green shares per link
//! head    [host | guests | embedding] → 64 → 1 × message passing → 64 → correction and gate
//!         density, flow = correction + gate · (a linear map of each link's own inputs)
//! ```
//!
//! `paper`: an STGCN for each party, embeddings of 9 numbers, a head of one hidden layer.
//!
//! Only a guest's output crosses between parties: `d` numbers per link, or 9 in all. At the head
//! each guest has a [slot](PartyDropout), which puts a learned vector and a flag in the place of a
//! guest that does not answer.
//!
//! The same parts are built in two ways: all in one, for training with all data in one place
//! ([`ModelShape`]); or each where its data are ([`HostShape`],
//! [`GuestShape`](crate::GuestShape)). Each party draws its first weights from a seed of its own,
//! so that both start, and stay, alike.

use std::ops::Range;

use neural::{
    Activate, Activation, Chain, Draw, Dropout, Fusion, Layer, Learner, Linear, NodeEmbedding,
    PartyDropout, Plan, StgcnShape, head, stgcn,
};
use serde::{Deserialize, Serialize};
use traffic::Network;

use crate::model::layers::{Gated, Interleave, PartLayout, PerNode};
use crate::model::model_error::{MOST_GUESTS, ModelError};
use crate::model::parts::{
    EmbeddingShape, GuestShape, Roads, SubModelKind, is_usual_window, laplacian, name_key,
    party_seed, usual_window,
};
use crate::model::sizes::Sizes;

/// Numbers of an embedding of the paper.
const PAPER_EMBEDDING: usize = 9;
/// Hidden units of the paper's head.
const PAPER_HIDDEN: usize = 272;
/// Share of its inputs that a host without guests drops in training.
const LONE_DROPOUT: f32 = 0.05;
/// Names of the host's own parts.
pub(crate) const HOST: &str = "host";
pub(crate) const HEAD: &str = "head";

/// Which model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// One set of weights for all links, with message passing.
    Link,
    /// The paper's: STGCN sub-models, embeddings of 9 numbers, a small head.
    Paper,
}

impl Architecture {
    /// The sub-model that belongs to it: the host's, and a guest's unless it chooses another.
    pub fn sub_model(self) -> SubModelKind {
        match self {
            Architecture::Link => SubModelKind::Link,
            Architecture::Paper => SubModelKind::Stgcn,
        }
    }

    /// What a guest gives unless it is said otherwise.
    pub fn embedding(self) -> EmbeddingShape {
        match self {
            Architecture::Link => EmbeddingShape::PerLink(4),
            Architecture::Paper => EmbeddingShape::Whole(PAPER_EMBEDDING),
        }
    }
}

/// What a host knows of a guest's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSlot {
    /// The guest's name.
    pub name: String,
    /// What it gives.
    pub embedding: EmbeddingShape,
    /// Whether the first numbers of each link start as density and flow.
    pub direct: bool,
}

impl GuestSlot {
    /// For a guest.
    pub fn of(guest: &GuestShape) -> Self {
        Self { name: guest.name.clone(), embedding: guest.embedding, direct: guest.direct() }
    }
}

/// The host's part and head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostShape {
    /// Which model.
    pub architecture: Architecture,
    /// Numbers that the host has for the whole network, in one sample.
    pub shared: usize,
    /// Numbers that the host has for each link in one sample; `paper`: in one step.
    pub channels: usize,
    /// Its guests.
    pub slots: Vec<GuestSlot>,
    /// How often, in training, a guest counts as absent for a sample.
    pub party_dropout: f32,
    /// Sizes of the `link` model.
    pub sizes: Sizes,
    /// Steps of a window.
    #[serde(default = "usual_window", skip_serializing_if = "is_usual_window")]
    pub window: usize,
}

/// All parts of a joint model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// The host's part and head, with a slot for each guest.
    pub host: HostShape,
    /// The guests' parts, in the order of the slots.
    pub guests: Vec<GuestShape>,
}

/// A host's whole model for one link alone. Parameters are those of the whole in the same order, as far as they are
/// of this link.
pub(crate) struct LinkModel {
    /// From what the host has for the whole network to what that says for all links; none if it has nothing.
    pub context: Option<Box<dyn Layer>>,
    /// Takes this, what the host has for the link, and for each guest a flag and what it gave for the link.
    pub head: Fusion,
}

impl HostShape {
    /// Name of the host among the parties that draw their first weights.
    pub(crate) const PART: &str = HOST;

    /// The host's whole model where guests are elsewhere. A sample of its input: the host's
    /// numbers, then for each guest a flag (1 if it answered) and what it gave.
    pub fn build(&self, network: &Network) -> Result<Fusion, ModelError> {
        let fusion = Fusion::new(self.head(network)?).with(HOST, self.own_part(network)?);
        Ok(self.seated(fusion, network.links().len()))
    }

    /// The same for one link alone, if what is estimated for a link depends on nothing of others: without message
    /// passing, and without dropout, whose draws count all links.
    pub(crate) fn build_link(&self) -> Result<Option<LinkModel>, ModelError> {
        let alone = self.sizes.head_rounds == 0 && self.sizes.dropout == 0.0;
        if self.architecture != Architecture::Link || !alone || self.slots.is_empty() {
            return Ok(None);
        }
        let context = (self.shared > 0).then(|| self.context_part(self.context()));
        let given = Activate::new(Activation::Identity, self.context() + self.channels);
        let head = Fusion::new(self.link_head(&Roads::none(1)?)?).with(HOST, given);
        Ok(Some(LinkModel { context, head: self.seated(head, 1) }))
    }

    fn seated(&self, mut fusion: Fusion, nodes: usize) -> Fusion {
        for slot in &self.slots {
            fusion = fusion.with(&slot.name, self.slot(slot, nodes).flagged());
        }
        fusion
    }

    fn check(&self) -> Result<(), ModelError> {
        self.sizes.check()?;
        if self.slots.len() > MOST_GUESTS {
            return Err(ModelError::Guests { found: self.slots.len() });
        }
        for (at, slot) in self.slots.iter().enumerate() {
            slot.embedding.check(&slot.name)?;
            let others = self.slots[..at].iter().map(|other| other.name.as_str());
            if others.chain(["", HOST, HEAD]).any(|name| name == slot.name) {
                return Err(ModelError::Name { found: slot.name.clone() });
            }
        }
        if !(0.0..1.0).contains(&self.party_dropout) {
            let found = self.party_dropout;
            return Err(ModelError::Probability { what: "party_dropout", found });
        }
        Ok(())
    }

    /// The paper's head knows no flags: its embeddings are never negative, and what stands for an
    /// absent one may be.
    fn slot(&self, slot: &GuestSlot, nodes: usize) -> PartyDropout {
        let length = slot.embedding.len(nodes);
        let dropout = PartyDropout::new(self.party_dropout, length, name_key(&slot.name));
        match self.architecture {
            Architecture::Link => dropout,
            Architecture::Paper => dropout.silent(),
        }
    }

    fn own_part(&self, network: &Network) -> Result<Box<dyn Layer>, ModelError> {
        if self.architecture == Architecture::Paper {
            let shape = StgcnShape { time: self.window, ..StgcnShape::paper(self.channels) };
            return Ok(Box::new(stgcn(&shape, &laplacian(network)?)?));
        }
        Ok(self.link_part(network.links().len()))
    }

    fn link_part(&self, nodes: usize) -> Box<dyn Layer> {
        let local = Activate::new(Activation::Identity, nodes * self.channels);
        if self.shared == 0 {
            return Box::new(local);
        }
        let context = self.context();
        let beside = Interleave::new(
            nodes,
            &[PartLayout::Shared(context), PartLayout::PerNode(self.channels)],
        );
        let context = self.context_part(context);
        Box::new(Fusion::new(beside).with("context", context).with("local", local))
    }

    /// From loops and clock to what they say of the whole network. A host without guests has
    /// nothing else to go by: one layer more, and its inputs are dropped now and then.
    fn context_part(&self, outputs: usize) -> Box<dyn Layer> {
        let dense = |inputs, outputs| Linear::new(1, inputs, outputs).then(Activation::Silu);
        if !self.slots.is_empty() {
            return Box::new(dense(self.shared, outputs));
        }
        let units = self.sizes.units;
        Box::new(
            Chain::new()
                .then("drop", Dropout::new(LONE_DROPOUT, self.shared, 50))
                .then("first", dense(self.shared, units))
                .then("second", dense(units, outputs)),
        )
    }

    /// Numbers that say for all links how the whole network is.
    fn context(&self) -> usize {
        if self.shared > 0 { self.sizes.context() } else { 0 }
    }

    /// Takes the host's embedding, then what the slots give.
    fn head(&self, network: &Network) -> Result<Chain, ModelError> {
        self.check()?;
        let nodes = network.links().len();
        if self.architecture == Architecture::Paper {
            let guests: usize = self.slots.iter().map(|slot| slot.embedding.len(nodes)).sum();
            return Ok(head(PAPER_EMBEDDING + guests, PAPER_HIDDEN, 2 * nodes));
        }
        self.link_head(&Roads::new(network)?)
    }

    fn link_head(&self, roads: &Roads) -> Result<Chain, ModelError> {
        let nodes = roads.nodes;
        let mut parts = vec![PartLayout::PerNode(self.context() + self.channels)];
        let mut width = self.context() + self.channels;
        let direct = self.slots.iter().filter(|slot| slot.direct).count().max(1);
        let mut chosen = Vec::new();
        for slot in &self.slots {
            let EmbeddingShape::PerLink(each) = slot.embedding else {
                return Err(ModelError::NotPerLink { guest: slot.name.clone() });
            };
            let starts = if slot.direct { each.min(2) } else { 0 };
            chosen.extend((0..starts).map(|i| (width + i, i, 1.0 / direct as f32)));
            parts.extend([PartLayout::PerNode(each), PartLayout::Shared(1)]);
            width += each + 1;
        }
        let sizes = &self.sizes;
        let body = Chain::new()
            .then("embedding", NodeEmbedding::new(1, nodes, width, sizes.embedding))
            .then("hidden", sizes.dense(nodes, width + sizes.embedding))
            .then("drop", Dropout::new(sizes.dropout, nodes * sizes.units, 100));
        let body = sizes
            .rounds(body, roads, sizes.head_rounds, 200)
            .then("second", sizes.dense(nodes, sizes.units))
            .then("out", Linear::new(nodes, sizes.units, 4));
        let maps = PerNode::new(nodes, width, 2, &chosen);
        let maps = if sizes.one_map { maps.alike() } else { maps };
        Ok(Chain::new()
            .then("beside", Interleave::new(nodes, &parts))
            .then("estimate", Gated::new(body, maps, 2)))
    }
}

impl ModelShape {
    /// The joint model over a network. A sample of its input: the host's numbers, then each
    /// guest's; of its output: density and flow of each link.
    pub fn build(&self, network: &Network) -> Result<Fusion, ModelError> {
        let own = self.host.own_part(network)?;
        let mut seated = Fusion::new(self.host.head(network)?)
            .with(HOST, Activate::new(Activation::Identity, own.output_len()));
        for (at, guest) in self.guests.iter().enumerate() {
            let slot = self.host.slots.get(at).filter(|slot| **slot == GuestSlot::of(guest));
            let slot = slot.ok_or_else(|| ModelError::GuestSlots { guest: guest.name.clone() })?;
            seated = seated.with(&guest.name, self.host.slot(slot, network.links().len()));
        }
        let mut joint = Fusion::new(seated).with(HOST, own);
        for guest in &self.guests {
            joint = joint.with(&guest.name, guest.build(network)?);
        }
        Ok(joint)
    }

    /// The joint model; each party's parameters are drawn from that party's seed.
    pub fn learner(&self, network: &Network, seed: u64) -> Result<Learner<Fusion>, ModelError> {
        let mut learner = Learner::new(self.build(network)?, seed, Plan::default());
        let host = self.host.build(network)?;
        let mut first: Vec<Vec<f32>> = vec![initial_parameters(&host, party_seed(seed, HOST))];
        for guest in &self.guests {
            first.push(initial_parameters(&guest.build(network)?, party_seed(seed, &guest.name)));
        }
        let blocks = self.blocks(learner.model());
        learner.update(|parameters, _| {
            for (ranges, values) in blocks.into_iter().zip(first) {
                let mut from = 0;
                for range in ranges {
                    let to = from + range.len();
                    parameters[range].copy_from_slice(&values[from..to]);
                    from = to;
                }
            }
        });
        Ok(learner)
    }

    /// Where the parameters of each party are in a joint model: the host's part and head, then
    /// each guest's part.
    pub fn blocks(&self, joint: &Fusion) -> Vec<Vec<Range<usize>>> {
        let of = |name| joint.parameters_of(name).unwrap_or_default();
        let guests = self.guests.iter().map(|guest| vec![of(&guest.name)]);
        [vec![of(HOST), of(HEAD)]].into_iter().chain(guests).collect()
    }
}

fn initial_parameters(layer: &impl Layer, seed: u64) -> Vec<f32> {
    let mut parameters = vec![0.0; layer.layout().len()];
    layer.initialise(&mut Draw::new(seed), &mut parameters);
    parameters
}

#[cfg(test)]
mod tests;
