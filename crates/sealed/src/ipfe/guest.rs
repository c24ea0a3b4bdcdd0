//! The guest: encrypts to the authority's key, and is not asked again.

use curve25519_dalek::ristretto::RistrettoPoint;
use rayon::prelude::*;
use zeroize::Zeroize;

use super::message::{PublicKey, Upload};
use super::{MOST_VALUES, POINTS_AT_ONCE, random_scalar, second_generator, small_scalar};
use crate::product::{Agreement, BlockId, Guest, SealedError, peer};
use crate::random::Randomness;

/// A guest of functional encryption.
pub struct IpfeGuest {
    agreement: Agreement,
    public: PublicKey,
    random: Randomness,
}

impl IpfeGuest {
    /// A guest that encrypts to this authority.
    pub fn new(agreement: Agreement, public_key: &[u8]) -> Result<Self, SealedError> {
        Self::with_randomness(agreement, public_key, Randomness::from_os()?)
    }

    /// The same from a given stream; one that can be repeated is for tests only.
    pub fn with_randomness(
        agreement: Agreement,
        public_key: &[u8],
        random: Randomness,
    ) -> Result<Self, SealedError> {
        let agreement = agreement.checked_to(MOST_VALUES)?;
        let public = PublicKey::decode(public_key).map_err(peer("public key"))?;
        public.terms.check(&agreement).map_err(peer("public key"))?;
        Ok(Self { agreement, public, random })
    }
}

impl Guest for IpfeGuest {
    /// Nothing: the key is the authority's.
    fn public_key(&self) -> Vec<u8> {
        Vec::new()
    }

    fn upload(&mut self, block: BlockId, levels: &[i32]) -> Result<Vec<u8>, SealedError> {
        self.agreement.check_levels(levels)?;
        let mut r = random_scalar(&mut self.random);
        let heads = [RistrettoPoint::mul_base(&r), r * second_generator()];
        let values = levels
            .par_iter()
            .with_min_len(POINTS_AT_ONCE)
            .zip(&self.public.points)
            .map(|(&level, h)| RistrettoPoint::mul_base(&small_scalar(level.into())) + r * h);
        let terms = self.agreement.terms();
        let upload = Upload { block, terms, heads, values: values.collect() };
        r.zeroize();
        Ok(upload.encode())
    }
}

crate::debug_sizes!(IpfeGuest, |it| "IpfeGuest(width {}, …)", it.agreement.width);
