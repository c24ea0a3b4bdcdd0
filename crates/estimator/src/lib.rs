//! From link-time features to estimates of density and flow.
//!
//! 1. [`Study`]: the features of a dataset as windows of numbers, with targets, split in time.
//! 2. References that every estimator must beat: [`scale_up`] and [`Ridge`] regression.
//! 3. [`Score`]: errors over the target links, as the paper reports them.
//!
//! This crate knows nothing of the network between parties, nor of ciphertexts.

mod metrics;
mod ridge;
mod scale_up;
mod study;

pub use metrics::{Errors, Estimates, Score, score};
pub use ridge::{Ridge, RidgeError};
pub use scale_up::scale_up;
pub use study::{Party, Study, StudyError, TargetKind, WINDOW};
