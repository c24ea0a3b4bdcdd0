//! Records to features.

mod vehicles;

pub use vehicles::{Vehicle, VehicleTable};
