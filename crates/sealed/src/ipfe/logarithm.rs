//! Small logarithms: k from k·G, by baby steps and giant steps.
//!
//! The table holds j·G for 0 ≤ j < 2^bits; the search goes outwards from 0 in steps of 2^bits, since
//! products are much more often small than large. Its time tells the size of the product, which is the
//! host's own result.

use curve25519_dalek::ristretto::RistrettoPoint;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::small_scalar;
use crate::product::{SealedError, misuse};

/// Giant steps to either side: 2^14.
const GIANT_BITS: u32 = 14;
/// How many points are brought into their unique form together: one inversion for all.
const BATCH: i64 = 32;
/// Table sizes in bits.
const LEAST_BITS: u32 = 4;
const MOST_BITS: u32 = 22;

/// Baby steps.
pub struct LogarithmTable {
    steps: FxHashMap<u64, u32>,
    bits: u32,
    stride: RistrettoPoint,
}

impl LogarithmTable {
    /// A table of 2^bits points (4 to 22 bits): 20 take about a second and 40 MB, and reach 2^34.
    pub fn new(bits: u32) -> Result<Self, SealedError> {
        if !(LEAST_BITS..=MOST_BITS).contains(&bits) {
            return Err(misuse("bits of the table", bits, format!("{LEAST_BITS} to {MOST_BITS}")));
        }
        let size = 1u32 << bits;
        let one = RistrettoPoint::mul_base(&small_scalar(1));
        let chunks: Vec<u32> = (0..size).step_by(1024).collect();
        let chunks = chunks.par_iter().map(|&first| {
            let mut point = RistrettoPoint::mul_base(&small_scalar(first.into()));
            let mut held = Vec::with_capacity(1024);
            for _ in first..size.min(first + 1024) {
                held.push(point);
                point += one;
            }
            keys(&held)
        });
        let chunks: Vec<Vec<u64>> = chunks.collect();
        let mut steps = FxHashMap::with_capacity_and_hasher(size as usize, Default::default());
        steps.extend(chunks.into_iter().flatten().zip(0..));
        let stride = RistrettoPoint::mul_base(&small_scalar(size.into()));
        Ok(Self { steps, bits, stride })
    }

    /// Logarithms up to this size are found.
    pub fn limit(&self) -> i64 {
        1 << (self.bits + GIANT_BITS)
    }

    /// k, if the point is k·G with |k| at most [`LogarithmTable::limit`].
    pub(crate) fn logarithm(&self, point: &RistrettoPoint) -> Option<i64> {
        let (mut up, mut down) = (*point, *point + self.stride);
        let mut batch = Vec::with_capacity(2 * BATCH as usize);
        for first in (0..=1i64 << GIANT_BITS).step_by(BATCH as usize) {
            batch.clear();
            // point − i·stride for i = first, first + 1, … and for i = −first − 1, −first − 2, …
            for _ in 0..BATCH {
                batch.push(up);
                batch.push(down);
                up -= self.stride;
                down += self.stride;
            }
            for (at, key) in keys(&batch).into_iter().enumerate() {
                let Some(&step) = self.steps.get(&key) else { continue };
                let i = first + at as i64 / 2;
                let i = if at % 2 == 0 { i } else { -i - 1 };
                let k = (i << self.bits) + i64::from(step);
                // A key is a part of a point only.
                if RistrettoPoint::mul_base(&small_scalar(k)) == *point {
                    return Some(k);
                }
            }
        }
        None
    }
}

crate::debug_sizes!(LogarithmTable, |it| "LogarithmTable(2^{} points)", it.bits);

/// Eight bytes of the unique form of each point's double.
fn keys(points: &[RistrettoPoint]) -> Vec<u64> {
    let unique = RistrettoPoint::double_and_compress_batch(points);
    let key = |bytes: &[u8; 32]| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[..8]);
        u64::from_le_bytes(word)
    };
    unique.iter().map(|point| key(point.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_logarithm_up_to_the_limit() {
        let table = LogarithmTable::new(6).unwrap();
        let limit = table.limit();
        for k in [0, 1, -1, 63, 64, -64, -65, 12_345, -99_999, limit - 1, limit, -limit] {
            let point = RistrettoPoint::mul_base(&small_scalar(k));
            assert_eq!(table.logarithm(&point), Some(k));
        }
        // The last batch may reach a little further.
        let far = RistrettoPoint::mul_base(&small_scalar(limit + 64 * 64));
        assert_eq!(table.logarithm(&far), None);
        for bits in [0, 3, 23, u32::MAX] {
            let error = LogarithmTable::new(bits).unwrap_err().to_string();
            assert_eq!(error, format!("bits of the table: found {bits}, expected 4 to 22"));
        }
    }
}
