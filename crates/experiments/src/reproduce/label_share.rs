//! Our own experiment: how much ground truth is worth, alone and beside measurements and a traffic model, which
//! need none.

use estimator::Architecture::Link;

use super::job::Estimator::Own;
use super::plan::{Column, Comparison, Pick, RowPlan, TablePlan};
use super::variant::Variant;
use training::Method;

/// Percentages of the steps that have ground truth.
const SHARES: [u32; 8] = [0, 1, 2, 5, 10, 25, 50, 100];
const QUICK: [u32; 3] = [0, 10, 100];
/// Penetration rate in percent.
const RATE: u32 = 20;

const ALONE: &str = "labels alone";
const WITH_PI: &str = "labels and PI";
const WITH_HF: &str = "labels and PI+HF";

/// Rows and columns.
pub(super) fn plan(quick: bool) -> TablePlan {
    let shares: &[u32] = if quick { &QUICK } else { &SHARES };
    let columns = shares.iter().map(|&share| Column {
        label: format!("{share} %"),
        rate: RATE,
        samples: None,
        guests: None,
        labels: Some(share),
        paper: None,
    });
    let row = |label, method: Method| RowPlan {
        label,
        estimator: Own(method),
        architecture: method.is_neural().then_some(Link),
        variant: Variant::USUAL,
        pick: Pick::Test,
    };
    let than_alone = |ours| Comparison { ours, others: vec![ALONE], what: ALONE, paper: None };
    TablePlan {
        name: "label-share",
        title: "Ground truth for a share of the steps, alone and beside what needs none, at 20 %",
        columns: columns.collect(),
        rows: vec![
            row("ridge, labels alone", Method::Ridge),
            row(ALONE, Method::Oracle),
            row(WITH_PI, Method::OraclePi),
            row(WITH_HF, Method::OraclePiHf),
        ],
        comparisons: vec![than_alone(WITH_PI), than_alone(WITH_HF)],
        choices: &[],
        paper: Vec::new(),
        notes: NOTES,
        seeds: "demand seeds",
    }
}

const NOTES: &[&str] = &[
    "Columns: the share of the steps of the training part, and of the validation part, that have ground truth, the last ones of each; all rows have the same. The first column has none, and only what needs none is there.",
    "All rows have all data in one place. Labels alone: Oracle, which learns from and is chosen by the labelled steps alone. PI: loop flow, the fleet's speeds, densities by queue profiles and a traffic model on all steps (Oracle-PI); PI+HF: with a held-out fold of the fleet instead of speeds (Oracle-PI+HF). Labels are added to their losses, in training and in the choice of the epoch.",
    "A label counts as a measurement of 6 veh/km/lane and 1 veh/min/lane, about the errors that labels leave.",
];
