//! Counts lines as an XML reader consumes them, and bounds how much one element may take.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

/// The longest element or text between two elements: no tag of a map comes near.
const MAX_ELEMENT: usize = 1 << 20;

/// A reader that knows its line.
pub(super) struct LineReader<R> {
    reader: R,
    line: Rc<Cell<u64>>,
    since_element: usize,
}

impl<R: BufRead> LineReader<R> {
    /// The reader, and its line from 1.
    pub(super) fn new(reader: R) -> (Self, Rc<Cell<u64>>) {
        let line = Rc::new(Cell::new(1));
        (Self { reader, line: Rc::clone(&line), since_element: 0 }, line)
    }
}

impl<R: BufRead> Read for LineReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for LineReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.since_element > MAX_ELEMENT {
            return Err(io::Error::other(format!(
                "found more than {MAX_ELEMENT} bytes without the end of an element"
            )));
        }
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        // What is consumed lies in the buffer already: this reads nothing.
        if let Ok(buffer) = self.reader.fill_buf() {
            let consumed = &buffer[..count.min(buffer.len())];
            let lines = consumed.iter().filter(|&&byte| byte == b'\n').count();
            self.line.set(self.line.get() + lines as u64);
            match consumed.iter().rposition(|&byte| byte == b'>') {
                Some(end) => self.since_element = consumed.len() - end,
                None => self.since_element += consumed.len(),
            }
        }
        self.reader.consume(count);
    }
}
