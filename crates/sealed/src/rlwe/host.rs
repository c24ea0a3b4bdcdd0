//! The host: multiplies uploaded blocks by its rows, and hides all but the products.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zeroize::{Zeroize, Zeroizing};

use super::accumulate::Expanded;
use super::guest::centred;
use super::message::{Answer, PublicKey, Question, Sealed, SealedProducts, SeededHalf, Upload};
use super::ring::{PLAIN_BITS, PLAIN_LIMIT, WEIGHT_LIMIT};
use super::rows_per_poly;
use super::scratch::{ScratchPool, Work};
use crate::fixed_point::{FixedPointError, RowScale};
use crate::masked_gradient::{MaskedShare, PendingProducts, Scale};
use crate::product::{
    Agreement, AnsweredBy, BlockId, Coefficients, Expected, Host, Matrix, SealedError, peer,
};
use crate::random::Randomness;

/// A host of the lattice protocol, for one guest.
pub struct RlweHost {
    pub(super) agreement: Agreement,
    public: Expanded,
    blocks: FxHashMap<BlockId, SeededHalf>,
    /// Those of the last questions with both halves, as they are multiplied.
    expanded: FxHashMap<BlockId, Expanded>,
    pub(super) random: Randomness,
    scratch: ScratchPool,
    pending: Option<Pending>,
}

/// Whole weights and what one of them counts. With c the middle of the grid, [`Host::open`] gives for a row a
/// Σ unit·weight_j·(u_j − c) + c·Σ a_j, to the last digits of an `f64`.
#[derive(Clone, PartialEq)]
pub struct AppliedRow {
    /// One for each entry of the row.
    pub weights: Vec<i64>,
    /// What a weight of 1 stands for.
    pub unit: f64,
}

/// Blocks that are kept with both halves, 393 kB each: with fewer than these, no half is made twice.
const MOST_EXPANDED: usize = 256;

/// What the host keeps between its question and the answer.
struct Pending {
    /// Random: an answer to another question, of this process or of an earlier one, has another.
    exchange: u64,
    scales: Vec<RowScale>,
    masks: Vec<u64>,
}

impl RlweHost {
    /// A host for the guest with this opening; masks come from the operating system.
    pub fn new(agreement: Agreement, opening: &[u8]) -> Result<Self, SealedError> {
        Self::with_randomness(agreement, opening, Randomness::from_os()?)
    }

    /// A host whose every byte can be repeated: for tests and test vectors only.
    pub fn with_randomness(
        agreement: Agreement,
        opening: &[u8],
        random: Randomness,
    ) -> Result<Self, SealedError> {
        let agreement = agreement.checked()?;
        let public = PublicKey::decode(opening).map_err(peer("public key"))?;
        public.terms.check(&agreement).map_err(peer("public key"))?;
        let mut expanded = Expanded::new();
        expanded.fill(&public.half);
        Ok(Self {
            agreement,
            public: expanded,
            blocks: FxHashMap::default(),
            expanded: FxHashMap::default(),
            random,
            scratch: ScratchPool::default(),
            pending: None,
        })
    }

    /// The row that a product is really taken with: a host that wants to know u solves for it with this, not with
    /// the row that it asked about.
    pub fn applied(agreement: &Agreement, row: &[f64]) -> Result<AppliedRow, SealedError> {
        let scale = RowScale::new(row, &agreement.grid, product_limit(agreement))?;
        let weights = row.iter().map(|&entry| scale.weight(entry) as i64).collect();
        Ok(AppliedRow { weights, unit: scale.unit() })
    }

    fn block(&self, block: BlockId) -> Result<&SeededHalf, SealedError> {
        self.blocks.get(&block).ok_or(SealedError::Unknown(block))
    }

    /// The scales of the rows of a matrix with so many columns.
    pub(super) fn scales(
        &self,
        matrix: &Matrix<'_>,
        columns: usize,
    ) -> Result<Vec<RowScale>, FixedPointError> {
        let limit = product_limit(&self.agreement);
        let rows = matrix.values.par_chunks_exact(columns);
        rows.map(|row| RowScale::new(row, &self.agreement.grid, limit)).collect()
    }

