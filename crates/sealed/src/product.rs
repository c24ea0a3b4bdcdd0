//! What the federation uses: secure products of a host's matrix with a guest's vectors.
//!
//! ```text
//!  guest (vectors u_b, one per block)                     host (matrix A, new each exchange)
//!    │ opening: its public key ───────────────────────►   once
//!    │ upload(b): u_b, encrypted ─────────────────────►   once per block, kept
//!    │
//!    │ ◄────────────────────────── ask: A·u, masked ───   blocks and rows of the host's choice
//!    │ answer: masked numbers ────────────────────────►   open: A·u, and nothing else
//! ```
//!
//! Its mirror, products for a guest alone, is in [`masked_gradient`](crate::masked_gradient).
//!
//! A *block* is what a guest encrypts at a time: `width` values on the agreed grid, for instance the
//! measurements of one step. A question is about any of the uploaded blocks, in any order.
//!
//! Messages are bytes, bounded and versioned ([`wire`](crate::wire)); who carries them is not this crate's
//! business. In [`ipfe`](crate::ipfe) a key authority answers questions, not the guest: [`Host::answered_by`].

use std::fmt;

use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::fixed_point::{FixedPointError, Grid};
use crate::masked_gradient::{MaskedShare, PendingProducts, Scale};
use crate::random::RandomnessError;
use crate::rlwe::message::masked::MOST_TERMS;
use crate::wire::{DecodeError, MessageKind, Reader, Writer, out_of_range};

/// The name of a block, chosen by the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u64);

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

/// What host and guest have agreed on; public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Values per block.
    pub width: usize,
    /// Where the guest's values lie.
    pub grid: Grid,
    /// The most products that one question, request or gradient may have.
    pub most_rows: usize,
    /// The most blocks that a host keeps.
    pub most_blocks: usize,
}

/// The widest block.
pub const MOST_WIDTH: usize = 8192;
/// The most products per exchange that any agreement may allow.
pub const MOST_ROWS: usize = 1 << 20;
/// The most values of a guest in one product; what rounding the weights must leave room for.
pub(crate) const MOST_COLUMNS: usize = 1 << 21;

impl Agreement {
    /// Checks the sizes.
    pub fn checked(self) -> Result<Self, SealedError> {
        self.checked_to(MOST_WIDTH)
    }

    /// The same for blocks of another largest width.
    pub(crate) fn checked_to(self, most_width: usize) -> Result<Self, SealedError> {
        for (what, found, most) in [
            ("width", self.width, most_width),
            ("most_rows", self.most_rows, MOST_ROWS),
            ("most_blocks", self.most_blocks, usize::MAX),
        ] {
            if !(1..=most).contains(&found) {
                return Err(misuse(what, found, format!("1 to {most}")));
            }
        }
        Ok(self)
    }

    /// Checks the levels of a block.
    pub(crate) fn check_levels(&self, levels: &[i32]) -> Result<(), SealedError> {
        if levels.len() != self.width {
            return Err(misuse("values of a block", levels.len(), self.width));
        }
        Ok(self.grid.check(levels)?)
    }

    /// Refuses a block for which a host with these blocks has no room.
    pub(crate) fn check_room<T>(
        &self,
        blocks: &FxHashMap<BlockId, T>,
        block: BlockId,
    ) -> Result<(), SealedError> {
        if blocks.len() >= self.most_blocks && !blocks.contains_key(&block) {
            return Err(SealedError::Full { block, most: self.most_blocks });
        }
        Ok(())
    }

    /// What the other party must have agreed on, too.
    pub(crate) fn terms(&self) -> Terms {
        let Self { width, grid, .. } = self;
        let (centre, step) = (grid.centre().to_bits(), grid.step().to_bits());
        Terms { width: *width as u32, centre, step, levels: grid.levels() as u32 }
    }
}

/// The part of an agreement without which a guest's numbers mean something else: width and grid. It travels
/// with public keys and uploads (24 bytes), so that parties with different ideas of it notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    width: u32,
    /// The bits of numbers: equal means the same in every bit.
    centre: u64,
    step: u64,
    levels: u32,
}

