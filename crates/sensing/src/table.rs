//! Parquet tables, column by column, in batches of bounded size.
//!
//! The files that fedtse writes and the files that users bring go through here. Decoding a file
//! from elsewhere never brings the program down: what the decoder cannot take, by error or by
//! panic, becomes a [`TableError`], and what a file claims of its own size is checked before memory
//! is given to it.

use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use thiserror::Error;

mod claims;
mod forms;
mod pages;
mod read;
mod read_ahead;
mod thrift;
mod write;

pub use read::TableReader;
pub(crate) use read_ahead::ReadAhead;
pub use write::{Packing, TableWriter};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// 32-bit integers.
    I32,
    /// 64-bit integers.
    I64,
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 64-bit floats, some missing.
    OptionalF64,
    /// Text. Integer columns are read as their decimal form.
    Text,
}

/// A batch of one column's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// See [`ColumnKind::I32`].
    I32(Vec<i32>),
    /// See [`ColumnKind::I64`].
    I64(Vec<i64>),
    /// See [`ColumnKind::F32`].
    F32(Vec<f32>),
    /// See [`ColumnKind::F64`].
    F64(Vec<f64>),
    /// See [`ColumnKind::OptionalF64`].
    OptionalF64(Vec<Option<f64>>),
    /// See [`ColumnKind::Text`].
    Text(Vec<String>),
}

/// Why a table could not be written or read.
#[derive(Debug, Error)]
pub enum TableError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The file is no Parquet file, or damaged.
    #[error("{}: not a readable Parquet file: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The decoder's words.
        problem: String,
    },
    /// The file claims of itself what cannot be, or what would need more memory than it should.
    #[error("{}: {field}: found {found}, expected {expected}", path.display())]
    Claim {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        field: String,
        /// What it claims.
        found: String,
        /// What it may claim.
        expected: String,
    },
    /// A column is not there.
    #[error("{}: column `{column}`: not found, expected one of: {found}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The column that was asked for.
        column: String,
        /// The columns that are there.
        found: String,
    },
    /// A column has another type.
    #[error("{}: column `{column}`: found type {found}, expected {expected}", path.display())]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type.
        found: String,
        /// The type that was asked for.
        expected: &'static str,
    },
    /// A missing value where none may be.
    #[error("{}: row {row}, column `{column}`: found no value, expected one", path.display())]
    Null {
        /// The file.
        path: PathBuf,
        /// Row, from 1.
        row: u64,
        /// The column.
        column: String,
    },
}

impl Column {
    /// An empty column of a kind.
    pub fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::I32 => Self::I32(Vec::new()),
            ColumnKind::I64 => Self::I64(Vec::new()),
            ColumnKind::F32 => Self::F32(Vec::new()),
            ColumnKind::F64 => Self::F64(Vec::new()),
            ColumnKind::OptionalF64 => Self::OptionalF64(Vec::new()),
            ColumnKind::Text => Self::Text(Vec::new()),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> ColumnKind {
        match self {
            Self::I32(_) => ColumnKind::I32,
            Self::I64(_) => ColumnKind::I64,
            Self::F32(_) => ColumnKind::F32,
            Self::F64(_) => ColumnKind::F64,
            Self::OptionalF64(_) => ColumnKind::OptionalF64,
            Self::Text(_) => ColumnKind::Text,
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::OptionalF64(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Takes all values out, and keeps their room.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::I32(values) => values.clear(),
            Self::I64(values) => values.clear(),
            Self::F32(values) => values.clear(),
            Self::F64(values) => values.clear(),
            Self::OptionalF64(values) => values.clear(),
            Self::Text(values) => values.clear(),
        }
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<durable::WriteError> for TableError {
    fn from(error: durable::WriteError) -> Self {
        Self::Io { path: error.path, source: error.source }
    }
}

fn damaged(path: &Path, error: &ParquetError) -> TableError {
    TableError::Damaged { path: path.to_owned(), problem: error.to_string() }
}

#[cfg(test)]
mod tests;
