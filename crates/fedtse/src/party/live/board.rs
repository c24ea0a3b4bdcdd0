//! What a live host shows: its estimates, and how it does.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use federation::live::{LiveGuestCounts, Participation};
use protocol::PartyId;
use server::monitoring::Monitored;
use traffic::Step;

use super::latencies::Latencies;
use crate::party::metrics::MetricsText;

/// An estimate, but for what was estimated.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub step: Step,
    pub guests: BTreeMap<PartyId, Participation>,
    /// When the step had ended.
    pub ended: Instant,
    /// How long after that it was estimated.
    pub latency: Duration,
}

/// Numbers as they stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub estimates: u64,
    /// Estimates that all guests took part in.
    pub complete: u64,
    /// Steps between the first and the last estimate that have none.
    pub missed: u64,
    pub latencies: Latencies,
    pub connected: BTreeMap<String, bool>,
    pub guests: BTreeMap<PartyId, LiveGuestCounts>,
    pub waited_for: BTreeMap<PartyId, bool>,
    pub bad_lines: u64,
    /// Of the latest estimate: vehicles, what they lose per hour, links beyond a threshold.
    pub vehicles: f64,
    pub delay_h: f64,
    pub alarms: usize,
    /// Estimates on disk; published before they were; never stored.
    pub stored: u64,
    pub unstored: u64,
    pub lost: u64,
    pub refused: u64,
    pub released: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// The board: one writes, all read.
pub(super) struct Board {
    stale: Duration,
    latest: Mutex<Option<Published>>,
    shown: Mutex<Shown>,
}

impl Board {
    pub(super) fn new(stale: Duration) -> Self {
        let (latest, shown) = (Mutex::default(), Mutex::default());
        Board { stale, latest, shown }
    }

    /// Takes note of a new estimate.
    pub(super) fn note(&self, published: Published) {
        let mut shown = self.shown();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = latest.as_ref().map_or(published.step.0 - 1, |latest| latest.step.0);
        shown.missed += (published.step.0 - 1).abs_diff(follows);
        shown.estimates += 1;
        let all_in = published.guests.values().all(|guest| *guest == Participation::In);
        shown.complete += u64::from(all_in);
        shown.latencies.note(published.latency.as_secs_f64());
        *latest = Some(published);
    }

    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Monitored for Board {
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
        let mut text = MetricsText::default();
        if let Some((step, age)) = latest {
            text.gauge("live_step", "Last estimated step", step.0 as f64);
            text.gauge("live_age_seconds", "Since the end of that step", age);
            text.gauge("live_vehicles", "Vehicles on all links", self.vehicles);
            let help = "What they lose against the speed limits";
            text.gauge("live_delay_vehicle_hours_per_hour", help, self.delay_h);
            text.gauge("live_alarms", "Links beyond a threshold", self.alarms as f64);
        }
        text.counters(&[
            ("live_estimates_total", "Estimates", self.estimates),
            ("live_complete_total", "Estimates with all guests", self.complete),
            ("live_missed_steps_total", "Steps without an estimate", self.missed),
            ("live_stored_total", "Estimates on disk", self.stored),
            ("live_published_unstored_total", "Published before they were on disk", self.unstored),
            ("live_lost_total", "Estimates that were never stored", self.lost),
            ("live_bad_lines_total", "Records left out", self.bad_lines),
            ("sent_bytes_total", "Bytes sent to other parties", self.sent_bytes),
            ("received_bytes_total", "Bytes received from other parties", self.received_bytes),
            ("released_messages_total", "Messages in the ledger", self.released),
            ("refused_connections_total", "Connections turned away", self.refused),
        ]);
        if let Some(latency) = self.latencies.quantiles() {
            let quantiles = [("0.5", latency.p50), ("0.99", latency.p99), ("1", latency.most)];
            let quantiles = quantiles.map(|(share, s)| (format!("{{quantile=\"{share}\"}}"), s));
            let help = "From the end of a step to its estimate, of the last thousand";
            text.put("live_latency_seconds", "gauge", help, quantiles);
        }
        text.parties("connected", "Whether a party is connected", &self.connected);
        text.parties("live_waited_for", "Whether steps wait for a guest", &self.waited_for);
        let outcomes = self.guests.iter().flat_map(|(party, counts)| {
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
        let help = "Steps and embeddings of each guest";
        text.put("live_embeddings_total", "counter", help, outcomes);
        text.0
    }
}

#[cfg(test)]
mod tests;
