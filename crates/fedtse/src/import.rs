//! `fedtse import`: other people's data become datasets and networks.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use experiments::data::import::{ImportTarget, file_names};
use experiments::data::load_network;
use sensing::matching::{Accuracy, MatchReport};
use sensing::{DatasetManifest, FileKind, TrajectoryImport, read_loop_counts};
use serde::Serialize;
use serde_json::json;

mod osm;
mod pneuma;
mod sumo;

/// Import trajectories, loop counts and networks
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse import osm athens.osm --out athens.toml\n  fedtse import pneuma 20181024_d1_0830_0900.csv --network athens.toml --out data/athens\n  fedtse import csv fleet.csv --network athens.toml --out data/fleet\n  fedtse import sumo --net city.net.xml --fcd fcd.xml --out data/city"
)]
pub(crate) struct ImportArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Pneuma(pneuma::PneumaArguments),
    Sumo(sumo::SumoArguments),
    /// Trajectories from CSV (columns: vehicle, time, link, position or lat, lon; lane, speed, class)
    #[command(
        after_help = "Example:\n  fedtse import csv fleet.csv --loops loops.csv --network city.toml --out data/fleet"
    )]
    Csv(GenericArguments),
    /// Trajectories from Parquet, with the same columns as CSV
    #[command(
        after_help = "Example:\n  fedtse import parquet fleet.parquet --network city.toml --out data/fleet"
    )]
    Parquet(GenericArguments),
    Osm(osm::OsmArguments),
}

#[derive(Args)]
struct GenericArguments {
    /// The trajectory files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// A file of loop counts of the same kind (columns: loop, begin, end, count)
    #[arg(long)]
    loops: Option<PathBuf>,
    #[command(flatten)]
    target: ImportTarget,
}

pub(crate) fn run(arguments: &ImportArguments, json: bool) -> Result<()> {
    match &arguments.what {
        What::Pneuma(arguments) => pneuma::run(arguments, json),
        What::Sumo(arguments) => sumo::run(arguments, json),
        What::Csv(arguments) => generic(arguments, FileKind::Csv, json),
        What::Parquet(arguments) => generic(arguments, FileKind::Parquet, json),
        What::Osm(arguments) => osm::run(arguments, json),
    }
}

fn generic(arguments: &GenericArguments, kind: FileKind, json: bool) -> Result<()> {
    let target = &arguments.target;
    let network = load_network(target.network.as_deref())?;
    let mut import = TrajectoryImport::new(&network);
    let spinner = progress::spinner("reading rows");
    let mut before = 0;
    for file in &arguments.files {
        before += import.read(file, kind, &mut |rows| spinner.set_position(before + rows))?;
    }
    let loops = match &arguments.loops {
        Some(file) => read_loop_counts(file, kind, &network)?,
        None => Vec::new(),
    };
    // The folder is made only now: input that is refused leaves nothing behind.
    let mut writer = target.writer(&network, None, &[("import", file_names(&arguments.files))])?;
    let (vehicles, report) = import.write(&mut writer, target.matching())?;
    let manifest = writer.finish(&vehicles, &loops)?;
    spinner.finish_and_clear();
    tell(&target.out, &manifest, report.as_ref(), None, json)
}

/// A report's fields that are not nothing, as one line.
fn counts(report: &impl Serialize) -> Result<String> {
    let serde_json::Value::Object(fields) = serde_json::to_value(report)? else {
        return Ok(String::new());
    };
    let counts =
        fields.iter().filter(|(_, value)| value.as_f64() != Some(0.0)).map(|(key, value)| {
            let key = key.replace('_', " ");
            match value.as_f64() {
                Some(number) if number.fract() != 0.0 => format!("{key} {number:.1}"),
                _ => format!("{key} {value}"),
            }
        });
    Ok(counts.collect::<Vec<_>>().join(", "))
}

/// Says what was imported, and why the rest was not matched.
fn tell(
    out: &Path,
    manifest: &DatasetManifest,
    report: Option<&MatchReport>,
    measured: Option<&Accuracy>,
    json: bool,
) -> Result<()> {
    if json {
        let value = json!({ "dataset": manifest, "matching": report, "accuracy": measured });
        println!("{value}");
        return Ok(());
    }
    println!(
        "{}: {} vehicles, {} positions, {} recording(s)",
        out.display(),
        manifest.vehicles,
        manifest.samples,
        manifest.recordings.len()
    );
    if let Some(report) = report {
        println!("{report}");
    }
    if let Some(measured) = measured {
        println!(
            "against the truth: {:.2} % of {} positions on the right link, error {:.1} in the median, {:.1} at 95 %",
            100.0 * measured.right_link,
            measured.points,
            measured.median_error,
            measured.error_95
        );
    }
    Ok(())
}
