//! `fedtse train`: fits an estimator and scores it.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use estimator::{Party, Ridge, Score, Study, TargetKind, scale_up, score};
use serde::Serialize;
use serde_json::json;

/// Fit an estimator on a dataset's features and score it
///
/// Fitted on the first 70 % of the time, chosen on the next 10 %, scored on the last 20 %. The
/// references that every estimator must beat: scale-up and ridge regression.
#[derive(Args)]
#[command(after_help = "Example:\n  fedtse train --data data/corridor --method ridge --rate 20")]
pub struct TrainArguments {
    /// The dataset, with features
    #[arg(long)]
    data: PathBuf,
    /// Which estimator
    #[arg(long, value_enum, default_value_t = Method::Ridge)]
    method: Method,
    /// Penetration rates in percent; a fleet of each must be among the features
    #[arg(long, value_delimiter = ',', default_values_t = [20.0, 40.0, 60.0, 80.0])]
    rate: Vec<f64>,
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
}

#[derive(Serialize)]
struct Row {
    method: Method,
    rate: f64,
    target: TargetKind,
    test: Score,
}

pub fn run(arguments: &TrainArguments, json: bool) -> Result<()> {
    let mut rows = Vec::new();
    for &rate in &arguments.rate {
        let study = Study::open(&arguments.data, &format!("fleet-{rate}"))?;
        for target in [TargetKind::Raw, TargetKind::Smooth] {
            let test = &study.split().test;
            let party = match arguments.method {
                Method::ScaleUp => None,
                Method::RidgeN => Some(Party::Host),
                Method::RidgeP => Some(Party::HostAndSpeeds),
                Method::Ridge => Some(Party::Both),
            };
            let estimates = match party {
                None => scale_up(&study, target, test),
                Some(party) => Ridge::fit(&study, target, party)?.estimate(&study, test)?,
            };
            let test = score(&study, target, test, &estimates);
            rows.push(Row { method: arguments.method, rate, target, test });
        }
    }
    if json {
        println!("{}", json!(rows));
        return Ok(());
    }
    println!("errors on the test part (last 20 % of the time), target links");
    println!(
        "{:>6} {:>7}   {:^19}   {:^19}",
        "rate", "target", "density veh/km/lane", "flow veh/min/lane"
    );
    println!("{:>6} {:>7}   {:>9} {:>9}   {:>9} {:>9}", "", "", "RMSE", "MAE", "RMSE", "MAE");
    for row in &rows {
        println!(
            "{:>5}% {:>7}   {:>9.2} {:>9.2}   {:>9.2} {:>9.2}",
            row.rate,
            format!("{:?}", row.target).to_lowercase(),
            row.test.density.rmse,
            row.test.density.mae,
            row.test.flow.rmse,
            row.test.flow.mae
        );
    }
    Ok(())
}
