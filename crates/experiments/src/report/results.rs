//! The files of `fedtse reproduce`, as sections of the page.

use std::path::Path;

use anyhow::Result;

use super::attacks::{self, ATTACKS_FILE};
use super::privacy;
use super::result_file::{
    Cell, QUANTITIES, Quantity, Reached, ResultFile, SeedStatistics, TableRow,
};
use super::section::{Chart, ChartLine, Grid, GridRow, Section, Value};
use crate::reproduce::PAPER_ROUNDS;

/// Results in the order of the page. Of figures that are a table's picture the table is enough.
const NAMES: [(&str, &str); 11] = [
    ("table1", "Table 1"),
    ("table2", "Table 2"),
    ("table3", "Table 3"),
    ("table4", "Table 4"),
    ("table5", "Table 5"),
    ("table6", "Table 6"),
    ("fig-loss", "By epoch"),
    ("fig-q", "By round"),
    ("fig-pi-estimates", "Without truth"),
    ("label-share", "Labels"),
    ("guests", "Guests"),
];
/// Lines of a chart of many that are drawn before anyone chooses; all of a chart of few.
const DRAWN: [&str; 14] = [
    "TSE-n, link",
    "scale-up",
    "ridge",
    "ridge, with labels",
    "gradient boosting",
    "Oracle, link",
    "FedTSE, link",
    "QEST",
    "UKF",
    "FedTSE-PI",
    "FedTSE-HF",
    "FedTSE-PI+HF",
    "paper: FedTSE (Q = 1)",
    "paper: FedTSE-PI",
];
const FEW: usize = 6;

/// All results of a folder.
pub(super) fn read(folder: &Path) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for (name, short) in NAMES {
        if let Some(file) = ResultFile::read(folder, name)? {
            sections.push(file.section(short));
        }
    }
    let attacks = folder.join(ATTACKS_FILE);
    if attacks.exists() {
        sections.push(attacks::read(&attacks)?);
    }
    sections.extend(privacy::curve(folder)?);
    Ok(sections)
}

impl ResultFile {
    fn section(&self, short: &str) -> Section {
        let commits: Vec<&str> = self.made.programs.iter().map(|one| one.commit.as_str()).collect();
        let (date, command) = (&self.made.date, &self.made.command);
        let mut warnings = Vec::new();
        if self.quick {
            warnings.push(
                "Quick version: it shows that the program works. Its numbers mean nothing.".into(),
            );
        }
        if !self.unfinished.is_empty() {
            warnings.push(format!("{} jobs have not been run: not whole.", self.unfinished.len()));
        }
        let mut charts = self.by_column();
        // Table 3 and the figure of its curves have the same trainings: one shows numbers, the other lines.
        if self.table != "table3" {
            charts.extend(self.training_charts());
        }
        charts.extend(self.over_time());
        charts.iter_mut().for_each(choose);
        let mut grids = self.errors();
        if self.table == "table3" {
            grids.extend(self.reached());
        }
        Section {
            id: self.table.clone(),
            title: self.title.clone(),
            short: short.to_owned(),
            made: format!("Made on {date} by {command}, commit {}", commits.join(", ")),
            warnings,
            charts,
            grids,
            notes: self.notes.iter().map(|note| plain(note)).collect(),
        }
    }

    /// One grid for each target and quantity.
    fn errors(&self) -> Vec<Grid> {
        let mut grids = Vec::new();
        for (at, target) in self.targets.iter().enumerate() {
            for quantity in QUANTITIES {
                let cells = |row: &TableRow| -> Option<Vec<Value>> {
                    let cells = row.cells.get(at)?;
                    cells.iter().any(Option::is_some).then_some(())?;
                    Some(cells.iter().map(|cell| self.shown(cell.as_ref(), quantity)).collect())
                };
                let rows = self.rows.iter().filter_map(|row| {
                    Some(GridRow { label: plain(&row.label), paper: false, cells: cells(row)? })
                });
                let mut rows: Vec<GridRow> = rows.collect();
                self.mark_best(&mut rows, at, quantity);
                if rows.is_empty() {
                    continue;
                }
                rows.extend(self.paper.iter().map(|row| GridRow {
                    label: row.label.clone(),
                    paper: true,
                    cells: row.of(quantity).iter().map(|&value| number(value)).collect(),
                }));
                let caption =
                    format!("RMSE of {}, {}, {target} targets", quantity.name(), quantity.unit());
                grids.push(Grid { caption, columns: self.columns.clone(), rows });
            }
        }
        grids
    }

