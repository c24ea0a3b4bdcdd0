//! What a Parquet file claims of itself, checked before the decoder believes it.
//!
//! The decoder makes room for whatever a footer or a page header claims: a page of 2 GiB, a
//! dictionary of two thousand million words, a group of as many columns. A file of a few bytes
//! could bring the program down that way. So footer and page headers are walked through first, by
//! bounds that follow from the formats where there are any, and are far from any real file where
//! there are none.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use parquet::basic::{Compression, PageType, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use super::TableError;
use super::forms::{check_form, footer_form, page_form};
use super::thrift::{Part, Wrong, walk};

/// Bytes of a footer: a table of fifty columns with a thousand row groups needs a third of it.
const MAX_FOOTER: u64 = 1 << 24;
/// Groups within groups. Tables are flat, and the decoder descends by recursion.
const MAX_NESTING: usize = 32;
/// Our own tables have half a row for each byte.
const MAX_ROWS_PER_BYTE: u64 = 256;
/// Bytes that reading one row group may need at once: writers make pages of a megabyte or so.
const MAX_MEMORY: u64 = 1 << 29;
/// Snappy's longest copy makes 64 bytes of 3.
const SNAPPY_RATIO: u64 = 22;
/// Zstandard's densest block makes 128 KiB of 4 bytes.
const ZSTD_RATIO: u64 = 1 << 15;
/// As numbers in the format.
const DELTA_BYTE_ARRAY: i64 = 7;

/// Checks the claims of one file.
pub(super) struct Claims {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Claims {
    /// Checks the footer. What is no Parquet file at all is left to the decoder.
    pub(super) fn of_footer(path: &Path, file: &File) -> Result<Self, TableError> {
        let io = |source| TableError::Io { path: path.to_owned(), source };
        let file = file.try_clone().map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let claims = Self { path: path.to_owned(), file, length };
        if length < 12 {
            return Ok(claims);
        }
        let mut tail = [0; 8];
        claims.from(length - 8, 8).and_then(|mut at| at.read_exact(&mut tail)).map_err(io)?;
        let [a, b, c, d, magic @ ..] = tail;
        if &magic == b"PAR1" {
            let footer = u32::from_le_bytes([a, b, c, d]).into();
            claims.footer(footer).map_err(|wrong| claims.error("footer", wrong))?;
        }
        Ok(claims)
    }

