//! FCD as CSV: a header, then one row a vehicle and time, separated by `;`.
//!
//! A time without vehicles is one row whose other fields are empty.

use std::io::BufRead;

use traffic::VehiclePosition;

use super::super::source::Source;
use super::super::{Fault, SumoFileError, quoted};
use super::rows::{FcdRow, Placing};

pub(super) struct CsvRows {
    source: Source,
    columns: Columns,
    /// The text of the time of the last moment.
    time: Vec<u8>,
}

/// Which column is what.
struct Columns {
    count: usize,
    time: usize,
    id: usize,
    lane: usize,
    pos: usize,
    speed: usize,
    kind: Option<usize>,
}

/// More columns than SUMO has.
const MOST_COLUMNS: usize = 64;

impl CsvRows {
    pub(super) fn new(mut source: Source) -> Result<Self, SumoFileError> {
        let (columns, length) = match source.peek_line()? {
            None => (Err(Fault::new("header", "nothing", "names of columns")), 0),
            Some((line, length)) => (header(line), length),
        };
        let columns = columns.map_err(|fault| fault.at(source.file(), 1))?;
        source.consume(length);
        Ok(Self { source, columns, time: Vec::new() })
    }

    pub(super) fn next_moment(
        &mut self,
        placing: &mut Placing,
        out: &mut Vec<VehiclePosition>,
    ) -> Result<Option<f64>, SumoFileError> {
        let mut time = None;
        loop {
            let Some((line, length)) = self.source.peek_line()? else { return Ok(time) };
            let mut fields: [&[u8]; MOST_COLUMNS] = [&[]; MOST_COLUMNS];
            let fault = match split(line, self.columns.count, &mut fields) {
                Err(fault) => Some(fault),
                Ok(()) => {
                    let moment = fields[self.columns.time];
                    if time.is_some() && moment != self.time {
                        return Ok(time);
                    }
                    read_row(&fields, &self.columns, placing, &mut time, out).err()
                }
            };
            if let Some(fault) = fault {
                return Err(fault.at(self.source.file(), self.source.line()));
            }
            self.time.clear();
            self.time.extend_from_slice(fields[self.columns.time]);
            self.source.consume(length);
        }
    }
}

#[inline]
fn read_row(
    fields: &[&[u8]; MOST_COLUMNS],
    columns: &Columns,
    placing: &mut Placing,
    time: &mut Option<f64>,
    out: &mut Vec<VehiclePosition>,
) -> Result<(), Fault> {
    if time.is_none() {
        *time = Some(placing.begin(Some(fields[columns.time]))?);
    }
    if fields[columns.id].is_empty() {
        // An empty moment, or a person.
        let elsewhere = (0..columns.count).any(|at| at != columns.time && !fields[at].is_empty());
        placing.skipped.not_vehicles += u64::from(elsewhere);
        return Ok(());
    }
    let row = FcdRow {
        id: Some(fields[columns.id]),
        lane: Some(fields[columns.lane]),
        pos: Some(fields[columns.pos]),
        speed: Some(fields[columns.speed]),
        kind: columns.kind.map(|column| fields[column]),
    };
    out.extend(placing.place(row)?);
    Ok(())
}

#[inline]
fn split<'a>(
    line: &'a [u8],
    count: usize,
    fields: &mut [&'a [u8]; MOST_COLUMNS],
) -> Result<(), Fault> {
    let mut start = 0;
    let mut found = 0;
    for end in memchr::memchr_iter(b';', line) {
        if found < MOST_COLUMNS {
            fields[found] = &line[start..end];
        }
        found += 1;
        start = end + 1;
    }
    if found < MOST_COLUMNS {
        fields[found] = &line[start..];
    }
    found += 1;
    if found == count {
        Ok(())
    } else {
        Err(Fault::new("row", format!("{found} fields in {}", quoted(line)), format!("{count}")))
    }
}

fn header(line: &[u8]) -> Result<Columns, Fault> {
    let names: Vec<&[u8]> = line.split(|&byte| byte == b';').collect();
    if names.len() > MOST_COLUMNS {
        let found = format!("{} columns", names.len());
        return Err(Fault::new("header", found, format!("at most {MOST_COLUMNS}")));
    }
    let find = |name: &str| {
        names
            .iter()
            .position(|column| *column == name.as_bytes())
            .ok_or_else(|| Fault::new("header", quoted(line), format!("a column `{name}`")))
    };
    Ok(Columns {
        count: names.len(),
        time: find("timestep_time")?,
        id: find("vehicle_id")?,
        lane: find("vehicle_lane")?,
        pos: find("vehicle_pos")?,
        speed: find("vehicle_speed")?,
        kind: find("vehicle_type").ok(),
    })
}
