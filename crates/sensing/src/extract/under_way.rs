//! The vehicles under way.

use traffic::{LinkId, Totals, VehicleId, VehicleSample};

use crate::journey::Sighting;

/// A vehicle under way.
pub(super) struct UnderWay {
    pub vehicle: VehicleId,
    pub seen: Sighting,
    pub band: u8,
    /// The box of link × step that it is in, with its own totals there.
    pub in_box: (i64, LinkId),
    pub own: Totals,
}

impl UnderWay {
    /// A vehicle where it is first seen.
    pub fn new(sample: &VehicleSample, band: u8) -> Self {
        let &VehicleSample { time, vehicle, link, position, .. } = sample;
        Self {
            vehicle,
            seen: Sighting { time, link, position, origin: link },
            band,
            in_box: (i64::MAX, link),
            own: Totals::default(),
        }
    }
}

/// All vehicles under way, packed, and where each one is among them: every sample asks, so there
/// is no hashing.
#[derive(Default)]
pub(super) struct Traffic {
    all: Vec<UnderWay>,
    /// `[vehicle]`: its place in `all`.
    places: Vec<Place>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    NeverSeen,
    Gone,
    At(u32),
}

impl Traffic {
    #[inline]
    pub fn find(&mut self, vehicle: VehicleId) -> Option<&mut UnderWay> {
        match self.places.get(vehicle.index()) {
            Some(&Place::At(place)) => self.all.get_mut(place as usize),
            _ => None,
        }
    }

    /// Adds a vehicle that is not under way; true if it was before.
    pub fn add(&mut self, vehicle: UnderWay) -> bool {
        let index = vehicle.vehicle.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, Place::NeverSeen);
        }
        let place = Place::At(self.all.len() as u32);
        self.all.push(vehicle);
        std::mem::replace(&mut self.places[index], place) == Place::Gone
    }

    pub fn remove(&mut self, vehicle: VehicleId) {
        let Some(&Place::At(place)) = self.places.get(vehicle.index()) else { return };
        self.all.swap_remove(place as usize);
        self.places[vehicle.index()] = Place::Gone;
        if let Some(moved) = self.all.get(place as usize) {
            self.places[moved.vehicle.index()] = Place::At(place);
        }
    }

    pub fn clear(&mut self) {
        for vehicle in self.all.drain(..) {
            self.places[vehicle.vehicle.index()] = Place::Gone;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &UnderWay> {
        self.all.iter()
    }
}
