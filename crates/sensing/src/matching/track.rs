//! A vehicle's raw track: places in time, not yet on any link.

use traffic::{LatLon, VehicleClass};

/// The places of one vehicle in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// The vehicle's name in its source.
    pub name: Box<str>,
    /// What kind it is.
    pub class: VehicleClass,
    /// Where it was; times increase.
    pub points: Vec<TrackPoint>,
}

/// A place of a track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrackPoint {
    /// Seconds since the epoch.
    pub time: f64,
    /// Where it was.
    pub place: LatLon,
    /// Metres per second; `None` if the source does not say.
    pub speed: Option<f32>,
}
