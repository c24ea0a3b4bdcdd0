//! A table made of finished jobs.

use std::collections::BTreeMap;

use estimator::{Architecture, Score, TargetKind};
use serde::Serialize;

use super::cells::{Cell, PaperErrors, Quantity, mean};
use super::head::ResultHeader;
use super::job::Record;
use super::plan::{Comparison, Range, RowPlan, TablePlan};
use super::variant::Variant;

pub(super) const QUANTITIES: [Quantity; 2] = [Quantity::Density, Quantity::Flow];

/// A table with all that it depends on.
#[derive(Serialize)]
pub(super) struct Table {
    #[serde(flatten)]
    pub head: ResultHeader,
    pub targets: Vec<TargetKind>,
    pub columns: Vec<String>,
    pub rows: Vec<TableRow>,
    pub paper: Vec<Published>,
    pub comparisons: Vec<Compared>,
}

/// An estimator's errors.
#[derive(Serialize)]
pub(super) struct TableRow {
    pub label: &'static str,
    pub estimator: String,
    pub architecture: Option<Architecture>,
    #[serde(skip_serializing_if = "Variant::is_usual")]
    pub variant: Variant,
    /// `[target][column]`, none where no job is finished.
    pub cells: Vec<Vec<Option<Cell>>>,
    /// The same on the validation part, of rows among which one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Vec<Vec<Option<Cell>>>>,
}

/// A row of the paper, in the columns of ours.
#[derive(Serialize)]
pub(super) struct Published {
    pub label: &'static str,
    /// For all of the paper's columns.
    pub errors: PaperErrors,
    /// Density and flow in our columns, none where the paper has no such column.
    pub rmse: [Vec<Option<f64>>; 2],
}

/// A row against others.
#[derive(Serialize)]
pub(super) struct Compared {
    pub ours: &'static str,
    pub than: &'static str,
    pub target: TargetKind,
    pub quantity: Quantity,
    /// For each column.
    pub gains: Vec<Option<Gain>>,
    /// The same comparison of the paper's numbers, in percent.
    pub paper: Option<Vec<Option<f64>>>,
}

/// By how much the RMSE is lower, in percent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Gain {
    pub percent: f64,
    /// The best of the others.
    pub best: &'static str,
    /// Of each demand seed that both have.
    pub by_seed: Vec<f64>,
    /// Others that could be better still: they have not been run on all of these seeds.
    pub not_run: Vec<&'static str>,
}

impl TableRow {
    /// Of jobs none of which is finished.
    pub(super) fn empty(row: &RowPlan, targets: &[TargetKind], columns: usize) -> Self {
        Self {
            label: row.label,
            estimator: row.estimator.name(),
            architecture: row.architecture,
            variant: row.variant,
            cells: vec![vec![None; columns]; targets.len()],
            validation: None,
        }
    }
}

impl Table {
    /// Puts finished jobs into their places.
    pub(super) fn new(
        plan: &TablePlan,
        range: &Range,
        records: &BTreeMap<String, Record>,
        head: ResultHeader,
    ) -> Self {
        let rows = rows(plan, range, records);
        let paper = published(plan);
        let mut comparisons = Vec::new();
        for comparison in &plan.comparisons {
            for (at, &target) in range.targets.iter().enumerate() {
                for quantity in QUANTITIES {
                    let row = compared(comparison, &rows, (at, target), quantity, &paper);
                    comparisons.extend(row);
                }
            }
        }
        Self {
            head,
            targets: range.targets.clone(),
            columns: plan.columns.iter().map(|column| column.label.clone()).collect(),
            rows,
            paper,
            comparisons,
        }
    }
}

/// The rows that have at least one finished job.
fn rows(plan: &TablePlan, range: &Range, records: &BTreeMap<String, Record>) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for row in &plan.rows {
        let all = |score: &dyn Fn(&Record) -> Option<Score>| -> Vec<Vec<Option<Cell>>> {
            let of_target = |&target: &TargetKind| {
                let cells = plan.columns.iter().map(|column| {
                    let found = row.jobs(column, target, range).filter_map(|job| {
                        Some((job.demand_seed, score(records.get(&job.name())?)?))
                    });
                    Cell::of(&found.collect::<Vec<_>>())
                });
                cells.collect()
            };
            range.targets.iter().map(of_target).collect()
        };
        let cells = all(&|record| row.pick.score(record));
        if cells.iter().flatten().any(Option::is_some) {
            let chosen = plan.choices.contains(&row.label);
            rows.push(TableRow {
                label: row.label,
                estimator: row.estimator.name(),
                architecture: row.architecture,
                variant: row.variant,
                cells,
                validation: chosen.then(|| all(&|record| record.validation)),
            });
        }
    }
    rows
}

