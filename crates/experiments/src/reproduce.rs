//! `fedtse reproduce`: the paper's tables and figures, ours beside the paper's numbers.
//!
//! 1. [`request`]: what was asked for, as a [`plan`]: rows and columns as a list of jobs. Plans are data: a file of
//!    `assets/tables` each, with the paper's numbers.
//! 2. [`datasets`]: simulated traffic and its features, made once per demand seed and [`scene`]; or
//!    [`recordings`].
//! 3. [`runner`]: runs the jobs that have no file yet ([`job`]), gradient boosting by a [`peer`].
//!    In other people's traffic: [`worlds`].
//! 4. [`outcome`]: what is finished, as a [`table`] of means and spreads ([`cells`]), as [`rounds`] to
//!    a target or as [`figures`] of [`curves`] and [`series`], as a [`worlds_table`] with its
//!    [`criteria`]; in JSON and [`markdown`].

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

pub use cells::Quantity;
use datasets::{Datasets, Facts, prepare_all};
pub use date::today;
use job::{Estimator, Job, JobFolder, Record, Settings};
use outcome::ReproducedResult;
use peer::Peer;
use plan::{Range, TablePlan};
pub use program::Program;
use recordings::Recordings;
pub use request::ReproduceArguments;
pub use request::What;
pub use rounds::PAPER as PAPER_ROUNDS;
use runner::Workshop;
use scene::Scene;
pub use series::Labelled;
use training::InvalidOption;

mod all;
mod cells;
mod criteria;
mod curves;
mod datasets;
mod date;
mod figures;
mod head;
mod job;
mod markdown;
mod outcome;
mod peer;
mod plan;
mod program;
mod recordings;
mod request;
mod rounds;
mod runner;
mod scene;
mod series;
mod table;
mod variant;
mod worlds;
mod worlds_table;

pub fn run(arguments: &ReproduceArguments, json: bool) -> Result<()> {
    if arguments.what == What::All {
        return all::run(arguments, json);
    }
    let (text, value) = make(arguments)?;
    print!("{}", if json { &value } else { &text });
    Ok(())
}

/// Makes one result and its files; returns it as Markdown and as JSON.
pub fn make(arguments: &ReproduceArguments) -> Result<(String, String)> {
    let (plan, range) = (arguments.plan()?, arguments.range()?);
    let settings = arguments.settings();
    let program = Program::this()?;
    if arguments.publish.is_some() {
        arguments.check_publishable(&settings)?;
    }
    let folder = JobFolder::open(&arguments.out)?;
    let jobs = plan.jobs(&range);
    let command = arguments.command(&range, &settings);
    let mut failures = Vec::new();
    if arguments.datasets_only {
        let datasets = datasets_of(arguments, &plan, &range, &settings)?;
        return made_datasets(&datasets);
    }
    if !arguments.report {
        let datasets = datasets_of(arguments, &plan, &range, &settings)?;
        let facts = datasets.iter().map(|(&data, one)| (data, one.facts.clone())).collect();
        let finished = finished(&folder, &jobs, &settings, facts)?;
        let open = |job: &&Job| !finished.contains_key(&job.name());
        let mut open: Vec<Job> = jobs.iter().filter(open).copied().collect();
        let peer = peer_for(&mut open)?;
        if !open.is_empty() {
            check_programs(arguments, finished.values().map(|one| &one.program).chain([&program]))?;
            // Said now, not after hours of work.
            if arguments.publish.is_some() && !program.is_known() {
                return Err(unpublishable(&program).into());
            }
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
    let failed = jobs.iter().filter(|job| !finished.contains_key(&job.name()));
    let failed = failed.filter_map(|job| Some((job.name(), folder.failure(job)?))).collect();
    check_programs(arguments, finished.values().map(|one| &one.program))?;
    ensure!(
        !finished.is_empty() || !failures.is_empty(),
        "{}: no job of {} is finished",
        arguments.out.display(),
        plan.name
    );
    let made = (command, date::today()?);
    let head = head::ResultHeader::new(&plan, &range, &settings, &finished, made, arguments.quick);
    let outcome = ReproducedResult::new(arguments.what, &plan, &range, &finished, head, failed);
    let shown = write(arguments, &outcome)?;
    // In other people's worlds an error is a result, which the table shows.
    if let Some(first) = failures.first().filter(|_| arguments.what != What::Worlds) {
        let error = crate::error_chain(&first.error);
        bail!("{} of {} jobs failed; {}: {error}", failures.len(), jobs.len(), first.job.name());
    }
    Ok(shown)
}

/// Where the datasets are and how large, as text and as JSON.
fn made_datasets(datasets: &Datasets) -> Result<(String, String)> {
    let (mut text, mut all) = (String::new(), Vec::new());
    for one in datasets.values() {
        let folder = one.folder.display().to_string();
        let features = size(&one.folder.join("features"))?;
        // Features are made again where they are missing: they need not be carried.
        let traffic = size(&one.folder)? - features;
        text += &format!(
            "{folder}: {} steps, {:.1} MB and {:.1} MB of features\n",
            one.facts.steps,
            traffic as f64 / 1e6,
            features as f64 / 1e6
        );
        all.push(serde_json::json!({
            "folder": folder,
            "bytes": traffic,
            "feature_bytes": features,
            "facts": one.facts,
        }));
    }
    Ok((text, format!("{:#}\n", serde_json::json!(all))))
}

/// Bytes of all files in a folder.
fn size(folder: &std::path::Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        bytes += match path.is_dir() {
            true => size(&path)?,
            false => path.metadata().with_context(|| path.display().to_string())?.len(),
        };
    }
    Ok(bytes)
}

fn datasets_of(
    arguments: &ReproduceArguments,
    plan: &TablePlan,
    range: &Range,
    settings: &Settings,
) -> Result<Datasets> {
    let needed = request::needed(plan);
    match &arguments.pneuma {
        Some(folder) => {
            let recordings = Recordings { folder, network: arguments.network.as_deref() };
            recordings.prepare_all(&arguments.data, &range.seeds, &needed)
        }
        None => prepare_all(&arguments.data, settings, &range.seeds, &needed),
    }
}

/// The records of all finished jobs, which must be of these settings and of one dataset per seed.
fn finished(
    folder: &JobFolder,
    jobs: &[Job],
    settings: &Settings,
    mut datasets: BTreeMap<(u64, Scene), Facts>,
) -> Result<BTreeMap<String, Record>> {
    let mut records = BTreeMap::new();
    for job in jobs {
        let Some(record) = folder.read(job)? else { continue };
        let dataset = datasets.entry(job.data()).or_insert_with(|| record.dataset.clone());
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
        "{}: jobs of more than one program: found {}; choose another folder, or accept jobs of other programs",
        arguments.out.display(),
        names.join(" and ")
    );
    Ok(())
}

fn unpublishable(program: &Program) -> InvalidOption {
    let problem =
        format!("jobs by {program}: expected a program built from a commit without changes");
    InvalidOption::new("publish", problem)
}

fn write(arguments: &ReproduceArguments, outcome: &ReproducedResult) -> Result<(String, String)> {
    let (text, value) = (outcome.text(), outcome.json()?);
    let mut folders = vec![&arguments.out];
    if let Some(publish) = &arguments.publish {
        let mut programs = outcome.head().made.programs.iter();
        if let Some(program) = programs.find(|program| !program.is_known()) {
            return Err(unpublishable(program).into());
        }
        std::fs::create_dir_all(publish).with_context(|| publish.display().to_string())?;
        folders.push(publish);
    }
    for folder in folders {
        outcome.write(folder, &text, &value)?;
    }
    Ok((text, value))
}
