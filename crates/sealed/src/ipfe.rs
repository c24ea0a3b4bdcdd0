//! Inner-product functional encryption with a key authority, as the paper words it.
//!
//! The scheme of Agrawal, Libert and Stehlé (2016) from the decisional Diffie–Hellman assumption, over the
//! group ristretto255 with generators G and H:
//!
//! ```text
//! authority   secret s, t (one pair per value)         public h_j = s_j·G + t_j·H
//! guest       x, randomness r                           C = r·G   D = r·H   E_j = x_j·G + r·h_j
//! authority   for weights w: key (Σ w_j s_j, Σ w_j t_j)
//! host        Σ w_j E_j − key₁·C − key₂·D = (Σ w_j x_j)·G, and the small logarithm of that
//! ```
//!
//! # Who can see what
//!
//! | party | sees |
//! |---|---|
//! | host | for every row that it got a key for, the product with **every block** under that public key, asked about or not; and of all sums of such rows. With `width` independent rows that is every value of every block |
//! | guest | nothing of the host's matrix: it is not asked |
//! | authority | **every row of the host's matrix**; together with a ciphertext it could read all of it |
//!
//! A key belongs to a row, not to a block, and keys are linear: the authority cannot issue one for a single product.
//! All it can do is count: an [`Authority`] issues keys for `width`/2 rows
//! ([`Authority::with_most_keys`]: never `width`), then refuses. That is a limit, no proof of anything: half as many
//! products as values, exact and of small whole numbers, may be enough for lattice reduction. Encrypt noised vectors.
//! Its [state](Authority::state) outlives a restart, the count of rows included; `fedtse authority` is such a process.
//!
//! So the authority must be a third party that neither host nor guest controls, and that gets no ciphertexts.
//! If it were the guest, the guest would see A; if the host, the host could issue itself keys for unit
//! vectors. Two parties alone are served by [`rlwe`](crate::rlwe), not by this.
//!
//! There is no mirror ([`Host::mask_gradient`](crate::product::Host::mask_gradient)): to decrypt, the guest would need the rows. And one question is about one
//! block: keys for a sum over several ciphertexts would open each part of it. In the rounds ([`keyed`](crate::keyed)) a block is therefore
//! a whole batch, under a public key of its own ([`Authorities`]), and guests' gradients are the lattice protocol's.

mod authorities;
mod authority;
mod guest;
mod host;
mod logarithm;
pub mod message;
mod multiply;

pub use authorities::{Authorities, most_keys, public_key_request, rows_of_bytes};
pub(crate) use authorities::{KeyDigest, key_digest, keyed_question};
pub use authority::Authority;
pub use guest::IpfeGuest;
pub use host::IpfeHost;
pub use logarithm::LogarithmTable;

use std::sync::OnceLock;

use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use zeroize::Zeroize;

use crate::random::Randomness;

/// The widest block: the measurements of a whole batch.
pub const MOST_VALUES: usize = 1 << 16;

/// Points that a thread computes one after the other, at least.
const POINTS_AT_ONCE: usize = 64;

/// The second generator: the image of a fixed stream, so that nobody knows its logarithm.
fn second_generator() -> RistrettoPoint {
    static POINT: OnceLock<RistrettoPoint> = OnceLock::new();
    *POINT.get_or_init(|| {
        let mut stream = Randomness::from_secret(b"fedtse ipfe second generator, v1");
        let mut bytes = [0; 64];
        stream.fill(&mut bytes);
        RistrettoPoint::from_uniform_bytes(&bytes)
    })
}

pub(crate) fn random_scalar(random: &mut Randomness) -> Scalar {
    let mut wide = [0; 64];
    random.fill(&mut wide);
    let scalar = Scalar::from_bytes_mod_order_wide(&wide);
    wide.zeroize();
    scalar
}

/// A small whole number as a scalar, without a branch on its sign.
pub(crate) fn small_scalar(x: i64) -> Scalar {
    // x + 2^63 is never negative: the bits of x with the first one changed.
    Scalar::from(x as u64 ^ 1 << 63) - Scalar::from(1u64 << 63)
}

#[cfg(test)]
mod tests;
