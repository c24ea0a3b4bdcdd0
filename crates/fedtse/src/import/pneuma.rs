//! `fedtse import pneuma`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use experiments::data::import::ImportTarget;
use experiments::data::pneuma::{INTERVAL, Imported, PneumaImport};

use super::tell;

/// Drone recordings in the pNEUMA format, map-matched onto a network
///
/// Both published variants are read. Files named like 20181024_d1_0830_0900.csv are put on a common
/// clock that starts at midnight of the first day; several files become one dataset with a
/// recording each.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse import pneuma 20181024_d1_0830_0900.csv --network athens.toml --out data/athens"
)]
pub(super) struct PneumaArguments {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Keep one position in this many seconds
    #[arg(long, default_value_t = INTERVAL)]
    interval: f64,
    /// Where the vehicles really were (CSV: vehicle, time, link, position), to measure the matching;
    /// for a single file, as `fedtse export --truth` writes it
    #[arg(long)]
    truth: Option<PathBuf>,
    #[command(flatten)]
    target: ImportTarget,
}

pub(super) fn run(arguments: &PneumaArguments, json: bool) -> Result<()> {
    let import = PneumaImport {
        files: arguments.files.clone(),
        interval: arguments.interval,
        truth: arguments.truth.clone(),
        target: arguments.target.clone(),
    };
    let Imported { manifest, report, measured } = import.import()?;
    tell(&arguments.target.out, &manifest, Some(&report), measured.as_ref(), json)
}
