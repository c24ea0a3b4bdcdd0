//! The same products in the clear: for tests, and to see what the others must give.
//!
//! Hides nothing: the guest sees the matrix, the host sees the values.

use rustc_hash::FxHashMap;

use crate::product::{
    Agreement, AnsweredBy, Answerer, BlockId, BlockProducts, Guest, Host, Matrix, SealedError,
    misuse, peer,
};
use crate::wire::{DecodeError, Kind, Reader, Writer, out_of_range};

/// A guest that sends its values as they are.
#[derive(Debug)]
pub struct PlainGuest {
    agreement: Agreement,
    blocks: FxHashMap<BlockId, Vec<i32>>,
}

impl PlainGuest {
    /// A guest.
    pub fn new(agreement: Agreement) -> Result<Self, SealedError> {
        Ok(Self { agreement: agreement.checked()?, blocks: FxHashMap::default() })
    }

    fn values(&self, block: BlockId) -> Result<Vec<f64>, SealedError> {
        let levels = self.blocks.get(&block).ok_or(SealedError::Unknown(block))?;
        Ok(levels.iter().map(|&level| self.agreement.grid.value(level)).collect())
    }
}

impl Guest for PlainGuest {
    fn opening(&self) -> Vec<u8> {
        Vec::new()
    }

    fn upload(&mut self, block: BlockId, levels: &[i32]) -> Result<Vec<u8>, SealedError> {
        if levels.len() != self.agreement.width {
            return Err(misuse("values of a block", levels.len(), self.agreement.width));
        }
        self.agreement.grid.check(levels)?;
        self.blocks.insert(block, levels.to_vec());
        let mut writer = Writer::new(Kind::PlainUpload, 8);
        writer.u64(block.0);
        Ok(writer.finish())
    }

    fn take(&mut self, grant: &[u8]) -> Result<Vec<f64>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let (rows, blocks, numbers) =
            read(Kind::PlainGrant, "grant", grant, most_rows).map_err(peer("grant"))?;
        let products = rows * blocks.len();
        if products > most_rows || numbers.len() != products * (width + 1) {
            let expected = products.saturating_mul(width + 1);
            return Err(peer("grant")(out_of_range("numbers", numbers.len(), expected)));
        }
        let mut results = Vec::with_capacity(products);
        let (coefficients, offsets) = numbers.split_at(products * width);
        for (i, (row, offset)) in coefficients.chunks_exact(width).zip(offsets).enumerate() {
            results.push(dot(row, &self.values(blocks[i / rows])?) + offset);
        }
        Ok(results)
    }
}

impl Answerer for PlainGuest {
    fn answer(&mut self, question: &[u8]) -> Result<Vec<u8>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let (rows, blocks, numbers) =
            read(Kind::PlainQuestion, "question", question, most_rows).map_err(peer("question"))?;
        let columns = blocks.len().saturating_mul(width);
        if numbers.len() != rows.saturating_mul(columns) {
            let expected = rows.saturating_mul(columns);
            return Err(peer("question")(out_of_range("numbers", numbers.len(), expected)));
        }
        let mut values = Vec::with_capacity(columns);
        for block in blocks {
            values.extend(self.values(block)?);
        }
        let mut writer = Writer::new(Kind::PlainAnswer, 4 + 8 * rows);
        writer.u32(rows as u32);
        for row in numbers.chunks_exact(columns) {
            writer.f64(dot(row, &values));
        }
        Ok(writer.finish())
    }
}

/// A host that sends its matrix as it is.
#[derive(Debug)]
pub struct PlainHost {
    agreement: Agreement,
    blocks: FxHashMap<BlockId, ()>,
    asked: Option<usize>,
}

impl PlainHost {
    /// A host.
    pub fn new(agreement: Agreement) -> Result<Self, SealedError> {
        Ok(Self { agreement: agreement.checked()?, blocks: FxHashMap::default(), asked: None })
    }

