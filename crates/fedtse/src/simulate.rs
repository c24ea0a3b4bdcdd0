//! `fedtse simulate`: makes a dataset in one of the two worlds.

use anyhow::Result;
use clap::Args;
use experiments::data::simulate::{SimulateOptions, Simulated, simulate};
use serde_json::{Value, json};

/// Simulate traffic and store it as a dataset
///
/// Both worlds drive the same vehicles on the same network: same departures, same routes, same
/// names. Without --network and --demand it is the corridor of the paper.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse simulate --world builtin --out data/corridor\n  fedtse simulate --world sumo --seed 3 --out data/sumo-3\n  fedtse simulate --network city.toml --flow 300 --minutes 60 --out data/city\n  fedtse simulate --sumocfg town/run.sumocfg --loops 20% --out data/town"
)]
pub(crate) struct SimulateArguments {
    #[command(flatten)]
    options: SimulateOptions,
}

pub(crate) fn run(arguments: &SimulateArguments, json: bool) -> Result<()> {
    let options = &arguments.options;
    let Simulated { dataset: manifest, seconds, minutes, stored, world, warnings } =
        &simulate(options, None)?;
    if json {
        println!(
            "{}",
            json!({ "dataset": manifest, "seconds": seconds, "world": world, "warnings": warnings })
        );
        return Ok(());
    }
    println!(
        "{}: {} vehicles, {} positions over {:.0} minutes, made in {seconds:.1} s ({:.0}× real time)",
        options.out.display(),
        manifest.vehicles,
        manifest.samples,
        stored,
        minutes * 60.0 / seconds
    );
    if let Value::Object(fields) = world {
        // Zeros are shown too: that nobody was teleported is worth knowing.
        let fields = fields.iter().map(|(key, value)| format!("{} {value}", key.replace('_', " ")));
        println!("{}", fields.collect::<Vec<_>>().join(", "));
    }
    if let Some(warnings) = warnings {
        println!("SUMO: {warnings}");
    }
    Ok(())
}
