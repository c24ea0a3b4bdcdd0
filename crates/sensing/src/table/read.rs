//! Reading tables.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::claims::Claims;
use super::pages::CheckedPages;
use super::{Column, ColumnKind, TableError, damaged};

/// Bytes of a text: a dictionary may repeat a long one in every row.
const MAX_TEXT: usize = 1024;

/// Reads chosen columns of a table, batch by batch.
pub struct TableReader {
    path: PathBuf,
    claims: Claims,
    file: SerializedFileReader<File>,
    wanted: Vec<Wanted>,
    next_group: usize,
    readers: Vec<ColumnReader>,
    left_in_group: usize,
    rows_read: u64,
}

struct Wanted {
    name: String,
    index: usize,
    kind: ColumnKind,
    optional: bool,
}

impl TableReader {
    /// Opens a table; columns are chosen with [`TableReader::want`].
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let io = |source| TableError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let claims = Claims::of_footer(path, &file)?;
        let file = guarded(path, || SerializedFileReader::new(file))?;
        claims.rows(file.metadata())?;
        Ok(Self {
            path: path.to_owned(),
            claims,
            file,
            wanted: Vec::new(),
            next_group: 0,
            readers: Vec::new(),
            left_in_group: 0,
            rows_read: 0,
        })
    }

    /// The names of the columns.
    pub fn columns(&self) -> Vec<String> {
        let schema = self.file.metadata().file_metadata().schema_descr();
        schema.columns().iter().map(|column| column.path().string()).collect()
    }

    /// Number of rows, as the file says.
    pub fn rows(&self) -> u64 {
        self.file.metadata().file_metadata().num_rows().max(0) as u64
    }

    /// Rows handed out so far.
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// Asks for a column. Call before the first batch; batches have columns in the order asked.
    pub fn want(&mut self, name: &str, kind: ColumnKind) -> Result<(), TableError> {
        let schema = self.file.metadata().file_metadata().schema_descr_ptr();
        let Some(index) = schema.columns().iter().position(|c| c.path().string() == name) else {
            return Err(TableError::Missing {
                path: self.path.clone(),
                column: name.into(),
                found: self.columns().join(", "),
            });
        };
        let column = schema.column(index);
        let (physical, expected) = (column.physical_type(), expected_types(kind));
        if !expected.0.contains(&physical) || column.max_rep_level() > 0 {
            return Err(TableError::WrongType {
                path: self.path.clone(),
                column: name.into(),
                found: physical.to_string(),
                expected: expected.1,
            });
        }
        let optional = column.max_def_level() > 0;
        self.wanted.push(Wanted { name: name.into(), index, kind, optional });
        Ok(())
    }

    /// Fills `columns` with the next rows, at most `rows`; returns how many, 0 at the end.
    pub fn next_batch(
        &mut self,
        rows: usize,
        columns: &mut Vec<Column>,
    ) -> Result<usize, TableError> {
        while self.left_in_group == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(0);
            }
            self.open_group()?;
        }
        let rows = rows.min(self.left_in_group);
        columns.resize_with(self.wanted.len(), || Column::new(ColumnKind::I32));
        for ((wanted, reader), column) in
            self.wanted.iter().zip(&mut self.readers).zip(columns.iter_mut())
        {
            let found = guarded(&self.path, || {
                read_column(reader, wanted, rows, column).map_err(|error| {
                    ParquetError::General(format!("column `{}`: {error}", wanted.name))
                })
            })?;
            if let Some(row) = found.missing {
                return Err(TableError::Null {
                    path: self.path.clone(),
                    row: self.rows_read + row as u64 + 1,
                    column: wanted.name.clone(),
                });
            }
            if found.rows != rows {
                return Err(TableError::Damaged {
                    path: self.path.clone(),
                    problem: format!(
                        "column `{}` ends after row {}, expected {} rows",
                        wanted.name,
                        self.rows_read + found.rows as u64,
                        self.rows()
                    ),
                });
            }
        }
        self.left_in_group -= rows;
        self.rows_read += rows as u64;
        Ok(rows)
    }

    fn open_group(&mut self) -> Result<(), TableError> {
        let (file, group_index, wanted) = (&self.file, self.next_group, &self.wanted);
        let claimed = file.metadata().row_group(group_index);
        self.claims.pages(claimed, wanted.iter().map(|wanted| wanted.index))?;
        let (rows, readers) = guarded(&self.path, || {
            let group = file.get_row_group(group_index)?;
            let rows = group.metadata().num_rows();
            let readers = wanted.iter().map(|&Wanted { index, optional, .. }| {
                let pages = group.get_column_page_reader(index)?;
                let column = group.metadata().column(index).column_descr_ptr();
                Ok(get_column_reader(column, Box::new(CheckedPages { pages, optional })))
            });
            Ok((rows, readers.collect::<Result<Vec<_>, ParquetError>>()?))
        })?;
        self.left_in_group = usize::try_from(rows).unwrap_or(0);
        self.readers = readers;
        self.next_group += 1;
        Ok(())
    }
}

fn expected_types(kind: ColumnKind) -> (&'static [Physical], &'static str) {
    match kind {
        ColumnKind::I32 => (&[Physical::INT32], "a 32-bit integer"),
        ColumnKind::I64 => (&[Physical::INT64, Physical::INT32], "an integer"),
        ColumnKind::F32 | ColumnKind::F64 | ColumnKind::OptionalF64 => {
            (&[Physical::DOUBLE, Physical::FLOAT, Physical::INT32, Physical::INT64], "a number")
        }
        ColumnKind::Text => (&[Physical::BYTE_ARRAY, Physical::INT32, Physical::INT64], "text"),
    }
}

