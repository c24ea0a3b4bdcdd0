//! The token without which nothing goes on the wire.

use std::fmt;

use prost::bytes::Bytes;

use super::Recorded;
use crate::party::PartyId;

/// A message that the party's ledger has recorded, with the party it may be sent to and the bytes that the
/// ledger has hashed. Transports take nothing else and send these bytes to this recipient; only
/// [`Ledger::release`](super::Ledger::release) makes one.
#[derive(Clone, PartialEq)]
pub struct Released<M> {
    recipient: PartyId,
    bytes: Bytes,
    message: M,
}

impl<M> Released<M> {
    pub(super) fn new(recipient: PartyId, bytes: Bytes, message: M) -> Self {
        Self { recipient, bytes, message }
    }

    /// Whom it may be sent to.
    pub fn recipient(&self) -> &PartyId {
        &self.recipient
    }

    /// The bytes that the ledger has hashed and that a transport sends.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The message.
    pub fn message(&self) -> &M {
        &self.message
    }

    /// The message, to be handed to its recipient in the same process.
    pub fn into_message(self) -> M {
        self.message
    }
}

impl<M: Recorded> fmt::Debug for Released<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Released({} to {})", self.message.kind(), self.recipient)
    }
}
