//! From link-time features to estimates of density and flow.
//!
//! ```text
//! data/      features of a dataset as windows of numbers, split in time and scaled; measurements
//! model/     sub-models of the parties, the host's head, sizes, seeds, update rules
//! loss/      labels; measurements and a traffic model; a held-out part of the fleet
//! baseline/  scale-up, ridge regression, unscented filter, queue profiles
//! artifact/  trained models as files, the estimators they become, intervals
//! least_squares   regularised, in closed form: for ridge regression and the read-out
//! metrics    errors over the target links, as the paper reports them
//! ```
//!
//! 1. [`Study`] reads a dataset: [`LoopData`] of the host, [`FleetData`] of guests, targets, a [`Timeline`](data::Timeline) split in time.
//! 2. [`HostInputs`], [`GuestInputs`]: what each party's sub-model reads of a window. Training reads all data through
//!    one trait, [`WindowSource`].
//! 3. A [`NeuralPlan`] becomes a [`HostModel`] and guests' [`SubModel`]s. Only a guest's embedding enters the host's head.
//! 4. A [`TrainingSignal`] becomes a loss ([`Objective`]): of labels ([`NeuralStudy`]), of measurements and a traffic model
//!    ([`LabelFreeStudy`]), of a held-out part of the fleet ([`HeldOutStudy`]). Crate `training` minimises it.
//! 5. Trained parts are put together in a [`NeuralEstimator`] or [`HeldOutEstimator`], or kept by each party
//!    ([`PartyFile`]).
//! 6. [`Score`]: errors of [`Estimates`]; [`Intervals`] around single ones. References that every estimator must beat:
//!    [`scale_up`], [`Ridge`], and without ground truth [`QueueStates`].
//!
//! This crate knows nothing of the network between parties, nor of ciphertexts.

pub mod artifact;
pub mod baseline;
pub mod data;
mod least_squares;
pub mod loss;
mod metrics;
pub mod model;

pub use artifact::{
    Epoch, Intervals, LinkInterval, NeuralEstimator, NeuralStudy, PartyFile, SavedEstimator,
    TrainedGuest, TrainedHost,
};
pub use baseline::{CalibratedFilter, QueueKnowledge, QueueStates, Ridge, scale_up};
pub use data::{
    Arrangement, Asked, FeatureSet, FleetData, GuestFeatures, GuestInputs, HostInputs, HostStudy,
    LEAST_WINDOW, LoopData, MOST_WINDOW, MeasurementSource, MeasurementTable, Observed, Readings,
    Study, TargetKind, WINDOW, WindowSource, epoch_order, gather_rows, segments, whole_batch,
};
pub use loss::{
    HeldOutEstimator, HeldOutStudy, LabelFreeStudy, Objective, PhysicsInformed, TrainingSignal,
};
pub use metrics::{Errors, Estimates, Score, score};
pub use model::{
    Architecture, EmbeddingCoefficients, EmbeddingShape, Embeddings, GuestPlan, GuestShape,
    GuestSlot, HostModel, LayerSubModel, ModelShape, NeuralPlan, PARTY_CHECKPOINT, Recipe, Sizes,
    SubModel, SubModelKind, UpdateRule,
};
pub use neural::Checkpoint as PartyWeights;
