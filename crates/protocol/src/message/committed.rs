//! What holds a guest to its data: commitments before training, and sums that it opens during it.
//!
//! ```text
//!  guest                                          host
//!    │ ◄───────────────────────────── Commit         some samples of the course; before its first exchange
//!    │ Commitments ───────────────────────────►      to each level, and proofs that all are possible; until the
//!    │ ◄─────────────────────────── Accepted         host has them of all samples
//!    │ …
//!    │ ◄─────────────────────────── Query         with rows of random weights hidden among the others
//!    │ Products ──────────────────────────────►
//!    │ ◄────────────────────────── Challenge         these weights
//!    │ Response ──────────────────────────────►      what hides the sums of the committed levels with them
//! ```
//!
//! Commitments are a chain: each message goes on from the [`Digest`] of all before it, which both ledgers have.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use traffic::Window;

use super::Exchange;
use super::parts::{Batch, PartError};
use super::sealed::{MAX_SEALED, Sealed};

/// Values that are committed to at a time, but for samples that have more: seconds of work.
const VALUES_AT_A_TIME: usize = 2048;
/// Most values that one group of commitments is to.
pub const MOST_COMMITTED: usize = 512;
/// Most groups of values with a proof of their own in a message: a sample of the most values that a block can have.
pub(crate) const MOST_GROUPS: usize = 16;
/// Most rows of random weights in a query.
pub(crate) const MOST_CHECKS: u32 = 16;
/// Most bytes of what opens a row.
const MOST_OPENING: usize = 64;
/// Most bytes of the proof of a group.
const MOST_PROOF: usize = 2048;

/// From a guest that is held to its data.
#[derive(Clone, Debug, PartialEq)]
pub enum CommitmentReply {
    /// What I hold of these samples, committed to.
    Commitments {
        /// Which exchange asked for it.
        exchange: Exchange,
        /// What I had committed to before.
        after: Digest,
        /// What I have committed to with these.
        digest: Digest,
        /// To how many values: for the ledger.
        values: u32,
        /// The commitments, and proofs that the values are possible.
        proven: ProvenCommitments,
    },
    /// What hides the sums that I was challenged with.
    Response {
        /// Which exchange.
        exchange: Exchange,
        /// The challenge.
        challenge: Digest,
        /// How many sums, and of how many values each: for the ledger.
        size: [u32; 2],
        /// For each of its rows.
        openings: CommitmentOpenings,
    },
}

/// To a guest that is held to its data.
#[derive(Clone, Debug, PartialEq)]
pub enum CommitmentRequest {
    /// Commit to the measurements of these samples.
    Samples {
        /// Which exchange waits for it.
        exchange: Exchange,
        /// What you have committed to before.
        after: Digest,
        /// The samples.
        batch: Batch,
    },
    /// I have your commitments to all samples.
    Accepted {
        /// Which exchange has waited for it.
        exchange: Exchange,
        /// What they are known by.
        digest: Digest,
    },
    /// Open the sums of your commitments with these weights: they were among the rows of my query.
    Challenge {
        /// Which exchange.
        exchange: Exchange,
        /// The query.
        query: Digest,
        /// The weights.
        weights: CheckWeights,
    },
}

impl CommitmentReply {
    /// The exchange it belongs to.
    pub fn exchange(&self) -> Exchange {
        match self {
            Self::Commitments { exchange, .. } | Self::Response { exchange, .. } => *exchange,
        }
    }

    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Commitments { .. } => "commitments",
            Self::Response { .. } => "commitment-openings",
        }
    }

    /// As ledgers count it.
    pub(super) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Commitments { values, .. } => vec![*values as usize],
            Self::Response { size, .. } => size.iter().map(|&side| side as usize).collect(),
        }
    }
}

impl CommitmentRequest {
    /// The exchange it belongs to.
    pub fn exchange(&self) -> Exchange {
        match self {
            Self::Samples { exchange, .. }
            | Self::Accepted { exchange, .. }
            | Self::Challenge { exchange, .. } => *exchange,
        }
    }

    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Samples { .. } => "commitment-request",
            Self::Accepted { .. } => "commitments-accepted",
            Self::Challenge { .. } => "challenge",
        }
    }
}

/// That guests commit to what they measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitmentTerms {
    /// Where all values must lie.
    pub bounds: Bounds,
    /// Rows of random weights in each query.
    pub checks: u32,
}

/// Where values must lie, as shares of their [range](super::sealed::range).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounds {
    /// From 0 to 1: for data without noise.
    Physical,
    /// Wherever the grid of sealed values reaches: room for noise on either side.
    Noised,
}

impl CommitmentTerms {
    /// With one row in each query.
    pub fn within(bounds: Bounds) -> Self {
        Self { bounds, checks: 1 }
    }

    /// Refuses what nobody can do.
    pub(crate) fn check(&self) -> Result<(), PartError> {
        match (1..=MOST_CHECKS).contains(&self.checks) {
            true => Ok(()),
            false => Err(PartError::new("check rows", self.checks, format!("1 to {MOST_CHECKS}"))),
        }
    }
}

