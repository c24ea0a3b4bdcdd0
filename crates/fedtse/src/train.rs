//! `fedtse train`: fits an estimator and scores it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use estimator::{
    Architecture, NeuralEstimator, NeuralPlan, NeuralStudy, Party, Ridge, Score, Study, TargetKind,
    scale_up, score,
};
use serde::Serialize;
use serde_json::json;

use crate::progress;

mod curves;

/// Fit an estimator on a dataset's features and score it
///
/// Fitted on the first 70 % of the time, chosen on the next 10 %, scored on the last 20 %. The
/// references that every estimator must beat: scale-up and ridge regression.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse train --data data/corridor --method ridge --rate 20\n  fedtse train --data data/corridor --method oracle --rate 20 --target raw --out model"
)]
pub struct TrainArguments {
    /// The dataset, with features
    #[arg(long)]
    data: PathBuf,
    /// Which estimator
    #[arg(long, value_enum, default_value_t = Method::Oracle)]
    method: Method,
    /// Penetration rates in percent; a fleet of each must be among the features
    #[arg(long, value_delimiter = ',', default_values_t = [20.0, 40.0, 60.0, 80.0])]
    rate: Vec<f64>,
    /// What is estimated: states of single steps, or their means over 60 s
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Target::Raw, Target::Smooth])]
    target: Vec<Target>,
    /// Model of the neural estimators
    #[arg(long, value_enum, default_value_t = Arch::Link)]
    arch: Arch,
    /// Seed of the neural estimators: first weights, order of samples, dropout
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Epochs of the neural estimators, at most; 100 for `link`, 200 for `paper` unless given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    epochs: Option<u64>,
    /// Folder for the trained model: one neural estimator, one rate, one target
    ///
    /// A run that was interrupted continues where it stood and ends with the same weights.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The part of the data that is scored; choices belong on the validation part
    #[arg(long, value_enum, default_value_t = Part::Test)]
    part: Part,
}

/// The estimators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Fleet totals divided by the penetration rate
    ScaleUp,
    /// Ridge regression on loop counts alone
    RidgeN,
    /// Ridge regression on loop counts and the fleet's speeds
    RidgeP,
    /// Ridge regression on loop counts and the fleet's totals
    Ridge,
    /// Neural, on loop counts alone
    TseN,
    /// Neural, on loop counts and the fleet's speeds
    TseP,
    /// Neural, on loop counts and the fleet's totals
    Oracle,
    /// Neural, on loop counts and the fleet's totals in cells and sub-steps
    OracleCell,
}

/// What is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// The step itself
    Raw,
    /// Trailing mean over 60 s
    Smooth,
}

/// Models of the neural estimators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arch {
    /// One set of weights for all links, with message passing
    Link,
    /// The paper's: STGCN sub-models, embeddings of 9 numbers
    Paper,
}

/// Parts of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Part {
    Validation,
    Test,
}

#[derive(Serialize)]
struct Row {
    method: Method,
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<Architecture>,
    rate: f64,
    target: TargetKind,
    part: Part,
    score: Score,
    /// Of the neural estimators: the epoch whose weights were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_epoch: Option<usize>,
}

enum Fit {
    ScaleUp,
    Ridge(Party),
    Neural(Party),
}

impl Method {
    fn fit(self) -> Fit {
        match self {
            Method::ScaleUp => Fit::ScaleUp,
            Method::RidgeN => Fit::Ridge(Party::Host),
            Method::RidgeP => Fit::Ridge(Party::HostAndSpeeds),
            Method::Ridge => Fit::Ridge(Party::Both),
            Method::TseN => Fit::Neural(Party::Host),
            Method::TseP => Fit::Neural(Party::HostAndSpeeds),
            Method::Oracle => Fit::Neural(Party::Both),
            Method::OracleCell => Fit::Neural(Party::BothAndCells),
        }
    }
}

pub fn run(arguments: &TrainArguments, json: bool) -> Result<()> {
    if let Some(out) = &arguments.out {
        ensure!(
            matches!(arguments.method.fit(), Fit::Neural(_))
                && arguments.rate.len() == 1
                && arguments.target.len() == 1,
            "--out: expected a neural method (tse-n, tse-p, oracle, oracle-cell) with one --rate and one --target"
        );
        ensure!(
            !out.join("model.json").exists(),
            "{}: holds a model already, expected a new folder or an unfinished run",
            out.display()
        );
        std::fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    }
    let mut rows = Vec::new();
    for &rate in &arguments.rate {
        let study = Study::open(&arguments.data, &format!("fleet-{rate}"))?;
        for target in &arguments.target {
            let kind = match target {
                Target::Raw => TargetKind::Raw,
                Target::Smooth => TargetKind::Smooth,
            };
            rows.push(fit(arguments, &study, rate, kind)?);
        }
    }
    if json {
        println!("{}", json!(rows));
    } else {
        print(&rows, arguments.part);
    }
    Ok(())
}

fn fit(arguments: &TrainArguments, study: &Study, rate: f64, target: TargetKind) -> Result<Row> {
    let windows = match arguments.part {
        Part::Validation => &study.split().validation,
        Part::Test => &study.split().test,
    };
    let (mut architecture, mut best_epoch) = (None, None);
    let estimates = match arguments.method.fit() {
        Fit::ScaleUp => scale_up(study, target, windows),
        Fit::Ridge(party) => Ridge::fit(study, target, party)?.estimate(study, windows)?,
        Fit::Neural(party) => {
            let chosen = match arguments.arch {
                Arch::Link => Architecture::Link,
                Arch::Paper => Architecture::Paper,
            };
            architecture = Some(chosen);
            let mut plan = NeuralPlan::new(party, chosen, target, arguments.seed);
            if let Some(epochs) = arguments.epochs {
                plan.recipe.epochs = epochs as usize;
            }
            let (estimator, epoch) = train(study, plan, arguments.out.as_deref())?;
            best_epoch = epoch;
            estimator.estimate(study, windows)?
        }
    };
    let score = score(study, target, windows, &estimates);
    let (method, part) = (arguments.method, arguments.part);
    Ok(Row { method, architecture, rate, target, part, score, best_epoch })
}

/// Trains, keeping each epoch and at the end the model if a folder is given.
fn train(
    study: &Study,
    plan: NeuralPlan,
    out: Option<&Path>,
) -> Result<(NeuralEstimator, Option<usize>)> {
    let bar = progress::bar("training", plan.recipe.epochs as u64);
    let data = NeuralStudy::new(study, plan)?;
    let mut trainer = match out {
        Some(folder) => data.resume(folder)?,
        None => data.trainer()?,
    };
    bar.set_position(trainer.history().len() as u64);
    while !trainer.is_done() {
        let epoch = trainer.epoch(&data)?;
        if let Some(folder) = out {
            data.keep(&trainer, folder)?;
        }
        bar.inc(1);
        let losses = format!("loss {:.4}, validation {:.4}", epoch.train, epoch.validation);
        bar.set_message(format!("epoch {:>3}: {losses}", epoch.number));
    }
    bar.finish_and_clear();
    let best_epoch = trainer.best_epoch().map(|epoch| epoch.number);
    let history = trainer.history().to_vec();
    let estimator = data.finish(trainer);
    if let Some(folder) = out {
        curves::draw(&folder.join("curves.svg"), &history)?;
        estimator.save(folder, &history)?;
    }
    Ok((estimator, best_epoch))
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
}
