//! Numbers that monitoring reads, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use federation::grpc::Traffic;
use server::monitoring::Monitored;

use super::metrics::MetricsText;

/// What a party shows of itself.
#[derive(Debug, Default)]
pub(super) struct Gauges(Mutex<Shown>);

/// Numbers as they stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub round: u64,
    pub epoch: u64,
    pub train_loss: Option<f64>,
    pub validation_loss: Option<f64>,
    /// The other parties, and whether they are connected.
    pub connected: BTreeMap<String, bool>,
    /// Connections turned away.
    pub refused: u64,
    /// Messages that left, by the ledger.
    pub released: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

impl Gauges {
    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn traffic(&self, traffic: &Traffic) {
        let mut shown = self.shown();
        (shown.sent_bytes, shown.received_bytes) = (traffic.sent(), traffic.received());
    }
}

impl Monitored for Gauges {
    fn trouble(&self) -> Option<String> {
        (!self.shown().healthy()).then(|| "waiting for other parties".into())
    }

    fn prometheus(&self) -> String {
        self.shown().prometheus()
    }
}

impl Shown {
    /// Ready to take part: every other party is connected.
    pub(super) fn healthy(&self) -> bool {
        !self.connected.is_empty() && self.connected.values().all(|connected| *connected)
    }

    pub(super) fn prometheus(&self) -> String {
        let mut text = MetricsText::default();
        text.gauge("round", "Last finished round", self.round as f64);
        text.gauge("epoch", "Last finished epoch", self.epoch as f64);
        if let Some(loss) = self.train_loss {
            text.gauge("train_loss", "Training loss of the last epoch", loss);
        }
        if let Some(loss) = self.validation_loss {
            text.gauge("validation_loss", "Validation loss after the last epoch", loss);
        }
        text.counters(&[
            ("sent_bytes_total", "Bytes sent to other parties", self.sent_bytes),
            ("received_bytes_total", "Bytes received from other parties", self.received_bytes),
            ("released_messages_total", "Messages in the ledger", self.released),
            ("refused_connections_total", "Connections turned away", self.refused),
        ]);
        text.parties("connected", "Whether a party is connected", &self.connected);
        text.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_that_of_prometheus() {
        let mut shown = Shown { round: 7, validation_loss: Some(0.25), ..Shown::default() };
        assert!(!shown.healthy());
        shown.connected.insert("fleet-a".into(), true);
        assert!(shown.healthy());
        shown.connected.insert("fleet-b".into(), false);
        assert!(!shown.healthy());
        let text = shown.prometheus();
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(values.contains(&"fedtse_round 7"), "{text}");
        assert!(values.contains(&"fedtse_validation_loss 0.25"), "{text}");
        assert!(values.contains(&"fedtse_connected{party=\"fleet-b\"} 0"), "{text}");
        assert!(!text.contains("train_loss"), "{text}");
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        }
    }
}
