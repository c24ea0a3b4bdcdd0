//! Table 2 of the paper: all estimators on the simulated corridor, by penetration rate.

use estimator::Architecture::{Link, Paper};

use super::cells::PaperErrors;
use super::job::Estimator::{Own, Peer};
use super::peer::Boosting;
use super::plan::{Column, Comparison, PaperRow, RowPlan, TablePlan};
use crate::train::Method;

/// The paper's rates, in percent.
pub const RATES: [u32; 4] = [20, 40, 60, 80];

const REFERENCES: [&str; 3] = ["scale-up", "ridge", "gradient boosting"];
const TSE_N: [&str; 4] =
    ["TSE-n, `link`", "TSE-n, `paper`", "ridge, loops alone", "gradient boosting, loops alone"];

/// Rows, columns and the paper's numbers.
pub fn plan(rates: &[u32]) -> TablePlan {
    let columns = rates.iter().map(|&rate| Column {
        label: format!("{rate} %"),
        rate,
        samples: None,
        paper: RATES.iter().position(|&one| one == rate),
    });
    TablePlan {
        name: "table2",
        title: "Table 2: all data in one place, by penetration rate, on simulated data",
        columns: columns.collect(),
        rows: rows(),
        comparisons: comparisons(),
        paper: paper(),
        notes: NOTES,
    }
}

const NOTES: &[&str] = &[
    "The paper's simulation is not published: its rows stand here for scale, and its scenario differs from ours (docs/decisions/0002). Its labels were very likely means over 60 s.",
    "`link` shares one set of weights among all links (docs/decisions/0003); `paper` is the paper's STGCN and MLP.",
    "TSE-n sees no fleet, so that it is the same at every rate.",
];

fn rows() -> Vec<RowPlan> {
    let row = |label, estimator, architecture| RowPlan { label, estimator, architecture };
    vec![
        row("TSE-n, `link`", Own(Method::TseN), Some(Link)),
        row("TSE-n, `paper`", Own(Method::TseN), Some(Paper)),
        row("ridge, loops alone", Own(Method::RidgeN), None),
        row("gradient boosting, loops alone", Peer(Boosting::BoostingN), None),
        row("TSE-p, `link`", Own(Method::TseP), Some(Link)),
        row("TSE-p, `paper`", Own(Method::TseP), Some(Paper)),
        row("ridge, loops and speeds", Own(Method::RidgeP), None),
        row("scale-up", Own(Method::ScaleUp), None),
        row("ridge", Own(Method::Ridge), None),
        row("gradient boosting", Peer(Boosting::Boosting), None),
        row("Oracle, `link`", Own(Method::Oracle), Some(Link)),
        row("Oracle, `paper`", Own(Method::Oracle), Some(Paper)),
        row("Oracle-cell, `link`", Own(Method::OracleCell), Some(Link)),
        row("Oracle-cell, `paper`", Own(Method::OracleCell), Some(Paper)),
    ]
}

fn comparisons() -> Vec<Comparison> {
    let one = |ours, others: &[&'static str], what, paper| Comparison {
        ours,
        others: others.to_vec(),
        what,
        paper,
    };
    let reference = "the best reference";
    vec![
        one("Oracle, `link`", &REFERENCES, reference, None),
        one("Oracle-cell, `link`", &REFERENCES, reference, None),
        one("Oracle, `paper`", &REFERENCES, reference, None),
        one(
            "Oracle-cell, `link`",
            &["Oracle, `link`"],
            "Oracle, `link`",
            Some(["Oracle-cell", "Oracle"]),
        ),
        one(
            "Oracle-cell, `paper`",
            &["Oracle, `paper`"],
            "Oracle, `paper`",
            Some(["Oracle-cell", "Oracle"]),
        ),
        one("TSE-n, `link`", &TSE_N[2..], "the best reference on loops alone", None),
        one("TSE-p, `link`", &["ridge, loops and speeds"], "ridge, loops and speeds", None),
        one("Oracle, `link`", &TSE_N, "the best on loops alone", Some(["Oracle", "TSE-n"])),
    ]
}

/// The paper's Table 2 (its label `sumotab1`): RMSE and MAE of density, then of flow.
fn paper() -> Vec<PaperRow> {
    let row = |label, numbers: [[f64; 4]; 4]| PaperRow {
        label,
        errors: PaperErrors::new([&numbers[0], &numbers[1], &numbers[2], &numbers[3]]),
    };
    vec![
        row("TSE-n", [[14.19; 4], [6.47; 4], [0.96; 4], [0.75; 4]]),
        row(
            "TSE-p",
            [
                [7.91, 7.04, 6.34, 7.15],
                [4.34, 3.92, 3.63, 3.73],
                [0.98, 0.95, 0.92, 0.89],
                [0.77, 0.75, 0.72, 0.70],
            ],
        ),
        row(
            "Oracle",
            [
                [6.75, 5.22, 4.46, 3.99],
                [3.84, 3.33, 2.85, 2.57],
                [0.95, 0.88, 0.83, 0.79],
                [0.75, 0.69, 0.65, 0.61],
            ],
        ),
        row(
            "Oracle-cell",
            [
                [5.65, 3.84, 3.20, 2.65],
                [3.47, 2.65, 2.17, 1.82],
                [0.95, 0.85, 0.78, 0.69],
                [0.75, 0.67, 0.61, 0.53],
            ],
        ),
    ]
}
