//! What a run came to, in one file: `run.json`, written by `fedtse demo` and `fedtse train --out`, and
//! shown by `fedtse report`.
//!
//! 1. [`Data`]: the traffic that it learned from.
//! 2. [`MethodRun`]: each estimator's errors, course of training and, of the federated ones, what left
//!    each party.
//! 3. [`Estimated`]: estimates beside the truth, link by link; [`TimeSpace`]: the traffic itself.

mod estimated;
mod time_space;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use estimator::{Epoch, Errors, Score, Study, TargetKind};
use sensing::Dataset;
use serde::{Deserialize, Serialize};

pub use estimated::{Estimated, Shown, truths};
pub use time_space::TimeSpace;

use crate::reproduce::{Program, today};
use training::{Method, Releases, TrainOptions, Training};

/// The file's name in a run's folder.
pub(crate) const RUN_FILE: &str = "run.json";
const RUN_FORMAT: &str = "fedtse-run/1";

/// See the [module](self).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    format: String,
    pub title: String,
    pub command: String,
    pub program: Program,
    /// The day, UTC.
    pub date: String,
    pub data: Data,
    /// The part of the data that is scored.
    #[serde(default)]
    pub part: Part,
    pub methods: Vec<MethodRun>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Estimated>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_space: Option<TimeSpace>,
}

/// Parts of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    Validation,
    #[default]
    Test,
}

/// What was learned from, and scored on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    pub network: String,
    /// Where the traffic comes from: `builtin`, `sumo`, or what was imported.
    pub world: String,
    pub vehicles: u64,
    pub links: usize,
    pub target_links: usize,
    pub step_s: f64,
    /// Windows to learn from, to choose by, and to score on.
    pub train: usize,
    pub validation: usize,
    pub test: usize,
    /// All fleets together, in percent of the vehicles.
    pub rate: f64,
    pub guests: u16,
}

/// One estimator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodRun {
    pub label: String,
    pub method: Method,
    /// What is estimated; older files do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Of all options that it was fitted with, but the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Whose data it sees, in words.
    pub sees: String,
    /// Whether it learns from ground truth.
    pub with_truth: bool,
    /// How what a guest sends is protected, of the federated ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<String>,
    pub score: Score,
    /// Losses by epoch, of those that are trained in epochs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Epoch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_epoch: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<Releases>,
    pub seconds: f64,
}

impl MethodRun {
    /// A run without scores yet.
    pub fn new(label: &str, task: &TrainOptions, took: Duration) -> Self {
        let method = task.method;
        Self {
            label: label.to_owned(),
            method,
            target: Some(task.target),
            seed: Some(task.seed),
            fingerprint: Some(task.fingerprint()),
            sees: method.sees().to_owned(),
            with_truth: method.learns_from_truth(),
            privacy: task.privacy(),
            score: Score::default(),
            history: Vec::new(),
            best_epoch: None,
            rounds: None,
            releases: Vec::new(),
            seconds: took.as_secs_f64(),
        }
    }

    /// Adds how it was trained.
    pub fn trained(&mut self, training: &Training) {
        self.history.clone_from(&training.history);
        (self.best_epoch, self.rounds) = (training.best_epoch, training.rounds);
        self.releases.clone_from(&training.releases);
    }
}

/// Mean of scores, and their standard deviation (n − 1), if there are two or more.
pub(crate) fn spread(scores: &[Score]) -> (Score, Option<Score>) {
    let each = |number: &dyn Fn(&Score) -> f64| {
        let count = scores.len() as f64;
        let mean = scores.iter().map(number).sum::<f64>() / count;
        let squares = scores.iter().map(|score| (number(score) - mean).powi(2)).sum::<f64>();
        (mean, (squares / (count - 1.0)).sqrt())
    };
    let [density_rmse, density_mae, flow_rmse, flow_mae] = [
        each(&|score| score.density.rmse),
        each(&|score| score.density.mae),
        each(&|score| score.flow.rmse),
        each(&|score| score.flow.mae),
    ];
    let of = |pick: fn((f64, f64)) -> f64| Score {
        density: Errors { rmse: pick(density_rmse), mae: pick(density_mae) },
        flow: Errors { rmse: pick(flow_rmse), mae: pick(flow_mae) },
    };
    (of(|(mean, _)| mean), (scores.len() > 1).then(|| of(|(_, deviation)| deviation)))
}

impl RunRecord {
    /// A record of no estimator yet.
    pub fn new(title: &str, command: String, data: Data) -> Result<Self> {
        Ok(Self {
            format: RUN_FORMAT.to_owned(),
            title: title.to_owned(),
            command,
            program: Program::this()?,
            date: today()?,
            data,
            part: Part::default(),
            methods: Vec::new(),
            estimated: None,
            time_space: None,
        })
    }

    /// Writes `run.json` into a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        Ok(durable::write(&folder.join(RUN_FILE), serde_json::to_string(self)? + "\n")?)
    }

    /// Reads `run.json` of a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(RUN_FILE);
        let named = || path.display().to_string();
        let text = std::fs::read_to_string(&path).with_context(named)?;
        let record: Self = serde_json::from_str(&text).with_context(named)?;
        ensure!(
            record.format == RUN_FORMAT,
            "{}: format: found \"{}\", expected \"{RUN_FORMAT}\"",
            path.display(),
            record.format
        );
        Ok(record)
    }
}

impl Data {
    /// Of a dataset and the windows made of it.
    pub fn of(study: &Study, rate: f64, guests: u16) -> Result<Self> {
        let dataset = Dataset::open(study.folder())?;
        let source = &dataset.manifest().source;
        let split = study.split();
        Ok(Self {
            network: study.network().name().to_owned(),
            world: source.get("world").cloned().unwrap_or_else(|| "recordings".to_owned()),
            vehicles: dataset.manifest().vehicles,
            links: study.network().links().len(),
            target_links: study.targets().len(),
            step_s: study.step().get(),
            train: split.train.len(),
            validation: split.validation.len(),
            test: split.test.len(),
            rate,
            guests,
        })
    }
}
