//! A dataset: a folder of trajectories and loop counts on a network.
//!
//! ```text
//! DIR/manifest.json         what it is, where it comes from, network hash, recordings
//! DIR/network.toml          the network
//! DIR/trajectories.parquet  time (s), vehicle (number), link (number), position (m), lane, speed (m/s)
//! DIR/vehicles.parquet      vehicle (number), name, class
//! DIR/loops.parquet         loop (number), begin (s), end (s), count — only where sensors counted
//! ```
//!
//! Numbers of links and loops are positions in the network file. Rows are ordered by time. The
//! manifest is written last: a folder without one is a dataset that was never finished.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{
    LoopCount, Network, NetworkFileError, Seconds, VehiclePosition, network_file_hash,
    network_hash, parse_network, write_network,
};

use crate::journey::{Position, is_time};
use crate::recordings::{self, Recording, RecordingWatch};
use crate::table::{Column, ColumnKind, TableError, TableReader, TableWriter};
use crate::vehicles::VehicleTable;

mod moments;
mod moments_ahead;
mod of_fleet;
mod positions;
mod tables;
mod text;

use moments_ahead::MomentsAhead;
pub use of_fleet::write_fleet_dataset;
pub use positions::DatasetReader;
use positions::open_positions;
use tables::{read_loops, read_vehicles, write_loops, write_vehicles};
pub(crate) use text::{read_json, read_text, software, write_json, write_text};

/// The format that this version writes and reads.
pub(crate) const DATASET_FORMAT: &str = "fedtse-dataset/1";
/// Rows to a row group.
const GROUP_ROWS: usize = 1 << 18;

/// `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetManifest {
    /// `DATASET_FORMAT`.
    pub format: String,
    /// The version of fedtse that wrote it.
    pub software: String,
    /// Hash of the network that links are numbered by.
    pub network_hash: String,
    /// Hash of the whole network file, by which loops are numbered too.
    pub network_file_hash: String,
    /// What time zero means: `simulation start`, or a date and time.
    pub epoch: String,
    /// Where it comes from: world or importer, seeds, versions, options.
    pub source: BTreeMap<String, String>,
    /// When there were eyes on the road.
    pub recordings: Vec<Recording>,
    /// Number of rows of `trajectories.parquet`.
    pub samples: u64,
    /// Number of vehicles.
    pub vehicles: u64,
}

/// Why a dataset could not be written or read.
#[derive(Debug, Error)]
pub enum DatasetError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The folder has something in it already.
    #[error("{}: folder is not empty, expected a new or empty one", .0.display())]
    NotEmpty(PathBuf),
    /// There is no manifest.
    #[error("{}: not found; is it a finished dataset? (`fedtse simulate` and `fedtse import` make one, `fedtse features` its features)", .0.display())]
    NoManifest(PathBuf),
    /// The manifest cannot be read.
    #[error("{}: {problem}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The network file cannot be read.
    #[error("{}: {source}", path.display())]
    Network {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: NetworkFileError,
    },
    /// The network is not the one that the data were made with.
    #[error("{}: network hash: found {found}, expected {expected} as when the data were made; loops, targets and signals are changed by `fedtse network edit`, anything else needs the data made anew", path.display())]
    EditedNetwork {
        /// The network file.
        path: PathBuf,
        /// Hash of the network at hand.
        found: String,
        /// Hash in the manifest.
        expected: String,
    },
    /// Loops that change in a dataset whose loops were counted by sensors.
    #[error("{}: loops: found counts by sensors, expected none: a loop that is added has no counts, and a loop that goes leaves its own behind", path.display())]
    CountedLoops {
        /// The counts.
        path: PathBuf,
    },
    /// The data were made on another network.
    #[error("{}: network hash: found {found}, expected {expected}", path.display())]
    WrongNetwork {
        /// The file at fault.
        path: PathBuf,
        /// Hash of the network at hand.
        found: String,
        /// Hash in the manifest.
        expected: String,
    },
    /// A table cannot be written or read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A row that cannot be true.
    #[error("{}: row {row}: {problem}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, from 1.
        row: u64,
        /// What is wrong.
        problem: String,
    },
}

impl From<durable::WriteError> for DatasetError {
    fn from(error: durable::WriteError) -> Self {
        Self::Io { path: error.path, source: error.source }
    }
}

/// Where a dataset comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provenance {
    /// What time zero means.
    pub epoch: String,
    /// World or importer, seeds, versions, options.
    pub source: BTreeMap<String, String>,
}

