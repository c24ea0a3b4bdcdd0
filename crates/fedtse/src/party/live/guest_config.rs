//! The configuration of a live guest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::records::RecordsSection;
use crate::party::config::{FolderSection, IdentitySection, ObserveSection, PatienceSection};
use crate::party::guest_config::HostSection;

/// A configuration with all fields explained.
pub(super) const EXAMPLE: &str = include_str!("guest.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveGuestConfig {
    pub identity: IdentitySection,
    pub host: HostSection,
    pub model: ModelSection,
    pub records: RecordsSection,
    pub run: FolderSection,
    /// Of sums: the other guests' certificates.
    #[serde(default)]
    pub participants: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default)]
    pub patience: PatienceSection,
    #[serde(default)]
    pub observe: ObserveSection,
}

/// The trained guest, and what it keeps to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelSection {
    pub folder: PathBuf,
    /// A policy in place of that of the training.
    pub policy: Option<PathBuf>,
    /// Where the training kept its noise.
    pub noise: Option<PathBuf>,
    /// Where the training kept the participants of its sums.
    pub sums: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_configuration_with_the_defaults_it_names() {
        let config: LiveGuestConfig = toml::from_str(EXAMPLE).unwrap();
        let short: LiveGuestConfig = toml::from_str(
            r#"
            identity = { certificate = "c", key = "k", authority = "a" }
            host = { name = "city", address = "city.example:7443" }
            model.folder = "m"
            records.source = "tcp:127.0.0.1:9001"
            run.folder = "r"
            "#,
        )
        .unwrap();
        assert_eq!(config.patience.timing().unwrap(), short.patience.timing().unwrap());
        let bad_lines = |config: &LiveGuestConfig| format!("{:?}", config.records).contains("Skip");
        assert!(bad_lines(&config) && bad_lines(&short));
        assert_eq!(config.records.gap_s, Some(super::super::guest::GAP_S));
        config.records.check().unwrap();
    }

    #[test]
    fn sources_are_named_in_one_of_three_ways() {
        let wrong = EXAMPLE.replace("\"stdin\"", "\"udp:1\"");
        let error = toml::from_str::<LiveGuestConfig>(&wrong).unwrap_err().to_string();
        assert!(error.contains("udp:1") && error.contains("expected stdin, tcp:"), "{error}");
        let paced = EXAMPLE.replace("# speed-up", "speed-up");
        let error = toml::from_str::<LiveGuestConfig>(&paced).unwrap().records.check().unwrap_err();
        assert!(error.to_string().contains("records.speed-up"), "{error}");
    }
}
