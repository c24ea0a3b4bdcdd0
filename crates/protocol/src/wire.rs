//! Messages as bytes: protocol buffers, defined in `proto/fedtse.proto`.
//!
//! Only a [ledger](crate::ledger) encodes, once for each message that it releases. Decoding trusts nothing: whatever is missing, unknown
//! or out of bounds is an error that names the field. A message is never larger than
//! [`MAX_MESSAGE`], so neither is what decoding allocates, within a small factor.
//!
//! `generated.rs` is made from the definition by a test of this crate, so that building needs no
//! compiler of protocol buffers.

mod committed;
mod decode;
mod encode;
mod heads;
mod live;
mod measured;
mod numbers;
mod sealed;
mod sums;

/// The types of `proto/fedtse.proto`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "written by a program")]
#[rustfmt::skip]
mod generated;


#[cfg(test)]
mod tests;

use prost::Message;
use thiserror::Error;

use crate::message::parts::{MAX_STEPS, MAX_VALUES, PartError};
use crate::message::{ToGuest, ToHost};
use crate::party::NameError;

/// Most bytes of a message: the largest embedding, and room for what stands around it.
pub const MAX_MESSAGE: usize = 4 * MAX_VALUES + (1 << 20);

/// Most bytes of a message in a run with this many numbers of a sample in one: an embedding, or values
/// and weights of measurements. Batches hold at most [`MAX_STEPS`] samples, and a greeting at most
/// `MAX_RANGES` ranges of steps and
/// `MAX_ENTRIES` entries.
pub fn message_limit(width: u32) -> usize {
    (4 * MAX_STEPS).saturating_mul(width as usize).saturating_add(1 << 18).min(MAX_MESSAGE)
}

/// Why bytes are not a message.
#[derive(Debug, Error)]
pub enum WireError {
    /// Longer than any message.
    #[error("message: found {found} bytes, expected at most {MAX_MESSAGE}")]
    TooLong {
        /// How long.
        found: usize,
    },
    /// Not protocol buffers of our definition.
    #[error("message: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// Something that must be there is not.
    #[error("{field}: found nothing, expected a value")]
    Missing {
        /// What.
        field: &'static str,
    },
    /// Something is there that cannot be.
    #[error(transparent)]
    Part(#[from] PartError),
    /// Not the name of a party.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// A guest's message as bytes, for its ledger, which alone makes them sendable.
pub(crate) fn encode_to_host(message: &ToHost) -> Vec<u8> {
    encode::to_host(message).encode_to_vec()
}

/// A host's message as bytes, for its ledger, which alone makes them sendable.
pub(crate) fn encode_to_guest(message: &ToGuest) -> Vec<u8> {
    encode::to_guest(message).encode_to_vec()
}

/// Reads a guest's message.
pub fn decode_to_host(bytes: &[u8]) -> Result<ToHost, WireError> {
    decode::to_host(read(bytes)?)
}

/// Reads a host's message.
pub fn decode_to_guest(bytes: &[u8]) -> Result<ToGuest, WireError> {
    decode::to_guest(read(bytes)?)
}

fn read<M: Message + Default>(bytes: &[u8]) -> Result<M, WireError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(WireError::TooLong { found: bytes.len() });
    }
    Ok(M::decode(bytes)?)
}
