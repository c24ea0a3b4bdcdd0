//! Why there is no loss without ground truth.

use thiserror::Error;

use crate::artifact::neural_estimator::NeuralError;
use crate::loss::held_out::HeldOutError;
use crate::model::sub_model::PassError;

/// What is wrong with data or plan.
#[derive(Debug, Error)]
pub enum LabelFreeError {
    /// The model or its inputs.
    #[error(transparent)]
    Neural(#[from] NeuralError),
    /// The folds.
    #[error(transparent)]
    HeldOut(#[from] HeldOutError),
    /// The loss.
    #[error(transparent)]
    Loss(#[from] PassError),
    /// The traffic model.
    #[error(transparent)]
    Physics(#[from] physics::ModelError),
    /// What the traffic model is calibrated with.
    #[error(transparent)]
    Calibration(#[from] physics::calibrate::CalibrationError),
    /// Not one guest.
    #[error("found {0} guests, expected one, all of whose data are in one place")]
    Guests(usize),
    /// Not one fleet where none is held out.
    #[error("found {0} fleets, expected one where no fold is held out")]
    Fleets(usize),
}
