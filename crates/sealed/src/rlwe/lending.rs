//! Products that one guest lends to another, see [`lending`](crate::lending).
//!
//! The lender decrypts masked numbers and encrypts them with the taker's public key. The host adds the ciphertexts of
//! all lenders and, as a plaintext, what takes off their masks less a number s that it draws; the taker's own part
//! has s as its mask. So both parts of a grant are uniform, and only their sum says something.

use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use super::accumulate::{Expanded, Sums};
use super::hiding::Hiding;
use super::message::{Loan as LoanMessage, PublicKey, Relay, Sealed, SealedProducts, SharedGrant};
use super::ring::{PLAIN_BITS, PRIME, Poly};
use super::transform::DEGREE;
use super::{RlweGuest, RlweHost};
use crate::lending::{Lent, Loan, Numbers, Scale, check_scale};
use crate::product::{Agreement, BlockProducts, SealedError, misuse, peer};
use crate::wire::out_of_range;

/// Plaintexts are numbers modulo t = 2^40.
const PLAIN_MASK: u64 = (1 << PLAIN_BITS) - 1;

impl RlweGuest {
    /// Decrypts a loan and encrypts it for the guest with this opening.
    pub(super) fn relayed(&mut self, loan: &[u8], opening: &[u8]) -> Result<Vec<u8>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let LoanMessage(products) =
            LoanMessage::decode(loan, width, most_rows).map_err(peer("loan"))?;
        let key = PublicKey::decode(opening).map_err(peer("public key"))?;
        let mut public = Expanded::new();
        public.fill(&key.half);
        let masked = Zeroizing::new(self.decrypt(&products, width));
        let parts: Vec<&[u64]> = masked.chunks(DEGREE).collect();
        let drawn: Vec<Hiding> =
            parts.iter().map(|part| Hiding::without_flood(&mut self.random, part.len())).collect();
        let polys = drawn.into_par_iter().zip(parts);
        // Nothing is multiplied: what remains is an encryption of the numbers alone, one at each place.
        let polys = polys.map(|(hiding, part)| {
            hiding.finish(&mut Sums::new(), &mut Poly::zero(), &public, 1, part)
        });
        let SealedProducts { exchange, rows, .. } = products;
        Ok(Relay(SealedProducts { exchange, rows, polys: polys.collect() }).encode())
    }

    /// The numbers of a grant in two parts.
    pub(super) fn shared(&self, grant: &[u8]) -> Result<(Vec<u64>, i32), SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let SharedGrant { own, lent, scale } =
            SharedGrant::decode(grant, width, most_rows).map_err(peer("grant"))?;
        let mut numbers = self.decrypt(&own, width);
        let lent = Zeroizing::new(self.decrypt(&lent, 1));
        for (number, lent) in numbers.iter_mut().zip(lent.iter()) {
            *number = (*number + lent) & PLAIN_MASK;
        }
        Ok((numbers, scale))
    }
}

impl RlweHost {
    pub(super) fn masked_loan(
        &mut self,
        products: &BlockProducts<'_>,
        scale: Scale,
    ) -> Result<(Vec<u8>, Loan), SealedError> {
        let rows = products.products(&self.agreement)?;
        check_scale(&self.agreement, products, scale)?;
        let (unit, mut corrections) = self.whole_offsets(products, scale.0);
        let masks = Zeroizing::new(self.uniform(rows));
        let polys = self.granted(products, unit, &masks)?;
        for (correction, mask) in corrections.iter_mut().zip(masks.iter()) {
            *correction = correction.wrapping_sub(*mask) & PLAIN_MASK;
        }
        let exchange = self.random.bits();
        let message = LoanMessage(SealedProducts { exchange, rows, polys }).encode();
        Ok((message, Loan { exchange, rows, corrections }))
    }

    pub(super) fn accepted(&self, loan: &Loan, relay: &[u8]) -> Result<Lent, SealedError> {
        let Relay(products) =
            Relay::decode(relay, self.agreement.most_rows).map_err(peer("relay"))?;
        let wrong =
            |what, found: u64, expected: u64| peer("relay")(out_of_range(what, found, expected));
        if products.exchange != loan.exchange {
            return Err(wrong("exchange of the relay", products.exchange, loan.exchange));
        }
        if products.rows != loan.rows {
            return Err(wrong("rows of the relay", products.rows as u64, loan.rows as u64));
        }
        let corrections = loan.corrections.clone();
        Ok(Lent(Numbers::Lattice { corrections, polys: products.polys }))
    }

    pub(super) fn shared_grant(
        &mut self,
        products: &BlockProducts<'_>,
        scale: Scale,
        lent: &[Lent],
    ) -> Result<Vec<u8>, SealedError> {
        let rows = products.products(&self.agreement)?;
        check_scale(&self.agreement, products, scale)?;
        let splits = Zeroizing::new(self.uniform(rows));
        let mut rest: Vec<u64> = splits.iter().map(|s| s.wrapping_neg() & PLAIN_MASK).collect();
        let mut polys = zeros(rows);
        for part in lent {
            let Numbers::Lattice { corrections, polys: lent } = &part.0 else {
                return Err(misuse("what was lent", "numbers in the clear", "encrypted ones"));
            };
            if corrections.len() != rows {
                return Err(misuse("products that were lent", corrections.len(), rows));
            }
            for (rest, correction) in rest.iter_mut().zip(corrections) {
                *rest = (*rest + correction) & PLAIN_MASK;
            }
            for (sum, part) in polys.iter_mut().zip(lent) {
                add(&mut sum.c1, &part.c1);
                add(&mut sum.c0, &part.c0);
            }
        }
        for (sum, rest) in polys.iter_mut().zip(rest.chunks(DEGREE)) {
            let plain: Vec<u64> = rest.iter().map(|&plain| scaled(plain)).collect();
            add(&mut sum.c0, &plain);
        }
        rest.zeroize();
        let (unit, mut offsets) = self.whole_offsets(products, scale.0);
        for (offset, split) in offsets.iter_mut().zip(splits.iter()) {
            *offset = (*offset + split) & PLAIN_MASK;
        }
        let own = self.granted(products, unit, &offsets)?;
        offsets.zeroize();
        let exchange = self.random.bits();
        let own = SealedProducts { exchange, rows, polys: own };
        let lent = SealedProducts { exchange, rows, polys };
        Ok(SharedGrant { own, lent, scale: scale.0 }.encode())
    }

    /// Uniform numbers modulo 2^40.
    fn uniform(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.random.bits() >> (64 - PLAIN_BITS)).collect()
    }
}

/// Ciphertexts of nothing, for so many numbers.
fn zeros(rows: usize) -> Vec<Sealed> {
    let parts = (0..rows).step_by(DEGREE).map(|from| (rows - from).min(DEGREE));
    parts.map(|here| Sealed { c1: vec![0; DEGREE], c0: vec![0; here] }).collect()
}

/// Adds residues of the first prime.
fn add(sums: &mut [u64], others: &[u64]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum = (*sum + other) % PRIME[0];
    }
}

/// A plaintext in a ciphertext of the first prime alone: p_0/t of it, rounded.
fn scaled(plain: u64) -> u64 {
    let product = u128::from(plain) * u128::from(PRIME[0]);
    ((product + (1 << (PLAIN_BITS - 1))) >> PLAIN_BITS) as u64 % PRIME[0]
}
