//! Every guest has stored the last trained state: each is told, and confirms that it is done.

use std::time::Duration;

use protocol::message::{Departure, ResumeState, ToGuest};
use protocol::party::PartyId;
use protocol::plan::Summary;

use super::run::Run;
use super::{Event, HostContext, Transition};
use crate::error::PartyError;
use crate::guest::write_record;
use crate::store::Store;

/// See the [module](self).
pub(super) struct Finishing<M> {
    pub run: Run<M>,
    pub summary: Summary,
    pub since: Duration,
}

impl<M> Finishing<M> {
    pub(super) fn enter<S: Store>(
        mut run: Run<M>,
        context: &mut HostContext<M, S>,
    ) -> Result<Self, PartyError> {
        let best = run.schedule.best();
        let summary = Summary {
            rounds: run.done,
            epochs: run.history().len() as u32,
            best_epoch: best.map_or(0, |best| best.number),
            validation: best.map_or(0.0, |best| best.validation),
        };
        run.record.finished = Some(summary.clone());
        write_record(&mut context.store, &run.record)?;
        let phase = Self { run, summary, since: context.guests.now() };
        let everyone: Vec<PartyId> = context.guests.parties().cloned().collect();
        everyone.iter().try_for_each(|party| phase.tell(context, party))?;
        Ok(phase)
    }

    fn tell<S: Store>(
        &self,
        context: &mut HostContext<M, S>,
        party: &PartyId,
    ) -> Result<(), PartyError> {
        // A guest that was absent must hear what it has missed first.
        if context.skips() && context.guests.get(party).is_some_and(|guest| !guest.present) {
            return Ok(context.guests.request_hello(party)?);
        }
        let (run, attempt) = (self.run.record.run, self.run.record.attempt);
        let finish = ToGuest::Finish { run, attempt, summary: self.summary.clone() };
        Ok(context.guests.ask(party, finish)?)
    }

    pub(super) fn tick<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<Transition, PartyError> {
        for party in context.guests.those(|guest, _| !guest.finished) {
            if context.guests.resend_due(&party) {
                self.tell(context, &party)?;
            }
        }
        // The model is complete: a guest that does not confirm is reported, not waited for.
        let over = context.guests.lasted(self.since, context.guests.timing().silence);
        Ok(if over { Transition::End } else { Transition::Stay })
    }

    /// A guest says that it is done.
    pub(super) fn confirm<S: Store>(
        &self,
        context: &mut HostContext<M, S>,
        from: &PartyId,
    ) -> Transition {
        if let Some(guest) = context.guests.get_mut(from).filter(|guest| !guest.finished) {
            guest.finished = true;
            context.events.push(Event::Left(from.clone(), Departure::Finished));
        }
        let all = context.guests.iter().all(|(_, guest)| guest.finished);
        if all { Transition::End } else { Transition::Stay }
    }

    /// A guest introduces itself after the run.
    pub(super) fn rejoin<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
        party: &PartyId,
        resume_state: &ResumeState,
    ) -> Result<Transition, PartyError> {
        // All had stored the last state before anyone was told to finish: a hello without it is an old one.
        if let Some(resume) = self.run.resume_after_training(resume_state, context.skips()) {
            context.welcome(party, &self.run.record, resume)?;
            if let Some(guest) = context.guests.get_mut(party) {
                guest.checkpoint = Some(self.run.trained());
            }
            self.tell(context, party)?;
        }
        Ok(Transition::Stay)
    }
}
