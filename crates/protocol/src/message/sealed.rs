//! Measurements that the host never sees: their products with its rows, and what these are made of.
//!
//! ```text
//!  guest                                                     host
//!    │ ◄─────────────────────────── EmbeddingRequest            which blocks it has no upload of, and whether no key
//!    │ Embedding, PublicKey, Uploads ────────────────►          a block is uploaded once, with its weights
//!    │ ◄─────────────────────────────── ProductQuery            rows times measurements, encrypted and masked
//!    │ Products ─────────────────────────────────────►          masked numbers
//!    │ ◄────────────────────── EncryptedCoefficients            training: of its own gradient and of others'
//!    │ MaskedProducts ───────────────────────────────►          their products, masked; the masks' seeds, for those others
//!    │ ◄──────────── MaskedGradient │ ExchangeClosed            training: the embedding's gradient, for the guest alone
//! ```
//!
//! A segment of consecutive samples is one block, or several ([`block_length`]), each of which is one ciphertext. Values are
//! shares of a `range` that all parties know, on one public grid that leaves room for noise.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use traffic::Quantity;

use super::committed::CommitmentTerms;
use super::measurements::{MeasurementKind, names};
use super::parts::PartError;
use crate::plan::Plan;

/// Most bytes of a sealed part: what fits a message.
pub const MAX_SEALED: usize = 16 << 20;
/// Most products of a message, if nothing else is agreed: more are asked for in several messages.
pub(crate) const USUAL_ROWS: u32 = 1 << 14;

/// Most guests whose gradients one guest contributes to in an exchange.
pub const MAX_COEFFICIENT_REQUESTS: usize = 256;

/// Most parts of a masked gradient: one for each sample.
pub(crate) const MAX_GRADIENT_PARTS: usize = super::parts::MAX_STEPS;

/// Most rows of a query.
pub const MOST_ROWS: usize = 1 << 20;
/// Most values of a block.
pub const MOST_WIDTH: usize = 8192;
/// The same of a block that is a whole batch, where an authority issues the keys of the host's products.
pub const MOST_KEYED_WIDTH: usize = 1 << 16;

/// Values of a block, if segments are no shorter: four rows or more fit a polynomial, so that little of it is left over.
const USUAL_WIDTH: usize = MOST_WIDTH / 4;

/// Samples of a block, where segments have so many of so many entries: the whole segment, or as large an equal part
/// of it as is of the usual size.
pub fn block_length(segment: u32, entries: usize) -> usize {
    let parts = (1..=segment).filter(|parts| segment.is_multiple_of(*parts));
    let lengths = parts.map(|parts| (segment / parts) as usize);
    lengths.into_iter().find(|length| length.saturating_mul(entries) <= USUAL_WIDTH).unwrap_or(1)
}

/// How measurements are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealing {
    /// By which products.
    pub scheme: Scheme,
    /// The most products of one message; an exchange may have several.
    pub most_rows: u32,
    /// Whether guests commit to their measurements before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commitments: Option<CommitmentTerms>,
}

/// Kinds of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// By lattice encryption.
    Lattice,
    /// Nothing is hidden from guests: to compare with, in tests.
    Plain,
    /// The host's products by functional encryption, whose keys an authority issues; guests' gradients by lattice encryption.
    KeyAuthority,
}

impl Sealing {
    /// The usual one.
    pub fn lattice() -> Self {
        Self { scheme: Scheme::Lattice, most_rows: USUAL_ROWS, commitments: None }
    }

    /// Refuses a plan whose measurements cannot be sealed.
    pub fn check(&self, plan: &Plan) -> Result<(), PartError> {
        if !(1..=MOST_ROWS as u32).contains(&self.most_rows) {
            let expected = format!("1 to {MOST_ROWS}");
            return Err(PartError::new("products of a message", self.most_rows, expected));
        }
        if plan.measured.is_empty() {
            let expected = "speeds, queues or held-out totals";
            return Err(PartError::new("measurements to be sealed", "none", expected));
        }
        if self.commitments.is_some() && plan.measured.contains(&MeasurementKind::HeldOut) {
            let found = names(plan.measured.iter().copied());
            let expected = "speeds or queues: held-out totals have no physical limits";
            return Err(PartError::new("measurements to commit to", found, expected));
        }
        self.commitments.map_or(Ok(()), |committing| committing.check())?;
        if self.commitments.is_some() && self.scheme == Scheme::Plain {
            return Err(PartError::new("commitments", "products in the clear", "sealed ones"));
        }
        if self.scheme == Scheme::KeyAuthority {
            self.check_keyed(plan)?;
        }
        Ok(())
    }

    /// What products with keys of an authority are not made for.
    fn check_keyed(&self, plan: &Plan) -> Result<(), PartError> {
        if self.commitments.is_some() {
            let found = "products whose keys an authority issues";
            return Err(PartError::new("commitments", found, "products that guests compute"));
        }
        if plan.measured.contains(&MeasurementKind::HeldOut) {
            let expected = "speeds or queues with a key authority";
            return Err(PartError::new("measurements to be sealed", "held-out totals", expected));
        }
        Ok(())
    }

    /// Whether an authority issues the keys of the host's products.
    pub fn is_keyed(&self) -> bool {
        self.scheme == Scheme::KeyAuthority
    }

