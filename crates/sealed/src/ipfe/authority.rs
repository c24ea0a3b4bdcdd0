//! The key authority: a party of its own, which sees the host's rows and must see no ciphertexts.

use std::fmt;

use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use zeroize::Zeroize;

use super::message::{Answer, PublicKey, Question};
use super::{random_scalar, second_generator, small_scalar};
use crate::product::{Agreement, Answerer, SealedError, peer};
use crate::random::Randomness;

/// Issues function keys for rows.
pub struct Authority {
    agreement: Agreement,
    /// (s_j, t_j) per value.
    master: Vec<[Scalar; 2]>,
    public: PublicKey,
    issued: u64,
}

impl Authority {
    /// New master keys from the operating system.
    pub fn new(agreement: Agreement) -> Result<Self, SealedError> {
        Self::with_randomness(agreement, &mut Randomness::from_os()?)
    }

    /// New master keys from a given stream; a stream that can be repeated is for tests only.
    pub fn with_randomness(
        agreement: Agreement,
        random: &mut Randomness,
    ) -> Result<Self, SealedError> {
        let agreement = agreement.checked()?;
        let second = second_generator();
        let master: Vec<[Scalar; 2]> =
            (0..agreement.width).map(|_| [random_scalar(random), random_scalar(random)]).collect();
        let public = master.iter().map(|[s, t]| RistrettoPoint::mul_base(s) + t * second);
        let public = PublicKey { terms: agreement.terms(), points: public.collect() };
        Ok(Self { agreement, master, public, issued: 0 })
    }

    /// For the guest and the host.
    pub fn public_key(&self) -> Vec<u8> {
        self.public.encode()
    }

    /// How many keys were issued so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }
}

impl Answerer for Authority {
    fn answer(&mut self, question: &[u8]) -> Result<Vec<u8>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let question = Question::decode(question, width, most_rows).map_err(peer("question"))?;
        let keys: Vec<[Scalar; 2]> = question
            .weights
            .chunks_exact(width)
            .map(|row| {
                let mut key = [Scalar::ZERO; 2];
                for (&weight, [s, t]) in row.iter().zip(&self.master) {
                    let weight = small_scalar(weight.into());
                    key[0] += weight * s;
                    key[1] += weight * t;
                }
                key
            })
            .collect();
        self.issued += keys.len() as u64;
        Ok(Answer { exchange: question.exchange, keys }.encode())
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        for scalar in self.master.iter_mut().flatten() {
            scalar.zeroize();
        }
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({} values, {} keys issued, …)", self.master.len(), self.issued)
    }
}
