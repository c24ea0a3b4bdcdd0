//! From link-time features to estimates of density and flow.
//!
//! 1. [`Study`]: the features of a dataset as windows of numbers, with targets, split in time.
//! 2. References that every estimator must beat: [`scale_up`] and [`Ridge`] regression; and
//!    [`QueueStates`], which needs no ground truth but kinematic wave theory.
//! 3. The neural estimator: a [`NeuralPlan`] on a [`NeuralStudy`] becomes, by a [`Trainer`], a
//!    [`NeuralEstimator`]. Its models ([`ModelShape`]) are made of `neural`'s layers and of
//!    [`layers`].
//! 4. [`HeldOutStudy`] and [`HeldOutEstimator`]: the same without ground truth, part of the fleet held
//!    out.
//! 5. [`Score`]: errors over the target links, as the paper reports them; [`Intervals`] around single
//!    estimates.
//!
//! This crate knows nothing of the network between parties, nor of ciphertexts.

mod artifact;
mod baseline;
mod data;
mod loss;
mod metrics;
mod model;
mod trainer;

pub use artifact::*;
pub use baseline::*;
pub use data::*;
pub use loss::*;
pub use metrics::{Errors, Estimates, Score, score};
pub use model::*;
pub use neural::Checkpoint as PartyWeights;
pub use trainer::{Epoch, Examples, TrainError, Trainer};