impl Terms {
    /// Bytes on the wire.
    pub(crate) const LEN: usize = 24;

    pub(crate) fn width(&self) -> usize {
        self.width as usize
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.width);
        writer.u64(self.centre);
        writer.u64(self.step);
        writer.u32(self.levels);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read_to(reader, MOST_WIDTH)
    }

    /// The same for blocks of another largest width.
    pub(crate) fn read_to(reader: &mut Reader<'_>, most_width: usize) -> Result<Self, DecodeError> {
        let width = reader.count("values of a block", most_width)? as u32;
        let (centre, step, levels) = (reader.u64()?, reader.u64()?, reader.u32()?);
        Ok(Self { width, centre, step, levels })
    }

    /// An agreement with these terms.
    pub(crate) fn agreement(&self, most_rows: usize) -> Result<Agreement, FixedPointError> {
        let [centre, step] = [self.centre, self.step].map(f64::from_bits);
        let levels = i32::try_from(self.levels).unwrap_or(i32::MAX);
        let grid = Grid::of_parts(centre, step, levels)?;
        Ok(Agreement { width: self.width(), grid, most_rows, most_blocks: 1 })
    }

    /// Are these the terms of this agreement?
    pub(crate) fn check(&self, agreement: &Agreement) -> Result<(), DecodeError> {
        let expected = agreement.terms();
        if self.width != expected.width {
            return Err(out_of_range("values of a block", self.width, expected.width));
        }
        if *self != expected {
            let [found, expected] = [*self, expected].map(|terms| {
                let [centre, step] = [terms.centre, terms.step].map(f64::from_bits);
                format!("{:?}", (centre, step, terms.levels))
            });
            return Err(out_of_range("grid (centre, step, levels)", found, expected));
        }
        Ok(())
    }
}

/// A host's matrix: `rows` × (blocks · width), row after row.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// Number of rows.
    pub rows: usize,
    /// The blocks whose values the columns belong to, `width` columns each.
    pub blocks: &'a [BlockId],
    /// The entries.
    pub values: &'a [f64],
}

impl Matrix<'_> {
    /// Columns of the matrix; checks all sizes.
    pub(crate) fn columns(&self, agreement: &Agreement) -> Result<usize, SealedError> {
        let columns = self.blocks.len().saturating_mul(agreement.width);
        if !(1..=agreement.most_rows).contains(&self.rows) {
            return Err(misuse("rows", self.rows, format!("1 to {}", agreement.most_rows)));
        }
        if !(1..=MOST_COLUMNS).contains(&columns) {
            return Err(misuse("columns", columns, format!("1 to {MOST_COLUMNS}")));
        }
        if self.values.len() != self.rows * columns {
            let expected = format!("{} rows of {columns}", self.rows);
            return Err(misuse("matrix entries", self.values.len(), expected));
        }
        Ok(columns)
    }
}

crate::debug_sizes!(Matrix<'_>, |it| "Matrix({} rows, {} blocks, …)", it.rows, it.blocks.len());

/// Coefficients of products for one guest alone: each is a sum over some of a owner's values, which the owner
/// chooses as it was told by other means.
#[derive(Clone, Copy)]
pub struct Coefficients<'a> {
    /// Values that each product is of.
    pub terms: usize,
    /// D: `[product, term]`.
    pub values: &'a [f64],
}

impl Coefficients<'_> {
    /// The number of products; checks all sizes.
    pub(crate) fn products(&self, agreement: &Agreement) -> Result<usize, SealedError> {
        if !(1..=MOST_TERMS).contains(&self.terms) {
            return Err(misuse("values of a product", self.terms, format!("1 to {MOST_TERMS}")));
        }
        let products = self.values.len() / self.terms;
        if products * self.terms != self.values.len() {
            let expected = format!("as many for each product, {}", self.terms);
            return Err(misuse("coefficients", self.values.len(), expected));
        }
        if !(1..=agreement.most_rows).contains(&products) {
            return Err(misuse("products", products, format!("1 to {}", agreement.most_rows)));
        }
        Ok(products)
    }
}

