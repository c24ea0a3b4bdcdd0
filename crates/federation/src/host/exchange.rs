//! One exchange, as the host sees it: asked, answered by all, ended.

use std::collections::{BTreeMap, BTreeSet};

use protocol::message::parts::{Batch, Embedding};
use protocol::message::{Exchange, Purpose, Resume, Standing, ToGuest};
use protocol::party::{Now, PartyId, Round};
use traffic::Window;

use super::open_round::OpenRound;
use super::{Absent, Event, Furthest, Host, Kept, Stage, ToGuestOutbox};
use crate::error::{PartyError, differently_packed};
use crate::model::HostModel;
use crate::store::Store;

/// How the last exchange ended, for those who did not hear of it.
pub(super) struct Settlement {
    pub round: Round,
    pub messages: BTreeMap<PartyId, ToGuest>,
}

impl<M: HostModel, S: Store> Host<M, S> {
    /// Asks for the next samples of the course.
    pub(super) fn open_next(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (Some(card), Some(running)) = (&self.card, &mut self.running) else { return Ok(()) };
        let Some((purpose, samples)) = running.course.next() else { return self.close(now, out) };
        let samples: Vec<Window> = samples.to_vec();
        let exchange =
            Exchange { run: card.run, attempt: card.attempt, round: running.done.next() };
        let batch = Batch::new(samples).map_err(PartyError::misuse)?;
        let (answers, measured) = (BTreeMap::new(), BTreeMap::new());
        let (measuring, since) = (card.plan.measures(purpose), now.monotonic);
        let (uploaded, posed, first) = (BTreeSet::new(), None, None);
        running.open = Some(OpenRound {
            exchange,
            purpose,
            batch,
            answers,
            measuring,
            measured,
            uploaded,
            posed,
            first,
            since,
        });
        self.note_uploads();
        let everyone: Vec<PartyId> = self.seats.keys().cloned().collect();
        for party in everyone {
            if self.seats.get(&party).is_some_and(|seat| seat.present) {
                self.ask(now, &party, out)?;
            }
        }
        Ok(())
    }

    /// Asks a guest that has not answered yet.
    pub(super) fn ask(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let open = self.running.as_ref().and_then(|running| running.open.as_ref());
        let Some(open) = open.filter(|open| !open.has_answered(party)) else {
            return Ok(());
        };
        let exchange = open.exchange;
        let posed = open.posed.as_ref().map(|posed| posed.unanswered(party, exchange));
        let mut messages = posed.transpose()?.unwrap_or_default();
        if messages.is_empty() {
            messages.extend(self.commit_request(party)?);
        }
        if messages.is_empty() {
            let (purpose, batch, lacking) = (open.purpose, open.batch.clone(), self.lacking(party));
            messages.push(ToGuest::Ask { exchange, purpose, batch, lacking });
        }
        if let Some(seat) = self.seats.get_mut(party) {
            seat.asked = now.monotonic;
        }
        messages.into_iter().try_for_each(|message| self.say(now, party, message, out))
    }

    pub(super) fn embedding(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        purpose: Purpose,
        embedding: Embedding,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.seated(now, from, exchange, out)? {
            return Ok(());
        }
        if let Some(seat) = self.seats.get_mut(from) {
            seat.answers(exchange.attempt, exchange.round);
        }
        let owes = self.owes_commitments(from);
        let Some(running) = &mut self.running else { return Ok(()) };
        if let Some(settled) = running.settled.as_ref().filter(|s| s.round == exchange.round) {
            // It did not hear how that round ended.
            return match settled.messages.get(from).cloned() {
                Some(message) => self.say(now, from, message, out),
                None => Ok(()),
            };
        }
        let Some(open) = &mut running.open else { return Ok(()) };
        if exchange.round < open.exchange.round || owes {
            return Ok(());
        }
        let width = self.settings.guests.get(from).copied().unwrap_or(0) as usize;
        let found = (exchange.round, purpose, embedding.0.samples(), embedding.0.width());
        let expected = (open.exchange.round, open.purpose, open.batch.samples().len(), width);
        if found != expected {
            let what = format!(
                "embedding (round, purpose, samples, width): found {found:?}, expected {expected:?}"
            );
            return Err(PartyError::misbehaved(from, what));
        }
        let compression = self.settings.terms.compression;
        let (found, expected) = (embedding.0.packing().compression(), compression);
        if found != expected {
            return Err(PartyError::misbehaved(from, differently_packed(found, expected)));
        }
        open.note(from, embedding);
        self.settle_if_answered(now, out)
    }

