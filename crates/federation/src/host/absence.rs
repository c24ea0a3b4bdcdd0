//! Guests that are slow or absent_too_long, as the host sees them.

use std::time::Duration;

use protocol::party::{Now, PartyId};

use super::{AbsencePolicy, Event, Host, Stage, ToGuestOutbox};
use crate::error::PartyError;
use crate::model::HostModel;
use crate::store::Store;
use crate::timing::lasted;

impl<M: HostModel, S: Store> Host<M, S> {
    /// Asks again those who are slow, and does what the policy says without those who are absent_too_long.
    pub(super) fn wait_for_answers(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let timing = self.settings.timing;
        let Some(open) = self.running.as_ref().and_then(|running| running.open.as_ref()) else {
            return Ok(());
        };
        let since = open.since;
        let waiting: Vec<PartyId> =
            self.sessions.keys().filter(|party| !open.has_answered(party)).cloned().collect();
        for party in waiting {
            let Some(guest) = self.sessions.get_mut(&party) else { continue };
            // First, so that one who leaves and comes back all the time does not escape it.
            if lasted(since, now.monotonic, timing.limit) {
                return Err(self.absent_too_long(now, &party, since));
            }
            let silent = lasted(guest.heard, now.monotonic, timing.silence);
            let late = lasted(since, now.monotonic, timing.silence);
            let skips = self.settings.absent == AbsencePolicy::Skip;
            if guest.present && (silent || late && skips) {
                guest.present = false;
                self.events.push(Event::Missed(party.clone()));
                self.proceed_without(now, &party, out)?;
            } else if lasted(guest.asked, now.monotonic, timing.resend) && (guest.present || !skips)
            {
                // Whoever has not spoken since it was welcomed may not know of it.
                if !guest.spoke {
                    self.request_hello(now, &party, out)?;
                    continue;
                }
                self.ask(now, &party, out)?;
            }
        }
        Ok(())
    }

    /// What the policy says without a guest.
    pub(super) fn proceed_without(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let begun = !matches!(self.stage, Stage::Gathering(_) | Stage::Finishing(_));
        match self.settings.absent {
            AbsencePolicy::Stop if begun => {
                let heard = self.sessions.get(party).map_or(now.monotonic, |guest| guest.heard);
                Err(self.absent_too_long(now, party, heard))
            }
            AbsencePolicy::Skip => self.close_if_answered(now, out),
            AbsencePolicy::Wait | AbsencePolicy::Stop => Ok(()),
        }
    }

    pub(super) fn absent_too_long(&self, now: Now, party: &PartyId, since: Duration) -> PartyError {
        let seconds = now.monotonic.saturating_sub(since).as_secs_f64();
        let reason = self.sessions.get(party).and_then(|guest| guest.reason.clone());
        PartyError::Absent { party: party.clone(), seconds, reason }
    }
}
