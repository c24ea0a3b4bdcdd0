//! `fedtse estimate`: density and flow of all links by a trained model.

mod parties;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use durable::PendingFile;
use estimator::artifact::{ModelFile, whole_fleets};
use estimator::{
    Asked, FleetData, Intervals, LEAST_WINDOW, LinkInterval, LoopData, MOST_WINDOW, Observed,
    PartyFile, SavedEstimator, TrainedHost, WINDOW,
};
use sensing::{Column, ColumnKind, TableWriter};
use serde::Deserialize;
use serde_json::json;
use traffic::{LinkId, LinkState, Network, Step};

use parties::Parties;
use training::InvalidOption;
use training::party::CustomSubModelSpecs;

use crate::data::check_folder;
use crate::data::features::open_fleets;

/// Estimate density and flow of all links with a trained model
///
/// For every step that has a whole window before it: one row per step and link, with the columns
/// step, link, density_veh_km_lane, flow_veh_min_lane; with --interval also density_low,
/// density_high, flow_low and flow_high.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse estimate --model model --data data/corridor --out estimates.parquet"
)]
pub struct EstimateArguments {
    #[command(flatten)]
    request: EstimateRequest,
    /// Where to write: a .parquet or .csv file
    #[arg(long)]
    out: PathBuf,
}

/// By what to estimate from which data.
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EstimateRequest {
    /// The model's folder, as `fedtse train --out` wrote it
    #[arg(long)]
    model: Option<PathBuf>,
    /// Instead of a model: the folder of a party trained by `fedtse host` or `fedtse guest`; once for
    /// the host and for each guest
    #[arg(long)]
    party: Vec<PathBuf>,
    /// The dataset, with features of the same fleet
    #[arg(long)]
    data: PathBuf,
    /// Add intervals that hold the truth in so many percent of cases: 50, 80, 90 or 95; of a model
    /// that was trained with ground truth, or that holds part of the fleet out
    #[arg(long, value_name = "PERCENT")]
    interval: Option<u8>,
}

impl EstimateRequest {
    /// Steps of a window, of the model or of the host among the parties.
    fn window(&self) -> Result<usize> {
        let (folder, found) = match &self.model {
            Some(folder) => (folder, ModelFile::read(folder)?.common.window),
            None => {
                let host = |folder: &PathBuf| {
                    let (file, ..) = PartyFile::<TrainedHost>::read(folder).ok()?;
                    Some((folder.clone(), file.part.host.common.window))
                };
                let Some((folder, found)) = self.party.iter().find_map(host) else {
                    // Said when they are read.
                    return Ok(WINDOW);
                };
                return within(&folder, found);
            }
        };
        within(folder, found)
    }

    fn check(&self) -> Result<(), InvalidOption> {
        check_folder("data", &self.data)?;
        let wrong = |name, problem| Err(InvalidOption::new(name, problem));
        match (&self.model, self.party.is_empty()) {
            (None, true) => {
                wrong("model", "found none, expected the folder of a model, or of parties")
            }
            (Some(_), false) => wrong("party", "found with a model, expected one of the two"),
            (None, false) if self.interval.is_some() => {
                wrong("interval", "found with parties, expected with a model")
            }
            _ => Ok(()),
        }
    }
}

const COLUMNS: [(&str, ColumnKind); 8] = [
    ("step", ColumnKind::I64),
    ("link", ColumnKind::Text),
    ("density_veh_km_lane", ColumnKind::F64),
    ("flow_veh_min_lane", ColumnKind::F64),
    ("density_low", ColumnKind::F64),
    ("density_high", ColumnKind::F64),
    ("flow_low", ColumnKind::F64),
    ("flow_high", ColumnKind::F64),
];
/// Columns of a table without intervals.
const PLAIN: usize = 4;

/// Estimates of all links, window after window.
pub struct Estimated {
    loops: LoopData,
    /// Of each link of each window.
    pub states: Vec<LinkState>,
    /// The same, if asked for.
    pub intervals: Option<Vec<LinkInterval>>,
}

