//! From link-time features to estimates of density and flow.
//!
//! 1. [`Study`]: the features of a dataset as windows of numbers, with targets, split in time.
//! 2. References that every estimator must beat: [`scale_up`] and [`Ridge`] regression; and
//!    [`QueueStates`], which needs no ground truth but kinematic wave theory.
//! 3. Losses ([`Objective`]) of a [`TrainingSignal`]: labels ([`NeuralStudy`]), measurements and a traffic model
//!    ([`LabelFreeStudy`]), a held-out part of the fleet ([`HeldOutStudy`]).
//! 4. The models: a [`NeuralPlan`] becomes a [`HostModel`] and guests' [`SubModel`]s, which crate `training` trains;
//!    put together they are a [`NeuralEstimator`] or [`HeldOutEstimator`].
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

pub use artifact::*;
pub use baseline::*;
pub use data::*;
pub use loss::*;
pub use metrics::{Errors, Estimates, Score, score};
pub use model::*;
pub use neural::Checkpoint as PartyWeights;
