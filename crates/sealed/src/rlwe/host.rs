//! The host: multiplies uploaded blocks by its rows, and hides all but the products.

use std::fmt;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zeroize::{Zeroize, Zeroizing};

use super::accumulate::Expanded;
use super::guest::centred;
use super::message::{
    Answer, Grant, PublicKey, Question, Sealed, SealedProducts, SeededHalf, Upload,
};
use super::ring::{PLAIN_BITS, PLAIN_LIMIT, WEIGHT_LIMIT};
use super::room::{Room, Work};
use super::rows_per_poly;
use crate::fixed_point::{FixedPointError, RowScale};
use crate::kernel::ROUND;
use crate::lending::{Lent, Loan, Reach, Scale};
use crate::product::{
    Agreement, AnsweredBy, BlockId, BlockProducts, Host, Matrix, SealedError, peer,
};
use crate::random::Randomness;
use crate::wire::out_of_range;

/// A host of the lattice protocol, for one guest.
pub struct RlweHost {
    pub(super) agreement: Agreement,
    public: Expanded,
    blocks: FxHashMap<BlockId, SeededHalf>,
    /// Blocks of the last question with both halves: the grant that follows is about the same ones.
    expanded: FxHashMap<BlockId, Expanded>,
    pub(super) random: Randomness,
    room: Room,
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

/// Blocks that are kept with both halves, 400 kB each.
const MOST_EXPANDED: usize = 128;

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
            room: Room::default(),
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
            let mut work = self.room.take();
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
            self.room.give_back(b);
            Ok(a)
        });
        merged.unwrap_or_else(|| Ok(self.room.take()))
    }

    /// Keeps these blocks with both halves, and no others.
    fn expand(&mut self, blocks: &[BlockId]) -> Result<(), SealedError> {
        let asked = if blocks.len() > MOST_EXPANDED { &[] } else { blocks };
        let all = std::mem::take(&mut self.expanded).into_iter();
        let (kept, others): (FxHashMap<_, _>, FxHashMap<_, _>) =
            all.partition(|(block, _)| asked.contains(block));
        self.expanded = kept;
        // What is no longer needed is written over: memory that is new to a process costs time.
        let mut room: Vec<Expanded> = others.into_values().collect();
        let new = asked.iter().filter(|block| !self.expanded.contains_key(block));
        let new = new.map(|&block| Ok((block, self.block(block)?, room.pop())));
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
        self.room.give_back(work);
        sealed
    }

    /// A seed for each polynomial: what hides them can then be drawn side by side.
    fn seeds(&mut self, polys: usize) -> Vec<Zeroizing<[u8; 32]>> {
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
        if self.blocks.len() >= self.agreement.most_blocks && !self.blocks.contains_key(&block) {
            return Err(SealedError::Full { block, most: self.agreement.most_blocks });
        }
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
        let wrong =
            |what, found: u64, expected: u64| peer("answer")(out_of_range(what, found, expected));
        if exchange != pending.exchange {
            return Err(wrong("exchange of the answer", exchange, pending.exchange));
        }
        let rows = pending.masks.len();
        if masked.len() != rows {
            return Err(wrong("rows of the answer", masked.len() as u64, rows as u64));
        }
        let masks = pending.masks.iter().zip(&pending.scales);
        let products = masked.iter().zip(masks);
        let products = products
            .map(|(&masked, (&mask, scale))| scale.product(centred(masked.wrapping_sub(mask))))
            .collect();
        self.pending = None;
        Ok(products)
    }

    fn grant(&mut self, products: &BlockProducts<'_>) -> Result<Vec<u8>, SealedError> {
        let rows = products.products(&self.agreement)?;
        let Scale(scale) = Reach::of(&self.agreement, products)?.scale()?;
        let (unit, offsets) = self.whole_offsets(products, scale);
        let polys = self.granted(products, unit, &offsets)?;
        let products = SealedProducts { exchange: self.random.bits(), rows, polys };
        Ok(Grant { products, scale }.encode())
    }

    fn lend(
        &mut self,
        products: &BlockProducts<'_>,
        scale: Scale,
    ) -> Result<(Vec<u8>, Loan), SealedError> {
        self.masked_loan(products, scale)
    }

    fn accept(&self, loan: &Loan, relay: &[u8]) -> Result<Lent, SealedError> {
        self.accepted(loan, relay)
    }

    fn grant_with(
        &mut self,
        products: &BlockProducts<'_>,
        scale: Scale,
        lent: &[Lent],
    ) -> Result<Vec<u8>, SealedError> {
        self.shared_grant(products, scale, lent)
    }
}

impl RlweHost {
    /// Products of single blocks, a plaintext added to each, for the guest alone.
    pub(super) fn granted(
        &mut self,
        products: &BlockProducts<'_>,
        unit: f64,
        plaintexts: &[u64],
    ) -> Result<Vec<Sealed>, SealedError> {
        let Agreement { width, .. } = self.agreement;
        let (per_poly, rows) = (rows_per_poly(width), products.rows);
        self.expand(products.blocks)?;
        let (seeds, host) = (self.seeds(plaintexts.len().div_ceil(per_poly)), &*self);
        let parts = plaintexts.par_chunks(per_poly).zip(&seeds).enumerate();
        let polys = parts.map(|(number, (part, seed))| {
            // The products of this polynomial, and the blocks that they belong to: one or two, mostly.
            let from = number * per_poly;
            let blocks = from / rows..=(from + part.len() - 1) / rows;
            let mut work = host.room.take();
            for number in blocks {
                let coefficients = &products.coefficients[number * rows * width..];
                work.weights.0.fill(0.0);
                for (i, row) in coefficients.chunks_exact(width).take(rows).enumerate() {
                    let slot = (number * rows + i).checked_sub(from);
                    let Some(slot) = slot.filter(|slot| *slot < part.len()) else { continue };
                    let place = &mut work.weights.0[slot * width..][..width];
                    for (weight, entry) in place.iter_mut().rev().zip(row) {
                        *weight = (entry * unit + ROUND) - ROUND;
                    }
                }
                host.add(products.blocks[number], &mut work)?;
            }
            Ok(host.hide(work, seed, part))
        });
        polys.collect()
    }

    /// What a coefficient is multiplied by, and the offsets as plaintexts modulo 2^40.
    pub(super) fn whole_offsets(
        &self,
        products: &BlockProducts<'_>,
        scale: i32,
    ) -> (f64, Vec<u64>) {
        let Agreement { width, grid, .. } = self.agreement;
        let per_unit = libm::ldexp(1.0, scale);
        let rows = products.coefficients.chunks_exact(width).zip(products.offsets);
        let offsets = rows.map(|(row, offset)| {
            let sum: f64 = row.iter().sum();
            let whole = ((sum * grid.centre() + offset) * per_unit + ROUND) - ROUND;
            whole as i64 as u64 & ((1 << PLAIN_BITS) - 1)
        });
        (grid.step() * per_unit, offsets.collect())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.masks.zeroize();
        self.scales.zeroize();
    }
}

impl fmt::Debug for RlweHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RlweHost({} blocks, …)", self.blocks.len())
    }
}
