//! Runs a party over the network until it has ended: a host or a guest, in training or live.
//!
//! One plain loop on the calling thread, which also computes: take what arrived, hand it to the state machine, send what
//! it says. The network lives on the runtime's own threads, and a live party's own data come from another thread.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use protocol::ledger::{Ledger, Released};
use protocol::message::heads::CarriesHeads;
use protocol::message::parts::Text;
use protocol::message::{ToGuest, ToHost};
use protocol::party::{Now, PartyId};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tracing::debug;
use traffic::Step;

use super::dial::{Dialled, HostConnection};
use super::heads::{Heads, Heard};
use super::listen::{Arrival, GrpcListener};
use crate::guest::Guest;
use crate::host::Host;
use crate::live::{LiveGuest, LiveHost, LiveModel, LiveSumGuest, LiveSumHost, LiveSumModel};
use crate::model::{GuestModel, HostModel};
use crate::store::Store;
use crate::sums::{SumGuest, SumHost};

/// The network says that this guest cannot take part.
#[derive(Debug, Error)]
#[error("the host does not let us in: {0}")]
pub struct NotAdmitted(pub String);

/// A party as the network drives it.
pub trait Party {
    /// What arrives from the network.
    type Arrival;
    /// What it hears of its own data.
    type Own;
    /// What it sends.
    type Message;
    /// How often it hears that time has passed.
    const TICK: Duration;
    /// Whether its clock stands still while it computes: others are not silent because it does not listen. A live party
    /// has deadlines of the real clock.
    const CLOCK_STOPS: bool;

    /// Something arrives.
    fn arrive(
        &mut self,
        now: Now,
        arrival: Self::Arrival,
    ) -> Result<Vec<Released<Self::Message>>, NotAdmitted>;
    /// Data of its own are there; a party that trains has them from the beginning.
    fn own(&mut self, _now: Now, _own: Self::Own) -> Vec<Released<Self::Message>> {
        Vec::new()
    }
    /// Its own data have ended.
    fn own_ended(&mut self, _now: Now) -> Vec<Released<Self::Message>> {
        Vec::new()
    }
    /// Time has passed.
    fn tick(&mut self, now: Now) -> Vec<Released<Self::Message>>;
    /// Someone wants it to stop.
    fn stop(&mut self, now: Now, reason: Text) -> Vec<Released<Self::Message>>;
    /// Whether it has ended.
    fn has_ended(&self) -> bool;
    /// Messages that have left it.
    fn ledger_mut(&mut self) -> &mut Ledger;
}

/// The way to a party's peers.
pub trait Outlet<M> {
    /// Sends a message, if its recipient is connected.
    fn send(&self, message: &Released<M>);
}

/// What the people who run a party see of it.
pub trait Watch<P: Party> {
    /// Something arrives, before the party hears of it.
    fn arrival(&mut self, _arrival: &P::Arrival) {}
    /// Something may have happened; called several times a second.
    fn look(&mut self, party: &mut P);
}

/// What a party hears.
pub struct Inputs<A, O> {
    arrivals: mpsc::Receiver<A>,
    own: Own<O>,
    /// Holds a reason as soon as it is to stop.
    stop: watch::Receiver<Option<Text>>,
    /// Arrivals since its own data were last looked for.
    in_a_row: u32,
}

/// A party's own data.
enum Own<O> {
    /// It has them from the beginning.
    None,
    Coming(mpsc::Receiver<O>),
    Ended,
}

/// Arrivals that may come before own data that are there.
const MOST_IN_A_ROW: u32 = 100;

