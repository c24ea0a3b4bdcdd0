//! Who takes part, in which run, at which round, and what time it is.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest name of a party, in bytes.
pub(crate) const MAX_NAME: usize = 64;

/// The name of a party: 1 to `MAX_NAME` of `a–z A–Z 0–9 - _ .`, beginning with a letter or digit.
///
/// A name goes into file names, certificates and logs, so it can hold nothing that means something
/// there.
///
/// ```
/// use protocol::PartyId;
/// assert_eq!(PartyId::new("fleet-a")?.as_str(), "fleet-a");
/// assert!(PartyId::new("../host").is_err());
/// # Ok::<(), protocol::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PartyId(String);

/// A name that no party may have.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "name of a party: found {found:?}, expected 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`, beginning with a letter or digit"
)]
pub struct NameError {
    /// Its beginning.
    pub found: String,
}

impl PartyId {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well && name.len() <= MAX_NAME && name.chars().all(allowed) {
            Ok(Self(name.to_owned()))
        } else {
            Err(NameError { found: name.chars().take(MAX_NAME).collect() })
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PartyId {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(&name)
    }
}

impl From<PartyId> for String {
    fn from(party: PartyId) -> Self {
        party.0
    }
}

impl fmt::Display for PartyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Number of an exchange, from 1. Round 0 is the state before the first one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Round(pub u64);

impl Round {
    /// Before the first exchange.
    pub const START: Round = Round(0);

    /// The next one.
    pub fn next(self) -> Round {
        Round(self.0 + 1)
    }

    /// Whether this one directly precedes another.
    pub fn precedes(self, other: Round) -> bool {
        self.0.checked_add(1) == Some(other.0)
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A training run, from its first round to its model: drawn once by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Which time the parties have started this run: one more after each return to a checkpoint, so that
/// messages from before it are recognised.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The next one.
    pub fn next(self) -> Attempt {
        Attempt(self.0 + 1)
    }
}

/// What time it is, as the party's surroundings say. State machines never ask a clock themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Since any fixed moment; never goes back. All timeouts use this one.
    pub monotonic: Duration,
    /// Since the epoch; may jump. Only written to the ledger.
    pub unix: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_elsewhere_are_refused() {
        for wrong in ["", ".", "-a", "a/b", "a b", "a\n", "ä", "a\0", &"a".repeat(MAX_NAME + 1)] {
            assert!(PartyId::new(wrong).is_err(), "{wrong:?}");
            assert!(serde_json::from_value::<PartyId>(wrong.into()).is_err(), "{wrong:?}");
        }
        for right in ["a", "0", "fleet-2.west_b", &"a".repeat(MAX_NAME)] {
            assert_eq!(PartyId::new(right).unwrap().as_str(), right);
        }
    }
}
