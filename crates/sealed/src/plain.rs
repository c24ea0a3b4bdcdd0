//! The same products in the clear: for tests, and to see what the others must give.
//!
//! Hides nothing of the matrix: the guest sees all of it, and computes the products. The values stay with the
//! guest, an upload only names them; but the host gets the products to the last bit.

use rustc_hash::FxHashMap;

use crate::lending::{self, Lent, Loan, Scale, check_scale};
use crate::product::{
    Agreement, AnsweredBy, Answerer, BlockId, BlockProducts, Guest, Host, Matrix, SealedError,
    Terms, misuse, peer, rows_of,
};
use crate::random::Randomness;
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
        let mut writer = Writer::new(Kind::PlainUpload, 8 + Terms::LEN);
        writer.u64(block.0);
        self.agreement.terms().write(&mut writer);
        Ok(writer.finish())
    }

    fn take(&mut self, grant: &[u8]) -> Result<Vec<f64>, SealedError> {
        Ok(self.block_products(Kind::PlainGrant, "grant", grant)?.1)
    }

    /// In the clear, whoever it is for.
    fn relay(&mut self, loan: &[u8], _opening: &[u8]) -> Result<Vec<u8>, SealedError> {
        let (exchange, products) = self.block_products(Kind::PlainLoan, "loan", loan)?;
        Ok(write_products(Kind::PlainRelay, exchange, &products))
    }

    fn loan_rows(&self, loan: &[u8]) -> Result<usize, SealedError> {
        let most = self.agreement.most_rows;
        let Numbers { rows, blocks, .. } =
            read(Kind::PlainLoan, "loan", loan, most).map_err(peer("loan"))?;
        Ok(rows.saturating_mul(blocks.len()))
    }
}

impl PlainGuest {
    /// The exchange of a grant or loan, and its products.
    fn block_products(
        &self,
        kind: Kind,
        what: &'static str,
        bytes: &[u8],
    ) -> Result<(u64, Vec<f64>), SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let Numbers { exchange, rows, blocks, numbers } =
            read(kind, what, bytes, most_rows).map_err(peer(what))?;
        let products = rows.saturating_mul(blocks.len());
        if products > most_rows || numbers.len() != products * (width + 1) {
            let expected = products.saturating_mul(width + 1);
            return Err(peer(what)(out_of_range("numbers", numbers.len(), expected)));
        }
        let mut results = Vec::with_capacity(products);
        let (coefficients, offsets) = numbers.split_at(products * width);
        for (i, (row, offset)) in coefficients.chunks_exact(width).zip(offsets).enumerate() {
            results.push(dot(row, &self.values(blocks[i / rows])?) + offset);
        }
        Ok((exchange, results))
    }
}

impl Answerer for PlainGuest {
    fn answer(&mut self, question: &[u8]) -> Result<Vec<u8>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let Numbers { exchange, rows, blocks, numbers } =
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
        let products: Vec<f64> =
            numbers.chunks_exact(columns).map(|row| dot(row, &values)).collect();
        Ok(write_products(Kind::PlainAnswer, exchange, &products))
    }

    fn rows(&self, question: &[u8]) -> Result<usize, SealedError> {
        rows_of(Kind::PlainQuestion, question, self.agreement.most_rows)
    }
}

/// A host that sends its matrix as it is.
#[derive(Debug)]
pub struct PlainHost {
    agreement: Agreement,
    blocks: FxHashMap<BlockId, ()>,
    random: Randomness,
    pending: Option<Pending>,
}

/// What the host keeps between its question and the answer.
#[derive(Debug)]
struct Pending {
    exchange: u64,
    rows: usize,
}

impl PlainHost {
    /// A host.
    pub fn new(agreement: Agreement) -> Result<Self, SealedError> {
        Self::with_randomness(agreement, Randomness::from_os()?)
    }

    /// A host whose every byte can be repeated.
    pub fn with_randomness(agreement: Agreement, random: Randomness) -> Result<Self, SealedError> {
        let agreement = agreement.checked()?;
        Ok(Self { agreement, blocks: FxHashMap::default(), random, pending: None })
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
            let terms = Terms::read(&mut reader)?;
            reader.finish()?;
            terms.check(&self.agreement)?;
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
        let exchange = self.random.bits();
        self.pending = Some(Pending { exchange, rows: matrix.rows });
        Ok(write(Kind::PlainQuestion, exchange, matrix.rows, matrix.blocks, &[matrix.values]))
    }

    fn open(&mut self, answer: &[u8]) -> Result<Vec<f64>, SealedError> {
        let pending = self.pending.as_ref().ok_or(SealedError::NoExchange)?;
        let what = ["answer", "exchange of the answer", "rows of the answer"];
        let expected = (pending.exchange, pending.rows);
        let products = read_products(Kind::PlainAnswer, what, answer, expected)?;
        self.pending = None;
        Ok(products)
    }

