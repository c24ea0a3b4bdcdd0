//! `fedtse demo`: the whole way in one command.
//!
//! 1. A world: vehicles on the paper's corridor, by the built-in simulator.
//! 2. Features: what the city's loops see of them, and two fleets.
//! 3. [`comparison`]: every method estimates density and flow; host and guests train together.
//! 4. [`output`]: one table; with `--ledger` also what left each party. The rest is in the report.

mod comparison;
mod output;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use sensing::{Dataset, FeaturePlan, Fleets};
use traffic::Seconds;

use crate::party::privacy::Mode;
use experiments::data::{features, simulate};
use experiments::report;

/// Simulate the corridor, train a city and two fleets together, and compare
///
/// Needs nothing and takes less than a minute on two cores. Writes a report, a page that works
/// without a network, and run.json with its numbers.
#[derive(Args)]
#[command(after_help = "Example:\n  fedtse demo")]
pub(crate) struct DemoArguments {
    /// Minutes to simulate, 10 of them warm-up
    #[arg(long, default_value_t = 250.0)]
    minutes: f64,
    /// Most epochs of the estimators that learn from ground truth
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1000))]
    epochs: u64,
    /// Epochs of the run without ground truth, with measurements in the clear
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=1000))]
    epochs_without_truth: u64,
    /// Privacy mode of the second run without ground truth
    #[arg(long, value_enum, default_value_t = Mode::Aggregate)]
    privacy: Mode,
    /// Epochs of that run
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=1000))]
    epochs_protected: u64,
    /// Seed of demand, drivers, fleets and first weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for report.html and run.json, which are written over
    #[arg(long, default_value = "fedtse-demo")]
    out: PathBuf,
    /// Also list what each party sent, by the ledgers of the senders
    #[arg(long)]
    ledger: bool,
    /// Keep the dataset in this folder: new or empty
    #[arg(long)]
    data: Option<PathBuf>,
}

pub(crate) fn run(arguments: &DemoArguments, json: bool) -> Result<()> {
    let begun = Instant::now();
    let temporary = tempfile::tempdir().context("temporary folder")?;
    let folder = arguments.data.clone().unwrap_or_else(|| temporary.path().join("corridor"));
    std::fs::create_dir_all(&arguments.out).with_context(|| arguments.out.display().to_string())?;

    // Simulate vehicles on the paper's corridor.
    let (minutes, seed) = (arguments.minutes, arguments.seed);
    let network = traffic::corridor()?;
    simulate::corridor(simulate::World::Builtin, &network, &folder, minutes, seed)?;

    // Extract what the city's loops and the two fleets observe.
    let dataset = Dataset::open(&folder)?;
    let fleets = Fleets::nested(&[comparison::RATE / 100.0], seed)?;
    let fleets = fleets.divided(&[comparison::GUESTS.into()])?;
    features::make(&dataset, FeaturePlan::paper(fleets), Seconds::new(f64::NEG_INFINITY))?;

    // Estimate with every method and score against the truth.
    let record = comparison::compare(&folder, arguments)?;
    record.write(&arguments.out)?;
    let page = arguments.out.join("report.html");
    report::write(&page, std::slice::from_ref(&record), Vec::new())?;

    if json {
        println!("{}", serde_json::to_string(&record)?);
        return Ok(());
    }
    print!("{}", output::text(&record, minutes, arguments.ledger));
    println!("\nfinished in {:.0} s; report: {}", begun.elapsed().as_secs_f64(), page.display());
    if let Some(data) = &arguments.data {
        println!("dataset in {}; look at it with `fedtse inspect {0}`", data.display());
    }
    Ok(())
}
