//! The unscented Kalman filter: what a city knew of its traffic before there was learning.
//!
//! 1. [`SquareRootFilter`]: the filter itself, for any model, on triangular roots of covariances.
//! 2. [`TrafficFilter`]: on the CTM of a whole network, with loop flow and fleet speed as
//!    measurements, gaps in them, outliers, and noise that adapts to the innovations.

mod error;
mod measurement;
mod noise;
mod square_root;
mod traffic;
mod triangle;

pub use error::FilterError;
pub use measurement::{Measurements, Quantity, Reading, Softened};
pub use noise::{Adaptation, FilterNoise};
pub use square_root::{SigmaPointSpread, SquareRootFilter};
pub use traffic::{FilterPlan, FilterReport, TrafficFilter};
