//! From the host to its readers: each estimate is kept first, and then published.
//!
//! ```text
//! host ──► queue ──► publisher ──► keeper ──► history
//!                        └──────────────────► feed, once it is kept or the patience is over
//! ```
//!
//! The host never waits. A store that does not answer delays one estimate by the patience; those after it are
//! published at once, as not stored, until the store has caught up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tracing::{debug, warn};
use traffic::Step;

use super::feed::Feed;
use super::history::History;
use super::record::{About, Record};

/// How long an estimate waits to be kept, as a rule.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How long the keeper rests after an error.
const REST: Duration = Duration::from_secs(1);
/// Estimates on their way to the readers.
const QUEUE: usize = 64;
/// Estimates that wait for a store.
const UNSTORED: usize = 256;
/// The past is cut to its length after so many estimates.
const FORGET_EVERY: u64 = 64;

/// The end of the queue that the host has.
pub struct Publisher {
    to: SyncSender<(Record, Instant)>,
    thread: JoinHandle<()>,
    counts: Arc<StoreCounts>,
}

/// Where and how long estimates are kept.
#[derive(Clone)]
pub struct Keeping {
    pub history: Arc<dyn History>,
    /// Steps that are kept.
    pub steps: i64,
    /// How long an estimate waits to be kept before it is published as not stored.
    pub patience: Duration,
}

/// What became of estimates.
#[derive(Debug, Default)]
pub struct StoreCounts {
    pub stored: AtomicU64,
    /// Published before they were on disk.
    pub published_unstored: AtomicU64,
    /// Never stored: the store was away for too long.
    pub lost: AtomicU64,
}

impl Publisher {
    pub fn start(about: Arc<About>, feed: Arc<Feed>, keeping: Option<Keeping>) -> Result<Self> {
        let (to, from) = mpsc::sync_channel(QUEUE);
        let counts = Arc::<StoreCounts>::default();
        let keeper = match keeping {
            Some(keeping) => Some(Keeper::start(keeping, Arc::clone(&counts))?),
            None => None,
        };
        let of_thread = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("publisher".into())
            .spawn(move || publish(&from, &about, &feed, keeper, &of_thread))
            .context("a thread")?;
        Ok(Publisher { to, thread, counts })
    }

    /// Publishes an estimate of a step that ended at a moment.
    pub fn publish(&self, record: Record, ended: Instant) {
        if let Err(error) = self.to.try_send((record, ended)) {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            let why = match error {
                TrySendError::Full(_) => "too many are waiting",
                TrySendError::Disconnected(_) => "its thread has ended",
            };
            warn!("an estimate was neither published nor stored: {why}");
        }
    }

    pub fn counts(&self) -> &StoreCounts {
        &self.counts
    }

    /// Waits until all that was published is kept, as far as the store takes it.
    pub fn finish(self) {
        let Publisher { to, thread, .. } = self;
        drop(to);
        let _ = thread.join();
    }
}

fn publish(
    from: &Receiver<(Record, Instant)>,
    about: &About,
    feed: &Feed,
    mut keeper: Option<Keeper>,
    counts: &StoreCounts,
) {
    for (record, ended) in from {
        let stored = keeper.as_mut().is_some_and(|keeper| keeper.keep(&record, counts));
        if keeper.is_some() && !stored {
            counts.published_unstored.fetch_add(1, Ordering::Relaxed);
        }
        feed.publish(about, &record, Some(ended), stored);
    }
    if let Some(keeper) = keeper {
        keeper.finish();
    }
}

/// The thread that writes to a store.
struct Keeper {
    to: SyncSender<Record>,
    kept: Receiver<Step>,
    /// Estimates that the store has not answered for.
    waiting: usize,
    patience: Duration,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Keeper {
    fn start(keeping: Keeping, counts: Arc<StoreCounts>) -> Result<Self> {
        let (to, from) = mpsc::sync_channel(UNSTORED);
        let (done, kept) = mpsc::channel();
        let ending = Arc::<AtomicBool>::default();
        let (told, patience) = (Arc::clone(&ending), keeping.patience);
        let thread = std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || keep_all(&keeping, &from, &done, &counts, &told))
            .context("a thread")?;
        Ok(Keeper { to, kept, waiting: 0, patience, ending, thread })
    }

    /// Whether an estimate is on disk.
    fn keep(&mut self, record: &Record, counts: &StoreCounts) -> bool {
        self.waiting -= self.kept.try_iter().count().min(self.waiting);
        let behind = self.waiting > 0;
        if self.to.try_send(record.clone()).is_err() {
            counts.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.waiting += 1;
        !behind && self.wait_for(record.step)
    }

    /// Waits until a step is on disk, but not for ever.
    fn wait_for(&mut self, step: Step) -> bool {
        let until = Instant::now() + self.patience;
        while let Ok(kept) = self.kept.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.waiting = self.waiting.saturating_sub(1);
            if kept == step {
                return true;
            }
        }
        false
    }

    fn finish(self) {
        self.ending.store(true, Ordering::Relaxed);
        drop(self.to);
        let _ = self.thread.join();
    }
}

fn keep_all(
    keeping: &Keeping,
    from: &Receiver<Record>,
    done: &Sender<Step>,
    counts: &StoreCounts,
    ending: &AtomicBool,
) {
    let mut kept = 0_u64;
    // Once the host has ended, the first failure is the last.
    let mut patient = true;
    let mut next = from.recv().ok();
    while let Some(record) = next {
        match keeping.history.keep(&record) {
            Ok(()) => {
                kept += 1;
                counts.stored.fetch_add(1, Ordering::Relaxed);
                let _ = done.send(record.step);
                if kept % FORGET_EVERY == 1 {
                    forget(keeping, Step(record.step.0.saturating_sub(keeping.steps)));
                }
            }
            Err(error) if patient => {
                warn!(step = record.step.0, "not stored yet: {error:#}");
                std::thread::sleep(REST);
                patient = !ending.load(Ordering::Relaxed);
                next = Some(record);
                continue;
            }
            Err(error) => {
                // A store that is away keeps nobody waiting who wants to end.
                let lost = 1 + from.iter().count() as u64;
                counts.lost.fetch_add(lost, Ordering::Relaxed);
                warn!(step = record.step.0, lost, "not stored: {error:#}");
            }
        }
        next = from.recv().ok();
    }
}

fn forget(keeping: &Keeping, before: Step) {
    match keeping.history.forget(before) {
        Ok(0) => {}
        Ok(steps) => debug!(steps, "forgotten: older than is kept"),
        Err(error) => warn!("the past is not cut: {error:#}"),
    }
}

#[cfg(test)]
mod tests;
