//! One number of a table is made of jobs: one estimator fitted to one dataset, and scored.
//!
//! A finished job is a file of its own, written whole or not at all, that says all that its numbers
//! depend on. Files of other settings, other data or another program are refused, never mixed in.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use estimator::artifact::Coverage;
use estimator::{Architecture, Score, TargetKind};
use serde::{Deserialize, Serialize};

use super::datasets::{Facts, Source};
use super::peer::Boosting;
use super::program::Program;
use super::scene::Scene;
use super::series::Series;
use super::variant::Variant;
use training::Method;

const JOB_FORMAT: &str = "fedtse-job/1";

/// Who estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, try_from = "String")]
pub(super) enum Estimator {
    /// An estimator of this program.
    Own(Method),
    /// Gradient boosting, by a peer.
    Peer(Boosting),
}

/// One fit and its score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    pub demand_seed: u64,
    pub estimator: Estimator,
    /// Of the neural estimators.
    pub architecture: Option<Architecture>,
    /// Of the neural estimators.
    pub training_seed: Option<u64>,
    /// Penetration rate in percent, of estimators that see a fleet.
    pub rate: Option<u32>,
    pub target: TargetKind,
    /// Windows for training and validation, the last before the test part; all if none.
    pub samples: Option<usize>,
    /// What it has otherwise than usual; not in files that were written before there was any.
    #[serde(default, skip_serializing_if = "Variant::is_usual")]
    pub variant: Variant,
}

/// What all jobs of a run have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub world: Source,
    /// Simulated; 0 of recordings.
    pub minutes: f64,
    /// Seed that deals vehicles to fleets.
    pub fleet_seed: u64,
    /// Most epochs of the neural estimators, where it is not the architecture's own number.
    pub epochs: Option<usize>,
}

/// A finished job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub format: String,
    pub job: Job,
    pub settings: Settings,
    pub dataset: Facts,
    pub program: Program,
    /// What made it, where that was not the program itself.
    pub peer: Option<String>,
    pub command: String,
    pub score: Score,
    /// On the validation part, where choices belong; not in files of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Score>,
    pub best_epoch: Option<usize>,
    pub epochs: Option<usize>,
    /// Of the federated ones: exchanges, and bytes that left any party.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Exchanges of an epoch, or updates where nothing is exchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<usize>,
    /// After each epoch, where a curve was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<Moment>,
    /// With each guest absent, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
    /// Errors by its own estimate, without ground truth, if it makes one: RMSE of density and of flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_estimate: Option<[f64; 2]>,
    /// How often its intervals hold the truth of the test part, if it has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Coverage>,
    /// Of some links, where they are to be drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    pub seconds: f64,
}

/// The errors after an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Moment {
    pub validation: Score,
    pub test: Score,
}

/// The errors on the test part without a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Absent {
    pub guest: String,
    pub score: Score,
}

impl TryFrom<String> for Estimator {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        Self::parse(&name)
    }
}