    /// The encrypted products of some rows, as many as fit a polynomial, not yet hidden. Sums are exact, so it makes
    /// no difference how blocks are dealt out to threads.
    pub(super) fn products(
        &self,
        blocks: &[BlockId],
        rows: &[&[f64]],
        scales: &[RowScale],
        parts: usize,
    ) -> Result<Work, SealedError> {
        let width = self.agreement.width;
        let size = blocks.len().div_ceil(parts).max(1);
        let parts = blocks.par_chunks(size).enumerate().map(|(part, blocks)| {
            let mut work = self.scratch.take();
            for (i, &block) in blocks.iter().enumerate() {
                let from = (part * size + i) * width;
                work.weights.0[rows.len() * width..].fill(0.0);
                let places = work.weights.0.chunks_exact_mut(width);
                for (place, (row, scale)) in places.zip(rows.iter().zip(scales)) {
                    // Backwards: the product of a row with its block gathers at the last place.
                    for (weight, &entry) in place.iter_mut().rev().zip(&row[from..][..width]) {
                        *weight = scale.weight(entry);
                    }
                }
                self.add(block, &mut work)?;
            }
            Ok(work)
        });
        let merged = parts.reduce_with(|a, b| {
            let (mut a, b) = (a?, b?);
            a.sums.merge(&b.sums);
            self.scratch.give_back(b);
            Ok(a)
        });
        merged.unwrap_or_else(|| Ok(self.scratch.take()))
    }

    /// Makes both halves of these blocks; others make room where there is none.
    fn expand(&mut self, blocks: &[BlockId]) -> Result<(), SealedError> {
        let asked = if blocks.len() > MOST_EXPANDED { &[] } else { blocks };
        let new = asked.iter().copied().filter(|block| !self.expanded.contains_key(block));
        let mut new: Vec<BlockId> = new.collect();
        new.sort_unstable();
        new.dedup();
        let over = (self.expanded.len() + new.len()).saturating_sub(MOST_EXPANDED);
        let others = self.expanded.keys().filter(|block| !asked.contains(block));
        let others: Vec<BlockId> = others.take(over).copied().collect();
        // They are written over: memory that is new to a process costs time.
        let mut room: Vec<Expanded> =
            others.iter().filter_map(|block| self.expanded.remove(block)).collect();
        let new = new.into_iter().map(|block| Ok((block, self.block(block)?, room.pop())));
        let new = new.collect::<Result<Vec<_>, SealedError>>()?;
        let filled = new.into_par_iter().map(|(block, half, room)| {
            let mut expanded = room.unwrap_or_else(Expanded::new);
            expanded.fill(half);
            (block, expanded)
        });
        let filled: Vec<(BlockId, Expanded)> = filled.collect();
        self.expanded.extend(filled);
        Ok(())
    }

    /// Adds the product of a block with the weights at hand.
    fn add(&self, block: BlockId, work: &mut Work) -> Result<(), SealedError> {
        let Work { weights, scratch, ciphertext, sums, .. } = work;
        let ciphertext = match self.expanded.get(&block) {
            Some(expanded) => expanded,
            None => {
                let ciphertext = ciphertext.get_or_insert_with(Expanded::new);
                ciphertext.fill(self.block(block)?);
                ciphertext
            }
        };
        sums.add(weights, scratch, ciphertext);
        Ok(())
    }

    /// Hides sums of products, by randomness of a seed of their own.
    fn hide(&self, mut work: Work, seed: &[u8; 32], plaintexts: &[u64]) -> Sealed {
        let Work { sums, scratch, hiding, .. } = &mut work;
        hiding.draw(&mut Randomness::from_secret(seed), plaintexts.len());
        let sealed = hiding.finish(sums, scratch, &self.public, self.agreement.width, plaintexts);
        self.scratch.give_back(work);
        sealed
    }

    /// A seed for each polynomial: what hides them can then be drawn side by side.
    pub(super) fn seeds(&mut self, polys: usize) -> Vec<Zeroizing<[u8; 32]>> {
        (0..polys).map(|_| Zeroizing::new(self.random.seed())).collect()
    }
}

