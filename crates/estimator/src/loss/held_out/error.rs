//! What can be wrong with a fleet that is to be held out in part.

use thiserror::Error;

use crate::artifact::neural_estimator::NeuralError;

/// Why a fleet's folds cannot stand in for the truth.
#[derive(Debug, Error, PartialEq)]
pub enum HeldOutError {
    /// Too few folds.
    #[error(
        "folds of the fleet: found {0}, expected 2 or more, so that some can be seen while one is held out"
    )]
    Folds(usize),
    /// Folds that do not belong together.
    #[error(
        "fold `{fold}`: found other steps, cells or another network than of the loops, expected the same"
    )]
    OtherSteps {
        /// The fold.
        fold: String,
    },
    /// A share that is none.
    #[error("penetration rate: found {0}, expected more than 0 and at most 1")]
    Rate(f64),
    /// Nothing to learn from.
    #[error("fleet: found no vehicle in the training part, expected some")]
    EmptyFleet,
    /// Loops that cannot tell the penetration.
    #[error(
        "penetration rate from loops: found {passages:.1} passages of the fleet and {counted:.1} vehicles counted in the training part, expected some of both and no more of the fleet than were counted"
    )]
    Penetration {
        /// Of the fleet, on the loops' links.
        passages: f64,
        /// By the loops.
        counted: f64,
    },
    /// More than one guest in the plan, or none.
    #[error("guests that hold out part of their fleet: found {0}, expected 1")]
    Guests(usize),
    /// Features or model.
    #[error(transparent)]
    Neural(#[from] NeuralError),
}
