//! Messages as the ledger records them.

use super::committed::{CommitmentReply, CommitmentRequest, Digest};
use super::live::FromLiveGuest;
use super::measurements::MeasurementOffer;
use super::parts::Values;
use super::sealed::Fingerprint;
use super::sums::FromSumGuest;
use super::{Exchange, ToGuest, ToHost};
use crate::ledger::{Recorded, UsedKey};
use crate::party::Round;
use crate::wire;

impl Recorded for ToHost {
    fn kind(&self) -> &'static str {
        ToHost::kind(self)
    }

    fn round(&self) -> Option<Round> {
        self.exchange().map(|exchange| exchange.round)
    }

    fn shape(&self) -> Vec<usize> {
        match self {
            ToHost::Embedding { embedding, .. }
            | ToHost::Live(FromLiveGuest::Embedding { embedding, .. }) => embedding.0.shape(),
            // Values and weights.
            ToHost::Measurements { measurements, .. } => {
                vec![2, measurements.samples(), measurements.entries()]
            }
            ToHost::Sum(FromSumGuest::Masked { words, .. }) => vec![words.as_slice().len()],
            ToHost::Upload { weights, .. } => vec![weights.as_slice().len()],
            ToHost::Commitment(message) => message.shape(),
            ToHost::Products { size, .. } | ToHost::MaskedProducts { size, .. } => {
                size.iter().map(|&side| side as usize).collect()
            }
            // What it says of its fleet.
            ToHost::Hello(hello) => {
                let MeasurementOffer { passages, stated, movements, .. } = &hello.offer;
                let told = [passages, stated].into_iter().flatten().count();
                let count = told + movements.count();
                if count > 0 { vec![count] } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        wire::encode_to_host(self)
    }

    fn key(&self) -> Option<UsedKey> {
        match self {
            ToHost::PublicKey { key, .. } => {
                Some(UsedKey { of: None, fingerprint: Fingerprint::of(key).to_string() })
            }
            ToHost::MaskedProducts { recipient, key, .. } => {
                Some(UsedKey { of: Some(recipient.clone()), fingerprint: key.to_string() })
            }
            _ => None,
        }
    }

    fn committed(&self) -> Option<Digest> {
        match self {
            ToHost::Commitment(CommitmentReply::Commitments { digest, .. }) => Some(*digest),
            _ => None,
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

    fn encode(&self) -> Vec<u8> {
        wire::encode_to_guest(self)
    }

    fn committed(&self) -> Option<Digest> {
        match self {
            ToGuest::Commitment(CommitmentRequest::Accepted { digest, .. }) => Some(*digest),
            _ => None,
        }
    }
}

impl ToHost {
    /// The exchange it belongs to, if any.
    pub fn exchange(&self) -> Option<Exchange> {
        match self {
            ToHost::Embedding { exchange, .. }
            | ToHost::Measurements { exchange, .. }
            | ToHost::PublicKey { exchange, .. }
            | ToHost::Upload { exchange, .. }
            | ToHost::Products { exchange, .. }
            | ToHost::MaskedProducts { exchange, .. }
            | ToHost::Checkpointed { exchange } => Some(*exchange),
            ToHost::Commitment(message) => Some(message.exchange()),
            ToHost::Hello(_)
            | ToHost::Live(_)
            | ToHost::Sum(_)
            | ToHost::Ledger(_)
            | ToHost::Heartbeat
            | ToHost::Leave { .. } => None,
        }
    }
}

impl ToGuest {
    /// The exchange it belongs to, if any.
    pub fn exchange(&self) -> Option<Exchange> {
        match self {
            ToGuest::EmbeddingRequest { exchange, .. }
            | ToGuest::Gradient { exchange, .. }
            | ToGuest::ProductQuery { exchange, .. }
            | ToGuest::MaskedGradient { exchange, .. }
            | ToGuest::EncryptedCoefficients { exchange, .. }
            | ToGuest::ExchangeClosed { exchange, .. } => Some(*exchange),
            ToGuest::Commitment(message) => Some(message.exchange()),
            _ => None,
        }
    }
}

impl Values {
    fn shape(&self) -> Vec<usize> {
        vec![self.samples(), self.width()]
    }
}
