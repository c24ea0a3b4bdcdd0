//! Rows of Parquet files.

use std::path::Path;

use traffic::LatLon;

use super::{
    EXPECTED_COLUMNS, EXPECTED_LOOP_COLUMNS, ImportError, OnLoopRow, RowPosition, TrajectoryRow,
};
use crate::table::{Column, ColumnKind, TableReader};

const BATCH_ROWS: usize = 1 << 15;

/// Hands each row of a trajectory file to `on_row`.
pub(super) fn trajectories(
    path: &Path,
    on_row: &mut dyn FnMut(TrajectoryRow<'_>) -> Result<(), String>,
) -> Result<(), ImportError> {
    let mut table = TableReader::open(path)?;
    let names = table.columns();
    let has = |name: &str| names.iter().any(|column| column == name);
    let on_link = has("link") && has("position");
    if !has("vehicle") || !has("time") || !(on_link || (has("lat") && has("lon"))) {
        return Err(wrong(path, &names, EXPECTED_COLUMNS));
    }
    table.want("vehicle", ColumnKind::Text)?;
    table.want("time", ColumnKind::F64)?;
    if on_link {
        table.want("link", ColumnKind::Text)?;
        table.want("position", ColumnKind::F64)?;
    } else {
        table.want("lat", ColumnKind::F64)?;
        table.want("lon", ColumnKind::F64)?;
    }
    let mut optional = |name, kind| -> Result<bool, ImportError> {
        if has(name) {
            table.want(name, kind)?;
        }
        Ok(has(name))
    };
    let has_lane = optional("lane", ColumnKind::I64)?;
    let has_speed = optional("speed", ColumnKind::OptionalF64)?;
    let has_class = optional("class", ColumnKind::Text)?;
    each(path, &mut table, |columns, at| {
        let ([Column::Text(vehicles), Column::F64(times)], rest) = columns.split_at(2) else {
            return Ok(());
        };
        let (places, mut rest) = rest.split_at(2);
        let place = match places {
            [Column::Text(links), Column::F64(positions)] => {
                RowPosition::OnLink { link: &links[at], position: positions[at] }
            }
            [Column::F64(lats), Column::F64(lons)] => {
                RowPosition::OnEarth(LatLon { lat: lats[at], lon: lons[at] })
            }
            _ => return Ok(()),
        };
        let mut next = |there: bool| {
            let (column, others) = if there { rest.split_first()? } else { return None };
            rest = others;
            Some(column)
        };
        let lane = match next(has_lane) {
            Some(Column::I64(lanes)) => u8::try_from(lanes[at])
                .map_err(|_| format!("lane: found {}, expected 0 to 255", lanes[at]))?,
            _ => 0,
        };
        let speed = match next(has_speed) {
            Some(Column::OptionalF64(speeds)) => speeds[at],
            _ => None,
        };
        let class = match next(has_class) {
            Some(Column::Text(classes)) => Some(classes[at].as_str()),
            _ => None,
        };
        on_row(TrajectoryRow { vehicle: &vehicles[at], time: times[at], place, lane, speed, class })
    })
}

/// Hands each row of a loop file to `on_row` as loop, begin, end, count.
pub(super) fn loops(path: &Path, on_row: &mut OnLoopRow<'_>) -> Result<(), ImportError> {
    let mut table = TableReader::open(path)?;
    let names = table.columns();
    let wanted = [
        ("loop", ColumnKind::Text),
        ("begin", ColumnKind::F64),
        ("end", ColumnKind::F64),
        ("count", ColumnKind::F64),
    ];
    if wanted.iter().any(|(name, _)| !names.iter().any(|column| column == name)) {
        return Err(wrong(path, &names, EXPECTED_LOOP_COLUMNS));
    }
    for (name, kind) in wanted {
        table.want(name, kind)?;
    }
    each(path, &mut table, |columns, at| match columns {
        [Column::Text(loops), Column::F64(begins), Column::F64(ends), Column::F64(counts)] => {
            on_row(&loops[at], begins[at], ends[at], counts[at])
        }
        _ => Ok(()),
    })
}

fn each(
    path: &Path,
    table: &mut TableReader,
    mut on_row: impl FnMut(&[Column], usize) -> Result<(), String>,
) -> Result<(), ImportError> {
    let mut columns = Vec::new();
    loop {
        let before = table.rows_read();
        let rows = table.next_batch(BATCH_ROWS, &mut columns)?;
        if rows == 0 {
            return Ok(());
        }
        for at in 0..rows {
            on_row(&columns, at).map_err(|problem| ImportError::TrajectoryRow {
                path: path.to_owned(),
                line: before + at as u64 + 1,
                problem,
            })?;
        }
    }
}

fn wrong(path: &Path, found: &[String], expected: &'static str) -> ImportError {
    ImportError::Columns { path: path.to_owned(), found: found.join(", "), expected }
}