/// Runs a party until it has ended.
pub fn drive<P: Party>(
    runtime: &Handle,
    clock: &Clock,
    (party, heads): (&mut P, &mut Heads),
    outlet: &impl Outlet<P::Message>,
    inputs: &mut Inputs<P::Arrival, P::Own>,
    watch: &mut impl Watch<P>,
) -> Result<(), NotAdmitted>
where
    P::Arrival: Heard,
    P::Message: CarriesHeads,
{
    let mut ticks = Ticks::every(P::TICK);
    loop {
        let mut out = Vec::new();
        let reason = inputs.stop.borrow().clone();
        if let Some(reason) = reason {
            out.extend(party.stop(clock.now(), reason));
        } else if let Own::Ended = inputs.own {
            out.extend(party.own_ended(clock.now()));
        }
        if !party.has_ended() {
            match runtime.block_on(inputs.next(ticks.left())) {
                Next::Arrived(arrival) => {
                    watch.arrival(&arrival);
                    match heads.hear(party, clock.now(), &arrival) {
                        Some(answers) => out.extend(answers),
                        None => out.extend(clock.during::<P, _>(|now| party.arrive(now, arrival))?),
                    }
                }
                Next::Own(own) => out.extend(clock.during::<P, _>(|now| party.own(now, own))),
                Next::Nothing => {}
            }
            // Who has spoken while we computed is heard before anybody counts as silent.
            if ticks.due(inputs.arrivals.is_empty()) {
                out.extend(clock.during::<P, _>(|now| party.tick(now)));
            }
        }
        if !party.has_ended() {
            // First: what it says besides may be the last that its peer waits for.
            let asked = heads.after(party, clock.now(), &out);
            out.splice(0..0, asked);
        }
        for message in &out {
            outlet.send(message);
        }
        watch.look(party);
        if party.has_ended() {
            return Ok(());
        }
    }
}

/// How often parties that train hear that time has passed.
const TRAINING_TICK: Duration = Duration::from_millis(50);
/// Deadlines of live steps are met to within this.
const LIVE_TICK: Duration = Duration::from_millis(20);
/// Why a live party stops by itself.
const RECORDS_ENDED: &str = "its records have ended";

/// What a host that trains hears of an arrival: a guest that is gone is missed when it is silent, and introduces itself when it is back.
fn message_of_guest(arrival: Arrival) -> Option<(PartyId, ToHost)> {
    match arrival {
        Arrival::Message(from, message) => return Some((from, message)),
        Arrival::Connected(_) => {}
        Arrival::Disconnected(guest, reason) => debug!(%guest, "disconnected: {reason}"),
    }
    None
}

/// Whether a guest has a new connection. Without one it has nobody to talk to, but it does lose patience.
fn admitted(arrival: &Dialled) -> Result<bool, NotAdmitted> {
    match arrival {
        Dialled::Connected => return Ok(true),
        Dialled::Message(_) => {}
        Dialled::Disconnected(reason) => debug!("disconnected: {reason}"),
        Dialled::Refused(reason) => return Err(NotAdmitted(reason.clone())),
    }
    Ok(false)
}

/// What every party does by a method of its own with the same name.
macro_rules! by_its_own_methods {
    ($message:ty) => {
        type Message = $message;

        fn tick(&mut self, now: Now) -> Vec<Released<$message>> {
            Self::tick(self, now)
        }

        fn stop(&mut self, now: Now, reason: Text) -> Vec<Released<$message>> {
            Self::stop(self, now, reason)
        }

        fn ledger_mut(&mut self) -> &mut Ledger {
            Self::ledger_mut(self)
        }
    };
}

/// The same of a host that trains, which has all of its own data.
macro_rules! training_host {
    () => {
        type Arrival = Arrival;
        type Own = Infallible;
        const TICK: Duration = TRAINING_TICK;
        const CLOCK_STOPS: bool = true;
        by_its_own_methods!(ToGuest);

        fn arrive(
            &mut self,
            now: Now,
            arrival: Arrival,
        ) -> Result<Vec<Released<ToGuest>>, NotAdmitted> {
            let message = message_of_guest(arrival);
            Ok(message.map_or_else(Vec::new, |(from, message)| self.handle(now, &from, message)))
        }
    };
}

