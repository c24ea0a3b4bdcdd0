//! Which cars double-park: one in each slot of time, at places that take turns.

use traffic::{Network, Seconds, VehicleClass};

use super::random::{Purpose, bits, uniform};
use super::{Blockages, ParkingPosition};
use crate::departure::{Departure, Stop};

/// Gives stops to departures as they pass.
///
/// Time is divided into slots of 1/`per_hour`; each has one blockage, from a random moment of the
/// slot on. Stratified like this, every stretch of the day has its blockages, so that the last
/// fifth is like the rest.
#[derive(Clone, Debug)]
pub(super) struct Parking<'a> {
    blockages: &'a Blockages,
    seed: u64,
    /// Seconds.
    slot_length: f64,
    slot: u64,
    /// Blockages whose moment has come and that no car has taken yet, with their slots.
    waiting: Vec<(u64, Stop)>,
}

impl<'a> Parking<'a> {
    pub(super) fn new(blockages: &'a Blockages, seed: u64) -> Self {
        let slot_length = 3600.0 / blockages.per_hour;
        Self { blockages, seed, slot_length, slot: 0, waiting: Vec::new() }
    }

    /// Makes the departure stop if a blockage waits that it can take.
    ///
    /// Only a car whose route goes on from the lane of the place takes it: one that would have to
    /// change lanes after the stop can be stuck there for hours.
    pub(super) fn offer(&mut self, departure: &mut Departure, network: &Network) {
        let now = departure.time.get();
        while self.begin(self.slot) <= now {
            self.waiting.push((self.slot, self.stop(self.slot)));
            self.slot += 1;
        }
        // A place that no car passes must not pile up blockages.
        let current = (now / self.slot_length) as u64;
        self.waiting.retain(|&(slot, _)| slot + 1 >= current);
        if departure.class != VehicleClass::Car {
            return;
        }
        let taken = self.waiting.iter().position(|(_, stop)| leads_on(departure, stop, network));
        departure.stop = taken.map(|index| self.waiting.remove(index).1);
    }

    fn begin(&self, slot: u64) -> f64 {
        let within = uniform(self.seed, Purpose::BlockageTime, 0, slot);
        (slot as f64 + within) * self.slot_length
    }

    fn stop(&self, slot: u64) -> Stop {
        let ParkingPosition { link, lane, position } = self.place(slot);
        let share = 0.5 + uniform(self.seed, Purpose::BlockageDuration, 0, slot);
        // Whole seconds: both worlds can keep them exactly.
        let duration = (self.blockages.mean_duration.get() * share).round().max(1.0);
        Stop { link, lane, position, duration: Seconds::new(duration) }
    }

    /// The places come in rounds, each round in a random order.
    fn place(&self, slot: u64) -> ParkingPosition {
        let places = &self.blockages.places;
        let (round, turn) = (slot / places.len() as u64, slot as usize % places.len());
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|&place| bits(self.seed, Purpose::BlockagePlace, place, round));
        places[order[turn]]
    }
}

fn leads_on(departure: &Departure, stop: &Stop, network: &Network) -> bool {
    let Some(at) = departure.route.iter().position(|&link| link == stop.link) else {
        return false;
    };
    let Some(&next) = departure.route.get(at + 1) else { return true };
    network
        .turn_between(stop.link, next)
        .is_some_and(|turn| network.turn(turn).lanes.iter().any(|pair| pair.from == stop.lane))
}
