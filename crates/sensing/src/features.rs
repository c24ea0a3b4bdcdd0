//! Features on disk: a folder beside the trajectories that they were made from.
//!
//! ```text
//! DIR/features/manifest.json      steps held, Δt, cells, fleets, seeds, network hash, totals
//! DIR/features/all.parquet        all vehicles: the ground truth
//! DIR/features/fleet-20.parquet   one fleet; the same columns
//! DIR/features/targets.parquet    density and flow of all vehicles, raw and smooth
//! DIR/features/loops.parquet      vehicles counted by each loop
//! DIR/features/turns-*.parquet    turns made, per fleet (only where some were)
//! DIR/features/trips-*.parquet    trips ended, per fleet, by origin and destination
//! ```
//!
//! Columns of `all` and the fleets, one row per step and link, ordered by step, then link:
//!
//! | column | meaning |
//! |---|---|
//! | `step`, `link` | which box; links numbered as in the network file |
//! | `travel_time_s`, `travel_distance_m` | Edie's totals of the box |
//! | `speed_m_s` | distance over time; no value where no vehicle was |
//! | `vehicles` | vehicles seen in the box |
//! | `time_square_s2`, `distance_square_m2` | `all` only: Σ of each vehicle's own total squared |
//! | `time_cIsJ`, `distance_cIsJ` | totals of cell I in sub-step J, from 0 |
//!
//! Only complete steps are stored: those that a recording covers from begin to end.

use std::path::{Path, PathBuf};

use durable::PendingFolder;
use traffic::{Network, Seconds, Step, network_hash};

use crate::dataset::{Dataset, DatasetError, read_json, software, write_json};
use crate::extract::{
    ExtractError, ExtractReport, FeatureExtractor, FeaturePlan, MAX_PARTS, StepFeatures,
};
use crate::fleet::{Fleet, Fleets};
use crate::recordings::{HeldSteps, MAX_STEPS};

mod loops;
mod manifest;
mod movements;
mod read;
mod write;
mod write_behind;

pub(crate) use loops::{BORDER_TOLERANCE, LoopSums};
pub use manifest::{FeaturesManifest, FleetEntry, ReportEntry};
pub use movements::MovementTable;
pub use read::{FeatureTable, LoopTable};
use write::FeatureWriter;
use write_behind::WriteBehind;

/// The format that this version writes and reads.
pub(crate) const FEATURES_FORMAT: &str = "fedtse-features/1";

