//! The key authority: a party of its own, which sees the host's rows and must see no ciphertexts.
//!
//! A key for a row opens the product of that row with **every** block under the public key, and the sum of two
//! keys is a key for the sum of their rows. So an authority counts the rows that it has issued keys for and
//! refuses more than a limit below `width`: with `width` independent rows the host could read every block.

use std::collections::HashSet;
use std::fmt;

use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use zeroize::Zeroize;

use super::message::{Answer, PublicKey, Question};
use super::{random_scalar, second_generator, small_scalar};
use crate::product::{Agreement, Answerer, SealedError, misuse, peer, rows_of};
use crate::random::Randomness;
use crate::wire::Kind;

/// Issues function keys for rows.
pub struct Authority {
    agreement: Agreement,
    /// (s_j, t_j) per value.
    master: Vec<[Scalar; 2]>,
    public: PublicKey,
    /// Rows that have a key; a row that is asked for again costs nothing.
    issued: HashSet<Vec<i32>>,
    most_keys: usize,
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
        let most_keys = agreement.width / 2;
        Ok(Self { agreement, master, public, issued: HashSet::new(), most_keys })
    }

    /// With another limit on the rows that get a key, 0 to `width` − 1; without this it is `width`/2. Blocks
    /// of one value have no products that could be shown.
    pub fn with_most_keys(mut self, most_keys: usize) -> Result<Self, SealedError> {
        let most = self.agreement.width - 1;
        if most_keys > most {
            return Err(misuse("most keys", most_keys, format!("0 to {most}")));
        }
        self.most_keys = most_keys;
        Ok(self)
    }

    /// For the guest and the host.
    pub fn public_key(&self) -> Vec<u8> {
        self.public.encode()
    }

    /// How many rows have a key so far.
    pub fn issued(&self) -> usize {
        self.issued.len()
    }

    /// Counts the rows of a question, or refuses all of them.
    fn count(&mut self, question: &Question) -> Result<(), SealedError> {
        let rows = question.weights.chunks_exact(self.agreement.width);
        let new: HashSet<&[i32]> = rows.filter(|&row| !self.issued.contains(row)).collect();
        let (new_rows, issued, most) = (new.len(), self.issued.len(), self.most_keys);
        if issued + new_rows > most {
            return Err(SealedError::Exhausted { new: new_rows, issued, most });
        }
        self.issued.extend(new.into_iter().map(<[i32]>::to_vec));
        Ok(())
    }
}

impl Answerer for Authority {
    fn answer(&mut self, question: &[u8]) -> Result<Vec<u8>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let question = Question::decode(question, width, most_rows).map_err(peer("question"))?;
        self.count(&question)?;
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
        Ok(Answer { exchange: question.exchange, keys }.encode())
    }

    fn rows(&self, question: &[u8]) -> Result<usize, SealedError> {
        rows_of(Kind::IpfeQuestion, question, self.agreement.most_rows)
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
        write!(f, "Authority({} values, {} keys issued, …)", self.master.len(), self.issued.len())
    }
}
