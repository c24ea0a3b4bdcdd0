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
    /// Of the error that it tells.
    error: Option<ToldErrors>,
    /// Of its intervals.
    coverage: Option<CoverageDistances>,
}

/// How far errors that were told without truth are from the true ones: of density and of flow.
#[derive(Serialize)]
pub(super) struct ToldErrors {
    /// Median of the estimated over the true RMSE.
    ratio: [f64; 2],
    /// Median of how far that is from 1.
    distance: [f64; 2],
    /// Whether that is within [`TOLD_WITHIN`].
    holds: [bool; 2],
}

/// How far shares of true values within intervals are from the nominal level, in percentage points, over worlds, rates and
/// levels, each the mean of its seeds: of density and of flow.
#[derive(Serialize)]
pub(super) struct CoverageDistances {
    /// Worlds and rates, each at several levels.
    cells: usize,
    largest: [f64; 2],
    median: [f64; 2],
    /// In how many worlds and rates all levels are within [`COVERED_WITHIN`].
    within: [usize; 2],
    /// Whether they are in all.
    holds: [bool; 2],
}

/// Limits of what methods say of their own errors: of the median distance from the true RMSE, and of intervals in
/// percentage points.
const TOLD_WITHIN: f64 = 0.15;
const COVERED_WITHIN: f64 = 3.0;

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
        let assessments = &self.self_assessments;
        if assessments.is_empty() {
            return String::new();
        }
        let yes =
            |holds: [bool; 2]| holds.map(|holds| if holds { "yes" } else { "no" }).join(" / ");
        let pair = |[density, flow]: [f64; 2]| format!("{density:.2} / {flow:.2}");
        let points = |[density, flow]: [f64; 2]| format!("{density:.1} / {flow:.1}");
        let mut text = "\n## What methods say of their own errors: density / flow\n".to_owned();
        let header = [
            "",
            "jobs",
            "estimated / true RMSE, median",
            "distance from 1, median",
            "limit",
            "holds",
        ];
        let mut grid = vec![header.map(String::from).to_vec()];
        for one in assessments {
            let Some(error) = &one.error else { continue };
            grid.push(vec![
                one.label.to_owned(),
                one.jobs.to_string(),
                pair(error.ratio),
                pair(error.distance),
                format!("≤ {TOLD_WITHIN}"),
                yes(error.holds),
            ]);
        }
        if grid.len() > 1 {
            text += &format!("\nErrors that are told without ground truth:\n\n{}", aligned(&grid));
        }
        let header = ["", "worlds and rates", "median", "largest", "limit", "within", "holds"];
        let mut grid = vec![header.map(String::from).to_vec()];
        for one in assessments {
            let Some(coverage) = &one.coverage else { continue };
            let [density, flow] = coverage.within;
            grid.push(vec![
                one.label.to_owned(),
                coverage.cells.to_string(),
                points(coverage.median),
                points(coverage.largest),
                format!("≤ {COVERED_WITHIN}"),
                format!("{density} / {flow}"),
                yes(coverage.holds),
            ]);
        }
        if grid.len() > 1 {
            text += &format!(
                "\nIntervals of 50, 80, 90 and 95 %, made from the validation part: distance of the share of true values of the test part\nwithin them from their level, in percentage points; a world and rate is within the limit if all its levels are.\n\n{}",
                aligned(&grid)
            );
        }
        text
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
            ratios(quantity).into_iter().map(|ratio| (ratio - 1.0).abs()).collect()
        };
        let (ratio, distance) = (both(&|of| median(ratios(of))), both(&|of| median(distances(of))));
        let error = ratio.zip(distance).map(|(ratio, distance)| ToldErrors {
            ratio,
            distance,
            holds: distance.map(|distance| distance <= TOLD_WITHIN),
        });
        let (jobs, coverage) = (records.len(), CoverageDistances::of(&records));
        if error.is_some() || coverage.is_some() {
            all.push(SelfAssessment { label: row.label, jobs, error, coverage });
        }
    }
    all
}

impl CoverageDistances {
    /// None if no record has intervals.
    fn of(records: &[&Record]) -> Option<Self> {
        // Of each world and rate, of each level: shares by quantity, of the seeds.
        type Shares = BTreeMap<u8, [Vec<f64>; 2]>;
        let mut cells: BTreeMap<(Option<WorldName>, Option<u32>), Shares> = BTreeMap::new();
        for record in records {
            let place = (record.job.variant.scene.world, record.job.rate);
            for one in &record.intervals {
                let shares = cells.entry(place).or_default().entry(one.level).or_default();
                shares.iter_mut().zip(one.within).for_each(|(all, share)| all.push(share));
            }
        }
        let distances = |quantity: usize| -> Vec<Vec<f64>> {
            let of_level = |(level, shares): (&u8, &[Vec<f64>; 2])| {
                let shares = &shares[quantity];
                let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
                (100.0 * mean - f64::from(*level)).abs()
            };
            cells.values().map(|levels| levels.iter().map(of_level).collect()).collect()
        };
        let each = [distances(0), distances(1)];
        let largest = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        let [density, flow] = each.each_ref().map(|cells| median(cells.concat()));
        let within = each
            .each_ref()
            .map(|cells| cells.iter().filter(|levels| largest(levels) <= COVERED_WITHIN).count());
        Some(Self {
            cells: cells.len(),
            largest: each.each_ref().map(|cells| largest(&cells.concat())),
            median: [density?, flow?],
            within,
            holds: within.map(|within| within == cells.len()),
        })
    }
}