    fn shown(&self, cell: Option<&Cell>, quantity: Quantity) -> Value {
        let Some(cell) = cell else { return Value::default() };
        let SeedStatistics { mean, deviation } = cell.of(quantity);
        let mut text = format!("{mean:.2}");
        if let Some(deviation) = deviation {
            text += &format!(" ± {deviation:.2}");
        }
        if cell.demand_seeds.len() < self.demand_seeds.len() {
            text += &format!(" ({} of {} seeds)", cell.demand_seeds.len(), self.demand_seeds.len());
        }
        Value::plain(text)
    }

    /// All that are as good as the best, to the two decimals that are shown.
    fn mark_best(&self, shown: &mut [GridRow], at: usize, quantity: Quantity) {
        let mean = |row: &TableRow, column: usize| {
            let cell = row.cells.get(at)?.get(column)?.as_ref()?;
            Some((cell.of(quantity).mean * 100.0).round())
        };
        for column in 0..self.columns.len() {
            let means = self.rows.iter().filter_map(|row| mean(row, column));
            let least = means.fold(f64::INFINITY, f64::min);
            for row in self.rows.iter().filter(|row| mean(row, column) == Some(least)) {
                let row = shown.iter_mut().find(|one| one.label == plain(&row.label));
                if let Some(cell) = row.and_then(|row| row.cells.get_mut(column)) {
                    cell.best = true;
                }
            }
        }
    }

    /// The first target's errors over the columns, where their labels are numbers: by penetration rate
    /// or by number of samples.
    fn by_column(&self) -> Vec<Chart> {
        let numbers = self.columns.iter().map(|label| label.split(' ').next()?.parse().ok());
        let Some(numbers) = numbers.collect::<Option<Vec<f64>>>() else { return Vec::new() };
        let Some(target) = self.targets.first().filter(|_| numbers.len() > 1) else {
            return Vec::new();
        };
        let x = match self.columns.first() {
            Some(label) if label.contains('%') => "penetration rate, %",
            Some(label) if label.contains("guest") => "guests",
            _ => "samples",
        };
        let chart = |quantity: Quantity| {
            let ours = self.rows.iter().map(|row| {
                let cells = row.cells.first().map_or(&[][..], Vec::as_slice);
                let points = numbers.iter().zip(cells);
                let points =
                    points.filter_map(|(&x, cell)| Some((x, cell.as_ref()?.of(quantity).mean)));
                ChartLine {
                    label: plain(&row.label),
                    points: points.collect(),
                    paper: false,
                    shown: true,
                }
            });
            let paper = self.paper.iter().map(|row| {
                let points = numbers.iter().zip(row.of(quantity));
                let points = points.filter_map(|(&x, value)| Some((x, (*value)?)));
                let label = format!("paper: {}", row.label);
                ChartLine { label, points: points.collect(), paper: true, shown: true }
            });
            Chart {
                caption: format!("RMSE of {}, {target} targets", quantity.name()),
                x: x.to_owned(),
                y: quantity.unit().to_owned(),
                lines: ours.chain(paper).filter(|line| line.points.len() > 1).collect(),
                levels: Vec::new(),
            }
        };
        QUANTITIES.into_iter().map(chart).filter(|chart| !chart.lines.is_empty()).collect()
    }

