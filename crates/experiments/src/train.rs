//! `fedtse train`: fits an estimator and scores it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use estimator::artifact::{Coverage, ModelFile};
use estimator::loss::TrafficModelKind;
use estimator::{Architecture, Epoch, FleetData, Score, Study, TargetKind, score};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::json;

use training::Fitted;
use training::party::CustomSubModels;

mod curves;
mod intervals;
mod kept_run;

pub use training::{
    FederationOptions, GuestOptions, InvalidOption, Method, PhysicsOptions, Releases, TrainOptions,
    Training, Watch,
};

use crate::data::check_folder;
use crate::data::features::{RATES, make_parts};

/// Fit an estimator on a dataset's features and score it
///
/// Fitted on the first 70 % of the time, chosen on the next 10 %, scored on the last 20 %. The
/// references that every estimator must beat: scale-up and ridge regression.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(
    after_help = "Examples:\n  fedtse train --data data/corridor --method ridge --rate 20\n  fedtse train --data data/corridor --method oracle --rate 20 --target raw --out model\n  fedtse train --data data/corridor --method fedtse --rate 20 --guests 2 --q 2\n  fedtse train --data data/corridor --method fedtse --rate 20 --guests 4 --privacy aggregate"
)]
pub struct TrainArguments {
    /// The dataset, with features
    #[arg(long)]
    data: PathBuf,
    /// Which estimator
    #[arg(long, value_enum, default_value_t = TrainArguments::default().method)]
    method: Method,
    /// Penetration rates in percent; a fleet of each must be among the features
    #[arg(long, value_delimiter = ',', default_values_t = TrainArguments::default().rate)]
    rate: Vec<f64>,
    /// Instead of rates: the fleet of each guest, by its name among the features; they may differ in size
    #[arg(long, value_delimiter = ',', value_name = "NAME", conflicts_with_all = ["rate", "guests"])]
    fleets: Vec<String>,
    /// What is estimated: states of single steps, or their means over 60 s; both unless given, but
    /// raw alone for the methods that learn from measurements of single steps
    #[arg(long, value_enum, value_delimiter = ',')]
    target: Vec<TargetKind>,
    /// Model of the neural estimators
    #[arg(long, value_enum, default_value_t = TrainArguments::default().arch)]
    arch: Architecture,
    #[command(flatten)]
    guest: GuestOptions,
    #[command(flatten)]
    federation: FederationOptions,
    #[command(flatten)]
    physics: PhysicsOptions,
    /// Seed of the neural estimators: first weights, order of samples, dropout
    #[arg(long, default_value_t = TrainArguments::default().seed)]
    seed: u64,
    /// Epochs of the neural estimators, at most; 100 for `link`, 200 for `paper` unless given
    #[arg(long)]
    epochs: Option<u64>,
    /// Highest learning rate of the neural estimators; 0.003 for `link`, 0.0003 for `paper` unless given
    #[arg(long)]
    learning_rate: Option<f32>,
    /// Folder for what was fitted, for `estimate` and `report`: of one rate and one target
    ///
    /// A run that was interrupted continues where it stood and ends with the same weights. Of the federated
    /// methods it also holds each party's checkpoints, ledger and model, for `live`
    #[arg(long)]
    out: Option<PathBuf>,
    /// The part of the data that is scored; choices belong on the validation part
    #[arg(long, value_enum, default_value_t = TrainArguments::default().part)]
    part: Part,
}

/// More is a mistake.
pub const MOST_EPOCHS: u64 = 100_000;

/// Parts of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Part {
    Validation,
    Test,
}

/// How one fit went.
#[derive(Serialize)]
pub struct Row {
    method: Method,
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<Architecture>,
    /// Of those with a traffic model: which one.
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_model: Option<TrafficModelKind>,
    rate: f64,
    target: TargetKind,
    part: Part,
    score: Score,
    /// Of the neural estimators: the epoch whose weights were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_epoch: Option<usize>,
    /// Of the federated ones: exchanges, and bytes that left any party.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Of the federated ones: guests that did not come to the end, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    left: BTreeMap<String, String>,
    /// Of a combination: its models, with their weights for density and for flow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    models: Vec<(&'static str, [f64; 2])>,
    /// Errors as a held-out part of the fleet tells them, without ground truth: root mean squares of density and flow, none where
    /// they cannot be told from noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_errors: Option<[Option<f64>; 2]>,
    /// Of a federation with custom sub-models: each epoch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Epoch>,
    /// Of a model that is kept: how often its intervals hold the truth.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Coverage>,
}

