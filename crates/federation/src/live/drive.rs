//! Runs a [`LiveHost`] or a [`LiveGuest`] over the network until it has ended.
//!
//! Own data come from another thread, over a channel; what the parties say goes over the same doors
//! and lines as in training.

use std::time::Duration;

use protocol::message::parts::Text;
use protocol::party::PartyId;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use traffic::Step;

use super::{LiveGuest, LiveHost, LiveModel};
use crate::grpc::dial::{Dialled, Line};
use crate::grpc::drive::{Clock, NotAdmitted};
use crate::grpc::listen::{Arrival, GrpcListener};

/// How often a state machine hears that time has passed: deadlines are kept to within this.
const TICK: Duration = Duration::from_millis(20);
/// Arrivals that may come before own data that are there.
const MOST_IN_A_ROW: u32 = 100;

/// What a live party hears.
pub struct Inputs<A, O> {
    /// From the network.
    pub arrivals: mpsc::Receiver<A>,
    /// Its own data, step by step.
    pub own: mpsc::Receiver<O>,
    /// Holds a reason as soon as it is to stop.
    pub stop: watch::Receiver<Option<Text>>,
}

/// What the people who run a live host see of it.
pub trait LiveWatch<M: LiveModel> {
    /// Something may have happened; [`LiveHost::take_events`] says what.
    fn look(&mut self, host: &mut LiveHost<M>);
    /// A guest's connection has come or gone.
    fn connection(&mut self, guest: &PartyId, connected: bool);
}

/// Runs a host until it is told to stop, or its own data have ended and the last step is settled.
pub fn run_live_host<M: LiveModel>(
    runtime: &Handle,
    clock: &Clock,
    host: &mut LiveHost<M>,
    door: &GrpcListener,
    inputs: &mut Inputs<Arrival, (Step, M::Own)>,
    watch: &mut impl LiveWatch<M>,
) {
    let (mut over, mut in_a_row) = (false, 0);
    loop {
        let mut out = Vec::new();
        if let Some(reason) = inputs.told_to_stop() {
            out.extend(host.stop(clock.now(), reason));
        } else if over && !host.is_waiting() {
            out.extend(host.stop(clock.now(), Text::of("its records have ended")));
        }
        if host.ended().is_none() {
            match runtime.block_on(inputs.next(over, &mut in_a_row)) {
                Next::Arrived(Arrival::Message(from, message)) => {
                    out.extend(host.handle(clock.now(), &from, message));
                }
                Next::Arrived(Arrival::Connected(guest)) => {
                    out.extend(host.connection(clock.now(), &guest, true));
                    watch.connection(&guest, true);
                }
                Next::Arrived(Arrival::Disconnected(guest, _)) => {
                    out.extend(host.connection(clock.now(), &guest, false));
                    watch.connection(&guest, false);
                }
                Next::Own((step, numbers)) => out.extend(host.open(clock.now(), step, numbers)),
                Next::OwnEnded => over = true,
                Next::Nothing => {}
            }
            out.extend(host.tick(clock.now()));
        }
        for message in &out {
            door.send(message);
        }
        watch.look(host);
        if host.ended().is_some() {
            return;
        }
    }
}

/// Runs a guest until it is told to stop, its own data have ended, or the host wants no more of it.
pub fn run_live_guest(
    runtime: &Handle,
    clock: &Clock,
    guest: &mut LiveGuest,
    line: &Line,
    inputs: &mut Inputs<Dialled, (Step, Vec<f32>)>,
    mut watch: impl FnMut(&LiveGuest, bool),
) -> Result<(), NotAdmitted> {
    let (mut over, mut connected, mut in_a_row) = (false, false, 0);
    loop {
        let mut out = Vec::new();
        if let Some(reason) = inputs.told_to_stop() {
            out.extend(guest.stop(clock.now(), reason));
        } else if over {
            out.extend(guest.stop(clock.now(), Text::of("its records have ended")));
        }
        if guest.ended().is_none() {
            match runtime.block_on(inputs.next(over, &mut in_a_row)) {
                Next::Arrived(Dialled::Message(message)) => {
                    out.extend(guest.handle(clock.now(), message));
                }
                Next::Arrived(Dialled::Connected) => {
                    connected = true;
                    out.extend(guest.connected(clock.now()));
                }
                Next::Arrived(Dialled::Disconnected(_)) => connected = false,
                Next::Arrived(Dialled::Refused(reason)) => return Err(NotAdmitted(reason)),
                Next::Own((step, numbers)) => {
                    out.extend(guest.embedding(clock.now(), step, numbers));
                }
                Next::OwnEnded => over = true,
                Next::Nothing => {}
            }
            out.extend(guest.tick(clock.now()));
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

enum Next<A, O> {
    Arrived(A),
    Own(O),
    OwnEnded,
    Nothing,
}

impl<A, O> Inputs<A, O> {
    fn told_to_stop(&self) -> Option<Text> {
        self.stop.borrow().clone()
    }

    /// The next thing that happens, or nothing for a while. What has arrived goes first: an
    /// embedding must not be late because the host was busy. But not for ever: others who never stop
    /// talking do not keep a party from its own data.
    async fn next(&mut self, over: bool, in_a_row: &mut u32) -> Next<A, O> {
        if *in_a_row >= MOST_IN_A_ROW {
            *in_a_row = 0;
            if let Ok(own) = self.own.try_recv() {
                return Next::Own(own);
            }
        }
        let next = tokio::select! {
            biased;
            Some(arrived) = self.arrivals.recv() => Next::Arrived(arrived),
            own = self.own.recv(), if !over => own.map_or(Next::OwnEnded, Next::Own),
            () = tokio::time::sleep(TICK) => Next::Nothing,
        };
        *in_a_row = if matches!(next, Next::Arrived(_)) { *in_a_row + 1 } else { 0 };
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_data_come_through_however_much_arrives() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let many = 3 * MOST_IN_A_ROW as usize;
        let (arriving, arrivals) = mpsc::channel(many);
        (0..many).for_each(|_| arriving.try_send(()).unwrap());
        let (to, own) = mpsc::channel(2);
        ["first", "second"].into_iter().for_each(|own| to.try_send(own).unwrap());
        let (_told, stop) = watch::channel(None);
        let mut inputs = Inputs { arrivals, own, stop };
        let mut in_a_row = 0;
        let mut heard = Vec::new();
        for _ in 0..many + 2 {
            heard.push(match runtime.block_on(inputs.next(false, &mut in_a_row)) {
                Next::Own(own) => own,
                Next::Arrived(()) => "arrived",
                Next::OwnEnded | Next::Nothing => "nothing",
            });
        }
        let own = heard.iter().enumerate().filter(|(_, what)| **what != "arrived");
        let most = MOST_IN_A_ROW as usize;
        assert_eq!(own.collect::<Vec<_>>(), [(most, &"first"), (2 * most + 1, &"second")]);
    }
}
