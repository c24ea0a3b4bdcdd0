//! What host and guest have in common in their configuration files.
//!
//! Paths are taken from the folder of the file, not from where the program was started.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use estimator::{Architecture, EmbeddingShape};
use federation::Timing;
use federation::grpc::Identity;
use federation::grpc::identity::read_certificates;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// Longer than any configuration that a person writes.
const MOST_BYTES: u64 = 1 << 20;

/// Reads a file; unknown fields and wrong values are refused with line and column.
pub(crate) fn read<C: DeserializeOwned>(path: &Path) -> Result<(C, PathBuf)> {
    let shown = path.display();
    let length = std::fs::metadata(path).with_context(|| format!("{shown}"))?.len();
    ensure!(length <= MOST_BYTES, "{shown}: found {length} bytes, expected at most {MOST_BYTES}");
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown}"))?;
    let config = toml::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    Ok((config, path.parent().unwrap_or(Path::new("")).to_owned()))
}

/// Who the party is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdentitySection {
    certificate: PathBuf,
    key: PathBuf,
    pub(crate) authority: PathBuf,
}

impl IdentitySection {
    /// The identity, and the authority that all parties trust.
    pub(crate) fn read(&self, folder: &Path) -> Result<(Identity, Vec<CertificateDer<'static>>)> {
        let identity = Identity::read(&folder.join(&self.certificate), &folder.join(&self.key))?;
        Ok((identity, read_certificates(&folder.join(&self.authority))?))
    }
}

/// Where a run or a trained party is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FolderSection {
    pub folder: PathBuf,
}

/// How long it waits for others, in seconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PatienceSection {
    resend_s: f64,
    heartbeat_s: f64,
    silence_s: f64,
    limit_s: f64,
}

impl Default for PatienceSection {
    fn default() -> Self {
        let timing = Timing::default();
        PatienceSection {
            resend_s: timing.resend.as_secs_f64(),
            heartbeat_s: timing.heartbeat.as_secs_f64(),
            silence_s: timing.silence.as_secs_f64(),
            limit_s: timing.limit.as_secs_f64(),
        }
    }
}

impl PatienceSection {
    /// Checked.
    pub(crate) fn timing(&self) -> Result<Timing> {
        let seconds = |field: &str, found: f64| {
            ensure!(
                (0.01..=1e7).contains(&found),
                "patience.{field}: found {found}, expected 0.01 to 10000000 seconds"
            );
            Ok(Duration::from_secs_f64(found))
        };
        let timing = Timing {
            resend: seconds("resend_s", self.resend_s)?,
            heartbeat: seconds("heartbeat_s", self.heartbeat_s)?,
            silence: seconds("silence_s", self.silence_s)?,
            limit: seconds("limit_s", self.limit_s)?,
        };
        timing.check().map_err(|error| anyhow!("patience.{}_s: {error}", error.field))?;
        Ok(timing)
    }
}

/// What those who run it see.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ObserveSection {
    /// Address of `/healthz` and `/metrics`.
    pub http: Option<SocketAddr>,
    pub log: LogLevel,
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// How many numbers cross for each sample.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum Numbers {
    PerLink(usize),
    Whole(usize),
}

impl Numbers {
    /// As the models name it; the architecture's own if none is given.
    pub(crate) fn embedding(
        numbers: Option<Numbers>,
        architecture: Architecture,
    ) -> EmbeddingShape {
        match numbers {
            None => architecture.embedding(),
            Some(Numbers::PerLink(each)) => EmbeddingShape::PerLink(each),
            Some(Numbers::Whole(all)) => EmbeddingShape::Whole(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_do_not_go_together_are_refused_by_field() {
        let error = |text: &str| {
            let section: PatienceSection = toml::from_str(text).unwrap();
            section.timing().unwrap_err().to_string()
        };
        let found = error("heartbeat_s = 60");
        assert!(found.contains("patience.heartbeat_s: heartbeat: found 60 s"), "{found}");
        assert!(error("silence_s = 2").contains("patience.heartbeat_s"));
        assert!(error("silence_s = 1800").contains("patience.silence_s"));
        assert!(error("limit_s = nan").contains("patience.limit_s: found NaN"));
    }
}
