//! Embeddings and gradients as bytes.

use prost::bytes::Bytes;

use super::WireError;
use super::generated::numbers::Values as Encoded;
use super::generated::{Codes, Halves, Numbers};
use crate::compression::{MAX_CODE, Packing, from_code, from_half, to_code, to_half};
use crate::message::parts::{MAX_VALUES, PartError, Values};

pub(super) fn encode(values: &Values) -> Numbers {
    let numbers = values.as_slice();
    let encoded = match values.packing() {
        Packing::F32 => Encoded::F32(words(numbers)),
        Packing::F16 { exponent } => {
            let halves = numbers.iter().flat_map(|x| to_half(*x, *exponent).to_le_bytes());
            let (exponent, numbers) = (*exponent, halves.collect::<Vec<u8>>().into());
            Encoded::F16(Halves { exponent, numbers })
        }
        Packing::Q8 { steps } => {
            let rows = numbers.chunks_exact(values.width());
            let codes = rows.flat_map(|row| row.iter().zip(steps));
            let codes = codes.map(|(number, step)| to_code(*number, *step).to_le_bytes()[0]);
            Encoded::Q8(Codes { steps: words(steps), codes: codes.collect::<Vec<u8>>().into() })
        }
    };
    Numbers { width: values.width() as u32, values: Some(encoded) }
}

pub(super) fn decode(numbers: Option<Numbers>) -> Result<Values, WireError> {
    let missing = WireError::Missing { field: "numbers" };
    let Some(Numbers { width, values: Some(values) }) = numbers else { return Err(missing) };
    let width = width as usize;
    let (numbers, packing) = match values {
        Encoded::F32(bytes) => (read_words(&bytes)?, Packing::F32),
        Encoded::F16(Halves { exponent, numbers }) => {
            let packing = Packing::F16 { exponent };
            packing.check(width)?;
            let halves = whole::<2>("bytes of numbers", &numbers, MAX_VALUES)?;
            let number = |half: &[u8; 2]| from_half(u16::from_le_bytes(*half), exponent);
            (halves.iter().map(number).collect(), packing)
        }
        Encoded::Q8(Codes { steps, codes }) => {
            let steps = read_words(&steps)?;
            let packing = Packing::Q8 { steps: steps.clone() };
            packing.check(width)?;
            (multiples(&steps, &codes)?, packing)
        }
    };
    Ok(Values::packed(width, numbers, packing)?)
}

/// Codes times the steps of their columns.
fn multiples(steps: &[f32], codes: &[u8]) -> Result<Vec<f32>, PartError> {
    let codes = whole::<1>("codes of numbers", codes, MAX_VALUES)?;
    let code = |byte: &[u8; 1]| i8::from_le_bytes(*byte);
    if let Some(found) = codes.iter().map(code).find(|code| *code < -MAX_CODE) {
        let expected = format!("{} to {MAX_CODE}", -MAX_CODE);
        return Err(PartError::new("codes of numbers", found, expected));
    }
    let pairs = codes.iter().zip(steps.iter().cycle());
    Ok(pairs.map(|(byte, step)| from_code(code(byte), *step)).collect())
}

pub(super) fn words(numbers: &[f32]) -> Bytes {
    let mut bytes = Vec::with_capacity(4 * numbers.len());
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    bytes.into()
}

pub(super) fn read_words(bytes: &[u8]) -> Result<Vec<f32>, PartError> {
    let words = whole::<4>("bytes of numbers", bytes, MAX_VALUES)?;
    Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
}

/// Bytes as groups of the same size, not too many.
fn whole<'a, const N: usize>(
    field: &'static str,
    bytes: &'a [u8],
    most: usize,
) -> Result<&'a [[u8; N]], PartError> {
    match bytes.as_chunks::<N>() {
        (groups, []) if groups.len() <= most => Ok(groups),
        _ => {
            let expected = format!("a multiple of {N}, at most {}", N * most);
            Err(PartError::new(field, bytes.len(), expected))
        }
    }
}
