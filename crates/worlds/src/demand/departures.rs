//! The stream of departures: the entries' arrivals merged, each given a class and a route.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use traffic::{LinkId, Network, Seconds, TurnId, VehicleClass, VehicleId};

use super::blockages::Parking;
use super::random::{Purpose, uniform};
use super::rate::Arrivals;
use super::{Demand, Routes};
use crate::departure::Departure;

/// Departures in order of time. Made by [`Demand::departures`].
#[derive(Clone, Debug)]
pub struct Departures<'a> {
    demand: &'a Demand,
    network: &'a Network,
    seed: u64,
    until: f64,
    arrivals: Vec<Arrivals>,
    /// The next vehicle of each entry: its time in centiseconds, and the entry.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    vehicle: u32,
    /// By entry and turn: how many vehicles the turn is behind its share.
    owed: HashMap<(usize, TurnId), f64>,
    parking: Option<Parking<'a>>,
}

impl<'a> Departures<'a> {
    pub(super) fn new(demand: &'a Demand, network: &'a Network, seed: u64, until: Seconds) -> Self {
        let mut departures = Self {
            demand,
            network,
            seed,
            until: until.get(),
            arrivals: (0..demand.entries.len())
                .map(|entry| Arrivals::new(demand, entry, seed))
                .collect(),
            next: BinaryHeap::new(),
            vehicle: 0,
            owed: HashMap::new(),
            parking: demand.blockages.as_ref().map(|blockages| Parking::new(blockages, seed)),
        };
        for entry in 0..demand.entries.len() {
            departures.queue(entry);
        }
        departures
    }

    fn queue(&mut self, entry: usize) {
        if let Some(time) = self.arrivals[entry].next_before(self.until) {
            // Centiseconds: what SUMO's files carry, so that both worlds have the same times.
            self.next.push(Reverse(((time * 100.0) as u64, entry)));
        }
    }

    fn class(&self, vehicle: u32) -> VehicleClass {
        let mut left = uniform(self.seed, Purpose::Class, 0, u64::from(vehicle));
        for &(class, share) in &self.demand.classes {
            if left < share {
                return class;
            }
            left -= share;
        }
        self.demand.classes.last().map_or(VehicleClass::Car, |&(class, _)| class)
    }

    fn route(&mut self, entry: usize, vehicle: u32) -> Arc<[LinkId]> {
        let mut link = self.demand.entries[entry].link;
        let mut route = vec![link];
        while route.len() < self.demand.longest_route {
            let turn = match self.demand.routes {
                Routes::Even => self.most_owed(entry, link),
                Routes::Random => self.drawn(link, vehicle, route.len()),
            };
            let Some(turn) = turn else { break };
            link = self.network.turn(turn).to;
            route.push(link);
        }
        route.into()
    }

    /// Error diffusion: every vehicle adds the shares, and the turn that is furthest behind gets it.
    fn most_owed(&mut self, entry: usize, link: LinkId) -> Option<TurnId> {
        let mut chosen: Option<(TurnId, f64)> = None;
        for &turn in self.network.outgoing(link) {
            let owed = self.owed.entry((entry, turn)).or_insert(0.0);
            *owed += self.demand.shares[turn.index()];
            if chosen.is_none_or(|(_, most)| *owed > most) {
                chosen = Some((turn, *owed));
            }
        }
        let (turn, owed) = chosen?;
        self.owed.insert((entry, turn), owed - 1.0);
        Some(turn)
    }

    fn drawn(&self, link: LinkId, vehicle: u32, leg: usize) -> Option<TurnId> {
        let turns = self.network.outgoing(link);
        let mut left = uniform(self.seed, Purpose::Route, leg, u64::from(vehicle));
        for &turn in turns {
            let share = self.demand.shares[turn.index()];
            if left < share {
                return Some(turn);
            }
            left -= share;
        }
        turns.last().copied()
    }
}

impl Iterator for Departures<'_> {
    type Item = Departure;

    fn next(&mut self) -> Option<Departure> {
        let Reverse((centiseconds, entry)) = self.next.pop()?;
        self.queue(entry);
        let vehicle = self.vehicle;
        self.vehicle += 1;
        let mut departure = Departure {
            time: Seconds::new(centiseconds as f64 / 100.0),
            vehicle: VehicleId(vehicle),
            class: self.class(vehicle),
            route: self.route(entry, vehicle),
            stop: None,
        };
        if let Some(parking) = &mut self.parking {
            parking.offer(&mut departure, self.network);
        }
        Some(departure)
    }
}