fn published(plan: &TablePlan) -> Vec<Published> {
    let in_columns = |errors: &PaperErrors, quantity| {
        let columns = plan.columns.iter();
        columns.map(|column| errors.rmse(quantity, column.paper?)).collect::<Vec<_>>()
    };
    let rows = plan.paper.iter().map(|row| Published {
        label: row.label,
        errors: row.errors.clone(),
        rmse: QUANTITIES.map(|quantity| in_columns(&row.errors, quantity)),
    });
    rows.collect()
}

/// None if there is nothing to compare.
fn compared(
    comparison: &Comparison,
    rows: &[TableRow],
    (at, target): (usize, TargetKind),
    quantity: Quantity,
    paper: &[Published],
) -> Option<Compared> {
    let cells = |label: &str| rows.iter().find(|row| row.label == label).map(|row| &row.cells[at]);
    let ours = cells(comparison.ours)?;
    let gains = ours.iter().enumerate().map(|(column, cell)| {
        let other = |label| cells(label)?.get(column)?.as_ref();
        let others = comparison.others.iter().map(|&label| (label, other(label)));
        gain(cell.as_ref()?, &others.collect::<Vec<_>>(), quantity)
    });
    let gains: Vec<Option<Gain>> = gains.collect();
    gains.iter().any(Option::is_some).then(|| Compared {
        ours: comparison.ours,
        than: comparison.what,
        target,
        quantity,
        gains,
        paper: comparison.paper.and_then(|labels| published_gains(labels, quantity, paper)),
    })
}

/// Against the one of the others that is best on average over the seeds that it shares with ours.
fn gain(ours: &Cell, others: &[(&'static str, Option<&Cell>)], quantity: Quantity) -> Option<Gain> {
    let mut best: Option<(f64, Gain)> = None;
    let mut not_run = Vec::new();
    for &(label, other) in others {
        let pairs = ours.demand_seeds.iter().filter_map(|&seed| {
            Some((ours.rmse_of(quantity, seed)?, other?.rmse_of(quantity, seed)?))
        });
        let pairs: Vec<(f64, f64)> = pairs.collect();
        if pairs.len() < ours.demand_seeds.len() {
            not_run.push(label);
        }
        let (mine, theirs) = (mean(pairs.iter().map(|p| p.0)), mean(pairs.iter().map(|p| p.1)));
        if pairs.is_empty() || best.as_ref().is_some_and(|(least, _)| theirs >= *least) {
            continue;
        }
        let by_seed = pairs.iter().map(|(mine, theirs)| percent(*mine, *theirs)).collect();
        let percent = percent(mine, theirs);
        best = Some((theirs, Gain { percent, best: label, by_seed, not_run: Vec::new() }));
    }
    best.map(|(_, gain)| Gain { not_run, ..gain })
}

fn percent(ours: f64, theirs: f64) -> f64 {
    100.0 * (1.0 - ours / theirs)
}

fn published_gains(
    [ours, other]: [&str; 2],
    quantity: Quantity,
    paper: &[Published],
) -> Option<Vec<Option<f64>>> {
    let row = |label: &str| {
        let row = paper.iter().find(|row| row.label == label)?;
        Some(&row.rmse[QUANTITIES.iter().position(|&one| one == quantity)?])
    };
    let pairs = row(ours)?.iter().zip(row(other)?);
    Some(pairs.map(|(ours, other)| Some(percent((*ours)?, (*other)?))).collect())
}

#[cfg(test)]
mod tests {
    use estimator::{Errors, Score};

    use super::*;

    fn cell(values: &[(u64, f64)]) -> Cell {
        let score = |rmse| Score { density: Errors { rmse, mae: 0.0 }, ..Score::default() };
        Cell::of(&values.iter().map(|&(seed, v)| (seed, score(v))).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn gains_are_over_the_best_other_on_seeds_that_both_have() {
        let ours = cell(&[(1, 3.0), (2, 5.0)]);
        let good = cell(&[(1, 4.0), (2, 6.0), (3, 1000.0)]);
        let bad = cell(&[(1, 8.0), (2, 8.0)]);
        let others = [("bad", Some(&bad)), ("good", Some(&good)), ("none", None)];
        let found = gain(&ours, &others, Quantity::Density).unwrap();
        // 1 − 8/10; 1 − 3/4 and 1 − 5/6.
        assert_eq!((found.best, &found.not_run[..]), ("good", &["none"][..]));
        assert!((found.percent - 20.0).abs() < 1e-9);
        assert!((found.by_seed[0] - 25.0).abs() < 1e-9);
        assert!((found.by_seed[1] - 100.0 / 6.0).abs() < 1e-9);
        let elsewhere = cell(&[(9, 1.0)]);
        assert!(gain(&ours, &[("elsewhere", Some(&elsewhere))], Quantity::Density).is_none());
    }
}
