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

mod apart;
mod architecture;
mod calibrated_ctm;
mod card;
mod filtered;
mod held_out;
mod host_model;
mod host_study;
mod inputs;
mod intervals;
mod label_free;
mod label_free_error;
pub mod layers;
mod live;
mod local_shares;
mod measurement_table;
mod measurements;
mod metrics;
mod model_error;
mod model_folder;
mod neural_estimator;
mod objective;
mod parts;
mod party_block;
mod party_folder;
mod physics_informed;
mod plan;
mod queue_states;
mod recipe;
mod ridge;
mod sample;
mod scale_up;
mod scales;
mod segments;
mod sizes;
mod sources;
mod study;
mod sub_model;
#[cfg(test)]
mod test_models;
mod timeline;
mod trainer;
mod whole_file;

pub use apart::{Apart, LinearPart, WeightsApart};
pub use architecture::{Architecture, HostShape, ModelShape, Seat, parameter_count};
pub use calibrated_ctm::{calibrated_ctm, ctm_of_counts, movement_counts};
pub use card::{CommonCard, GuestCard, HostCard, ModelCard};
pub use filtered::{FilteredError, FilteredStates};
pub use held_out::{
    FoldRates, FoldedInputs, HeldOutError, HeldOutEstimator, HeldOutStudy, HeldOutWindow,
    LabelNoise, Penetration, ShareVariation, counted_per_step, held_out_entries, held_out_part,
    local_shares, passages_per_step, penetration, whole_fleet,
};
pub use host_model::{ApartStep, Embeddings, HostBatch, HostModel, Rows, Share};
pub use host_study::HostStudy;
pub use inputs::{Arrangement, GuestInputs, HostInputs, InputsError};
pub use intervals::{Coverage, Intervals, IntervalsError, LEVELS, Level, LinkInterval};
pub use label_free::{LabelFreeEstimator, LabelFreeRun, LabelFreeStudy, Measures};
pub use label_free_error::LabelFreeError;
pub use live::{LiveFleet, LiveLoops};
pub use measurement_table::MeasurementTable;
pub use measurements::{Entry, Gathered, Measured, MeasuredBatch, Quantity, Readings};
pub use metrics::{Errors, Estimates, Score, score};
pub use model_error::ModelError;
pub use model_folder::{MODEL_FORMAT, ModelFile, ModelFolderError};
pub use neural::Checkpoint as PartyWeights;
pub use neural_estimator::{NeuralError, NeuralEstimator, NeuralStudy, PreparedEstimator};
pub use objective::{Labelled, Labels, Objective};
pub use parts::{Crossing, GuestShape, SubModelKind, party_seed};
pub use party_block::{PARTY_CHECKPOINT, UpdateRule};
pub use party_folder::{PARTY_FORMAT, PartyFile, Trained, TrainedGuest, TrainedHost, no_weights};
pub use physics_informed::{
    CTM_DEVIATIONS, LearnedPhysics, Physics, PhysicsInformed, SYSTEMATIC, SomeLabels,
};
pub use plan::{GuestPlan, NeuralPlan};
pub use queue_states::{
    LiveQueues, Origin, QueueKnowledge, QueueReport, QueueState, QueueStates, QueueStatesError,
};
pub use recipe::Recipe;
pub use ridge::{Ridge, RidgeError};
pub use sample::{Sample, View};
pub use scale_up::scale_up;
pub use scales::{GuestScales, HostScales, Scale};
pub use segments::{epoch_order, segments, whole_batch};
pub use sizes::Sizes;
pub use sources::{FleetData, LocalShares, LoopData};
pub use study::{
    GuestFeatures, Party, Study, StudyError, TargetKind, WINDOW, last_share, train_span,
};
pub use sub_model::{LayerSubModel, PassError, SubModel};
pub use timeline::{StepsCard, Timeline};
pub use trainer::{Epoch, Examples, TrainError, Trainer};