/// Samples of so many entries that are committed to at a time.
pub fn samples_at_a_time(entries: usize) -> usize {
    (VALUES_AT_A_TIME / entries.max(1)).max(1)
}

/// The SHA-256 of all that a guest has committed to so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of nothing.
    pub const START: Digest = Digest([0; 32]);

    /// One that was sent.
    pub fn new(bytes: &[u8]) -> Result<Self, PartError> {
        let digest = bytes.try_into().map(Self);
        digest.map_err(|_| PartError::new("digest of commitments", bytes.len(), "32 bytes"))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Of these commitments after those.
    pub fn and(&self, samples: &[Window], proven: &ProvenCommitments) -> Self {
        let mut hash = Sha256::new_with_prefix(self.0);
        hash.update((samples.len() as u64).to_le_bytes());
        for sample in samples {
            hash.update(sample.last.0.to_le_bytes());
            hash.update(sample.view.0.to_le_bytes());
        }
        for group in &proven.0 {
            hash.update((group.commitments.len() as u64).to_le_bytes());
            hash.update(&group.commitments);
        }
        Self(hash.finalize().into())
    }

    /// Of any bytes: what a challenge or a query is known by.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// That of a query.
    pub fn of_query(query: &Sealed) -> Self {
        Self::of(query.as_slice())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = PartError;
    fn try_from(text: String) -> Result<Self, PartError> {
        let wrong = || PartError::new("digest of commitments", &text, "64 hexadecimal digits");
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| wrong())?;
        bytes.try_into().map(Self).map_err(|_| wrong())
    }
}

/// Commitments to some values, and the proof that they are possible.
#[derive(Clone, PartialEq, Eq)]
pub struct CommitmentGroup {
    /// To up to [`MOST_COMMITTED`] values.
    pub commitments: Vec<u8>,
    /// Of their range.
    pub proof: Vec<u8>,
}

crate::debug_sizes!(
    CommitmentGroup,
    |it| "[{} bytes, {} of proof]",
    it.commitments.len(),
    it.proof.len()
);

/// Commitments to the values of some samples, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenCommitments(Vec<CommitmentGroup>);

impl ProvenCommitments {
    /// Checks their number and sizes.
    pub fn new(groups: Vec<CommitmentGroup>) -> Result<Self, PartError> {
        if !(1..=MOST_GROUPS).contains(&groups.len()) {
            let expected = format!("1 to {MOST_GROUPS}");
            return Err(PartError::new("groups of commitments", groups.len(), expected));
        }
        // Points of 32 bytes after a count and what every message of secure products begins with.
        let most = 32 * MOST_COMMITTED + 16;
        for CommitmentGroup { commitments, proof } in &groups {
            for (what, bytes, most) in
                [("commitments", commitments, most), ("range proof", proof, MOST_PROOF)]
            {
                if bytes.len() > most {
                    return Err(PartError::new(what, bytes.len(), format!("at most {most} bytes")));
                }
            }
        }
        Ok(Self(groups))
    }

    /// The groups.
    pub fn groups(&self) -> &[CommitmentGroup] {
        &self.0
    }
}

/// The weights of some rows, one after the other.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckWeights(Vec<i32>);

impl CheckWeights {
    /// Checks their number.
    pub fn new(weights: Vec<i32>) -> Result<Self, PartError> {
        let most = MAX_SEALED / 4;
        match (1..=most).contains(&weights.len()) {
            true => Ok(Self(weights)),
            false => Err(PartError::new("check weights", weights.len(), format!("1 to {most}"))),
        }
    }

    /// The weights.
    pub fn as_slice(&self) -> &[i32] {
        &self.0
    }

    /// Little-endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|weight| weight.to_le_bytes()).collect()
    }

    /// The same, read.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, PartError> {
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(PartError::new("check weights", bytes.len(), "4 bytes each"));
        }
        Self::new(words.iter().map(|&word| i32::from_le_bytes(word)).collect())
    }

    /// What an answer names them by.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_bytes())
    }
}

crate::debug_sizes!(CheckWeights, |it| "[{} check weights]", it.0.len());

/// What opens each row of a challenge.
#[derive(Clone, PartialEq, Eq)]
pub struct CommitmentOpenings(Vec<Vec<u8>>);

impl CommitmentOpenings {
    /// Checks their number and sizes.
    pub fn new(openings: Vec<Vec<u8>>) -> Result<Self, PartError> {
        if !(1..=MOST_CHECKS as usize).contains(&openings.len()) {
            let expected = format!("1 to {MOST_CHECKS}");
            return Err(PartError::new("opened rows", openings.len(), expected));
        }
        match openings.iter().find(|opening| opening.len() > MOST_OPENING) {
            Some(opening) => {
                let expected = format!("at most {MOST_OPENING} bytes");
                Err(PartError::new("opening of a row", opening.len(), expected))
            }
            None => Ok(Self(openings)),
        }
    }

    /// One for each row.
    pub fn rows(&self) -> &[Vec<u8>] {
        &self.0
    }
}

crate::debug_sizes!(CommitmentOpenings, |it| "[{} opened rows]", it.0.len());