impl Estimated {
    /// The network.
    pub fn network(&self) -> &Network {
        self.loops.timeline().network()
    }

    /// The windows, by their last steps.
    pub fn windows(&self) -> &[Step] {
        self.loops.timeline().windows()
    }

    fn columns(&self) -> &'static [(&'static str, ColumnKind)] {
        if self.intervals.is_some() { &COLUMNS } else { &COLUMNS[..PLAIN] }
    }
}

pub fn run(arguments: &EstimateArguments, json: bool) -> Result<()> {
    let write = match arguments.out.extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => write_parquet,
        Some("csv") => write_csv,
        _ => bail!("--out: found {}, expected .parquet or .csv", arguments.out.display()),
    };
    let estimated = make(&arguments.request, &CustomSubModelSpecs::new())?;
    write(&arguments.out, &estimated)?;
    let (steps, links) = (estimated.windows().len(), estimated.network().links().len());
    if json {
        println!("{}", json!({ "steps": steps, "links": links, "out": &arguments.out }));
    } else {
        println!("{}: {steps} steps of {links} links", arguments.out.display());
    }
    Ok(())
}

/// Estimates all links, in every window that there is, by parties with sub-models of their own where there are any.
pub fn make(request: &EstimateRequest, own: &CustomSubModelSpecs) -> Result<Estimated> {
    request.check()?;
    ensure!(
        own.is_empty() || request.model.is_none(),
        "sub-models: found with a model, expected with parties"
    );
    let loops = LoopData::open(&request.data)?.windowed(request.window()?);
    let (network, windows) = (loops.timeline().network(), loops.timeline().windows());
    ensure!(
        !windows.is_empty(),
        "{}: found no windows of {} steps, expected at least one",
        request.data.display(),
        loops.timeline().window()
    );
    let states = match &request.model {
        Some(model) => by_model(model, &request.data, &loops)?,
        None => {
            let mut parties = Parties::read(&request.party, &request.data, &loops, own)?;
            in_blocks(windows, |block| parties.estimate(block))?
        }
    };
    let intervals = match (request.interval, &request.model) {
        (Some(percent), Some(model)) => Some(intervals(model, network, &states, percent)?),
        _ => None,
    };
    Ok(Estimated { loops, states, intervals })
}

/// Refuses windows that no model has.
fn within(folder: &Path, window: usize) -> Result<usize> {
    ensure!(
        (LEAST_WINDOW..=MOST_WINDOW).contains(&window),
        "{}: found windows of {window} steps, expected {LEAST_WINDOW} to {MOST_WINDOW}",
        folder.display()
    );
    Ok(window)
}

/// Estimates by a model of any kind. Folds of a fleet that the data do not have yet are made.
fn by_model(folder: &Path, data: &Path, loops: &LoopData) -> Result<Vec<LinkState>> {
    let file = ModelFile::read(folder)?;
    let names: Vec<&str> = file.fleets.iter().flatten().map(String::as_str).collect();
    let window = loops.timeline().window();
    let fleets = open_fleets(data, &names)?.into_iter().map(|fleet| fleet.windowed(window));
    let fleets: Vec<FleetData> = fleets.collect();
    let (fleets, named) = training::fleets_at_use(&file, &fleets)?;
    let observed = Observed { folder: data, loops, fleets: &fleets };
    let model = file.load(folder, &observed)?;
    let (target, windows) = (file.target, loops.timeline().windows());
    let links: Vec<LinkId> = loops.timeline().network().link_ids().collect();
    if let SavedEstimator::Neural(model) = &model {
        let whole = whole_fleets(&named, &fleets)?;
        let prepared = model.prepare(loops, &whole)?;
        return in_blocks(windows, |block| Ok(prepared.estimate(block)?));
    }
    // These read all trajectories, or average over all folds, at once.
    let asked = Asked { target, links: &links, windows };
    Ok(model.estimate(&observed, &named, &asked)?.0)
}

