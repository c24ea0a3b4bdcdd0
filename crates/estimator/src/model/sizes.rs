//! Sizes of the `link` model, and the layers that all its parts share.

use neural::{Activation, Chain, Dropout, Linear, MessagePassing, MessageShape, Residual};
use serde::{Deserialize, Serialize};

use crate::model::model_error::{LARGEST, ModelError};
use crate::model::parts::Roads;

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
    /// Numbers that say for all links how the whole network is; none: half as many as units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            units: 64,
            embedding: 8,
            guest_rounds: 2,
            head_rounds: 1,
            dropout: 0.1,
            one_map: false,
            context: None,
        }
    }
}

impl Sizes {
    /// The same with fewer or more units, and below 32 of them without what only large heads can make use of:
    /// message passing, dropout, many numbers and a map of each link, and more than one number for the whole network.
    pub fn with_units(self, units: usize) -> Self {
        if units >= 32 {
            return Self { units, ..self };
        }
        let (embedding, context) = (1, Some(1));
        Self { units, embedding, head_rounds: 0, dropout: 0.0, one_map: true, context, ..self }
    }

    /// The same for a head that is learned by one secure product for each of its parameters.
    pub fn for_products(self) -> Self {
        self.with_units(FEW_UNITS)
    }

    /// Numbers that say for all links how the whole network is.
    pub(crate) fn context(&self) -> usize {
        self.context.unwrap_or(self.units / 2)
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let sizes = [
            ("units", self.units, 2),
            ("embedding", self.embedding, 1),
            ("guest_rounds", self.guest_rounds, 0),
            ("head_rounds", self.head_rounds, 0),
            ("context", self.context(), 1),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_heads_have_one_number_for_the_whole_network() {
        assert_eq!(Sizes::default().for_products().context(), 1);
        assert_eq!(Sizes::default().with_units(48).context(), 24);
    }

    /// Heads that were saved before one could choose it have half as many as units, and say no more than they did.
    #[test]
    fn saved_heads_keep_their_shape() {
        let saved = r#"{"units":4,"embedding":1,"guest_rounds":2,"head_rounds":0,"dropout":0.0,"one_map":true}"#;
        let sizes: Sizes = serde_json::from_str(saved).unwrap();
        assert_eq!(sizes.context(), 2);
        assert_eq!(serde_json::to_string(&sizes).unwrap(), saved);
        let chosen = Sizes::default().for_products();
        let again: Sizes = serde_json::from_str(&serde_json::to_string(&chosen).unwrap()).unwrap();
        assert_eq!(again, chosen);
    }
}
