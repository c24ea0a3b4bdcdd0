//! The messages by which products of guests' values reach one guest.
//!
//! ```text
//! EncryptedCoefficients    exchange:u64  products:u32  terms:u32  key: seed:32, b: 3 × 8192 residues
//!         per polynomial of 8192 products and term: seed:32, c0: 3 × 8192 residues
//! MaskedProducts   exchange:u64  products:u32  seeds:u32 (0 or 1)
//!         per polynomial: c1 and c0: 8192 residues each;  per seed: c1: 8192 residues, c0: 8 residues
//! MaskedGradient   exchange:u64 (of the recipient's own request, or 0)  products:u32  scale: i32 (a power of two)  seeds:u32
//!         5 bytes per product;  seeds as in MaskedProducts
//! ```
//!
//! Residues of requests are those of uploads, residues of replies and seeds those of questions.

use rayon::prelude::*;

use super::{
    DecodeError, MessageKind, POLY_BYTES, PRIMES, Reader, Sealed, SeededHalf, Writer, out_of_range,
    packed_len, read_scale,
};
use crate::masked_gradient::Scale;
use crate::rlwe::slots::SLOT_PRIME;
use crate::rlwe::transform::DEGREE;

/// Bytes of a masked product.
const NUMBER_BYTES: usize = 5;
/// Numbers that a seed of 32 bytes is encrypted as.
pub(crate) const SEED_NUMBERS: usize = 8;
/// The most guests that contribute to one gradient, and so seeds of a masked gradient.
pub(crate) const MOST_LENDERS: usize = 256;
/// The most values that a product of encrypted coefficients is of: what their noise adds up to stays small beside the flood.
pub(crate) const MOST_TERMS: usize = 128;
const HALF_BYTES: usize = 32 + PRIMES * POLY_BYTES;

/// How many polynomials so many products take.
pub(crate) fn polys_of(products: usize) -> usize {
    products.div_ceil(DEGREE)
}

/// Coefficients of a host, encrypted by a key of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedCoefficients {
    pub(crate) exchange: u64,
    pub(crate) products: usize,
    pub(crate) terms: usize,
    /// For encryptions of zero by whoever multiplies.
    pub(crate) key: SeededHalf,
    /// `[polynomial, term]`.
    pub(crate) planes: Vec<SeededHalf>,
}

impl EncryptedCoefficients {
    /// Bytes of encrypted coefficients of so many products of so many values.
    pub const fn size(products: usize, terms: usize) -> usize {
        let halves = products.div_ceil(DEGREE).saturating_mul(terms).saturating_add(1);
        20usize.saturating_add(halves.saturating_mul(HALF_BYTES))
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer =
            Writer::new(MessageKind::RlweCoefficients, 16 + (1 + self.planes.len()) * HALF_BYTES);
        writer.u64(self.exchange);
        writer.u32(self.products as u32);
        writer.u32(self.terms as u32);
        self.key.write(&mut writer);
        self.planes.iter().for_each(|half| half.write(&mut writer));
        writer.finish()
    }

    /// From bytes, with at most so many products.
    pub fn decode(bytes: &[u8], most_products: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("coefficients", MessageKind::RlweCoefficients, bytes)?;
        let exchange = reader.u64()?;
        let products = reader.count("products of the coefficients", most_products)?;
        let terms = reader.count("values of a product", MOST_TERMS)?;
        // The bytes are there before the room is made.
        let count = polys_of(products) * terms + 1;
        let halves = (0..count).map(|_| Ok((reader.array()?, reader.bytes(PRIMES * POLY_BYTES)?)));
        let halves = halves.collect::<Result<Vec<([u8; 32], &[u8])>, DecodeError>>()?;
        reader.finish()?;
        let halves = halves.into_par_iter();
        let halves = halves.map(|(seed, packed)| SeededHalf::checked("coefficients", seed, packed));
        let mut halves = halves.collect::<Result<Vec<_>, DecodeError>>()?;
        let planes = halves.split_off(1);
        let Some(key) = halves.pop() else {
            return Err(out_of_range("keys of the coefficients", 0, 1));
        };
        Ok(Self { exchange, products, terms, key, planes })
    }
}

