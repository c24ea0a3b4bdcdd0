//! Whole moments, found and put together on a thread of their own.

use std::ops::Range;
use std::path::PathBuf;

use traffic::Seconds;

use super::moments::{BATCH_ROWS, BadRow, Moments, bad_row};
use super::{Dataset, DatasetError};
use crate::table::{Column, ColumnKind, ReadAhead};

/// Appends rows of a batch of columns.
pub(super) type Gather<T> = fn(&[Column], Range<usize>, &mut Vec<T>) -> Result<(), BadRow>;

/// The moments of a dataset, each with its rows.
pub(crate) struct MomentsAhead<T> {
    path: PathBuf,
    rows: u64,
    rows_read: u64,
    batches: ReadAhead<Batch<T>, DatasetError>,
    batch: Batch<T>,
    /// The next moment of the batch, and its first row there.
    at: usize,
    begin: usize,
}

/// Moments that are complete.
struct Batch<T> {
    /// Time, and the end of its rows.
    moments: Vec<(f64, usize)>,
    rows: Vec<T>,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { moments: Vec::new(), rows: Vec::new() }
    }
}

impl<T: Send + 'static> MomentsAhead<T> {
    /// Starts to read a dataset's trajectories.
    pub(super) fn open(
        dataset: &Dataset,
        columns: &[(&str, ColumnKind)],
        gather: Gather<T>,
    ) -> Result<Self, DatasetError> {
        let mut moments = Moments::open(dataset, columns)?;
        let (path, rows) = (moments.path().to_owned(), moments.rows());
        let mut failed = None;
        let read = move |batch: &mut Batch<T>| match failed.take() {
            Some(error) => Err(error),
            None => fill(&mut moments, gather, batch, &mut failed),
        };
        let batches = ReadAhead::start(read)
            .map_err(|source| DatasetError::Io { path: path.clone(), source })?;
        Ok(Self { path, rows, rows_read: 0, batches, batch: Batch::default(), at: 0, begin: 0 })
    }

    /// The next moment and its rows; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(Seconds, &[T])>, DatasetError> {
        if self.at == self.batch.moments.len() {
            (self.at, self.begin) = (0, 0);
            if !self.batches.next(&mut self.batch)? {
                self.batch = Batch::default();
                return Ok(None);
            }
        }
        let (time, end) = self.batch.moments[self.at];
        let rows = &self.batch.rows[self.begin..end];
        self.rows_read += rows.len() as u64;
        (self.at, self.begin) = (self.at + 1, end);
        Ok(Some((Seconds::new(time), rows)))
    }

    /// Rows handed out so far.
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// Number of rows in all.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// The error of a row, counted from 0.
    pub(crate) fn bad_row(&self, row: u64, problem: String) -> DatasetError {
        bad_row(&self.path, row, problem)
    }
}

/// Fills a batch; false at the end. What comes before an error is handed out first.
fn fill<T>(
    moments: &mut Moments,
    gather: Gather<T>,
    batch: &mut Batch<T>,
    failed: &mut Option<DatasetError>,
) -> Result<bool, DatasetError> {
    let Batch { moments: found, rows } = batch;
    found.clear();
    rows.clear();
    while rows.len() < BATCH_ROWS {
        match moments.next(|columns, range| gather(columns, range, rows)) {
            Ok(Some(time)) => found.push((time, rows.len())),
            Ok(None) => break,
            Err(error) if found.is_empty() => return Err(error),
            Err(error) => {
                *failed = Some(error);
                break;
            }
        }
    }
    Ok(!found.is_empty())
}
