//! The session layer that training and live estimation share.
//!
//! [`GuestSessions`] is the host's side and [`HostSession`] the guest's. Both own the party's ledger and outbox, so that
//! nothing leaves a party without a line in its ledger, and the times at which peers were heard and asked: they say what
//! is sent again, when a peer counts as silent, and when a sign of life is due. [`handshake`] compares what both sides
//! say of themselves. What a round or a step is, this layer does not know.

pub(crate) mod guests;
pub(crate) mod handshake;
pub(crate) mod host;
pub(crate) mod timing;

pub(crate) use guests::GuestSessions;
pub(crate) use host::HostSession;
