//! What can be wrong with a filter or with what it is given.

use thiserror::Error;

use crate::error::ModelError;

/// Why a filter cannot be made or cannot go on.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FilterError {
    /// A number out of its range.
    #[error("filter: {place}: found {found}, expected {expected}")]
    Number {
        /// What it is.
        place: String,
        /// Its value.
        found: f64,
        /// What it should be.
        expected: &'static str,
    },
    /// A slice of the wrong length.
    #[error("filter: {what}: found {found} numbers, expected {expected}")]
    Shape {
        /// Which slice.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The right length.
        expected: usize,
    },
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

pub(super) fn check_len(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), FilterError> {
    if found == expected { Ok(()) } else { Err(FilterError::Shape { what, found, expected }) }
}

/// Refuses what is no positive number.
pub(super) fn check_positive(place: impl Fn() -> String, found: f64) -> Result<(), FilterError> {
    if found > 0.0 && found.is_finite() {
        return Ok(());
    }
    Err(FilterError::Number { place: place(), found, expected: "more than 0" })
}
