//! Generators of which nobody knows how one is a multiple of another: images of fixed streams.

use std::sync::{Mutex, OnceLock, PoisonError};

use curve25519_dalek::ristretto::RistrettoPoint;
use sha2::{Digest, Sha512};

/// H of the commitments.
pub(super) fn blinding_generator() -> RistrettoPoint {
    static POINT: OnceLock<RistrettoPoint> = OnceLock::new();
    *POINT.get_or_init(|| hashed(b"blinding", 0))
}

/// The generators of so many bits: those of the left vector and those of the right one. They are found once, which takes as
/// long as checking a proof, and kept: 5 MB of them at most.
pub(super) fn bit_generators(count: usize) -> [Vec<RistrettoPoint>; 2] {
    static KNOWN: Mutex<[Vec<RistrettoPoint>; 2]> = Mutex::new([Vec::new(), Vec::new()]);
    // Points are only ever added at the end, one at a time: what another thread has left is right as far as it goes.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    for (points, side) in known.iter_mut().zip([&b"left"[..], b"right"]) {
        for number in points.len()..count {
            points.push(hashed(side, number as u64));
        }
    }
    [known[0][..count].to_vec(), known[1][..count].to_vec()]
}

fn hashed(side: &[u8], number: u64) -> RistrettoPoint {
    let mut hash = Sha512::new();
    hash.update(b"fedtse committed values, generators v1, ");
    hash.update(side);
    hash.update(number.to_le_bytes());
    RistrettoPoint::from_uniform_bytes(&hash.finalize().into())
}
