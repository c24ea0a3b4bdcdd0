//! `fedtse estimate`: density and flow of all links by a trained model.

mod parties;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use estimator::{FleetData, GuestCard, LoopData, ModelFile, NeuralEstimator, WINDOW};
use sensing::{Column, Kind, TableWriter};
use serde_json::json;
use traffic::{LinkState, Network, Step};

use parties::Parties;

/// Estimate density and flow of all links with a trained model
///
/// For every step that has a whole window before it: one row per step and link, with the columns
/// step, link, density_veh_km_lane, flow_veh_min_lane.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse estimate --model model --data data/corridor --out estimates.parquet"
)]
pub struct EstimateArguments {
    /// The model's folder, as `fedtse train --out` wrote it
    #[arg(long, required_unless_present = "party")]
    model: Option<PathBuf>,
    /// Instead of a model: the folder of a party trained by `fedtse host` or `fedtse guest`; once for
    /// the host and for each guest
    #[arg(long, conflicts_with = "model")]
    party: Vec<PathBuf>,
    /// The dataset, with features of the same fleet
    #[arg(long)]
    data: PathBuf,
    /// Where to write: a .parquet or .csv file
    #[arg(long)]
    out: PathBuf,
}

const COLUMNS: [(&str, Kind); 4] = [
    ("step", Kind::I64),
    ("link", Kind::Text),
    ("density_veh_km_lane", Kind::F64),
    ("flow_veh_min_lane", Kind::F64),
];

pub fn run(arguments: &EstimateArguments, json: bool) -> Result<()> {
    let write = match arguments.out.extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => write_parquet,
        Some("csv") => write_csv,
        _ => bail!("--out: found {}, expected .parquet or .csv", arguments.out.display()),
    };
    let loops = LoopData::open(&arguments.data)?;
    let (network, windows) = (loops.timeline().network(), loops.timeline().windows());
    ensure!(
        !windows.is_empty(),
        "{}: found no windows of {WINDOW} steps, expected at least one",
        arguments.data.display()
    );
    let states = match &arguments.model {
        Some(model) => by_model(model, &arguments.data, &loops)?,
        None => Parties::read(&arguments.party, &arguments.data, &loops)?.estimate(windows)?,
    };
    write(&arguments.out, network, windows, &states)?;
    let links = network.links().len();
    if json {
        let out = &arguments.out;
        println!("{}", json!({ "steps": windows.len(), "links": links, "out": out }));
    } else {
        println!("{}: {} steps of {links} links", arguments.out.display(), windows.len());
    }
    Ok(())
}

fn by_model(folder: &Path, data: &Path, loops: &LoopData) -> Result<Vec<LinkState>> {
    let card = ModelFile::read(folder)?.card;
    let read = |guest: &GuestCard| FleetData::open(data, &guest.fleet);
    let fleets = card.guests.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let model = NeuralEstimator::load(folder, loops, &fleets)?;
    Ok(model.estimate_all(loops, &fleets, loops.timeline().windows())?)
}

fn write_parquet(
    path: &Path,
    network: &Network,
    windows: &[Step],
    states: &[LinkState],
) -> Result<()> {
    const STEPS_AT_ONCE: usize = 4096;
    let links = network.links().len();
    let mut table = TableWriter::create(path, &COLUMNS)?;
    for (windows, states) in windows.chunks(STEPS_AT_ONCE).zip(states.chunks(STEPS_AT_ONCE * links))
    {
        let steps = windows.iter().flat_map(|step| std::iter::repeat_n(step.0, links)).collect();
        let names = network.links().iter().map(|link| link.name.clone());
        table.write(&[
            Column::I64(steps),
            Column::Text(names.cycle().take(states.len()).collect()),
            Column::F64(states.iter().map(|state| state.density.get()).collect()),
            Column::F64(states.iter().map(|state| state.flow.get()).collect()),
        ])?;
    }
    Ok(table.finish()?)
}

fn write_csv(path: &Path, network: &Network, windows: &[Step], states: &[LinkState]) -> Result<()> {
    let named = || format!("{}", path.display());
    let mut table = csv::Writer::from_path(path).with_context(named)?;
    table.write_record(COLUMNS.map(|(name, _)| name)).with_context(named)?;
    for (step, states) in windows.iter().zip(states.chunks(network.links().len())) {
        for (link, state) in network.links().iter().zip(states) {
            let (density, flow) = (state.density.get(), state.flow.get());
            let numbers = [format!("{density:.4}"), format!("{flow:.4}")];
            let [density, flow] = numbers;
            table
                .write_record([step.0.to_string(), link.name.clone(), density, flow])
                .with_context(named)?;
        }
    }
    table.flush().with_context(named)
}
