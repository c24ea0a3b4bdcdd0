//! The table of worlds: a row for each world, a column for each method, at each rate; then which criteria are met.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::cells::Quantity;
use super::criteria::{Statistic, Verdict, median};
use super::job::{Estimator, Job, Record};
use super::markdown::aligned;
use super::plan::{Range, RowPlan, TablePlan};
use super::table::{QUANTITIES, Table, TableRow};
use super::worlds::WorldName;

/// See the [module](self).
#[derive(Serialize)]
pub(super) struct WorldsTable {
    #[serde(flatten)]
    pub table: Table,
    pub worlds: Vec<WorldFacts>,
    pub rates: Vec<u32>,
    pub verdicts: Vec<Verdict>,
    /// Of methods that estimate their own error, or give intervals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub self_assessments: Vec<SelfAssessment>,
    /// Jobs that ended in an error, and how.
    pub failed: BTreeMap<String, String>,
}

/// A world, of the first demand seed that was run.
#[derive(Serialize)]
pub(super) struct WorldFacts {
    name: WorldName,
    title: &'static str,
    links: String,
    targets: String,
    loops: String,
    signals: String,
    vehicles: u64,
    steps: usize,
}

/// What a method says of its own errors, over all worlds, rates and seeds.
#[derive(Serialize)]
pub(super) struct SelfAssessment {
    label: &'static str,
    jobs: usize,
    /// Median of the estimated over the true RMSE, of density and flow; and of how far it is from 1.
    error_ratio: Option<[f64; 2]>,
    error_distance: Option<[f64; 2]>,
    /// Largest distance between an interval's nominal level and its share of true values, in percentage points.
    coverage_distance: Option<[f64; 2]>,
}

impl WorldsTable {
    pub(super) fn new(
        plan: &TablePlan,
        range: &Range,
        records: &BTreeMap<String, Record>,
        mut table: Table,
        failed: BTreeMap<String, String>,
    ) -> Self {
        // A method that ended in errors everywhere has a column nevertheless.
        let mut finished = std::mem::take(&mut table.rows);
        for row in &plan.rows {
            if let Some(at) = finished.iter().position(|one| one.label == row.label) {
                table.rows.push(finished.remove(at));
            } else if jobs(plan, row, range).any(|job| failed.contains_key(&job.name())) {
                table.rows.push(TableRow::empty(row, &range.targets, plan.columns.len()));
            }
        }
        let mut worlds: Vec<WorldName> = Vec::new();
        let mut rates: Vec<u32> = Vec::new();
        for column in &plan.columns {
            worlds.extend(column.world.filter(|world| !worlds.contains(world)));
            rates.extend(Some(column.rate).filter(|rate| !rates.contains(rate)));
        }
        let verdicts = plan.criteria.iter().flat_map(|criterion| {
            let of = |quantity| Verdict::of(criterion, quantity, &table.rows, &table.columns);
            QUANTITIES.into_iter().filter_map(of)
        });
        let verdicts = verdicts.collect();
        let facts = worlds.iter().filter_map(|&world| facts(world, records));
        Self {
            worlds: facts.collect(),
            rates,
            verdicts,
            self_assessments: self_assessments(plan, range, records),
            failed,
            table,
        }
    }

    /// As Markdown.
    pub(super) fn text(&self) -> String {
        let head = &self.table.head;
        let mut text = head.text();
        let _ = write!(
            text,
            "Errors on the test part over the target links: mean ± standard deviation over {}.\nBest of a row in bold, best without labels in italics; ✗: the method ended in an error (see below).\n",
            head.seeds
        );
        text += &head.missing();
        text += &self.facts();
        for &rate in &self.rates {
            for quantity in QUANTITIES {
                let unit = quantity.pick("density, veh/km/lane", "flow, veh/min/lane");
                let _ = write!(text, "\n## {rate} %: RMSE of {unit}\n\n");
                text += &self.errors(rate, quantity);
            }
        }
        text += &self.criteria();
        text += &self.assessments();
        text += &self.failures();
        text + &head.remarks()
    }

