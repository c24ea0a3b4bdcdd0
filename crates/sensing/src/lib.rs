//! Records to features.

mod extract;
mod fleet;
mod journey;
mod table;
mod vehicles;

pub use extract::{
    ExtractError, ExtractReport, FeatureExtractor, FeaturePlan, FleetFeatures, StepFeatures,
};
pub use fleet::{Fleet, FleetError, Fleets, draw};
pub use journey::{Breaks, LastSeen, SampleError, check_sample};
pub use table::{Column, Kind, TableError, TableReader, TableWriter};

pub use vehicles::{Vehicle, VehicleTable};
