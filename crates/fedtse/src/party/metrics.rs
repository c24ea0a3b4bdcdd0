//! Numbers for monitoring, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// A text that grows metric by metric.
#[derive(Default)]
pub(super) struct MetricsText(pub String);

impl MetricsText {
    /// One metric; each value with its labels, which may be none.
    pub(super) fn put(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        values: impl IntoIterator<Item = (String, f64)>,
    ) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "# HELP fedtse_{name} {help}\n# TYPE fedtse_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.0, "fedtse_{name}{labels} {value}");
        }
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.put(name, "gauge", help, [(String::new(), value)]);
    }

    /// Name, help and value of each.
    pub(super) fn counters(&mut self, counters: &[(&str, &str, u64)]) {
        for (name, help, count) in counters {
            self.put(name, "counter", help, [(String::new(), *count as f64)]);
        }
    }

    /// A yes or no about each party. Names of parties hold nothing that needs escaping.
    pub(super) fn parties(&mut self, name: &str, help: &str, all: &BTreeMap<impl Display, bool>) {
        let labelled = |(party, is): (_, &bool)| (format!("{{party=\"{party}\"}}"), f64::from(*is));
        self.put(name, "gauge", help, all.iter().map(labelled));
    }
}
