//! The four messages of functional encryption.
//!
//! ```text
//! PublicKey   terms:24  one point (32 bytes) per value of a block
//! Upload      block:u64  terms:24  C, D, one point per value of a block
//! Question    exchange:u64  rows:u32  values:u32  one i32 per row and value
//! Answer      exchange:u64  rows:u32  two scalars (32 bytes each) per row
//! ```

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use rayon::prelude::*;

use super::{MOST_VALUES, POINTS_AT_ONCE};
use crate::product::{BlockId, Terms};
use crate::wire::{DecodeError, HEADER, MessageKind, Reader, Writer, out_of_range};

/// The largest weight.
pub(crate) const MOST_WEIGHT: i32 = 1 << 30;

/// Bytes of a question besides its weights, with the public key that it is for.
pub(crate) const QUESTION_HEAD: usize = 2 * HEADER + 16 + 32;

/// An authority's public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    pub(crate) terms: Terms,
    /// One for each value of a block.
    pub(crate) points: Vec<RistrettoPoint>,
}

impl PublicKey {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer =
            Writer::new(MessageKind::IpfePublicKey, Terms::LEN + 32 * self.points.len());
        self.terms.write(&mut writer);
        compressed(&self.points).iter().for_each(|point| writer.bytes(point.as_bytes()));
        writer.finish()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("public key", MessageKind::IpfePublicKey, bytes)?;
        let terms = Terms::read_to(&mut reader, MOST_VALUES)?;
        let points = points("point of the public key", reader.bytes(32 * terms.width())?)?;
        reader.finish()?;
        Ok(Self { terms, points })
    }
}

/// A vector, encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Which block.
    pub block: BlockId,
    pub(crate) terms: Terms,
    /// C and D.
    pub(crate) heads: [RistrettoPoint; 2],
    /// E.
    pub(crate) values: Vec<RistrettoPoint>,
}

impl Upload {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer =
            Writer::new(MessageKind::IpfeUpload, Terms::LEN + 72 + 32 * self.values.len());
        writer.u64(self.block.0);
        self.terms.write(&mut writer);
        self.heads.iter().for_each(|point| writer.bytes(point.compress().as_bytes()));
        compressed(&self.values).iter().for_each(|point| writer.bytes(point.as_bytes()));
        writer.finish()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("upload", MessageKind::IpfeUpload, bytes)?;
        let block = BlockId(reader.u64()?);
        let terms = Terms::read_to(&mut reader, MOST_VALUES)?;
        let mut heads = points("point of the upload", reader.bytes(32 * (2 + terms.width()))?)?;
        reader.finish()?;
        let values = heads.split_off(2);
        Ok(Self { block, terms, heads: [heads[0], heads[1]], values })
    }
}

/// Rows for which a host asks for keys. The authority sees them.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    pub(crate) exchange: u64,
    pub(crate) values: usize,
    /// Row after row.
    pub(crate) weights: Vec<i32>,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows = self.weights.len() / self.values.max(1);
        write!(f, "Question(exchange {}, {rows} rows, …)", self.exchange)
    }
}

impl Question {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::IpfeQuestion, 16 + 4 * self.weights.len());
        writer.u64(self.exchange);
        writer.u32((self.weights.len() / self.values.max(1)) as u32);
        writer.u32(self.values as u32);
        for weight in &self.weights {
            writer.u32(*weight as u32);
        }
        writer.finish()
    }

    /// From bytes, with at most so many rows of exactly so many values.
    pub fn decode(bytes: &[u8], width: usize, most_rows: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("question", MessageKind::IpfeQuestion, bytes)?;
        let exchange = reader.u64()?;
        let rows = reader.count("rows of the question", most_rows)?;
        let values = reader.count("values of the question", MOST_VALUES)?;
        if values != width {
            return Err(out_of_range("values of the question", values, width));
        }
        let weights = reader.bytes(4 * rows * values)?;
        reader.finish()?;
        let weights = weights.as_chunks::<4>().0.iter().map(|&bytes| i32::from_le_bytes(bytes));
        let weights: Vec<i32> = weights.collect();
        match weights.iter().find(|weight| weight.unsigned_abs() > MOST_WEIGHT.unsigned_abs()) {
            Some(found) => Err(out_of_range("weight", found, format!("at most {MOST_WEIGHT}"))),
            None => Ok(Self { exchange, values, weights }),
        }
    }
}

/// Function keys, one pair per row.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) exchange: u64,
    pub(crate) keys: Vec<[Scalar; 2]>,
}

crate::debug_sizes!(Answer, |it| "Answer(exchange {}, {} keys, …)", it.exchange, it.keys.len());

impl Answer {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::IpfeAnswer, 12 + 64 * self.keys.len());
        writer.u64(self.exchange);
        writer.u32(self.keys.len() as u32);
        for scalar in self.keys.iter().flatten() {
            writer.bytes(scalar.as_bytes());
        }
        writer.finish()
    }

    /// From bytes, with at most so many rows.
    pub fn decode(bytes: &[u8], most_rows: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("answer", MessageKind::IpfeAnswer, bytes)?;
        let exchange = reader.u64()?;
        let rows = reader.count("rows of the answer", most_rows)?;
        let keys = reader.bytes(64 * rows)?;
        reader.finish()?;
        let keys = keys.as_chunks::<32>().0.as_chunks::<2>().0;
        let keys = keys.iter().map(|&[a, b]| Ok([scalar("key", a)?, scalar("key", b)?]));
        Ok(Self { exchange, keys: keys.collect::<Result<_, DecodeError>>()? })
    }
}

fn compressed(points: &[RistrettoPoint]) -> Vec<CompressedRistretto> {
    let points = points.par_iter().with_min_len(POINTS_AT_ONCE);
    points.map(RistrettoPoint::compress).collect()
}

fn points(what: &'static str, bytes: &[u8]) -> Result<Vec<RistrettoPoint>, DecodeError> {
    let compressed = bytes.as_chunks::<32>().0.par_iter().with_min_len(POINTS_AT_ONCE);
    compressed.map(|&bytes| point(what, &CompressedRistretto(bytes))).collect()
}

pub(crate) fn point(
    what: &'static str,
    compressed: &CompressedRistretto,
) -> Result<RistrettoPoint, DecodeError> {
    let expected = "a canonical point of ristretto255";
    compressed.decompress().ok_or_else(|| out_of_range(what, "bytes of no point", expected))
}

pub(crate) fn scalar(what: &'static str, bytes: [u8; 32]) -> Result<Scalar, DecodeError> {
    let scalar = Option::from(Scalar::from_canonical_bytes(bytes));
    scalar.ok_or_else(|| out_of_range(what, "bytes of no scalar", "a canonical scalar"))
}
