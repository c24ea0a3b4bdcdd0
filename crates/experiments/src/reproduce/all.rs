//! `fedtse reproduce all`: every table and figure that needs no download, then a page of them.
//!
//! What is finished is kept job by job, so an interrupted run goes on where it stood. A result that fails does
//! not keep the others from being made.

use anyhow::{Result, bail};
use serde_json::json;
use training::InvalidOption;

use super::make;
use super::request::{ReproduceArguments, What};
use crate::report;

/// In the order in which they are wanted most; what shares jobs with one before it comes after it.
const RESULTS: [What; 12] = [
    What::Table2,
    What::Table5,
    What::Table3,
    What::FigQ,
    What::FigLoss,
    What::Guests,
    What::Table4,
    What::FigPiRate,
    What::FigPiEstimates,
    What::Table6,
    What::LabelShare,
    What::Table5Sealed,
];

pub(super) fn run(arguments: &ReproduceArguments, json: bool) -> Result<()> {
    arguments.check_all()?;
    let (mut made, mut failures) = (Vec::new(), Vec::new());
    for what in RESULTS {
        let one = arguments.of(what);
        if !one.has_rows()? {
            continue;
        }
        match make(&one) {
            Ok((text, _)) => {
                made.push(one.name());
                if !json {
                    println!("{text}");
                }
            }
            Err(error) => failures.push((one.name(), crate::error_chain(&error))),
        }
    }
    let page = arguments.out.join("report.html");
    if made.is_empty() && failures.is_empty() {
        return Err(InvalidOption::new("only", "no result has such a row").into());
    }
    if !made.is_empty() {
        report::write_results(&page, &arguments.out)?;
        match json {
            true => println!("{}", json!({ "results": made, "report": page })),
            false => println!("report: {}", page.display()),
        }
    }
    if let Some((name, error)) = failures.first() {
        bail!("{} of {} results failed; {name}: {error}", failures.len(), RESULTS.len());
    }
    Ok(())
}
