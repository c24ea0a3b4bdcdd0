//! A batch under lattice encryption, with host and guest in this process and every message as it would be sent.

use sealed::rlwe::{AppliedRow, KeySeed, RlweGuest, RlweHost};
use sealed::{Agreement, Answerer, BlockId, Guest, Host, Matrix, SealedError};

use crate::least_squares::{Answered, LeastSquaresError, Products};

/// A guest's batch and the host that asks about it.
pub struct SealedBatch {
    agreement: Agreement,
    guest: RlweGuest,
    host: RlweHost,
    blocks: Vec<BlockId>,
}

impl SealedBatch {
    /// Uploads a batch of levels, `[sample, value]`: one block a sample.
    pub fn new(agreement: Agreement, levels: &[i32]) -> Result<Self, SealedError> {
        let mut guest = RlweGuest::new(agreement, &KeySeed::from_os()?)?;
        let mut host = RlweHost::new(agreement, &guest.public_key())?;
        let mut blocks = Vec::new();
        for (number, levels) in levels.chunks(agreement.width).enumerate() {
            let block = BlockId(number as u64);
            host.store(&guest.upload(block, levels)?)?;
            blocks.push(block);
        }
        Ok(Self { agreement, guest, host, blocks })
    }

    /// Products of rows over some samples, given by their numbers, with the levels themselves: whole weights, and
    /// whole products.
    pub fn whole(
        &mut self,
        samples: std::ops::Range<usize>,
        rows: &[Vec<f64>],
    ) -> Result<(Vec<Vec<i64>>, Vec<i64>), SealedError> {
        let blocks = self.blocks.get(samples).unwrap_or_default().to_vec();
        let values = rows.concat();
        let question =
            self.host.ask(&Matrix { rows: rows.len(), blocks: &blocks, values: &values })?;
        let products = self.host.open(&self.guest.answer(&question)?)?;
        let (mut weights, mut whole) = (Vec::new(), Vec::new());
        for (row, product) in rows.iter().zip(products) {
            let applied = RlweHost::applied(&self.agreement, row)?;
            let levels =
                self.about_centre(row, product) / (applied.unit * self.agreement.grid.step());
            // A row of zeros has no unit, and a product of zero.
            whole.push(if levels.is_finite() { levels.round() as i64 } else { 0 });
            weights.push(applied.weights);
        }
        Ok((weights, whole))
    }

    fn about_centre(&self, row: &[f64], product: f64) -> f64 {
        product - self.agreement.grid.centre() * row.iter().sum::<f64>()
    }
}

impl Products for SealedBatch {
    fn ask(&mut self, rows: &[f64], count: usize) -> Result<Answered, LeastSquaresError> {
        let matrix = Matrix { rows: count, blocks: &self.blocks, values: rows };
        let question = self.host.ask(&matrix)?;
        let products = self.host.open(&self.guest.answer(&question)?)?;
        let columns = rows.len() / count.max(1);
        let (mut applied, mut shifted) = (Vec::with_capacity(rows.len()), Vec::new());
        for (row, product) in rows.chunks_exact(columns.max(1)).zip(products) {
            let AppliedRow { weights, unit } = RlweHost::applied(&self.agreement, row)?;
            applied.extend(weights.iter().map(|&weight| weight as f64 * unit));
            shifted.push(self.about_centre(row, product));
        }
        Ok(Answered { applied, products: shifted })
    }
}
