//! The vehicles under way.

use traffic::{LinkId, Totals, VehicleId};

use crate::journey::{Position, Sighting};

/// A vehicle under way.
pub(super) struct UnderWay {
    pub vehicle: VehicleId,
    pub band: u8,
    /// Where its trip began.
    pub origin: LinkId,
    pub seen: Sighting,
    /// The box of link × step that it is in, with its own totals there.
    pub in_box: (i64, LinkId),
    pub own: Totals,
    pub span: CellSpan,
}

/// How far a vehicle can go on with nothing to note but time and distance: the rest of its cell, or
/// up to the next loop. Nearly all that vehicles do from moment to moment is within it.
#[derive(Clone, Copy)]
pub(super) struct CellSpan {
    /// Where the boxes of the vehicle's band and link begin in the sums of a step.
    pub row: usize,
    pub cell: usize,
    /// Metres from the start of the link, not included.
    pub end: f64,
}

impl CellSpan {
    /// None at all.
    pub(super) const NONE: Self = Self { row: 0, cell: 0, end: f64::NEG_INFINITY };
}

impl UnderWay {
    /// A vehicle where it is first seen.
    pub(super) fn new(vehicle: VehicleId, seen: Sighting, band: u8) -> Self {
        let (origin, in_box) = (seen.link, (i64::MAX, seen.link));
        Self { vehicle, band, origin, seen, in_box, own: Totals::default(), span: CellSpan::NONE }
    }

    /// The metres that it went, if all it did in a stretch was to go on within its span.
    #[inline]
    pub(super) fn continues_within_span(&self, stretch: &Stretch, now: Position) -> Option<f64> {
        self.goes(stretch, now).filter(|_| f64::from(now.metres) < self.span.end)
    }

    /// The metres that it went, if all it did in a stretch was to go along its link.
    #[inline]
    pub(super) fn goes_along(&self, stretch: &Stretch, now: Position, length: f64) -> Option<f64> {
        let has_span = self.span.end > f64::NEG_INFINITY;
        self.goes(stretch, now).filter(|_| has_span && f64::from(now.metres) < length)
    }

    #[inline]
    fn goes(&self, stretch: &Stretch, now: Position) -> Option<f64> {
        let metres = f64::from(now.metres) - f64::from(self.seen.metres);
        let goes = self.in_box == (stretch.step, now.link)
            && self.seen.time == stretch.begin
            && (0.0..=stretch.furthest).contains(&metres);
        goes.then_some(metres)
    }
}

/// The time between two moments that lie in one sub-step.
pub(super) struct Stretch {
    pub begin: f64,
    pub end: f64,
    pub step: i64,
    /// Where the sums of the sub-step begin in a link's.
    pub sub_step: usize,
    /// The furthest that a vehicle can get in it.
    pub furthest: f64,
}

/// All vehicles under way, packed, and where each one is among them: every sample asks, so there
/// is no hashing.
#[derive(Default)]
pub(super) struct Traffic {
    all: Vec<UnderWay>,
    /// `[vehicle]`: its place in `all`.
    places: Vec<VehicleSlot>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VehicleSlot {
    NeverSeen,
    Gone,
    At(u32),
}

impl Traffic {
    #[inline]
    pub(super) fn find(&mut self, vehicle: VehicleId) -> Option<&mut UnderWay> {
        match self.places.get(vehicle.index()) {
            Some(&VehicleSlot::At(place)) => self.all.get_mut(place as usize),
            _ => None,
        }
    }

    /// Adds a vehicle that is not under way; true if it was before.
    pub(super) fn add(&mut self, vehicle: UnderWay) -> bool {
        let index = vehicle.vehicle.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, VehicleSlot::NeverSeen);
        }
        let place = VehicleSlot::At(self.all.len() as u32);
        self.all.push(vehicle);
        std::mem::replace(&mut self.places[index], place) == VehicleSlot::Gone
    }

    pub(super) fn remove(&mut self, vehicle: VehicleId) {
        let Some(&VehicleSlot::At(place)) = self.places.get(vehicle.index()) else { return };
        self.all.swap_remove(place as usize);
        self.places[vehicle.index()] = VehicleSlot::Gone;
        if let Some(moved) = self.all.get(place as usize) {
            self.places[moved.vehicle.index()] = VehicleSlot::At(place);
        }
    }

    pub(super) fn clear(&mut self) {
        for vehicle in self.all.drain(..) {
            self.places[vehicle.vehicle.index()] = VehicleSlot::Gone;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &UnderWay> {
        self.all.iter()
    }
}
