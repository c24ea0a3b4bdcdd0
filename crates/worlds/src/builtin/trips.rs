//! From a departure to a vehicle that can drive: checks it against the network.

use traffic::{Network, Seconds, TurnId, VehicleId};

use super::plan::{SimulationError, SimulationPlan};
use super::random::uniform;
use super::vehicle::{Parking, Vehicle};
use crate::departure::{Departure, Stop};

/// Checks departures as they come.
#[derive(Debug, Default)]
pub(super) struct Trips {
    /// Time and number of the last one.
    last: Option<(Seconds, VehicleId)>,
}

impl Trips {
    /// The vehicle of the next departure, still outside the network.
    pub(super) fn next(
        &mut self,
        network: &Network,
        plan: &SimulationPlan,
        departure: &Departure,
    ) -> Result<Vehicle, SimulationError> {
        let number = departure.vehicle.0;
        let fail = |problem| SimulationError::Departure { vehicle: number, problem };
        self.check_order(departure).map_err(fail)?;
        let turns = turns_of(network, departure).map_err(fail)?;
        let parking = departure
            .stop
            .map(|stop| parking_of(network, departure, stop))
            .transpose()
            .map_err(fail)?;
        self.last = Some((departure.time, departure.vehicle));
        // Steps count from 1, so counter 0 is free for what a driver is like.
        let individuality = uniform(plan.seed, number, 0);
        Ok(Vehicle::new(number, departure.class, turns, parking, individuality, plan.noise))
    }

    fn check_order(&self, departure: &Departure) -> Result<(), String> {
        if !departure.time.get().is_finite() {
            return Err(format!("departure time: found {}, expected a number", departure.time));
        }
        match self.last {
            Some((time, vehicle)) if departure.time < time || departure.vehicle <= vehicle => {
                Err(format!(
                    "departs at {} after vehicle {} at {time}, expected departures in order of time and number",
                    departure.time, vehicle.0
                ))
            }
            _ => Ok(()),
        }
    }
}

fn turns_of(network: &Network, departure: &Departure) -> Result<Box<[TurnId]>, String> {
    let route = &departure.route;
    if route.is_empty() {
        return Err("route: found no links, expected at least one".into());
    }
    let links = network.links().len();
    if let Some(link) = route.iter().find(|link| link.index() >= links) {
        return Err(format!("route: found link number {}, expected less than {links}", link.0));
    }
    let turn = |from, to| {
        network.turn_between(from, to).ok_or_else(|| {
            let name = |link| &network.link(link).name;
            format!("route: there is no turn from `{}` to `{}`", name(from), name(to))
        })
    };
    route.windows(2).map(|pair| turn(pair[0], pair[1])).collect()
}

fn parking_of(network: &Network, departure: &Departure, stop: Stop) -> Result<Parking, String> {
    let Some(leg) = departure.route.iter().position(|&link| link == stop.link) else {
        let name = network.links().get(stop.link.index()).map_or("?", |link| &link.name);
        return Err(format!("stop: link `{name}` is not on the route"));
    };
    let link = network.link(stop.link);
    let (position, left) = (stop.position.get(), stop.duration.get());
    let fits = stop.lane < link.lanes && position > 0.0 && position <= link.length.get();
    if !(fits && left >= 0.0 && left.is_finite()) {
        return Err(format!(
            "stop: found lane {} at {} for {}, expected a lane below {} at most {} along `{}` for 0 s or more",
            stop.lane, stop.position, stop.duration, link.lanes, link.length, link.name
        ));
    }
    Ok(Parking { leg: leg as u32, lane: stop.lane, position, left, parked: false })
}
