//! What is drawn over the course of training: the paper's Table 3 (rounds to reach a target), its
//! figure of Oracle-cell and FedTSE-cell, and its figure of one, two and three local updates.

use estimator::Architecture::{self, Link, Paper};

use super::job::Estimator::Own;
use super::plan::{Column, Pick, RowPlan, TablePlan};
use super::variant::Variant;
use training::Method;

/// Rates of the paper's figure of losses, in percent.
pub(super) const LOSS_RATES: [u32; 2] = [20, 40];
/// The rate at which local updates are compared, in percent. The paper does not say its own.
pub(super) const Q_RATE: u32 = 20;
/// Numbers per link of an embedding that is no bottleneck.
const WIDE: u16 = 32;

/// Curves of Oracle-cell and FedTSE-cell.
pub(super) fn losses(rates: &[u32]) -> TablePlan {
    let row = |label, method, architecture, embedding_size| RowPlan {
        label,
        estimator: Own(method),
        architecture: Some(architecture),
        variant: Variant { embedding_size, curve: true, ..Variant::USUAL },
        pick: Pick::Test,
    };
    let rows = vec![
        row("Oracle-cell, `link`, wide", Method::OracleCell, Link, Some(WIDE)),
        row("FedTSE-cell, `link`", Method::FedTseCell, Link, None),
        row("Oracle-cell, `paper`", Method::OracleCell, Paper, None),
        row("FedTSE-cell, `paper`", Method::FedTseCell, Paper, None),
    ];
    let title = "Test RMSE by epoch: Oracle-cell and FedTSE-cell";
    plan("fig-loss", title, rows, rates, LOSS_NOTES)
}

/// Rounds that one, two and three local updates take to a target.
pub(super) fn rounds() -> TablePlan {
    let title = "Table 3: communication rounds to reach a target RMSE, on simulated data";
    plan("table3", title, updates(), &[Q_RATE], Q_NOTES)
}

/// Curves of one, two and three local updates.
pub(super) fn local_updates() -> TablePlan {
    let title = "Test RMSE by communication round, with Q local updates";
    plan("fig-q", title, updates(), &[Q_RATE], Q_NOTES)
}

fn updates() -> Vec<RowPlan> {
    let trained = |label, architecture, q: u32, epochs| RowPlan {
        label,
        estimator: Own(Method::FedTse),
        architecture: Some(architecture),
        variant: Variant { q: (q > 1).then_some(q), epochs, curve: true, ..Variant::USUAL },
        pick: Pick::Test,
    };
    let row = |label, architecture, q| trained(label, architecture, q, epochs(architecture, q));
    vec![
        row("FedTSE, `link`, Q = 1", Link, 1),
        row("FedTSE, `link`, Q = 2", Link, 2),
        row("FedTSE, `link`, Q = 3", Link, 3),
        // As few rounds, without more updates in each: what a shorter cycle does by itself.
        trained("FedTSE, `link`, Q = 1, 50 epochs", Link, 1, epochs(Link, 2)),
        trained("FedTSE, `link`, Q = 1, 34 epochs", Link, 1, epochs(Link, 3)),
        row("FedTSE, `paper`, Q = 1", Paper, 1),
        row("FedTSE, `paper`, Q = 2", Paper, 2),
        row("FedTSE, `paper`, Q = 3", Paper, 3),
    ]
}

/// One cycle of the learning rate has as many updates whatever Q is: with more of them in an
/// exchange it is over after fewer epochs. A rate that hardly falls needs no such thing.
fn epochs(architecture: Architecture, q: u32) -> Option<usize> {
    let usual = estimator::Recipe::of(architecture);
    (usual.one_cycle && q > 1).then(|| usual.epochs.div_ceil(q as usize))
}

fn plan(
    name: &'static str,
    title: &'static str,
    rows: Vec<RowPlan>,
    rates: &[u32],
    notes: &'static [&'static str],
) -> TablePlan {
    let columns = rates.iter().map(|&rate| Column {
        label: format!("{rate} %"),
        rate,
        samples: None,
        guests: None,
        labels: None,
        paper: None,
    });
    TablePlan {
        name,
        title,
        columns: columns.collect(),
        rows,
        comparisons: Vec::new(),
        choices: &[],
        paper: Vec::new(),
        notes,
        seeds: "demand seeds",
    }
}

const LOSS_NOTES: &[&str] = &[
    "FedTSE-cell was trained by a host and a guest (Q = 1). With the same network its curve is Oracle-cell's bit for bit, as the two curves of `paper` show; the wide Oracle-cell has no narrow embedding (32 numbers per link instead of 4).",
    "The weights that are scored are those that would be kept: of `link` the running average.",
];

const Q_NOTES: &[&str] = &[
    "A communication round is one exchange of a mini-batch of 128: embeddings to the host, gradients back. Scored after each epoch, so that rounds are multiples of an epoch's.",
    "The target of an architecture and demand seed is 1.13 times what Q = 1 has at its end: the paper's 7.7 is 13 % above the 6.81 of its Table 2. It is looked for on the test part, as in the paper.",
    "Each party makes Q updates per round: the first from what was exchanged, the others from its own part anew, with what came from the other party as it was (docs/federation.md). All with the learning rate of Q = 1. The learning rate of `link` rises and falls once in a training; with Q updates per round that takes 100/Q epochs, the same number of updates; the rows of Q = 1 in as few epochs show what a shorter cycle does by itself. `paper` trains with its usual recipe.",
];
