//! The vehicles of a dataset or stream: numbers for the machine, names for people.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use traffic::{VehicleClass, VehicleId};

/// Gives each vehicle name a number, in order of first sight.
#[derive(Clone, Debug, Default)]
pub struct VehicleTable {
    by_name: FxHashMap<Arc<str>, VehicleId>,
    vehicles: Vec<Vehicle>,
}

/// What is known of a vehicle.
#[derive(Clone, Debug, PartialEq)]
pub struct Vehicle {
    /// Its name in the source.
    pub name: Arc<str>,
    /// What kind it is.
    pub class: VehicleClass,
}

/// The most vehicles that room is made for before they are there: a file may claim more than it has.
const MOST_EXPECTED: u64 = 1 << 20;

impl VehicleTable {
    /// Empty, with room for about so many vehicles.
    pub(crate) fn with_capacity(vehicles: u64) -> Self {
        let vehicles = vehicles.min(MOST_EXPECTED) as usize;
        Self {
            by_name: FxHashMap::with_capacity_and_hasher(vehicles, Default::default()),
            vehicles: Vec::with_capacity(vehicles),
        }
    }

    /// The number of a name; a new name is added as a vehicle of the class.
    pub fn number(&mut self, name: &str, class: VehicleClass) -> VehicleId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = VehicleId(self.vehicles.len() as u32);
        let name: Arc<str> = name.into();
        self.by_name.insert(Arc::clone(&name), id);
        self.vehicles.push(Vehicle { name, class });
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
