//! The vehicles of a dataset or stream: numbers for the machine, names for people.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use traffic::{VehicleClass, VehicleId};

/// Gives each vehicle name a number, in order of first sight.
#[derive(Clone, Debug, Default)]
pub struct VehicleTable {
    by_name: FxHashMap<Arc<str>, VehicleId>,
    vehicles: Vec<Vehicle>,
    /// Numbers of forgotten vehicles, to be given out again.
    free: Vec<VehicleId>,
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
            free: Vec::new(),
        }
    }

    /// The number of a name; a new name is added as a vehicle of the class.
    pub fn number(&mut self, name: &str, class: VehicleClass) -> VehicleId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let vehicle = Vehicle { name: Arc::clone(&name), class };
        let id = self.free.pop().unwrap_or(VehicleId(self.vehicles.len() as u32));
        match self.vehicles.get_mut(id.index()) {
            Some(forgotten) => *forgotten = vehicle,
            None => self.vehicles.push(vehicle),
        }
        self.by_name.insert(name, id);
        id
    }

    /// Forgets a vehicle that has left: a stream has no end, a table must have one. Its number may
    /// be given to another.
    pub(crate) fn forget(&mut self, id: VehicleId) {
        let Some(vehicle) = self.vehicles.get(id.index()) else { return };
        if self.by_name.get(&vehicle.name) == Some(&id) {
            self.by_name.remove(&vehicle.name);
            self.free.push(id);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_its_first_class() {
        let mut table = VehicleTable::with_capacity(u64::MAX);
        let bus = table.number("7", VehicleClass::Bus);
        assert_eq!(table.number("07", VehicleClass::Car), VehicleId(1), "names are texts");
        assert_eq!(table.number("7", VehicleClass::Car), bus);
        assert_eq!(table.get(bus).map(|vehicle| vehicle.class), Some(VehicleClass::Bus));
        let names: Vec<&str> = table.all().iter().map(|vehicle| &*vehicle.name).collect();
        assert_eq!(names, ["7", "07"]);
        assert_eq!(table.get(VehicleId(2)), None);
        // What was never given out cannot be forgotten.
        table.forget(VehicleId(99));
        assert_eq!(table.number("new", VehicleClass::Car), VehicleId(2));
    }

    #[test]
    fn numbers_of_forgotten_vehicles_are_given_out_again() {
        let mut table = VehicleTable::default();
        let [a, b] = ["a", "b"].map(|name| table.number(name, VehicleClass::Car));
        table.forget(a);
        // Twice is once.
        table.forget(a);
        assert_eq!(table.number("b", VehicleClass::Car), b);
        assert_eq!(table.number("c", VehicleClass::Car), a);
        assert_eq!(table.get(a).map(|vehicle| &*vehicle.name), Some("c"));
        assert_eq!(table.number("a", VehicleClass::Car), VehicleId(2));
    }
}
