//! What finished jobs come to, in the form that was asked for, and its files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use estimator::TargetKind;
use serde::Serialize;

use super::curves::{Curve, curves};
use super::head::ResultHeader;
use super::job::Record;
use super::plan::{Range, TablePlan};
use super::request::What;
use super::rounds::{self, Rounds};
use super::series::{Labelled, labelled};
use super::table::Table;
use super::worlds_table::WorldsTable;
use super::{figures, markdown};
use crate::plot::panels::{self, Panel};

/// See the [module](self).
pub(super) enum ReproducedResult {
    Table(Table),
    Worlds(Box<WorldsTable>),
    Drawn(Drawn, Vec<Panel>),
    Rounds(TrainingCurves),
    Figure(TrainingCurves, Vec<Panel>),
}

/// A table that is looked at as a picture.
#[derive(Serialize)]
pub(super) struct Drawn {
    #[serde(flatten)]
    table: Table,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    series: Vec<Labelled>,
}

/// The course of some trainings.
#[derive(Serialize)]
pub(super) struct TrainingCurves {
    #[serde(flatten)]
    head: ResultHeader,
    target: TargetKind,
    curves: Vec<Curve>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rounds: Vec<Rounds>,
}

impl ReproducedResult {
    pub(super) fn new(
        what: What,
        plan: &TablePlan,
        range: &Range,
        records: &BTreeMap<String, Record>,
        head: ResultHeader,
        failed: BTreeMap<String, String>,
    ) -> Self {
        let target = range.targets.first().copied().unwrap_or(TargetKind::Raw);
        if !what.is_course() {
            let table = Table::new(plan, range, records, head);
            if what == What::Worlds {
                let table = WorldsTable::new(plan, range, records, table, failed);
                return ReproducedResult::Worlds(Box::new(table));
            }
            let (series, panels) = match what {
                What::FigPiRate => (Vec::new(), figures::by_column(&table, "penetration rate, %")),
                What::LabelShare => {
                    (Vec::new(), figures::by_column(&table, "steps with ground truth, %"))
                }
                What::FigPiEstimates => {
                    let series = labelled(plan, range, target, records);
                    let panels = figures::over_time(&series);
                    (series, panels)
                }
                _ => return ReproducedResult::Table(table),
            };
            return ReproducedResult::Drawn(Drawn { table, series }, panels);
        }
        let curves = curves(plan, range, target, records);
        if what == What::FigLoss {
            let panels = figures::by_epoch(&curves);
            let rounds = Vec::new();
            return ReproducedResult::Figure(
                TrainingCurves { head, target, curves, rounds },
                panels,
            );
        }
        let rounds = rounds::rounds(&curves);
        let panels = figures::by_round(&curves, &rounds);
        let training = TrainingCurves { head, target, curves, rounds };
        match what {
            What::FigQ => ReproducedResult::Figure(training, panels),
            _ => ReproducedResult::Rounds(training),
        }
    }

    pub(super) fn head(&self) -> &ResultHeader {
        match self {
            ReproducedResult::Table(table) | ReproducedResult::Drawn(Drawn { table, .. }, _) => {
                &table.head
            }
            ReproducedResult::Worlds(worlds) => &worlds.table.head,
            ReproducedResult::Rounds(training) | ReproducedResult::Figure(training, _) => {
                &training.head
            }
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            ReproducedResult::Table(table) => markdown::render(table),
            ReproducedResult::Worlds(worlds) => worlds.text(),
            ReproducedResult::Drawn(drawn, _) => {
                let head = &drawn.table.head;
                markdown::render(&drawn.table)
                    + &format!("\n![{}]({}.svg)\n", head.title, head.table)
            }
            ReproducedResult::Rounds(training) => {
                let seeds = training.head.demand_seeds.len();
                training.framed(&rounds::text(&training.rounds, seeds))
            }
            ReproducedResult::Figure(training, _) => {
                let table = training.head.table;
                training.framed(&format!("\n![{}]({table}.svg)\n", training.head.title))
            }
        }
    }

    pub(super) fn json(&self) -> Result<String> {
        let value = match self {
            ReproducedResult::Table(table) => serde_json::to_string_pretty(table)?,
            ReproducedResult::Worlds(worlds) => serde_json::to_string_pretty(worlds)?,
            ReproducedResult::Drawn(drawn, _) => serde_json::to_string_pretty(drawn)?,
            ReproducedResult::Rounds(training) | ReproducedResult::Figure(training, _) => {
                serde_json::to_string_pretty(training)?
            }
        };
        Ok(value + "\n")
    }

    /// Writes all files into a folder.
    pub(super) fn write(&self, folder: &Path, text: &str, json: &str) -> Result<()> {
        let name = self.head().table;
        if let ReproducedResult::Figure(_, panels) | ReproducedResult::Drawn(_, panels) = self {
            panels::draw(&folder.join(format!("{name}.svg")), panels)?;
        }
        durable::write(&folder.join(format!("{name}.json")), json)?;
        Ok(durable::write(&folder.join(format!("{name}.md")), text)?)
    }
}

impl TrainingCurves {
    fn framed(&self, body: &str) -> String {
        let head = &self.head;
        let lines = match self.curves.first().map(|curve| curve.runs.len()) {
            Some(1) | None => "",
            Some(_) => "Lines and numbers are means over trainings.\n",
        };
        head.text() + lines + &head.missing() + body + &head.remarks()
    }
}