    /// The most values of a block.
    pub fn most_width(&self) -> usize {
        if self.is_keyed() { MOST_KEYED_WIDTH } else { MOST_WIDTH }
    }

    /// Rows of random weights in each query.
    pub fn checks(&self) -> usize {
        self.commitments.map_or(0, |committing| committing.checks as usize)
    }
}

/// The largest value of a quantity that is sealed; what is beyond twice this counts as that. Jams have some 150
/// veh/km/lane, and no street is faster than 40 m/s. What is held out stands for all vehicles: one of a fold that has a
/// hundredth of the traffic counts as a hundred.
pub fn range(kind: MeasurementKind, quantity: Quantity) -> f64 {
    let usual = match quantity {
        Quantity::Density => 250.0,
        Quantity::Flow => 100.0,
        Quantity::Speed => 40.0,
    };
    if kind == MeasurementKind::HeldOut { 64.0 * usual } else { usual }
}

/// What an [`Ask`](super::ToGuest::EmbeddingRequest) needs of a guest whose measurements are sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingCiphertexts {
    /// The host does not have this guest's key.
    pub public_key: bool,
    /// Blocks of the batch, by their place, of which the host has no upload: in order, none twice.
    pub blocks: Vec<u32>,
}

impl MissingCiphertexts {
    /// Refuses places that are out of order, or more of them than a batch can have.
    pub(crate) fn check(&self, samples: usize) -> Result<(), PartError> {
        let ordered = self.blocks.windows(2).all(|pair| pair[0] < pair[1]);
        if ordered && self.blocks.last().is_none_or(|&last| (last as usize) < samples) {
            return Ok(());
        }
        let found = format!("{} blocks out of order or beyond the batch", self.blocks.len());
        Err(PartError::new("blocks to be uploaded", found, "places in the batch, in order"))
    }
}

/// Which entries of the computing guest each number of the recipient's embedding depends on: `[number, term]`; for
/// consecutive samples of the batch, of which this says the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoefficientEntries {
    entries: Vec<u32>,
    first: u32,
}

/// Most of them: embeddings of some thousand numbers, each of which depends on some hundred entries.
pub(crate) const MAX_COEFFICIENT_ENTRIES: usize = 1 << 20;

impl CoefficientEntries {
    /// Those of samples from the first of the batch on; checks their number.
    pub fn new(entries: Vec<u32>) -> Result<Self, PartError> {
        if (1..=MAX_COEFFICIENT_ENTRIES).contains(&entries.len()) {
            return Ok(Self { entries, first: 0 });
        }
        let expected = format!("1 to {MAX_COEFFICIENT_ENTRIES}");
        Err(PartError::new("entries of coefficients", entries.len(), expected))
    }

    /// The same for samples from another one on.
    pub fn from_sample(self, first: u32) -> Self {
        Self { first, ..self }
    }

    /// The place in the batch of the first sample that they are for.
    pub fn first(&self) -> usize {
        self.first as usize
    }

    /// The entries.
    pub fn as_slice(&self) -> &[u32] {
        &self.entries
    }
}

/// Bytes of a secure product: a key, an upload, a query, an answer, encrypted coefficients, masked products or a masked gradient. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// Checks their number.
    pub fn new(bytes: Vec<u8>) -> Result<Self, PartError> {
        if bytes.len() > MAX_SEALED {
            let expected = format!("at most {MAX_SEALED} bytes");
            return Err(PartError::new("sealed part", bytes.len(), expected));
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

crate::debug_sizes!(Sealed, |it| "[{} sealed bytes]", it.0.len());

/// The SHA-256 of a guest's key: fleets that compare those in their ledgers know that the host has handed on
/// the right ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of a key.
    pub fn of(key: &Sealed) -> Self {
        Self::of_bytes(&key.0)
    }

    /// The same of a key as it is.
    pub fn of_bytes(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// One that was sent.
    pub fn new(bytes: &[u8]) -> Result<Self, PartError> {
        let found = bytes.len();
        let fingerprint = bytes.try_into().map(Self);
        fingerprint.map_err(|_| PartError::new("fingerprint of a key", found, "32 bytes"))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Weights of a block's measurements, `[sample, entry]`: one over the variance, 0 for nothing. They are
/// not sealed: the host's rows are made of them.
#[derive(Clone, PartialEq)]
pub struct BlockWeights(Vec<f32>);

impl BlockWeights {
    /// Checks that they are weights, and no more than a block has.
    pub fn new(weights: Vec<f32>) -> Result<Self, PartError> {
        let wrong = |found: String, expected: String| {
            Err(PartError::new("weights of a block", found, expected))
        };
        if !(1..=MOST_KEYED_WIDTH).contains(&weights.len()) {
            return wrong(weights.len().to_string(), format!("1 to {MOST_KEYED_WIDTH}"));
        }
        let most = super::measurements::MAX_WEIGHT;
        match weights.iter().find(|weight| !(0.0..=most).contains(*weight)) {
            Some(found) => wrong(found.to_string(), format!("0 to {most}")),
            None => Ok(Self(weights)),
        }
    }

    /// The weights.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }
}

crate::debug_sizes!(BlockWeights, |it| "[{} weights]", it.0.len());
