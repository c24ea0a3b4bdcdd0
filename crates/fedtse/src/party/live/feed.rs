//! The thread that reads a party's records and makes numbers of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::records::{Counts, RecordsSection, Taker};

/// Reads all records into a taker.
pub(super) type Fill<'a> = dyn FnMut(&mut dyn Taker) -> Result<()> + 'a;

/// A thread that reads records.
pub(super) struct Feed {
    thread: JoinHandle<Result<()>>,
    pub counts: Arc<Counts>,
}

impl Feed {
    /// Begins: `run` makes a taker on the thread, which may borrow from it, and has it filled.
    pub(super) fn start(
        records: RecordsSection,
        folder: PathBuf,
        run: impl FnOnce(&mut Fill<'_>) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let counts = Arc::<Counts>::default();
        let of_thread = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("records".into())
            .spawn(move || run(&mut |taker| records.read(&folder, taker, &of_thread)))
            .context("a thread")?;
        Ok(Feed { thread, counts })
    }

    /// How it ended, if it has. One that still waits for records is left alone.
    pub(super) fn ended(self) -> Result<()> {
        // One that has just let go of its channel may need a moment more.
        let patience = Instant::now() + Duration::from_millis(500);
        while !self.thread.is_finished() {
            if Instant::now() > patience {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.thread.join().map_err(|_| anyhow!("the thread that reads records has failed"))?
    }
}
