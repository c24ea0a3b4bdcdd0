//! Semicolon-separated fields, one at a time: a row may be megabytes long and is never held whole.

use std::io::{self, BufRead};

/// The longest field that is taken for one.
pub(super) const MAX_FIELD: usize = 64;

/// What comes after a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Another field of the same row.
    Field,
    /// The end of the row, by a line break or the end of the file.
    RowEnd,
}

/// Reads fields and keeps count of where they are.
pub(super) struct Fields<R> {
    reader: R,
    bytes: Vec<u8>,
    /// The line of the current field, from 1.
    pub line: u64,
    /// The column of the current field, from 1.
    pub column: u64,
    row_ended: bool,
}

impl<R: BufRead> Fields<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, bytes: Vec::with_capacity(MAX_FIELD), line: 1, column: 0, row_ended: false }
    }

    /// Goes to the next field; `None` at the end of the file.
    ///
    /// Of a field longer than [`MAX_FIELD`] only the beginning is kept, for the message.
    pub(super) fn advance(&mut self) -> io::Result<Option<After>> {
        if self.row_ended {
            self.row_ended = false;
            self.line += 1;
            self.column = 0;
        }
        self.column += 1;
        self.bytes.clear();
        let mut read_any = false;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                self.row_ended = true;
                return Ok((read_any || self.column > 1).then_some(After::RowEnd));
            }
            read_any = true;
            let end = buffer.iter().position(|&byte| byte == b';' || byte == b'\n');
            let content = &buffer[..end.unwrap_or(buffer.len())];
            let room = (MAX_FIELD + 1).saturating_sub(self.bytes.len());
            // Leading blanks do not count: the separator is a semicolon and a blank.
            let content = if self.bytes.is_empty() { content.trim_ascii_start() } else { content };
            self.bytes.extend_from_slice(&content[..content.len().min(room)]);
            let Some(end) = end else {
                let all = buffer.len();
                self.reader.consume(all);
                continue;
            };
            self.row_ended = buffer[end] == b'\n';
            self.reader.consume(end + 1);
            return Ok(Some(if self.row_ended { After::RowEnd } else { After::Field }));
        }
    }

    /// The field's text without blanks at its ends; empty if it is too long or not UTF-8, which no
    /// field may be.
    pub(super) fn text(&self) -> &str {
        let whole = self.bytes.len() <= MAX_FIELD;
        std::str::from_utf8(&self.bytes).ok().filter(|_| whole).unwrap_or_default().trim()
    }

    /// Whether nothing is in the field.
    pub(super) fn is_blank(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }

    /// The field's text as it can be shown in a message.
    pub(super) fn shown(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let text = text.trim();
        if self.bytes.len() > MAX_FIELD { format!("{text}…") } else { text.into() }
    }
}
