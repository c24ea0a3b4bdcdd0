//! Simulates traffic in one of the two worlds and stores it as a dataset.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sensing::sumo::{ImportOptions, SumoConfig, import_net};
use sensing::{DatasetManifest, DatasetWriter, Provenance, VehicleTable};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use traffic::{LoopCount, Network, PositionSource, Seconds, VehPerHour};
use training::InvalidOption;
use worlds::{
    Demand, ScenarioRun, Simulation, SimulationPlan, SumoOptions, SumoTools, simulate_sumo,
};

use super::network_edits::NetworkEdits;
use super::{check_folder, load_network};

/// Which traffic to simulate, and where to store it.
#[derive(Clone, Debug, PartialEq, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulateOptions {
    /// Which simulator
    #[arg(long, value_enum, default_value_t = SimulateOptions::default().world)]
    pub world: World,
    /// The network file; the corridor if absent
    #[arg(long)]
    pub network: Option<PathBuf>,
    /// The demand file; the corridor's own if absent
    #[arg(long)]
    pub demand: Option<PathBuf>,
    /// Instead of a demand file: the same flow in veh/h at every entry, or on every link of a network without entries
    #[arg(long)]
    pub flow: Option<f64>,
    /// Instead of all these: a SUMO scenario with its own net, demand, signals and detectors
    #[arg(long, value_name = "FILE", conflicts_with_all = ["world", "network", "demand", "flow", "step", "keep"])]
    pub sumocfg: Option<PathBuf>,
    /// Loops to add to a scenario: links by name, each with metres along it (its middle if absent), or a share of all links
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "LINK[@METRES][,…]|N%",
        requires = "sumocfg"
    )]
    pub loops: Vec<String>,
    /// Links of a scenario whose estimates are scored; all if absent
    #[arg(long, allow_hyphen_values = true, value_name = "LINK[,…]", requires = "sumocfg")]
    pub targets: Vec<String>,
    /// Minutes to simulate, warm-up included [default: 810; a scenario's own]
    #[arg(long)]
    pub minutes: Option<f64>,
    /// Minutes at the start that are not stored [default: 10; 0 of a scenario]
    #[arg(long)]
    pub warm_up: Option<f64>,
    /// Seconds between positions
    #[arg(long, default_value_t = SimulateOptions::default().step)]
    pub step: f64,
    /// Seed of the demand and of the drivers
    #[arg(long, default_value_t = SimulateOptions::default().seed)]
    pub seed: u64,
    /// Where to put the dataset: a new or empty folder
    #[arg(long)]
    pub out: PathBuf,
    /// Folder of SUMO's programs, or its home; found by itself if absent
    #[arg(long)]
    pub sumo: Option<PathBuf>,
    /// Keep SUMO's own files in this folder
    #[arg(long)]
    pub keep: Option<PathBuf>,
}

/// The corridor of the paper in the built-in simulator, stored nowhere yet.
impl Default for SimulateOptions {
    fn default() -> Self {
        Self {
            world: World::Builtin,
            network: None,
            demand: None,
            flow: None,
            sumocfg: None,
            loops: Vec::new(),
            targets: Vec::new(),
            minutes: None,
            warm_up: None,
            step: STEP,
            seed: 1,
            out: PathBuf::new(),
            sumo: None,
            keep: None,
        }
    }
}

impl SimulateOptions {
    fn check(&self) -> Result<(), InvalidOption> {
        check_folder("out", &self.out)?;
        if self.sumocfg.is_none() || self.minutes.is_some() {
            check_times(self.minutes(), self.warm_up())?;
        }
        for (name, given) in [("loops", &self.loops), ("targets", &self.targets)] {
            if self.sumocfg.is_none() && !given.is_empty() {
                let problem = "found without a scenario, expected `sumocfg` beside it";
                return Err(InvalidOption::new(name, problem));
            }
        }
        if self.flow.is_some() && self.demand.is_some() {
            return Err(InvalidOption::new("flow", "found with a demand, expected one of the two"));
        }
        if let Some(flow) = self.flow.filter(|&flow| !(flow > 0.0 && flow <= MOST_FLOW)) {
            let expected = format!("expected more than 0 and at most {MOST_FLOW} veh/h");
            return Err(InvalidOption::new("flow", format!("found {flow}, {expected}")));
        }
        Ok(())
    }

