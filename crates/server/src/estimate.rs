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

/// Sums over all links of an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Vehicles on the road.
    pub vehicles: f64,
    /// Vehicle-hours that they lose per hour against the speed limits: each loses the share of its time that it would save.
    pub delay_h: f64,
}

impl Estimate {
    /// Sums over all links.
    pub fn totals(&self, info: &SeriesInfo) -> Totals {
        let mut totals = Totals::default();
        for (link, state) in info.network.links().iter().zip(&self.states) {
            let lane_km = link.length.get() * f64::from(link.lanes) / 1000.0;
            let vehicles = state.density.get() * lane_km;
            totals.vehicles += vehicles;
            if let Some(speed) = state.speed() {
                totals.delay_h += vehicles * (1.0 - speed.get() / link.speed.get()).max(0.0);
            }
        }
        totals
    }

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

#[cfg(test)]
mod tests {
    use traffic::{VehPerKmLane, VehPerMinLane, network_hash};

    use super::*;

    #[test]
    fn delay_is_what_vehicles_lose_against_the_limit() {
        let network = traffic::corridor().unwrap();
        let info = SeriesInfo {
            network_hash: network_hash(&network),
            network: Arc::new(network),
            step_s: 10.0,
            target: Target::Raw,
            guests: Vec::new(),
            interval: None,
        };
        let link = &info.network.links()[0];
        let state = |density, speed_share: f64| LinkState {
            density: VehPerKmLane::new(density),
            flow: VehPerMinLane::new(
                density * speed_share * link.speed.get() * KM_H_PER_M_S / 60.0,
            ),
        };
        let of = |first| {
            let mut states = vec![state(0.0, 0.0); info.network.links().len()];
            states[0] = first;
            let (participants, intervals) = Default::default();
            let (step, made_s, latency_s) = (Step(0), 0.0, 0.0);
            Estimate { step, made_s, latency_s, participants, states, intervals }.totals(&info)
        };
        // 20 vehicles on each kilometre of lane at a quarter of the limit lose three quarters of their time.
        let vehicles = 20.0 * link.length.get() * f64::from(link.lanes) / 1000.0;
        let slow = of(state(20.0, 0.25));
        assert!((slow.vehicles - vehicles).abs() < 1e-9);
        assert!((slow.delay_h - 0.75 * vehicles).abs() < 1e-9);
        // Faster than the limit gains nothing.
        assert_eq!(of(state(20.0, 1.5)).delay_h, 0.0);
    }
}
