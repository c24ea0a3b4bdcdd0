//! One authority for many guests: each has one public key at a time.
//!
//! ```text
//! guest   a new public key for so many values ─►  drawn; no more keys for the one before
//! host    rows, and which public key of which guest ─►  keys, for at most half as many rows as values
//! ```
//!
//! A key for a row opens that row's product with everything under the public key. A public key that encrypts one batch,
//! once, makes that one product. And what the authority has forgotten opens nothing any more, whoever takes its file.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::authority::Authority;
use super::{MOST_VALUES, message};
use crate::product::{Agreement, Answerer, MOST_ROWS, SealedError, Terms, misuse, peer};
use crate::wire::{DecodeError, MessageKind, Reader, Writer, out_of_range};

/// The most guests that an authority has keys for.
const MOST_GUESTS: usize = 256;

/// A public key as parties name it: its SHA-256.
pub(crate) type KeyDigest = [u8; 32];

/// The newest public key of each guest.
#[derive(Debug, Default)]
pub struct Authorities {
    guests: BTreeMap<String, Current>,
}

struct Current {
    authority: Authority,
    key: KeyDigest,
}

crate::debug_sizes!(Current, |it| "{:?}", it.authority);

impl Current {
    fn of(authority: Authority) -> Self {
        let key = key_digest(&authority.public_key());
        Self { authority, key }
    }
}

pub(crate) fn key_digest(public_key: &[u8]) -> KeyDigest {
    Sha256::digest(public_key).into()
}

/// What a guest sends for a new public key.
pub fn public_key_request(agreement: &Agreement) -> Vec<u8> {
    let mut writer = Writer::new(MessageKind::KeyRequest, Terms::LEN);
    agreement.terms().write(&mut writer);
    writer.finish()
}

/// What a host sends for keys: which public key the rows of a question are for.
pub(crate) fn keyed_question(key: &KeyDigest, question: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(MessageKind::KeyedQuestion, key.len() + question.len());
    writer.bytes(key);
    writer.bytes(question);
    writer.finish()
}

/// The agreement that the terms of a message stand for.
fn agreement(terms: &Terms) -> Result<Agreement, SealedError> {
    Ok(terms.agreement(MOST_ROWS)?)
}

impl Authorities {
    /// A new public key for a guest. The one before gets no more keys.
    pub fn public_key(&mut self, guest: &str, request: &[u8]) -> Result<Vec<u8>, SealedError> {
        let read = || {
            let mut reader = Reader::new("request for a key", MessageKind::KeyRequest, request)?;
            let terms = Terms::read_to(&mut reader, MOST_VALUES)?;
            reader.finish()?;
            Ok(terms)
        };
        let terms = read().map_err(peer("request for a key"))?;
        self.insert(guest, Authority::new(agreement(&terms)?)?)?;
        let current = self.guests.get(guest).map(|current| current.authority.public_key());
        Ok(current.unwrap_or_default())
    }

    /// Keys for the rows of a question about what a guest has encrypted with its newest public key.
    pub fn keys(&mut self, guest: &str, question: &[u8]) -> Result<Vec<u8>, SealedError> {
        let read = || {
            let mut reader = Reader::new("question", MessageKind::KeyedQuestion, question)?;
            let key: KeyDigest = reader.array()?;
            Ok((key, reader.bytes(reader.remaining())?))
        };
        let (key, question) = read().map_err(peer("question"))?;
        let current = self.guests.get_mut(guest).filter(|current| current.key == key);
        let current = current.ok_or_else(|| {
            let expected = "the newest one of the guest: earlier ones get no more keys";
            peer("question")(out_of_range("public key of the question", "another one", expected))
        })?;
        current.authority.answer(question)
    }

    /// How many rows have keys for a guest's newest public key.
    pub fn issued(&self, guest: &str) -> usize {
        self.guests.get(guest).map_or(0, |current| current.authority.issued())
    }

    /// What of a guest must outlive the process, see [`Authority::state`].
    pub fn state(&self, guest: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.guests.get(guest).map(|current| current.authority.state())
    }

    /// Takes back what was stored of a guest.
    pub fn restore(&mut self, guest: &str, state: &[u8]) -> Result<(), SealedError> {
        let read = || -> Result<Terms, DecodeError> {
            let mut reader =
                Reader::new("state of an authority", MessageKind::AuthorityState, state)?;
            Terms::read_to(&mut reader, MOST_VALUES)
        };
        let terms = read().map_err(|error| misuse("state of the authority", error, "a whole one"));
        self.insert(guest, Authority::restore(agreement(&terms?)?, state)?)
    }

    fn insert(&mut self, guest: &str, authority: Authority) -> Result<(), SealedError> {
        if self.guests.len() >= MOST_GUESTS && !self.guests.contains_key(guest) {
            return Err(misuse(
                "guests with keys",
                MOST_GUESTS + 1,
                format!("{MOST_GUESTS} at most"),
            ));
        }
        self.guests.insert(guest.to_owned(), Current::of(authority));
        Ok(())
    }
}

/// The most rows that get keys for a public key of so many values.
pub fn most_keys(values: usize) -> usize {
    values / 2
}

/// The most rows of so many values whose question has at most so many bytes.
pub fn rows_of_bytes(bytes: usize, values: usize) -> usize {
    bytes.saturating_sub(message::QUESTION_HEAD) / values.max(1).saturating_mul(4)
}
