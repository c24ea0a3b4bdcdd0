//! Decoding tables on a thread of its own, a few batches ahead of whoever uses them.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::{Column, TableError, TableReader};

/// Batches that may wait: enough that neither side stands still while the other waits for a
/// processor, few enough to stay small.
const WAITING: usize = 8;

/// The batches of a table. The thread ends with the table, at an error, or when this is dropped.
pub(crate) struct ReadAhead {
    batches: Receiver<Result<Vec<Column>, TableError>>,
    used: Sender<Vec<Column>>,
    rows: u64,
}

impl ReadAhead {
    /// Starts to read, in batches of at most `batch_rows`.
    pub fn new(table: TableReader, batch_rows: usize) -> Result<Self, TableError> {
        let (path, rows) = (table.path().to_owned(), table.rows());
        let ((send, batches), (used, reuse)) = (sync_channel(WAITING), channel());
        thread::Builder::new()
            .name("decode".into())
            .spawn(move || decode(table, batch_rows, &send, &reuse))
            .map_err(|source| TableError::Io { path, source })?;
        Ok(Self { batches, used, rows })
    }

    /// Number of rows in all, as the file says.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Puts the next batch in the place of the last one; returns its rows, 0 at the end.
    pub fn next_batch(&mut self, columns: &mut Vec<Column>) -> Result<usize, TableError> {
        let Ok(batch) = self.batches.recv() else { return Ok(0) };
        let last = std::mem::replace(columns, batch?);
        // The thread may have ended already: then nobody needs it.
        let _ = self.used.send(last);
        Ok(columns.first().map_or(0, Column::len))
    }
}

fn decode(
    mut table: TableReader,
    batch_rows: usize,
    send: &SyncSender<Result<Vec<Column>, TableError>>,
    reuse: &Receiver<Vec<Column>>,
) {
    loop {
        let mut columns = reuse.try_recv().unwrap_or_default();
        let batch = match table.next_batch(batch_rows, &mut columns) {
            Ok(0) => return,
            Ok(_) => Ok(columns),
            Err(error) => Err(error),
        };
        let failed = batch.is_err();
        if send.send(batch).is_err() || failed {
            return;
        }
    }
}