impl Default for TrainArguments {
    fn default() -> Self {
        Self {
            data: PathBuf::new(),
            method: Method::Oracle,
            rate: RATES.to_vec(),
            fleets: Vec::new(),
            target: Vec::new(),
            arch: Architecture::Link,
            guest: GuestOptions::default(),
            federation: FederationOptions::default(),
            physics: PhysicsOptions::default(),
            seed: 1,
            epochs: None,
            learning_rate: None,
            out: None,
            part: Part::Test,
        }
    }
}

impl TrainArguments {
    fn check(&self) -> Result<(), InvalidOption> {
        check_folder("data", &self.data)?;
        self.guest.check()?;
        self.federation.check()?;
        self.physics.check()?;
        InvalidOption::check_range("epochs", self.epochs, 1..=MOST_EPOCHS)?;
        let (names, most) = (self.fleets.len(), if self.method.is_federated() { 64 } else { 1 });
        InvalidOption::check_range("fleets", (names > 0).then_some(names), 1..=most)?;
        if let Some(rate) = self.learning_rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
            let problem = format!("found {rate}, expected a number of more than 0");
            return Err(InvalidOption::new("learning_rate", problem));
        }
        if self.physics.label_share.is_some() && !self.method.takes_labels_besides() {
            let method = self.method.name();
            let problem = format!(
                "found {method}, expected tse-pi-p, oracle-pi, oracle-pi-v, oracle-pi-k or oracle-pi-hf: the others learn from all labels or none"
            );
            return Err(InvalidOption::new("label_share", problem));
        }
        Ok(())
    }

    /// The targets asked for, or all that the method has.
    fn targets(&self) -> Result<Vec<TargetKind>> {
        let kinds = [TargetKind::Raw, TargetKind::Smooth];
        if self.target.is_empty() {
            return Ok(kinds.into_iter().filter(|&kind| self.method.has_target(kind)).collect());
        }
        let targets = self.target.iter().map(|&kind| {
            self.method.check_target(kind)?;
            Ok(kind)
        });
        targets.collect()
    }
}

pub fn run(arguments: &TrainArguments, json: bool) -> Result<()> {
    let rows = make(arguments, &CustomSubModels::default())?;
    if json {
        println!("{}", json!(rows));
    } else {
        print(&rows, arguments.part);
    }
    Ok(())
}

/// Fits for each rate and target, with custom sub-models.
pub fn make(arguments: &TrainArguments, custom: &CustomSubModels) -> Result<Vec<Row>> {
    arguments.check()?;
    let targets = arguments.targets()?;
    if let Some(out) = &arguments.out {
        let rates = if arguments.fleets.is_empty() { arguments.rate.len() } else { 1 };
        if !(rates == 1 && targets.len() == 1) {
            let targets = targets.len();
            let problem =
                format!("found {rates} rates and {targets} targets, expected one of each");
            return Err(InvalidOption::new("out", problem).into());
        }
        // A federated run that is finished is read again: its parties know that they are.
        let read_again = arguments.method.is_federated() && out.join("host").exists();
        ensure!(
            read_again || !ModelFile::is_in(out),
            "{}: holds a model already, expected a new folder or an unfinished run",
            out.display()
        );
        std::fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    }
    let mut rows = Vec::new();
    let task = task(arguments, TargetKind::Raw);
    let fleets: Vec<Vec<String>> = match arguments.fleets.is_empty() {
        true => arguments.rate.iter().map(|&rate| task.fleets(rate)).collect(),
        false => vec![task.parts_of(&arguments.fleets)],
    };
    for fleets in fleets {
        let fleets: Vec<&str> = fleets.iter().map(String::as_str).collect();
        let data = &arguments.data;
        let study = make_parts(data, &fleets, || Study::open_fleets(data, &fleets))?;
        let rates = study.fleets().iter().map(FleetData::rate);
        // To a millionth of a percent, as rates are given.
        let rate = (rates.sum::<f64>() * 1e8).round() / 1e6;
        for &target in &targets {
            rows.push(fit(arguments, custom, &study, rate, target)?);
        }
    }
    Ok(rows)
}

