//! Our own experiment: the same fleet in the hands of 1, 2, 4 or 8 guests, and what is lost when
//! one of them is absent.

use estimator::Architecture::Link;

use super::job::Estimator::Own;
use super::plan::{Column, Comparison, Pick, RowPlan, TablePlan};
use super::variant::Variant;
use training::Method;

/// Numbers of guests.
pub(super) const GUESTS: [u16; 4] = [1, 2, 4, 8];
/// Penetration rate of all guests together, in percent.
pub(super) const RATE: u32 = 40;
/// How often, in training, a guest counts as absent for a sample.
const DROPOUT: f32 = 0.1;

const ALL: &str = "FedTSE";
const TRAINED: &str = "FedTSE, trained for absence";

/// Rows and columns.
pub(super) fn plan(guests: &[u16]) -> TablePlan {
    let columns = guests.iter().map(|&guests| Column {
        label: if guests == 1 { "1 guest".to_owned() } else { format!("{guests} guests") },
        rate: RATE,
        samples: None,
        guests: Some(guests),
        labels: None,
        paper: None,
    });
    let row = |label, method, party_dropout, pick| RowPlan {
        label,
        estimator: Own(method),
        architecture: Some(Link),
        variant: Variant { party_dropout, ..Variant::USUAL },
        pick,
    };
    let trained = Some(DROPOUT);
    TablePlan {
        name: "guests",
        title: "Guests: 40 % of the vehicles in the hands of 1, 2, 4 or 8 guests",
        columns: columns.collect(),
        rows: vec![
            row("TSE-n, no guest", Method::TseN, None, Pick::Test),
            row(ALL, Method::FedTse, None, Pick::Test),
            row(TRAINED, Method::FedTse, trained, Pick::Test),
            row("one guest absent, mean", Method::FedTse, trained, Pick::OneAbsent),
            row("one guest absent, worst", Method::FedTse, trained, Pick::WorstAbsent),
        ],
        comparisons: vec![
            Comparison { ours: TRAINED, others: vec![ALL], what: ALL, paper: None },
            Comparison {
                ours: "one guest absent, mean",
                others: vec![TRAINED],
                what: "with all guests",
                paper: None,
            },
        ],
        choices: &[],
        paper: Vec::new(),
        notes: NOTES,
        seeds: "demand seeds",
    }
}

const NOTES: &[&str] = &[
    "Each vehicle belongs to one guest, drawn by its name; all guests together hold the same fleet in every column. Each guest has its own sub-model (`link`, d = 4) and sees only its own vehicles. Q = 1.",
    "Trained for absence: in training each guest counts as absent for one sample in ten, and the host learns what to put in its place. In the last rows one guest gives nothing at all on the test part: the host uses what it learned for that guest's absence. Mean and worst are over the guests.",
    "With one guest that is absent the host has its loops alone, like TSE-n, whose model was made for that.",
];
