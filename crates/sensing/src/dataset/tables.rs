//! The small tables of a dataset: its vehicles and its loops' counts.

use std::path::Path;

use traffic::{LoopCount, Seconds, VehicleClass};

use super::{DatasetError, open_table};
use crate::table::{Column, ColumnKind, ReadAhead, TableWriter};
use crate::vehicles::VehicleTable;

/// Rows decoded at a time: few enough that their texts stay in the cache.
const BATCH_ROWS: usize = 1 << 12;

const VEHICLE_COLUMNS: [(&str, ColumnKind); 3] =
    [("vehicle", ColumnKind::I32), ("name", ColumnKind::Text), ("class", ColumnKind::Text)];

pub(super) fn write_vehicles(path: &Path, vehicles: &VehicleTable) -> Result<(), DatasetError> {
    let mut table = TableWriter::create(path, &VEHICLE_COLUMNS)?;
    let all = vehicles.all();
    table.write(&[
        Column::I32((0..all.len() as i32).collect()),
        Column::Text(all.iter().map(|vehicle| vehicle.name.to_string()).collect()),
        Column::Text(all.iter().map(|vehicle| vehicle.class.name().into()).collect()),
    ])?;
    Ok(table.finish()?)
}

pub(super) fn read_vehicles(path: &Path) -> Result<VehicleTable, DatasetError> {
    let mut table = open_table(path, &VEHICLE_COLUMNS)?;
    let mut vehicles = VehicleTable::with_capacity(table.rows());
    let mut batches = ReadAhead::start(move |columns: &mut Vec<Column>| {
        table.next_batch(BATCH_ROWS, columns).map(|rows| rows > 0)
    })
    .map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
    let mut columns = Vec::new();
    while batches.next(&mut columns)? {
        let before = vehicles.all().len() as u64;
        let [Column::I32(numbers), Column::Text(names), Column::Text(classes)] = &columns[..]
        else {
            continue;
        };
        for (at, ((&number, name), class)) in numbers.iter().zip(names).zip(classes).enumerate() {
            let row = before + at as u64 + 1;
            let fail = |problem| DatasetError::Row { path: path.to_owned(), row, problem };
            let class = VehicleClass::named(class).ok_or_else(|| {
                fail(format!("class: found \"{class}\", expected a vehicle class"))
            })?;
            if number as u64 + 1 != row || vehicles.number(name, class).0 as u64 + 1 != row {
                return Err(fail(format!(
                    "vehicle: found number {number} and name \"{name}\", expected number {} and a new name",
                    row - 1
                )));
            }
        }
    }
    Ok(vehicles)
}

const LOOP_COLUMNS: [(&str, ColumnKind); 4] = [
    ("loop", ColumnKind::I32),
    ("begin", ColumnKind::F64),
    ("end", ColumnKind::F64),
    ("count", ColumnKind::I32),
];

pub(super) fn write_loops(path: &Path, loops: &[LoopCount]) -> Result<(), DatasetError> {
    let mut table = TableWriter::create(path, &LOOP_COLUMNS)?;
    table.write(&[
        Column::I32(loops.iter().map(|count| count.detector as i32).collect()),
        Column::F64(loops.iter().map(|count| count.begin.get()).collect()),
        Column::F64(loops.iter().map(|count| count.end.get()).collect()),
        Column::I32(loops.iter().map(|count| count.count as i32).collect()),
    ])?;
    Ok(table.finish()?)
}

pub(super) fn read_loops(path: &Path, detectors: usize) -> Result<Vec<LoopCount>, DatasetError> {
    let mut table = open_table(path, &LOOP_COLUMNS)?;
    let (mut loops, mut columns) = (Vec::new(), Vec::new());
    let mut covered = vec![f64::NEG_INFINITY; detectors];
    while table.next_batch(BATCH_ROWS, &mut columns)? > 0 {
        let [Column::I32(numbers), Column::F64(begins), Column::F64(ends), Column::I32(counts)] =
            &columns[..]
        else {
            continue;
        };
        for at in 0..numbers.len() {
            let (number, begin, end, count) = (numbers[at], begins[at], ends[at], counts[at]);
            let known = usize::try_from(number).is_ok_and(|number| number < detectors);
            let sound = begin < end && begin.is_finite() && end.is_finite() && count >= 0;
            if !(known && sound) {
                return Err(DatasetError::Row {
                    path: path.to_owned(),
                    row: loops.len() as u64 + 1,
                    problem: format!(
                        "found loop {number}, begin {begin}, end {end}, count {count}; expected a loop below {detectors}, begin before end, a count of 0 or more"
                    ),
                });
            }
            let until = &mut covered[number as usize];
            if begin < *until {
                return Err(DatasetError::Row {
                    path: path.to_owned(),
                    row: loops.len() as u64 + 1,
                    problem: format!(
                        "begin: found {begin}, expected {until} or later for loop {number}"
                    ),
                });
            }
            *until = end;
            loops.push(LoopCount {
                detector: number as usize,
                begin: Seconds::new(begin),
                end: Seconds::new(end),
                count: count as u32,
            });
        }
    }
    Ok(loops)
}
