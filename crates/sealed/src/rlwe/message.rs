//! The messages of the lattice protocol about products for the host; `masked` has those about products for a guest.
//!
//! ```text
//! PublicKey   terms:24  seed:32  b: 3 × 8192 residues                      153 660 bytes
//! Upload      block:u64  terms:24  seed:32  c0: 3 × 8192 residues          153 668 bytes
//! Question    exchange:u64  rows:u32  per polynomial: c1: 8192 residues, c0: one residue per row in it
//! Answer      exchange:u64  rows:u32  5 bytes per row
//! ```
//!
//! Terms are the width and grid that the guest works with; an exchange is a random number of the host's.
//! Residues modulo the three primes of keys and uploads are values of the transform, in its order; those of
//! questions are coefficients modulo the first prime.

pub(crate) mod masked;

use rayon::prelude::*;

use super::codec::{pack, packed_len, unpack};
use super::ring::{PLAIN_BITS, PRIME, PRIMES};
use super::transform::DEGREE;
use crate::product::{BlockId, Terms};
use crate::wire::{DecodeError, MessageKind, Reader, Writer, out_of_range};

pub use masked::{EncryptedCoefficients, MaskedGradient, MaskedProducts};

const PLAIN_BYTES: usize = PLAIN_BITS as usize / 8;

/// Half of a ciphertext, as residues modulo all primes; the other half is the stream of its seed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SeededHalf {
    pub(crate) seed: [u8; 32],
    /// Packed residues, checked.
    pub(crate) packed: Vec<u8>,
}

crate::debug_sizes!(SeededHalf, |_it| "SeededHalf(…)");

const POLY_BYTES: usize = packed_len(DEGREE);
/// Polynomials that a thread packs or unpacks at a time.
const POLYS_AT_ONCE: usize = 4;

impl SeededHalf {
    pub(crate) fn new(seed: [u8; 32], residues: [Vec<u64>; PRIMES]) -> Self {
        let mut packed = Vec::with_capacity(PRIMES * POLY_BYTES);
        for residues in residues {
            pack(&residues, &mut packed);
        }
        Self { seed, packed }
    }

    fn write(&self, writer: &mut Writer) {
        writer.bytes(&self.seed);
        writer.bytes(&self.packed);
    }

    fn read(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let seed = reader.array()?;
        Self::checked(what, seed, reader.bytes(PRIMES * POLY_BYTES)?)
    }

    fn checked(what: &'static str, seed: [u8; 32], packed: &[u8]) -> Result<Self, DecodeError> {
        for (bytes, prime) in packed.chunks_exact(POLY_BYTES).zip(PRIME) {
            unpack(what, bytes, DEGREE, prime, |_, _| {})?;
        }
        Ok(Self { seed, packed: packed.to_vec() })
    }

    /// The residues modulo one prime.
    pub(crate) fn residues(&self, prime: usize, out: &mut [f64; DEGREE]) {
        let bytes = &self.packed[prime * POLY_BYTES..][..POLY_BYTES];
        // Checked when it was read.
        let _ = unpack("residue", bytes, DEGREE, PRIME[prime], |i, x| out[i] = x as i64 as f64);
    }
}

/// A guest's public key: with it the host makes fresh encryptions of zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    pub(crate) terms: Terms,
    pub(crate) half: SeededHalf,
}

impl PublicKey {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer =
            Writer::new(MessageKind::RlwePublicKey, Terms::LEN + 32 + PRIMES * POLY_BYTES);
        self.terms.write(&mut writer);
        self.half.write(&mut writer);
        writer.finish()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("public key", MessageKind::RlwePublicKey, bytes)?;
        let terms = Terms::read(&mut reader)?;
        let half = SeededHalf::read("public key", &mut reader)?;
        reader.finish()?;
        Ok(Self { terms, half })
    }
}

/// A block of a guest's values, encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Which block.
    pub block: BlockId,
    pub(crate) terms: Terms,
    pub(crate) half: SeededHalf,
}

impl Upload {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer =
            Writer::new(MessageKind::RlweUpload, Terms::LEN + 40 + PRIMES * POLY_BYTES);
        writer.u64(self.block.0);
        self.terms.write(&mut writer);
        self.half.write(&mut writer);
        writer.finish()
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("upload", MessageKind::RlweUpload, bytes)?;
        let block = BlockId(reader.u64()?);
        let terms = Terms::read(&mut reader)?;
        let half = SeededHalf::read("upload", &mut reader)?;
        reader.finish()?;
        Ok(Self { block, terms, half })
    }
}

/// A polynomial of results: c1 in full, of c0 only the coefficients that hold a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) c1: Vec<u64>,
    pub(crate) c0: Vec<u64>,
}

impl Sealed {
    fn write(&self, writer: &mut Writer) {
        let mut packed = Vec::with_capacity(POLY_BYTES + packed_len(self.c0.len()));
        pack(&self.c1, &mut packed);
        pack(&self.c0, &mut packed);
        writer.bytes(&packed);
    }

