//! The types of the fields of Parquet's footer and page headers, by the format's numbers.

use super::thrift::{Form, Part, Wrong};

/// The type of a field and, for a list, of its elements; nothing for a field that is not known.
type Expected = Option<(Form, Option<Form>)>;

/// The decoder goes by a field's number alone. Where its type is another than the format says,
/// decoder and walk would read different things.
pub(super) fn check_form(
    path: &[i16],
    part: Part,
    expected: fn(&[i16]) -> Expected,
) -> Result<(), Wrong> {
    let Some((field, element)) = expected(path) else { return Ok(()) };
    let (found, expected) = match part {
        Part::Field(form) => (form, field),
        Part::ListOf(form) => (form, element.unwrap_or(form)),
        Part::Element | Part::Integer(_) => return Ok(()),
    };
    if found == expected {
        return Ok(());
    }
    let path: Vec<String> = path.iter().map(i16::to_string).collect();
    Err(Wrong::new(format!("field {} as {found:?}", path.join(".")), format!("{expected:?}")))
}

const BOOLEAN: Expected = Some((Form::Boolean, None));
const BYTE: Expected = Some((Form::Byte, None));
const INTEGER: Expected = Some((Form::Integer, None));
const DOUBLE: Expected = Some((Form::Double, None));
const BINARY: Expected = Some((Form::Binary, None));
const STRUCT: Expected = Some((Form::Struct, None));
const STRUCTS: Expected = Some((Form::List, Some(Form::Struct)));
const INTEGERS: Expected = Some((Form::List, Some(Form::Integer)));
const BINARIES: Expected = Some((Form::List, Some(Form::Binary)));

/// Fields of a page header, by the format's numbers.
pub(super) fn page_form(path: &[i16]) -> Expected {
    match path {
        [1..=4] => INTEGER,
        [5..=8] => STRUCT,
        [5, 1..=4] | [7, 1 | 2] | [8, 1..=6] => INTEGER,
        [7, 3] | [8, 7] => BOOLEAN,
        [5, 5] | [8, 8] => STRUCT,
        [5, 5, field] | [8, 8, field] => statistics_form(*field),
        _ => None,
    }
}

/// Fields of the footer, by the format's numbers.
pub(super) fn footer_form(path: &[i16]) -> Expected {
    match path {
        [1 | 3] => INTEGER,
        [2 | 4 | 5 | 7] => STRUCTS,
        [6] => BINARY,
        // A node of the schema, and its logical type.
        [2, 1..=3 | 5..=9] => INTEGER,
        [2, 4] => BINARY,
        [2, 10] | [2, 10, _] | [2, 10, 7 | 8, 2] | [2, 10, 7 | 8, 2, _] => STRUCT,
        [2, 10, 5, 1 | 2] | [2, 10, 18, 2] => INTEGER,
        [2, 10, 7 | 8, 1] | [2, 10, 10, 2] => BOOLEAN,
        [2, 10, 10 | 16, 1] => BYTE,
        [2, 10, 17 | 18, 1] => BINARY,
        // A row group.
        [4, 1 | 4] => STRUCTS,
        [4, 2 | 3 | 5..=7] => INTEGER,
        [4, 4, 1] => INTEGER,
        [4, 4, 2 | 3] => BOOLEAN,
        // A column chunk, and what it says of itself.
        [4, 1, 1 | 9] => BINARY,
        [4, 1, 2 | 4..=7] => INTEGER,
        [4, 1, 3 | 8] => STRUCT,
        [4, 1, 3, 1 | 4..=7 | 9..=11 | 14 | 15] => INTEGER,
        [4, 1, 3, 2] => INTEGERS,
        [4, 1, 3, 3] => BINARIES,
        [4, 1, 3, 8 | 13] => STRUCTS,
        [4, 1, 3, 12 | 16 | 17] => STRUCT,
        [4, 1, 3, 8, 1 | 2] => BINARY,
        [4, 1, 3, 12, field] => statistics_form(*field),
        [4, 1, 3, 13, 1..=3] => INTEGER,
        [4, 1, 3, 16, 1] => INTEGER,
        [4, 1, 3, 16, 2 | 3] => INTEGERS,
        [4, 1, 3, 17, 1] => STRUCT,
        [4, 1, 3, 17, 2] => INTEGERS,
        [4, 1, 3, 17, 1, 1..=8] => DOUBLE,
        // Notes, and the order of each column.
        [5, 1 | 2] => BINARY,
        [7, _] => STRUCT,
        _ => None,
    }
}

fn statistics_form(field: i16) -> Expected {
    match field {
        1 | 2 | 5 | 6 => BINARY,
        3 | 4 | 9 => INTEGER,
        7 | 8 => BOOLEAN,
        _ => None,
    }
}