/// Why features could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum FeaturesError {
    /// The dataset.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A table.
    #[error(transparent)]
    Table(#[from] crate::table::TableError),
    /// The samples.
    #[error("{}: {source}", path.display())]
    Extract {
        /// The dataset.
        path: PathBuf,
        /// What is wrong.
        source: ExtractError,
    },
    /// Fleets that cannot be.
    #[error(transparent)]
    Fleets(#[from] crate::fleet::FleetError),
    /// A loop's counts do not fit the steps.
    #[error("{}: loop `{detector}`: found a count for {begin} to {end}, expected intervals that fit steps of {step}; make features with longer steps (--step), or count more often", path.display())]
    LoopInterval {
        /// The dataset.
        path: PathBuf,
        /// The loop.
        detector: String,
        /// Begin of the interval.
        begin: Seconds,
        /// End of the interval.
        end: Seconds,
        /// Length of a step.
        step: Seconds,
    },
    /// Vehicles are seen too seldom to know what they did in between.
    #[error("{}: no vehicle is seen twice within the patience of {patience}; if positions come less often, use a longer patience", path.display())]
    NoMotion {
        /// The dataset.
        path: PathBuf,
        /// How long a vehicle may go unseen.
        patience: Seconds,
    },
    /// No step is complete.
    #[error("{}: no complete step of {step}{}; recordings: {recordings}", path.display(), beginning(*from))]
    NoSteps {
        /// The dataset.
        path: PathBuf,
        /// Length of a step.
        step: Seconds,
        /// Start of what was asked for.
        from: Seconds,
        /// The recordings there are.
        recordings: String,
    },
    /// More steps than anyone could want.
    #[error("{}: recordings: found {steps:.0} steps of {step}, expected at most {MAX_STEPS}", path.display())]
    TooManySteps {
        /// The dataset.
        path: PathBuf,
        /// Steps that the recordings span.
        steps: f64,
        /// Length of a step.
        step: Seconds,
    },
    /// A fleet is not there.
    #[error("{}: fleet `{found}`: not found, expected one of: {expected}", path.display())]
    NoFleet {
        /// The features.
        path: PathBuf,
        /// The name asked for.
        found: String,
        /// The names there are.
        expected: String,
    },
    /// Whoever watches said so.
    #[error("{}: features: stopped before the end", path.display())]
    Stopped {
        /// The dataset.
        path: PathBuf,
    },
    /// A table does not fit its manifest.
    #[error("{}: {problem}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// What whoever watches says: to go on, or to stop. Nothing said means to go on.
pub trait Verdict {
    /// Whether to go on.
    fn should_continue(&self) -> bool;
}

/// Where steps were to begin, unless that is the beginning of the recordings.
fn beginning(from: Seconds) -> String {
    if from.get().is_finite() { format!(" from {from} on") } else { String::new() }
}

impl Verdict for () {
    fn should_continue(&self) -> bool {
        true
    }
}

impl Verdict for bool {
    fn should_continue(&self) -> bool {
        *self
    }
}

/// Feeds a whole dataset to an extractor: what happens live, only faster.
///
/// `from` drops the warm-up. `progress` is told the rows done and the rows in all.
pub fn extract_dataset<V: Verdict>(
    dataset: &Dataset,
    plan: FeaturePlan,
    from: Seconds,
    mut on_step: impl FnMut(&StepFeatures),
    mut progress: impl FnMut(u64, u64) -> V,
) -> Result<ExtractReport, FeaturesError> {
    let failed = |source| FeaturesError::Extract { path: dataset.folder().to_owned(), source };
    let step = plan.clock.length;
    let mut extractor = FeatureExtractor::new(dataset.network(), plan).map_err(failed)?;
    let spans = dataset.manifest().recordings.iter().map(|span| span.end - span.begin.max(from));
    let steps: f64 = spans.map(|span| (span / step).max(0.0)).sum();
    if steps > MAX_STEPS as f64 {
        return Err(FeaturesError::TooManySteps { path: dataset.folder().to_owned(), steps, step });
    }
    let mut positions = dataset.positions()?;
    let mut recordings = dataset.manifest().recordings.iter().copied();
    let mut current = None::<crate::Recording>;
    let rows = positions.rows();
    let mut rows_read = 0;
    while let Some((time, moment)) = positions.next()? {
        let first = rows_read;
        rows_read += moment.len() as u64;
        if time < from {
            continue;
        }
        while current.is_none_or(|recording| time > recording.end) {
            if let Some(recording) = current {
                extractor.end(recording.end, &mut on_step);
            }
            current = recordings.next();
            match current {
                Some(recording) if recording.end >= from => {
                    extractor.begin(recording.begin.max(from), &mut on_step);
                }
                Some(_) => {}
                None => {
                    return Err(FeaturesError::Mismatch {
                        path: dataset.folder().join("trajectories.parquet"),
                        problem: format!(
                            "row {}: time: found {time}, expected a time within the recordings of manifest.json",
                            first + 1
                        ),
                    });
                }
            }
        }
        let taken = extractor.positions(time, moment, dataset.vehicles(), &mut on_step);
        taken.map_err(|bad| positions.bad_row(first + bad.at as u64, bad.error.to_string()))?;
        if !progress(rows_read, rows).should_continue() {
            return Err(FeaturesError::Stopped { path: dataset.folder().to_owned() });
        }
    }
    // Recordings may end, or lie, after the last vehicle was seen.
    if let Some(recording) = current {
        extractor.end(recording.end, &mut on_step);
    }
    for recording in recordings.filter(|recording| recording.end >= from) {
        extractor.begin(recording.begin.max(from), &mut on_step);
        extractor.end(recording.end, &mut on_step);
    }
    Ok(*extractor.report())
}

/// Makes the features of a dataset and stores them in its `features` folder, in place of any
/// that were there.
pub fn make_features<V: Verdict>(
    dataset: &Dataset,
    plan: FeaturePlan,
    from: Seconds,
    progress: impl FnMut(u64, u64) -> V,
) -> Result<FeaturesManifest, FeaturesError> {
    // Features that were there stay until the new ones are whole.
    let pending = PendingFolder::create(&dataset.folder().join("features"));
    let pending = pending.map_err(DatasetError::from)?;
    let manifest = write_features(dataset, plan, from, pending.path(), progress)?;
    write_json(&pending.path().join("manifest.json"), &manifest)?;
    pending.commit().map_err(DatasetError::from)?;
    Ok(manifest)
}

/// Writes the tables of features into a folder; gives their manifest.
fn write_features<V: Verdict>(
    dataset: &Dataset,
    plan: FeaturePlan,
    from: Seconds,
    folder: &Path,
    progress: impl FnMut(u64, u64) -> V,
) -> Result<FeaturesManifest, FeaturesError> {
    plan.fleets.check_count()?;
    let sensors = match dataset.loops()? {
        Some(counts) => Some(loops::per_step(dataset, &counts, plan.clock)?),
        None => None,
    };
    let writer = FeatureWriter::create(folder, dataset.network(), &plan)?;
    let mut held = HeldSteps::default();
    let (report, writer) = std::thread::scope(|scope| {
        let mut writer = WriteBehind::start(scope, writer, sensors.as_ref());
        let on_step = |features: &StepFeatures| {
            if features.complete {
                held.push(features.step);
                writer.step(features);
            }
        };
        let report = extract_dataset(dataset, plan.clone(), from, on_step, progress)?;
        Ok::<_, FeaturesError>((report, writer.join()?))
    })?;
    if held.is_empty() {
        let recordings = dataset.manifest().recordings.iter();
        let recordings: Vec<String> =
            recordings.map(|r| format!("{} to {}", r.begin, r.end)).collect();
        return Err(FeaturesError::NoSteps {
            path: dataset.folder().to_owned(),
            step: plan.clock.length,
            from,
            recordings: recordings.join(", "),
        });
    }
    if report.samples > 0 && report.trajectory_time == Seconds::ZERO {
        let patience = plan.patience;
        return Err(FeaturesError::NoMotion { path: dataset.folder().to_owned(), patience });
    }
    writer.finish()?;
    Ok(FeaturesManifest {
        format: FEATURES_FORMAT.into(),
        software: software(),
        network_hash: network_hash(dataset.network()),
        epoch: dataset.manifest().epoch.clone(),
        step_s: plan.clock.length,
        cells: plan.cells,
        sub_steps: plan.sub_steps,
        patience_s: plan.patience,
        from_s: from.get().is_finite().then_some(from),
        smooth_s: write::SMOOTH,
        fleet_seed: plan.fleets.seed(),
        concentration: plan.fleets.concentration(),
        fleets: fleet_entries(&plan),
        loops: if sensors.is_some() { "sensors" } else { "trajectories" }.into(),
        held,
        report: (&report).into(),
    })
}

/// Adds fleets to a dataset's features, made in the same way. All that is there stays as it is.
pub fn add_fleets<V: Verdict>(
    dataset: &Dataset,
    plan: &FeaturePlan,
    from: Seconds,
    progress: impl FnMut(u64, u64) -> V,
) -> Result<FeaturesManifest, FeaturesError> {
    let features = Features::open(dataset.folder(), dataset.network())?;
    features.check_made_alike(plan, from)?;
    let stored = features.manifest.fleets_of().map_err(|error| features.other(&error))?;
    let missing = plan.fleets.without(&stored).map_err(|error| features.other(&error))?;
    features.add(dataset, missing, progress)
}

/// Adds the parts of a fleet to a dataset's features, made in the same way. All that is there stays as it is.
pub fn add_parts<V: Verdict>(
    dataset: &Dataset,
    fleet: &str,
    parts: usize,
    progress: impl FnMut(u64, u64) -> V,
) -> Result<FeaturesManifest, FeaturesError> {
    let features = Features::open(dataset.folder(), dataset.network())?;
    if features.manifest.fleets.iter().all(|entry| entry.name != fleet) {
        return Err(features.no_fleet(fleet));
    }
    let stored = features.manifest.fleets_of()?;
    let divided = stored.clone().divided_where(|all| all.name == fleet, &[parts])?;
    features.add(dataset, divided.without(&stored)?, progress)
}

fn fleet_entries(plan: &FeaturePlan) -> Vec<FleetEntry> {
    let fleets = plan.fleets.all().iter();
    fleets.map(|fleet| FleetEntry { name: fleet.name.clone(), rate: fleet.rate() }).collect()
}

/// Stored features.
#[derive(Debug)]
pub struct Features {
    folder: PathBuf,
    manifest: FeaturesManifest,
    links: usize,
}

impl Features {
    /// Opens the features of a dataset's folder, and checks that they belong to its network.
    pub fn open(dataset_folder: &Path, network: &Network) -> Result<Self, FeaturesError> {
        let folder = dataset_folder.join("features");
        let path = folder.join("manifest.json");
        let manifest: FeaturesManifest = read_json(&path)?;
        if manifest.format != FEATURES_FORMAT {
            let problem =
                format!("format: found \"{}\", expected \"{FEATURES_FORMAT}\"", manifest.format);
            return Err(FeaturesError::Mismatch { path, problem });
        }
        let found = network_hash(network);
        if found != manifest.network_hash {
            let expected = manifest.network_hash;
            return Err(DatasetError::WrongNetwork { path, found, expected }.into());
        }
        let parts = 1..=MAX_PARTS;
        if !(parts.contains(&manifest.cells) && parts.contains(&manifest.sub_steps)) {
            let problem = format!(
                "cells, sub_steps: found {}, {}, expected 1 to {MAX_PARTS}",
                manifest.cells, manifest.sub_steps
            );
            return Err(FeaturesError::Mismatch { path, problem });
        }
        Ok(Self { folder, manifest, links: network.links().len() })
    }

    /// The manifest.
    pub fn manifest(&self) -> &FeaturesManifest {
        &self.manifest
    }

    /// The truth.
    pub fn all(&self) -> Result<FeatureTable, FeaturesError> {
        FeatureTable::read(self, "all")
    }

    /// A fleet's features.
    pub fn fleet(&self, name: &str) -> Result<FeatureTable, FeaturesError> {
        if !self.manifest.fleets.iter().any(|fleet| fleet.name == name) {
            return Err(self.no_fleet(name));
        }
        FeatureTable::read(self, name)
    }

    /// The turns that a fleet made and the trips that it ended.
    pub fn movements(&self, name: &str, network: &Network) -> Result<MovementTable, FeaturesError> {
        if !self.manifest.fleets.iter().any(|fleet| fleet.name == name) {
            return Err(self.no_fleet(name));
        }
        MovementTable::read(self, name, network)
    }

    /// Which vehicles belong to a fleet: those whose draw lies in its interval.
    pub fn fleet_named(&self, name: &str) -> Result<Fleet, FeaturesError> {
        let fleets = &self.manifest.fleets;
        let Some(at) = fleets.iter().position(|fleet| fleet.name == name) else {
            return Err(self.no_fleet(name));
        };
        if self.manifest.concentration.is_some() {
            return Err(FeaturesError::Mismatch {
                path: self.folder.join("manifest.json"),
                problem: format!(
                    "fleet `{name}`: found a concentrated fleet, expected a fair sample: its vehicles are known only when they are first seen"
                ),
            });
        }
        let fleets = self.manifest.fleets_of().map_err(|error| FeaturesError::Mismatch {
            path: self.folder.join("manifest.json"),
            problem: error.to_string(),
        })?;
        Ok(fleets.all()[at].clone())
    }

    /// Refuses a plan by which fleets would be made otherwise than those that are there.
    fn check_made_alike(&self, plan: &FeaturePlan, from: Seconds) -> Result<(), FeaturesError> {
        let stored = &self.manifest;
        let from = from.get().is_finite().then_some(from);
        let differs = [
            ("length of a step", plan.clock.length != stored.step_s),
            ("cells", plan.cells != stored.cells),
            ("sub-steps", plan.sub_steps != stored.sub_steps),
            ("patience", plan.patience != stored.patience_s),
            ("beginning", from != stored.from_s),
            ("seed", plan.fleets.seed() != stored.fleet_seed),
            ("concentration", plan.fleets.concentration() != stored.concentration),
        ];
        match differs.into_iter().find(|(_, differs)| *differs) {
            Some((what, _)) => Err(self.other(&format!(
                "{what}: found another than that of the fleets that are there, expected the same"
            ))),
            None => Ok(()),
        }
    }

    fn other(&self, problem: &dyn std::fmt::Display) -> FeaturesError {
        let path = self.folder.join("manifest.json");
        FeaturesError::Mismatch { path, problem: problem.to_string() }
    }

    /// Makes fleets that are not there yet.
    fn add<V: Verdict>(
        self,
        dataset: &Dataset,
        fleets: Fleets,
        progress: impl FnMut(u64, u64) -> V,
    ) -> Result<FeaturesManifest, FeaturesError> {
        let Self { folder, manifest: mut stored, .. } = self;
        if fleets.all().is_empty() {
            return Ok(stored);
        }
        let plan = FeaturePlan {
            clock: traffic::StepClock { length: stored.step_s },
            cells: stored.cells,
            sub_steps: stored.sub_steps,
            patience: stored.patience_s,
            fleets,
        };
        let from = stored.from_s.unwrap_or(Seconds::new(f64::NEG_INFINITY));
        let pending = PendingFolder::create(&folder).map_err(DatasetError::from)?;
        let made = write_features(dataset, plan, from, pending.path(), progress)?;
        if made.held != stored.held {
            let path = folder.join("manifest.json");
            let problem = "held: found other steps than the dataset has now, expected the same; make the features again";
            return Err(FeaturesError::Mismatch { path, problem: problem.into() });
        }
        // What is there stays to the last bit: sums over other fleets may be rounded otherwise.
        let failed = |source| DatasetError::Io { path: folder.clone(), source };
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            std::fs::copy(entry.path(), pending.path().join(entry.file_name())).map_err(failed)?;
        }
        stored.fleets.extend(made.fleets);
        write_json(&pending.path().join("manifest.json"), &stored)?;
        pending.commit().map_err(DatasetError::from)?;
        Ok(stored)
    }

    fn no_fleet(&self, name: &str) -> FeaturesError {
        let names = self.manifest.fleets.iter().map(|fleet| fleet.name.as_str());
        FeaturesError::NoFleet {
            path: self.folder.clone(),
            found: name.into(),
            expected: names.collect::<Vec<_>>().join(", "),
        }
    }

    /// The loops' counts.
    pub fn loops(&self, detectors: usize) -> Result<LoopTable, FeaturesError> {
        LoopTable::read(self, detectors)
    }

    /// The stored steps in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.manifest.held.iter()
    }
}

#[cfg(test)]
mod tests;