    /// With so many coefficients of c0.
    fn read(what: &'static str, reader: &mut Reader<'_>, here: usize) -> Result<Self, DecodeError> {
        let c1 = residues(what, reader.bytes(POLY_BYTES)?, DEGREE)?;
        let c0 = residues(what, reader.bytes(packed_len(here))?, here)?;
        Ok(Self { c1, c0 })
    }
}

/// Residues of the first prime.
fn residues(what: &'static str, bytes: &[u8], count: usize) -> Result<Vec<u64>, DecodeError> {
    let mut residues = vec![0; count];
    unpack(what, bytes, count, PRIME[0], |i, x| residues[i] = x)?;
    Ok(residues)
}

/// Encrypted products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedProducts {
    pub(crate) exchange: u64,
    pub(crate) rows: usize,
    pub(crate) polys: Vec<Sealed>,
}

impl SealedProducts {
    fn len(&self) -> usize {
        self.polys.iter().map(|poly| POLY_BYTES + packed_len(poly.c0.len())).sum()
    }

    fn write(&self, writer: &mut Writer) {
        let packed = self.polys.par_iter().with_min_len(POLYS_AT_ONCE).map(|poly| {
            let mut packed = Vec::with_capacity(POLY_BYTES + packed_len(poly.c0.len()));
            pack(&poly.c1, &mut packed);
            pack(&poly.c0, &mut packed);
            packed
        });
        let packed: Vec<Vec<u8>> = packed.collect();
        packed.iter().for_each(|bytes| writer.bytes(bytes));
    }

    fn read(
        what: &'static str,
        reader: &mut Reader<'_>,
        exchange: u64,
        rows: usize,
        rows_per_poly: usize,
    ) -> Result<Self, DecodeError> {
        let mut packed = Vec::new();
        let mut left = rows;
        while left > 0 {
            let here = left.min(rows_per_poly);
            // The bytes are there before the room is made.
            let c1 = reader.bytes(POLY_BYTES)?;
            packed.push((c1, reader.bytes(packed_len(here))?, here));
            left -= here;
        }
        let polys = packed.into_par_iter().with_min_len(POLYS_AT_ONCE).map(|(c1, c0, here)| {
            Ok(Sealed { c1: residues(what, c1, DEGREE)?, c0: residues(what, c0, here)? })
        });
        let polys = polys.collect::<Result<Vec<_>, DecodeError>>()?;
        Ok(Self { exchange, rows, polys })
    }
}

/// A host's masked products, encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question(pub(crate) SealedProducts);

impl Question {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::RlweQuestion, 12 + self.0.len());
        writer.u64(self.0.exchange);
        writer.u32(self.0.rows as u32);
        self.0.write(&mut writer);
        writer.finish()
    }

    /// From bytes, with at most so many rows of so many values per block.
    pub fn decode(bytes: &[u8], width: usize, most_rows: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("question", MessageKind::RlweQuestion, bytes)?;
        let exchange = reader.u64()?;
        let rows = reader.count("rows of the question", most_rows)?;
        let per_poly = super::rows_per_poly(width);
        let products = SealedProducts::read("question", &mut reader, exchange, rows, per_poly)?;
        reader.finish()?;
        Ok(Self(products))
    }
}

/// The least scale: the largest number, 2^39, times 2^984 is still finite.
pub(crate) const LEAST_SCALE: i32 = -984;
/// The largest scale; far from where units would become subnormal.
pub(crate) const MOST_SCALE: i32 = 1000;

fn read_scale(reader: &mut Reader<'_>) -> Result<i32, DecodeError> {
    let scale = reader.u32()? as i32;
    if (LEAST_SCALE..=MOST_SCALE).contains(&scale) {
        return Ok(scale);
    }
    let expected = format!("{LEAST_SCALE} to {MOST_SCALE}");
    Err(out_of_range("scale of the masked gradient", scale, expected))
}

/// Masked products, decrypted: numbers modulo 2^40.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) exchange: u64,
    /// Uniform to everyone but the host.
    pub(crate) masked: Vec<u64>,
}

crate::debug_sizes!(Answer, |it| "Answer(exchange {}, {} rows, …)", it.exchange, it.masked.len());

impl Answer {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::RlweAnswer, 12 + PLAIN_BYTES * self.masked.len());
        writer.u64(self.exchange);
        writer.u32(self.masked.len() as u32);
        for masked in &self.masked {
            writer.bytes(&masked.to_le_bytes()[..PLAIN_BYTES]);
        }
        writer.finish()
    }

    /// From bytes, with at most so many rows.
    pub fn decode(bytes: &[u8], most_rows: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("answer", MessageKind::RlweAnswer, bytes)?;
        let exchange = reader.u64()?;
        let rows = reader.count("rows of the answer", most_rows)?;
        let masked = reader.bytes(PLAIN_BYTES * rows)?;
        reader.finish()?;
        let masked = masked.as_chunks::<PLAIN_BYTES>().0.iter().map(|bytes| {
            let mut word = [0; 8];
            word[..PLAIN_BYTES].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        Ok(Self { exchange, masked: masked.collect() })
    }
}
