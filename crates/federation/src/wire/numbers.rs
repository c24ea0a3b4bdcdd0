//! Embeddings and gradients as bytes.

use super::WireError;
use super::generated::Numbers;
use super::generated::numbers::Values as Encoded;
use crate::message::parts::{MAX_VALUES, PartError, Values};

pub(super) fn encode(values: &Values) -> Numbers {
    let mut bytes = Vec::with_capacity(4 * values.as_slice().len());
    values.as_slice().iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    Numbers { width: values.width() as u32, values: Some(Encoded::F32(bytes.into())) }
}

pub(super) fn decode(numbers: Option<Numbers>) -> Result<Values, WireError> {
    let missing = WireError::Missing { field: "numbers" };
    let Some(Numbers { width, values: Some(Encoded::F32(bytes)) }) = numbers else {
        return Err(missing);
    };
    if bytes.len() > 4 * MAX_VALUES || !bytes.len().is_multiple_of(4) {
        let expected = format!("a multiple of 4, at most {}", 4 * MAX_VALUES);
        return Err(PartError::new("bytes of numbers", bytes.len(), expected).into());
    }
    let numbers = bytes
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    Ok(Values::new(width as usize, numbers)?)
}