    /// Minutes to simulate, unless a scenario says so itself.
    fn minutes(&self) -> f64 {
        self.minutes.unwrap_or(MINUTES)
    }

    fn warm_up(&self) -> f64 {
        self.warm_up.unwrap_or(if self.sumocfg.is_some() { 0.0 } else { WARM_UP })
    }
}

/// No entry of any road takes in more, in veh/h.
const MOST_FLOW: f64 = 50_000.0;

/// The simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// The built-in microsimulator: needs nothing
    Builtin,
    /// SUMO, run as a program of its own
    Sumo,
}

/// A year: more is a mistake.
const MOST_MINUTES: f64 = 525_600.0;

fn check_times(minutes: f64, warm_up: f64) -> Result<(), InvalidOption> {
    if !(minutes > 0.0 && minutes <= MOST_MINUTES) {
        let problem =
            format!("found {minutes}, expected more than 0 and at most {MOST_MINUTES} minutes");
        return Err(InvalidOption::new("minutes", problem));
    }
    if !(0.0..minutes).contains(&warm_up) {
        let problem =
            format!("found {warm_up}, expected 0 or more and less than all {minutes} minutes");
        return Err(InvalidOption::new("warm_up", problem));
    }
    Ok(())
}

/// What was simulated.
#[derive(Serialize)]
pub struct Simulated {
    /// The dataset's manifest.
    pub dataset: DatasetManifest,
    /// How long it took.
    pub seconds: f64,
    /// Simulated minutes, warm-up included.
    pub minutes: f64,
    /// Stored minutes.
    pub stored: f64,
    /// What the world says of itself: counts of vehicles and of oddities.
    pub world: Value,
    /// What SUMO warned of, in one line.
    pub warnings: Option<String>,
}

/// Simulates traffic and stores it; on a network that was read before, if one is given.
pub fn simulate(options: &SimulateOptions, given: Option<&Network>) -> Result<Simulated> {
    options.check()?;
    if let Some(config) = &options.sumocfg {
        return scenario(options, config);
    }
    let network = match given {
        Some(network) => network,
        None => &load_network(options.network.as_deref())?,
    };
    let demand = demand(options, network)?;
    let begun = Instant::now();
    let outcome = run(options, network, &demand)?;
    let seconds = begun.elapsed().as_secs_f64();
    let minutes = options.minutes();
    let stored = minutes - options.warm_up();
    let SimulationResult { manifest: dataset, world } = outcome;
    Ok(Simulated { dataset, seconds, minutes, stored, world, warnings: None })
}

struct SimulationResult {
    manifest: DatasetManifest,
    world: Value,
}

fn demand(options: &SimulateOptions, network: &Network) -> Result<Demand> {
    if let Some(path) = &options.demand {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        return Demand::parse(&text, network).with_context(|| format!("{}", path.display()));
    }
    if let Some(flow) = options.flow {
        return Ok(Demand::uniform(network, VehPerHour::new(flow)));
    }
    if options.network.is_some() {
        let problem = "found none, expected a file of a network of your own, or the flow in veh/h at every entry";
        return Err(InvalidOption::new("demand", problem).into());
    }
    Ok(worlds::corridor_demand(network)?)
}