    fn facts(&self) -> String {
        let header = ["world", "links", "targets", "loops", "signals", "vehicles", "steps"];
        let mut grid = vec![header.map(String::from).to_vec()];
        for one in &self.worlds {
            grid.push(vec![
                format!("{}: {}", one.name, one.title),
                one.links.clone(),
                one.targets.clone(),
                one.loops.clone(),
                one.signals.clone(),
                one.vehicles.to_string(),
                one.steps.to_string(),
            ]);
        }
        format!("\n{}", aligned(&grid))
    }

    fn errors(&self, rate: u32, quantity: Quantity) -> String {
        let rows = &self.table.rows;
        let header = std::iter::once("world").chain(rows.iter().map(|row| row.label));
        let mut grid = vec![header.map(String::from).collect::<Vec<_>>()];
        for world in &self.worlds {
            let label = super::plan::world_label(world.name, rate);
            let Some(at) = self.table.columns.iter().position(|one| *one == label) else {
                continue;
            };
            let cells: Vec<_> = rows.iter().map(|row| row.cells[0][at].as_ref()).collect();
            let means: Vec<Option<f64>> =
                cells.iter().map(|cell| cell.map(|cell| cell.rmse(quantity).mean)).collect();
            let best = |all: &mut dyn Iterator<Item = Option<f64>>| {
                all.flatten().fold(f64::INFINITY, f64::min)
            };
            let least = best(&mut means.iter().copied());
            let free = rows.iter().zip(&means).filter(|(row, _)| !has_labels(row));
            let least_free = best(&mut free.map(|(_, mean)| *mean));
            let mut line = vec![world.name.to_string()];
            for ((row, cell), value) in rows.iter().zip(&cells).zip(&means) {
                let (Some(cell), Some(value)) = (cell, value) else {
                    let failed = self.failed.keys().any(|name| {
                        name.contains(&format!(".{}.", row.estimator))
                            && name.contains(&format!(".fleet-{rate}."))
                            && name.ends_with(&format!(".world-{}", world.name))
                    });
                    line.push(if failed { "✗" } else { "–" }.to_owned());
                    continue;
                };
                let mut shown = format!("{value:.2}");
                if *value <= least {
                    shown = format!("**{shown}**");
                } else if *value <= least_free && !has_labels(row) {
                    shown = format!("*{shown}*");
                }
                if let Some(deviation) = cell.rmse(quantity).deviation {
                    let _ = write!(shown, " ± {deviation:.2}");
                }
                if cell.demand_seeds.len() < self.table.head.demand_seeds.len() {
                    let _ = write!(shown, " ({})", cell.demand_seeds.len());
                }
                line.push(shown);
            }
            grid.push(line);
        }
        aligned(&grid)
    }

