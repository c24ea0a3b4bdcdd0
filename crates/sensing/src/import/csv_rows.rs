//! Rows of CSV files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use csv::{ByteRecord, Reader, ReaderBuilder};
use flate2::read::MultiGzDecoder;
use traffic::LatLon;

use super::{
    EXPECTED_COLUMNS, EXPECTED_LOOP_COLUMNS, ImportError, OnLoopRow, RowPosition, TrajectoryRow,
};

type Input = Reader<Box<dyn Read>>;

/// Hands each row of a trajectory file to `on_row`.
pub(super) fn trajectories(
    path: &Path,
    on_row: &mut dyn FnMut(TrajectoryRow<'_>) -> Result<(), String>,
) -> Result<(), ImportError> {
    let mut reader = open(path)?;
    let columns = Columns::of(path, &mut reader)?;
    let found = |name| columns.find(name);
    let (Some(vehicle), Some(time)) = (found("vehicle"), found("time")) else {
        return Err(columns.wrong(path, EXPECTED_COLUMNS));
    };
    let on_link = found("link").zip(found("position"));
    let on_earth = found("lat").zip(found("lon"));
    if on_link.is_none() && on_earth.is_none() {
        return Err(columns.wrong(path, EXPECTED_COLUMNS));
    }
    let (lane, speed, class) = (found("lane"), found("speed"), found("class"));
    each(path, &mut reader, |record| {
        let place = match (on_link, on_earth) {
            (Some((link, position)), _) => RowPosition::OnLink {
                link: text(record, link, "link")?,
                position: number(record, position, "position")?,
            },
            (None, Some((lat, lon))) => RowPosition::OnEarth(LatLon {
                lat: number(record, lat, "lat")?,
                lon: number(record, lon, "lon")?,
            }),
            (None, None) => return Ok(()),
        };
        on_row(TrajectoryRow {
            vehicle: text(record, vehicle, "vehicle")?,
            time: number(record, time, "time")?,
            place,
            lane: lane.map_or(Ok(0), |column| parse(record, column, "lane", "0 to 255"))?,
            speed: optional(record, speed, "speed")?,
            class: class.map(|column| text(record, column, "class")).transpose()?,
        })
    })
}

/// Hands each row of a loop file to `on_row` as loop, begin, end, count.
pub(super) fn loops(path: &Path, on_row: &mut OnLoopRow<'_>) -> Result<(), ImportError> {
    let mut reader = open(path)?;
    let columns = Columns::of(path, &mut reader)?;
    let [Some(name), Some(begin), Some(end), Some(count)] =
        ["loop", "begin", "end", "count"].map(|name| columns.find(name))
    else {
        return Err(columns.wrong(path, EXPECTED_LOOP_COLUMNS));
    };
    each(path, &mut reader, |record| {
        on_row(
            text(record, name, "loop")?,
            number(record, begin, "begin")?,
            number(record, end, "end")?,
            number(record, count, "count")?,
        )
    })
}

fn open(path: &Path) -> Result<Input, ImportError> {
    let io = |source| ImportError::Io { path: path.to_owned(), source };
    let file = BufReader::with_capacity(1 << 16, File::open(path).map_err(io)?);
    let input: Box<dyn Read> = if path.extension().is_some_and(|ending| ending == "gz") {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    Ok(ReaderBuilder::new().trim(csv::Trim::All).from_reader(input))
}

struct Columns(Vec<String>);

impl Columns {
    fn of(path: &Path, reader: &mut Input) -> Result<Self, ImportError> {
        let header = reader.byte_headers().map_err(|error| damaged(path, &error))?;
        let names = header
            .iter()
            .map(|name| String::from_utf8_lossy(name).trim_start_matches('\u{feff}').to_string());
        Ok(Self(names.collect()))
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|column| column == name)
    }

    fn wrong(&self, path: &Path, expected: &'static str) -> ImportError {
        let found = if self.0.is_empty() { "none".into() } else { self.0.join(", ") };
        ImportError::Columns { path: path.to_owned(), found, expected }
    }
}

fn each(
    path: &Path,
    reader: &mut Input,
    mut on_record: impl FnMut(&ByteRecord) -> Result<(), String>,
) -> Result<(), ImportError> {
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|error| damaged(path, &error))? {
        on_record(&record).map_err(|problem| ImportError::TrajectoryRow {
            path: path.to_owned(),
            line: record.position().map_or(0, csv::Position::line),
            problem,
        })?;
    }
    Ok(())
}

fn damaged(path: &Path, error: &csv::Error) -> ImportError {
    let line = error.position().map_or(1, csv::Position::line);
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("found {len} fields, expected {expected_len}")
        }
        csv::ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    };
    ImportError::TrajectoryRow { path: path.to_owned(), line, problem }
}

fn text<'r>(record: &'r ByteRecord, column: usize, field: &str) -> Result<&'r str, String> {
    std::str::from_utf8(record.get(column).unwrap_or_default())
        .map_err(|_| format!("{field}: found bytes that are not UTF-8, expected text"))
}

fn number(record: &ByteRecord, column: usize, field: &str) -> Result<f64, String> {
    parse(record, column, field, "a number")
}

/// An empty field has no value.
fn optional(
    record: &ByteRecord,
    column: Option<usize>,
    field: &str,
) -> Result<Option<f64>, String> {
    match column {
        Some(column) if record.get(column).is_some_and(|bytes| !bytes.is_empty()) => {
            number(record, column, field).map(Some)
        }
        _ => Ok(None),
    }
}

fn parse<T: std::str::FromStr>(
    record: &ByteRecord,
    column: usize,
    field: &str,
    expected: &str,
) -> Result<T, String> {
    let found = text(record, column, field)?;
    found.parse().map_err(|_| format!("{field}: found \"{found}\", expected {expected}"))
}
