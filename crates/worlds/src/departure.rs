//! One vehicle's trip, as both worlds drive it.

use std::sync::Arc;

use traffic::{LinkId, Metres, Seconds, VehicleClass, VehicleId};

/// A vehicle that wants to enter the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Departure {
    /// When it arrives at the start of its first link.
    pub time: Seconds,
    /// Its number; departures are numbered in order of time. Its name is this number in decimal.
    pub vehicle: VehicleId,
    /// What kind it is.
    pub class: VehicleClass,
    /// The links it drives along, each joined to the next by a turn.
    pub route: Arc<[LinkId]>,
    /// A stop that it makes in a driving lane, blocking it.
    pub stop: Option<Stop>,
}

/// Double parking: a stop in a lane of a link on the route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// The link.
    pub link: LinkId,
    /// The lane.
    pub lane: u8,
    /// Where the vehicle's front comes to rest, from the start of the link.
    pub position: Metres,
    /// For how long it stands.
    pub duration: Seconds,
}
