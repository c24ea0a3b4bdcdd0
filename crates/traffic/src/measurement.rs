//! What a party can measure of the traffic on a link.

use serde::{Deserialize, Serialize};

use crate::network::LinkId;

/// What is measured: a function of a link's density k and flow q.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// k, veh/km/lane.
    Density,
    /// q, veh/min/lane.
    Flow,
    /// Mean speed in space q/k, m/s.
    Speed,
}

/// One number of a party's measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurementEntry {
    /// Where.
    pub link: LinkId,
    /// What.
    pub quantity: Quantity,
}
