//! Data that a guest is held to: commitments to its values, proofs that they are possible, and sums that it opens.
//!
//! ```text
//! guest                                                          host
//!   commits to each level k_j it will upload: C_j = k_j·G + r_j·H  ►   keeps C, before training
//!   proves low ≤ k_j ≤ high for all of them                        ►   checks
//!   uploads the same levels, and trains                            ↔   asks about rows of random weights w among others
//!   opens Σ w_j·C_j: shows Σ w_j·r_j                               ►   checks it against the product that it got
//! ```
//!
//! G and H are generators of ristretto255 of which nobody knows how one is a multiple of the other, so a guest cannot
//! open a commitment in two ways, and a host learns nothing from one. The guest cannot tell rows of a check from rows of
//! training, and hears the weights only after it has answered: if what it uploaded is not what it committed to, the sums
//! differ but for one chance in the number of different weights that a row may have there.
//!
//! **What this proves**: the values are those that were committed to, throughout, and each lies in its range. **What it does
//! not prove**: that they are true. A guest that invents plausible traffic passes. Opening a sum shows its product to
//! nobody new: the host has it already. See docs/sealed.md.

mod generators;
mod inner_product;
mod range_proof;
mod seed;
mod transcript;

use std::ops::Range;

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::VartimeMultiscalarMul;
use thiserror::Error;
use zeroize::Zeroize;

use crate::ipfe::message::{point, scalar};
use crate::ipfe::small_scalar;
use crate::random::Randomness;
use crate::wire::{DecodeError, MessageKind, Reader, Writer};
use generators::blinding_generator;
use range_proof::{BITS, RangeProof};
pub use seed::{BlindingSeed, Named};
use transcript::Transcript;

/// The most values of one commitment: what one proof is about.
pub const MOST_COMMITTED: usize = 512;

/// Why commitments are not accepted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CommittedError {
    /// Bytes that are none.
    #[error("the peer sent no valid {what}: {reason}")]
    Peer {
        /// The message.
        what: &'static str,
        /// What is wrong with it.
        reason: DecodeError,
    },
    /// A proof that proves nothing.
    #[error("range proof: found one that does not hold, expected values from {low} to {high}")]
    Range {
        /// Lower limit.
        low: i32,
        /// Upper limit.
        high: i32,
    },
    /// A sum that is not that of what was committed to.
    #[error(
        "opening: found a product that is not that of the committed values: the guest does not train with what it has committed to"
    )]
    Opening,
    /// This party asks for what cannot be.
    #[error("{what}: found {found}, expected {expected}")]
    Misuse {
        /// The argument.
        what: &'static str,
        /// What was given.
        found: String,
        /// What is possible.
        expected: String,
    },
}

fn misuse(what: &'static str, found: impl ToString, expected: impl ToString) -> CommittedError {
    CommittedError::Misuse { what, found: found.to_string(), expected: expected.to_string() }
}

fn peer(what: &'static str) -> impl Fn(DecodeError) -> CommittedError {
    move |reason| CommittedError::Peer { what, reason }
}

/// The guest's side: levels and what hides them. As secret as the data.
pub struct Committed {
    levels: Vec<i32>,
    blindings: Vec<Scalar>,
    points: Vec<CompressedRistretto>,
}

impl Committed {
    /// Commits to levels, 1 to [`MOST_COMMITTED`], with a blinding for each.
    fn new(levels: &[i32], blindings: &[Scalar]) -> Self {
        let points = levels.iter().zip(blindings).map(|(&level, blinding)| {
            let value = RistrettoPoint::mul_base(&small_scalar(level.into()));
            (value + blinding * blinding_generator()).compress()
        });
        let points = points.collect();
        Self { levels: levels.to_vec(), blindings: blindings.to_vec(), points }
    }

    /// For the host.
    pub fn commitments(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::Commitments, 4 + 32 * self.points.len());
        writer.u32(self.points.len() as u32);
        for point in &self.points {
            writer.bytes(point.as_bytes());
        }
        writer.finish()
    }

    /// A proof that all levels are from `low` to `high`, at most 65,536 of them. It is bound to `context`, for instance the
    /// name of the guest and the day: a proof of another context is not accepted.
    pub fn prove(
        &self,
        (low, high): (i32, i32),
        context: &[u8],
        random: &mut Randomness,
    ) -> Result<Vec<u8>, CommittedError> {
        check_range(low, high)?;
        if let Some(level) = self.levels.iter().find(|level| !(low..=high).contains(*level)) {
            return Err(misuse("level", level, format!("{low} to {high}")));
        }
        // Both k − low and high − k are to be numbers of 16 bits.
        let mut values = Vec::with_capacity(2 * self.levels.len());
        let mut blindings = Vec::with_capacity(2 * self.levels.len());
        for (&level, blinding) in self.levels.iter().zip(&self.blindings) {
            values.extend([i64::from(level) - i64::from(low), i64::from(high) - i64::from(level)]);
            blindings.extend([*blinding, -blinding]);
        }
        let mut values: Vec<u64> = values.into_iter().map(|value| value as u64).collect();
        let mut transcript = begun(&self.points, (low, high), context);
        let proof = RangeProof::prove(&mut transcript, &values, &blindings, random);
        values.zeroize();
        blindings.zeroize();
        let mut writer = Writer::new(MessageKind::RangeProof, proof.len());
        proof.write(&mut writer);
        Ok(writer.finish())
    }
}