/// The same of a live host, whose own data come step by step.
macro_rules! live_host {
    ($model:ident) => {
        type Arrival = Arrival;
        type Own = (Step, $model::Own);
        const TICK: Duration = LIVE_TICK;
        const CLOCK_STOPS: bool = false;
        by_its_own_methods!(ToGuest);

        fn arrive(
            &mut self,
            now: Now,
            arrival: Arrival,
        ) -> Result<Vec<Released<ToGuest>>, NotAdmitted> {
            Ok(match arrival {
                Arrival::Message(from, message) => self.handle(now, &from, message),
                Arrival::Connected(guest) => self.connection(now, &guest, true),
                Arrival::Disconnected(guest, _) => self.connection(now, &guest, false),
            })
        }

        fn own(&mut self, now: Now, (step, own): Self::Own) -> Vec<Released<ToGuest>> {
            self.open(now, step, own)
        }

        /// Ends once the last step is estimated.
        fn own_ended(&mut self, now: Now) -> Vec<Released<ToGuest>> {
            if self.is_waiting() { Vec::new() } else { self.stop(now, Text::of(RECORDS_ENDED)) }
        }

        fn has_ended(&self) -> bool {
            self.ended().is_some()
        }
    };
}

/// The same of any guest.
macro_rules! guest {
    () => {
        type Arrival = Dialled;
        by_its_own_methods!(ToHost);

        fn arrive(
            &mut self,
            now: Now,
            arrival: Dialled,
        ) -> Result<Vec<Released<ToHost>>, NotAdmitted> {
            Ok(match arrival {
                Dialled::Message(message) => self.handle(now, message),
                other if admitted(&other)? => self.connected(now),
                _ => Vec::new(),
            })
        }
    };
}

impl<M: HostModel, S: Store> Party for Host<M, S> {
    training_host!();

    fn has_ended(&self) -> bool {
        self.ended().is_some()
    }
}

impl<S: Store> Party for SumHost<S> {
    training_host!();

    fn has_ended(&self) -> bool {
        SumHost::has_ended(self)
    }
}

impl<M: GuestModel, S: Store> Party for Guest<M, S> {
    type Own = Infallible;
    const TICK: Duration = TRAINING_TICK;
    const CLOCK_STOPS: bool = true;
    guest!();

    fn has_ended(&self) -> bool {
        self.ended().is_some()
    }
}

impl Party for SumGuest {
    type Own = Infallible;
    const TICK: Duration = TRAINING_TICK;
    const CLOCK_STOPS: bool = true;
    guest!();

    fn has_ended(&self) -> bool {
        SumGuest::has_ended(self)
    }
}

impl<M: LiveModel> Party for LiveHost<M> {
    live_host!(M);
}

impl<M: LiveSumModel> Party for LiveSumHost<M> {
    live_host!(M);
}

impl Party for LiveGuest {
    type Own = (Step, Vec<f32>);
    const TICK: Duration = LIVE_TICK;
    const CLOCK_STOPS: bool = false;
    guest!();

    fn own(&mut self, now: Now, (step, own): Self::Own) -> Vec<Released<ToHost>> {
        self.embedding(now, step, own)
    }

    fn own_ended(&mut self, now: Now) -> Vec<Released<ToHost>> {
        self.stop(now, Text::of(RECORDS_ENDED))
    }

    fn has_ended(&self) -> bool {
        self.ended().is_some()
    }
}

impl Party for LiveSumGuest {
    type Own = (Step, Vec<u64>);
    const TICK: Duration = LIVE_TICK;
    const CLOCK_STOPS: bool = false;
    guest!();

    fn own(&mut self, now: Now, (step, own): Self::Own) -> Vec<Released<ToHost>> {
        self.totals(now, step, own)
    }

    fn own_ended(&mut self, now: Now) -> Vec<Released<ToHost>> {
        self.stop(now, Text::of(RECORDS_ENDED))
    }

    fn has_ended(&self) -> bool {
        self.ended().is_some()
    }
}

impl Outlet<ToGuest> for GrpcListener {
    fn send(&self, message: &Released<ToGuest>) {
        GrpcListener::send(self, message);
    }
}

impl Outlet<ToHost> for HostConnection {
    fn send(&self, message: &Released<ToHost>) {
        HostConnection::send(self, message);
    }
}

