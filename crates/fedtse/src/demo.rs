//! `fedtse demo`: the whole way so far, in one command.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use sensing::{Dataset, FeaturePlan, Features, Fleets};
use serde_json::json;
use traffic::Seconds;

use crate::link_table::{link_rows, render};
use crate::{features, simulate};

/// Simulate the corridor and show the traffic on every link
#[derive(Args)]
#[command(after_help = "Example:\n  fedtse demo")]
pub struct DemoArguments {
    /// Minutes to simulate, 10 of them warm-up
    #[arg(long, default_value_t = 810.0)]
    minutes: f64,
    /// Seed of demand, drivers and fleets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the dataset in this folder: new or empty
    #[arg(long)]
    out: Option<PathBuf>,
}

pub fn run(arguments: &DemoArguments, json: bool) -> Result<()> {
    let begun = Instant::now();
    let temporary = tempfile::tempdir().context("temporary folder")?;
    let folder = arguments.out.clone().unwrap_or_else(|| temporary.path().join("corridor"));

    // A world: vehicles on the paper's corridor.
    let network = traffic::corridor()?;
    let (minutes, seed) = (arguments.minutes, arguments.seed);
    simulate::corridor(simulate::World::Builtin, &network, &folder, minutes, seed)?;
    let dataset = Dataset::open(&folder)?;
    let simulated = begun.elapsed().as_secs_f64();

    // What each fleet sees of it.
    let fleets = Fleets::nested(&[0.2, 0.4, 0.6, 0.8], arguments.seed)?;
    features::make(&dataset, FeaturePlan::paper(fleets), Seconds::new(f64::NEG_INFINITY))?;
    let network = dataset.network();
    let stored = Features::open(&folder, network)?;
    let truth = stored.all()?;
    let rows = link_rows(network, stored.manifest().step_s, &truth);
    let errors = features::scale_up(&stored, network, &truth)?;

    if json {
        println!("{}", json!({ "links": rows, "scale_up": errors }));
        return Ok(());
    }
    println!(
        "{}: {} vehicles on {} links in {:.0} minutes",
        network.name(),
        dataset.manifest().vehicles,
        network.links().len(),
        arguments.minutes
    );
    println!(
        "simulated in {simulated:.1} s, features of 4 fleets after {:.1} s\n",
        begun.elapsed().as_secs_f64()
    );
    print!("{}", render(&rows));
    features::print_scale_up(&errors);
    if let Some(out) = &arguments.out {
        println!("\ndataset in {}; look at it with `fedtse inspect {0}`", out.display());
    }
    Ok(())
}
