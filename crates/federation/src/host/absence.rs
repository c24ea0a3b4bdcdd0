//! Guests that are slow or away, as the host sees them.

use std::time::Duration;

use protocol::party::{Now, PartyId};

use super::{Absent, Event, Host, Stage, ToGuestOutbox};
use crate::error::PartyError;
use crate::model::HostModel;
use crate::store::Store;
use crate::timing::lasted;

impl<M: HostModel, S: Store> Host<M, S> {
    /// Asks again those who are slow, and does what the policy says without those who are away.
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
            self.seats.keys().filter(|party| !open.has_answered(party)).cloned().collect();
        for party in waiting {
            let Some(seat) = self.seats.get_mut(&party) else { continue };
            // First, so that one who leaves and comes back all the time does not escape it.
            if lasted(since, now.monotonic, timing.limit) {
                return Err(self.away(now, &party, since));
            }
            let silent = lasted(seat.heard, now.monotonic, timing.silence);
            let late = lasted(since, now.monotonic, timing.silence);
            let skips = self.settings.absent == Absent::Skip;
            if seat.present && (silent || late && skips) {
                seat.present = false;
                self.events.push(Event::Missed(party.clone()));
                self.without(now, &party, out)?;
            } else if lasted(seat.asked, now.monotonic, timing.resend) && (seat.present || !skips) {
                // Whoever has not spoken since it was welcomed may not know of it.
                if !seat.spoke {
                    self.call(now, &party, out)?;
                    continue;
                }
                self.ask(now, &party, out)?;
            }
        }
        Ok(())
    }

    /// What the policy says without a guest.
    pub(super) fn without(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let begun = !matches!(self.stage, Stage::Gathering(_) | Stage::Finishing(_));
        match self.settings.absent {
            Absent::Stop if begun => {
                let heard = self.seats.get(party).map_or(now.monotonic, |seat| seat.heard);
                Err(self.away(now, party, heard))
            }
            Absent::Skip => self.settle_if_answered(now, out),
            Absent::Wait | Absent::Stop => Ok(()),
        }
    }

    pub(super) fn away(&self, now: Now, party: &PartyId, since: Duration) -> PartyError {
        let seconds = now.monotonic.saturating_sub(since).as_secs_f64();
        let reason = self.seats.get(party).and_then(|seat| seat.reason.clone());
        PartyError::Absent { party: party.clone(), seconds, reason }
    }
}
