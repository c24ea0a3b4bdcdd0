//! Runs a [`Host`] or a [`Guest`] over the network until it has ended.
//!
//! Both are plain loops on the calling thread, which also computes: take what arrived, hand it to
//! the state machine, send what it says. The network lives on the runtime's own threads.

use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tracing::debug;

use super::dial::{Dialled, Line};
use super::listen::{Arrival, Door};
use crate::guest::Guest;
use crate::host::{Event, Host};
use crate::message::parts::Text;
use crate::model::{GuestModel, HostModel};
use crate::party::{Now, PartyId};
use crate::store::Store;

/// How often a state machine hears that time has passed.
const TICK: Duration = Duration::from_millis(50);

/// The network says that this guest cannot take part.
#[derive(Debug, Error)]
#[error("the host does not let us in: {0}")]
pub struct NotLetIn(pub String);

/// What the people who run a host see of it.
pub trait HostWatch<M, S> {
    /// Something has happened.
    fn event(&mut self, host: &Host<M, S>, event: &Event);
    /// A guest's connection has come or gone.
    fn connection(&mut self, guest: &PartyId, connected: bool);
}

/// Reads the clocks.
pub struct Clock(Instant);

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// What time it is.
    pub fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { monotonic: self.0.elapsed(), unix }
    }
}

/// Runs a host until it has ended; [`Host::ended`] says how. A text in `stop` stops it.
pub fn run_host<M: HostModel, S: Store>(
    runtime: &Handle,
    clock: &Clock,
    host: &mut Host<M, S>,
    door: &Door,
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
        if ticks.due() {
            out.extend(host.tick(clock.now()));
        }
        match runtime.block_on(next(arrivals, ticks.left())) {
            Next::Arrived(Arrival::Message(from, message)) => {
                out.extend(host.handle(clock.now(), &from, message));
            }
            Next::Arrived(Arrival::Connected(guest)) => watch.connection(&guest, true),
            Next::Arrived(Arrival::Disconnected(guest, reason)) => {
                debug!(%guest, "disconnected: {reason}");
                watch.connection(&guest, false);
            }
            Next::Nothing | Next::Closed => {}
        }
        for (to, message) in &out {
            door.send(to, message);
        }
        for event in host.take_events() {
            watch.event(host, &event);
        }
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
) -> Result<(), NotLetIn> {
    let mut ticks = Ticks::default();
    let mut connected = false;
    loop {
        let mut out = Vec::new();
        if let Some(reason) = stop.borrow().clone() {
            out.extend(guest.stop(clock.now(), reason));
        }
        // A guest that is not connected has nobody to talk to, but it does lose patience.
        if ticks.due() {
            out.extend(guest.tick(clock.now()));
        }
        match runtime.block_on(next(arrivals, ticks.left())) {
            Next::Arrived(Dialled::Message(message)) => {
                out.extend(guest.handle(clock.now(), message));
            }
            Next::Arrived(Dialled::Connected) => connected = true,
            Next::Arrived(Dialled::Disconnected(reason)) => {
                debug!("disconnected: {reason}");
                connected = false;
            }
            Next::Arrived(Dialled::Refused(reason)) => return Err(NotLetIn(reason)),
            Next::Nothing | Next::Closed => {}
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
}

impl Ticks {
    fn due(&mut self) -> bool {
        let due = self.left().is_zero();
        if due {
            self.last = Some(Instant::now());
        }
        due
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