    /// A guest in a new session may have other weights: part of an answer from before does not go with the
    /// rest of one from now.
    pub(super) fn forget_parts(&mut self, party: &PartyId, session: u64) {
        let before = self.seats.get(party).map(|seat| seat.session);
        let sealed = self.is_sealed();
        let open = self.running.as_mut().and_then(|running| running.open.as_mut());
        let open = open.filter(|open| sealed || !open.has_answered(party));
        if let Some(open) = open.filter(|_| before != Some(session)) {
            open.forget(party);
        }
        if let Some(running) = self.running.as_mut().filter(|_| before != Some(session)) {
            // With a new key, what was uploaded under the old one cannot be used.
            running.sealed.remove(party);
        }
    }

    /// Whether a message about an exchange comes from a guest that takes part in this attempt.
    pub(super) fn seated(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        out: &mut ToGuestOutbox,
    ) -> Result<bool, PartyError> {
        let current = self.card.as_ref().map(|card| (card.run, card.attempt));
        let gathering = matches!(self.stage, Stage::Gathering(_));
        let Some(seat) = self.seats.get_mut(from) else { return Ok(false) };
        if gathering || current != Some((exchange.run, exchange.attempt)) {
            return Ok(false);
        }
        if !seat.present && self.settings.absent == Absent::Skip {
            self.call_stranger(now, from, out)?;
            return Ok(false);
        }
        seat.present = true;
        seat.spoke = true;
        seat.active = Some(seat.session);
        seat.doubted = None;
        Ok(true)
    }

    /// Ends the round once all that are expected to answer have.
    pub(super) fn settle_if_answered(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let open = self.running.as_ref().and_then(|running| running.open.as_ref());
        let Some(open) = open.filter(|_| matches!(self.stage, Stage::Training)) else {
            return Ok(());
        };
        let skip = self.settings.absent == Absent::Skip;
        let expected = |seat: &super::Seat| seat.present || !skip;
        let mut seats = self.seats.iter();
        let missing = seats.any(|(party, seat)| expected(seat) && !open.has_answered(party));
        // Without any guest there is nothing to learn: wait for one.
        let nobody = !self.seats.keys().any(|party| open.has_answered(party));
        if missing || nobody {
            return Ok(());
        }
        if self.is_sealed() && !self.has_products(now, out)? {
            return Ok(());
        }
        self.settle(now, out)
    }

