//! How a run ends: everyone has kept the last trained state, everyone is told, everyone leaves.

use std::time::Duration;

use protocol::message::SPENT;
use protocol::message::parts::Text;
use protocol::message::{Departure, Exchange, Resume, Standing, ToGuest};
use protocol::party::{Now, PartyId, Round};
use protocol::plan::Summary;

use super::{Absent, Event, Host, Stage, ToGuestOutbox, write_card};
use crate::error::PartyError;
use crate::model::HostModel;
use crate::store::Store;
use crate::timing::lasted;

impl<M: HostModel, S: Store> Host<M, S> {
    /// All rounds are done.
    pub(super) fn close(&mut self, now: Now, out: &mut ToGuestOutbox) -> Result<(), PartyError> {
        self.stage = Stage::Closing(now.monotonic);
        self.finish_if_kept(now, out)
    }

    pub(super) fn kept(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.seated(now, from, exchange, out)? {
            return Ok(());
        }
        let done = self.round();
        if exchange.round > done {
            let what = format!("it kept round {}, but only {done} are done", exchange.round);
            return Err(PartyError::misbehaved(from, what));
        }
        if let Some(seat) = self.seats.get_mut(from) {
            seat.kept = seat.kept.max(Some(exchange.round));
        }
        self.finish_if_kept(now, out)
    }

    /// Guests that may not have kept the last trained state yet.
    fn unkept(&self) -> Vec<PartyId> {
        let (done, trained) = (self.round(), self.trained());
        // Whoever answered a later round had kept it before.
        let skip = self.settings.absent == Absent::Skip;
        self.seats
            .iter()
            .filter(|(_, seat)| seat.present || !skip)
            .filter(|(_, seat)| done == trained && seat.kept < Some(trained))
            .map(|(party, _)| party.clone())
            .collect()
    }

    fn trained(&self) -> Round {
        let running = self.running.as_ref();
        running.and_then(|running| running.trained).unwrap_or(Round::START)
    }

    fn finish_if_kept(&mut self, now: Now, out: &mut ToGuestOutbox) -> Result<(), PartyError> {
        if !matches!(self.stage, Stage::Closing(_)) || !self.unkept().is_empty() {
            return Ok(());
        }
        let Some(running) = &self.running else { return Ok(()) };
        let best = running.course.best();
        let summary = Summary {
            rounds: running.done,
            epochs: running.course.history().len() as u32,
            best_epoch: best.map_or(0, |best| best.number),
            validation: best.map_or(0.0, |best| best.validation),
        };
        if let Some(card) = &mut self.card {
            card.finished = Some(summary);
            write_card(&mut self.store, card)?;
        }
        self.stage = Stage::Finishing(now.monotonic);
        let everyone: Vec<PartyId> = self.seats.keys().cloned().collect();
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
        let skip = self.settings.absent == Absent::Skip;
        if let Some(seat) = self.seats.get_mut(party) {
            seat.asked = now.monotonic;
            // Whoever was away must hear what it has missed first.
            if skip && !seat.present {
                return self.say(now, party, ToGuest::Call, out);
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
        for party in self.unkept() {
            if lasted(since, now.monotonic, timing.limit) {
                return Err(self.away(now, &party, since));
            }
            let Some(seat) = self.seats.get_mut(&party) else { continue };
            if seat.present && lasted(seat.heard, now.monotonic, timing.silence) {
                seat.present = false;
                self.events.push(Event::Missed(party.clone()));
                self.without(now, &party, out)?;
                self.finish_if_kept(now, out)?;
            } else if lasted(seat.asked, now.monotonic, timing.resend) {
                seat.asked = now.monotonic;
                let settled = self.running.as_ref().and_then(|running| running.settled.as_ref());
                let message = settled.and_then(|settled| settled.messages.get(&party)).cloned();
                self.say(now, &party, message.unwrap_or(ToGuest::Call), out)?;
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
            .seats
            .iter()
            .filter(|(_, seat)| !seat.finished && lasted(seat.asked, now.monotonic, timing.resend))
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
        standing: &Standing,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (trained, done) = (self.trained(), self.round());
        let attempt = self.card.as_ref().map(|card| card.attempt);
        let skip = self.settings.absent == Absent::Skip;
        let has_it = standing.kept.contains(&trained);
        let live = standing.live.filter(|(its, _)| Some(*its) == attempt).map(|(_, round)| round);
        let resume = match live {
            Some(round) if has_it && round >= trained => Resume::Exactly(round),
            _ if has_it => Resume::Exactly(trained),
            _ if skip => self.missed_by(standing),
            // All had kept it before anyone was told to finish: this greeting is an old one.
            _ if matches!(self.stage, Stage::Finishing(_)) => return Ok(()),
            Some(round) if round.precedes(done) && done == trained => {
                self.welcome(now, party, Resume::Exactly(round), out)?;
                let settled = self.running.as_ref().and_then(|running| running.settled.as_ref());
                return match settled.and_then(|settled| settled.messages.get(party)).cloned() {
                    Some(message) => self.say(now, party, message, out),
                    None => self.gather_again(now, party, out),
                };
            }
            _ => return self.gather_again(now, party, out),
        };
        self.welcome(now, party, resume, out)?;
        if let Some(seat) = self.seats.get_mut(party) {
            seat.kept = Some(trained);
        }
        if matches!(self.stage, Stage::Finishing(_)) {
            return self.tell_finish(now, party, out);
        }
        self.finish_if_kept(now, out)
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
        let Some(seat) = self.seats.get_mut(from) else { return Ok(()) };
        if departure == Departure::Finished {
            if !finishing {
                let what = "it has finished a run that has not ended";
                return Err(PartyError::misbehaved(from, what));
            }
            if !seat.finished {
                seat.finished = true;
                self.events.push(Event::Left(from.clone(), departure));
            }
            if self.seats.values().all(|seat| seat.finished) {
                self.stage = Stage::Finished;
            }
            return Ok(());
        }
        if session != seat.session {
            return Ok(());
        }
        seat.present = false;
        seat.hello = None;
        seat.reason = Some(match &departure {
            Departure::Failed(reason) => reason.clone(),
            _ => Text::of("it was told to stop"),
        });
        // Who gives no more products never will: there is nobody to wait for.
        let spent = departure == Departure::Failed(Text::of(SPENT));
        self.events.push(Event::Left(from.clone(), departure));
        if spent && self.settings.absent != Absent::Skip {
            return Err(PartyError::Spent { party: from.clone() });
        }
        self.without(now, from, out)
    }
}
