//! Parameters of the models from data: the host's own, and aggregates that guests may add.
//!
//! 1. [`fit_diagram`]: a fundamental diagram from densities and flows of a link.
//! 2. [`TurnCounts`], [`ratios_from_flows`]: turning ratios from counts, or from flows where no turn
//!    was counted.
//! 3. [`process_noise`], [`measurement_noise`]: variances of the model's and the sensors' errors.
//!
//! Everything comes with its standard error. Too little data is an error that says how little,
//! unless the caller names a fallback; which fallback was used is reported.

mod diagram;
mod error;
mod jackknife;
mod noise;
mod ratios;
mod search;

pub use diagram::{
    DiagramFit, DiagramOptions, DiagramSample, Fitted, density_of_occupancy, fit_diagram,
};
pub use error::CalibrationError;
pub use noise::{NoiseEstimate, measurement_noise, process_noise};
pub use ratios::{RatioEstimate, RatioSource, TurnCounts, ratios_from_flows};
