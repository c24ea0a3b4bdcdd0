//! `fedtse simulate`: makes a dataset in one of the two worlds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use sensing::{DatasetManifest, DatasetWriter, Provenance, VehicleTable};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use traffic::{LoopCount, Network, Samples, Seconds, VehPerHour};
use worlds::{Demand, Simulation, SimulationPlan, SumoOptions, SumoTools, simulate_sumo};

use crate::{network, progress};

/// Simulate traffic and store it as a dataset
///
/// Both worlds drive the same vehicles on the same network: same departures, same routes, same
/// names. Without --network and --demand it is the corridor of the paper.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse simulate --world builtin --out data/corridor\n  fedtse simulate --world sumo --seed 3 --out data/sumo-3\n  fedtse simulate --network city.toml --flow 300 --minutes 60 --out data/city"
)]
pub struct SimulateArguments {
    /// Which simulator
    #[arg(long, value_enum, default_value_t = World::Builtin)]
    world: World,
    /// The network file; the corridor if absent
    #[arg(long)]
    network: Option<PathBuf>,
    /// The demand file; the corridor's own if absent
    #[arg(long)]
    demand: Option<PathBuf>,
    /// Instead of a demand file: the same flow in veh/h at every entry
    #[arg(long, conflicts_with = "demand")]
    flow: Option<f64>,
    /// Minutes to simulate, warm-up included
    #[arg(long, default_value_t = 810.0)]
    minutes: f64,
    /// Minutes at the start that are not stored
    #[arg(long, default_value_t = WARM_UP)]
    warm_up: f64,
    /// Seconds between positions
    #[arg(long, default_value_t = STEP)]
    step: f64,
    /// Seed of the demand and of the drivers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to put the dataset: a new or empty folder
    #[arg(long)]
    out: PathBuf,
    /// Folder of SUMO's programs, or its home; found by itself if absent
    #[arg(long)]
    sumo: Option<PathBuf>,
    /// Keep SUMO's own files in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// No entry of any road takes in more, in veh/h.
const MOST_FLOW: f64 = 50_000.0;

/// The simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// The built-in microsimulator: needs nothing
    Builtin,
    /// SUMO, run as a program of its own
    Sumo,
}

