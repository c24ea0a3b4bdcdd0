//! Pages on their way from the decompressor to the decoder.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

use super::thrift::{Wrong, varint};

/// Pages of a column without repetition. Refuses a page of text that claims more texts than it has
/// values: the decoder makes room for them before it looks for them.
pub(super) struct CheckedPages {
    pub pages: Box<dyn PageReader>,
    pub optional: bool,
}

impl CheckedPages {
    fn check(&self, page: &Page) -> Result<()> {
        if page.encoding() != Encoding::DELTA_LENGTH_BYTE_ARRAY {
            return Ok(());
        }
        let bytes = page.buffer();
        let levels = match page {
            Page::DictionaryPage { .. } => return Ok(()),
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len)
            }
            Page::DataPage { .. } if !self.optional => 0,
            Page::DataPage { def_level_encoding: Encoding::RLE, .. } => match bytes.first_chunk() {
                Some(length) => 4 + u64::from(u32::from_le_bytes(*length)),
                None => return Err(wrong("no levels", "levels of a data page")),
            },
            Page::DataPage { def_level_encoding, .. } => {
                return Err(wrong(&format!("levels encoded as {def_level_encoding}"), "RLE"));
            }
        };
        let values = usize::try_from(levels).ok().and_then(|start| bytes.get(start..));
        let texts = claimed_texts(values.unwrap_or_default())
            .map_err(|problem| wrong(&problem.found, &problem.expected))?;
        if texts > page.num_values().into() {
            let most = format!("at most {}", page.num_values());
            return Err(wrong(&format!("{texts} texts in a page"), &most));
        }
        Ok(())
    }
}

/// The third integer of a delta encoding: block size, miniblocks in a block, values.
fn claimed_texts(mut bytes: &[u8]) -> std::result::Result<u64, Wrong> {
    let mut next = || {
        varint(|| {
            let (&byte, rest) =
                bytes.split_first().ok_or_else(|| Wrong::new("the end of a page", "lengths"))?;
            bytes = rest;
            Ok(byte)
        })
    };
    next()?;
    next()?;
    next()
}

fn wrong(found: &str, expected: &str) -> ParquetError {
    ParquetError::General(format!("found {found}, expected {expected}"))
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}