crate::debug_sizes!(Coefficients<'_>, |it| "Coefficients({} terms each, …)", it.terms);

/// Who answers a host's questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The guest, with masked numbers.
    Guest,
    /// A key authority, which sees the host's matrix.
    Authority,
}

const NO_MIRROR: &str =
    "functional encryption has no products for the guest alone: it would have to see the rows";

/// The host's side, for one guest. A scheme without masked gradients leaves out what has a default.
pub trait Host {
    /// Who answers [`Host::ask`].
    fn answered_by(&self) -> AnsweredBy;
    /// Takes in an upload.
    fn store(&mut self, upload: &[u8]) -> Result<BlockId, SealedError>;
    /// Forgets a block; whether there was one.
    fn forget(&mut self, block: BlockId) -> bool;
    /// Begins an exchange; one that was under way is given up.
    fn ask(&mut self, matrix: &Matrix<'_>) -> Result<Vec<u8>, SealedError>;
    /// Ends an exchange: A·u, row by row. An answer that is refused may be followed by a right one.
    fn open(&mut self, answer: &[u8]) -> Result<Vec<f64>, SealedError>;
    /// Asks this guest for products that one guest is to get, in units of the scale of that gradient; `own`: this one
    /// itself.
    fn encrypt_coefficients(
        &mut self,
        _part: &Coefficients<'_>,
        _scale: Scale,
        _own: bool,
    ) -> Result<(Vec<u8>, PendingProducts), SealedError> {
        Err(SealedError::Unsupported(NO_MIRROR))
    }
    /// Takes in what this guest has made of encrypted coefficients.
    fn accept_masked(
        &self,
        _request: &PendingProducts,
        _reply: &[u8],
    ) -> Result<MaskedShare, SealedError> {
        Err(SealedError::Unsupported(NO_MIRROR))
    }
    /// Products for this guest alone: what all have shares, and offsets, in units of the scale.
    fn mask_gradient(
        &mut self,
        _offsets: &[f64],
        _scale: Scale,
        _shares: &[MaskedShare],
    ) -> Result<Vec<u8>, SealedError> {
        Err(SealedError::Unsupported(NO_MIRROR))
    }
}

/// Whoever answers a host's questions.
pub trait Answerer {
    /// The answer to a question; the same for the same question.
    fn answer(&mut self, question: &[u8]) -> Result<Vec<u8>, SealedError>;
    /// How many products a question asks for, before anything is computed.
    fn rows(&self, question: &[u8]) -> Result<usize, SealedError>;
}

/// What every question begins with: the number of the exchange, and of rows.
pub(crate) fn rows_of(
    kind: MessageKind,
    question: &[u8],
    most: usize,
) -> Result<usize, SealedError> {
    let read = || {
        let mut reader = Reader::new("question", kind, question)?;
        reader.u64()?;
        reader.count("rows of the question", most)
    };
    read().map_err(peer("question"))
}

/// How large a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoefficientsSize {
    /// Products.
    pub products: usize,
    /// Values that each of them is of.
    pub terms: usize,
}

/// What every request begins with: the number of the exchange, and its size. It has as many bytes as that takes, so
/// that nobody makes room for more.
pub(crate) fn size_of_coefficients(
    kind: MessageKind,
    request: &[u8],
    most: usize,
    bytes: fn(usize, usize) -> usize,
) -> Result<CoefficientsSize, SealedError> {
    let read = || {
        let mut reader = Reader::new("coefficients", kind, request)?;
        reader.u64()?;
        let products = reader.count("products of the coefficients", most)?;
        let terms = reader.count("values of a product", MOST_TERMS)?;
        let (found, expected) = (request.len(), bytes(products, terms));
        if found != expected {
            return Err(out_of_range("bytes of the coefficients", found, expected));
        }
        Ok(CoefficientsSize { products, terms })
    };
    read().map_err(peer("coefficients"))
}

