//! Challenges that depend on everything said before (Fiat and Shamir), by SHA-512.

use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest, Sha512};

/// Everything said so far.
#[derive(Clone)]
pub(super) struct Transcript([u8; 64]);

impl Transcript {
    pub(super) fn new(protocol: &[u8]) -> Self {
        Self(Sha512::digest(protocol).into())
    }

    /// Lengths go in, too: no two lists of messages have the same bytes.
    pub(super) fn append(&mut self, label: &[u8], message: &[u8]) {
        let mut hash = Sha512::new();
        hash.update(self.0);
        for part in [label, message] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        self.0 = hash.finalize().into();
    }

    pub(super) fn point(&mut self, label: &[u8], point: &CompressedRistretto) {
        self.append(label, point.as_bytes());
    }

    pub(super) fn scalar(&mut self, label: &[u8], scalar: &Scalar) {
        self.append(label, scalar.as_bytes());
    }

    /// A challenge; zero with a probability of 2^-252, which whoever divides by it must refuse.
    pub(super) fn challenge(&mut self, label: &[u8]) -> Scalar {
        self.append(label, b"challenge");
        Scalar::from_bytes_mod_order_wide(&self.0)
    }
}
