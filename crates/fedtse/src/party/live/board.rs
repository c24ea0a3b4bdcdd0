//! What a live host shows: its estimates, and how it does.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use estimator::TargetKind;
use federation::PartyId;
use federation::live::{Participation, SeatCounts};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use traffic::{LinkState, Step};

use super::latencies::Latencies;
use crate::party::endpoints::Page;

/// Estimates that a slow reader of the stream may be behind before it is dropped.
pub const MOST_BEHIND: usize = 16;
const KM_H_PER_M_S: f64 = 3.6;

/// An estimate as it is published.
#[derive(Clone, Debug)]
pub struct Published {
    pub step: Step,
    pub states: Vec<LinkState>,
    pub guests: BTreeMap<PartyId, Participation>,
    /// When the step had ended.
    pub ended: Instant,
    /// How long after that it was estimated.
    pub latency: Duration,
}

/// Numbers as they stand.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub estimates: u64,
    /// Estimates that all guests took part in.
    pub complete: u64,
    /// Steps between the first and the last estimate that have none.
    pub missed: u64,
    pub latencies: Latencies,
    pub connected: BTreeMap<String, bool>,
    pub seats: BTreeMap<PartyId, SeatCounts>,
    pub waited_for: BTreeMap<PartyId, bool>,
    pub bad_lines: u64,
    pub refused: u64,
    pub released: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// The board: one writes, all read.
pub struct Board {
    links: Vec<String>,
    step_s: f64,
    target: TargetKind,
    stale: Duration,
    latest: Mutex<Option<Published>>,
    shown: Mutex<Shown>,
    stream: broadcast::Sender<Bytes>,
}

impl Board {
    pub fn new(links: Vec<String>, step_s: f64, target: TargetKind, stale: Duration) -> Self {
        let (stream, _) = broadcast::channel(MOST_BEHIND);
        let (latest, shown) = (Mutex::default(), Mutex::default());
        Board { links, step_s, target, stale, latest, shown, stream }
    }

    /// Takes a new estimate.
    pub fn publish(&self, published: Published) {
        let mut shown = self.shown();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = latest.as_ref().map_or(published.step.0 - 1, |latest| latest.step.0);
        shown.missed += (published.step.0 - 1).abs_diff(follows);
        shown.estimates += 1;
        let all_in = published.guests.values().all(|guest| *guest == Participation::In);
        shown.complete += u64::from(all_in);
        shown.latencies.note(published.latency.as_secs_f64());
        let event = format!(
            "id: {}\nevent: estimate\ndata: {}\n\n",
            published.step.0,
            self.document(&published)
        );
        *latest = Some(published);
        // Nobody may be listening.
        let _ = self.stream.send(event.into());
    }

    /// The latest estimate as a document; none before the first.
    pub fn latest(&self) -> Option<Value> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().map(|latest| self.document(latest))
    }

    /// Estimates from now on, as server-sent events.
    pub fn subscribe(&self) -> broadcast::Receiver<Bytes> {
        self.stream.subscribe()
    }

    pub fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn document(&self, published: &Published) -> Value {
        let link = |(name, state): (&String, &LinkState)| {
            // A road without vehicles has no speed: missing is not zero.
            let speed = state.speed().map(|speed| speed.get() * KM_H_PER_M_S);
            let (density, flow) = (state.density.get(), state.flow.get());
            json!({"link": name, "density": density, "flow": flow, "speed": speed})
        };
        let links: Vec<Value> = self.links.iter().zip(&published.states).map(link).collect();
        let step = published.step.0;
        json!({
            "step": step,
            "begin_s": step as f64 * self.step_s,
            "end_s": (step + 1) as f64 * self.step_s,
            "age_s": published.ended.elapsed().as_secs_f64(),
            "latency_s": published.latency.as_secs_f64(),
            "complete": published.guests.values().all(|guest| *guest == Participation::In),
            "participants": published.guests,
            "target": self.target,
            "units": {"density": "veh/km/lane", "flow": "veh/min/lane", "speed": "km/h"},
            "links": links,
        })
    }
}

impl Page for Board {
    fn trouble(&self) -> Option<String> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match latest.as_ref().map(|latest| latest.ended.elapsed()) {
            None => Some("no estimate yet".into()),
            Some(age) if age > self.stale => {
                Some(format!("the latest estimate is {:.0} s old", age.as_secs_f64()))
            }
            Some(_) => None,
        }
    }

    fn prometheus(&self) -> String {
        let age = self
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(|latest| (latest.step, latest.ended.elapsed().as_secs_f64()));
        self.shown().prometheus(age)
    }
}

impl Shown {
    fn prometheus(&self, latest: Option<(Step, f64)>) -> String {
        let mut text = String::new();
        // Writing to a text cannot fail; names of parties hold nothing that needs escaping.
        let mut put = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
            let _ = writeln!(text, "# HELP fedtse_{name} {help}\n# TYPE fedtse_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "fedtse_{name}{labels} {value}");
            }
        };
        let one = |value: f64| vec![(String::new(), value)];
        if let Some((step, age)) = latest {
            put("live_step", "gauge", "Last estimated step", &one(step.0 as f64));
            put("live_age_seconds", "gauge", "Since the end of that step", &one(age));
        }
        let counts: [(&str, &str, u64); 8] = [
            ("live_estimates_total", "Estimates", self.estimates),
            ("live_complete_total", "Estimates with all guests", self.complete),
            ("live_missed_steps_total", "Steps without an estimate", self.missed),
            ("live_bad_lines_total", "Records left out", self.bad_lines),
            ("sent_bytes_total", "Bytes sent to other parties", self.sent_bytes),
            ("received_bytes_total", "Bytes received from other parties", self.received_bytes),
            ("released_messages_total", "Messages in the ledger", self.released),
            ("refused_connections_total", "Connections turned away", self.refused),
        ];
        for (name, help, count) in counts {
            put(name, "counter", help, &one(count as f64));
        }
        if let Some(latency) = self.latencies.quantiles() {
            let quantiles = [("0.5", latency.p50), ("0.99", latency.p99), ("1", latency.most)];
            let quantiles = quantiles.map(|(share, s)| (format!("{{quantile=\"{share}\"}}"), s));
            let help = "From the end of a step to its estimate, of the last thousand";
            put("live_latency_seconds", "gauge", help, &quantiles);
        }
        let gauge =
            |party: &str, is: bool| (format!("{{party=\"{party}\"}}"), f64::from(u8::from(is)));
        let connected: Vec<_> =
            self.connected.iter().map(|(party, is)| gauge(party, *is)).collect();
        put("connected", "gauge", "Whether a party is connected", &connected);
        let waited_for = self.waited_for.iter().map(|(party, is)| gauge(party.as_str(), *is));
        let waited_for: Vec<_> = waited_for.collect();
        put("live_waited_for", "gauge", "Whether steps wait for a guest", &waited_for);
        let outcomes = self.seats.iter().flat_map(|(party, counts)| {
            [
                ("taken", counts.taken),
                ("missed", counts.missed),
                ("late", counts.late),
                ("duplicate", counts.duplicate),
                ("dropped", counts.dropped),
                ("strange", counts.strange),
            ]
            .map(|(outcome, count)| {
                (format!("{{party=\"{party}\",outcome=\"{outcome}\"}}"), count as f64)
            })
        });
        let outcomes: Vec<_> = outcomes.collect();
        put("live_embeddings_total", "counter", "Steps and embeddings of each guest", &outcomes);
        text
    }
}

#[cfg(test)]
mod tests;
