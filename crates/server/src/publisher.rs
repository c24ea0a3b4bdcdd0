//! From the host to its readers: each estimate is stored first, and then published.
//!
//! ```text
//! host ──► queue ──► publisher ──► writer ──► history
//!                        └──────────────────► feed, once it is stored or the timeout is over
//! ```
//!
//! The host never waits. A store that does not answer delays one estimate by the timeout; those after it are
//! published at once, as not stored, until the store has caught up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;
use tracing::{debug, warn};
use traffic::Step;

use crate::estimate::{Estimate, SeriesInfo};
use crate::feed::EstimateFeed;
use crate::history::{Downsampling, History};

/// How long an estimate waits to be stored, unless configured otherwise.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(1);
/// Between an error of the store and the next attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Estimates on their way to the readers.
const QUEUE: usize = 64;
/// Estimates that wait for a store.
const MAX_UNSTORED: usize = 256;
/// Old estimates are deleted after so many new ones.
const DELETE_EVERY: u64 = 64;

/// Takes estimates from the host.
pub struct Publisher {
    to: SyncSender<(Estimate, Instant)>,
    thread: JoinHandle<()>,
    counts: Arc<StoreCounts>,
}

/// Where and how long estimates are stored.
#[derive(Clone)]
pub struct Storage {
    /// The store.
    pub history: Arc<dyn History>,
    /// How many steps are kept.
    pub steps: i64,
    /// How older ones become fewer.
    pub downsampling: Option<Downsampling>,
    /// How long an estimate waits to be stored before it is published as not stored.
    pub timeout: Duration,
}

/// The operating system has no thread for the publisher.
#[derive(Debug, Error)]
#[error("publisher: found no thread ({0}), expected one")]
pub struct PublisherError(#[from] std::io::Error);

/// What became of estimates.
#[derive(Debug, Default)]
pub struct StoreCounts {
    /// On disk.
    pub stored: AtomicU64,
    /// Published before they were on disk.
    pub published_unstored: AtomicU64,
    /// Never stored: the store was away for too long.
    pub lost: AtomicU64,
}

impl Publisher {
    /// Starts the threads; without storage, estimates are published only.
    pub fn start(
        info: Arc<SeriesInfo>,
        feed: Arc<EstimateFeed>,
        storage: Option<Storage>,
    ) -> Result<Self, PublisherError> {
        let (to, from) = mpsc::sync_channel(QUEUE);
        let counts = Arc::<StoreCounts>::default();
        let writer =
            storage.map(|storage| Writer::start(storage, Arc::clone(&counts))).transpose()?;
        let of_thread = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("publisher".into())
            .spawn(move || publish(&from, &info, &feed, writer, &of_thread))?;
        Ok(Publisher { to, thread, counts })
    }

    /// Publishes an estimate of a step that ended at a moment.
    pub fn publish(&self, estimate: Estimate, ended: Instant) {
        if let Err(error) = self.to.try_send((estimate, ended)) {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            let why = match error {
                TrySendError::Full(_) => "too many are waiting",
                TrySendError::Disconnected(_) => "its thread has ended",
            };
            warn!("an estimate was neither published nor stored: {why}");
        }
    }

    /// What became of estimates so far.
    pub fn counts(&self) -> &StoreCounts {
        &self.counts
    }

    /// Waits until all that was published is stored, as far as the store accepts it.
    pub fn finish(self) {
        let Publisher { to, thread, .. } = self;
        drop(to);
        let _ = thread.join();
    }
}

fn publish(
    from: &Receiver<(Estimate, Instant)>,
    info: &SeriesInfo,
    feed: &EstimateFeed,
    mut writer: Option<Writer>,
    counts: &StoreCounts,
) {
    for (estimate, ended) in from {
        let stored = writer.as_mut().is_some_and(|writer| writer.store(&estimate, counts));
        if writer.is_some() && !stored {
            counts.published_unstored.fetch_add(1, Ordering::Relaxed);
        }
        feed.publish(info, &estimate, Some(ended), stored);
    }
    if let Some(writer) = writer {
        writer.finish();
    }
}

/// The thread that writes to a store.
struct Writer {
    to: SyncSender<Estimate>,
    stored: Receiver<Step>,
    /// Estimates that the store has not confirmed.
    pending: usize,
    timeout: Duration,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(storage: Storage, counts: Arc<StoreCounts>) -> Result<Self, PublisherError> {
        let (to, from) = mpsc::sync_channel(MAX_UNSTORED);
        let (done, stored) = mpsc::channel();
        let ending = Arc::<AtomicBool>::default();
        let (of_thread, timeout) = (Arc::clone(&ending), storage.timeout);
        let thread = std::thread::Builder::new()
            .name("history writer".into())
            .spawn(move || write_all(&storage, &from, &done, &counts, &of_thread))?;
        Ok(Writer { to, stored, pending: 0, timeout, ending, thread })
    }

    /// Whether an estimate is on disk.
    fn store(&mut self, estimate: &Estimate, counts: &StoreCounts) -> bool {
        self.pending -= self.stored.try_iter().count().min(self.pending);
        let behind = self.pending > 0;
        if self.to.try_send(estimate.clone()).is_err() {
            counts.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.pending += 1;
        !behind && self.wait_for(estimate.step)
    }

    /// Waits until a step is on disk, or the timeout is over.
    fn wait_for(&mut self, step: Step) -> bool {
        let until = Instant::now() + self.timeout;
        while let Ok(stored) =
            self.stored.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.pending = self.pending.saturating_sub(1);
            if stored == step {
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

fn write_all(
    storage: &Storage,
    from: &Receiver<Estimate>,
    done: &Sender<Step>,
    counts: &StoreCounts,
    ending: &AtomicBool,
) {
    let mut stored = 0_u64;
    // Once the host has ended, the first failure is the last.
    let mut retry = true;
    let mut next = from.recv().ok();
    while let Some(estimate) = next {
        match storage.history.store(&estimate) {
            Ok(()) => {
                stored += 1;
                counts.stored.fetch_add(1, Ordering::Relaxed);
                let _ = done.send(estimate.step);
                if stored % DELETE_EVERY == 1 {
                    delete_old(storage, Step(estimate.step.0.saturating_sub(storage.steps)));
                    downsample(storage, estimate.step);
                }
            }
            Err(error) if retry => {
                warn!(step = estimate.step.0, "not stored yet: {error}");
                std::thread::sleep(RETRY_AFTER);
                retry = !ending.load(Ordering::Relaxed);
                next = Some(estimate);
                continue;
            }
            Err(error) => {
                // A store that does not answer must not delay the end of the host.
                let lost = 1 + from.iter().count() as u64;
                counts.lost.fetch_add(lost, Ordering::Relaxed);
                warn!(step = estimate.step.0, lost, "not stored: {error}");
            }
        }
        next = from.recv().ok();
    }
}

fn downsample(storage: &Storage, newest: Step) {
    let Some(downsampling) = storage.downsampling else { return };
    match downsampling.apply(&*storage.history, newest) {
        Ok(0) => {}
        Ok(groups) => debug!(groups, "downsampled: older than is kept in full"),
        Err(error) => warn!("old estimates are not downsampled: {error}"),
    }
}

fn delete_old(storage: &Storage, before: Step) {
    match storage.history.delete_before(before) {
        Ok(0) => {}
        Ok(steps) => debug!(steps, "deleted: older than is kept"),
        Err(error) => warn!("old estimates are not deleted: {error}"),
    }
}

#[cfg(test)]
mod tests;