pub fn run(arguments: &SimulateArguments, json: bool) -> Result<()> {
    let Simulated { dataset: manifest, seconds, world } = &make(arguments, None)?;
    if json {
        println!("{}", json!({ "dataset": manifest, "seconds": seconds, "world": world }));
        return Ok(());
    }
    println!(
        "{}: {} vehicles, {} positions over {:.0} minutes, made in {seconds:.1} s ({:.0}× real time)",
        arguments.out.display(),
        manifest.vehicles,
        manifest.samples,
        arguments.minutes - arguments.warm_up,
        arguments.minutes * 60.0 / seconds
    );
    if let Value::Object(fields) = world {
        // Zeros are shown too: that nobody was teleported is worth knowing.
        let fields = fields.iter().map(|(key, value)| format!("{} {value}", key.replace('_', " ")));
        println!("{}", fields.collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

/// A year: more is a mistake.
const MOST_MINUTES: f64 = 525_600.0;

fn check_times(minutes: f64, warm_up: f64) -> Result<()> {
    ensure!(
        minutes > 0.0 && minutes <= MOST_MINUTES,
        "--minutes: found {minutes}, expected more than 0 and at most {MOST_MINUTES}"
    );
    ensure!(
        warm_up >= 0.0 && warm_up < minutes,
        "--warm-up: found {warm_up}, expected 0 or more and less than --minutes {minutes}"
    );
    Ok(())
}

/// What was simulated.
#[derive(Serialize)]
pub struct Simulated {
    /// The dataset's manifest.
    pub dataset: DatasetManifest,
    /// How long it took.
    pub seconds: f64,
    /// What the world says of itself: counts of vehicles and of oddities.
    pub world: Value,
}

/// Simulates traffic and stores it; on a network that was read before, if one is given.
pub fn make(arguments: &SimulateArguments, given: Option<&Network>) -> Result<Simulated> {
    check_times(arguments.minutes, arguments.warm_up)?;
    let network = match given {
        Some(network) => network,
        None => &network::load(arguments.network.as_deref())?,
    };
    let demand = demand(arguments, network)?;
    let begun = Instant::now();
    let outcome = simulate(arguments, network, &demand)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Simulated { dataset: outcome.manifest, seconds, world: outcome.world })
}

struct Outcome {
    manifest: DatasetManifest,
    world: Value,
}

fn demand(arguments: &SimulateArguments, network: &Network) -> Result<Demand> {
    if let Some(path) = &arguments.demand {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        return Demand::parse(&text, network).with_context(|| format!("{}", path.display()));
    }
    if let Some(flow) = arguments.flow {
        ensure!(
            flow > 0.0 && flow <= MOST_FLOW,
            "--flow: found {flow}, expected more than 0 and at most {MOST_FLOW} veh/h"
        );
        return Ok(Demand::uniform(network, VehPerHour::new(flow)));
    }
    ensure!(
        arguments.network.is_none(),
        "a network of your own needs --demand FILE, or --flow with a number of veh/h for every entry"
    );
    Ok(worlds::corridor_demand(network)?)
}

/// The names and classes of all vehicles that will set out, numbered by departure.
pub fn vehicle_table(
    demand: &Demand,
    network: &Network,
    seed: u64,
    until: Seconds,
) -> VehicleTable {
    let mut vehicles = VehicleTable::default();
    for departure in demand.departures(network, seed, until) {
        vehicles.number(&departure.vehicle.0.to_string(), departure.class);
    }
    vehicles
}

fn provenance(arguments: &SimulateArguments, demand: &Demand, world: &str) -> Provenance {
    let source = [
        ("world", world.to_string()),
        ("demand", demand.name().to_string()),
        ("seed", arguments.seed.to_string()),
        ("minutes", arguments.minutes.to_string()),
        ("warm-up", arguments.warm_up.to_string()),
        ("step", arguments.step.to_string()),
    ];
    Provenance {
        epoch: "simulation start".into(),
        source: BTreeMap::from(source.map(|(key, value)| (key.to_string(), value))),
    }
}

fn simulate(arguments: &SimulateArguments, network: &Network, demand: &Demand) -> Result<Outcome> {
    match arguments.world {
        World::Builtin => builtin(arguments, network, demand),
        World::Sumo => sumo(arguments, network, demand),
    }
}

fn builtin(arguments: &SimulateArguments, network: &Network, demand: &Demand) -> Result<Outcome> {
    let until = Seconds::new(arguments.minutes * 60.0);
    let plan = SimulationPlan {
        until,
        step: Seconds::new(arguments.step),
        seed: arguments.seed,
        ..SimulationPlan::default()
    };
    let departures = demand.departures(network, arguments.seed, until);
    let mut world = Simulation::new(network, plan, departures)?;
    let vehicles = vehicle_table(demand, network, arguments.seed, until);
    let mut writer = writer(arguments, network, provenance(arguments, demand, "builtin"))?;
    store(arguments, "simulating", &mut world, &mut writer)?;
    let (counts, incidents) = (world.counts(), world.incidents());
    let manifest = writer.finish(&vehicles, &[])?;
    let mut world = serde_json::to_value(incidents)?;
    world["entered"] = counts.entered.into();
    world["left"] = counts.left.into();
    world["present"] = counts.present.into();
    world["waiting"] = counts.waiting.into();
    Ok(Outcome { manifest, world })
}

fn sumo(arguments: &SimulateArguments, network: &Network, demand: &Demand) -> Result<Outcome> {
    let tools = SumoTools::find(arguments.sumo.as_deref())?;
    let until = Seconds::new(arguments.minutes * 60.0);
    let temporary = tempfile::tempdir().context("temporary folder")?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    let mut writer = writer(arguments, network, provenance(arguments, demand, "sumo"))?;
    writer.note("sumo", tools.version()?);
    let options = SumoOptions {
        // One moment more than asked for: the last step needs its end.
        until: until + Seconds::new(arguments.step),
        step: Seconds::new(arguments.step),
        seed: u32::try_from(arguments.seed)
            .ok()
            .filter(|&seed| seed < 1 << 31)
            .context("--seed: SUMO takes 0 to 2147483647")?,
        ..SumoOptions::default()
    };
    let bar = progress::bar("SUMO is driving", until.get() as u64);
    let departures = demand.departures(network, arguments.seed, until);
    let run = simulate_sumo(&tools, network, departures, folder, &options, |time| {
        bar.set_position(time.get() as u64);
        progress::go_on().is_ok()
    })?;
    bar.finish_and_clear();
    let mut samples = run.samples(network)?;
    store(arguments, "reading SUMO's output", &mut samples, &mut writer)?;
    let begin = Seconds::new(arguments.warm_up * 60.0);
    let mut loops: Vec<LoopCount> = Vec::new();
    for count in run.loop_counts(network)? {
        let count = count?;
        if count.begin >= begin && count.end <= until {
            loops.push(count);
        }
    }
    let manifest = writer.finish(run.vehicles(), &loops)?;
    Ok(Outcome { manifest, world: serde_json::to_value(run.statistics)? })
}

fn writer(
    arguments: &SimulateArguments,
    network: &Network,
    provenance: Provenance,
) -> Result<DatasetWriter> {
    // Simulated moments come without gaps: any pause is one of the data.
    let gap = Seconds::new(60.0);
    Ok(DatasetWriter::create(&arguments.out, network, provenance, gap)?)
}

/// Moves all moments after the warm-up from a world into a dataset.
fn store<S>(
    arguments: &SimulateArguments,
    what: &'static str,
    world: &mut S,
    writer: &mut DatasetWriter,
) -> Result<()>
where
    S: Samples,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    let bar = progress::bar(what, (arguments.minutes * 60.0) as u64);
    let (begin, end) = (arguments.warm_up * 60.0, arguments.minutes * 60.0);
    let mut samples = Vec::new();
    while let Some(time) = world.next_moment(&mut samples)? {
        if (begin..=end).contains(&time.get()) {
            writer.moment(time, &samples)?;
        }
        if time.get() % 60.0 == 0.0 {
            progress::go_on()?;
            bar.set_position(time.get() as u64);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Minutes.
pub const WARM_UP: f64 = 10.0;
/// Seconds between positions.
pub const STEP: f64 = 1.0;

/// Simulates the corridor, whatever its loops, with its own demand, without asking for anything.
pub fn corridor(
    world: World,
    network: &Network,
    out: &Path,
    minutes: f64,
    seed: u64,
) -> Result<()> {
    check_times(minutes, WARM_UP)?;
    let arguments = SimulateArguments {
        world,
        network: None,
        demand: None,
        flow: None,
        minutes,
        warm_up: WARM_UP,
        step: STEP,
        seed,
        out: out.to_owned(),
        sumo: None,
        keep: None,
    };
    let demand = demand(&arguments, network)?;
    simulate(&arguments, network, &demand)?;
    Ok(())
}
