//! `fedtse import sumo`.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use experiments::data::network_edits::NetworkEdits;
use sensing::DatasetWriter;
use sensing::sumo::{FcdReader, ImportOptions, LoopReader, SumoConfig, import_net};
use traffic::{LoopCount, PositionSource, Seconds};

use super::{counts, tell};
use crate::network;

/// A SUMO net as a network, and with --fcd its vehicles as a dataset
///
/// Junction interiors (SUMO's internal edges) belong to the link that they lead into: a link runs
/// from stop line to stop line.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse import sumo --net city.net.xml --out city.toml\n  fedtse import sumo --net city.net.xml --fcd fcd.xml.gz --out data/city"
)]
pub(super) struct SumoArguments {
    /// The net (.net.xml), or a configuration (.sumocfg) that names it and its additional files
    #[arg(long)]
    net: PathBuf,
    /// Additional files, in SUMO's order: induction loops and programs of traffic lights
    #[arg(long, value_delimiter = ',', value_name = "FILE[,FILE]")]
    additional: Vec<PathBuf>,
    /// Positions of vehicles (--fcd-output of sumo, XML or CSV, .gz or not)
    #[arg(long)]
    fcd: Option<PathBuf>,
    /// SUMO's step length in seconds: it labels a step's positions with the time before the step
    #[arg(long, default_value_t = 1.0)]
    step: f64,
    /// Date and time of time zero, for display
    #[arg(long, default_value = "simulation start")]
    epoch: String,
    /// A silence longer than this many seconds is a blind gap, not an empty road
    #[arg(long, default_value_t = 10.0)]
    gap: f64,
    /// Counts of the induction loops
    #[arg(long, requires = "fcd")]
    detectors: Option<PathBuf>,
    #[command(flatten)]
    edits: NetworkEdits,
    /// Where to put the result: a network file (.toml), or with --fcd a new or empty folder
    #[arg(long)]
    out: PathBuf,
}

/// The net of a configuration and how to import it, or a net alone.
fn scenario(path: &Path) -> Result<(PathBuf, ImportOptions)> {
    if path.extension().is_some_and(|ending| ending == "sumocfg") {
        let config = SumoConfig::read(path)?;
        let options = ImportOptions::of(&config);
        return Ok((config.net, options));
    }
    Ok((path.to_owned(), ImportOptions::default()))
}

pub(super) fn run(arguments: &SumoArguments, json: bool) -> Result<()> {
    let (net_file, mut options) = scenario(&arguments.net)?;
    options.additional.extend(arguments.additional.iter().cloned());
    let mut net = import_net(&net_file, &options)?;
    net.network = arguments.edits.apply(net.network)?;
    let Some(fcd) = &arguments.fcd else {
        network::write(&net.network, Some(&arguments.out), json)?;
        if !json {
            println!("{}", counts(&net.report)?);
        }
        return Ok(());
    };
    for (name, value) in [("--step", arguments.step), ("--gap", arguments.gap)] {
        ensure!(value > 0.0 && value.is_finite(), "{name}: found {value}, expected more than 0 s");
    }
    let mut reader = FcdReader::open(fcd, net.edges)?.shifted(Seconds::new(arguments.step));
    let provenance = sensing::Provenance {
        epoch: arguments.epoch.clone(),
        source: [("import".to_string(), super::file_names(&[arguments.net.clone(), fcd.clone()]))]
            .into(),
    };
    let mut writer = DatasetWriter::create(
        &arguments.out,
        &net.network,
        provenance,
        Seconds::new(arguments.gap),
    )?;
    let spinner = progress::spinner("reading seconds");
    let mut samples = Vec::new();
    while let Some(time) = reader.next_moment(&mut samples)? {
        writer.moment(time, &samples)?;
        spinner.set_position(time.get().max(0.0) as u64);
    }
    let loops: Vec<LoopCount> = match &arguments.detectors {
        None => Vec::new(),
        Some(path) => LoopReader::open(path, net.loops)?.collect::<Result<_, _>>()?,
    };
    spinner.finish_and_clear();
    let skipped = reader.skipped();
    let manifest = writer.finish(&reader.into_vehicles(), &loops)?;
    tell(&arguments.out, &manifest, None, None, json)?;
    if !json {
        println!("{}\n{}", counts(&net.report)?, counts(&skipped)?);
    }
    Ok(())
}
