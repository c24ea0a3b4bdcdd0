//! Runs a [`Host`] or a [`Guest`] over the network until it has ended.
//!
//! Both are plain loops on the calling thread, which also computes: take what arrived, hand it to
//! the state machine, send what it says. The network lives on the runtime's own threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use protocol::message::parts::Text;
use protocol::party::{Now, PartyId};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tracing::debug;

use super::dial::{Dialled, Line};
use super::listen::{Arrival, GrpcListener};
use crate::guest::Guest;
use crate::host::{Event, Host};
use crate::model::{GuestModel, HostModel};
use crate::store::Store;

/// How often a state machine hears that time has passed.
const TICK: Duration = Duration::from_millis(50);

/// The network says that this guest cannot take part.
#[derive(Debug, Error)]
#[error("the host does not let us in: {0}")]
pub struct NotAdmitted(pub String);

/// What the people who run a host see of it.
pub trait HostWatch<M, S> {
    /// Something has happened.
    fn event(&mut self, host: &Host<M, S>, event: &Event);
    /// A guest's connection has come or gone.
    fn connection(&mut self, guest: &PartyId, connected: bool);
    /// Time passes, several times a second.
    fn tick(&mut self) {}
}

/// Reads the clocks.
///
/// Time in which the party itself computes, and hears nobody, does not count: others are not silent
/// because we do not listen.
pub struct Clock {
    began: Instant,
    /// Nanoseconds of that.
    deaf: AtomicU64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Clock { began: Instant::now(), deaf: AtomicU64::new(0) }
    }

    /// What time it is.
    pub fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { monotonic: self.at(Instant::now()), unix }
    }

    /// Does something during which this clock stands still.
    pub fn stopped<T>(&self, work: impl FnOnce(Now) -> T) -> T {
        let began = Instant::now();
        let done = work(self.now());
        self.skip(began.elapsed());
        done
    }

    fn at(&self, moment: Instant) -> Duration {
        let deaf = Duration::from_nanos(self.deaf.load(Ordering::Relaxed));
        moment.saturating_duration_since(self.began).saturating_sub(deaf)
    }

    fn skip(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.deaf.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// Runs a host until it has ended; [`Host::ended`] says how. A text in `stop` stops it.
pub fn run_host<M: HostModel, S: Store>(
    runtime: &Handle,
    clock: &Clock,
    host: &mut Host<M, S>,
    door: &GrpcListener,
    arrivals: &mut mpsc::Receiver<Arrival>,
    stop: &watch::Receiver<Option<Text>>,
    watch: &mut impl HostWatch<M, S>,
) {
    let mut ticks = Ticks::default();
    loop {
        let mut out = Vec::new();
        if let Some(reason) = stop.borrow().clone() {
            out.extend(host.stop(clock.now(), reason));
        }
        match runtime.block_on(next(arrivals, ticks.left())) {
            Next::Arrived(Arrival::Message(from, message)) => {
                out.extend(clock.stopped(|now| host.handle(now, &from, message)));
            }
            Next::Arrived(Arrival::Connected(guest)) => watch.connection(&guest, true),
            Next::Arrived(Arrival::Disconnected(guest, reason)) => {
                debug!(%guest, "disconnected: {reason}");
                watch.connection(&guest, false);
            }
            Next::Nothing | Next::Closed => {}
        }
        // Who has spoken while we computed is heard before anybody counts as silent.
        if ticks.due(arrivals.is_empty()) {
            out.extend(clock.stopped(|now| host.tick(now)));
        }
        for message in &out {
            door.send(message);
        }
        for event in host.take_events() {
            watch.event(host, &event);
        }
        watch.tick();
        if host.ended().is_some() {
            return;
        }
    }
}

/// Runs a guest until it has ended; [`Guest::ended`] says how. A text in `stop` stops it.
pub fn run_guest<M: GuestModel, S: Store>(
    runtime: &Handle,
    clock: &Clock,
    guest: &mut Guest<M, S>,
    line: &Line,
    arrivals: &mut mpsc::Receiver<Dialled>,
    stop: &watch::Receiver<Option<Text>>,
    mut watch: impl FnMut(&Guest<M, S>, bool),
) -> Result<(), NotAdmitted> {
    let mut ticks = Ticks::default();
    let mut connected = false;
    loop {
        let mut out = Vec::new();
        if let Some(reason) = stop.borrow().clone() {
            out.extend(guest.stop(clock.now(), reason));
        }
        match runtime.block_on(next(arrivals, ticks.left())) {
            Next::Arrived(Dialled::Message(message)) => {
                out.extend(clock.stopped(|now| guest.handle(now, message)));
            }
            Next::Arrived(Dialled::Connected) => connected = true,
            Next::Arrived(Dialled::Disconnected(reason)) => {
                debug!("disconnected: {reason}");
                connected = false;
            }
            Next::Arrived(Dialled::Refused(reason)) => return Err(NotAdmitted(reason)),
            Next::Nothing | Next::Closed => {}
        }
        // A guest that is not connected has nobody to talk to, but it does lose patience.
        if ticks.due(arrivals.is_empty()) {
            out.extend(clock.stopped(|now| guest.tick(now)));
        }
        for message in &out {
            line.send(message);
        }
        watch(guest, connected);
        if guest.ended().is_some() {
            return Ok(());
        }
    }
}

#[derive(Default)]
struct Ticks {
    last: Option<Instant>,
    /// Arrivals that were taken since it was due.
    put_off: u32,
}

/// A crowd that never stops talking does not stop time.
const MOST_PUT_OFF: u32 = 1000;

impl Ticks {
    /// Whether time is to pass now. If there is still something to be heard, that comes first.
    fn due(&mut self, all_heard: bool) -> bool {
        if !self.left().is_zero() {
            return false;
        }
        if !all_heard && self.put_off < MOST_PUT_OFF {
            self.put_off += 1;
            return false;
        }
        *self = Ticks { last: Some(Instant::now()), put_off: 0 };
        true
    }

    fn left(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |last| TICK.saturating_sub(last.elapsed()))
    }
}

enum Next<T> {
    Arrived(T),
    Nothing,
    Closed,
}

async fn next<T>(arrivals: &mut mpsc::Receiver<T>, at_most: Duration) -> Next<T> {
    match tokio::time::timeout(at_most, arrivals.recv()).await {
        Ok(Some(arrived)) => Next::Arrived(arrived),
        Ok(None) => {
            // Nothing arrives any more, but time passes.
            tokio::time::sleep(at_most).await;
            Next::Closed
        }
        Err(_) => Next::Nothing,
    }
}

#[cfg(test)]
mod tests;
