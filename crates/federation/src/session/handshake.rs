//! What host and guest must agree on before they take part.

use std::fmt::Display;

use protocol::message::live::LiveTerms;
use protocol::message::sums::SumTerms;
use protocol::message::{PROTOCOL, Terms};
use protocol::party::PartyId;

use crate::error::PartyError;

/// Terms of which both sides must have the same.
pub(crate) trait Agreement {
    /// Each property by name, as text that people can compare.
    fn properties(&self) -> Vec<(&'static str, String)>;
}

impl Agreement for Terms {
    fn properties(&self) -> Vec<(&'static str, String)> {
        vec![
            ("network hash", self.network_hash.to_string()),
            ("length of a step, s", self.step_s.to_string()),
            ("beginning of step 0, s", self.origin_s.to_string()),
            ("steps of a window", self.window.to_string()),
            ("compression", self.compression.name().into()),
        ]
    }
}

impl Agreement for SumTerms {
    fn properties(&self) -> Vec<(&'static str, String)> {
        let run = self.run.map_or_else(|| "none".to_owned(), |run| run.to_string());
        vec![
            ("network hash", self.network_hash.to_string()),
            ("length of a step, s", self.step_s.to_string()),
            ("run that it was trained in", run),
        ]
    }
}

impl Agreement for LiveTerms {
    fn properties(&self) -> Vec<(&'static str, String)> {
        vec![
            ("run that it was trained in", self.run.to_string()),
            ("network hash", self.network_hash.to_string()),
            ("length of a step, s", self.step_s.to_string()),
            ("steps of a window", self.window.to_string()),
        ]
    }
}

/// Refuses a peer with another version of the messages or other terms.
pub(crate) fn check_terms<A: Agreement>(
    peer: &PartyId,
    protocol: u32,
    theirs: &A,
    ours: &A,
) -> Result<(), PartyError> {
    check_same(peer, "version of the messages", protocol, PROTOCOL)?;
    let pairs = theirs.properties().into_iter().zip(ours.properties());
    for ((what, found), (_, expected)) in pairs {
        check_same(peer, what, found, expected)?;
    }
    Ok(())
}

/// Refuses a guest whose embeddings have another width than the host's model expects.
pub(crate) fn check_width(
    peer: &PartyId,
    found: u32,
    expected: Option<u32>,
) -> Result<(), PartyError> {
    check_same(peer, "numbers of an embedding", found, expected.unwrap_or(0))
}

fn check_same<T: PartialEq + Display>(
    peer: &PartyId,
    what: &'static str,
    found: T,
    expected: T,
) -> Result<(), PartyError> {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (found.to_string(), expected.to_string());
    Err(PartyError::PeerIncompatible { party: peer.clone(), what, found, expected })
}

/// Refuses a guest that calls itself otherwise than the transport knows it.
pub(crate) fn check_name(from: &PartyId, claimed: &PartyId) -> Result<(), PartyError> {
    if claimed == from {
        return Ok(());
    }
    Err(PartyError::misbehaved(from, format!("it calls itself `{claimed}`")))
}
