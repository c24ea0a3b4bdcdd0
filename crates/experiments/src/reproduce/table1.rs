//! Table 1 of the paper: estimators on real recordings, by penetration rate.

use estimator::Architecture::{Link, Paper};

use super::job::Estimator::Own;
use super::plan::{Column, Comparison, PaperRow, Pick, RowPlan, TablePlan};
use super::table2::RATES;
use super::variant::Variant;
use training::Method;

/// Rows, columns and the paper's numbers.
pub(super) fn plan(rates: &[u32]) -> TablePlan {
    let columns = rates.iter().map(|&rate| Column {
        label: format!("{rate} %"),
        rate,
        samples: None,
        guests: None,
        labels: None,
        paper: RATES.iter().position(|&one| one == rate),
    });
    let row = |label, method, architecture| RowPlan {
        label,
        estimator: Own(method),
        architecture,
        variant: Variant::USUAL,
        pick: Pick::Test,
    };
    let than = |ours, other| Comparison {
        ours,
        others: vec![other],
        what: other,
        paper: Some(["FedTSE (Q = 1)", "Oracle"]),
    };
    TablePlan {
        name: "table1",
        title: "Table 1: all estimators by penetration rate, on real recordings",
        columns: columns.collect(),
        rows: vec![
            row("TSE-n, `link`", Method::TseN, Some(Link)),
            row("TSE-n, `paper`", Method::TseN, Some(Paper)),
            row("TSE-p, `link`", Method::TseP, Some(Link)),
            row("TSE-p, `paper`", Method::TseP, Some(Paper)),
            row("scale-up", Method::ScaleUp, None),
            row("ridge", Method::Ridge, None),
            row("Oracle, `link`", Method::Oracle, Some(Link)),
            row("Oracle, `paper`", Method::Oracle, Some(Paper)),
            row("FedTSE, `link`", Method::FedTse, Some(Link)),
            row("FedTSE, `paper`", Method::FedTse, Some(Paper)),
        ],
        comparisons: vec![
            than("FedTSE, `link`", "Oracle, `link`"),
            than("FedTSE, `paper`", "Oracle, `paper`"),
        ],
        choices: &[],
        paper: paper(),
        notes: NOTES,
        seeds: "fleet seeds",
    }
}

const NOTES: &[&str] = &[
    "Windows lie within recordings, and recordings are split in time: of 16 the last three are the test part, the one before them validates, as in the authors' code. With more or fewer recordings the parts are in proportion.",
    "Loops are counted from the trajectories where they cross the network's detectors. A fleet is drawn from all vehicles by name; fleet seeds draw others.",
    "Where the paper's numbers come from: its recordings were cut and matched otherwise, four of its recordings left out, and its labels very likely means over 60 s.",
];

/// The paper's Table 1 (its label `realtab1`): RMSE and MAE of density, then of flow.
fn paper() -> Vec<PaperRow> {
    let row = PaperRow::new;
    vec![
        row("TSE-n", [[10.34; 4], [7.19; 4], [1.91; 4], [1.50; 4]]),
        row(
            "TSE-p",
            [
                [10.76, 9.64, 7.82, 7.17],
                [7.01, 6.35, 5.28, 4.67],
                [1.24, 1.15, 1.09, 1.12],
                [0.97, 0.91, 0.85, 0.88],
            ],
        ),
        row(
            "Oracle",
            [
                [8.82, 7.51, 6.80, 6.79],
                [5.85, 4.83, 4.26, 4.05],
                [1.19, 1.11, 1.05, 0.99],
                [0.95, 0.89, 0.85, 0.80],
            ],
        ),
        row(
            "FedTSE (Q = 1)",
            [
                [9.56, 8.02, 7.23, 6.02],
                [6.21, 5.30, 4.53, 3.96],
                [1.13, 1.01, 1.02, 1.02],
                [0.89, 0.80, 0.81, 0.80],
            ],
        ),
    ]
}