/// The largest product. Weights must fit, too, where the grid has few levels.
fn product_limit(agreement: &Agreement) -> i64 {
    PLAIN_LIMIT.min(WEIGHT_LIMIT * i64::from(agreement.grid.levels()))
}

impl Host for RlweHost {
    fn answered_by(&self) -> AnsweredBy {
        AnsweredBy::Guest
    }

    fn store(&mut self, upload: &[u8]) -> Result<BlockId, SealedError> {
        let Upload { block, terms, half } = Upload::decode(upload).map_err(peer("upload"))?;
        terms.check(&self.agreement).map_err(peer("upload"))?;
        self.agreement.check_room(&self.blocks, block)?;
        self.expanded.remove(&block);
        self.blocks.insert(block, half);
        Ok(block)
    }

    fn forget(&mut self, block: BlockId) -> bool {
        self.expanded.remove(&block);
        self.blocks.remove(&block).is_some()
    }

    fn ask(&mut self, matrix: &Matrix<'_>) -> Result<Vec<u8>, SealedError> {
        let columns = matrix.columns(&self.agreement)?;
        self.expand(matrix.blocks)?;
        let masks: Vec<u64> =
            (0..matrix.rows).map(|_| self.random.bits() >> (64 - PLAIN_BITS)).collect();
        let scales = self.scales(matrix, columns)?;
        let per_poly = rows_per_poly(self.agreement.width);
        let polys = matrix.rows.div_ceil(per_poly);
        let (seeds, host) = (self.seeds(polys), &*self);
        // Few polynomials leave threads without work, unless each is divided among them.
        let threads = rayon::current_num_threads();
        let parts = if polys.is_multiple_of(threads) { 1 } else { threads };
        let rows: Vec<&[f64]> = matrix.values.chunks_exact(columns).collect();
        let all = rows.par_chunks(per_poly).zip(scales.par_chunks(per_poly));
        let all = all.zip(masks.par_chunks(per_poly)).zip(&seeds);
        let polys = all.map(|(((rows, scales), masks), seed)| {
            let work = host.products(matrix.blocks, rows, scales, parts)?;
            Ok(host.hide(work, seed, masks))
        });
        let polys = polys.collect::<Result<Vec<_>, SealedError>>()?;
        let exchange = self.random.bits();
        self.pending = Some(Pending { exchange, scales, masks });
        let products = SealedProducts { exchange, rows: matrix.rows, polys };
        Ok(Question(products).encode())
    }

    fn open(&mut self, answer: &[u8]) -> Result<Vec<f64>, SealedError> {
        let pending = self.pending.as_ref().ok_or(SealedError::NoExchange)?;
        let Answer { exchange, masked } =
            Answer::decode(answer, self.agreement.most_rows).map_err(peer("answer"))?;
        let expected = Expected::answer(pending.exchange, pending.masks.len());
        expected.check(exchange, masked.len()).map_err(peer("answer"))?;
        let masks = pending.masks.iter().zip(&pending.scales);
        let products = masked.iter().zip(masks);
        let products = products
            .map(|(&masked, (&mask, scale))| scale.product(centred(masked.wrapping_sub(mask))))
            .collect();
        self.pending = None;
        Ok(products)
    }

    fn encrypt_coefficients(
        &mut self,
        part: &Coefficients<'_>,
        scale: Scale,
        own: bool,
    ) -> Result<(Vec<u8>, PendingProducts), SealedError> {
        self.lent_out(part, scale, own)
    }

    fn accept_masked(
        &self,
        request: &PendingProducts,
        reply: &[u8],
    ) -> Result<MaskedShare, SealedError> {
        self.accepted(request, reply)
    }

    fn mask_gradient(
        &mut self,
        offsets: &[f64],
        scale: Scale,
        shares: &[MaskedShare],
    ) -> Result<Vec<u8>, SealedError> {
        self.masked_gradient(offsets, scale, shares)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.masks.zeroize();
        self.scales.zeroize();
    }
}

crate::debug_sizes!(RlweHost, |it| "RlweHost({} blocks, …)", it.blocks.len());
