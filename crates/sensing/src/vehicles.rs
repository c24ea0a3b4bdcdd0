//! The vehicles of a dataset or stream: numbers for the machine, names for people.

use rustc_hash::FxHashMap;
use traffic::{VehicleClass, VehicleId};

/// Gives each vehicle name a number, in order of first sight.
#[derive(Clone, Debug, Default)]
pub struct VehicleTable {
    by_name: FxHashMap<Box<str>, VehicleId>,
    vehicles: Vec<Vehicle>,
}

/// What is known of a vehicle.
#[derive(Clone, Debug, PartialEq)]
pub struct Vehicle {
    /// Its name in the source.
    pub name: Box<str>,
    /// What kind it is.
    pub class: VehicleClass,
}

impl VehicleTable {
    /// The number of a name; a new name is added as a vehicle of the class.
    pub fn number(&mut self, name: &str, class: VehicleClass) -> VehicleId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = VehicleId(self.vehicles.len() as u32);
        self.by_name.insert(name.into(), id);
        self.vehicles.push(Vehicle { name: name.into(), class });
        id
    }

    /// A vehicle, if the number was given out.
    pub fn get(&self, id: VehicleId) -> Option<&Vehicle> {
        self.vehicles.get(id.index())
    }

    /// All vehicles, indexed by [`VehicleId`].
    pub fn all(&self) -> &[Vehicle] {
        &self.vehicles
    }
}
