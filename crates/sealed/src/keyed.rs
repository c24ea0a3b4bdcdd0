//! Functional encryption as the rounds use it: a key authority for the host's products, the lattice for guests' gradients.
//!
//! ```text
//! guest                            authority                          host
//!   a new public key     ◄──────►   draws it, for this batch alone
//!   its fingerprint, a lattice key ────────────────────────────────►   KeyedHost::new
//!   the batch, encrypted with it ──────────────────────────────────►   store
//!                                   keys for the rows of A    ◄─────►   ask, open: A·u
//!   masked products (rlwe)        ◄────────────────────────────────►   coefficients of its gradient
//! ```
//!
//! In the paper's Algorithm 2 the host computes both gradients by functional encryption, its own and those of the
//! embeddings, and hands the latter on. An embedding has some numbers for each sample, each of which depends on the few values
//! of that sample: with as many products the host solves for them. Here it never sees a guest's gradient
//! ([`masked_gradient`](crate::masked_gradient)), as with [`rlwe`](crate::rlwe) alone.

use std::sync::{Arc, OnceLock};

use crate::ipfe::{IpfeGuest, IpfeHost, KeyDigest, LogarithmTable, key_digest, keyed_question};
use crate::masked_gradient::{MaskedShare, PendingProducts, Scale};
use crate::product::{
    Agreement, AnsweredBy, Answerer, BlockId, Coefficients, CoefficientsSize, Guest, Host,
    MOST_WIDTH, Matrix, SealedError, peer,
};
use crate::random::Randomness;
use crate::rlwe::{KeySeed, RlweGuest, RlweHost};
use crate::wire::{DecodeError, MessageKind, Reader, Writer};

/// Points of the table that finds products: with 2^20 they reach 2^34, room for weights of 16 and more for each of
/// 65,536 values of 16,384 levels.
const TABLE_BITS: u32 = 20;

const NOT_ASKED: &str = "a guest of functional encryption answers no questions: the authority does";

/// One table for the whole process: it takes a second and 40 MB.
fn table() -> Result<Arc<LogarithmTable>, SealedError> {
    static TABLE: OnceLock<Arc<LogarithmTable>> = OnceLock::new();
    if let Some(table) = TABLE.get() {
        return Ok(Arc::clone(table));
    }
    let made = Arc::new(LogarithmTable::new(TABLE_BITS)?);
    Ok(Arc::clone(TABLE.get_or_init(|| made)))
}

/// The lattice has no blocks here, and batches may be wider than its blocks.
fn of_lattice(agreement: Agreement) -> Agreement {
    Agreement { width: agreement.width.min(MOST_WIDTH), ..agreement }
}

/// What a guest's public key says: which key of the authority it encrypts with, and its own.
struct Keys<'a> {
    authority: KeyDigest,
    lattice: &'a [u8],
}

impl<'a> Keys<'a> {
    fn encode(&self) -> Vec<u8> {
        let length = self.authority.len() + self.lattice.len();
        let mut writer = Writer::new(MessageKind::KeyedPublicKey, length);
        writer.bytes(&self.authority);
        writer.bytes(self.lattice);
        writer.finish()
    }

    fn decode(bytes: &'a [u8]) -> Result<Self, SealedError> {
        let read = || {
            let mut reader = Reader::new("public key", MessageKind::KeyedPublicKey, bytes)?;
            let authority = reader.array()?;
            let lattice = reader.bytes(reader.remaining())?;
            Ok::<_, DecodeError>(Self { authority, lattice })
        };
        read().map_err(peer("public key"))
    }
}

/// A guest for one batch.
pub struct KeyedGuest {
    values: IpfeGuest,
    lattice: RlweGuest,
    authority: KeyDigest,
}