    fn check(&self, blocks: &[BlockId]) -> Result<(), SealedError> {
        match blocks.iter().find(|block| !self.blocks.contains_key(block)) {
            Some(&block) => Err(SealedError::Unknown(block)),
            None => Ok(()),
        }
    }
}

impl Host for PlainHost {
    fn answered_by(&self) -> AnsweredBy {
        AnsweredBy::Guest
    }

    fn store(&mut self, upload: &[u8]) -> Result<BlockId, SealedError> {
        let read = || {
            let mut reader = Reader::new("upload", Kind::PlainUpload, upload)?;
            let block = BlockId(reader.u64()?);
            reader.finish()?;
            Ok(block)
        };
        let block = read().map_err(peer("upload"))?;
        if self.blocks.len() >= self.agreement.most_blocks && !self.blocks.contains_key(&block) {
            return Err(SealedError::Full { block, most: self.agreement.most_blocks });
        }
        self.blocks.insert(block, ());
        Ok(block)
    }

    fn forget(&mut self, block: BlockId) -> bool {
        self.blocks.remove(&block).is_some()
    }

    fn ask(&mut self, matrix: &Matrix<'_>) -> Result<Vec<u8>, SealedError> {
        matrix.columns(&self.agreement)?;
        self.check(matrix.blocks)?;
        self.asked = Some(matrix.rows);
        Ok(write(Kind::PlainQuestion, matrix.rows, matrix.blocks, &[matrix.values]))
    }

    fn open(&mut self, answer: &[u8]) -> Result<Vec<f64>, SealedError> {
        let expected = self.asked.ok_or(SealedError::NoExchange)?;
        let read = || {
            let mut reader = Reader::new("answer", Kind::PlainAnswer, answer)?;
            let rows = reader.count("rows of the answer", self.agreement.most_rows)?;
            if rows != expected {
                return Err(out_of_range("rows of the answer", rows, expected));
            }
            let products = floats(reader.bytes(8 * rows)?);
            reader.finish()?;
            Ok(products)
        };
        let products = read().map_err(peer("answer"))?;
        self.asked = None;
        Ok(products)
    }

    fn grant(&mut self, products: &BlockProducts<'_>) -> Result<Vec<u8>, SealedError> {
        products.products(&self.agreement)?;
        self.check(products.blocks)?;
        let numbers = [products.coefficients, products.offsets];
        Ok(write(Kind::PlainGrant, products.rows, products.blocks, &numbers))
    }
}

fn write(kind: Kind, rows: usize, blocks: &[BlockId], numbers: &[&[f64]]) -> Vec<u8> {
    let count: usize = numbers.iter().map(|numbers| numbers.len()).sum();
    let mut writer = Writer::new(kind, 8 + 8 * (blocks.len() + count));
    writer.u32(rows as u32);
    writer.u32(blocks.len() as u32);
    for block in blocks {
        writer.u64(block.0);
    }
    for number in numbers.iter().copied().flatten() {
        writer.f64(*number);
    }
    writer.finish()
}

/// Rows, blocks, and all numbers that follow.
fn read(
    kind: Kind,
    what: &'static str,
    bytes: &[u8],
    most_rows: usize,
) -> Result<(usize, Vec<BlockId>, Vec<f64>), DecodeError> {
    let mut reader = Reader::new(what, kind, bytes)?;
    let rows = reader.count("rows", most_rows)?;
    let blocks = reader.count("blocks", bytes.len() / 8)?;
    let ids = reader.bytes(8 * blocks)?.as_chunks::<8>().0;
    let ids = ids.iter().map(|&bytes| BlockId(u64::from_le_bytes(bytes))).collect();
    let rest = reader.remaining();
    let numbers = floats(reader.bytes(rest / 8 * 8)?);
    reader.finish()?;
    match numbers.iter().find(|number| !number.is_finite()) {
        Some(found) => Err(out_of_range("number", found, "a finite one")),
        None => Ok((rows, ids, numbers)),
    }
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks::<8>().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect()
}

fn dot(row: &[f64], values: &[f64]) -> f64 {
    row.iter().zip(values).map(|(a, u)| a * u).sum()
}
