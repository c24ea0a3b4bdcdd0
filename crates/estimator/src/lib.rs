//! From link-time features to estimates of density and flow.
//!
//! 1. [`Study`]: the features of a dataset as windows of numbers, with targets, split in time.
//! 2. References that every estimator must beat: [`scale_up`] and [`Ridge`] regression.
//! 3. The neural estimator: a [`NeuralPlan`] on a [`NeuralStudy`] becomes, by a [`Trainer`], a
//!    [`NeuralEstimator`]. Its models ([`ModelShape`]) are made of `neural`'s layers and of
//!    [`layers`].
//! 4. [`Score`]: errors over the target links, as the paper reports them.
//!
//! This crate knows nothing of the network between parties, nor of ciphertexts.

mod architecture;
mod host_model;
mod inputs;
pub mod layers;
mod metrics;
mod model_folder;
mod neural_estimator;
mod parts;
mod party_block;
mod recipe;
mod ridge;
mod scale_up;
mod scales;
mod study;
mod sub_model;
#[cfg(test)]
mod test_models;
mod trainer;

pub use architecture::{
    Architecture, HostShape, ModelError, ModelShape, Seat, Sizes, parameter_count,
};
pub use host_model::{Embeddings, HostModel};
pub use inputs::{Arrangement, Inputs, InputsError};
pub use metrics::{Errors, Estimates, Score, score};
pub use model_folder::{MODEL_FORMAT, ModelFile, ModelFolderError};
pub use neural_estimator::{ModelCard, NeuralError, NeuralEstimator, NeuralPlan, NeuralStudy};
pub use parts::{Crossing, GuestShape, SubModelKind, party_seed};
pub use party_block::{PARTY_CHECKPOINT, UpdateRule};
pub use recipe::Recipe;
pub use ridge::{Ridge, RidgeError};
pub use scale_up::scale_up;
pub use scales::{InputScales, Scale};
pub use study::{Party, Study, StudyError, TargetKind, WINDOW};
pub use sub_model::{LayerSubModel, PassError, SubModel};
pub use trainer::{Epoch, Examples, TrainError, Trainer};