/// Shows a guest and whether it is connected to its host.
pub struct WatchGuest<F> {
    look: F,
    connected: bool,
}

impl<F> WatchGuest<F> {
    /// Calls a function several times a second.
    pub fn new(look: F) -> Self {
        Self { look, connected: false }
    }
}

impl<P: Party<Arrival = Dialled>, F: FnMut(&mut P, bool)> Watch<P> for WatchGuest<F> {
    fn arrival(&mut self, arrival: &Dialled) {
        match arrival {
            Dialled::Connected => self.connected = true,
            Dialled::Disconnected(_) | Dialled::Refused(_) => self.connected = false,
            Dialled::Message(_) => {}
        }
    }

    fn look(&mut self, party: &mut P) {
        (self.look)(party, self.connected);
    }
}

/// Reads the clocks.
pub struct Clock {
    began: Instant,
    /// Nanoseconds in which it stood still.
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

    /// Lets a party do something, during which this clock may stand still.
    fn during<P: Party, T>(&self, work: impl FnOnce(Now) -> T) -> T {
        if P::CLOCK_STOPS { self.stopped(work) } else { work(self.now()) }
    }

    fn stopped<T>(&self, work: impl FnOnce(Now) -> T) -> T {
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

/// When time is to pass.
struct Ticks {
    every: Duration,
    last: Option<Instant>,
    /// Arrivals that were taken since it was due.
    put_off: u32,
}

/// A crowd that never stops talking does not stop time.
const MOST_PUT_OFF: u32 = 1000;

impl Ticks {
    fn every(every: Duration) -> Self {
        Self { every, last: None, put_off: 0 }
    }

    /// Whether time is to pass now. If there is still something to be heard, that comes first.
    fn due(&mut self, all_heard: bool) -> bool {
        if !self.left().is_zero() {
            return false;
        }
        if !all_heard && self.put_off < MOST_PUT_OFF {
            self.put_off += 1;
            return false;
        }
        (self.last, self.put_off) = (Some(Instant::now()), 0);
        true
    }

    fn left(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |last| self.every.saturating_sub(last.elapsed()))
    }
}

enum Next<A, O> {
    Arrived(A),
    Own(O),
    Nothing,
}

impl<A> Inputs<A, Infallible> {
    /// Of a party that trains.
    pub fn new(arrivals: mpsc::Receiver<A>, stop: watch::Receiver<Option<Text>>) -> Self {
        Self { arrivals, own: Own::None, stop, in_a_row: 0 }
    }
}

impl<A, O> Inputs<A, O> {
    /// Of a live party, whose own data come step by step.
    pub fn live(
        arrivals: mpsc::Receiver<A>,
        own: mpsc::Receiver<O>,
        stop: watch::Receiver<Option<Text>>,
    ) -> Self {
        Self { arrivals, own: Own::Coming(own), stop, in_a_row: 0 }
    }

    /// The next thing that happens, or nothing for a while. What has arrived goes first: an embedding must not be late
    /// because the host was busy. But not for ever: others who never stop talking do not keep a party from its own data.
    async fn next(&mut self, at_most: Duration) -> Next<A, O> {
        if self.in_a_row >= MOST_IN_A_ROW {
            self.in_a_row = 0;
            if let Own::Coming(own) = &mut self.own
                && let Ok(own) = own.try_recv()
            {
                return Next::Own(own);
            }
        }
        let next = tokio::select! {
            biased;
            Some(arrived) = self.arrivals.recv() => Next::Arrived(arrived),
            own = self.own.recv() => match own {
                Some(own) => Next::Own(own),
                None => {
                    self.own = Own::Ended;
                    Next::Nothing
                }
            },
            () = tokio::time::sleep(at_most) => Next::Nothing,
        };
        self.in_a_row = if matches!(next, Next::Arrived(_)) { self.in_a_row + 1 } else { 0 };
        next
    }
}

impl<O> Own<O> {
    /// The next data; none if they have ended just now.
    async fn recv(&mut self) -> Option<O> {
        match self {
            Self::Coming(own) => own.recv().await,
            Self::None | Self::Ended => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