impl Estimator {
    /// Finds an estimator by the name it has on the command line.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let own = Method::from_str(name, false).map(Estimator::Own);
        own.or_else(|_| Boosting::from_str(name, false).map(Estimator::Peer)).map_err(|_| {
            let own = Method::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let peer = Boosting::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let names: Vec<String> = own.chain(peer).map(|value| value.get_name().into()).collect();
            format!("found `{name}`, expected one of {}", names.join(", "))
        })
    }

    pub(super) fn sees_fleet(self) -> bool {
        use Estimator::{Own, Peer};
        !matches!(self, Own(Method::TseN | Method::RidgeN) | Peer(Boosting::BoostingN))
    }

    pub(super) fn is_federated(self) -> bool {
        matches!(self, Estimator::Own(method) if method.is_federated())
    }

    /// Whether it cannot do without ground truth.
    pub(super) fn learns_from_truth(self) -> bool {
        match self {
            Estimator::Own(method) => method.learns_from_truth(),
            Estimator::Peer(_) => true,
        }
    }

    pub(super) fn is_neural(self) -> bool {
        matches!(self, Estimator::Own(method) if method.is_neural())
    }

    pub(super) fn name(self) -> String {
        let value = match self {
            Estimator::Own(method) => method.to_possible_value(),
            Estimator::Peer(peer) => peer.to_possible_value(),
        };
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Job {
    /// Its dataset: demand seed and scene.
    pub(super) fn data(&self) -> (u64, Scene) {
        (self.demand_seed, self.variant.scene)
    }

    /// The name of its file, without ending.
    pub(super) fn name(&self) -> String {
        let mut name = format!("seed-{}.{}", self.demand_seed, self.estimator.name());
        let mut add = |part: String| name += &format!(".{part}");
        match self.architecture {
            Some(Architecture::Link) => add("link".into()),
            Some(Architecture::Paper) => add("paper".into()),
            None => {}
        }
        if let Some(rate) = self.rate {
            add(format!("fleet-{rate}"));
        }
        add(format!("{:?}", self.target).to_lowercase());
        if let Some(seed) = self.training_seed {
            add(format!("training-{seed}"));
        }
        if let Some(samples) = self.samples {
            add(format!("samples-{samples}"));
        }
        name + &self.variant.suffix()
    }

    /// About how long it takes beside others: seconds of one core, on 4,800 steps.
    pub(super) fn weight(&self) -> u64 {
        let effort = self.variant.effort();
        match (self.estimator, self.architecture) {
            (Estimator::Own(_), Some(Architecture::Link)) => 24 * effort,
            (Estimator::Own(_), Some(Architecture::Paper)) => 105 * effort,
            (Estimator::Own(Method::ScaleUp), None) => 1,
            (Estimator::Own(_), None) => 2,
            (Estimator::Peer(_), _) => 35,
        }
    }
}

/// The folder of finished jobs.
pub(super) struct JobFolder {
    folder: PathBuf,
}

impl JobFolder {
    pub(super) fn open(out: &Path) -> Result<Self> {
        let folder = out.join("jobs");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { folder })
    }

    fn path(&self, job: &Job) -> PathBuf {
        self.folder.join(job.name() + ".json")
    }

    /// The record of a job, if it is finished.
    pub(super) fn read(&self, job: &Job) -> Result<Option<Record>> {
        let path = self.path(job);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let record: Record = serde_json::from_str(&text).with_context(|| {
            format!("{}: not a finished job; delete it to run it again", path.display())
        })?;
        ensure!(
            record.format == JOB_FORMAT,
            "{}: format: found \"{}\", expected \"{JOB_FORMAT}\"",
            path.display(),
            record.format
        );
        ensure!(record.job == *job, "{}: holds another job than its name says", path.display());
        ensure!(
            record.scores().flat_map(numbers).all(|e| e.is_finite() && e >= 0.0),
            "{}: score: expected finite numbers of 0 or more",
            path.display()
        );
        Ok(Some(record))
    }

    /// Writes a finished job.
    pub(super) fn write(&self, record: &Record) -> Result<()> {
        ensure!(
            record.scores().flat_map(numbers).all(f64::is_finite),
            "the score is no finite number"
        );
        let text = serde_json::to_string_pretty(record)? + "\n";
        durable::write(&self.path(&record.job), text)?;
        // It may have failed before, by another version of the program.
        let failed = self.failed_path(&record.job);
        if failed.exists() {
            std::fs::remove_file(&failed).with_context(|| failed.display().to_string())?;
        }
        Ok(())
    }

    fn failed_path(&self, job: &Job) -> PathBuf {
        self.folder.join(job.name() + ".failed")
    }

    /// Keeps why a job could not be done.
    pub(super) fn write_failure(&self, job: &Job, error: &str) -> Result<()> {
        Ok(durable::write(&self.failed_path(job), format!("{error}\n"))?)
    }

    /// Why a job could not be done when it was last run.
    pub(super) fn failure(&self, job: &Job) -> Option<String> {
        let text = std::fs::read_to_string(self.failed_path(job)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Refuses a record of other settings or other data.
    pub(super) fn check(
        &self,
        record: &Record,
        settings: &Settings,
        dataset: &Facts,
    ) -> Result<()> {
        let text = |value: &Settings| serde_json::to_string(value).unwrap_or_default();
        let pairs = [
            ("settings", text(&record.settings), text(settings)),
            ("dataset", record.dataset.fingerprint.clone(), dataset.fingerprint.clone()),
        ];
        for (what, found, expected) in pairs {
            ensure!(
                found == expected,
                "{}: {what}: found {found}, expected {expected}; choose another folder, or delete the job to run it again",
                self.path(&record.job).display()
            );
        }
        Ok(())
    }
}

impl Record {
    /// All scores it holds.
    fn scores(&self) -> impl Iterator<Item = Score> + '_ {
        let curve = self.curve.iter().flat_map(|moment| [moment.validation, moment.test]);
        let absent = self.absent.iter().map(|absent| absent.score);
        [self.score].into_iter().chain(self.validation).chain(curve).chain(absent)
    }

    /// A new record in the present format.
    pub(super) fn new(job: Job, settings: Settings, dataset: Facts, program: Program) -> Self {
        Self {
            format: JOB_FORMAT.into(),
            job,
            settings,
            dataset,
            program,
            peer: None,
            command: String::new(),
            score: Score::default(),
            validation: None,
            best_epoch: None,
            epochs: None,
            rounds: None,
            bytes: None,
            exchanges: None,
            curve: Vec::new(),
            absent: Vec::new(),
            own_estimate: None,
            intervals: Vec::new(),
            series: Vec::new(),
            seconds: 0.0,
        }
    }
}

#[cfg(test)]
impl Record {
    /// A record of some job, for tests.
    pub(super) fn example() -> Self {
        let job = Job {
            demand_seed: 1,
            estimator: Estimator::Own(Method::FedTse),
            architecture: Some(Architecture::Link),
            training_seed: Some(1),
            rate: Some(20),
            target: TargetKind::Raw,
            samples: None,
            variant: Variant::USUAL,
        };
        let settings =
            Settings { world: Source::Sumo, minutes: 810.0, fleet_seed: 1, epochs: None };
        let facts = Facts {
            demand_seed: 1,
            source: std::collections::BTreeMap::new(),
            network_file_hash: String::new(),
            vehicles: 0,
            steps: 0,
            fingerprint: String::new(),
        };
        let program = Program { version: String::new(), commit: String::new(), executable: None };
        Self::new(job, settings, facts, program)
    }
}

fn numbers(score: Score) -> [f64; 4] {
    let Score { density, flow } = score;
    [density.rmse, density.mae, flow.rmse, flow.mae]
}