    fn settle(&mut self, now: Now, out: &mut ToGuestOutbox) -> Result<(), PartyError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Some(open) = running.open.take() else { return Ok(()) };
        let parties = self.seats.keys();
        let answered: Vec<PartyId> =
            parties.filter(|party| open.has_answered(party)).cloned().collect();
        let given = open.given(self.seats.keys().cloned());
        let layouts = self.card.as_ref().map(|card| &card.agreed.layouts);
        let mut measure = layouts.into_iter().flat_map(BTreeMap::keys);
        let partial = open.measuring && !measure.all(|party| open.has_given(party));
        let OpenRound { exchange, purpose, batch, posed, first, .. } = open;
        let (samples, round) = (batch.samples(), exchange.round);
        let finite = |loss: f64| {
            if loss.is_finite() { Ok(loss) } else { Err(PartyError::Diverged { round, loss }) }
        };
        let sealed = first.is_some() || posed.is_some();
        let (mut best, mut trained) = (false, running.trained.is_some());
        let (mut gradients, mut void) = (BTreeMap::new(), false);
        let mut grants = BTreeMap::new();
        match purpose {
            Purpose::Train if sealed => {
                let loss = first.as_ref().map(|first| first.loss);
                running.course.learned(loss.map(finite).transpose()?);
                void = loss.is_none();
                grants = running.grants(first.map(|first| first.dues).unwrap_or_default())?;
            }
            Purpose::Train => {
                let learned = running.model.learn(samples, &given)?;
                running.course.learned(learned.loss.map(finite).transpose()?);
                void = learned.loss.is_none();
                gradients =
                    running.pack(self.settings.terms.compression, samples, learned.gradients)?;
            }
            Purpose::Validate => {
                let before = running.course.validation_total();
                let total = match &posed {
                    Some(posed) => posed.total(before),
                    None => running.model.judge(samples, &given, before)?,
                };
                let total = finite(total)?;
                let verdict = running.course.judged(total, partial);
                (best, trained) = (verdict.best, verdict.trained);
                if best {
                    running.model.keep_best();
                }
                if let Some(epoch) = running.course.history().last().filter(|_| verdict.epoch) {
                    self.events.push(Event::Epoch(*epoch));
                }
            }
            Purpose::Estimate => {
                running.model.estimate(samples, &given.embeddings)?;
                running.course.estimated();
            }
        }
        running.done = round;
        if round > self.furthest.round {
            self.furthest = Furthest { round, reached: now.monotonic, returns: 0 };
        }
        let just_trained = trained && running.trained.is_none();
        if just_trained {
            running.trained = Some(round);
        }
        let mut messages = BTreeMap::new();
        for party in answered {
            let grant = grants.remove(&party);
            let message = match (purpose, gradients.remove(&party)) {
                (Purpose::Train, Some(gradient)) => ToGuest::Gradient { exchange, gradient },
                (Purpose::Train, None) if grant.is_some() => match grant {
                    Some(grant) => ToGuest::Grant { exchange, grant },
                    None => ToGuest::Settled { exchange, best, trained },
                },
                // Whoever came after the first update has no gradient of its embedding.
                (Purpose::Train, None) if !void && !sealed => {
                    let reason = format!("no gradient for `{party}` in round {round}");
                    return Err(PartyError::Model(crate::model::ModelFailure(reason)));
                }
                _ => ToGuest::Settled { exchange, best, trained },
            };
            messages.insert(party, message);
        }
        running.settled = Some(Settlement { round, messages: messages.clone() });
        self.events.push(Event::Round(round));
        let over = running.course.next().is_none();
        let due = self.card.as_ref().is_some_and(|card| card.plan.keeps(round));
        if just_trained || over || due && purpose != Purpose::Estimate {
            self.keep(round)?;
        }
        for (party, message) in messages {
            self.say(now, &party, message, out)?;
        }
        self.open_next(now, out)
    }

    fn keep(&mut self, round: Round) -> Result<(), PartyError> {
        let Some(running) = &self.running else { return Ok(()) };
        let kept = Kept {
            progress: running.course.progress().clone(),
            trained: running.trained,
            left: running.feedback.keys().cloned().collect(),
        };
        self.store.put(round, &kept.write(&running.feedback, &running.model.save()?)?)?;
        self.ledger.sync()?;
        self.events.push(Event::Kept(round));
        Ok(())
    }

    /// A guest greets in the middle of training.
    pub(super) fn rejoin(
        &mut self,
        now: Now,
        party: &PartyId,
        standing: &Standing,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (Some(card), Some(running)) = (&self.card, &self.running) else { return Ok(()) };
        let (attempt, done) = (card.attempt, running.done);
        let last =
            running.settled.as_ref().and_then(|settled| settled.messages.get(party)).cloned();
        let Some(seat) = self.seats.get(party) else { return Ok(()) };
        let holds = done == Round::START || standing.kept.contains(&done);
        let waiting = Some((seat.session, attempt, Resume::Exactly(done)));
        match standing.live {
            Some((its, round)) if its == attempt && round == done => {
                self.welcome(now, party, Resume::Exactly(done), out)?;
                self.ask(now, party, out)
            }
            Some((its, round)) if its == attempt && round.precedes(done) && last.is_some() => {
                self.welcome(now, party, Resume::Exactly(round), out)?;
                if let Some(message) = last {
                    self.say(now, party, message, out)?;
                }
                self.ask(now, party, out)
            }
            // The welcome got lost.
            None if seat.welcome == waiting && !seat.spoke && holds => {
                self.welcome(now, party, Resume::Exactly(done), out)?;
                self.ask(now, party, out)
            }
            // It has missed rounds, or its memory.
            _ if self.settings.absent == Absent::Skip => {
                let missed = self.missed_by(standing);
                self.welcome(now, party, missed, out)?;
                self.ask(now, party, out)
            }
            _ => self.gather_again(now, party, out),
        }
    }
}
