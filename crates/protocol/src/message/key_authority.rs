//! What guests and host say to a key authority, where one issues the keys of the host's products.
//!
//! ```text
//!  guest                       authority                           host
//!    │ PublicKey ───────────────► │ draws a public key               │
//!    │ ◄───────── the public key  │ ◄──────────────────────── Keys   │ rows of its matrix
//!    │                            │ keys of these rows ────────────► │
//! ```
//!
//! ```text
//! PublicKey   1:u8  round:u64  request
//! Keys        2:u8  round:u64  length of the guest's name:u8  rows:u32  values:u32  the name  question
//! ```
//!
//! Numbers are little-endian; request and question are bytes of the crate `sealed`.

use super::parts::PartError;
use crate::ledger::Recorded;
use crate::party::{PartyId, Round};

/// See the [module](self).
#[derive(Clone, PartialEq, Eq)]
pub enum ToAuthority {
    /// A guest asks for a new public key. The one before gets no more keys.
    PublicKey {
        /// The round whose measurements it is for.
        round: Round,
        /// How many values there are, on which grid.
        request: Vec<u8>,
    },
    /// The host asks for keys of some rows. The authority sees them.
    Keys {
        /// The round.
        round: Round,
        /// Whose measurements they open.
        guest: PartyId,
        /// Rows, and values of a row.
        size: [u32; 2],
        /// The rows.
        question: Vec<u8>,
    },
}

const PUBLIC_KEY: u8 = 1;
const KEYS: u8 = 2;
/// Bytes of a message besides its request or question, at most.
pub const KEY_MESSAGE_HEAD: usize = 18 + crate::party::MAX_NAME;

impl ToAuthority {
    /// From bytes; what is asked is for the authority to check.
    pub fn decode(bytes: &[u8]) -> Result<Self, PartError> {
        let wrong = |expected: &str| {
            PartError::new("message to a key authority", format!("{} bytes", bytes.len()), expected)
        };
        let (kind, rest) = bytes.split_first().ok_or_else(|| wrong("a kind"))?;
        let (round, rest) = rest.split_first_chunk().ok_or_else(|| wrong("a round"))?;
        let round = Round(u64::from_le_bytes(*round));
        match *kind {
            PUBLIC_KEY => Ok(Self::PublicKey { round, request: rest.to_vec() }),
            KEYS => {
                let cut = || wrong("a guest and rows");
                let (length, rest) = rest.split_first().ok_or_else(cut)?;
                let (rows, rest) = rest.split_first_chunk().ok_or_else(cut)?;
                let (values, rest) = rest.split_first_chunk().ok_or_else(cut)?;
                let size = [*rows, *values].map(u32::from_le_bytes);
                let (name, question) =
                    rest.split_at_checked(usize::from(*length)).ok_or_else(cut)?;
                let name = std::str::from_utf8(name).ok().and_then(|name| PartyId::new(name).ok());
                let guest = name.ok_or_else(|| wrong("the name of a guest"))?;
                Ok(Self::Keys { round, guest, size, question: question.to_vec() })
            }
            found => {
                let expected = format!("{PUBLIC_KEY} or {KEYS}");
                Err(PartError::new("kind of message to a key authority", found, expected))
            }
        }
    }
}

impl Recorded for ToAuthority {
    fn kind(&self) -> &'static str {
        match self {
            Self::PublicKey { .. } => "public-key-request",
            Self::Keys { .. } => "function-keys-request",
        }
    }

    fn round(&self) -> Option<Round> {
        match self {
            Self::PublicKey { round, .. } | Self::Keys { round, .. } => Some(*round),
        }
    }

    fn shape(&self) -> Vec<usize> {
        match self {
            Self::PublicKey { .. } => Vec::new(),
            Self::Keys { size, .. } => size.iter().map(|&side| side as usize).collect(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::PublicKey { round, request } => {
                bytes.push(PUBLIC_KEY);
                bytes.extend(round.0.to_le_bytes());
                bytes.extend(request);
            }
            Self::Keys { round, guest, size, question } => {
                bytes.push(KEYS);
                bytes.extend(round.0.to_le_bytes());
                bytes.push(guest.as_str().len() as u8);
                size.iter().for_each(|side| bytes.extend(side.to_le_bytes()));
                bytes.extend(guest.as_str().as_bytes());
                bytes.extend(question);
            }
        }
        bytes
    }
}

impl std::fmt::Debug for ToAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PublicKey { round, request } => {
                write!(f, "PublicKey(round {round}, {} bytes)", request.len())
            }
            Self::Keys { round, guest, question, .. } => {
                write!(f, "Keys(round {round}, of {}, {} bytes)", guest.as_str(), question.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_through_and_others_are_refused() {
        let guest = PartyId::new("fleet-a").unwrap();
        let (round, size) = (Round(7), [3, 40]);
        let messages = [
            ToAuthority::PublicKey { round, request: vec![1, 2, 3] },
            ToAuthority::Keys { round, guest, size, question: vec![9; 30] },
        ];
        for message in messages {
            let bytes = message.encode();
            assert_eq!(ToAuthority::decode(&bytes).unwrap(), message);
            assert_eq!(message.round(), Some(round));
        }
        let error = |bytes: &[u8]| ToAuthority::decode(bytes).unwrap_err().to_string();
        assert_eq!(error(&[3; 20]), "kind of message to a key authority: found 3, expected 1 or 2");
        assert!(error(&[]).ends_with("found 0 bytes, expected a kind"), "{}", error(&[]));
        // A name that is longer than the message, one that no party has, and cut ones.
        let name =
            |length: u8, name: &[u8]| [&[KEYS][..], &[0; 8], &[length], &[0; 8], name].concat();
        assert!(error(&name(9, b"short")).ends_with("expected a guest and rows"));
        assert!(error(&name(5, b"../ab")).ends_with("expected the name of a guest"));
        assert!(error(&[KEYS; 15]).ends_with("expected a guest and rows"));
        assert!(ToAuthority::decode(&name(5, b"fleet")).is_ok());
    }
}