    fn footer(&self, footer: u64) -> Result<(), Wrong> {
        let most = (self.length - 12).min(MAX_FOOTER);
        if footer > most {
            return Err(Wrong::new(format!("{footer} bytes"), format!("at most {most}")));
        }
        let start = self.length - 8 - footer;
        let input = self.from(start, footer).map_err(|e| Wrong::new(e.to_string(), "a footer"))?;
        let mut children: Vec<i64> = Vec::new();
        walk(input, footer, &mut |path, part| {
            check_form(path, part, footer_form)?;
            match (path, part) {
                ([2], Part::Element) => children.push(0),
                ([2, 5], Part::Integer(count)) => {
                    if let Some(last) = children.last_mut() {
                        *last = count;
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        check_schema(&children)
    }

    /// Checks the number of rows.
    pub(super) fn rows(&self, metadata: &ParquetMetaData) -> Result<(), TableError> {
        let most = self.length.saturating_mul(MAX_ROWS_PER_BYTE);
        let mut rows: u64 = 0;
        for group in metadata.row_groups() {
            let here = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
            rows = rows.saturating_add(here);
            if rows > most {
                let found = format!("{} in a row group", group.num_rows());
                let expected = format!("0 to {most} in a file of {} bytes", self.length);
                return Err(self.error("rows", Wrong::new(found, expected)));
            }
        }
        Ok(())
    }

    /// Checks the pages of some columns of a row group.
    pub(super) fn pages(
        &self,
        group: &RowGroupMetaData,
        columns: impl Iterator<Item = usize>,
    ) -> Result<(), TableError> {
        let mut memory: u64 = 0;
        for index in columns {
            let Some(chunk) = group.columns().get(index) else { continue };
            let field = || format!("column `{}`", chunk.column_path().string());
            let needed =
                self.chunk(chunk, group.num_rows()).map_err(|wrong| self.error(&field(), wrong))?;
            memory = memory.saturating_add(needed);
            if memory > MAX_MEMORY {
                let found = format!("pages that need {memory} bytes with those before them");
                let wrong = Wrong::new(found, format!("at most {MAX_MEMORY}"));
                return Err(self.error(&field(), wrong));
            }
        }
        Ok(())
    }

    /// Bytes that reading a column chunk needs at once.
    fn chunk(&self, chunk: &ColumnChunkMetaData, rows: i64) -> Result<u64, Wrong> {
        let first = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let (start, bytes) = (u64::try_from(first), u64::try_from(chunk.compressed_size()));
        let (Ok(mut at), Ok(bytes)) = (start, bytes) else {
            let found = format!("{} bytes at {first}", chunk.compressed_size());
            return Err(Wrong::new(found, "0 or more"));
        };
        let end = at.saturating_add(bytes);
        if end > self.length {
            let expected = format!("no more than the {} of the file", self.length);
            return Err(Wrong::new(format!("bytes up to {end}"), expected));
        }
        let (mut dictionary, mut largest) = (0, 0);
        while at < end {
            let (page, header) = self.page_header(at, end - at)?;
            at += header;
            let compressed = within(page.compressed, "a compressed page size of", end - at)?;
            let most = most_bytes(chunk.compression(), compressed);
            let bytes = within(page.uncompressed, "a page size of", most)?.max(compressed);
            if page.kind == PageType::DICTIONARY_PAGE as i64 {
                let (stored, decoded) = word_bytes(chunk.column_type());
                let words = within(page.words, "a dictionary size of", bytes / stored)?;
                dictionary = dictionary.max(bytes + words * decoded);
            } else {
                if chunk.column_type() == Physical::BYTE_ARRAY && page.encoding == DELTA_BYTE_ARRAY
                {
                    let expected = "PLAIN, RLE_DICTIONARY or DELTA_LENGTH_BYTE_ARRAY";
                    return Err(Wrong::new("encoding DELTA_BYTE_ARRAY", expected));
                }
                let most = u64::try_from(rows).unwrap_or(0);
                let values = within(page.values, "a number of values of", most)?;
                // Text may come with its lengths first, of four bytes each.
                largest = largest.max(bytes + 4 * values);
            }
            at += compressed;
        }
        // The next page is decompressed while the last one is still there.
        Ok(dictionary + 2 * largest)
    }

    fn page_header(&self, at: u64, left: u64) -> Result<(PageHeader, u64), Wrong> {
        let input = self.from(at, left).map_err(|e| Wrong::new(e.to_string(), "a page"))?;
        let mut page = PageHeader::default();
        let length = walk(input, left, &mut |path, part| {
            check_form(path, part, page_form)?;
            let Part::Integer(value) = part else { return Ok(()) };
            match path {
                [1] => page.kind = value,
                [2] => page.uncompressed = value,
                [3] => page.compressed = value,
                [5 | 8, 1] => page.values = value,
                [5, 2] | [8, 4] => page.encoding = value,
                [7, 1] => page.words = value,
                _ => {}
            }
            Ok(())
        })?;
        Ok((page, length))
    }

    fn from(&self, start: u64, length: u64) -> std::io::Result<impl Read> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start))?;
        // Page headers have some tens of bytes.
        Ok(BufReader::with_capacity(256, file.take(length)))
    }

    fn error(&self, field: &str, Wrong { found, expected }: Wrong) -> TableError {
        TableError::Claim { path: self.path.clone(), field: field.into(), found, expected }
    }
}

/// What a page header says, as far as it matters here.
#[derive(Default)]
struct PageHeader {
    kind: i64,
    uncompressed: i64,
    compressed: i64,
    values: i64,
    encoding: i64,
    words: i64,
}

fn within(found: i64, what: &str, most: u64) -> Result<u64, Wrong> {
    match u64::try_from(found) {
        Ok(value) if value <= most => Ok(value),
        _ => Err(Wrong::new(format!("{what} {found}"), format!("0 to {most}"))),
    }
}

/// What a number of compressed bytes can become.
fn most_bytes(codec: Compression, compressed: u64) -> u64 {
    let ratio = match codec {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => SNAPPY_RATIO,
        // The decoder refuses the codecs that it was not built with.
        _ => ZSTD_RATIO,
    };
    compressed.saturating_mul(ratio).min(MAX_MEMORY)
}

/// The least bytes of a word of a dictionary in a page, and its bytes in memory.
fn word_bytes(physical: Physical) -> (u64, u64) {
    match physical {
        Physical::BYTE_ARRAY => (4, size_of::<ByteArray>() as u64),
        Physical::INT64 | Physical::DOUBLE => (8, 8),
        _ => (4, 4),
    }
}

/// A schema is a tree, written from the root on: of each node, the number of its children.
fn check_schema(children: &[i64]) -> Result<(), Wrong> {
    let mut open: Vec<i64> = Vec::new();
    for &count in children {
        if count < 0 || count >= children.len() as i64 {
            let expected = format!("0 to {}", children.len().saturating_sub(1));
            return Err(Wrong::new(format!("a group of {count} columns"), expected));
        }
        while open.pop_if(|left| *left == 0).is_some() {}
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if count > 0 {
            open.push(count);
        }
        if open.len() > MAX_NESTING {
            let expected = format!("at most {MAX_NESTING} groups within each other");
            return Err(Wrong::new("columns in more groups", expected));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
