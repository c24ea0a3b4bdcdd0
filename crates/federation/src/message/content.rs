//! Messages as the ledger records them.

use serde::Serialize;

use super::parts::Values;
use super::{Exchange, ToGuest, ToHost};
use crate::ledger::Recorded;
use crate::party::Round;

impl Recorded for ToHost {
    fn kind(&self) -> &'static str {
        ToHost::kind(self)
    }

    fn round(&self) -> Option<Round> {
        match self {
            ToHost::Embedding { exchange, .. } | ToHost::Kept { exchange } => Some(exchange.round),
            ToHost::Hello(_) | ToHost::Heartbeat | ToHost::Leave { .. } => None,
        }
    }

    fn shape(&self) -> Vec<usize> {
        match self {
            ToHost::Embedding { embedding, .. } => embedding.0.shape(),
            _ => Vec::new(),
        }
    }

    fn content(&self) -> Vec<u8> {
        match self {
            ToHost::Hello(hello) => json(hello),
            ToHost::Embedding { exchange, purpose, embedding } => {
                numbers(&json(&(exchange, purpose)), &embedding.0)
            }
            ToHost::Kept { exchange } => json(exchange),
            ToHost::Heartbeat => Vec::new(),
            ToHost::Leave { session, departure } => json(&(session, departure)),
        }
    }
}

impl Recorded for ToGuest {
    fn kind(&self) -> &'static str {
        ToGuest::kind(self)
    }

    fn round(&self) -> Option<Round> {
        self.exchange().map(|exchange| exchange.round)
    }

    fn shape(&self) -> Vec<usize> {
        match self {
            ToGuest::Gradient { gradient, .. } => gradient.0.shape(),
            _ => Vec::new(),
        }
    }

    fn content(&self) -> Vec<u8> {
        match self {
            ToGuest::Call | ToGuest::Heartbeat => Vec::new(),
            ToGuest::Welcome(welcome) => json(welcome),
            ToGuest::Ask { exchange, purpose, batch } => {
                let steps: Vec<i64> = batch.steps().iter().map(|step| step.0).collect();
                json(&(exchange, purpose, steps))
            }
            ToGuest::Gradient { exchange, gradient } => numbers(&json(exchange), &gradient.0),
            ToGuest::Settled { exchange, best, trained } => json(&(exchange, best, trained)),
            ToGuest::Finish { run, attempt, summary } => json(&(run, attempt, summary)),
            ToGuest::Refuse { session, reason } => json(&(session, reason)),
        }
    }
}

impl ToGuest {
    /// The exchange it belongs to, if any.
    pub fn exchange(&self) -> Option<Exchange> {
        match self {
            ToGuest::Ask { exchange, .. }
            | ToGuest::Gradient { exchange, .. }
            | ToGuest::Settled { exchange, .. } => Some(*exchange),
            _ => None,
        }
    }
}

fn json(part: &impl Serialize) -> Vec<u8> {
    // Messages hold no maps, so this cannot fail.
    serde_json::to_vec(part).unwrap_or_default()
}

fn numbers(before: &[u8], values: &Values) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(before.len() + 4 * values.as_slice().len());
    bytes.extend_from_slice(before);
    values.as_slice().iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    bytes
}

impl Values {
    fn shape(&self) -> Vec<usize> {
        vec![self.samples(), self.width()]
    }
}
