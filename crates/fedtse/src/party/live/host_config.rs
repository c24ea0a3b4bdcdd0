//! The configuration of a live host.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Deserialize;
use server::{AlarmsSection, HistorySection, ReadersSection};

use super::records::RecordsSection;
use crate::party::config::{FolderSection, IdentitySection, ObserveSection, PatienceSection};
use crate::party::host_config::NetworkSection;

/// A configuration with all fields explained.
pub(super) const EXAMPLE: &str = include_str!("host.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveHostConfig {
    pub identity: IdentitySection,
    pub network: NetworkSection,
    pub model: FolderSection,
    pub records: RecordsSection,
    #[serde(default)]
    pub live: LiveSection,
    pub publish: PublishSection,
    #[serde(default)]
    pub readers: ReadersSection,
    #[serde(default)]
    pub alarms: AlarmsSection,
    #[serde(default)]
    pub history: HistorySection,
    pub run: FolderSection,
    #[serde(default)]
    pub patience: PatienceSection,
    #[serde(default)]
    pub observe: ObserveSection,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LiveSection {
    lag_s: Option<f64>,
    deadline_s: f64,
}

impl Default for LiveSection {
    fn default() -> Self {
        LiveSection { lag_s: None, deadline_s: 2.0 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishSection {
    pub http: SocketAddr,
    #[serde(default = "minute")]
    stale_s: f64,
    /// Percent that intervals hold.
    #[serde(default = "ninety")]
    pub interval: u8,
}

fn ninety() -> u8 {
    90
}

fn minute() -> f64 {
    60.0
}

impl LiveSection {
    /// By the records' time, after the end of a step.
    pub(super) fn lag_s(&self, patience_s: f64) -> Result<f64> {
        let lag = self.lag_s.unwrap_or(patience_s);
        ensure!((0.0..=3600.0).contains(&lag), "live.lag_s: found {lag}, expected 0 to 3600");
        Ok(lag)
    }

    /// By the wall's time, after a step has opened.
    pub(super) fn deadline(&self) -> Result<Duration> {
        seconds("live.deadline_s", self.deadline_s)
    }
}

impl PublishSection {
    pub(super) fn stale(&self) -> Result<Duration> {
        seconds("publish.stale_s", self.stale_s)
    }
}

fn seconds(field: &str, found: f64) -> Result<Duration> {
    ensure!((0.0..=3600.0).contains(&found), "{field}: found {found}, expected 0 to 3600 seconds");
    Ok(Duration::from_secs_f64(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_configuration_with_the_defaults_it_names() {
        let config: LiveHostConfig = toml::from_str(EXAMPLE).unwrap();
        let short: LiveHostConfig = toml::from_str(
            r#"
            identity = { certificate = "c", key = "k", authority = "a" }
            network = { listen = "127.0.0.1:0", accepted = "g" }
            model.folder = "m"
            records.source = "file:loops.csv"
            publish.http = "127.0.0.1:0"
            run.folder = "r"
            "#,
        )
        .unwrap();
        for config in [&config, &short] {
            assert_eq!(config.live.lag_s(5.0).unwrap(), 5.0);
            assert_eq!(config.live.deadline().unwrap(), Duration::from_secs(2));
            assert_eq!(config.publish.stale().unwrap(), Duration::from_secs(60));
            config.records.check().unwrap();
            assert_eq!(config.publish.interval, 90);
            let limit = config.readers.connection_limit().unwrap();
            assert_eq!((limit.connections, limit.per_address), (512, 64));
            assert_eq!(limit.requests_per_s, 50.0);
            assert_eq!(config.history.keep_s().unwrap(), 168.0 * 3600.0);
        }
        assert_eq!(config.records.gap_s, Some(super::super::host::GAP_S));
    }
}
