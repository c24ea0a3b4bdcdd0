//! Why parameters could not be found.

use thiserror::Error;

use crate::error::ModelError;

/// Why a calibration failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CalibrationError {
    /// Not enough to go by.
    #[error("calibration: {what}: found {found}, expected at least {needed}")]
    TooLittle {
        /// Of what.
        what: String,
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Data that say nothing about what is sought.
    #[error("calibration: {what}: {why}")]
    Unidentified {
        /// What was sought.
        what: String,
        /// What is missing in the data.
        why: &'static str,
    },
    /// A number that cannot be.
    #[error("calibration: {what}: found {found}, expected {expected}")]
    Number {
        /// Which.
        what: String,
        /// Its value.
        found: f64,
        /// What it should be.
        expected: &'static str,
    },
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
}
