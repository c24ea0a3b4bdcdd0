//! What the host has of one guest whose measurements are sealed.

use std::collections::BTreeMap;

use estimator::EmbeddingCoefficients;
use protocol::message::measurements::MeasurementLayout;
use protocol::message::parts::Batch;
use protocol::message::sealed::{BlockWeights, Fingerprint, Scheme, Sealed, Sealing};
use rayon::prelude::*;
use sealed::keyed::KeyedHost;
use sealed::plain::PlainHost;
use sealed::rlwe::RlweHost;
use sealed::{Agreement, BlockId, Matrix, SealedError};

use crate::agreement::{
    agreement, block_of, ranges, rows_at_once, samples_at_once, samples_of_block,
};
use crate::error::PartyError;

/// What the host has of a guest's sealed measurements.
pub(super) struct GuestCiphertexts {
    pub products: Box<dyn sealed::Host + Send>,
    pub weights: BTreeMap<BlockId, BlockWeights>,
    /// The largest value of each entry of a sample.
    pub ranges: Vec<f64>,
    /// Samples of a block.
    pub length: usize,
    pub agreement: Agreement,
    sealing: Sealing,
    /// The guest's key, for those who encrypt for it.
    pub public_key: Sealed,
    key: Fingerprint,
    /// Products that were asked for under this key.
    pub(super) asked: usize,
}

impl GuestCiphertexts {
    pub(super) fn new(
        sealing: Sealing,
        layout: &MeasurementLayout,
        (segment, samples): (u32, usize),
        blocks: usize,
        public_key: &Sealed,
    ) -> Result<Self, PartyError> {
        let agreement = agreement(&sealing, layout, (segment, samples), blocks);
        let agreement = agreement.map_err(PartyError::misuse)?;
        let products: Box<dyn sealed::Host + Send> = match sealing.scheme {
            Scheme::Lattice => Box::new(RlweHost::new(agreement, public_key.as_slice())?),
            Scheme::Plain => Box::new(PlainHost::new(agreement)?),
            Scheme::KeyAuthority => Box::new(KeyedHost::new(agreement, public_key.as_slice())?),
        };
        let ranges = ranges(layout);
        let length = samples_of_block(&sealing, layout, segment, samples);
        let weights = BTreeMap::new();
        let (public_key, key) = (public_key.clone(), Fingerprint::of(public_key));
        let asked = 0;
        Ok(Self { products, weights, ranges, length, agreement, sealing, public_key, key, asked })
    }

    /// What the guest's key is known by.
    pub(super) fn key(&self) -> Fingerprint {
        self.key
    }

    fn blocks(&self, batch: &Batch) -> Vec<BlockId> {
        batch.samples().chunks(self.length).map(|block| block_of(block[0])).collect()
    }

    /// Whether all of a batch is here.
    pub(super) fn holds(&self, batch: &Batch) -> bool {
        self.blocks(batch).iter().all(|block| self.weights.contains_key(block))
    }

    /// The weights of a batch, `[sample, entry]`, if all of it is here.
    pub(super) fn weights_of(&self, batch: &Batch) -> Option<Vec<f32>> {
        let mut all = Vec::new();
        for block in self.blocks(batch) {
            all.extend_from_slice(self.weights.get(&block)?.as_slice());
        }
        Some(all)
    }

    /// Entries of a row.
    pub(super) fn columns(&self, batch: &Batch) -> usize {
        batch.samples().len() * self.ranges.len()
    }

    /// The most rows of a question: what a message and the memory have room for.
    pub(super) fn rows_at_once(&self, batch: &Batch) -> usize {
        rows_at_once(&self.sealing, self.agreement.width, self.columns(batch))
    }

    /// The most samples whose coefficients are asked for at a time.
    pub(super) fn samples_at_once(
        &self,
        samples: usize,
        width: usize,
        terms: usize,
    ) -> Result<usize, PartyError> {
        match samples_at_once(&self.sealing, samples, width, terms) {
            0 => Err(PartyError::Misuse {
                what: "values of a product",
                found: terms.to_string(),
                expected: "as many as fit a message".into(),
            }),
            at_once => Ok(at_once),
        }
    }

    /// Rows of values become rows of shares of their ranges.
    pub(super) fn ask(
        &mut self,
        batch: &Batch,
        values: &mut [f64],
    ) -> Result<Vec<u8>, SealedError> {
        let columns = self.columns(batch).max(1);
        let (entries, ranges) = (self.ranges.len().max(1), &self.ranges);
        values.par_chunks_exact_mut(columns).for_each(|row| {
            for sample in row.chunks_exact_mut(entries) {
                sample.iter_mut().zip(ranges).for_each(|(a, range)| *a *= range);
            }
        });
        let blocks = self.blocks(batch);
        let rows = values.len() / columns;
        self.asked += rows;
        self.products.ask(&Matrix { rows, blocks: &blocks, values })
    }

    /// Coefficients of values become coefficients of shares of their ranges.
    pub(super) fn in_shares_of_ranges(&self, share: &mut EmbeddingCoefficients) {
        let ranges = share.entries.iter().map(|entry| self.ranges.get(*entry as usize));
        let ranges: Vec<f64> = ranges.map(|range| range.copied().unwrap_or(0.0)).collect();
        for numbers in share.coefficients.chunks_exact_mut(ranges.len().max(1)) {
            numbers.iter_mut().zip(&ranges).for_each(|(d, range)| *d *= range);
        }
    }
}
