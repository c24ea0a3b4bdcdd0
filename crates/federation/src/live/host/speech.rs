//! What the host says to its guests. Whoever makes it speak does so only so often: each word is a line
//! of the ledger, and a line of the log.

use std::time::Duration;

use protocol::message::{StopReason, ToGuest};
use protocol::party::{Now, PartyId};

use super::super::estimate::{LiveEvent, LiveModel};
use super::{LiveGuestSession, LiveHost, Outbox};
use crate::error::PartyError;
use crate::timing::lasted;

impl<M: LiveModel> LiveHost<M> {
    /// A guest that speaks but has not greeted is asked who it is.
    pub(super) fn request_hello_of_stranger(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut Outbox,
    ) -> Result<(), PartyError> {
        let resend = self.settings.timing.resend;
        let Some(guest) = self.sessions.get_mut(party) else { return Ok(()) };
        if guest.session.is_some() || !again(&mut guest.asked, now, resend) {
            return Ok(());
        }
        self.say(now, party, ToGuest::HelloRequest, out)
    }

    /// Whoever has no guest is told so.
    pub(super) fn turn_away(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut Outbox,
    ) -> Result<(), PartyError> {
        if !again(&mut self.turned_away, now, self.settings.timing.resend) {
            return Ok(());
        }
        let reason = StopReason::other(format!("`{party}` is not among the guests"));
        self.say(now, party, ToGuest::Refuse { session: 0, reason }, out)
    }

    /// Guests to whom nothing was said for a while hear that the host is still there.
    pub(super) fn heartbeats(&mut self, now: Now, out: &mut Outbox) -> Result<(), PartyError> {
        let timing = self.settings.timing;
        let quiet = |guest: &LiveGuestSession| {
            guest.is_present(now.monotonic, timing.silence)
                && lasted(guest.told, now.monotonic, timing.heartbeat)
        };
        let quiet: Vec<PartyId> = self
            .sessions
            .iter()
            .filter(|(_, guest)| quiet(guest))
            .map(|(party, _)| party.clone())
            .collect();
        quiet.iter().try_for_each(|party| self.say(now, party, ToGuest::Heartbeat, out))
    }

    pub(super) fn say(
        &mut self,
        now: Now,
        to: &PartyId,
        message: ToGuest,
        out: &mut Outbox,
    ) -> Result<(), PartyError> {
        out.push(self.ledger.release(now, to, message)?);
        if let Some(guest) = self.sessions.get_mut(to) {
            guest.told = now.monotonic;
        }
        Ok(())
    }

    /// A guest's fault is the guest's affair; anything else ends the host, and everyone is told.
    pub(super) fn stop_on_error(
        &mut self,
        now: Now,
        done: Result<(), PartyError>,
        out: &mut Outbox,
    ) {
        let mut result = done;
        if let Err(
            error @ (PartyError::PeerMisbehaved { party, .. }
            | PartyError::PeerIncompatible { party, .. }),
        ) = &result
        {
            let (party, reason) = (party.clone(), StopReason::other(error));
            result = self.refuse(now, &party, reason, out);
        }
        let Err(error) = result else { return };
        let reason = error.for_peers();
        let parties: Vec<PartyId> = self.sessions.keys().cloned().collect();
        for party in parties {
            // A ledger that cannot be written lets nothing out, not even this.
            let refuse = ToGuest::Refuse { session: 0, reason: reason.clone() };
            let _ = self.say(now, &party, refuse, out);
        }
        self.stopped = Some(self.ledger_sync.at_the_end(&mut self.ledger, error));
    }

    fn refuse(
        &mut self,
        now: Now,
        party: &PartyId,
        reason: StopReason,
        out: &mut Outbox,
    ) -> Result<(), PartyError> {
        let resend = self.settings.timing.resend;
        let Some(guest) = self.sessions.get_mut(party) else { return Ok(()) };
        guest.session = None;
        if again(&mut guest.refused, now, resend) {
            self.events.push(LiveEvent::Refused(party.clone(), reason.text.clone()));
            self.say(now, party, ToGuest::Refuse { session: 0, reason }, out)?;
        }
        // It is not waited for any longer.
        self.settle(now, out)
    }
}

/// Whether something that was last done then may be done again; if so, it is done now.
pub(super) fn again(last: &mut Option<Duration>, now: Now, every: Duration) -> bool {
    let may = last.is_none_or(|last| lasted(last, now.monotonic, every));
    if may {
        *last = Some(now.monotonic);
    }
    may
}
