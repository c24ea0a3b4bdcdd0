//! `fedtse reproduce`: the paper's tables, ours beside the paper's numbers.
//!
//! 1. [`plan`]: a table's rows and columns as a list of jobs ([`table2`], [`table4`]).
//! 2. [`datasets`]: simulated traffic and its features, made once per demand seed.
//! 3. [`runner`]: runs the jobs that have no file yet ([`job`]), gradient boosting by a [`peer`].
//! 4. [`table`]: means and spreads ([`cells`]) of what is finished, as JSON and [`markdown`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use estimator::{Architecture, TargetKind};

use crate::simulate::World;
use crate::train::{Arch, Target};
use datasets::{Facts, prepare_all};
use job::{Estimator, Job, JobFolder, Record, Settings, write_whole};
use peer::Peer;
use plan::{Range, TablePlan};
use program::Program;
use runner::Workshop;
use table::Table;

mod cells;
mod datasets;
mod date;
mod job;
mod markdown;
mod peer;
mod plan;
mod program;
mod runner;
mod table;
mod table2;
mod table4;
mod variant;

/// Make a table of the paper, our numbers beside the paper's
///
/// Simulates the corridor for several demand seeds, fits every estimator to each, and tabulates
/// the errors on the test part. Each finished fit is kept: a run that was interrupted continues
/// where it stood, with the same result.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse reproduce table2\n  fedtse reproduce table2 --training-seeds 1,2,3 --jobs 2\n  fedtse reproduce table4 --only oracle,ridge --report\n  fedtse reproduce table2 --quick --out /tmp/quick"
)]
pub struct ReproduceArguments {
    /// Which table
    #[arg(value_enum)]
    table: TableName,
    /// Folder for finished jobs and the table
    #[arg(long, default_value = "results")]
    out: PathBuf,
    /// Folder for simulated datasets, which are found again
    #[arg(long, default_value = "data/reproduce")]
    data: PathBuf,
    /// Which simulator; sumo unless --quick
    #[arg(long, value_enum)]
    world: Option<World>,
    /// Minutes to simulate, 10 of them warm-up; 810 unless --quick
    #[arg(long)]
    minutes: Option<f64>,
    /// Demand seeds, one dataset each; 1,2,3 unless --quick
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Seeds of the neural estimators
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    training_seeds: Vec<u64>,
    /// Penetration rates in percent, of table2; 20,40,60,80 unless --quick
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100))]
    rates: Vec<u32>,
    /// Numbers of samples, of table4; 600,1200,1800,2400,3000,3600 unless --quick
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// What is estimated
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Target::Raw, Target::Smooth])]
    target: Vec<Target>,
    /// Epochs of the neural estimators, at most; their architecture's unless given or --quick
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    epochs: Option<u64>,
    /// Only these estimators: names as of `fedtse train --method`, boosting, boosting-n
    #[arg(long, value_delimiter = ',', value_parser = Estimator::parse)]
    only: Vec<Estimator>,
    /// Only this model of the neural estimators; both unless given
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// Jobs at a time; one for each core unless given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// A small version in the built-in world, to see that all works; its numbers mean nothing
    #[arg(long)]
    quick: bool,
    /// Run nothing: tabulate what is finished
    #[arg(long)]
    report: bool,
    /// Keep jobs that were finished by another version of the program; the table names them all
    #[arg(long)]
    accept_other_programs: bool,
    /// Write the table into this folder too, such as docs/results
    #[arg(long)]
    publish: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TableName {
    /// All estimators by penetration rate
    Table2,
    /// By number of samples
    Table4,
}

const MINUTES: f64 = 810.0;
const SEEDS: [u64; 3] = [1, 2, 3];
const FLEET_SEED: u64 = 1;

