//! Estimates as files: CSV and Parquet of a span of time, GeoJSON of one step.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use hyper::StatusCode;
use sensing::{Column, Kind, TableWriter};
use serde_json::{Value, json};
use traffic::Step;

use super::map::places;
use super::past::Past;
use super::query::Query;
use super::record::{About, LinkRecord, Record, speed_km_h};
use super::site::{Problem, missing};

/// Rows of a file: a day of the corridor are 147,000.
const MOST_ROWS: usize = 500_000;
const DAY_S: f64 = 86_400.0;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    Parquet,
    GeoJson,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Csv => "text/csv; charset=utf-8",
            Format::Parquet => "application/vnd.apache.parquet",
            Format::GeoJson => "application/geo+json",
        }
    }

    pub fn disposition(self) -> &'static str {
        match self {
            Format::Csv => "attachment; filename=\"estimates.csv\"",
            Format::Parquet => "attachment; filename=\"estimates.parquet\"",
            Format::GeoJson => "attachment; filename=\"estimates.geojson\"",
        }
    }
}

/// Makes a file of what the query names.
pub fn make(format: Format, about: &About, past: &Past, query: &Query) -> Result<Vec<u8>, Problem> {
    if format == Format::GeoJson {
        return geojson(about, past, query).map(String::into_bytes);
    }
    let (from, to) = past.span(query, DAY_S)?;
    let most = MOST_ROWS / about.network.links().len().max(1);
    let mut table = Table::default();
    let (mut steps, mut too_many) = (0, false);
    past.each(from, to, &mut |record| {
        steps += 1;
        too_many = steps > most.max(1);
        if !too_many {
            table.add(about, &record);
        }
        !too_many
    })?;
    if too_many {
        let text = format!("found more than {MOST_ROWS} rows, expected a shorter span of time");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    Ok(match format {
        Format::Csv => table.csv()?,
        _ => table.parquet()?,
    })
}

/// The columns of a file.
#[derive(Default)]
struct Table {
    step: Vec<i64>,
    begin: Vec<f64>,
    link: Vec<String>,
    /// Density, flow and speed, and the borders of the intervals.
    numbers: [Vec<Option<f64>>; 7],
    participants: Vec<String>,
}

const NUMBERS: [&str; 7] = [
    "density_veh_km_lane",
    "flow_veh_min_lane",
    "speed_km_h",
    "density_low",
    "density_high",
    "flow_low",
    "flow_high",
];

fn numbers(LinkRecord { state, interval }: &LinkRecord) -> [Option<f64>; 7] {
    let density = interval.map(|interval| interval.density);
    let flow = interval.map(|interval| interval.flow);
    [
        Some(state.density.get()),
        Some(state.flow.get()),
        speed_km_h(*state),
        density.map(|[low, _]| low),
        density.map(|[_, high]| high),
        flow.map(|[low, _]| low),
        flow.map(|[_, high]| high),
    ]
}

impl Table {
    fn add(&mut self, about: &About, record: &Record) {
        let participants = participants(record);
        for (link, state) in about.network.links().iter().zip(record.links()) {
            self.step.push(record.step.0);
            self.begin.push(record.step.0 as f64 * about.step_s);
            self.link.push(link.name.clone());
            for (column, number) in self.numbers.iter_mut().zip(numbers(&state)) {
                column.push(number);
            }
            self.participants.push(participants.clone());
        }
    }

    fn csv(self) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let names = ["step", "begin_s", "link"].into_iter().chain(NUMBERS).chain(["participants"]);
        writer.write_record(names)?;
        let shown = |number: Option<f64>| number.map_or(String::new(), |n| n.to_string());
        for row in 0..self.step.len() {
            let fields = [self.step[row].to_string(), self.begin[row].to_string()].into_iter();
            let fields = fields.chain([self.link[row].clone()]);
            let fields = fields.chain(self.numbers.iter().map(|column| shown(column[row])));
            writer.write_record(fields.chain([self.participants[row].clone()]))?;
        }
        writer.into_inner().context("a table")
    }

    fn parquet(self) -> Result<Vec<u8>> {
        let folder = tempfile::tempdir().context("temporary folder")?;
        let path = folder.path().join("estimates.parquet");
        let mut columns = vec![("step", Kind::I64), ("begin_s", Kind::F64), ("link", Kind::Text)];
        columns.extend(NUMBERS.map(|name| (name, Kind::OptionalF64)));
        columns.push(("participants", Kind::Text));
        let mut writer = TableWriter::create(&path, &columns)?;
        let mut table =
            vec![Column::I64(self.step), Column::F64(self.begin), Column::Text(self.link)];
        table.extend(self.numbers.into_iter().map(Column::OptionalF64));
        table.push(Column::Text(self.participants));
        writer.write(&table)?;
        writer.finish()?;
        std::fs::read(&path).context("a table")
    }
}

/// As `fleet-a:in fleet-b:late`.
fn participants(record: &Record) -> String {
    let mut text = String::new();
    for (guest, how) in &record.participants {
        let how = json!(how);
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{guest}:{}", how.as_str().unwrap_or_default());
    }
    text
}

fn geojson(about: &About, past: &Past, query: &Query) -> Result<String, Problem> {
    let wrong = |text| Problem::new(StatusCode::BAD_REQUEST, text);
    let step = match query.number("step").map_err(wrong)? {
        Some(step) => Some(Step(step as i64)),
        None => past.stretches()?.last().map(|stretch| stretch.last),
    };
    let step = step.ok_or_else(|| missing("nothing is stored yet"))?;
    let record = past.at(step)?;
    let record = record.ok_or_else(|| missing(format!("step {} is not stored", step.0)))?;
    let feature = |(link, state): (&traffic::Link, LinkRecord)| {
        let places = places(&about.network, &link.shape)?;
        let mut properties = json!({
            "link": link.name, "lanes": link.lanes, "step": step,
            "begin_s": step.0 as f64 * about.step_s,
        });
        for (name, number) in NUMBERS.into_iter().zip(numbers(&state)) {
            properties[name] = json!(number);
        }
        Some(json!({
            "type": "Feature",
            "geometry": {"type": "LineString", "coordinates": places},
            "properties": properties,
        }))
    };
    let features: Option<Vec<Value>> =
        about.network.links().iter().zip(record.links()).map(feature).collect();
    let nowhere = "the network file has no origin, so that nobody knows where on Earth it lies";
    let features = features.ok_or_else(|| Problem::new(StatusCode::CONFLICT, nowhere))?;
    let collection = json!({
        "type": "FeatureCollection", "features": features, "participants": record.participants,
    });
    Ok(collection.to_string())
}
