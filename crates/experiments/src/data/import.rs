//! What every import of trajectories needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use sensing::matching::MatchParameters;
use sensing::{DatasetWriter, Provenance};
use traffic::{Metres, Network, Seconds};

const GAP: f64 = 10.0;
const SIGMA: f64 = 4.0;

/// Where imported trajectories go, and how they are matched.
#[derive(Clone, Debug, clap::Args)]
pub struct ImportTarget {
    /// The network file; the corridor if absent
    #[arg(long)]
    pub network: Option<PathBuf>,
    /// Where to put the dataset: a new or empty folder
    #[arg(long)]
    pub out: PathBuf,
    /// Date and time of time zero, for display
    #[arg(long)]
    pub epoch: Option<String>,
    /// A silence longer than this many seconds is a blind gap, not an empty road: it ends a recording
    #[arg(long, default_value_t = GAP)]
    pub gap: f64,
    /// Standard deviation of positions in metres, for map matching
    #[arg(long, default_value_t = SIGMA)]
    pub sigma: f64,
}

impl ImportTarget {
    /// With the usual settings.
    pub fn new(network: Option<&Path>, out: &Path) -> Self {
        let (network, out) = (network.map(Path::to_owned), out.to_owned());
        Self { network, out, epoch: None, gap: GAP, sigma: SIGMA }
    }

    /// Creates the dataset's folder.
    pub fn writer(
        &self,
        network: &Network,
        epoch: Option<String>,
        source: &[(&str, String)],
    ) -> Result<DatasetWriter> {
        ensure!(self.gap > 0.0, "--gap: found {}, expected more than 0 s", self.gap);
        let source = source.iter().map(|(key, value)| (key.to_string(), value.clone()));
        let epoch = self.epoch.clone().or(epoch);
        let provenance = Provenance {
            epoch: epoch.unwrap_or_else(|| "time zero of the source".into()),
            source: BTreeMap::from_iter(source),
        };
        Ok(DatasetWriter::create(&self.out, network, provenance, Seconds::new(self.gap))?)
    }

    /// Parameters of the map matching.
    pub fn matching(&self) -> MatchParameters {
        MatchParameters::with_sigma(Metres::new(self.sigma))
    }
}

/// Names of files, without folders.
pub fn file_names(files: &[PathBuf]) -> String {
    let names = files.iter().map(|file| {
        file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    });
    names.collect::<Vec<_>>().join(" ")
}