pub fn run(arguments: &ReproduceArguments, json: bool) -> Result<()> {
    let (plan, range) = (planned(arguments)?, range(arguments)?);
    let settings = settings(arguments);
    let program = Program::this()?;
    if arguments.publish.is_some() {
        check_publishable(arguments, &settings)?;
    }
    let folder = JobFolder::open(&arguments.out)?;
    let jobs = plan.jobs(&range);
    let command = command(arguments, &range, &settings);
    let mut failures = Vec::new();
    if !arguments.report {
        let rates: Vec<u32> = plan.columns.iter().map(|column| column.rate).collect();
        let datasets = prepare_all(&arguments.data, &settings, &range.seeds, &rates)?;
        let facts = datasets.iter().map(|(&seed, one)| (seed, one.facts.clone())).collect();
        let finished = finished(&folder, &jobs, &settings, facts)?;
        let open = |job: &&Job| !finished.contains_key(&job.name());
        let mut open: Vec<Job> = jobs.iter().filter(open).copied().collect();
        let peer = peer_for(&mut open)?;
        if !open.is_empty() {
            check_programs(arguments, finished.values().map(|one| &one.program).chain([&program]))?;
            // Said now, not after hours of work.
            ensure!(arguments.publish.is_none() || program.is_known(), unpublishable(&program));
        }
        let workshop = Workshop {
            settings: &settings,
            datasets: &datasets,
            program: &program,
            peer: peer.as_ref(),
            command: &command,
            folder: &folder,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = arguments.jobs.map_or(cores, |jobs| jobs as usize);
        failures = workshop.run_all(&open, at_once, cores)?;
    }
    let finished = finished(&folder, &jobs, &settings, BTreeMap::new())?;
    check_programs(arguments, finished.values().map(|one| &one.program))?;
    ensure!(
        !finished.is_empty() || !failures.is_empty(),
        "{}: no job of {} is finished",
        arguments.out.display(),
        plan.name
    );
    let made = (command, date::today()?);
    let table = Table::new(&plan, &range, &settings, &finished, made, arguments.quick);
    show(arguments, &table, json)?;
    if let Some(first) = failures.first() {
        let error = crate::told(&first.error);
        bail!("{} of {} jobs failed; {}: {error}", failures.len(), jobs.len(), first.job.name());
    }
    Ok(())
}

fn planned(arguments: &ReproduceArguments) -> Result<TablePlan> {
    let or = |given: &[u32], quick: &[u32], usual: &[u32]| {
        if !given.is_empty() {
            given.to_vec()
        } else if arguments.quick {
            quick.to_vec()
        } else {
            usual.to_vec()
        }
    };
    let mut plan = match arguments.table {
        TableName::Table2 => {
            ensure!(arguments.sizes.is_empty(), "--sizes: table2 has rates, expected --rates");
            table2::plan(&distinct("--rates", or(&arguments.rates, &[20, 80], &table2::RATES))?)
        }
        TableName::Table4 => {
            ensure!(arguments.rates.is_empty(), "--rates: table4 has sizes, expected --sizes");
            let sizes = match (&arguments.sizes[..], arguments.quick) {
                ([], false) => table4::SIZES.to_vec(),
                ([], true) => vec![64, 128],
                (sizes, _) => sizes.to_vec(),
            };
            table4::plan(&distinct("--sizes", sizes)?)
        }
    };
    if !arguments.only.is_empty() {
        plan.rows.retain(|row| arguments.only.contains(&row.estimator));
    }
    if let Some(arch) = arguments.arch.map(Architecture::from) {
        plan.rows.retain(|row| row.architecture.is_none_or(|one| one == arch));
    }
    ensure!(!plan.rows.is_empty(), "--only: {} has no such row", plan.name);
    Ok(plan)
}

fn range(arguments: &ReproduceArguments) -> Result<Range> {
    let seeds = match (&arguments.seeds[..], arguments.quick) {
        ([], false) => SEEDS.to_vec(),
        ([], true) => vec![1, 2],
        (seeds, _) => seeds.to_vec(),
    };
    let targets = arguments.target.iter().map(|&target| TargetKind::from(target));
    Ok(Range {
        seeds: distinct("--seeds", seeds)?,
        training_seeds: distinct("--training-seeds", arguments.training_seeds.clone())?,
        targets: distinct("--target", targets.collect())?,
    })
}

/// Refuses a value given twice: it would count twice.
fn distinct<T: PartialEq + std::fmt::Debug>(option: &str, values: Vec<T>) -> Result<Vec<T>> {
    for (at, value) in values.iter().enumerate() {
        ensure!(!values[..at].contains(value), "{option}: found {value:?} twice");
    }
    Ok(values)
}

fn settings(arguments: &ReproduceArguments) -> Settings {
    let quick = arguments.quick;
    let epochs = arguments.epochs.map(|epochs| epochs as usize);
    Settings {
        world: arguments.world.unwrap_or(if quick { World::Builtin } else { World::Sumo }),
        minutes: arguments.minutes.unwrap_or(if quick { 45.0 } else { MINUTES }),
        fleet_seed: FLEET_SEED,
        epochs: epochs.or(quick.then_some(2)),
    }
}

/// The command that makes the table again, without folders.
fn command(arguments: &ReproduceArguments, range: &Range, settings: &Settings) -> String {
    let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    };
    let mut words = vec!["fedtse reproduce".to_owned(), name(arguments.table.to_possible_value())];
    let mut add = |option: &str, value: String| words.push(format!("{option} {value}"));
    if arguments.quick {
        add("--quick", String::new());
    }
    if settings.world != World::Sumo || settings.minutes != MINUTES {
        add("--world", name(settings.world.to_possible_value()));
        add("--minutes", settings.minutes.to_string());
    }
    add("--seeds", list(&range.seeds));
    add("--training-seeds", list(&range.training_seeds));
    let join = |words: Vec<String>| words.join(",");
    if !arguments.rates.is_empty() {
        add("--rates", join(arguments.rates.iter().map(u32::to_string).collect()));
    }
    if !arguments.sizes.is_empty() {
        add("--sizes", join(arguments.sizes.iter().map(usize::to_string).collect()));
    }
    if range.targets != [TargetKind::Raw, TargetKind::Smooth] {
        let names = arguments.target.iter().map(|target| name(target.to_possible_value()));
        add("--target", join(names.collect()));
    }
    if let Some(epochs) = settings.epochs {
        add("--epochs", epochs.to_string());
    }
    if !arguments.only.is_empty() {
        add("--only", join(arguments.only.iter().map(|one| one.name()).collect()));
    }
    if let Some(arch) = arguments.arch {
        add("--arch", name(arch.to_possible_value()));
    }
    words.iter().map(|word| word.trim()).collect::<Vec<_>>().join(" ")
}

