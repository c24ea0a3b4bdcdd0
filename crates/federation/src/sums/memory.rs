//! Host and guests of sums in one process: messages arrive at once and in order, and no time passes.

use std::collections::BTreeMap;

use protocol::party::{Now, PartyId};

use super::{SumGuest, SumHost};
use crate::error::PartyError;
use crate::store::Store;

/// Sums until the host has ended.
///
/// # Errors
/// With why a guest has stopped; why the host has, it says itself.
pub fn run<S: Store>(
    host: &mut SumHost<S>,
    guests: &mut BTreeMap<PartyId, SumGuest>,
) -> Result<(), (PartyId, PartyError)> {
    let now = Now::default();
    let mut to_host = Vec::new();
    for (party, guest) in &mut *guests {
        to_host.extend(guest.tick(now).into_iter().map(|message| (party.clone(), message)));
    }
    while !(host.has_ended() || to_host.is_empty()) {
        let mut to_guests = Vec::new();
        for (from, message) in to_host.drain(..) {
            to_guests.extend(host.handle(now, &from, message.into_message()));
        }
        for message in to_guests {
            let to = message.recipient().clone();
            let Some(guest) = guests.get_mut(&to) else { continue };
            let answers = guest.handle(now, message.into_message());
            if guest.stopped().is_some() {
                let guest = guests.remove(&to);
                if let Some(error) = guest.and_then(SumGuest::into_stopped) {
                    return Err((to, error));
                }
                continue;
            }
            to_host.extend(answers.into_iter().map(|answer| (to.clone(), answer)));
        }
    }
    Ok(())
}