    /// The course of training: over rounds where local updates are compared, over epochs otherwise.
    fn training_charts(&self) -> Vec<Chart> {
        let by_round = !self.rounds.is_empty();
        let mut rates: Vec<u32> = self.curves.iter().map(|curve| curve.rate).collect();
        rates.dedup();
        let charts = rates.into_iter().flat_map(|rate| {
            QUANTITIES.map(|quantity| {
                let of_rate = self.curves.iter().filter(|curve| curve.rate == rate);
                let lines = of_rate.map(|curve| {
                    let each = if by_round { curve.exchanges } else { 1 };
                    let points = curve.mean(quantity).into_iter().enumerate();
                    let points = points.map(|(epoch, rmse)| (((epoch + 1) * each) as f64, rmse));
                    ChartLine {
                        label: plain(&curve.label),
                        points: points.collect(),
                        paper: false,
                        shown: true,
                    }
                });
                let target = self.rounds.first().and_then(|row| row.of(quantity).target);
                Chart {
                    caption: format!("Test RMSE of {}, fleet of {rate} %", quantity.name()),
                    x: if by_round { "communication round" } else { "epoch" }.to_owned(),
                    y: quantity.unit().to_owned(),
                    lines: lines.collect(),
                    levels: target.into_iter().collect(),
                }
            })
        });
        charts.collect()
    }

    /// Rounds to a target, beside the paper's.
    fn reached(&self) -> Vec<Grid> {
        if self.rounds.is_empty() {
            return Vec::new();
        }
        let mut rows = Vec::new();
        for row in &self.rounds {
            let mut cells = Vec::new();
            for quantity in QUANTITIES {
                let Reached { target, rounds, share, end } = row.of(quantity);
                let share =
                    share.map_or(String::new(), |share| format!(" ({:.0} %)", 100.0 * share));
                let rounds = rounds.map_or("not reached".to_owned(), |n| format!("{n:.0}{share}"));
                cells.extend([number(*target), Value::plain(rounds), number(*end)]);
            }
            rows.push(GridRow { label: plain(&row.label), paper: false, cells });
        }
        for (q, rounds) in PAPER_ROUNDS {
            let text = |at: usize| match q {
                1 => rounds[at].to_string(),
                _ => {
                    let share = f64::from(rounds[at]) / f64::from(PAPER_ROUNDS[0].1[at]);
                    format!("{} ({:.0} %)", rounds[at], 100.0 * share)
                }
            };
            let cells =
                ["7.70".into(), text(0), String::new(), "1.75".into(), text(1), String::new()];
            let cells = cells.map(Value::plain).to_vec();
            rows.push(GridRow { label: format!("FedTSE, Q = {q}"), paper: true, cells });
        }
        let columns =
            ["density target", "rounds", "at the end", "flow target", "rounds", "at the end"];
        vec![Grid {
            caption: "Communication rounds until the test RMSE is at most the target; in brackets as a share of those with Q = 1".to_owned(),
            columns: columns.map(String::from).to_vec(),
            rows,
        }]
    }

    /// Estimates of single links beside the truth.
    fn over_time(&self) -> Vec<Chart> {
        let Some(first) = self.series.first() else { return Vec::new() };
        let charts = first.series.iter().enumerate().flat_map(|(place, link)| {
            QUANTITIES.map(|quantity| {
                let line = |label: &str, values: &[f64]| ChartLine {
                    label: label.to_owned(),
                    points: link.minutes.iter().copied().zip(values.iter().copied()).collect(),
                    paper: false,
                    shown: true,
                };
                let mut lines = vec![line("truth", &link.of(quantity)[0])];
                lines.extend(self.series.iter().filter_map(|one| {
                    Some(line(&plain(&one.label), &one.series.get(place)?.of(quantity)[1]))
                }));
                let with = if link.has_loop { "with" } else { "without" };
                Chart {
                    caption: format!("{} of link {}, {with} a loop", quantity.name(), link.link),
                    x: "minutes".to_owned(),
                    y: quantity.unit().to_owned(),
                    lines,
                    levels: Vec::new(),
                }
            })
        });
        charts.collect()
    }
}

fn number(value: Option<f64>) -> Value {
    value.map_or_else(Value::default, |value| Value::plain(format!("{value:.2}")))
}

/// Of many lines, draws the ones that matter most, if they are among them.
fn choose(chart: &mut Chart) {
    let wanted = |line: &ChartLine| DRAWN.contains(&line.label.as_str());
    if chart.lines.len() > FEW && chart.lines.iter().any(wanted) {
        chart.lines.iter_mut().for_each(|line| line.shown = wanted(line));
    }
}

/// Without the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace(['`', '*'], "")
}
