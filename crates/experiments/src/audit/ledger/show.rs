//! What a guest has sent, as values over links and time.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use durable::PendingFile;
use protocol::ledger::{Audit, SumRecords};
use serde::Serialize;
use traffic::Step;
use training::party::policy::PolicyFile;
use training::party::{Contributed, ContributedState};

use super::LedgerArguments;

/// What was shown.
#[derive(Serialize)]
pub(super) struct Shown {
    steps: usize,
    rows: usize,
    policy: String,
    /// Sums, or embeddings and measurements.
    in_sums: bool,
}

/// Prints some rows of what was sent, unless `quiet`, and writes all of them if a file is named.
pub(super) fn show(
    arguments: &LedgerArguments,
    audit: &Audit,
    quiet: bool,
) -> Result<Option<Shown>> {
    let (Some(data), Some(fleet)) = (&arguments.show, &arguments.fleet) else { return Ok(None) };
    let policy = arguments.policy.as_deref().map(PolicyFile::read).transpose()?;
    let mut contributed = Contributed::read(data, fleet, policy.as_ref())?;
    let in_sums = audit.tallies.keys().any(|(_, kind)| kind == "masked-totals");
    let mut steps: Vec<(Step, usize)> =
        contributed.steps().into_iter().map(|step| (step, 1)).collect();
    if in_sums {
        // Live steps are in no dataset.
        steps = summed(data, fleet, &steps)?;
    }
    let mut table = match &arguments.csv {
        Some(path) => {
            let mut table = csv::Writer::from_writer(PendingFile::create(path)?);
            table.write_record([
                "step",
                "link",
                "density_veh_km_lane",
                "flow_veh_min_lane",
                "guests",
            ])?;
            Some(table)
        }
        None => None,
    };
    if !quiet {
        let what = match in_sums {
            true => "its part of sums over guests, which left it masked",
            false => "what its embeddings and measurements are made of",
        };
        println!("\n{what}: {}", contributed.policy());
        println!("{:>9} {:<16} {:>12} {:>12} {:>7}", "step", "link", "density", "flow", "guests");
        println!("{:>9} {:<16} {:>12} {:>12}", "", "", "veh/km/lane", "veh/min/lane");
    }
    let (mut rows, mut count) = (0, 0);
    for (step, guests) in steps {
        let states = contributed.of_step(step)?;
        count += usize::from(!states.is_empty());
        for ContributedState { step, link, state } in states {
            let numbers = [state.density.get(), state.flow.get()];
            if !quiet && rows < arguments.rows {
                let [density, flow] = numbers;
                println!("{:>9} {link:<16} {density:>12.3} {flow:>12.3} {guests:>7}", step.0);
            }
            if let Some(table) = &mut table {
                let [density, flow] = numbers.map(|number| format!("{number:.6}"));
                table.write_record([
                    step.0.to_string(),
                    link,
                    density,
                    flow,
                    guests.to_string(),
                ])?;
            }
            rows += 1;
        }
    }
    ensure!(rows > 0, "{}: found no step of `{fleet}` that was sent", data.display());
    if let Some(mut table) = table {
        table.flush()?;
        table.into_inner().map_err(csv::IntoInnerError::into_error)?.commit()?;
    }
    if !quiet {
        if rows > arguments.rows {
            println!("… and {} rows more: --csv has all", rows - arguments.rows);
        }
        println!("{rows} values of {count} steps");
    }
    Ok(Some(Shown { steps: count, rows, policy: contributed.policy(), in_sums }))
}

/// Those of some steps that went into sums, and over how many guests.
fn summed(data: &Path, fleet: &str, steps: &[(Step, usize)]) -> Result<Vec<(Step, usize)>> {
    let path = data.join("sums").join(format!("{fleet}.jsonl"));
    ensure!(path.exists(), "{}: not found, expected the participants of its sums", path.display());
    let records = SumRecords::open(&path).with_context(|| path.display().to_string())?;
    let spans: Vec<(i64, i64, usize)> =
        records.spans().map(|(first, last, guests)| (first, last, guests.len())).collect();
    let over = |(step, _): &(Step, usize)| {
        let span = spans.iter().find(|(first, last, _)| (first..=last).contains(&&step.0))?;
        Some((*step, span.2))
    };
    Ok(steps.iter().filter_map(over).collect())
}