/// Windows that are estimated together.
const BLOCK: usize = 512;

/// Estimates windows block by block, as long as it is to go on.
fn in_blocks(
    windows: &[Step],
    mut estimate: impl FnMut(&[Step]) -> Result<Vec<LinkState>>,
) -> Result<Vec<LinkState>> {
    let bar = progress::bar("estimating", windows.len() as u64);
    let mut states = Vec::new();
    for block in windows.chunks(BLOCK) {
        progress::check_stop()?;
        states.extend(estimate(block)?);
        bar.inc(block.len() as u64);
    }
    bar.finish_and_clear();
    Ok(states)
}

fn intervals(
    model: &Path,
    network: &Network,
    states: &[LinkState],
    percent: u8,
) -> Result<Vec<LinkInterval>> {
    let invalid = |error| InvalidOption::new("interval", error);
    // Before a file is looked for.
    Intervals::level(percent).map_err(invalid)?;
    let links = network.links().len();
    let intervals = Intervals::load(model, links)
        .context("expected a model that `fedtse train --out` has made intervals for")?;
    let level = intervals.known_level(percent).map_err(invalid)?;
    let of_state = |(at, state)| intervals.of(at % links, state, level);
    states.iter().enumerate().map(of_state).collect::<Option<_>>().context("intervals of all links")
}

/// The four borders of intervals, column by column.
fn borders(interval: &LinkInterval) -> [f64; 4] {
    let LinkInterval { density: [density_low, density_high], flow: [flow_low, flow_high] } =
        *interval;
    [density_low, density_high, flow_low, flow_high]
}

fn write_parquet(path: &Path, estimated: &Estimated) -> Result<()> {
    const STEPS_AT_ONCE: usize = 4096;
    let links = estimated.network().links().len();
    let mut table = TableWriter::create(path, estimated.columns())?;
    for (block, windows) in estimated.windows().chunks(STEPS_AT_ONCE).enumerate() {
        let first = block * STEPS_AT_ONCE * links;
        let rows = first..first + windows.len() * links;
        let states = &estimated.states[rows.clone()];
        let steps = windows.iter().flat_map(|step| std::iter::repeat_n(step.0, links)).collect();
        let names = estimated.network().links().iter().map(|link| link.name.clone());
        let mut columns = vec![
            Column::I64(steps),
            Column::Text(names.cycle().take(states.len()).collect()),
            Column::F64(states.iter().map(|state| state.density.get()).collect()),
            Column::F64(states.iter().map(|state| state.flow.get()).collect()),
        ];
        if let Some(intervals) = &estimated.intervals {
            for border in 0..4 {
                let of_row = |interval| borders(interval)[border];
                columns.push(Column::F64(intervals[rows.clone()].iter().map(of_row).collect()));
            }
        }
        table.write(&columns)?;
    }
    Ok(table.finish()?)
}

fn write_csv(path: &Path, estimated: &Estimated) -> Result<()> {
    let named = || format!("{}", path.display());
    let mut table = csv::Writer::from_writer(PendingFile::create(path)?);
    table.write_record(estimated.columns().iter().map(|(name, _)| *name)).with_context(named)?;
    let links = estimated.network().links();
    for (at, state) in estimated.states.iter().enumerate() {
        let (step, link) = (estimated.windows()[at / links.len()], &links[at % links.len()]);
        let mut row = vec![step.0.to_string(), link.name.clone()];
        let mut numbers = vec![state.density.get(), state.flow.get()];
        if let Some(intervals) = &estimated.intervals {
            numbers.extend(borders(&intervals[at]));
        }
        row.extend(numbers.iter().map(|number| format!("{number:.4}")));
        table.write_record(&row).with_context(named)?;
    }
    table.flush().with_context(named)?;
    let file = table.into_inner().map_err(csv::IntoInnerError::into_error).with_context(named)?;
    Ok(file.commit()?)
}