    fn grant(&mut self, products: &BlockProducts<'_>) -> Result<Vec<u8>, SealedError> {
        products.products(&self.agreement)?;
        self.check(products.blocks)?;
        let numbers = [products.coefficients, products.offsets];
        let exchange = self.random.bits();
        Ok(write(Kind::PlainGrant, exchange, products.rows, products.blocks, &numbers))
    }

    fn lend(
        &mut self,
        products: &BlockProducts<'_>,
        scale: Scale,
    ) -> Result<(Vec<u8>, Loan), SealedError> {
        let rows = products.products(&self.agreement)?;
        check_scale(&self.agreement, products, scale)?;
        self.check(products.blocks)?;
        let numbers = [products.coefficients, products.offsets];
        let exchange = self.random.bits();
        let loan = write(Kind::PlainLoan, exchange, products.rows, products.blocks, &numbers);
        Ok((loan, Loan { exchange, rows, corrections: Vec::new() }))
    }

    fn accept(&self, loan: &Loan, relay: &[u8]) -> Result<Lent, SealedError> {
        let what = ["relay", "exchange of the relay", "rows of the relay"];
        let expected = (loan.exchange, loan.rows);
        let products = read_products(Kind::PlainRelay, what, relay, expected)?;
        Ok(Lent(lending::Numbers::Plain(products)))
    }

    fn grant_with(
        &mut self,
        products: &BlockProducts<'_>,
        scale: Scale,
        lent: &[Lent],
    ) -> Result<Vec<u8>, SealedError> {
        check_scale(&self.agreement, products, scale)?;
        let mut offsets = products.offsets.to_vec();
        for part in lent {
            let lending::Numbers::Plain(numbers) = &part.0 else {
                return Err(misuse("what was lent", "encrypted numbers", "some in the clear"));
            };
            if numbers.len() != offsets.len() {
                return Err(misuse("products that were lent", numbers.len(), offsets.len()));
            }
            offsets.iter_mut().zip(numbers).for_each(|(offset, number)| *offset += number);
        }
        self.grant(&BlockProducts { offsets: &offsets, ..*products })
    }
}

/// What questions and grants have in common.
struct Numbers {
    exchange: u64,
    rows: usize,
    blocks: Vec<BlockId>,
    /// All that follow.
    numbers: Vec<f64>,
}

fn write(
    kind: Kind,
    exchange: u64,
    rows: usize,
    blocks: &[BlockId],
    numbers: &[&[f64]],
) -> Vec<u8> {
    let count: usize = numbers.iter().map(|numbers| numbers.len()).sum();
    let mut writer = Writer::new(kind, 16 + 8 * (blocks.len() + count));
    writer.u64(exchange);
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

fn read(
    kind: Kind,
    what: &'static str,
    bytes: &[u8],
    most_rows: usize,
) -> Result<Numbers, DecodeError> {
    let mut reader = Reader::new(what, kind, bytes)?;
    let exchange = reader.u64()?;
    let rows = reader.count("rows", most_rows)?;
    let count = reader.count("blocks", bytes.len() / 8)?;
    let blocks = reader.bytes(8 * count)?.as_chunks::<8>().0;
    let blocks = blocks.iter().map(|&bytes| BlockId(u64::from_le_bytes(bytes))).collect();
    let rest = reader.remaining();
    let numbers = floats(reader.bytes(rest / 8 * 8)?)?;
    reader.finish()?;
    Ok(Numbers { exchange, rows, blocks, numbers })
}

/// What answers and relays are.
fn write_products(kind: Kind, exchange: u64, products: &[f64]) -> Vec<u8> {
    let mut writer = Writer::new(kind, 12 + 8 * products.len());
    writer.u64(exchange);
    writer.u32(products.len() as u32);
    products.iter().for_each(|product| writer.f64(*product));
    writer.finish()
}

/// Reads them, with the exchange and as many as expected.
fn read_products(
    kind: Kind,
    [what, exchange_of, rows_of]: [&'static str; 3],
    bytes: &[u8],
    (exchange, rows): (u64, usize),
) -> Result<Vec<f64>, SealedError> {
    let read = || {
        let mut reader = Reader::new(what, kind, bytes)?;
        let found = reader.u64()?;
        if found != exchange {
            return Err(out_of_range(exchange_of, found, exchange));
        }
        let found = reader.u32()?;
        if usize::try_from(found).ok() != Some(rows) {
            return Err(out_of_range(rows_of, found, rows));
        }
        let products = floats(reader.bytes(8 * rows)?)?;
        reader.finish()?;
        Ok(products)
    };
    read().map_err(peer(what))
}

/// Finite numbers.
fn floats(bytes: &[u8]) -> Result<Vec<f64>, DecodeError> {
    let numbers = bytes.as_chunks::<8>().0.iter().map(|&bytes| f64::from_le_bytes(bytes));
    let finite = numbers.map(|number| match number.is_finite() {
        true => Ok(number),
        false => Err(out_of_range("number", number, "a finite one")),
    });
    finite.collect()
}

fn dot(row: &[f64], values: &[f64]) -> f64 {
    row.iter().zip(values).map(|(a, u)| a * u).sum()
}
