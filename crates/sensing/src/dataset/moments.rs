//! The rows of `trajectories.parquet`, one moment after the other.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Dataset, DatasetError, open_table};
use crate::journey::{PositionError, is_time};
use crate::table::{Column, ColumnKind, TableReader};

/// Rows decoded at a time: enough to be fast, few enough that those that wait stay in the cache.
pub(super) const BATCH_ROWS: usize = 1 << 14;

/// Finds moments in a table whose first two columns are time and vehicle, in constant memory.
pub(super) struct Moments {
    path: PathBuf,
    vehicles: usize,
    table: TableReader,
    columns: Vec<Column>,
    /// The next row of the batch, and how many rows it has.
    at: usize,
    rows: usize,
    batch_start: u64,
    now: f64,
}

/// What is wrong with a row of the batch.
pub(super) type BadRow = (usize, String);

impl Moments {
    pub(super) fn open(
        dataset: &Dataset,
        columns: &[(&str, ColumnKind)],
    ) -> Result<Self, DatasetError> {
        let path = dataset.folder.join("trajectories.parquet");
        Ok(Self {
            table: open_table(&path, columns)?,
            path,
            vehicles: dataset.vehicles.all().len(),
            columns: Vec::new(),
            at: 0,
            rows: 0,
            batch_start: 0,
            now: f64::NEG_INFINITY,
        })
    }

    fn rows_read(&self) -> u64 {
        self.batch_start + self.at as u64
    }

    /// Number of rows in all.
    pub(super) fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn bad_row(&self, row: u64, problem: String) -> DatasetError {
        bad_row(&self.path, row, problem)
    }

    /// Hands the rows of the next moment to `take`, batch by batch, and returns its time; `None`
    /// at the end.
    pub(super) fn next(
        &mut self,
        mut take: impl FnMut(&[Column], Range<usize>) -> Result<(), BadRow>,
    ) -> Result<Option<f64>, DatasetError> {
        let mut time = None;
        // Vehicles are numbered from 0.
        let mut last = -1;
        while self.fill()? {
            let [Column::F64(times), Column::I32(vehicles), ..] = &self.columns[..] else { break };
            let here = times[self.at];
            match time {
                Some(time) if here != time => break,
                Some(_) => {}
                None => self.check_time(here)?,
            }
            time = Some(here);
            let same = times[self.at..self.rows].iter().take_while(|&&next| next == here).count();
            let rows = self.at..self.at + same;
            let checked = check_order(&vehicles[rows.clone()], last, self.vehicles)
                .map_err(|(at, problem)| (rows.start + at, problem))
                .and_then(|()| take(&self.columns, rows.clone()));
            if let Err((at, problem)) = checked {
                return Err(self.bad_row(self.batch_start + at as u64, problem));
            }
            last = vehicles[rows.end - 1];
            self.at = rows.end;
            if self.at < self.rows {
                break;
            }
        }
        self.now = time.unwrap_or(self.now);
        Ok(time)
    }

    /// Makes sure that the batch has a row left; false at the end of the table.
    fn fill(&mut self) -> Result<bool, DatasetError> {
        if self.at == self.rows {
            self.batch_start += self.rows as u64;
            self.at = 0;
            self.rows = self.table.next_batch(BATCH_ROWS, &mut self.columns)?;
        }
        Ok(self.rows > 0)
    }

    fn check_time(&self, time: f64) -> Result<(), DatasetError> {
        let problem = if !is_time(time) {
            PositionError::Time(time).to_string()
        } else if time <= self.now {
            format!("time: found {time}, expected later than {}", self.now)
        } else {
            return Ok(());
        };
        Err(self.bad_row(self.rows_read(), problem))
    }
}

/// The error of a row, counted from 0.
pub(super) fn bad_row(path: &Path, row: u64, problem: String) -> DatasetError {
    DatasetError::Row { path: path.to_owned(), row: row + 1, problem }
}

/// Checks that the vehicles of a moment are known, and in order.
fn check_order(vehicles: &[i32], before: i32, known: usize) -> Result<(), BadRow> {
    // Without leaving the loop early, which is faster where nothing is wrong.
    let pairs = vehicles.iter().zip(vehicles.iter().skip(1));
    let in_order = pairs.fold(true, |in_order, (a, b)| in_order & (a < b));
    let ends = vehicles.first().zip(vehicles.last());
    let is_known = |vehicle: i32| usize::try_from(vehicle).is_ok_and(|number| number < known);
    if in_order && ends.is_none_or(|(&first, &last)| first > before && is_known(last)) {
        return Ok(());
    }
    let mut last = before;
    for (at, &vehicle) in vehicles.iter().enumerate() {
        if !is_known(vehicle) {
            let most = known.saturating_sub(1);
            return Err((at, format!("vehicle: found number {vehicle}, expected 0 to {most}")));
        }
        if vehicle <= last {
            let problem = format!(
                "vehicle: found number {vehicle} after {last} at the same time, expected a larger one"
            );
            return Err((at, problem));
        }
        last = vehicle;
    }
    Ok(())
}