/// What a read of one column gave.
struct Found {
    rows: usize,
    /// The first row of the batch without a value, where values are required.
    missing: Option<usize>,
}

fn read_column(
    reader: &mut ColumnReader,
    wanted: &Wanted,
    rows: usize,
    column: &mut Column,
) -> Result<Found, ParquetError> {
    if column.kind() != wanted.kind {
        *column = Column::new(wanted.kind);
    }
    let optional = wanted.optional;
    match (reader, column) {
        (ColumnReader::Int32ColumnReader(r), Column::I32(out)) => plain(r, rows, optional, out),
        (ColumnReader::Int64ColumnReader(r), Column::I64(out)) => plain(r, rows, optional, out),
        (ColumnReader::FloatColumnReader(r), Column::F32(out)) => plain(r, rows, optional, out),
        (ColumnReader::DoubleColumnReader(r), Column::F64(out)) => plain(r, rows, optional, out),
        (ColumnReader::Int32ColumnReader(r), out) => {
            convert(r, rows, optional, out, |&v| Value::Integer(v.into()))
        }
        (ColumnReader::Int64ColumnReader(r), out) => {
            convert(r, rows, optional, out, |&v| Value::Integer(v))
        }
        (ColumnReader::FloatColumnReader(r), out) => {
            convert(r, rows, optional, out, |&v| Value::Number(v.into()))
        }
        (ColumnReader::DoubleColumnReader(r), out) => {
            convert(r, rows, optional, out, |&v| Value::Number(v))
        }
        (ColumnReader::ByteArrayColumnReader(r), out) => {
            convert(r, rows, optional, out, |v| Value::Text(v.data()))
        }
        _ => Err(ParquetError::General("a column type that is not supported".into())),
    }
}

fn plain<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    optional: bool,
    out: &mut Vec<T::T>,
) -> Result<Found, ParquetError> {
    out.clear();
    let mut levels = Vec::new();
    let got = records(reader, rows, optional, out, &mut levels)?;
    Ok(Found { rows: got, missing: levels.iter().position(|&level| level == 0) })
}

/// A decoded value on its way to the kind that was asked for.
enum Value<'v> {
    Integer(i64),
    Number(f64),
    Text(&'v [u8]),
}

impl Value<'_> {
    fn number(&self) -> Result<f64, ParquetError> {
        match *self {
            Self::Integer(value) => Ok(value as f64),
            Self::Number(value) => Ok(value),
            Self::Text(_) => Err(ParquetError::General("text where a number was expected".into())),
        }
    }

    fn integer(&self) -> Result<i64, ParquetError> {
        match *self {
            Self::Integer(value) => Ok(value),
            _ => Err(ParquetError::General("no integer where one was expected".into())),
        }
    }

    fn text(&self) -> Result<String, ParquetError> {
        match *self {
            Self::Integer(value) => Ok(value.to_string()),
            Self::Number(value) => Ok(value.to_string()),
            Self::Text(bytes) if bytes.len() > MAX_TEXT => Err(ParquetError::General(format!(
                "found a text of {} bytes, expected at most {MAX_TEXT}",
                bytes.len()
            ))),
            Self::Text(bytes) => std::str::from_utf8(bytes)
                .map(str::to_owned)
                .map_err(|_| ParquetError::General("text that is not UTF-8".into())),
        }
    }
}

fn convert<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    optional: bool,
    column: &mut Column,
    value: impl for<'v> Fn(&'v T::T) -> Value<'v>,
) -> Result<Found, ParquetError> {
    let (mut raw, mut levels) = (Vec::new(), Vec::new());
    let got = records(reader, rows, optional, &mut raw, &mut levels)?;
    let mut missing = levels.iter().position(|&level| level == 0);
    let values = raw.iter().map(value);
    match column {
        Column::I32(_) => return Err(ParquetError::General("no 32-bit integers".into())),
        Column::I64(out) => {
            *out = values.map(|v| v.integer()).collect::<Result<_, _>>()?;
        }
        Column::F32(out) => {
            *out = values.map(|v| v.number().map(|n| n as f32)).collect::<Result<_, _>>()?;
        }
        Column::F64(out) => {
            *out = values.map(|v| v.number()).collect::<Result<_, _>>()?;
        }
        Column::Text(out) => {
            *out = values.map(|v| v.text()).collect::<Result<_, _>>()?;
        }
        Column::OptionalF64(out) => {
            missing = None;
            let mut present = values.map(|v| v.number());
            out.clear();
            for row in 0..got {
                let here = levels.get(row).is_none_or(|&level| level > 0);
                out.push(if here { present.next().transpose()? } else { None });
            }
        }
    }
    Ok(Found { rows: got, missing })
}

fn records<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    optional: bool,
    out: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
) -> Result<usize, ParquetError> {
    let mut got = 0;
    // The decoder may stop early at a page border.
    while got < rows {
        let levels = optional.then_some(&mut *levels);
        let (records, _, _) = reader.read_records(rows - got, levels, None, out)?;
        if records == 0 {
            break;
        }
        got += records;
    }
    Ok(got)
}

/// Runs the decoder and turns its errors and panics into ours.
fn guarded<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, TableError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| damaged(path, &error)),
        Err(_) => Err(TableError::Damaged {
            path: path.to_owned(),
            problem: "the decoder gave up on its content".into(),
        }),
    }
}