/// Products of a owner's values, masked, under the key of the coefficients; and the seed of the mask, for the recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedProducts {
    pub(crate) exchange: u64,
    pub(crate) products: usize,
    pub(crate) polys: Vec<Sealed>,
    pub(crate) seed: Option<Sealed>,
}

impl MaskedProducts {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let seeds = usize::from(self.seed.is_some());
        let length = 16 + self.polys.len() * 2 * POLY_BYTES + seeds * SEED_BYTES;
        let mut writer = Writer::new(MessageKind::RlweMaskedProducts, length);
        writer.u64(self.exchange);
        writer.u32(self.products as u32);
        writer.u32(seeds as u32);
        self.polys.iter().chain(&self.seed).for_each(|poly| poly.write(&mut writer));
        writer.finish()
    }

    /// From bytes, with at most so many products.
    pub fn decode(bytes: &[u8], most_products: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("masked products", MessageKind::RlweMaskedProducts, bytes)?;
        let exchange = reader.u64()?;
        let products = reader.count("products of the masked products", most_products)?;
        let seeds = reader.u32()?;
        if seeds > 1 {
            return Err(out_of_range("seeds of the masked products", seeds, "0 or 1"));
        }
        let mut polys = (0..polys_of(products))
            .map(|_| Sealed::read("masked products", &mut reader, DEGREE))
            .collect::<Result<Vec<_>, DecodeError>>()?;
        let seed = match seeds {
            0 => None,
            _ => Some(Sealed::read("seed", &mut reader, SEED_NUMBERS)?),
        };
        reader.finish()?;
        polys.shrink_to_fit();
        Ok(Self { exchange, products, polys, seed })
    }
}

const SEED_BYTES: usize = POLY_BYTES + packed_len(SEED_NUMBERS);

/// Masked products for one guest, which alone has or gets the seeds of all masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedGradient {
    /// The recipient's own request, whose mask it has; 0 for none.
    pub(crate) own: u64,
    pub(crate) scale: Scale,
    /// In 0..t.
    pub(crate) masked: Vec<u64>,
    /// Those of other owners.
    pub(crate) seeds: Vec<Sealed>,
}

impl MaskedGradient {
    /// Bytes of a masked gradient of so many products, to which so many others have shares.
    pub const fn size(products: usize, others: usize) -> usize {
        let seeds = others.saturating_mul(SEED_BYTES);
        24usize.saturating_add(products.saturating_mul(NUMBER_BYTES)).saturating_add(seeds)
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let length = Self::size(self.masked.len(), self.seeds.len());
        let mut writer = Writer::new(MessageKind::RlweMaskedGradient, length);
        writer.u64(self.own);
        writer.u32(self.masked.len() as u32);
        writer.u32(self.scale.0 as u32);
        writer.u32(self.seeds.len() as u32);
        for masked in &self.masked {
            writer.bytes(&masked.to_le_bytes()[..NUMBER_BYTES]);
        }
        self.seeds.iter().for_each(|seed| seed.write(&mut writer));
        writer.finish()
    }

    /// From bytes, with at most so many products.
    pub fn decode(bytes: &[u8], most_products: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("masked gradient", MessageKind::RlweMaskedGradient, bytes)?;
        let own = reader.u64()?;
        let products = reader.count("products of the masked gradient", most_products)?;
        let scale = Scale(read_scale(&mut reader)?);
        let seeds = reader.u32()? as usize;
        if seeds > MOST_LENDERS {
            let expected = format!("at most {MOST_LENDERS}");
            return Err(out_of_range("seeds of the masked gradient", seeds, expected));
        }
        let numbers = reader.bytes(NUMBER_BYTES * products)?.as_chunks::<NUMBER_BYTES>().0;
        let masked: Vec<u64> = numbers
            .iter()
            .map(|bytes| {
                let mut word = [0; 8];
                word[..NUMBER_BYTES].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            })
            .collect();
        if let Some(found) = masked.iter().find(|number| **number >= SLOT_PRIME) {
            let expected = format!("numbers below {SLOT_PRIME}");
            return Err(out_of_range("product of the masked gradient", found, expected));
        }
        let seeds = (0..seeds).map(|_| Sealed::read("seed", &mut reader, SEED_NUMBERS));
        let seeds = seeds.collect::<Result<Vec<_>, DecodeError>>()?;
        reader.finish()?;
        Ok(Self { own, scale, masked, seeds })
    }
}