impl KeyedGuest {
    /// A guest that encrypts to this public key of the authority.
    pub fn new(
        agreement: Agreement,
        authority_key: &[u8],
        seed: &KeySeed,
    ) -> Result<Self, SealedError> {
        Ok(Self {
            values: IpfeGuest::new(agreement, authority_key)?,
            lattice: RlweGuest::new(of_lattice(agreement), seed)?,
            authority: key_digest(authority_key),
        })
    }
}

impl Guest for KeyedGuest {
    fn public_key(&self) -> Vec<u8> {
        Keys { authority: self.authority, lattice: &self.lattice.public_key() }.encode()
    }

    fn upload(&mut self, block: BlockId, levels: &[i32]) -> Result<Vec<u8>, SealedError> {
        self.values.upload(block, levels)
    }

    fn multiply_masked(
        &mut self,
        request: &[u8],
        levels: &[i32],
        recipient: Option<&[u8]>,
    ) -> Result<Vec<u8>, SealedError> {
        let recipient = recipient.map(Keys::decode).transpose()?;
        self.lattice.multiply_masked(request, levels, recipient.map(|keys| keys.lattice))
    }

    fn coefficients_size(&self, request: &[u8]) -> Result<CoefficientsSize, SealedError> {
        self.lattice.coefficients_size(request)
    }

    fn unmask(&mut self, gradient: &[u8]) -> Result<Vec<f64>, SealedError> {
        self.lattice.unmask(gradient)
    }
}

impl Answerer for KeyedGuest {
    fn answer(&mut self, _question: &[u8]) -> Result<Vec<u8>, SealedError> {
        Err(SealedError::Unsupported(NOT_ASKED))
    }

    fn rows(&self, _question: &[u8]) -> Result<usize, SealedError> {
        Err(SealedError::Unsupported(NOT_ASKED))
    }
}

crate::debug_sizes!(KeyedGuest, |it| "KeyedGuest({:?}, …)", it.values);

/// A host, for one guest and one batch. Its questions go to the authority.
pub struct KeyedHost {
    values: IpfeHost,
    lattice: RlweHost,
    authority: KeyDigest,
}

impl KeyedHost {
    /// A host for the guest with this public key.
    pub fn new(agreement: Agreement, public_key: &[u8]) -> Result<Self, SealedError> {
        let keys = Keys::decode(public_key)?;
        Ok(Self {
            values: IpfeHost::without_key(agreement, table()?, Randomness::from_os()?)?,
            lattice: RlweHost::new(of_lattice(agreement), keys.lattice)?,
            authority: keys.authority,
        })
    }
}

impl Host for KeyedHost {
    fn answered_by(&self) -> AnsweredBy {
        AnsweredBy::Authority
    }

    fn store(&mut self, upload: &[u8]) -> Result<BlockId, SealedError> {
        self.values.store(upload)
    }

    fn forget(&mut self, block: BlockId) -> bool {
        self.values.forget(block)
    }

    fn ask(&mut self, matrix: &Matrix<'_>) -> Result<Vec<u8>, SealedError> {
        Ok(keyed_question(&self.authority, &self.values.ask(matrix)?))
    }

    fn open(&mut self, answer: &[u8]) -> Result<Vec<f64>, SealedError> {
        self.values.open(answer)
    }

    fn encrypt_coefficients(
        &mut self,
        part: &Coefficients<'_>,
        scale: Scale,
        own: bool,
    ) -> Result<(Vec<u8>, PendingProducts), SealedError> {
        self.lattice.encrypt_coefficients(part, scale, own)
    }

    fn accept_masked(
        &self,
        request: &PendingProducts,
        reply: &[u8],
    ) -> Result<MaskedShare, SealedError> {
        self.lattice.accept_masked(request, reply)
    }

    fn mask_gradient(
        &mut self,
        offsets: &[f64],
        scale: Scale,
        shares: &[MaskedShare],
    ) -> Result<Vec<u8>, SealedError> {
        self.lattice.mask_gradient(offsets, scale, shares)
    }
}

crate::debug_sizes!(KeyedHost, |it| "KeyedHost({:?}, …)", it.values);

#[cfg(test)]
mod tests;
