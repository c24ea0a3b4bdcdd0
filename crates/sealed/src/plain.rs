//! The same products in the clear: for tests, and to see what the others must give.
//!
//! Hides nothing of the matrix: the guest sees all of it, and computes the products. The values stay with the
//! guest, an upload only names them; but the host gets the products to the last bit.

use rustc_hash::FxHashMap;

use crate::masked_gradient::{
    self, MagnitudeBound, MaskedShare, PendingProducts, ProductSecrets, Scale,
};
use crate::product::{
    Agreement, AnsweredBy, Answerer, BlockId, Coefficients, CoefficientsSize, Expected, Guest,
    Host, Matrix, SealedError, Terms, misuse, peer, rows_of, size_of_coefficients,
};
use crate::random::Randomness;
use crate::wire::{DecodeError, MessageKind, Reader, Writer, out_of_range};

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

/// Its head, and each coefficient.
fn request_bytes(products: usize, terms: usize) -> usize {
    20usize.saturating_add(products.saturating_mul(terms).saturating_mul(8))
}

impl Guest for PlainGuest {
    fn public_key(&self) -> Vec<u8> {
        Vec::new()
    }

    fn upload(&mut self, block: BlockId, levels: &[i32]) -> Result<Vec<u8>, SealedError> {
        self.agreement.check_levels(levels)?;
        self.blocks.insert(block, levels.to_vec());
        let mut writer = Writer::new(MessageKind::PlainUpload, 8 + Terms::LEN);
        writer.u64(block.0);
        self.agreement.terms().write(&mut writer);
        Ok(writer.finish())
    }

    /// In the clear, whoever it is for.
    fn multiply_masked(
        &mut self,
        request: &[u8],
        levels: &[i32],
        _recipient: Option<&[u8]>,
    ) -> Result<Vec<u8>, SealedError> {
        let CoefficientsSize { products, terms } = self.coefficients_size(request)?;
        if levels.len() != products * terms {
            return Err(misuse("values of encrypted coefficients", levels.len(), products * terms));
        }
        let grid = self.agreement.grid;
        grid.check(levels)?;
        let read = || {
            let mut reader = Reader::new("coefficients", MessageKind::PlainCoefficients, request)?;
            let exchange = reader.u64()?;
            // The size, which is known.
            reader.u64()?;
            let coefficients = floats(reader.bytes(8 * products * terms)?)?;
            reader.finish()?;
            Ok((exchange, coefficients))
        };
        let (exchange, coefficients) = read().map_err(peer("coefficients"))?;
        let rows = coefficients.chunks_exact(terms).zip(levels.chunks_exact(terms));
        let value = |(row, levels): (&[f64], &[i32])| {
            let values: Vec<f64> = levels.iter().map(|&level| grid.value(level)).collect();
            dot(row, &values)
        };
        let products: Vec<f64> = rows.map(value).collect();
        Ok(write_products(MessageKind::PlainMaskedProducts, exchange, &products))
    }

    fn coefficients_size(&self, request: &[u8]) -> Result<CoefficientsSize, SealedError> {
        size_of_coefficients(
            MessageKind::PlainCoefficients,
            request,
            self.agreement.most_rows,
            request_bytes,
        )
    }

    fn unmask(&mut self, gradient: &[u8]) -> Result<Vec<f64>, SealedError> {
        let read = || {
            let mut reader =
                Reader::new("masked gradient", MessageKind::PlainMaskedGradient, gradient)?;
            reader.u64()?;
            let products =
                reader.count("products of the masked gradient", self.agreement.most_rows)?;
            let products = floats(reader.bytes(8 * products)?)?;
            reader.finish()?;
            Ok(products)
        };
        read().map_err(peer("masked gradient"))
    }
}

