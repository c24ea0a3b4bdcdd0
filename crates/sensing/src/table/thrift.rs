//! Walks through Thrift's compact protocol, in which Parquet writes its footer and its page headers.
//!
//! Nothing is built of what is read, so that a walk needs no memory whatever the bytes claim; who
//! walks is told of each part and may refuse it.

use std::io::{self, Read};

/// Parquet's own structures are nested eight deep.
const MAX_DEPTH: usize = 24;

/// What bytes hold that they should not.
#[derive(Debug)]
pub(super) struct Wrong {
    pub found: String,
    pub expected: String,
}

impl Wrong {
    pub(super) fn new(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { found: found.into(), expected: expected.into() }
    }
}

/// How a value is written. Integers of 16, 32 and 64 bits are written alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Boolean,
    Byte,
    Integer,
    Double,
    Binary,
    List,
    Map,
    Struct,
    Uuid,
}

/// A part that the walk came to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// A field of a structure, before its value.
    Field(Form),
    /// The start of a list that is not empty.
    ListOf(Form),
    /// The next element of a list.
    Element,
    /// An integer.
    Integer(i64),
}

/// Takes the numbers of the fields that lead to a part, outermost first, and the part.
pub(super) type Visit<'v> = dyn FnMut(&[i16], Part) -> Result<(), Wrong> + 'v;

/// Walks through a structure that starts `input` and has at most `length` bytes; returns how many
/// it has.
pub(super) fn walk(input: impl Read, length: u64, visit: &mut Visit<'_>) -> Result<u64, Wrong> {
    let mut walk = Walk { input, left: length, path: Vec::new(), visit };
    walk.structure(0)?;
    Ok(length - walk.left)
}

/// An unsigned integer of seven bits a byte, the lowest first.
pub(super) fn varint(mut byte: impl FnMut() -> Result<u8, Wrong>) -> Result<u64, Wrong> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte()?;
        let bits = u64::from(next & 0x7f);
        if (bits << shift) >> shift != bits {
            break;
        }
        value |= bits << shift;
        if next & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Wrong::new("an integer without end", "one of at most 64 bits"))
}

struct Walk<'v, R> {
    input: R,
    left: u64,
    path: Vec<i16>,
    visit: &'v mut Visit<'v>,
}

impl<R: Read> Walk<'_, R> {
    fn structure(&mut self, depth: usize) -> Result<(), Wrong> {
        let mut id: i16 = 0;
        loop {
            let head = self.byte()?;
            if head & 0x0f == 0 {
                return Ok(());
            }
            let form = form(head & 0x0f)?;
            let next = match head >> 4 {
                0 => self.integer()?,
                step => i64::from(id) + i64::from(step),
            };
            id = i16::try_from(next).map_err(|_| {
                Wrong::new(format!("field number {next}"), "one of at most 16 bits")
            })?;
            self.path.push(id);
            (self.visit)(&self.path, Part::Field(form))?;
            // The value of a boolean field is in its head.
            if form != Form::Boolean {
                self.value(form, depth)?;
            }
            self.path.pop();
        }
    }

    fn value(&mut self, form: Form, depth: usize) -> Result<(), Wrong> {
        if depth == MAX_DEPTH {
            return Err(Wrong::new("deeper nesting", format!("at most {MAX_DEPTH} levels")));
        }
        match form {
            Form::Byte => self.byte().map(|_| ()),
            Form::Integer => {
                let value = self.integer()?;
                (self.visit)(&self.path, Part::Integer(value))
            }
            Form::Double => self.skip(8),
            Form::Uuid => self.skip(16),
            Form::Binary => {
                let length = varint(|| self.byte())?;
                self.skip(length)
            }
            Form::Struct => self.structure(depth + 1),
            Form::List => self.list(depth + 1),
            Form::Map => self.map(depth + 1),
            // Decoders disagree on how many bytes these have, and Parquet has none of them here.
            Form::Boolean => Err(Wrong::new("a collection of booleans", "none")),
        }
    }

    fn list(&mut self, depth: usize) -> Result<(), Wrong> {
        let head = self.byte()?;
        // Some writers give an empty list no type.
        if head == 0 {
            return Ok(());
        }
        let form = form(head & 0x0f)?;
        let count = match head >> 4 {
            15 => varint(|| self.byte())?,
            count => count.into(),
        };
        self.check_count(count)?;
        if count > 0 {
            (self.visit)(&self.path, Part::ListOf(form))?;
        }
        for _ in 0..count {
            (self.visit)(&self.path, Part::Element)?;
            self.value(form, depth)?;
        }
        Ok(())
    }

    fn map(&mut self, depth: usize) -> Result<(), Wrong> {
        let count = varint(|| self.byte())?;
        self.check_count(count)?;
        if count == 0 {
            return Ok(());
        }
        let forms = self.byte()?;
        let (key, value) = (form(forms >> 4)?, form(forms & 0x0f)?);
        for _ in 0..count {
            self.value(key, depth)?;
            self.value(value, depth)?;
        }
        Ok(())
    }

    /// Each element has a byte or more.
    fn check_count(&self, count: u64) -> Result<(), Wrong> {
        if count <= self.left {
            return Ok(());
        }
        Err(Wrong::new(format!("a list of {count}"), format!("at most {}", self.left)))
    }

    fn integer(&mut self) -> Result<i64, Wrong> {
        let value = varint(|| self.byte())?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn byte(&mut self) -> Result<u8, Wrong> {
        self.take(1)?;
        let mut byte = [0];
        self.input.read_exact(&mut byte).map_err(unreadable)?;
        Ok(byte[0])
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Wrong> {
        self.take(bytes)?;
        let skipped = io::copy(&mut self.input.by_ref().take(bytes), &mut io::sink());
        if skipped.map_err(unreadable)? < bytes {
            return Err(ended());
        }
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Result<(), Wrong> {
        self.left = self.left.checked_sub(bytes).ok_or_else(ended)?;
        Ok(())
    }
}

fn form(number: u8) -> Result<Form, Wrong> {
    Ok(match number {
        1 | 2 => Form::Boolean,
        3 => Form::Byte,
        4..=6 => Form::Integer,
        7 => Form::Double,
        8 => Form::Binary,
        9 | 10 => Form::List,
        11 => Form::Map,
        12 => Form::Struct,
        13 => Form::Uuid,
        _ => return Err(Wrong::new(format!("type {number}"), "1 to 13")),
    })
}

fn ended() -> Wrong {
    Wrong::new("its end", "more bytes")
}

fn unreadable(error: io::Error) -> Wrong {
    Wrong::new(error.to_string(), "readable bytes")
}
