//! Table 4 of the paper: how the error falls with the number of samples, at 20 %.

use estimator::Architecture::{Link, Paper};

use super::cells::PaperErrors;
use super::job::Estimator::{Own, Peer};
use super::peer::Boosting;
use super::plan::{Column, Comparison, PaperRow, Pick, RowPlan, TablePlan};
use super::variant::Variant;
use training::Method;

/// The paper's numbers of samples.
pub(super) const SIZES: [usize; 6] = [600, 1200, 1800, 2400, 3000, 3600];
/// In percent. The paper's errors of 3,600 samples are those of its Table 2 at 20 %.
pub(super) const RATE: u32 = 20;

const REFERENCES: [&str; 2] = ["ridge", "gradient boosting"];

/// Rows, columns and the paper's numbers.
pub(super) fn plan(sizes: &[usize]) -> TablePlan {
    let columns = sizes.iter().map(|&samples| Column {
        label: samples.to_string(),
        rate: RATE,
        samples: Some(samples),
        guests: None,
        labels: None,
        paper: SIZES.iter().position(|&one| one == samples),
    });
    let row = |label, estimator, architecture| {
        let variant = Variant::USUAL;
        RowPlan { label, estimator, architecture, variant, pick: Pick::Test }
    };
    let reference = "the best reference";
    let comparison =
        |ours| Comparison { ours, others: REFERENCES.to_vec(), what: reference, paper: None };
    TablePlan {
        name: "table4",
        title: "Table 4: by number of samples, at 20 %, on simulated data",
        columns: columns.collect(),
        rows: vec![
            row("ridge", Own(Method::Ridge), None),
            row("gradient boosting", Peer(Boosting::Boosting), None),
            row("Oracle, `link`", Own(Method::Oracle), Some(Link)),
            row("Oracle, `paper`", Own(Method::Oracle), Some(Paper)),
        ],
        comparisons: vec![comparison("Oracle, `link`"), comparison("Oracle, `paper`")],
        choices: &[],
        paper: paper(),
        notes: NOTES,
        seeds: "demand seeds",
    }
}

const NOTES: &[&str] = &[
    "The paper's row is FedTSE with one local update (Q = 1) at 20 %. Ours are Oracle: the same features with all data in one place.",
    "Samples are windows of nine steps, the last ones before the test part: seven in eight train, one in eight, the latest, validates, as in the paper's split. The test part is always the same.",
    "On 600 real samples the paper has 9.56 veh/km/lane and 1.13 veh/min/lane.",
];

/// The paper's Table 4 (its label `sampletab1`), simulation: RMSE and MAE of density, then of flow.
fn paper() -> Vec<PaperRow> {
    let errors = PaperErrors::new([
        &[9.86, 9.95, 8.46, 7.96, 7.3, 6.81],
        &[5.78, 5.6, 4.92, 4.7, 4.3, 3.94],
        &[1.2, 1.15, 1.05, 1.04, 0.96, 0.92],
        &[0.94, 0.91, 0.82, 0.81, 0.75, 0.72],
    ]);
    vec![PaperRow { label: "FedTSE (Q = 1)", errors }]
}
