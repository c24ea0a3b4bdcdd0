//! The host: asks the authority for keys of its rows, and decrypts the products.

use std::sync::Arc;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zeroize::Zeroize;

use super::MOST_VALUES;
use super::logarithm::LogarithmTable;
use super::message::{Answer, MOST_WEIGHT, PublicKey, Question, Upload};
use super::multiply::weighted_sum;
use crate::fixed_point::{RowScale, room};
use crate::product::{
    Agreement, AnsweredBy, BlockId, Expected, Host, Matrix, SealedError, misuse, peer,
};
use crate::random::Randomness;
use crate::wire::out_of_range;

/// A host of functional encryption, for one guest.
pub struct IpfeHost {
    agreement: Agreement,
    table: Arc<LogarithmTable>,
    blocks: FxHashMap<BlockId, Upload>,
    random: Randomness,
    pending: Option<Pending>,
}

struct Pending {
    /// Random: an answer to another question, of this process or of an earlier one, has another.
    exchange: u64,
    block: BlockId,
    scales: Vec<RowScale>,
    weights: Vec<i32>,
}

impl IpfeHost {
    /// A host whose products are found by this table: it bounds their size.
    pub fn new(
        agreement: Agreement,
        public_key: &[u8],
        table: Arc<LogarithmTable>,
    ) -> Result<Self, SealedError> {
        Self::with_randomness(agreement, public_key, table, Randomness::from_os()?)
    }

    /// A host whose every byte can be repeated: for tests and test vectors only.
    pub fn with_randomness(
        agreement: Agreement,
        public_key: &[u8],
        table: Arc<LogarithmTable>,
        random: Randomness,
    ) -> Result<Self, SealedError> {
        let public = PublicKey::decode(public_key).map_err(peer("public key"))?;
        public.terms.check(&agreement).map_err(peer("public key"))?;
        Self::without_key(agreement, table, random)
    }

    /// A host that leaves the public key to the guest: uploads say whether both have agreed on the same.
    pub(crate) fn without_key(
        agreement: Agreement,
        table: Arc<LogarithmTable>,
        random: Randomness,
    ) -> Result<Self, SealedError> {
        let agreement = agreement.checked_to(MOST_VALUES)?;
        // Every question would fail.
        room(agreement.width, &agreement.grid, limit(&table, &agreement))?;
        Ok(Self { agreement, table, blocks: FxHashMap::default(), random, pending: None })
    }
}

/// The largest product. A weight must fit, too, where the grid has few levels.
fn limit(table: &LogarithmTable, agreement: &Agreement) -> i64 {
    table.limit().min(i64::from(MOST_WEIGHT) * i64::from(agreement.grid.levels()))
}

impl Host for IpfeHost {
    fn answered_by(&self) -> AnsweredBy {
        AnsweredBy::Authority
    }

    fn store(&mut self, upload: &[u8]) -> Result<BlockId, SealedError> {
        let upload = Upload::decode(upload).map_err(peer("upload"))?;
        upload.terms.check(&self.agreement).map_err(peer("upload"))?;
        let block = upload.block;
        self.agreement.check_room(&self.blocks, block)?;
        self.blocks.insert(block, upload);
        Ok(block)
    }

    fn forget(&mut self, block: BlockId) -> bool {
        self.blocks.remove(&block).is_some()
    }

    fn ask(&mut self, matrix: &Matrix<'_>) -> Result<Vec<u8>, SealedError> {
        let width = matrix.columns(&self.agreement)?;
        let &[block] = matrix.blocks else {
            let expected = "1: keys for a sum over several would open each part of it";
            return Err(misuse("blocks of the matrix", matrix.blocks.len(), expected));
        };
        if !self.blocks.contains_key(&block) {
            return Err(SealedError::Unknown(block));
        }
        let limit = limit(&self.table, &self.agreement);
        let (mut scales, mut weights) = (Vec::new(), Vec::with_capacity(matrix.values.len()));
        for row in matrix.values.chunks_exact(width) {
            let scale = RowScale::new(row, &self.agreement.grid, limit)?;
            weights.extend(row.iter().map(|&entry| scale.weight(entry) as i32));
            scales.push(scale);
        }
        let exchange = self.random.bits();
        let question = Question { exchange, values: width, weights };
        let bytes = question.encode();
        self.pending = Some(Pending { exchange, block, scales, weights: question.weights });
        Ok(bytes)
    }

    fn open(&mut self, answer: &[u8]) -> Result<Vec<f64>, SealedError> {
        let pending = self.pending.as_ref().ok_or(SealedError::NoExchange)?;
        let Answer { exchange, keys } =
            Answer::decode(answer, self.agreement.most_rows).map_err(peer("answer"))?;
        let expected = Expected::answer(pending.exchange, pending.scales.len());
        expected.check(exchange, keys.len()).map_err(peer("answer"))?;
        let upload = self.blocks.get(&pending.block).ok_or(SealedError::Unknown(pending.block))?;
        let [c, d] = &upload.heads;
        let rows = pending.weights.par_chunks_exact(self.agreement.width).zip(&pending.scales);
        let products = rows.zip(&keys).map(|((weights, scale), [first, second])| {
            let point = weighted_sum(weights, &upload.values) - first * c - second * d;
            let whole = self.table.logarithm(&point).ok_or_else(|| {
                let expected = format!("at most {} in size", self.table.limit());
                peer("answer")(out_of_range("product", "one that is larger", expected))
            })?;
            Ok(scale.product(whole))
        });
        let products = products.collect::<Result<Vec<f64>, SealedError>>()?;
        self.pending = None;
        Ok(products)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.scales.zeroize();
        self.weights.zeroize();
    }
}

crate::debug_sizes!(IpfeHost, |it| "IpfeHost({} blocks, …)", it.blocks.len());
