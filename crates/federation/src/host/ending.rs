//! How a run ends: everyone has kept the last trained state, everyone is told, everyone leaves.

use std::time::Duration;

use protocol::message::{Departure, Exchange, Resume, ResumeState, StopCode, StopReason, ToGuest};
use protocol::party::{Now, PartyId, Round};
use protocol::plan::Summary;

use super::{AbsencePolicy, Event, Host, Stage, ToGuestOutbox, write_card};
use crate::error::PartyError;
use crate::model::HostModel;
use crate::store::Store;
use crate::timing::lasted;

impl<M: HostModel, S: Store> Host<M, S> {
    /// All rounds are done.
    pub(super) fn close(&mut self, now: Now, out: &mut ToGuestOutbox) -> Result<(), PartyError> {
        self.stage = Stage::Closing(now.monotonic);
        self.finish_if_checkpointed(now, out)
    }

    pub(super) fn checkpointed(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.takes_part(now, from, exchange, out)? {
            return Ok(());
        }
        let done = self.round();
        if exchange.round > done {
            let what = format!("it kept round {}, but only {done} are done", exchange.round);
            return Err(PartyError::misbehaved(from, what));
        }
        if let Some(guest) = self.sessions.get_mut(from) {
            guest.kept = guest.kept.max(Some(exchange.round));
        }
        self.finish_if_checkpointed(now, out)
    }

    /// Guests that may not have kept the last trained state yet.
    fn without_checkpoint(&self) -> Vec<PartyId> {
        let (done, trained) = (self.round(), self.trained());
        // Whoever answered a later round had kept it before.
        let skip = self.settings.absent == AbsencePolicy::Skip;
        self.sessions
            .iter()
            .filter(|(_, guest)| guest.present || !skip)
            .filter(|(_, guest)| done == trained && guest.kept < Some(trained))
            .map(|(party, _)| party.clone())
            .collect()
    }

    fn trained(&self) -> Round {
        let running = self.running.as_ref();
        running.and_then(|running| running.trained).unwrap_or(Round::START)
    }

    fn finish_if_checkpointed(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !matches!(self.stage, Stage::Closing(_)) || !self.without_checkpoint().is_empty() {
            return Ok(());
        }
        let Some(running) = &self.running else { return Ok(()) };
        let best = running.schedule.best();
        let summary = Summary {
            rounds: running.done,
            epochs: running.schedule.history().len() as u32,
            best_epoch: best.map_or(0, |best| best.number),
            validation: best.map_or(0.0, |best| best.validation),
        };
        if let Some(card) = &mut self.card {
            card.finished = Some(summary);
            write_card(&mut self.store, card)?;
        }
        self.stage = Stage::Finishing(now.monotonic);
        let everyone: Vec<PartyId> = self.sessions.keys().cloned().collect();
        everyone.iter().try_for_each(|party| self.tell_finish(now, party, out))
    }

    fn tell_finish(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let Some(card) = &self.card else { return Ok(()) };
        let (run, attempt) = (card.run, card.attempt);
        let Some(summary) = card.finished.clone() else { return Ok(()) };
        let skip = self.settings.absent == AbsencePolicy::Skip;
        if let Some(guest) = self.sessions.get_mut(party) {
            guest.asked = now.monotonic;
            // Whoever was absent_too_long must hear what it has missed first.
            if skip && !guest.present {
                return self.say(now, party, ToGuest::HelloRequest, out);
            }
        }
        self.say(now, party, ToGuest::Finish { run, attempt, summary }, out)
    }

