//! Error feedback: what a sample's numbers lost when they were packed.
//!
//! ```text
//! sent = pack(numbers + left)        left ← numbers + left − sent
//! ```
//!
//! By sample, not by place in the batch: what was lost of one sample means nothing for another.

use std::collections::BTreeMap;

use traffic::{FleetView, Step, Window};

use super::Compression;
use crate::message::parts::{PartError, Values};

/// What is left to be sent of each training sample. As large as the training part: a sample has `width`
/// numbers here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Feedback {
    left: BTreeMap<Window, Vec<f32>>,
}

impl Feedback {
    /// Packs the numbers of training samples, and remembers what that loses.
    ///
    /// Only 8 bits lose enough to be worth it.
    pub fn pack(
        &mut self,
        compression: Compression,
        samples: &[Window],
        width: usize,
        mut numbers: Vec<f32>,
    ) -> Result<Values, PartError> {
        if compression != Compression::Q8 {
            return compression.pack(width, numbers);
        }
        for (sample, row) in samples.iter().zip(numbers.chunks_exact_mut(width.max(1))) {
            // Taken out, so that a sample that is there twice is corrected once.
            let left = self.left.remove(sample).unwrap_or_default();
            row.iter_mut().zip(left).for_each(|(number, left)| *number += left);
        }
        let sent = compression.pack(width, numbers.clone())?;
        let rows = numbers.chunks_exact(width).zip(sent.as_slice().chunks_exact(width));
        for (sample, (wanted, sent)) in samples.iter().zip(rows) {
            let left = self.left.entry(*sample).or_insert_with(|| vec![0.0; width]);
            let lost = wanted.iter().zip(sent).map(|(wanted, sent)| wanted - sent);
            left.iter_mut().zip(lost).for_each(|(left, lost)| *left += lost);
        }
        Ok(sent)
    }

    /// All of it, for a checkpoint: samples, and for each its step, view, width and numbers.
    pub fn save(&self, to: &mut Vec<u8>) {
        to.extend((self.left.len() as u64).to_le_bytes());
        for (sample, left) in &self.left {
            to.extend(sample.last.0.to_le_bytes());
            to.extend(sample.view.0.to_le_bytes());
            to.extend((left.len() as u64).to_le_bytes());
            left.iter().for_each(|number| to.extend(number.to_le_bytes()));
        }
    }

    /// Reads what was saved off the front of some bytes.
    pub fn restore(bytes: &mut &[u8]) -> Result<Self, PartError> {
        let mut left = BTreeMap::new();
        for _ in 0..u64::from_le_bytes(take(bytes)?) {
            let last = Step(i64::from_le_bytes(take(bytes)?));
            let view = FleetView(u16::from_le_bytes(take(bytes)?));
            let width = usize::try_from(u64::from_le_bytes(take(bytes)?)).map_err(|_| cut())?;
            let length = width.checked_mul(4).ok_or_else(cut)?;
            let (numbers, rest) = bytes.split_at_checked(length).ok_or_else(cut)?;
            *bytes = rest;
            let (numbers, _) = numbers.as_chunks::<4>();
            let sample = Window { last, view };
            left.insert(sample, numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect());
        }
        Ok(Self { left })
    }
}

/// Takes some bytes off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], PartError> {
    let (front, rest) = bytes.split_first_chunk::<N>().ok_or_else(cut)?;
    *bytes = rest;
    Ok(*front)
}

fn cut() -> PartError {
    PartError::new("error feedback", "fewer bytes than it has", "all of them")
}