const TRAJECTORY_COLUMNS: [(&str, ColumnKind); 6] = [
    ("time", ColumnKind::F64),
    ("vehicle", ColumnKind::I32),
    ("link", ColumnKind::I32),
    ("position", ColumnKind::F32),
    ("lane", ColumnKind::I32),
    ("speed", ColumnKind::F32),
];

/// Writes a dataset, moment by moment. Dropped before it is finished, it takes away what it wrote:
/// half a dataset is none.
pub struct DatasetWriter {
    folder: PathBuf,
    hash: String,
    file_hash: String,
    provenance: Provenance,
    trajectories: Option<TableWriter>,
    rows: Vec<VehiclePosition>,
    watch: RecordingWatch,
    samples: u64,
    finished: bool,
}

impl DatasetWriter {
    /// Starts a dataset in a new or empty folder. Moments further apart than `gap` are taken as
    /// different recordings.
    pub fn create(
        folder: &Path,
        network: &Network,
        provenance: Provenance,
        gap: Seconds,
    ) -> Result<Self, DatasetError> {
        let io = |source| DatasetError::Io { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(io)?;
        if std::fs::read_dir(folder).map_err(io)?.next().is_some() {
            return Err(DatasetError::NotEmpty(folder.to_owned()));
        }
        write_text(&folder.join("network.toml"), &write_network(network))?;
        Ok(Self {
            trajectories: Some(TableWriter::create(
                &folder.join("trajectories.parquet"),
                &TRAJECTORY_COLUMNS,
            )?),
            folder: folder.to_owned(),
            hash: network_hash(network),
            file_hash: network_file_hash(network),
            provenance,
            rows: Vec::with_capacity(GROUP_ROWS),
            watch: RecordingWatch::new(gap),
            samples: 0,
            finished: false,
        })
    }

    /// Appends all positions of a moment, later than all before.
    pub fn moment(
        &mut self,
        time: Seconds,
        samples: &[VehiclePosition],
    ) -> Result<(), DatasetError> {
        if !is_time(time.get()) {
            return Err(DatasetError::Row {
                path: self.folder.join("trajectories.parquet"),
                row: self.samples + 1,
                problem: crate::PositionError::Time(time.get()).to_string(),
            });
        }
        self.watch.note(time);
        self.samples += samples.len() as u64;
        for &sample in samples {
            self.rows.push(sample);
            if self.rows.len() == GROUP_ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Notes something about the source that is known only now.
    pub fn note(&mut self, key: &str, value: String) {
        self.provenance.source.insert(key.into(), value);
    }

    /// Completes the dataset.
    pub fn finish(
        mut self,
        vehicles: &VehicleTable,
        loops: &[LoopCount],
    ) -> Result<DatasetManifest, DatasetError> {
        self.flush()?;
        if let Some(trajectories) = self.trajectories.take() {
            trajectories.finish()?;
        }
        write_vehicles(&self.folder.join("vehicles.parquet"), vehicles)?;
        if !loops.is_empty() {
            write_loops(&self.folder.join("loops.parquet"), loops)?;
        }
        let manifest = DatasetManifest {
            format: DATASET_FORMAT.into(),
            software: software(),
            network_hash: self.hash.clone(),
            network_file_hash: self.file_hash.clone(),
            epoch: self.provenance.epoch.clone(),
            source: self.provenance.source.clone(),
            recordings: self.watch.recordings().to_vec(),
            samples: self.samples,
            vehicles: vehicles.all().len() as u64,
        };
        write_json(&self.folder.join("manifest.json"), &manifest)?;
        self.finished = true;
        Ok(manifest)
    }

    fn flush(&mut self) -> Result<(), DatasetError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let (rows, Some(trajectories)) = (&self.rows, &mut self.trajectories) else {
            return Ok(());
        };
        trajectories.write(&[
            Column::F64(rows.iter().map(|row| row.time).collect()),
            Column::I32(rows.iter().map(|row| row.vehicle.0 as i32).collect()),
            Column::I32(rows.iter().map(|row| row.link.0 as i32).collect()),
            Column::F32(rows.iter().map(|row| row.position).collect()),
            Column::I32(rows.iter().map(|row| i32::from(row.lane)).collect()),
            Column::F32(rows.iter().map(|row| row.speed).collect()),
        ])?;
        self.rows.clear();
        Ok(())
    }
}

impl Drop for DatasetWriter {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Removes its temporary file, which would keep the folder from being empty.
        self.trajectories = None;
        // Nothing can be done about files that will not go; without a manifest they are harmless.
        for name in ["network.toml", "trajectories.parquet", "vehicles.parquet", "loops.parquet"] {
            let _ = std::fs::remove_file(self.folder.join(name));
        }
        // Goes only if it is empty.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// A finished dataset.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
    manifest: DatasetManifest,
    network: Network,
    vehicles: VehicleTable,
}

impl Dataset {
    /// Opens a dataset; trajectories are read later, by [`Dataset::samples`].
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        let path = folder.join("manifest.json");
        let manifest: DatasetManifest = read_json(&path)?;
        if manifest.format != DATASET_FORMAT {
            let problem =
                format!("format: found \"{}\", expected \"{DATASET_FORMAT}\"", manifest.format);
            return Err(DatasetError::Manifest { path, problem });
        }
        if let Some(problem) = recordings::problem(&manifest.recordings) {
            return Err(DatasetError::Manifest { path, problem });
        }
        let network = network_of(folder, &manifest)?;
        let vehicles = read_vehicles(&folder.join("vehicles.parquet"))?;
        Ok(Self { folder: folder.to_owned(), manifest, network, vehicles })
    }

    /// Puts a network in place of its own that has the same links and turns: other loops, signals or
    /// targets. Features count at the loops, so they go when the loops change; whether they did.
    pub fn replace_network(&mut self, network: Network) -> Result<bool, DatasetError> {
        let path = self.folder.join("network.toml");
        let (found, expected) = (network_hash(&network), self.manifest.network_hash.clone());
        if found != expected {
            return Err(DatasetError::WrongNetwork { path, found, expected });
        }
        let other_loops = network.loops() != self.network.loops();
        let counts = self.folder.join("loops.parquet");
        if other_loops && counts.exists() {
            return Err(DatasetError::CountedLoops { path: counts });
        }
        let features = self.folder.join("features");
        let stale = other_loops && features.exists();
        if stale {
            std::fs::remove_dir_all(&features)
                .map_err(|source| DatasetError::Io { path: features, source })?;
        }
        self.manifest.network_file_hash = network_file_hash(&network);
        write_text(&path, &write_network(&network))?;
        write_json(&self.folder.join("manifest.json"), &self.manifest)?;
        self.network = network;
        Ok(stale)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its manifest.
    pub fn manifest(&self) -> &DatasetManifest {
        &self.manifest
    }

    /// Its network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Its vehicles.
    pub fn vehicles(&self) -> &VehicleTable {
        &self.vehicles
    }

    /// Its trajectories, in order of time.
    pub fn samples(&self) -> Result<DatasetReader<'_>, DatasetError> {
        DatasetReader::open(self)
    }

    /// Its trajectories without lanes and speeds, which features do not need.
    pub(crate) fn positions(&self) -> Result<MomentsAhead<Position>, DatasetError> {
        open_positions(self)
    }

    /// Counts of its loop sensors, if they counted.
    pub fn loops(&self) -> Result<Option<Vec<LoopCount>>, DatasetError> {
        let path = self.folder.join("loops.parquet");
        if !path.exists() {
            return Ok(None);
        }
        read_loops(&path, self.network.loops().len()).map(Some)
    }
}

/// Reads a network file.
pub fn read_network(path: &Path) -> Result<Network, DatasetError> {
    let text = read_text(path)?;
    parse_network(&text).map_err(|source| DatasetError::Network { path: path.to_owned(), source })
}

/// Reads the network of a dataset's folder, and checks that the data were made with it where the
/// dataset's manifest is there: a party has features without it.
pub fn read_dataset_network(folder: &Path) -> Result<Network, DatasetError> {
    let path = folder.join("manifest.json");
    match path.exists() {
        true => network_of(folder, &read_json(&path)?),
        false => read_network(&folder.join("network.toml")),
    }
}

fn network_of(folder: &Path, manifest: &DatasetManifest) -> Result<Network, DatasetError> {
    let path = folder.join("network.toml");
    let network = read_network(&path)?;
    for (found, expected) in [
        (network_hash(&network), &manifest.network_hash),
        (network_file_hash(&network), &manifest.network_file_hash),
    ] {
        if found != *expected {
            let expected = expected.clone();
            return Err(DatasetError::EditedNetwork { path, found, expected });
        }
    }
    Ok(network)
}

fn open_table(path: &Path, columns: &[(&str, ColumnKind)]) -> Result<TableReader, TableError> {
    let mut table = TableReader::open(path)?;
    for &(name, kind) in columns {
        table.want(name, kind)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests;
