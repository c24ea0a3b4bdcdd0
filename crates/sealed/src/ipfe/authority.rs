//! The key authority: a party of its own, which sees the host's rows and must see no ciphertexts.
//!
//! A key for a row opens the product of that row with **every** block under the public key, and the sum of two
//! keys is a key for the sum of their rows. So an authority counts the rows that it has issued keys for and
//! refuses more than a limit below `width`: with `width` independent rows the host could read every block.

use std::collections::HashSet;

use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::message::{Answer, PublicKey, Question, scalar};
use super::{MOST_VALUES, POINTS_AT_ONCE, random_scalar, second_generator, small_scalar};
use crate::product::{Agreement, Answerer, SealedError, Terms, misuse, peer, rows_of};
use crate::random::Randomness;
use crate::wire::{DecodeError, MessageKind, Reader, Writer, out_of_range};

/// Issues function keys for rows.
pub struct Authority {
    agreement: Agreement,
    /// (s_j, t_j) per value.
    master: Vec<[Scalar; 2]>,
    public: PublicKey,
    /// Digests of the rows that have a key; a row that is asked for again costs nothing. The rows themselves are the host's
    /// and are not kept.
    issued: HashSet<[u8; 32]>,
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
        let agreement = agreement.checked_to(MOST_VALUES)?;
        let master =
            (0..agreement.width).map(|_| [random_scalar(random), random_scalar(random)]).collect();
        Ok(Self::of_master(agreement, master))
    }

    fn of_master(agreement: Agreement, master: Vec<[Scalar; 2]>) -> Self {
        let second = second_generator();
        let public = master.par_iter().with_min_len(POINTS_AT_ONCE);
        let public = public.map(|[s, t]| RistrettoPoint::mul_base(s) + t * second);
        let public = PublicKey { terms: agreement.terms(), points: public.collect() };
        let most_keys = agreement.width / 2;
        Self { agreement, master, public, issued: HashSet::new(), most_keys }
    }

    /// Everything that must outlive the process: the master key and which rows have keys. **As secret as all blocks together**;
    /// to be stored before an answer is sent, so that no restart forgets a key that is out.
    pub fn state(&self) -> Zeroizing<Vec<u8>> {
        let length = Terms::LEN + 64 * self.master.len() + 4 + 32 * self.issued.len();
        let mut writer = Writer::new(MessageKind::AuthorityState, length);
        self.public.terms.write(&mut writer);
        for scalar in self.master.iter().flatten() {
            writer.bytes(scalar.as_bytes());
        }
        // In order, so that the same state has the same bytes.
        let mut issued: Vec<&[u8; 32]> = self.issued.iter().collect();
        issued.sort();
        writer.u32(issued.len() as u32);
        for digest in issued {
            writer.bytes(digest);
        }
        Zeroizing::new(writer.finish())
    }

    /// From a stored state, for the same agreement.
    pub fn restore(agreement: Agreement, state: &[u8]) -> Result<Self, SealedError> {
        let agreement = agreement.checked_to(MOST_VALUES)?;
        let read = || -> Result<Self, DecodeError> {
            let mut reader =
                Reader::new("state of an authority", MessageKind::AuthorityState, state)?;
            Terms::read_to(&mut reader, MOST_VALUES)?.check(&agreement)?;
            let keys = reader.bytes(64 * agreement.width)?.as_chunks::<32>().0.as_chunks::<2>().0;
            let master = keys.iter().map(|&[s, t]| Ok([scalar("key", s)?, scalar("key", t)?]));
            let mut authority =
                Self::of_master(agreement, master.collect::<Result<_, DecodeError>>()?);
            let count = reader.u32()? as usize;
            if count >= agreement.width {
                let expected = format!("0 to {}", agreement.width - 1);
                return Err(out_of_range("rows with keys", count, expected));
            }
            for _ in 0..count {
                authority.issued.insert(reader.array()?);
            }
            reader.finish()?;
            Ok(authority)
        };
        read().map_err(|error| misuse("state of the authority", error, "one of this agreement"))
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
        let rows = question.weights.chunks_exact(self.agreement.width).map(digest);
        let new: HashSet<[u8; 32]> = rows.filter(|row| !self.issued.contains(row)).collect();
        let (new_rows, issued, most) = (new.len(), self.issued.len(), self.most_keys);
        if issued + new_rows > most {
            return Err(SealedError::Exhausted { new: new_rows, issued, most });
        }
        self.issued.extend(new);
        Ok(())
    }
}

fn digest(row: &[i32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for weight in row {
        hash.update(weight.to_le_bytes());
    }
    hash.finalize().into()
}

impl Answerer for Authority {
    fn answer(&mut self, question: &[u8]) -> Result<Vec<u8>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let question = Question::decode(question, width, most_rows).map_err(peer("question"))?;
        self.count(&question)?;
        let keys: Vec<[Scalar; 2]> = question
            .weights
            .par_chunks_exact(width)
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
        rows_of(MessageKind::IpfeQuestion, question, self.agreement.most_rows)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        for scalar in self.master.iter_mut().flatten() {
            scalar.zeroize();
        }
    }
}

crate::debug_sizes!(
    Authority,
    |it| "Authority({} values, {} keys issued, …)",
    it.master.len(),
    it.issued.len()
);
