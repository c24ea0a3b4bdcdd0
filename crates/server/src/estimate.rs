//! An estimate as it is published and kept.

use std::collections::BTreeMap;

use estimator::{LinkInterval, TargetKind};
use federation::live::Participation;
use serde::Serialize;
use serde_json::{Map, Value, json};
use traffic::{LinkState, Network, Step};

/// Estimates are in metres per second; people read km/h.
pub const KM_H_PER_M_S: f64 = 3.6;

/// What all estimates of a host have in common.
#[derive(Clone, Debug)]
pub struct About {
    pub network: std::sync::Arc<Network>,
    pub network_hash: String,
    pub step_s: f64,
    pub target: TargetKind,
    pub guests: Vec<String>,
    /// Percent of truths that intervals are to hold; none where the model has no intervals.
    pub interval: Option<u8>,
}

/// An estimate of all links in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub step: Step,
    /// When it was made, in seconds since 1970 by the host's clock.
    pub made_s: f64,
    /// How long after the end of its step.
    pub latency_s: f64,
    pub participants: BTreeMap<String, Participation>,
    /// Of all links, in the order of the network.
    pub states: Vec<LinkState>,
    /// What the truth is likely to be between. None without intervals of the model, and where a guest was
    /// missing: intervals were made with all of them.
    pub intervals: Option<Vec<LinkInterval>>,
}

/// One link of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRecord {
    pub state: LinkState,
    pub interval: Option<LinkInterval>,
}

impl Record {
    pub fn complete(&self) -> bool {
        self.participants.values().all(|guest| *guest == Participation::In)
    }

    pub fn links(&self) -> impl Iterator<Item = LinkRecord> + '_ {
        let interval = |at: usize| self.intervals.as_ref().and_then(|all| all.get(at).copied());
        let link = move |(at, state): (usize, &LinkState)| LinkRecord {
            state: *state,
            interval: interval(at),
        };
        self.states.iter().enumerate().map(link)
    }

    /// As a document, without its age.
    pub fn document(&self, about: &About, stored: bool) -> Map<String, Value> {
        let named = about.network.links().iter().zip(self.links());
        let links: Vec<LinkDocument> =
            named.map(|(link, record)| LinkDocument::of(&link.name, &record)).collect();
        let step = self.step.0;
        let document = json!({
            "step": step,
            "begin_s": step as f64 * about.step_s,
            "end_s": (step + 1) as f64 * about.step_s,
            "made_s": self.made_s,
            "latency_s": self.latency_s,
            "stored": stored,
            "complete": self.complete(),
            "participants": self.participants,
            "target": about.target,
            "interval_percent": self.intervals.as_ref().and(about.interval),
            "units": units(),
            "links": links,
        });
        match document {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

/// Of every number that is published.
pub fn units() -> Value {
    json!({"density": "veh/km/lane", "flow": "veh/min/lane", "speed": "km/h"})
}

/// Kilometres an hour; a road without vehicles has no speed: missing is not zero.
pub fn speed_km_h(state: LinkState) -> Option<f64> {
    state.speed().map(|speed| speed.get() * KM_H_PER_M_S)
}

/// A link in a document.
#[derive(Serialize)]
struct LinkDocument<'a> {
    link: &'a str,
    density: f64,
    flow: f64,
    speed: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    density_interval: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_interval: Option<[f64; 2]>,
}

impl<'a> LinkDocument<'a> {
    fn of(link: &'a str, LinkRecord { state, interval }: &LinkRecord) -> Self {
        LinkDocument {
            link,
            density: state.density.get(),
            flow: state.flow.get(),
            speed: speed_km_h(*state),
            density_interval: interval.map(|interval| interval.density),
            flow_interval: interval.map(|interval| interval.flow),
        }
    }
}
