//! What sensors report: positions of vehicles and counts of loops.

use serde::{Deserialize, Serialize};

use crate::network::LinkId;
use crate::units::Seconds;

/// A vehicle's number within a dataset or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VehicleId(pub u32);

impl VehicleId {
    /// As an index into per-vehicle arrays.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a vehicle is at a moment. Plain numbers: hundreds of millions of these are processed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VehiclePosition {
    /// Seconds since the epoch.
    pub time: f64,
    /// Which vehicle.
    pub vehicle: VehicleId,
    /// The link it is on.
    pub link: LinkId,
    /// Metres from the start of the link.
    pub position: f32,
    /// Lane, 0 the right-most.
    pub lane: u8,
    /// Metres per second.
    pub speed: f32,
}

/// What kind of vehicle it is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum VehicleClass {
    /// A passenger car.
    #[default]
    Car,
    /// A taxi.
    Taxi,
    /// A motorcycle.
    Motorcycle,
    /// A bus.
    Bus,
    /// A van or small lorry.
    Medium,
    /// A heavy lorry.
    Heavy,
}

impl VehicleClass {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Car, Self::Taxi, Self::Motorcycle, Self::Bus, Self::Medium, Self::Heavy];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Car => "car",
            Self::Taxi => "taxi",
            Self::Motorcycle => "motorcycle",
            Self::Bus => "bus",
            Self::Medium => "medium",
            Self::Heavy => "heavy",
        }
    }

    /// The kind of a name in files.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// Vehicles that a loop detector counted in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopCount {
    /// The index of the loop in its network.
    pub detector: usize,
    /// Start of the interval, since the epoch.
    pub begin: Seconds,
    /// End of the interval.
    pub end: Seconds,
    /// Vehicles counted, over all lanes.
    pub count: u32,
}

/// A source of vehicle positions, one moment at a time: a simulator, a file or a live stream.
pub trait PositionSource {
    /// Why reading failed.
    type Error;

    /// Replaces `out` by all positions of the next moment, in order of vehicle, and returns its time;
    /// `None` at the end. Times increase from call to call. A moment may have no vehicles.
    fn next_moment(
        &mut self,
        out: &mut Vec<VehiclePosition>,
    ) -> Result<Option<Seconds>, Self::Error>;
}
