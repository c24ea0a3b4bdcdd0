//! The bytes of a file, plain or gzipped, and on which line they are.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::SumoFileError;

const BLOCK: usize = 256 * 1024;

/// A line or tag longer than this is taken for a damaged file.
const LONGEST: usize = 16 * 1024 * 1024;

/// A buffered reader that knows its line.
pub(super) struct Source {
    file: PathBuf,
    inner: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Read but not yet consumed: `start..end` of the buffer.
    start: usize,
    end: usize,
    /// Bytes and line breaks before the buffer's first byte.
    bytes_before: u64,
    lines_before: u64,
    /// Where in the file the markup begins that is being read, if it is XML.
    markup: u64,
    finished: bool,
}

impl Source {
    /// Opens a file; gzip is known by its first bytes.
    pub(super) fn open(path: &Path) -> Result<Self, SumoFileError> {
        let file = File::open(path).map_err(|error| SumoFileError::Read {
            file: path.into(),
            line: 1,
            error,
        })?;
        Self::new(path, Box::new(file))
    }

    /// Reads from anything; the name is for messages.
    pub(super) fn new(name: &Path, inner: Box<dyn Read + Send>) -> Result<Self, SumoFileError> {
        let mut source = Self::plain(name, inner);
        source.fill_to(2).map_err(|error| source.read_error(error))?;
        if source.buffered().starts_with(&[0x1f, 0x8b]) {
            let first = source.buffered().to_vec();
            let rest = io::Cursor::new(first).chain(source.inner);
            source = Self::plain(name, Box::new(MultiGzDecoder::new(rest)));
        }
        source.skip_byte_order_mark()?;
        Ok(source)
    }

    /// Text in UTF-8 may begin with a mark that says so. Text in UTF-16 is refused.
    fn skip_byte_order_mark(&mut self) -> Result<(), SumoFileError> {
        self.fill_to(3).map_err(|error| self.read_error(error))?;
        match self.buffered() {
            [0xef, 0xbb, 0xbf, ..] => self.consume(3),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'<', 0, ..] | [0, b'<', ..] => {
                return Err(SumoFileError::Syntax {
                    file: self.file.clone(),
                    line: 1,
                    problem: "found text in UTF-16, expected UTF-8".into(),
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn plain(name: &Path, inner: Box<dyn Read + Send>) -> Self {
        Self {
            file: name.into(),
            inner,
            buffer: vec![0; BLOCK],
            start: 0,
            end: 0,
            bytes_before: 0,
            lines_before: 0,
            markup: 0,
            finished: false,
        }
    }

    /// The file's name.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The line of the next byte, from 1.
    pub(super) fn line(&self) -> u64 {
        1 + self.lines_before + breaks(&self.buffer[..self.start])
    }

    /// The first byte that is no white space, if any, without consuming it.
    pub(super) fn peek_content(&mut self) -> Result<Option<u8>, SumoFileError> {
        let mut wanted = 1;
        loop {
            self.fill_to(wanted).map_err(|error| self.read_error(error))?;
            let content = self.buffered().iter().find(|byte| !byte.is_ascii_whitespace());
            if content.is_some() || self.buffered().len() < wanted || wanted > BLOCK {
                return Ok(content.copied());
            }
            wanted = self.buffered().len() + 1;
        }
    }

    /// How far away the next line break is.
    #[inline]
    fn find_break(&mut self) -> Result<Option<usize>, SumoFileError> {
        let mut searched = 0;
        loop {
            let rest = self.buffered().get(searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', rest) {
                return Ok(Some(searched + at));
            }
            searched = self.buffered().len();
            self.fill_to(searched + 1).map_err(|error| self.read_error(error))?;
            if self.buffered().len() == searched {
                return Ok(None);
            }
            if searched > LONGEST {
                return Err(SumoFileError::Syntax {
                    file: self.file.clone(),
                    line: self.line(),
                    problem: format!("found no line break within {LONGEST} bytes, expected one"),
                });
            }
        }
    }

    /// From here on [`LONGEST`] bytes may be consumed as a [`BufRead`], until this is called again.
    #[inline]
    pub(super) fn begin_markup(&mut self) {
        self.markup = self.bytes_before + self.start as u64;
    }

    /// The next line without its break, not yet consumed, and its full length with the break.
    ///
    /// `None` at the end. A last line without a break is an error: the file was cut off there.
    #[inline]
    pub(super) fn peek_line(&mut self) -> Result<Option<(&[u8], usize)>, SumoFileError> {
        let Some(length) = self.find_break()? else {
            if self.buffered().is_empty() {
                return Ok(None);
            }
            return Err(SumoFileError::Syntax {
                file: self.file.clone(),
                line: self.line(),
                problem: "the file ends in the middle of a line, expected a line break".into(),
            });
        };
        let line = &self.buffer[self.start..self.start + length];
        Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), length + 1)))
    }

    pub(super) fn read_error(&self, error: io::Error) -> SumoFileError {
        SumoFileError::Read { file: self.file.clone(), line: self.line(), error }
    }

    fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    #[cold]
    fn fill_block(&mut self) -> io::Result<()> {
        let length = self.bytes_before + self.start as u64 - self.markup;
        if length > LONGEST as u64 {
            let problem = format!("found no end of the markup within {LONGEST} bytes, expected it");
            return Err(io::Error::other(problem));
        }
        self.fill_to(1)
    }

    /// Reads until that many bytes are buffered, or the end is reached.
    fn fill_to(&mut self, wanted: usize) -> io::Result<()> {
        while self.end - self.start < wanted && !self.finished {
            if self.start > 0 {
                self.lines_before += breaks(&self.buffer[..self.start]);
                self.bytes_before += self.start as u64;
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.finished = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(out)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Source {
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.fill_block()?;
        }
        Ok(self.buffered())
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }
}

pub(super) fn breaks(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn source(bytes: &[u8]) -> Source {
        Source::new(Path::new("a.csv"), Box::new(io::Cursor::new(bytes.to_vec()))).unwrap()
    }

    #[test]
    fn lines_are_numbered_across_blocks() {
        let text: String = (1..=60_000).map(|line| format!("line {line}\n")).collect();
        assert!(text.len() > 2 * BLOCK);
        let mut source = source(text.as_bytes());
        for expected in 1..=60_000_u64 {
            assert!(expected % 10_000 != 0 || source.line() == expected);
            let (line, length) = source.peek_line().unwrap().unwrap();
            assert_eq!(line, format!("line {expected}").as_bytes());
            source.consume(length);
        }
        assert!(source.peek_line().unwrap().is_none());
    }

    #[test]
    fn gzip_is_read_like_plain_and_a_cut_one_is_an_error() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        for line in 0..5000 {
            writeln!(encoder, "{line};{}", line * 7919 % 1000).unwrap();
        }
        let bytes = encoder.finish().unwrap();
        let mut count = 0;
        let mut whole = source(&bytes);
        while let Some((_, length)) = whole.peek_line().unwrap() {
            whole.consume(length);
            count += 1;
        }
        assert_eq!(count, 5000);
        let mut cut = source(&bytes[..bytes.len() / 2]);
        let error = loop {
            match cut.peek_line() {
                Ok(Some((_, length))) => cut.consume(length),
                Ok(None) => unreachable!("the end was not reached"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with("a.csv: line "), "{error}");
    }
}
