//! `fedtse report`: one page of what was measured, which works without a network.
//!
//! 1. [`results`]: tables and figures that `fedtse reproduce` wrote ([`result_file`]), as sections of grids and
//!    charts.
//! 2. [`crate::run_record`]: runs of `fedtse demo` and `fedtse train --out`.
//! 3. [`attacks`]: what `fedtse audit attacks --json` found.
//! 4. [`privacy`]: who can learn what, and what noise costs.
//! 5. [`page`]: all of it as JSON in a page with its own style, scripts and chart library.
//!
//! A section without data is left out.

mod attacks;
mod page;
mod privacy;
mod result_file;
mod results;
pub(crate) mod section;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;

use crate::compare;
use crate::run_record::RunRecord;
use page::Page;
use section::Section;

/// Make a page of runs and results: one file that works without a network
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse report --run fedtse-demo --results docs/results --out report.html\n  fedtse report --results results --out report.html"
)]
pub struct ReportArguments {
    /// A run's folder, as `fedtse demo` or `fedtse train --out` wrote it; may be repeated
    #[arg(long)]
    run: Vec<PathBuf>,
    /// A folder of tables and figures, as `fedtse reproduce` wrote it; may be repeated
    #[arg(long)]
    results: Vec<PathBuf>,
    /// What `fedtse audit attacks --json` printed; may be repeated
    #[arg(long)]
    attacks: Vec<PathBuf>,
    /// The page
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
}

pub fn run(arguments: &ReportArguments, json: bool) -> Result<()> {
    ensure!(
        !(arguments.run.is_empty() && arguments.results.is_empty() && arguments.attacks.is_empty()),
        "report: found nothing to show, expected --run, --results or --attacks"
    );
    let runs = compare::read(&arguments.run)?;
    let mut sections: Vec<Section> = compare::section(&runs).into_iter().collect();
    let runs: Vec<RunRecord> = runs.into_iter().map(|(_, run)| run).collect();
    for folder in &arguments.results {
        let found = results::read(folder)?;
        ensure!(
            !found.is_empty(),
            "{}: found no results, expected files as `fedtse reproduce --out` writes them",
            folder.display()
        );
        sections.extend(found);
    }
    for file in &arguments.attacks {
        sections.push(attacks::read(file)?);
    }
    let (run_count, section_count) = (runs.len(), sections.len());
    write(&arguments.out, &runs, sections)?;
    let out = arguments.out.display();
    if json {
        println!(
            "{}",
            json!({ "out": arguments.out, "runs": run_count, "results": section_count })
        );
    } else {
        println!("{out}: {run_count} run(s), {section_count} table(s) and figure(s)");
    }
    Ok(())
}

/// Writes the page of some runs and sections; who can learn what stands before what attacks have found.
pub fn write(path: &Path, runs: &[RunRecord], mut results: Vec<Section>) -> Result<()> {
    let attacks = results.iter().position(|section| section.id == attacks::ID);
    results.insert(attacks.unwrap_or(results.len()), privacy::modes()?);
    let page = Page::new(runs, results).context("report")?;
    Ok(durable::write(path, page.html()?)?)
}

/// Writes the page of a folder of results.
pub(crate) fn write_results(path: &Path, folder: &Path) -> Result<()> {
    write(path, &[], results::read(folder)?)
}

/// Writes the page of what `fedtse audit attacks --json` prints.
pub(crate) fn write_attacks(path: &Path, found: &str) -> Result<()> {
    write(path, &[], vec![attacks::parse(found)?])
}
