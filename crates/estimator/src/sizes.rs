//! Sizes of the `link` model, and the layers that all its parts share.

use neural::{Activation, Chain, Dropout, Linear, MessagePassing, MessageShape, Residual};
use serde::{Deserialize, Serialize};

use crate::model_error::{LARGEST, ModelError};
use crate::parts::Roads;

/// Units of a head that is learned by secure products.
const FEW_UNITS: usize = 4;

/// Sizes of the `link` model that one may choose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Units of a link.
    pub units: usize,
    /// Numbers that are learned for each link.
    pub embedding: usize,
    /// Rounds of message passing in a guest's part.
    pub guest_rounds: usize,
    /// Rounds of message passing in the head.
    pub head_rounds: usize,
    /// Share of units dropped in training.
    pub dropout: f32,
    /// Whether the head's linear map beside its units is the same for all links.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_map: bool,
}

impl Default for Sizes {
    fn default() -> Self {
        let (guest_rounds, head_rounds) = (2, 1);
        Self { units: 64, embedding: 8, guest_rounds, head_rounds, dropout: 0.1, one_map: false }
    }
}

impl Sizes {
    /// The same with fewer or more units, and below 32 of them without what only large heads can make use of:
    /// message passing, dropout, many numbers and a map of each link.
    pub fn with_units(self, units: usize) -> Self {
        if units >= 32 {
            return Self { units, ..self };
        }
        Self { units, embedding: 1, head_rounds: 0, dropout: 0.0, one_map: true, ..self }
    }

    /// The same for a head that is learned by one secure product for each of its parameters.
    pub fn for_products(self) -> Self {
        self.with_units(FEW_UNITS)
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let sizes = [
            ("units", self.units, 2),
            ("embedding", self.embedding, 1),
            ("guest_rounds", self.guest_rounds, 0),
            ("head_rounds", self.head_rounds, 0),
        ];
        for (what, found, least) in sizes {
            if !(least..=LARGEST).contains(&found) {
                return Err(ModelError::Size { what, found, least });
            }
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ModelError::Probability { what: "dropout", found: self.dropout });
        }
        Ok(())
    }

    pub(crate) fn dense(&self, nodes: usize, inputs: usize) -> Linear {
        Linear::new(nodes, inputs, self.units).then(Activation::Silu)
    }

    /// Adds rounds of message passing. `draws` is the number of the first dropout among them.
    pub(crate) fn rounds(
        &self,
        mut chain: Chain,
        roads: &Roads,
        rounds: usize,
        draws: u64,
    ) -> Chain {
        let (nodes, units) = (roads.nodes, self.units);
        for round in 0..rounds {
            let shape = MessageShape { slices: 1, inputs: units, outputs: units };
            let mix =
                MessagePassing::new(shape, &roads.upstream, &roads.downstream, Activation::Silu);
            let drop = Dropout::new(self.dropout, nodes * units, draws + round as u64);
            let message = Chain::new().then("mix", mix).then("drop", drop);
            let round_name = format!("round{}", round + 1);
            chain = chain.then(&round_name, Residual::new(nodes, units, units, message));
        }
        chain
    }
}
