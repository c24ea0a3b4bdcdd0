//! What the host has of one guest whose measurements are sealed.

use std::collections::BTreeMap;

use sealed::plain::PlainHost;
use sealed::rlwe::RlweHost;
use sealed::{Agreement, BlockId, BlockProducts, Matrix, SealedError};

use crate::error::PartyError;
use crate::message::measurements::Layout;
use crate::message::parts::Batch;
use crate::message::sealed::{
    BlockWeights, Fingerprint, Scheme, Sealed, Sealing, block_length, block_of, range,
};

/// What the host has of a guest's sealed measurements.
pub(super) struct SealedSeat {
    pub products: Box<dyn sealed::Host + Send>,
    pub weights: BTreeMap<BlockId, BlockWeights>,
    /// The largest value of each entry of a sample.
    pub ranges: Vec<f64>,
    /// Samples of a block.
    pub length: usize,
    pub agreement: Agreement,
    /// The guest's key, for those who encrypt for it.
    pub opening: Sealed,
    key: Fingerprint,
}

/// Products with single blocks, for one guest's gradient.
pub(super) struct Part {
    rows: usize,
    blocks: Vec<BlockId>,
    coefficients: Vec<f64>,
    offsets: Vec<f64>,
}

impl Part {
    pub fn products(&self) -> BlockProducts<'_> {
        let Self { rows, blocks, coefficients, offsets } = self;
        BlockProducts { rows: *rows, blocks, coefficients, offsets }
    }
}

impl SealedSeat {
    pub fn new(
        sealing: Sealing,
        layout: &Layout,
        segment: u32,
        blocks: usize,
        opening: &Sealed,
    ) -> Result<Self, PartyError> {
        let agreement = sealing.agreement(layout, segment, blocks).map_err(PartyError::misuse)?;
        let products: Box<dyn sealed::Host + Send> = match sealing.scheme {
            Scheme::Lattice => Box::new(RlweHost::new(agreement, opening.as_slice())?),
            Scheme::Plain => Box::new(PlainHost::new(agreement)?),
        };
        let entries = layout.groups().flat_map(|(_, entries)| entries);
        let ranges = entries.map(|entry| range(entry.quantity)).collect();
        let (weights, length) = (BTreeMap::new(), block_length(segment));
        let (opening, key) = (opening.clone(), Fingerprint::of(opening));
        Ok(Self { products, weights, ranges, length, agreement, opening, key })
    }

    /// What the guest's key is known by.
    pub fn key(&self) -> Fingerprint {
        self.key
    }

    fn blocks(&self, batch: &Batch) -> Vec<BlockId> {
        batch.samples().chunks(self.length).map(|block| block_of(block[0])).collect()
    }

    /// Whether all of a batch is here.
    pub fn holds(&self, batch: &Batch) -> bool {
        self.blocks(batch).iter().all(|block| self.weights.contains_key(block))
    }

    /// The weights of a batch, `[sample, entry]`, if all of it is here.
    pub fn weights_of(&self, batch: &Batch) -> Option<Vec<f32>> {
        let mut all = Vec::new();
        for block in self.blocks(batch) {
            all.extend_from_slice(self.weights.get(&block)?.as_slice());
        }
        Some(all)
    }

    /// Rows of values become rows of shares of their ranges.
    pub fn ask(&mut self, batch: &Batch, mut values: Vec<f64>) -> Result<Vec<u8>, SealedError> {
        let columns = batch.samples().len() * self.ranges.len();
        for entries in values.chunks_exact_mut(self.ranges.len().max(1)) {
            entries.iter_mut().zip(&self.ranges).for_each(|(a, range)| *a *= range);
        }
        let blocks = self.blocks(batch);
        let rows = values.len() / columns.max(1);
        self.products.ask(&Matrix { rows, blocks: &blocks, values: &values })
    }

    /// What this guest's values add to the gradient of an embedding, its own or another guest's: `d` is
    /// `[sample, number of the embedding, entry]` and `offsets` `[sample, number of the embedding]`.
    pub fn part(&self, batch: &Batch, d: &[f64], offsets: &[f64]) -> Part {
        let (length, entries) = (self.length, self.ranges.len());
        let samples = batch.samples().len();
        let numbers = offsets.len() / samples.max(1);
        let width = length * entries;
        let mut coefficients = vec![0.0; offsets.len() * width];
        let own = d.chunks_exact(entries.max(1));
        // A sample's gradient depends on that sample's measurements alone.
        for (at, (own, place)) in own.zip(coefficients.chunks_exact_mut(width)).enumerate() {
            let sample = at / numbers.max(1) % length;
            let place = &mut place[sample * entries..][..entries];
            for ((place, d), range) in place.iter_mut().zip(own).zip(&self.ranges) {
                *place = d * range;
            }
        }
        let (rows, blocks) = (length * numbers, self.blocks(batch));
        Part { rows, blocks, coefficients, offsets: offsets.to_vec() }
    }
}
