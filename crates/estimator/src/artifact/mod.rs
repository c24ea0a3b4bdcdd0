//! Trained models as files, the estimators they become, and intervals around their estimates.

pub(crate) mod intervals;
pub(crate) mod model_folder;
pub(crate) mod neural_estimator;
pub(crate) mod party_folder;
pub(crate) mod record;
pub(crate) mod saved;
pub(crate) mod whole_file;

pub use intervals::{Coverage, Intervals, IntervalsError, KnownError, Level, LinkInterval};
pub use model_folder::{EstimatorFile, KeptWith, ModelFile, ModelFolderError};
pub use neural_estimator::{NeuralError, NeuralEstimator, NeuralStudy, PreparedEstimator};
pub use party_folder::{
    PARTY_FORMAT, PartyFile, SummedGuest, SummedHost, Trained, TrainedGuest, TrainedHost,
    no_weights,
};
pub use record::{DataSpec, Epoch, GuestRecord, HostRecord, ModelRecord};
pub use saved::{
    Combination, CombinedModel, EstimateError, Remark, SavedEstimator, weighted_sum,
    weighted_windows, whole_fleets,
};
