//! Residues as bytes: 50 bits each, four in 25 bytes; and uniform residues from a seed.

use chacha20::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::ring::PRIME;
use super::transform::DEGREE;
use crate::wire::{DecodeError, out_of_range};

const BITS: usize = 50;
const MASK: u64 = (1 << BITS) - 1;

/// Bytes of so many residues.
pub(crate) const fn packed_len(count: usize) -> usize {
    (count * BITS).div_ceil(8)
}

/// Writes residues in 0..2^50.
pub(crate) fn pack(residues: &[u64], out: &mut Vec<u8>) {
    let (fours, rest) = residues.as_chunks::<4>();
    for &[a, b, c, d] in fours {
        let low = u128::from(a) | u128::from(b) << 50 | u128::from(c) << 100;
        let high = c >> 28 | d << 22;
        out.extend(low.to_le_bytes());
        out.extend(high.to_le_bytes());
        out.push((d >> 42) as u8);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let mut padded = Vec::with_capacity(25);
        pack(&last, &mut padded);
        out.extend(&padded[..packed_len(rest.len())]);
    }
}

/// Reads `count` residues of a prime; `bytes` must have [`packed_len`] of them.
pub(crate) fn unpack(
    what: &'static str,
    bytes: &[u8],
    count: usize,
    prime: u64,
    mut each: impl FnMut(usize, u64),
) -> Result<(), DecodeError> {
    if bytes.len() != packed_len(count) {
        return Err(DecodeError::Length { what, found: bytes.len(), expected: packed_len(count) });
    }
    let mut largest = 0;
    let whole = bytes.as_chunks::<25>().0;
    for (group, bytes) in whole.iter().enumerate() {
        for (i, residue) in four(bytes).into_iter().enumerate() {
            largest = largest.max(residue);
            each(4 * group + i, residue);
        }
    }
    let done = 4 * whole.len();
    let mut last = [0; 25];
    last[..bytes.len() - 25 * whole.len()].copy_from_slice(&bytes[25 * whole.len()..]);
    let last = four(&last);
    for (i, residue) in last.into_iter().enumerate() {
        if done + i < count {
            largest = largest.max(residue);
            each(done + i, residue);
        } else if residue != 0 {
            return Err(out_of_range(what, "bits after the last residue", "zeros"));
        }
    }
    if largest >= prime {
        return Err(out_of_range(what, largest, format!("residues below {prime}")));
    }
    Ok(())
}

#[inline(always)]
fn four(bytes: &[u8; 25]) -> [u64; 4] {
    let at = |from: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[from..from + 8]);
        u64::from_le_bytes(word)
    };
    // Residue i begins at bit 50·i = 8·(6·i) + 2·i.
    [at(0), at(6) >> 2, at(12) >> 4, at(17) >> 14].map(|word| word & MASK)
}

/// The uniform values that a public seed stands for, modulo one of the primes.
///
/// Eight rounds of ChaCha: the stream is public, so all that it needs is to have no structure.
pub(crate) fn expand(seed: &[u8; 32], prime: usize, out: &mut [f64; DEGREE]) {
    let mut stream = ChaCha8Rng::from_seed(*seed);
    stream.set_stream(prime as u64 + 1);
    let mut bytes = [0; 4096];
    let mut filled = 0;
    while filled < DEGREE {
        stream.fill_bytes(&mut bytes);
        for bytes in bytes.as_chunks::<8>().0 {
            let candidate = u64::from_le_bytes(*bytes) & MASK;
            // All primes are within 2^21 of 2^50: one candidate in 2^29 is thrown away.
            if candidate < PRIME[prime] && filled < DEGREE {
                out[filled] = candidate as i64 as f64;
                filled += 1;
            }
        }
    }
}
