//! What finished jobs come to, in the form that was asked for, and its files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use estimator::TargetKind;
use serde::Serialize;

use super::curves::{Curve, curves};
use super::head::Head;
use super::job::Record;
use super::plan::{Range, TablePlan};
use super::request::What;
use super::rounds::{self, Rounds};
use super::series::{Labelled, labelled};
use super::table::Table;
use super::{figures, markdown};
use crate::plot::panels::{self, Panel};

/// See the [module](self).
pub(super) enum Outcome {
    Table(Table),
    Drawn(Drawn, Vec<Panel>),
    Rounds(Courses),
    Figure(Courses, Vec<Panel>),
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
pub(super) struct Courses {
    #[serde(flatten)]
    head: Head,
    target: TargetKind,
    curves: Vec<Curve>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rounds: Vec<Rounds>,
}

impl Outcome {
    pub(super) fn new(
        what: What,
        plan: &TablePlan,
        range: &Range,
        records: &BTreeMap<String, Record>,
        head: Head,
    ) -> Self {
        let target = range.targets.first().copied().unwrap_or(TargetKind::Raw);
        if !what.is_course() {
            let table = Table::new(plan, range, records, head);
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
                _ => return Outcome::Table(table),
            };
            return Outcome::Drawn(Drawn { table, series }, panels);
        }
        let curves = curves(plan, range, target, records);
        if what == What::FigLoss {
            let panels = figures::by_epoch(&curves);
            let rounds = Vec::new();
            return Outcome::Figure(Courses { head, target, curves, rounds }, panels);
        }
        let rounds = rounds::rounds(&curves);
        let panels = figures::by_round(&curves, &rounds);
        let courses = Courses { head, target, curves, rounds };
        match what {
            What::FigQ => Outcome::Figure(courses, panels),
            _ => Outcome::Rounds(courses),
        }
    }

    pub(super) fn head(&self) -> &Head {
        match self {
            Outcome::Table(table) | Outcome::Drawn(Drawn { table, .. }, _) => &table.head,
            Outcome::Rounds(courses) | Outcome::Figure(courses, _) => &courses.head,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Outcome::Table(table) => markdown::render(table),
            Outcome::Drawn(drawn, _) => {
                let head = &drawn.table.head;
                markdown::render(&drawn.table)
                    + &format!("\n![{}]({}.svg)\n", head.title, head.table)
            }
            Outcome::Rounds(courses) => {
                let seeds = courses.head.demand_seeds.len();
                courses.framed(&rounds::text(&courses.rounds, seeds))
            }
            Outcome::Figure(courses, _) => {
                let table = courses.head.table;
                courses.framed(&format!("\n![{}]({table}.svg)\n", courses.head.title))
            }
        }
    }

    pub(super) fn json(&self) -> Result<String> {
        let value = match self {
            Outcome::Table(table) => serde_json::to_string_pretty(table)?,
            Outcome::Drawn(drawn, _) => serde_json::to_string_pretty(drawn)?,
            Outcome::Rounds(courses) | Outcome::Figure(courses, _) => {
                serde_json::to_string_pretty(courses)?
            }
        };
        Ok(value + "\n")
    }

    /// Writes all files into a folder.
    pub(super) fn write(&self, folder: &Path, text: &str, json: &str) -> Result<()> {
        let name = self.head().table;
        if let Outcome::Figure(_, panels) | Outcome::Drawn(_, panels) = self {
            panels::draw(&folder.join(format!("{name}.svg")), panels)?;
        }
        durable::write(&folder.join(format!("{name}.json")), json)?;
        Ok(durable::write(&folder.join(format!("{name}.md")), text)?)
    }
}

impl Courses {
    fn framed(&self, body: &str) -> String {
        let head = &self.head;
        let lines = match self.curves.first().map(|curve| curve.courses.len()) {
            Some(1) | None => "",
            Some(_) => "Lines and numbers are means over trainings.\n",
        };
        head.text() + lines + &head.missing() + body + &head.remarks()
    }
}