/// The guest's side. A scheme without masked gradients leaves out what has a default.
pub trait Guest {
    /// What the host needs of this guest before all else.
    fn public_key(&self) -> Vec<u8>;
    /// Encrypts a block of levels of the agreed grid.
    fn upload(&mut self, block: BlockId, levels: &[i32]) -> Result<Vec<u8>, SealedError>;
    /// The products of encrypted coefficients with these levels of the agreed grid, `[product, term]`, masked; for the guest with this
    /// opening, or for this one itself.
    fn multiply_masked(
        &mut self,
        _request: &[u8],
        _levels: &[i32],
        _recipient: Option<&[u8]>,
    ) -> Result<Vec<u8>, SealedError> {
        Err(SealedError::Unsupported(NO_MIRROR))
    }
    /// How large a request is, before anything is computed.
    fn coefficients_size(&self, _request: &[u8]) -> Result<CoefficientsSize, SealedError> {
        Err(SealedError::Unsupported(NO_MIRROR))
    }
    /// The products of a masked gradient.
    fn unmask(&mut self, _gradient: &[u8]) -> Result<Vec<f64>, SealedError> {
        Err(SealedError::Unsupported(NO_MIRROR))
    }
}

/// Why a party does not go on.
#[derive(Debug, Error)]
pub enum SealedError {
    /// The other party's bytes are not what they must be.
    #[error("the peer sent no valid {what}: {reason}")]
    Peer {
        /// The message.
        what: &'static str,
        /// What is wrong with it.
        reason: DecodeError,
    },
    /// This party asks for what cannot be.
    #[error("{what}: found {found}, expected {expected}")]
    Misuse {
        /// The argument.
        what: &'static str,
        /// What was given.
        found: String,
        /// What is possible.
        expected: String,
    },
    /// Numbers that cannot be represented.
    #[error(transparent)]
    FixedPoint(#[from] FixedPointError),
    /// A block that was never uploaded, or forgotten.
    #[error("{0}: not uploaded")]
    Unknown(BlockId),
    /// More blocks than agreed.
    #[error("{block}: the host keeps {most} blocks already, as many as agreed")]
    Full {
        /// The block that had no room.
        block: BlockId,
        /// The agreed limit.
        most: usize,
    },
    /// An authority that has issued as many keys as it may.
    #[error(
        "keys: found {new} new rows beside {issued} rows with keys, expected at most {most} in all: \
         with as many independent rows as values the host reads everything"
    )]
    Exhausted {
        /// Rows that were asked for and have no key yet.
        new: usize,
        /// Rows that have one.
        issued: usize,
        /// The authority's limit.
        most: usize,
    },
    /// An answer without a question.
    #[error("found an answer, expected none: no exchange is under way")]
    NoExchange,
    /// This implementation has no such operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// No randomness.
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
}

pub(crate) fn misuse(
    what: &'static str,
    found: impl ToString,
    expected: impl ToString,
) -> SealedError {
    SealedError::Misuse { what, found: found.to_string(), expected: expected.to_string() }
}

/// A message as the host expects it: of an exchange, with so many products.
pub(crate) struct Expected {
    pub(crate) exchange: u64,
    pub(crate) products: usize,
    /// The message and its two fields, for errors.
    pub(crate) what: [&'static str; 3],
}

impl Expected {
    /// The answer to a question.
    pub(crate) fn answer(exchange: u64, products: usize) -> Self {
        let what = ["answer", "exchange of the answer", "rows of the answer"];
        Self { exchange, products, what }
    }

    /// What a guest makes of encrypted coefficients.
    pub(crate) fn masked_products(request: &PendingProducts) -> Self {
        let &PendingProducts { exchange, products, .. } = request;
        let of = "masked products";
        let what = [of, "exchange of the masked products", "products of the masked products"];
        Self { exchange, products, what }
    }

    /// Refuses another exchange, or another number of products.
    pub(crate) fn check(&self, exchange: u64, products: usize) -> Result<(), DecodeError> {
        if exchange != self.exchange {
            let (what, expected) = (self.what[1], self.exchange);
            return Err(DecodeError::OtherExchange { what, found: exchange, expected });
        }
        if products != self.products {
            return Err(out_of_range(self.what[2], products, self.products));
        }
        Ok(())
    }
}

/// Says which message was wrong.
pub(crate) fn peer(what: &'static str) -> impl Fn(DecodeError) -> SealedError {
    move |reason| SealedError::Peer { what, reason }
}
