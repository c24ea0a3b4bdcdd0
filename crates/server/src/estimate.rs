//! An estimate of all links in one step, and what the estimates of a host have in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use traffic::{LinkState, Network, Step};
use utoipa::ToSchema;

/// Estimates are in metres per second; people read km/h.
pub(crate) const KM_H_PER_M_S: f64 = 3.6;

/// What all estimates of a host have in common.
#[derive(Clone, Debug)]
pub struct SeriesInfo {
    /// The road network.
    pub network: Arc<Network>,
    /// Its SHA-256, as `sha256:…`.
    pub network_hash: String,
    /// Length of a step in seconds.
    pub step_s: f64,
    /// Which quantity is estimated.
    pub target: Target,
    /// Names of the guests.
    pub guests: Vec<String>,
    /// Nominal coverage of the prediction intervals in percent; none where the model has no intervals.
    pub interval: Option<u8>,
}

/// Which density and flow are estimated: those of the step itself, or their trailing means over 60 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Of the step itself.
    Raw,
    /// Trailing mean over 60 s.
    Smooth,
}

/// Whether a guest took part in an estimate: in; late (connected, but its embedding missed the deadline); absent (not
/// connected, or silent); unusable (the model's output with its embedding was not finite).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Participation {
    /// Its embedding was used.
    In,
    /// It was connected, but its embedding missed the deadline.
    Late,
    /// It was not connected, or silent.
    Absent,
    /// The model's output with its embedding was not finite.
    Unusable,
}

impl Participation {
    /// As in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Participation::In => "in",
            Participation::Late => "late",
            Participation::Absent => "absent",
            Participation::Unusable => "unusable",
        }
    }
}

/// Each guest by name.
pub type Participants = BTreeMap<String, Participation>;

/// An estimate of all links in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The step.
    pub step: Step,
    /// When it was made, in seconds since 1970 by the host's clock.
    pub made_s: f64,
    /// How long after the end of its step.
    pub latency_s: f64,
    /// Who took part.
    pub participants: Participants,
    /// States of all links, in the order of the network.
    pub states: Vec<LinkState>,
    /// Prediction intervals of all links. None without intervals of the model, and where a guest was missing: intervals
    /// are calibrated with all guests.
    pub intervals: Option<Vec<LinkInterval>>,
}

/// Lower and upper bounds of a link's true state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkInterval {
    /// Density in vehicles per kilometre and lane.
    pub density: [f64; 2],
    /// Flow in vehicles per minute and lane.
    pub flow: [f64; 2],
}

/// One link of an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkEstimate {
    /// Density and flow.
    pub state: LinkState,
    /// Their prediction interval.
    pub interval: Option<LinkInterval>,
}

impl Estimate {
    /// Whether all guests took part.
    pub(crate) fn complete(&self) -> bool {
        self.participants.values().all(|guest| *guest == Participation::In)
    }

    /// All links, in the order of the network.
    pub fn links(&self) -> impl Iterator<Item = LinkEstimate> + '_ {
        let interval = |at: usize| self.intervals.as_ref().and_then(|all| all.get(at).copied());
        let link = move |(at, state): (usize, &LinkState)| LinkEstimate {
            state: *state,
            interval: interval(at),
        };
        self.states.iter().enumerate().map(link)
    }
}

impl LinkEstimate {
    /// Kilometres per hour; a link without vehicles has no speed: missing is not zero.
    pub(crate) fn speed_km_h(&self) -> Option<f64> {
        self.state.speed().map(|speed| speed.get() * KM_H_PER_M_S)
    }
}