fn fit(
    arguments: &TrainArguments,
    custom: &CustomSubModels,
    study: &Study,
    rate: f64,
    target: TargetKind,
) -> Result<Row> {
    let windows = match arguments.part {
        Part::Validation => &study.split().validation,
        Part::Test => &study.split().test,
    };
    let task = task(arguments, target);
    let bar = match task.most_epochs() {
        Some(epochs) => progress::bar("training", epochs as u64),
        None => ProgressBar::hidden(),
    };
    let begun = Instant::now();
    let keep = (Watch::default(), arguments.out.as_deref());
    let fitted = task.fit_with(study, windows, keep, custom, &bar)?;
    let score = score(study, target, windows, &fitted.estimates);
    let architecture = task.method.is_neural().then_some(task.architecture);
    let intervals = match &arguments.out {
        Some(folder) if custom.is_empty() => {
            intervals::keep(folder, study, &task, windows, &fitted)?
        }
        _ => Vec::new(),
    };
    if let Some(folder) = arguments.out.as_ref().filter(|_| custom.is_empty()) {
        let history = fitted.training.as_ref().map_or(&[][..], |training| &training.history);
        if !history.is_empty() {
            curves::draw(&folder.join("curves.svg"), history)?;
        }
        kept_run::keep(folder, &task, (study, rate), windows, &fitted, begun.elapsed())?;
    }
    let models = fitted.weights.iter().map(|one| (one.model, one.weights)).collect();
    let estimated_errors = fitted.estimated_errors.map(|errors| errors.rmse);
    let mut training = fitted.training;
    let left = training.as_mut().map(|training| std::mem::take(&mut training.left));
    let left = left.unwrap_or_default();
    let history = training.as_ref().filter(|_| !custom.is_empty());
    let history = history.map_or_else(Vec::new, |training| training.history.clone());
    Ok(Row {
        method: task.method,
        architecture,
        traffic_model: task.traffic_model(),
        rate,
        target,
        part: arguments.part,
        score,
        best_epoch: training.as_ref().and_then(|training| training.best_epoch),
        rounds: training.as_ref().and_then(|training| training.rounds),
        bytes: training.as_ref().and_then(|training| training.bytes),
        left,
        models,
        estimated_errors,
        history,
        intervals,
    })
}

/// Leaves intervals beside a model of a sum over guests, or none if nothing tells its errors.
pub fn keep_intervals_of_sum(
    folder: &Path,
    study: &Study,
    task: &TrainOptions,
    fitted: &Fitted,
) -> Result<()> {
    intervals::keep_of_sum(folder, study, task, fitted)
}

fn task(arguments: &TrainArguments, target: TargetKind) -> TrainOptions {
    let mut federation = arguments.federation.clone();
    if !arguments.fleets.is_empty() {
        federation.guests = arguments.fleets.len() as u16;
    }
    TrainOptions {
        method: arguments.method,
        architecture: arguments.arch,
        target,
        seed: arguments.seed,
        epochs: arguments.epochs.map(|epochs| epochs as usize),
        learning_rate: arguments.learning_rate,
        guest: arguments.guest,
        federation,
        physics: arguments.physics,
    }
}

fn print(rows: &[Row], part: Part) {
    let part = match part {
        Part::Validation => "validation part (10 % of the time, before the last 20 %)",
        Part::Test => "test part (last 20 % of the time)",
    };
    println!("errors on the {part}, target links");
    println!(
        "{:>6} {:>7}   {:^19}   {:^19}",
        "rate", "target", "density veh/km/lane", "flow veh/min/lane"
    );
    println!("{:>6} {:>7}   {:>9} {:>9}   {:>9} {:>9}", "", "", "RMSE", "MAE", "RMSE", "MAE");
    for row in rows {
        println!(
            "{:>5}% {:>7}   {:>9.2} {:>9.2}   {:>9.2} {:>9.2}",
            row.rate,
            format!("{:?}", row.target).to_lowercase(),
            row.score.density.rmse,
            row.score.density.mae,
            row.score.flow.rmse,
            row.score.flow.mae
        );
    }
    for row in rows {
        if let (Some(rounds), Some(bytes)) = (row.rounds, row.bytes) {
            let megabytes = bytes as f64 / 1e6;
            println!("{:>5}%: {rounds} exchanges, {megabytes:.1} MB left the parties", row.rate);
        } else if let Some(bytes) = row.bytes {
            let megabytes = bytes as f64 / 1e6;
            println!("{:>5}%: {megabytes:.1} MB left the guests, once", row.rate);
        }
        for (model, weights) in &row.models {
            let [density, flow] = weights.map(|weight| 100.0 * weight);
            println!(
                "{:>5}%: {model}: weight {density:.0} % for density, {flow:.0} % for flow",
                row.rate
            );
        }
        if let Some(errors) = row.estimated_errors {
            let [density, flow] = errors.map(|rmse| {
                rmse.map_or_else(
                    || "not told from noise".to_owned(),
                    |rmse| format!("RMSE {rmse:.2}"),
                )
            });
            println!(
                "{:>5}%: without ground truth, a held-out part of the fleet tells: density {density}, flow {flow}",
                row.rate
            );
        }
        for one in &row.intervals {
            let [density, flow] = one.within.map(|share| 100.0 * share);
            println!(
                "{:>5}%: intervals of {} % hold {density:.1} % of densities (mean width {:.1}), {flow:.1} % of flows ({:.2})",
                row.rate, one.level, one.width[0], one.width[1]
            );
        }
    }
}