    fn criteria(&self) -> String {
        if self.verdicts.is_empty() {
            return String::new();
        }
        let header = [
            "RMSE of … over that of the best of …",
            "",
            "limit",
            "holds",
            "within",
            "median",
            "worst",
            "worst in",
        ];
        let mut grid = vec![header.map(String::from).to_vec()];
        for one in &self.verdicts {
            let shown =
                |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.3}"));
            let statistic = match one.criterion.statistic {
                Statistic::Worst => "worst",
                Statistic::Median => "median",
            };
            let mut within = format!("{} of {}", one.within, one.cells);
            if one.without_ours > 0 {
                let _ = write!(within, ", {} missing", one.without_ours);
            }
            grid.push(vec![
                format!("{} / {}", one.criterion.ours, one.criterion.others.join(" · ")),
                one.quantity.name().to_owned(),
                format!("{statistic} ≤ {}", one.criterion.at_most),
                if one.holds { "yes" } else { "no" }.to_owned(),
                within,
                shown(one.median),
                shown(one.worst),
                one.worst_in.clone(),
            ]);
        }
        format!(
            "\n## Criteria\n\nRatios of the mean RMSE of a world and rate, over the demand seeds that both have. A criterion does not hold\nwhere a number of ours is missing.\n\n{}",
            aligned(&grid)
        )
    }

    fn assessments(&self) -> String {
        if self.self_assessments.is_empty() {
            return String::new();
        }
        let header = [
            "",
            "jobs",
            "estimated / true RMSE, median",
            "distance from 1, median",
            "coverage − level, largest, points",
        ];
        let mut grid = vec![header.map(String::from).to_vec()];
        let pair = |values: Option<[f64; 2]>| {
            values.map_or_else(|| "–".to_owned(), |[d, f]| format!("{d:.2} / {f:.2}"))
        };
        for one in &self.self_assessments {
            grid.push(vec![
                one.label.to_owned(),
                one.jobs.to_string(),
                pair(one.error_ratio),
                pair(one.error_distance),
                pair(one.coverage_distance),
            ]);
        }
        format!("\n## What methods say of their own errors: density / flow\n\n{}", aligned(&grid))
    }

    fn failures(&self) -> String {
        if self.failed.is_empty() {
            return String::new();
        }
        // The same words for all seeds and rates.
        let mut by_error: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (job, error) in &self.failed {
            by_error.entry(error).or_default().push(job);
        }
        let mut text = "\n## Jobs that ended in an error\n\n".to_owned();
        for (error, jobs) in by_error {
            let jobs: Vec<String> = jobs.iter().map(|job| format!("`{job}`")).collect();
            let error = error.replace('\n', " ");
            let _ = writeln!(text, "- {}: {error}", jobs.join(", "));
        }
        text
    }
}

fn has_labels(row: &TableRow) -> bool {
    Estimator::parse(&row.estimator).is_ok_and(Estimator::learns_from_truth)
}

/// All jobs of a row.
fn jobs<'a>(
    plan: &'a TablePlan,
    row: &'a RowPlan,
    range: &'a Range,
) -> impl Iterator<Item = Job> + 'a {
    let columns = plan.columns.iter();
    columns.flat_map(move |column| {
        range.targets.iter().flat_map(move |&target| row.jobs(column, target, range))
    })
}

fn facts(world: WorldName, records: &BTreeMap<String, Record>) -> Option<WorldFacts> {
    let record = records.values().find(|one| one.job.variant.scene.world == Some(world))?;
    let facts = &record.dataset;
    let source = |what: &str| facts.source.get(what).cloned().unwrap_or_default();
    Some(WorldFacts {
        name: world,
        title: world.recipe().title,
        links: source("links"),
        targets: source("targets"),
        loops: source("loops"),
        signals: source("signals"),
        vehicles: facts.vehicles,
        steps: facts.steps,
    })
}

fn self_assessments(
    plan: &TablePlan,
    range: &Range,
    records: &BTreeMap<String, Record>,
) -> Vec<SelfAssessment> {
    let mut all = Vec::new();
    for row in &plan.rows {
        let jobs = jobs(plan, row, range);
        let records: Vec<&Record> = jobs.filter_map(|job| records.get(&job.name())).collect();
        let both = |of: &dyn Fn(usize) -> Option<f64>| Some([of(0)?, of(1)?]);
        let ratios = |quantity: usize| -> Vec<f64> {
            let ratio = |record: &&Record| {
                let truth = [record.score.density.rmse, record.score.flow.rmse];
                Some(record.own_estimate?[quantity] / truth[quantity])
            };
            records.iter().filter_map(ratio).filter(|ratio| ratio.is_finite()).collect()
        };
        let distances = |quantity: usize| -> Vec<f64> {
            let intervals = records.iter().flat_map(|record| &record.intervals);
            intervals
                .map(|one| (100.0 * one.within[quantity] - f64::from(one.level)).abs())
                .collect()
        };
        let one = SelfAssessment {
            label: row.label,
            jobs: records.len(),
            error_ratio: both(&|of| median(ratios(of))),
            error_distance: both(&|of| {
                median(ratios(of).into_iter().map(|ratio| (ratio - 1.0).abs()).collect())
            }),
            coverage_distance: both(&|of| distances(of).into_iter().reduce(f64::max)),
        };
        if one.error_ratio.is_some() || one.coverage_distance.is_some() {
            all.push(one);
        }
    }
    all
}
