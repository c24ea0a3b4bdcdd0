//! The messages by which products of one guest's values reach another.
//!
//! ```text
//! Loan         exchange:u64  rows:u32  as in Question
//! Relay        exchange:u64  rows:u32  per polynomial of 8192 numbers: c1: 8192 residues, c0: one residue per number
//! SharedGrant  exchange:u64  rows:u32  scale:i32  as in Grant, and then as in Relay
//! ```
//!
//! Numbers of a relay fill their polynomials, whatever the width of anyone's blocks is.

use super::{DecodeError, Kind, Reader, SealedProducts, Writer, read_scale};
use crate::rlwe::rows_per_poly;
use crate::rlwe::transform::DEGREE;

/// Products that another guest is to get, masked and encrypted for the lender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan(pub(crate) SealedProducts);

impl Loan {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(Kind::RlweLoan, &self.0)
    }

    /// From bytes, with at most so many rows of so many values per block.
    pub fn decode(bytes: &[u8], width: usize, most_rows: usize) -> Result<Self, DecodeError> {
        decode(Kind::RlweLoan, "loan", bytes, rows_per_poly(width), most_rows).map(Self)
    }
}

/// The same numbers, still masked, encrypted for the taker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay(pub(crate) SealedProducts);

impl Relay {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(Kind::RlweRelay, &self.0)
    }

    /// From bytes, with at most so many rows.
    pub fn decode(bytes: &[u8], most_rows: usize) -> Result<Self, DecodeError> {
        decode(Kind::RlweRelay, "relay", bytes, DEGREE, most_rows).map(Self)
    }
}

/// A grant in two parts, each of which is uniform: the taker adds their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedGrant {
    pub(crate) own: SealedProducts,
    /// What others have lent, all of it together.
    pub(crate) lent: SealedProducts,
    /// Products are in units of 2^−scale.
    pub(crate) scale: i32,
}

impl SharedGrant {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let length = 16 + self.own.len() + self.lent.len();
        let mut writer = Writer::new(Kind::RlweSharedGrant, length);
        writer.u64(self.own.exchange);
        writer.u32(self.own.rows as u32);
        writer.u32(self.scale as u32);
        self.own.write(&mut writer);
        self.lent.write(&mut writer);
        writer.finish()
    }

    /// From bytes, with at most so many products of so many values per block.
    pub fn decode(bytes: &[u8], width: usize, most_rows: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("grant", Kind::RlweSharedGrant, bytes)?;
        let exchange = reader.u64()?;
        let rows = reader.count("products of the grant", most_rows)?;
        let scale = read_scale(&mut reader)?;
        let mut part = |each| SealedProducts::read("grant", &mut reader, exchange, rows, each);
        let (own, lent) = (part(rows_per_poly(width))?, part(DEGREE)?);
        reader.finish()?;
        Ok(Self { own, lent, scale })
    }
}

fn encode(kind: Kind, products: &SealedProducts) -> Vec<u8> {
    let mut writer = Writer::new(kind, 12 + products.len());
    writer.u64(products.exchange);
    writer.u32(products.rows as u32);
    products.write(&mut writer);
    writer.finish()
}

fn decode(
    kind: Kind,
    what: &'static str,
    bytes: &[u8],
    rows_per_poly: usize,
    most_rows: usize,
) -> Result<SealedProducts, DecodeError> {
    let mut reader = Reader::new(what, kind, bytes)?;
    let exchange = reader.u64()?;
    let rows = reader.count("rows of the loan", most_rows)?;
    let products = SealedProducts::read(what, &mut reader, exchange, rows, rows_per_poly)?;
    reader.finish()?;
    Ok(products)
}