/// The records of all finished jobs, which must be of these settings and of one dataset per seed.
fn finished(
    folder: &JobFolder,
    jobs: &[Job],
    settings: &Settings,
    mut datasets: BTreeMap<u64, Facts>,
) -> Result<BTreeMap<String, Record>> {
    let mut records = BTreeMap::new();
    for job in jobs {
        let Some(record) = folder.read(job)? else { continue };
        let dataset = datasets.entry(job.demand_seed).or_insert_with(|| record.dataset.clone());
        folder.check(&record, settings, dataset)?;
        records.insert(job.name(), record);
    }
    Ok(records)
}

/// The peer, if a job needs it. Where it is not installed, its rows are left out, with a word.
fn peer_for(open: &mut Vec<Job>) -> Result<Option<Peer>> {
    let needs = |job: &Job| matches!(job.estimator, Estimator::Peer(_));
    if !open.iter().any(needs) {
        return Ok(None);
    }
    match Peer::find() {
        Ok(peer) => Ok(Some(peer)),
        Err(error) => {
            open.retain(|job| !needs(job));
            eprintln!("{error}; its rows are left out");
            Ok(None)
        }
    }
}

/// Numbers of different programs are not mixed unless asked for.
fn check_programs<'a>(
    arguments: &ReproduceArguments,
    programs: impl Iterator<Item = &'a Program>,
) -> Result<()> {
    let programs: std::collections::BTreeSet<&Program> = programs.collect();
    let names: Vec<String> = programs.iter().map(ToString::to_string).collect();
    ensure!(
        names.len() <= 1 || arguments.accept_other_programs,
        "{}: jobs of more than one program: found {}; choose another --out, or keep all by --accept-other-programs",
        arguments.out.display(),
        names.join(" and ")
    );
    Ok(())
}

/// What is checked in must be the real thing.
fn check_publishable(arguments: &ReproduceArguments, settings: &Settings) -> Result<()> {
    let real = settings.world == World::Sumo && settings.minutes == MINUTES;
    ensure!(
        !arguments.quick && real && settings.epochs.is_none(),
        "--publish: expected the whole scenario in SUMO, without --quick, --minutes and --epochs"
    );
    Ok(())
}

fn unpublishable(program: &Program) -> String {
    format!("--publish: jobs by {program}: expected a program built from a commit without changes")
}

fn show(arguments: &ReproduceArguments, table: &Table, json: bool) -> Result<()> {
    let text = markdown::render(table);
    let value = serde_json::to_string_pretty(table)? + "\n";
    let mut folders = vec![&arguments.out];
    if let Some(publish) = &arguments.publish {
        if let Some(program) = table.made.programs.iter().find(|program| !program.is_known()) {
            bail!(unpublishable(program));
        }
        std::fs::create_dir_all(publish).with_context(|| publish.display().to_string())?;
        folders.push(publish);
    }
    for folder in folders {
        write_whole(&folder.join(format!("{}.json", table.table)), &value)?;
        write_whole(&folder.join(format!("{}.md", table.table)), &text)?;
    }
    print!("{}", if json { &value } else { &text });
    Ok(())
}