impl Answerer for PlainGuest {
    fn answer(&mut self, question: &[u8]) -> Result<Vec<u8>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let Question { exchange, rows, blocks, numbers } =
            read_question(question, most_rows).map_err(peer("question"))?;
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
        Ok(write_products(MessageKind::PlainAnswer, exchange, &products))
    }

    fn rows(&self, question: &[u8]) -> Result<usize, SealedError> {
        rows_of(MessageKind::PlainQuestion, question, self.agreement.most_rows)
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
    pub(crate) fn with_randomness(
        agreement: Agreement,
        random: Randomness,
    ) -> Result<Self, SealedError> {
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
            let mut reader = Reader::new("upload", MessageKind::PlainUpload, upload)?;
            let block = BlockId(reader.u64()?);
            let terms = Terms::read(&mut reader)?;
            reader.finish()?;
            terms.check(&self.agreement)?;
            Ok(block)
        };
        let block = read().map_err(peer("upload"))?;
        self.agreement.check_room(&self.blocks, block)?;
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
        let length = 16 + 8 * (matrix.blocks.len() + matrix.values.len());
        let mut writer = Writer::new(MessageKind::PlainQuestion, length);
        writer.u64(exchange);
        writer.u32(matrix.rows as u32);
        writer.u32(matrix.blocks.len() as u32);
        matrix.blocks.iter().for_each(|block| writer.u64(block.0));
        matrix.values.iter().for_each(|entry| writer.f64(*entry));
        Ok(writer.finish())
    }

    fn open(&mut self, answer: &[u8]) -> Result<Vec<f64>, SealedError> {
        let pending = self.pending.as_ref().ok_or(SealedError::NoExchange)?;
        let expected = Expected::answer(pending.exchange, pending.rows);
        let products = read_products(MessageKind::PlainAnswer, answer, &expected)?;
        self.pending = None;
        Ok(products)
    }

    fn encrypt_coefficients(
        &mut self,
        part: &Coefficients<'_>,
        scale: Scale,
        own: bool,
    ) -> Result<(Vec<u8>, PendingProducts), SealedError> {
        let products = part.products(&self.agreement)?;
        MagnitudeBound::of(&self.agreement, part)?.check(scale)?;
        let exchange = self.random.bits();
        let mut writer = Writer::new(MessageKind::PlainCoefficients, 16 + 8 * part.values.len());
        writer.u64(exchange);
        writer.u32(products as u32);
        writer.u32(part.terms as u32);
        part.values.iter().for_each(|coefficient| writer.f64(*coefficient));
        Ok((
            writer.finish(),
            PendingProducts { exchange, products, own, kept: ProductSecrets::Plain },
        ))
    }

    fn accept_masked(
        &self,
        request: &PendingProducts,
        reply: &[u8],
    ) -> Result<MaskedShare, SealedError> {
        let expected = Expected::masked_products(request);
        let products = read_products(MessageKind::PlainMaskedProducts, reply, &expected)?;
        let numbers = masked_gradient::Numbers::Plain(products);
        Ok(MaskedShare { exchange: request.exchange, own: request.own, numbers })
    }

    fn mask_gradient(
        &mut self,
        offsets: &[f64],
        scale: Scale,
        shares: &[MaskedShare],
    ) -> Result<Vec<u8>, SealedError> {
        MagnitudeBound::of_offsets(offsets)?.check(scale)?;
        let mut sums = offsets.to_vec();
        for part in shares {
            let masked_gradient::Numbers::Plain(numbers) = &part.numbers else {
                return Err(misuse(
                    "shares of a masked gradient",
                    "masked numbers",
                    "some in the clear",
                ));
            };
            if numbers.len() != sums.len() {
                return Err(misuse("products of a share", numbers.len(), sums.len()));
            }
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
        Ok(write_products(MessageKind::PlainMaskedGradient, self.random.bits(), &sums))
    }
}

/// A question.
struct Question {
    exchange: u64,
    rows: usize,
    blocks: Vec<BlockId>,
    /// All that follow.
    numbers: Vec<f64>,
}

fn read_question(bytes: &[u8], most_rows: usize) -> Result<Question, DecodeError> {
    let mut reader = Reader::new("question", MessageKind::PlainQuestion, bytes)?;
    let exchange = reader.u64()?;
    let rows = reader.count("rows", most_rows)?;
    let count = reader.count("blocks", bytes.len() / 8)?;
    let blocks = reader.bytes(8 * count)?.as_chunks::<8>().0;
    let blocks = blocks.iter().map(|&bytes| BlockId(u64::from_le_bytes(bytes))).collect();
    let rest = reader.remaining();
    let numbers = floats(reader.bytes(rest / 8 * 8)?)?;
    reader.finish()?;
    Ok(Question { exchange, rows, blocks, numbers })
}

/// The layout of answers, replies and masked gradients.
fn write_products(kind: MessageKind, exchange: u64, products: &[f64]) -> Vec<u8> {
    let mut writer = Writer::new(kind, 12 + 8 * products.len());
    writer.u64(exchange);
    writer.u32(products.len() as u32);
    products.iter().for_each(|product| writer.f64(*product));
    writer.finish()
}

/// Reads them, with the exchange and as many as expected.
fn read_products(
    kind: MessageKind,
    bytes: &[u8],
    expected: &Expected,
) -> Result<Vec<f64>, SealedError> {
    let read = || {
        let mut reader = Reader::new(expected.what[0], kind, bytes)?;
        expected.check(reader.u64()?, reader.u32()? as usize)?;
        let products = floats(reader.bytes(8 * expected.products)?)?;
        reader.finish()?;
        Ok(products)
    };
    read().map_err(peer(expected.what[0]))
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
