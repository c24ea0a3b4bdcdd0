//! The key authority of functional encryption: how parties reach it, and what it answers whom.
//!
//! ```text
//! guest ──► a new public key for so many values      ◄── the public key; the guest's one before gets no more keys
//! host  ──► rows, of which guest, of which public key ◄── their keys, at most half as many as values
//! ```
//!
//! It must be neither the host nor a guest: it sees the host's rows, and reads whatever ciphertext it gets hold of.

use std::sync::{Arc, Mutex, PoisonError};

use protocol::ledger::Released;
use protocol::message::key_authority::ToAuthority;
use protocol::party::PartyId;
use sealed::ipfe::Authorities;
use thiserror::Error;

use crate::error::PartyError;

/// Why a key authority gives no answer.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct KeyFailure(pub String);

/// A plan needs an authority, and this party was given none.
pub(crate) fn no_authority() -> PartyError {
    let (found, expected) = ("none".to_owned(), "one, for products with its keys".to_owned());
    PartyError::Misuse { what: "key authority", found, expected }
}

/// A key authority, as a party reaches it. Calls wait for the answer.
pub trait KeyAuthority: Send {
    /// Its name, to which messages are released.
    fn name(&self) -> &PartyId;
    /// Asks it. The same message has the same answer, but for a new public key.
    fn ask(&mut self, message: &Released<ToAuthority>) -> Result<Vec<u8>, KeyFailure>;
}

/// What an authority does with messages: who may ask for what.
#[derive(Debug)]
pub struct KeyDesk {
    authorities: Authorities,
    host: PartyId,
}

impl KeyDesk {
    /// A desk that gives keys to this host, with no public keys yet.
    pub fn new(host: PartyId) -> Self {
        Self { authorities: Authorities::default(), host }
    }

    /// Answers a party, known by its certificate.
    pub fn answer(&mut self, from: &PartyId, message: &ToAuthority) -> Result<Vec<u8>, KeyFailure> {
        let answer = match message {
            ToAuthority::PublicKey { .. } if *from == self.host => {
                let problem = format!(
                    "found a request of the host, `{from}`, for a public key, expected a guest's"
                );
                return Err(KeyFailure(problem));
            }
            ToAuthority::PublicKey { request, .. } => {
                self.authorities.public_key(from.as_str(), request)
            }
            ToAuthority::Keys { .. } if *from != self.host => {
                let problem =
                    format!("found a question of `{from}`, expected one of the host alone");
                return Err(KeyFailure(problem));
            }
            ToAuthority::Keys { guest, question, .. } => {
                self.authorities.keys(guest.as_str(), question)
            }
        };
        answer.map_err(|error| KeyFailure(error.to_string()))
    }

    /// What it has issued.
    pub fn authorities(&self) -> &Authorities {
        &self.authorities
    }

    /// Takes back what was stored of a guest.
    pub fn restore(&mut self, guest: &PartyId, state: &[u8]) -> Result<(), KeyFailure> {
        let restored = self.authorities.restore(guest.as_str(), state);
        restored.map_err(|error| KeyFailure(error.to_string()))
    }
}

/// An authority in the same process: for rehearsals and tests, where all parties are one anyway.
pub struct LocalAuthority {
    name: PartyId,
    own: PartyId,
    desk: Arc<Mutex<KeyDesk>>,
}

impl LocalAuthority {
    /// That of a desk, for this party.
    pub fn new(name: PartyId, own: PartyId, desk: Arc<Mutex<KeyDesk>>) -> Self {
        Self { name, own, desk }
    }
}

impl KeyAuthority for LocalAuthority {
    fn name(&self) -> &PartyId {
        &self.name
    }

    fn ask(&mut self, message: &Released<ToAuthority>) -> Result<Vec<u8>, KeyFailure> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        desk.answer(&self.own, message.message())
    }
}
