//! The vocabulary of fedtse: roads, signals and the quantities of traffic.
//!
//! 1. [`units`](crate::Metres): metres, seconds, veh/km/lane … as types.
//! 2. [`Network`]: links and turns, with [`Signal`]s and [`LoopDetector`]s, read from a
//!    [network file](parse_network), or made by [`corridor`] and [`grid`].
//! 3. [`VehiclePosition`] and [`LoopCount`]: what sensors report; [`Passage`]: a vehicle's way over a link.
//! 4. [`cut`] and [`Totals`]: Edie's definitions, from samples to [`LinkState`].
//! 5. [`FundamentalDiagram`]: how density, flow and speed hang together.
//!
//! This crate knows nothing of files, tensors or networks of computers.

mod corridor;
mod diagram;
mod edie;
mod geometry;
mod grid;
mod groups;
mod measurement;
mod network;
mod network_file;
mod network_hash;
mod observation;
mod passage;
mod signal;
mod state;
mod units;
mod window;

pub use corridor::corridor;
pub use diagram::{DiagramError, FundamentalDiagram};
pub use edie::{Boxes, Motion, Totals, cut, cut_cells};
pub use geometry::{LatLon, LocalPlane, Point, point_along, polyline_length};
pub use grid::{GridError, GridPlan, grid};
pub use groups::Groups;
pub use measurement::{MeasurementEntry, Quantity};
pub use network::{
    LanePair, Link, LinkId, LoopDetector, MAX_LINKS, Movement, Network, NetworkError, NetworkPart,
    NetworkParts, Turn, TurnId,
};
pub use network_file::{NetworkFileError, parse_network, spread_lanes, write_network};
pub use network_hash::{network_file_hash, network_hash};
pub use observation::{LoopCount, PositionSource, VehicleClass, VehicleId, VehiclePosition};
pub use passage::{Mark, Passage, Queued};
pub use signal::{Aspect, Phase, Signal};
pub use state::{LinkState, Step, StepClock};
pub use units::{Metres, MetresPerSecond, Seconds, VehPerHour, VehPerKmLane, VehPerMinLane};
pub use window::{FleetView, Window};