impl Drop for Committed {
    fn drop(&mut self) {
        self.levels.zeroize();
        self.blindings.zeroize();
    }
}

crate::debug_sizes!(Committed, |it| "Committed({} values, …)", it.levels.len());

/// The host's side: what a guest has committed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commitments {
    compressed: Vec<CompressedRistretto>,
    points: Vec<RistrettoPoint>,
}

impl Commitments {
    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, CommittedError> {
        let read = || {
            let mut reader = Reader::new("commitments", MessageKind::Commitments, bytes)?;
            let count = reader.count("values", MOST_COMMITTED)?;
            let compressed = reader.bytes(32 * count)?.as_chunks::<32>().0;
            let compressed: Vec<_> = compressed.iter().map(|&b| CompressedRistretto(b)).collect();
            reader.finish()?;
            let points = compressed.iter().map(|point_bytes| point("point", point_bytes));
            let points = points.collect::<Result<_, _>>()?;
            Ok(Self { compressed, points })
        };
        read().map_err(peer("commitments"))
    }

    /// Values committed to.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Some of them; none if there are not so many.
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        let compressed = self.compressed.get(range.clone())?.to_vec();
        Some(Self { compressed, points: self.points.get(range)?.to_vec() })
    }

    /// Several, one after the other: for sums, not to be proven anything about.
    pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Commitments>) -> Self {
        let mut joined = Self { compressed: Vec::new(), points: Vec::new() };
        for part in parts {
            joined.compressed.extend_from_slice(&part.compressed);
            joined.points.extend_from_slice(&part.points);
        }
        joined
    }

    /// Checks that all levels are from `low` to `high`.
    pub fn check_range(
        &self,
        (low, high): (i32, i32),
        context: &[u8],
        proof: &[u8],
    ) -> Result<(), CommittedError> {
        check_range(low, high)?;
        let read = || {
            let mut reader = Reader::new("range proof", MessageKind::RangeProof, proof)?;
            let proof = RangeProof::read(&mut reader, 2 * self.points.len())?;
            reader.finish()?;
            Ok(proof)
        };
        let proof = read().map_err(peer("range proof"))?;
        let [low_point, high_point] =
            [low, high].map(|limit| RistrettoPoint::mul_base(&small_scalar(limit.into())));
        let sides = self.points.iter().flat_map(|c| [c - low_point, high_point - c]);
        let mut transcript = begun(&self.compressed, (low, high), context);
        match proof.holds(&mut transcript, &sides.collect::<Vec<_>>()) {
            true => Ok(()),
            false => Err(CommittedError::Range { low, high }),
        }
    }

    /// Checks that a product is that of these weights with the committed levels.
    pub fn check_product(
        &self,
        weights: &[i64],
        product: i64,
        opening: &[u8],
    ) -> Result<(), CommittedError> {
        check_weights(weights, self.points.len())?;
        let read = || {
            let mut reader = Reader::new("opening", MessageKind::Opening, opening)?;
            let blinding = scalar("scalar", reader.array()?)?;
            reader.finish()?;
            Ok(blinding)
        };
        let blinding = read().map_err(peer("opening"))?;
        let weights = weights.iter().map(|&weight| small_scalar(weight));
        let sum = RistrettoPoint::vartime_multiscalar_mul(weights, &self.points);
        let expected =
            RistrettoPoint::mul_base(&small_scalar(product)) + blinding * blinding_generator();
        if sum == expected { Ok(()) } else { Err(CommittedError::Opening) }
    }
}

/// What a proof is about.
fn begun(points: &[CompressedRistretto], (low, high): (i32, i32), context: &[u8]) -> Transcript {
    let mut transcript = Transcript::new(b"fedtse committed values, v1");
    transcript.append(b"context", context);
    transcript.append(b"low", &low.to_le_bytes());
    transcript.append(b"high", &high.to_le_bytes());
    for point in points {
        transcript.append(b"commitment", point.as_bytes());
    }
    transcript
}

fn check_range(low: i32, high: i32) -> Result<(), CommittedError> {
    let most = 1i64 << BITS;
    match (0..most).contains(&(i64::from(high) - i64::from(low))) {
        true => Ok(()),
        false => Err(misuse("range", format!("{low} to {high}"), format!("at most {most} levels"))),
    }
}

fn check_weights(weights: &[i64], expected: usize) -> Result<(), CommittedError> {
    if weights.len() != expected {
        return Err(misuse("weights", weights.len(), expected));
    }
    match weights.iter().find(|weight| weight.unsigned_abs() > MOST_WEIGHT.unsigned_abs()) {
        Some(weight) => Err(misuse("weight", weight, format!("at most {MOST_WEIGHT} in size"))),
        None => Ok(()),
    }
}

/// The largest weight of a sum: far more than products have, far less than scalars have room for.
const MOST_WEIGHT: i64 = 1 << 48;

#[cfg(test)]
mod tests;
