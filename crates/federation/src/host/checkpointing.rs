//! All rounds are done: the host waits until every guest has stored the last trained state.

use std::time::Duration;

use protocol::message::{Resume, ResumeState, ToGuest};
use protocol::party::PartyId;

use super::run::Run;
use super::{HostContext, Phase, Transition};
use crate::error::PartyError;
use crate::store::Store;

/// See the [module](self).
pub(super) struct Checkpointing<M> {
    pub run: Run<M>,
    since: Duration,
}

impl<M> Checkpointing<M> {
    pub(super) fn enter<S: Store>(
        run: Run<M>,
        context: &mut HostContext<M, S>,
    ) -> (Phase<M>, Transition) {
        let phase = Self { run, since: context.guests.now() };
        let next = phase.finish_if_stored(context);
        (Phase::Checkpointing(phase), next)
    }

    pub(super) fn finish_if_stored<S: Store>(&self, context: &HostContext<M, S>) -> Transition {
        if self.without_checkpoint(context).is_empty() {
            Transition::Finish
        } else {
            Transition::Stay
        }
    }

    /// Guests that may not have stored the last trained state yet.
    fn without_checkpoint<S: Store>(&self, context: &HostContext<M, S>) -> Vec<PartyId> {
        let (done, trained) = (self.run.done, self.run.trained());
        // Whoever answered a later round had stored it before.
        let may_lack = done == trained;
        context.guests.those(|guest, _| {
            may_lack && (guest.present || !context.skips()) && guest.checkpoint < Some(trained)
        })
    }

    /// Says again how the last round ended, until the limit.
    pub(super) fn tick<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<Transition, PartyError> {
        let limit = context.guests.timing().limit;
        for party in self.without_checkpoint(context) {
            if context.guests.lasted(self.since, limit) {
                return Err(context.absent_too_long(&party, self.since));
            }
            let present = context.guests.get(&party).is_some_and(|guest| guest.present);
            if present && context.guests.is_silent(&party) {
                context.miss(&party);
                if let next @ Transition::Finish = self.proceed_without(context, &party)? {
                    return Ok(next);
                }
            } else if context.guests.resend_due(&party) {
                let message = self.run.closed_for(&party).unwrap_or(ToGuest::HelloRequest);
                context.guests.ask(&party, message)?;
            }
        }
        Ok(Transition::Stay)
    }

    pub(super) fn proceed_without<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
        party: &PartyId,
    ) -> Result<Transition, PartyError> {
        context.check_absence(party)?;
        Ok(self.finish_if_stored(context))
    }

    /// A guest introduces itself after the last round.
    pub(super) fn rejoin<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
        party: &PartyId,
        resume_state: &ResumeState,
    ) -> Result<Transition, PartyError> {
        let (trained, done) = (self.run.trained(), self.run.done);
        let resume = match self.run.resume_after_training(resume_state, context.skips()) {
            Some(resume) => resume,
            None => {
                let in_memory = self.run.in_memory(resume_state);
                let Some(round) = in_memory.filter(|r| r.precedes(done) && done == trained) else {
                    return Ok(Transition::GatherAgain(party.clone()));
                };
                context.welcome(party, &self.run.record, Resume::AtRound(round))?;
                return match self.run.closed_for(party) {
                    Some(message) => {
                        context.guests.say(party, message)?;
                        Ok(Transition::Stay)
                    }
                    None => Ok(Transition::GatherAgain(party.clone())),
                };
            }
        };
        context.welcome(party, &self.run.record, resume)?;
        if let Some(guest) = context.guests.get_mut(party) {
            guest.checkpoint = Some(trained);
        }
        Ok(self.finish_if_stored(context))
    }
}
