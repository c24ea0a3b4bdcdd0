//! Heads of ledgers, countersigned by peers: neither side can rewrite its ledger alone.
//!
//! ```text
//!  party                          peer
//!    │ LedgerHead ───────────────►     at each checkpoint: so many lines, and the hash of the last
//!    │ ◄────────── Countersigned       signed with the key of the peer's certificate
//! ```

use super::sums::{CertificateBytes, Signature};
use super::{ToGuest, ToHost};
use crate::ledger::Recorded;

/// How long a ledger is, and the hash of its last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerHead {
    /// Lines.
    pub sequence: u64,
    /// SHA-256 of the last one.
    pub head: [u8; 32],
}

/// A head that a peer has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Countersignature {
    /// The head.
    pub head: LedgerHead,
    /// The peer's certificate.
    pub certificate: CertificateBytes,
    /// See [`head_statement`](crate::ledger::head_statement).
    pub signature: Signature,
}

/// Either way, between any two parties that are connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadMessage {
    /// Countersign this head of mine.
    Head(LedgerHead),
    /// I have.
    Countersigned(Box<Countersignature>),
}

impl HeadMessage {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            HeadMessage::Head(_) => "ledger-head",
            HeadMessage::Countersigned(_) => "countersigned",
        }
    }
}

/// Messages among which heads are.
pub trait CarriesHeads: Recorded + Sized {
    /// A head, or a countersignature.
    fn of_head(message: HeadMessage) -> Self;
    /// The same, if it is one.
    fn head(&self) -> Option<&HeadMessage>;
}

impl CarriesHeads for ToHost {
    fn of_head(message: HeadMessage) -> Self {
        ToHost::Ledger(message)
    }
    fn head(&self) -> Option<&HeadMessage> {
        match self {
            ToHost::Ledger(message) => Some(message),
            _ => None,
        }
    }
}

impl CarriesHeads for ToGuest {
    fn of_head(message: HeadMessage) -> Self {
        ToGuest::Ledger(message)
    }
    fn head(&self) -> Option<&HeadMessage> {
        match self {
            ToGuest::Ledger(message) => Some(message),
            _ => None,
        }
    }
}
