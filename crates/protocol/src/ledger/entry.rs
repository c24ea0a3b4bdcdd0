//! One line of a ledger.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::queried_steps::QueriedSteps;
use crate::message::committed::Digest;
use crate::party::{PartyId, Round};

/// Longest line, in bytes, that a reader accepts.
pub(super) const MAX_LINE: usize = 1 << 16;

/// One message that left, see the [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    /// From 1.
    pub sequence: u64,
    /// When, in milliseconds since the epoch, by the party's own clock.
    pub time_ms: u64,
    /// To whom.
    pub to: PartyId,
    /// What kind of message.
    pub kind: String,
    /// Its round, if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round: Option<Round>,
    /// Shape of its numbers; empty if it has none.
    pub shape: Vec<usize>,
    /// The same has left before: its numbers tell nothing new, and are not counted again.
    #[serde(skip_serializing_if = "is_new", default)]
    pub again: bool,
    /// The steps that its products are of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub steps: Option<QueriedSteps>,
    /// The key that it is or was encrypted with, where keys pass through the hands of others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<UsedKey>,
    /// What a guest has committed to so far: at the end the same in its ledger and in the host's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub committed: Option<Digest>,
    /// Bytes of its content.
    pub bytes: u64,
    /// SHA-256 of its content.
    pub digest: String,
    /// SHA-256 of the line before.
    pub previous: String,
}

fn is_new(again: &bool) -> bool {
    !again
}

/// A key for sealed products.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsedKey {
    /// Whose it is, as the host says; none for the party's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of: Option<PartyId>,
    /// Its SHA-256.
    pub fingerprint: String,
}

impl LedgerEntry {
    /// How many numbers it has that were not sent before.
    pub(super) fn numbers(&self) -> u64 {
        if self.shape.is_empty() || self.again {
            return 0;
        }
        self.shape.iter().fold(1, |numbers, &side| numbers.saturating_mul(side as u64))
    }

    /// Whether its numbers are of products with what the party holds.
    pub(super) fn is_of_products(&self) -> bool {
        matches!(self.kind.as_str(), "products" | "masked-products" | "commitment-openings")
    }

    /// As it stands in the file, with its end.
    pub(super) fn to_text(&self) -> String {
        // No map with keys that are not text, no number that JSON lacks: this cannot fail.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// The hash that the next line holds.
pub(super) fn hash(line: &[u8]) -> [u8; 32] {
    Sha256::digest(line).into()
}

/// Version of the format of ledgers.
pub(super) const FORMAT: u32 = 2;

/// What the first line holds as the hash of the one before, in a format of ledgers.
pub(super) fn beginning(party: &PartyId, format: u32) -> [u8; 32] {
    hash(format!("fedtse-ledger/{format} {party}").as_bytes())
}
