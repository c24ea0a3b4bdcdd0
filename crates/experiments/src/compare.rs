//! `fedtse compare`: runs that were kept, side by side.
//!
//! Errors of different traffic, or of other parts or targets of the same, say nothing about each other: each such group has a
//! table of its own. Fits that differ in their seeds alone are one row, with mean and standard deviation. The baseline, the
//! fleets' totals over their penetration rates, is kept with every run and stands in each table.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use estimator::{Score, TargetKind};
use serde::Serialize;
use serde_json::json;
use training::Method;

use crate::report::section::{Grid, GridRow, Section, Value};
use crate::run_record::{Data, MethodRun, Part, RunRecord, spread};

/// Compare runs that were kept: errors, baselines, traffic between parties and time
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse compare models/*\n  fedtse compare ridge fedtse --json"
)]
pub struct CompareArguments {
    /// Folders of runs, as `fedtse train --out` and `fedtse demo` write them
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
}

/// Runs whose errors can be compared.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    network: String,
    world: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<TargetKind>,
    part: Part,
    /// Windows that were scored, of so many links.
    windows: usize,
    links: usize,
    rows: Vec<Row>,
}

/// Fits that differ in their seeds alone.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    label: String,
    method: Method,
    rate: f64,
    guests: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    privacy: Option<String>,
    with_truth: bool,
    seeds: Vec<u64>,
    fits: usize,
    score: Score,
    #[serde(skip_serializing_if = "Option::is_none")]
    deviation: Option<Score>,
    /// How much the RMSE of density and flow is below that of the baseline at the same rate, in percent of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    below_baseline: Option<[f64; 2]>,
    /// Bytes that left all parties, in the mean; none in one place.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// In the mean.
    seconds: f64,
    #[serde(skip)]
    kept: Vec<Fit>,
}

#[derive(Debug)]
struct Fit {
    score: Score,
    seconds: f64,
    bytes: u64,
    /// Of all options but the seed; none of files that do not say.
    fingerprint: Option<String>,
    folder: String,
}

pub fn run(arguments: &CompareArguments, json: bool) -> Result<()> {
    let comparisons = compare(&read(&arguments.runs)?);
    ensure!(!comparisons.is_empty(), "compare: found runs without a method, expected at least one");
    if json {
        println!("{}", json!(comparisons));
        return Ok(());
    }
    for (at, comparison) in comparisons.iter().enumerate() {
        if at > 0 {
            println!();
        }
        println!("{}", comparison.caption());
        comparison.print();
    }
    Ok(())
}

/// Runs by the names of their folders.
pub(crate) fn read(folders: &[PathBuf]) -> Result<Vec<(String, RunRecord)>> {
    let named = folders.iter().map(|folder| {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok((name.unwrap_or_else(|| folder.display().to_string()), RunRecord::read(folder)?))
    });
    named.collect()
}

/// Groups runs, and adds up those that differ in their seeds alone.
pub(crate) fn compare(records: &[(String, RunRecord)]) -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    for (folder, record) in records {
        for run in &record.methods {
            let at = comparisons.iter().position(|one| one.is_of(record, run));
            let at = at.unwrap_or_else(|| {
                comparisons.push(Comparison::of(record, run));
                comparisons.len() - 1
            });
            comparisons[at].add(folder, &record.data, run);
        }
    }
    comparisons.iter_mut().for_each(Comparison::sum_up);
    comparisons
}

/// The same as a section of a report; none of a single run.
pub(crate) fn section(records: &[(String, RunRecord)]) -> Option<Section> {
    if records.len() < 2 {
        return None;
    }
    let grids = compare(records).into_iter().map(|one| one.grid()).collect();
    Some(Section {
        id: "comparison".to_owned(),
        title: "Runs side by side".to_owned(),
        short: "Comparison".to_owned(),
        made: format!("{} runs; the same as `fedtse compare` prints", records.len()),
        warnings: Vec::new(),
        charts: Vec::new(),
        grids,
        notes: vec![
            "Mean and standard deviation over seeds. Errors of different traffic, parts or targets stand in different tables: they say nothing about each other.".to_owned(),
        ],
    })
}

impl Comparison {
    fn of(record: &RunRecord, run: &MethodRun) -> Self {
        let data = &record.data;
        Self {
            network: data.network.clone(),
            world: data.world.clone(),
            target: run.target,
            part: record.part,
            windows: windows(data, record.part),
            links: data.target_links,
            rows: Vec::new(),
        }
    }

    fn is_of(&self, record: &RunRecord, run: &MethodRun) -> bool {
        let other = Self::of(record, run);
        let of = |one: &Self| (one.target, one.part, one.windows, one.links);
        of(self) == of(&other) && (&self.network, &self.world) == (&other.network, &other.world)
    }

    fn add(&mut self, folder: &str, data: &Data, run: &MethodRun) {
        let bytes = run.releases.iter().map(|released| released.bytes).sum();
        let (fingerprint, folder) = (run.fingerprint.clone(), folder.to_owned());
        let fit = Fit { score: run.score, seconds: run.seconds, bytes, fingerprint, folder };
        let row = self.rows.iter_mut().find(|row| {
            let same = (row.method, &row.label, row.rate) == (run.method, &run.label, data.rate)
                && row.privacy == run.privacy
                && (row.guests == data.guests || run.method == Method::ScaleUp);
            let is_baseline = run.method == Method::ScaleUp;
            let options = |kept: &Fit| kept.fingerprint == fit.fingerprint;
            same && (is_baseline || row.kept.iter().all(options))
        });
        let Some(row) = row else {
            self.rows.push(Row {
                label: run.label.clone(),
                method: run.method,
                rate: data.rate,
                guests: data.guests,
                privacy: run.privacy.clone(),
                with_truth: run.with_truth,
                seeds: run.seed.into_iter().collect(),
                fits: 1,
                score: run.score,
                deviation: None,
                below_baseline: None,
                bytes: None,
                seconds: run.seconds,
                kept: vec![fit],
            });
            return;
        };
        // The baseline is kept with every run, and the same in each.
        let new = run.seed.is_none_or(|seed| !row.seeds.contains(&seed));
        if new && run.method != Method::ScaleUp {
            row.seeds.extend(run.seed);
            row.kept.push(fit);
        }
    }

    fn sum_up(&mut self) {
        self.tell_apart();
        for row in &mut self.rows {
            let scores: Vec<Score> = row.kept.iter().map(|fit| fit.score).collect();
            let count = row.kept.len();
            row.fits = count;
            (row.score, row.deviation) = spread(&scores);
            row.seconds = row.kept.iter().map(|fit| fit.seconds).sum::<f64>() / count as f64;
            let bytes = row.kept.iter().map(|fit| fit.bytes).sum::<u64>() / count as u64;
            row.bytes = (bytes > 0).then_some(bytes);
        }
        let baselines: Vec<(f64, Score)> = (self.rows.iter())
            .filter(|row| row.method == Method::ScaleUp)
            .map(|row| (row.rate, row.score))
            .collect();
        for row in self.rows.iter_mut().filter(|row| row.method != Method::ScaleUp) {
            let baseline = baselines.iter().find(|(rate, _)| *rate == row.rate);
            row.below_baseline = baseline.map(|(_, baseline)| {
                let below = |own: f64, baseline: f64| 100.0 * (1.0 - own / baseline);
                [
                    below(row.score.density.rmse, baseline.density.rmse),
                    below(row.score.flow.rmse, baseline.flow.rmse),
                ]
            });
        }
        self.rows.sort_by(|a, b| {
            a.rate.total_cmp(&b.rate).then(b.score.density.rmse.total_cmp(&a.score.density.rmse))
        });
    }

    /// Names the folders of runs that differ in options that no column shows.
    fn tell_apart(&mut self) {
        let key =
            |row: &Row| (row.label.clone(), row.rate.to_bits(), row.guests, row.privacy.clone());
        let keys: Vec<_> = self.rows.iter().map(key).collect();
        for (row, own) in self.rows.iter_mut().zip(&keys) {
            let twice = keys.iter().filter(|other| *other == own).count() > 1;
            if let Some(fit) = row.kept.first().filter(|_| twice) {
                row.label = format!("{} ({})", row.label, fit.folder);
            }
        }
    }

    fn caption(&self) -> String {
        let Self { network, world, windows, links, .. } = self;
        let part = match self.part {
            Part::Validation => "validation part",
            Part::Test => "test part",
        };
        let target = self.target.map_or("one target".to_owned(), |target| {
            format!("{} targets", format!("{target:?}").to_lowercase())
        });
        format!("{network} ({world}), {target}, {part}: {windows} windows of {links} links")
    }

    fn print(&self) {
        let names = self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0).max(6);
        println!(
            "{:<names$} {:>7} {:>5}  {:>13} {:>13}  {:>13} {:>13}  {:>9} {:>8}",
            "",
            "rate",
            "seeds",
            "density RMSE",
            "flow RMSE",
            "vs scale-up",
            "",
            "MB sent",
            "seconds"
        );
        for row in &self.rows {
            let [density, flow] = row.errors();
            let [below_density, below_flow] = row.below();
            println!(
                "{:<names$} {:>6}% {:>5}  {density:>13} {flow:>13}  {below_density:>13} {below_flow:>13}  {:>9} {:>8.1}",
                row.label,
                row.rate,
                row.fits,
                row.megabytes(),
                row.seconds
            );
        }
    }

    fn grid(&self) -> Grid {
        let columns = [
            "rate",
            "guests",
            "learns from truth",
            "protection",
            "seeds",
            "density RMSE, veh/km/lane",
            "flow RMSE, veh/min/lane",
            "density vs scale-up",
            "flow vs scale-up",
            "MB sent",
            "seconds",
        ];
        let least = |number: fn(&Row) -> f64, row: &Row| {
            let same = self.rows.iter().filter(|other| other.rate == row.rate).map(number);
            number(row) <= same.fold(f64::INFINITY, f64::min)
        };
        let rows = self.rows.iter().map(|row| {
            let [density, flow] = row.errors();
            let best = |text: String, best| Value { best, ..Value::plain(text) };
            let below = row.below().map(Value::plain);
            let cells = [
                Value::plain(format!("{} %", row.rate)),
                Value::plain(row.guests.to_string()),
                Value::words(if row.with_truth { "yes" } else { "no" }),
                Value::words(row.privacy.clone().unwrap_or_default()),
                Value::plain(row.fits.to_string()),
                best(density, least(|row| row.score.density.rmse, row)),
                best(flow, least(|row| row.score.flow.rmse, row)),
            ];
            let end = [Value::plain(row.megabytes()), Value::plain(format!("{:.1}", row.seconds))];
            let cells = cells.into_iter().chain(below).chain(end).collect();
            GridRow { label: row.label.clone(), paper: false, cells }
        });
        let (caption, columns) = (self.caption(), columns.map(String::from).to_vec());
        Grid { caption, columns, rows: rows.collect() }
    }
}

impl Row {
    /// RMSE of density and flow, with the deviation over seeds.
    fn errors(&self) -> [String; 2] {
        let shown = |number: fn(&Score) -> f64| match &self.deviation {
            Some(deviation) => format!("{:.2} ± {:.2}", number(&self.score), number(deviation)),
            None => format!("{:.2}", number(&self.score)),
        };
        [shown(|score| score.density.rmse), shown(|score| score.flow.rmse)]
    }

    fn below(&self) -> [String; 2] {
        self.below_baseline.map_or_else(Default::default, |below| {
            below.map(|percent| format!("{:+.0} %", -percent))
        })
    }

    fn megabytes(&self) -> String {
        self.bytes.map_or_else(String::new, |bytes| format!("{:.1}", bytes as f64 / 1e6))
    }
}

fn windows(data: &Data, part: Part) -> usize {
    match part {
        Part::Validation => data.validation,
        Part::Test => data.test,
    }
}
