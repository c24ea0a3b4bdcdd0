//! All parties in one process: the same rounds without a network.
//!
//! Messages are handed over one at a time, in the order in which they were sent, by a clock that
//! moves only when nobody has anything to say. So a run is a function of its settings.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime};

use protocol::ledger::Released;
use protocol::message::parts::Text;
use protocol::message::{ToGuest, ToHost};
use protocol::party::{Now, PartyId};
use protocol::plan::Summary;
use thiserror::Error;

use crate::guest::{Guest, GuestEnd};
use crate::host::{AbsencePolicy, Event, Host, HostEnd};
use crate::model::{GuestModel, HostModel};
use crate::store::Store;

/// How far the clock moves when nobody has anything to say.
const PAUSE: Duration = Duration::from_secs(1);

/// A run in memory that did not come to its end.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The host has stopped.
    #[error("the host has stopped: {0}")]
    Host(String),
    /// A guest has stopped.
    #[error("guest `{party}` has stopped: {reason}")]
    Guest {
        /// Who.
        party: PartyId,
        /// Why.
        reason: String,
    },
}

enum Sent {
    ToHost(PartyId, Released<ToHost>),
    ToGuest(Released<ToGuest>),
}

/// Runs host and guests until the host has finished. A guest that stops ends the run, unless the host does
/// without absent guests.
pub fn run<H: HostModel, G: GuestModel, S: Store, T: Store>(
    host: &mut Host<H, S>,
    guests: &mut BTreeMap<PartyId, Guest<G, T>>,
    mut watch: impl FnMut(&Event),
) -> Result<Summary, MemoryError> {
    run_until(host, guests, |event| {
        watch(event);
        None
    })
}

/// The same; the host stops as soon as it is given a reason to.
pub fn run_until<H: HostModel, G: GuestModel, S: Store, T: Store>(
    host: &mut Host<H, S>,
    guests: &mut BTreeMap<PartyId, Guest<G, T>>,
    mut watch: impl FnMut(&Event) -> Option<Text>,
) -> Result<Summary, MemoryError> {
    let mut monotonic = Duration::ZERO;
    let mut queue: VecDeque<Sent> = VecDeque::new();
    loop {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = Now { monotonic, unix };
        match queue.pop_front() {
            Some(Sent::ToHost(from, message)) => {
                let out = host.handle(now, &from, message.into_message());
                queue.extend(out.into_iter().map(Sent::ToGuest));
            }
            Some(Sent::ToGuest(message)) => {
                let to = message.recipient().clone();
                if let Some(guest) = guests.get_mut(&to) {
                    let out = guest.handle(now, message.into_message());
                    queue.extend(out.into_iter().map(|m| Sent::ToHost(to.clone(), m)));
                }
            }
            None => {
                for (party, guest) in guests.iter_mut() {
                    let out = guest.tick(now);
                    queue.extend(out.into_iter().map(|m| Sent::ToHost(party.clone(), m)));
                }
                let out = host.tick(now);
                queue.extend(out.into_iter().map(Sent::ToGuest));
                monotonic += PAUSE;
            }
        }
        for event in host.take_events() {
            if let Some(reason) = watch(&event) {
                let out = host.stop(now, reason);
                queue.extend(out.into_iter().map(Sent::ToGuest));
            }
        }
        if let Some(end) = ended(host, guests) {
            return end;
        }
    }
}

fn ended<H: HostModel, G: GuestModel, S: Store, T: Store>(
    host: &Host<H, S>,
    guests: &BTreeMap<PartyId, Guest<G, T>>,
) -> Option<Result<Summary, MemoryError>> {
    for (party, guest) in guests.iter().filter(|_| host.absent() != AbsencePolicy::Skip) {
        if let Some(GuestEnd::Stopped(error)) = guest.ended() {
            let (party, reason) = (party.clone(), error.to_string());
            return Some(Err(MemoryError::Guest { party, reason }));
        }
    }
    match host.ended()? {
        HostEnd::Finished(summary) => Some(Ok(summary.clone())),
        HostEnd::Stopped(error) => Some(Err(MemoryError::Host(error.to_string()))),
    }
}
