//! Generators of which nobody knows how one is a multiple of another: images of fixed streams.

use std::sync::OnceLock;

use curve25519_dalek::ristretto::RistrettoPoint;
use sha2::{Digest, Sha512};

/// H of the commitments.
pub(super) fn blinding_generator() -> RistrettoPoint {
    static POINT: OnceLock<RistrettoPoint> = OnceLock::new();
    *POINT.get_or_init(|| hashed(b"blinding", 0))
}

/// The generators of so many bits: those of the left vector and those of the right one.
pub(super) fn bit_generators(count: usize) -> [Vec<RistrettoPoint>; 2] {
    let of = |side: &[u8]| (0..count as u64).map(|number| hashed(side, number)).collect();
    [of(b"left"), of(b"right")]
}

fn hashed(side: &[u8], number: u64) -> RistrettoPoint {
    let mut hash = Sha512::new();
    hash.update(b"fedtse committed values, generators v1, ");
    hash.update(side);
    hash.update(number.to_le_bytes());
    RistrettoPoint::from_uniform_bytes(&hash.finalize().into())
}