/// The names and classes of all vehicles that will set out, numbered by departure.
pub(crate) fn vehicle_table(
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

fn provenance(options: &SimulateOptions, demand: &Demand, world: &str) -> Provenance {
    let source = [
        ("world", world.to_string()),
        ("demand", demand.name().to_string()),
        ("seed", options.seed.to_string()),
        ("minutes", options.minutes().to_string()),
        ("warm-up", options.warm_up().to_string()),
        ("step", options.step.to_string()),
    ];
    Provenance {
        epoch: "simulation start".into(),
        source: BTreeMap::from(source.map(|(key, value)| (key.to_string(), value))),
    }
}

fn run(options: &SimulateOptions, network: &Network, demand: &Demand) -> Result<SimulationResult> {
    match options.world {
        World::Builtin => builtin(options, network, demand),
        World::Sumo => sumo(options, network, demand),
    }
}

fn builtin(
    options: &SimulateOptions,
    network: &Network,
    demand: &Demand,
) -> Result<SimulationResult> {
    let until = Seconds::new(options.minutes() * 60.0);
    let plan = SimulationPlan {
        until,
        step: Seconds::new(options.step),
        seed: options.seed,
        ..SimulationPlan::default()
    };
    let departures = demand.departures(network, options.seed, until);
    let mut world = Simulation::new(network, plan, departures)?;
    let vehicles = vehicle_table(demand, network, options.seed, until);
    let mut writer = writer(options, network, provenance(options, demand, "builtin"))?;
    store(options, "simulating", &mut world, &mut writer)?;
    let (counts, incidents) = (world.counts(), world.incidents());
    let manifest = writer.finish(&vehicles, &[])?;
    let mut world = serde_json::to_value(incidents)?;
    world["entered"] = counts.entered.into();
    world["left"] = counts.left.into();
    world["present"] = counts.present.into();
    world["waiting"] = counts.waiting.into();
    Ok(SimulationResult { manifest, world })
}

fn sumo(options: &SimulateOptions, network: &Network, demand: &Demand) -> Result<SimulationResult> {
    let tools = SumoTools::find(options.sumo.as_deref())?;
    let until = Seconds::new(options.minutes() * 60.0);
    let temporary = tempfile::tempdir().context("temporary folder")?;
    let folder = options.keep.as_deref().unwrap_or(temporary.path());
    let mut writer = writer(options, network, provenance(options, demand, "sumo"))?;
    writer.note("sumo", tools.version()?);
    let settings = SumoOptions {
        // One moment more than asked for: the last step needs its end.
        until: until + Seconds::new(options.step),
        step: Seconds::new(options.step),
        seed: sumo_seed(options.seed)?,
        ..SumoOptions::default()
    };
    let bar = progress::bar("SUMO is driving", until.get() as u64);
    let departures = demand.departures(network, options.seed, until);
    let run = simulate_sumo(&tools, network, departures, folder, &settings, |time| {
        bar.set_position(time.get() as u64);
        progress::check_stop().is_ok()
    })?;
    bar.finish_and_clear();
    let mut samples = run.samples(network)?;
    store(options, "reading SUMO's output", &mut samples, &mut writer)?;
    let begin = Seconds::new(options.warm_up() * 60.0);
    let mut loops: Vec<LoopCount> = Vec::new();
    for count in run.loop_counts(network)? {
        let count = count?;
        if count.begin >= begin && count.end <= until {
            loops.push(count);
        }
    }
    let manifest = writer.finish(run.vehicles(), &loops)?;
    Ok(SimulationResult { manifest, world: serde_json::to_value(run.statistics)? })
}

fn sumo_seed(seed: u64) -> Result<u32, InvalidOption> {
    u32::try_from(seed).ok().filter(|&seed| seed < 1 << 31).ok_or_else(|| {
        InvalidOption::new("seed", format!("found {seed}, SUMO takes 0 to 2147483647"))
    })
}

/// Runs a scenario that somebody else wrote, and stores its vehicles as SUMO drives them.
fn scenario(options: &SimulateOptions, path: &Path) -> Result<Simulated> {
    let begun = Instant::now();
    let config = SumoConfig::read(path)?;
    let net = import_net(&config.net, &ImportOptions::of(&config))?;
    let (loops, targets) = (options.loops.clone(), options.targets.clone());
    let network = NetworkEdits { loops, targets }.apply(net.network)?;
    let tools = SumoTools::find(options.sumo.as_deref())?;
    let seed = sumo_seed(options.seed)?;
    let first = config.begin.get() + options.warm_up() * 60.0;
    // One moment more than asked for: the last step needs its end.
    let last = options.minutes.map(|minutes| config.begin.get() + minutes * 60.0);
    let end = last.map(|last| Seconds::new(last) + config.step);
    let source = [
        ("world", "sumo".to_string()),
        ("scenario", super::import::file_names(&[path.to_owned()])),
        ("seed", options.seed.to_string()),
        ("sumo", tools.version()?),
    ];
    let source = BTreeMap::from(source.map(|(key, value)| (key.to_string(), value)));
    let provenance = Provenance { epoch: "simulation start".into(), source };
    let temporary = tempfile::tempdir().context("temporary folder")?;
    let mut run = ScenarioRun::start(&tools, &config, net.edges, seed, end, temporary.path())?;
    let mut writer = writer(options, &network, provenance)?;
    let expected = last.or(config.end.map(Seconds::get)).map(|end| end - config.begin.get());
    let bar = match expected {
        Some(seconds) => progress::bar("SUMO is driving", seconds as u64),
        None => progress::spinner("SUMO is driving, seconds"),
    };
    let (mut samples, mut until) = (Vec::new(), config.begin.get());
    loop {
        let time = match run.next_moment(&mut samples) {
            Ok(Some(time)) => time,
            Ok(None) => break,
            // An output that breaks off is SUMO's to explain.
            Err(error) => return Err(run.stop().map_or_else(|| error.into(), Into::into)),
        };
        if time.get() >= first && last.is_none_or(|last| time.get() <= last) {
            writer.moment(time, &samples)?;
            until = time.get();
        }
        bar.set_position((time.get() - config.begin.get()).max(0.0) as u64);
        if let Err(stopped) = progress::check_stop() {
            run.stop();
            return Err(stopped.into());
        }
    }
    bar.finish_and_clear();
    let outcome = run.finish()?;
    ensure!(
        !outcome.vehicles.all().is_empty(),
        "{}: found no vehicle on a link ({} positions elsewhere), expected road traffic",
        path.display(),
        outcome.skipped.outside + outcome.skipped.not_vehicles
    );
    let manifest = writer.finish(&outcome.vehicles, &[])?;
    let mut world = serde_json::to_value(outcome.statistics)?;
    world["positions_outside"] = outcome.skipped.outside.into();
    // What the import left out is part of what the dataset is.
    if let Value::Object(left_out) = serde_json::to_value(net.report)? {
        for (name, value) in
            left_out.into_iter().filter(|(_, value)| value.as_u64().is_some_and(|count| count > 0))
        {
            world[name] = value;
        }
    }
    world["links"] = network.links().len().into();
    world["loops"] = network.loops().len().into();
    world["signals"] = network.signals().len().into();
    let minutes = (until - config.begin.get()) / 60.0;
    let stored = (minutes - options.warm_up()).max(0.0);
    let (seconds, warnings) = (begun.elapsed().as_secs_f64(), outcome.warnings);
    Ok(Simulated { dataset: manifest, seconds, minutes, stored, world, warnings })
}

fn writer(
    options: &SimulateOptions,
    network: &Network,
    provenance: Provenance,
) -> Result<DatasetWriter> {
    // Simulated moments come without gaps: any pause is one of the data.
    let gap = Seconds::new(60.0);
    Ok(DatasetWriter::create(&options.out, network, provenance, gap)?)
}

/// Moves all moments after the warm-up from a world into a dataset.
fn store<S>(
    options: &SimulateOptions,
    what: &'static str,
    world: &mut S,
    writer: &mut DatasetWriter,
) -> Result<()>
where
    S: PositionSource,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    let bar = progress::bar(what, (options.minutes() * 60.0) as u64);
    let (begin, end) = (options.warm_up() * 60.0, options.minutes() * 60.0);
    let mut samples = Vec::new();
    while let Some(time) = world.next_moment(&mut samples)? {
        if (begin..=end).contains(&time.get()) {
            writer.moment(time, &samples)?;
        }
        if time.get() % 60.0 == 0.0 {
            progress::check_stop()?;
            bar.set_position(time.get() as u64);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Minutes of the paper's simulation, warm-up included.
pub(crate) const MINUTES: f64 = 810.0;
/// Minutes.
pub(crate) const WARM_UP: f64 = 10.0;
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
    let out = out.to_owned();
    let options =
        SimulateOptions { world, minutes: Some(minutes), seed, out, ..SimulateOptions::default() };
    let demand = demand(&options, network)?;
    run(&options, network, &demand)?;
    Ok(())
}
