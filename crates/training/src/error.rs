//! Why something was not trained.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use progress::Stopped;
use thiserror::Error;

use crate::engine::EngineError;
use crate::options::InvalidOption;

/// The error of another crate, whose message says all.
type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A result of this crate.
pub type Result<T, E = TrainingError> = std::result::Result<T, E>;

/// Why something was not trained.
#[derive(Debug, Error)]
pub enum TrainingError {
    /// Options, settings or data that do not fit; the message says what was found and what was expected.
    #[error("{0}")]
    Invalid(String),
    /// An option that does not fit.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// Where an error occurred.
    #[error("{place}")]
    In {
        /// The place: an option, a file, a party.
        place: String,
        /// The error.
        source: Box<TrainingError>,
    },
    /// Reading or writing a file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Someone wanted it to stop.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// Data or model of an estimator.
    #[error(transparent)]
    Estimator(Source),
    /// The rounds between host and guests.
    #[error(transparent)]
    Federation(Source),
    /// Noise or sealing.
    #[error(transparent)]
    Protection(Source),
    /// Training.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl TrainingError {
    /// An error of a file.
    pub fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    /// The same in a place.
    pub(crate) fn within(self, place: impl Display) -> Self {
        Self::In { place: place.to_string(), source: Box::new(self) }
    }
}

macro_rules! from_errors {
    ($variant:ident: $($error:ty),+ $(,)?) => {
        $(impl From<$error> for TrainingError {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        })+
    };
}

from_errors!(Estimator:
    estimator::artifact::EstimateError,
    estimator::baseline::FilteredError,
    estimator::loss::HeldOutError,
    estimator::loss::LabelFreeError,
    estimator::artifact::ModelFolderError,
    estimator::artifact::NeuralError,
    estimator::model::PassError,
    estimator::baseline::QueueStatesError,
    estimator::baseline::RidgeError,
    estimator::data::FleetSumError,
    estimator::data::StudyError,
    sensing::FeaturesError,
);
from_errors!(Federation:
    protocol::LedgerError,
    federation::ModelFailure,
    protocol::NameError,
    federation::PartyError,
    federation::StoreError,
    federation::memory::MemoryError,
    protocol::message::parts::PartError,
);
from_errors!(Protection:
    sealed::aggregate::AggregateError,
    sealed::random::RandomnessError,
    sealed::SealedError,
    sealed::fixed_point::FixedPointError,
    sealed::noise::NoiseError,
    sealed::noise::NoisedError,
    sealed::wire::DecodeError,
);

impl From<durable::WriteError> for TrainingError {
    fn from(error: durable::WriteError) -> Self {
        Self::File { path: error.path, source: error.source }
    }
}

impl From<serde_json::Error> for TrainingError {
    fn from(error: serde_json::Error) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Says where an error occurred.
pub trait Context<T> {
    /// In this place.
    fn context(self, place: impl Display) -> Result<T>;
    /// In a place that is named only if there is an error.
    fn with_context<P: Display>(self, place: impl FnOnce() -> P) -> Result<T>;
}

impl<T, E: Into<TrainingError>> Context<T> for std::result::Result<T, E> {
    fn context(self, place: impl Display) -> Result<T> {
        self.map_err(|error| error.into().within(place))
    }
    fn with_context<P: Display>(self, place: impl FnOnce() -> P) -> Result<T> {
        self.map_err(|error| error.into().within(place()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, missing: impl Display) -> Result<T> {
        self.ok_or_else(|| TrainingError::Invalid(missing.to_string()))
    }
    fn with_context<P: Display>(self, missing: impl FnOnce() -> P) -> Result<T> {
        self.ok_or_else(|| TrainingError::Invalid(missing().to_string()))
    }
}

macro_rules! bail {
    ($($message:tt)+) => {
        return Err($crate::TrainingError::Invalid(format!($($message)+)))
    };
}
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        // No `!`: conditions compare floating-point numbers, and NaN must fail them.
        if $condition {} else {
            $crate::error::bail!($($message)+);
        }
    };
}
pub(crate) use {bail, ensure};