    pub(super) fn close_on(
        &mut self,
        now: Now,
        since: Duration,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let timing = self.settings.timing;
        for party in self.without_checkpoint() {
            if lasted(since, now.monotonic, timing.limit) {
                return Err(self.absent_too_long(now, &party, since));
            }
            let Some(guest) = self.sessions.get_mut(&party) else { continue };
            if guest.present && lasted(guest.heard, now.monotonic, timing.silence) {
                guest.present = false;
                self.events.push(Event::Missed(party.clone()));
                self.proceed_without(now, &party, out)?;
                self.finish_if_checkpointed(now, out)?;
            } else if lasted(guest.asked, now.monotonic, timing.resend) {
                guest.asked = now.monotonic;
                let closed = self.running.as_ref().and_then(|running| running.closed.as_ref());
                let message = closed.and_then(|closed| closed.messages.get(&party)).cloned();
                self.say(now, &party, message.unwrap_or(ToGuest::HelloRequest), out)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish_on(
        &mut self,
        now: Now,
        since: Duration,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let timing = self.settings.timing;
        let due: Vec<PartyId> = self
            .sessions
            .iter()
            .filter(|(_, guest)| {
                !guest.finished && lasted(guest.asked, now.monotonic, timing.resend)
            })
            .map(|(party, _)| party.clone())
            .collect();
        for party in &due {
            self.tell_finish(now, party, out)?;
        }
        // The model is complete: a guest that does not confirm is reported, not waited for.
        if lasted(since, now.monotonic, timing.silence) {
            self.stage = Stage::Finished;
        }
        Ok(())
    }

    /// A guest greets after the last round.
    pub(super) fn rejoin_late(
        &mut self,
        now: Now,
        party: &PartyId,
        resume_state: &ResumeState,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (trained, done) = (self.trained(), self.round());
        let attempt = self.card.as_ref().map(|card| card.attempt);
        let skip = self.settings.absent == AbsencePolicy::Skip;
        let has_it = resume_state.checkpoints.contains(&trained);
        let live =
            resume_state.in_memory.filter(|(its, _)| Some(*its) == attempt).map(|(_, round)| round);
        let resume = match live {
            Some(round) if has_it && round >= trained => Resume::AtRound(round),
            _ if has_it => Resume::AtRound(trained),
            _ if skip => self.missed_by(resume_state),
            // All had kept it before anyone was told to finish: this greeting is an old one.
            _ if matches!(self.stage, Stage::Finishing(_)) => return Ok(()),
            Some(round) if round.precedes(done) && done == trained => {
                self.welcome(now, party, Resume::AtRound(round), out)?;
                let closed = self.running.as_ref().and_then(|running| running.closed.as_ref());
                return match closed.and_then(|closed| closed.messages.get(party)).cloned() {
                    Some(message) => self.say(now, party, message, out),
                    None => self.gather_again(now, party, out),
                };
            }
            _ => return self.gather_again(now, party, out),
        };
        self.welcome(now, party, resume, out)?;
        if let Some(guest) = self.sessions.get_mut(party) {
            guest.kept = Some(trained);
        }
        if matches!(self.stage, Stage::Finishing(_)) {
            return self.tell_finish(now, party, out);
        }
        self.finish_if_checkpointed(now, out)
    }

    pub(super) fn leave(
        &mut self,
        now: Now,
        from: &PartyId,
        session: u64,
        departure: Departure,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let finishing = matches!(self.stage, Stage::Finishing(_));
        let Some(guest) = self.sessions.get_mut(from) else { return Ok(()) };
        if departure == Departure::Finished {
            if !finishing {
                let what = "it has finished a run that has not ended";
                return Err(PartyError::misbehaved(from, what));
            }
            if !guest.finished {
                guest.finished = true;
                self.events.push(Event::Left(from.clone(), departure));
            }
            if self.sessions.values().all(|guest| guest.finished) {
                self.stage = Stage::Finished;
            }
            return Ok(());
        }
        if session != guest.session {
            return Ok(());
        }
        guest.present = false;
        guest.hello = None;
        guest.reason = Some(match &departure {
            Departure::Failed(reason) => reason.clone(),
            _ => StopReason::other("it was told to stop"),
        });
        // Who gives no more products never will: there is nobody to wait for.
        let spent =
            matches!(&departure, Departure::Failed(reason) if reason.code == StopCode::BudgetSpent);
        self.events.push(Event::Left(from.clone(), departure));
        if spent && self.settings.absent != AbsencePolicy::Skip {
            return Err(PartyError::BudgetSpent { party: from.clone() });
        }
        self.proceed_without(now, from, out)
    }
}
