//! The token without which nothing goes on the wire.

use std::fmt;

/// A message that the party's ledger has recorded. Transports take nothing else, and only
/// [`Ledger::release`](super::Ledger::release) makes one.
#[derive(Clone, PartialEq)]
pub struct Released<M>(M);

impl<M> Released<M> {
    pub(super) fn new(message: M) -> Self {
        Self(message)
    }

    /// The message, to be encoded.
    pub fn message(&self) -> &M {
        &self.0
    }

    /// The message, to be handed to a peer in the same process.
    pub fn into_message(self) -> M {
        self.0
    }
}

impl<M: super::Recorded> fmt::Debug for Released<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Released({})", self.0.kind())
    }
}
