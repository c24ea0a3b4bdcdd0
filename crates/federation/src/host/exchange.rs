//! One exchange, as the host sees it: asked, answered by all, ended.

use std::collections::{BTreeMap, BTreeSet};

use protocol::message::parts::{Batch, Embedding};
use protocol::message::{Exchange, Purpose, Resume, ResumeState, ToGuest};
use protocol::party::{Now, PartyId, Round};
use traffic::Window;

use super::open_round::OpenRound;
use super::{AbsencePolicy, Event, Furthest, Host, HostCheckpoint, Stage, ToGuestOutbox};
use crate::error::{PartyError, differently_packed};
use crate::model::HostModel;
use crate::store::Store;

/// How the last exchange ended, for those who did not hear of it.
pub(super) struct ClosedExchange {
    pub round: Round,
    pub messages: BTreeMap<PartyId, ToGuest>,
}

impl<M: HostModel, S: Store> Host<M, S> {
    /// Asks for the next samples of the schedule.
    pub(super) fn open_next(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (Some(card), Some(running)) = (&self.card, &mut self.running) else { return Ok(()) };
        let Some((purpose, samples)) = running.schedule.next() else { return self.close(now, out) };
        let samples: Vec<Window> = samples.to_vec();
        let exchange =
            Exchange { run: card.run, attempt: card.attempt, round: running.done.next() };
        let batch = Batch::new(samples).map_err(PartyError::misuse)?;
        let (answers, measured) = (BTreeMap::new(), BTreeMap::new());
        let (measuring, since) = (card.plan.measures(purpose), now.monotonic);
        let (uploaded, queries, first) = (BTreeSet::new(), None, None);
        running.open = Some(OpenRound {
            exchange,
            purpose,
            batch,
            answers,
            measuring,
            measured,
            uploaded,
            queries,
            first,
            since,
        });
        self.note_uploads();
        let everyone: Vec<PartyId> = self.sessions.keys().cloned().collect();
        for party in everyone {
            if self.sessions.get(&party).is_some_and(|guest| guest.present) {
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
        let queries = open.queries.as_ref().map(|queries| queries.unanswered(party, exchange));
        let mut messages = queries.transpose()?.unwrap_or_default();
        if messages.is_empty() {
            messages.extend(self.commit_request(party)?);
        }
        if messages.is_empty() {
            let (purpose, batch, missing) = (open.purpose, open.batch.clone(), self.missing(party));
            messages.push(ToGuest::EmbeddingRequest { exchange, purpose, batch, missing });
        }
        if let Some(guest) = self.sessions.get_mut(party) {
            guest.asked = now.monotonic;
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
        if !self.takes_part(now, from, exchange, out)? {
            return Ok(());
        }
        if let Some(guest) = self.sessions.get_mut(from) {
            guest.answers(exchange.attempt, exchange.round);
        }
        let owes = self.owes_commitments(from);
        let Some(running) = &mut self.running else { return Ok(()) };
        if let Some(closed) = running.closed.as_ref().filter(|s| s.round == exchange.round) {
            // It did not hear how that round ended.
            return match closed.messages.get(from).cloned() {
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
        self.close_if_answered(now, out)
    }

    /// A guest in a new session may have other weights: part of an answer from before does not go with the
    /// rest of one from now.
    pub(super) fn forget_parts(&mut self, party: &PartyId, session: u64) {
        let before = self.sessions.get(party).map(|guest| guest.session);
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
    pub(super) fn takes_part(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        out: &mut ToGuestOutbox,
    ) -> Result<bool, PartyError> {
        let current = self.card.as_ref().map(|card| (card.run, card.attempt));
        let gathering = matches!(self.stage, Stage::Gathering(_));
        let Some(guest) = self.sessions.get_mut(from) else { return Ok(false) };
        if gathering || current != Some((exchange.run, exchange.attempt)) {
            return Ok(false);
        }
        if !guest.present && self.settings.absent == AbsencePolicy::Skip {
            self.request_hello_of_stranger(now, from, out)?;
            return Ok(false);
        }
        guest.present = true;
        guest.spoke = true;
        guest.active = Some(guest.session);
        guest.doubted = None;
        Ok(true)
    }

    /// Ends the round once all that are expected to answer have.
    pub(super) fn close_if_answered(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let open = self.running.as_ref().and_then(|running| running.open.as_ref());
        let Some(open) = open.filter(|_| matches!(self.stage, Stage::Training)) else {
            return Ok(());
        };
        let skip = self.settings.absent == AbsencePolicy::Skip;
        let expected = |guest: &super::GuestSession| guest.present || !skip;
        let mut sessions = self.sessions.iter();
        let missing = sessions.any(|(party, guest)| expected(guest) && !open.has_answered(party));
        // Without any guest there is nothing to learn: wait for one.
        let nobody = !self.sessions.keys().any(|party| open.has_answered(party));
        if missing || nobody {
            return Ok(());
        }
        if self.is_sealed() && !self.has_products(now, out)? {
            return Ok(());
        }
        self.close_exchange(now, out)
    }

    fn close_exchange(&mut self, now: Now, out: &mut ToGuestOutbox) -> Result<(), PartyError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Some(open) = running.open.take() else { return Ok(()) };
        let parties = self.sessions.keys();
        let answered: Vec<PartyId> =
            parties.filter(|party| open.has_answered(party)).cloned().collect();
        let given = open.given(self.sessions.keys().cloned());
        let layouts = self.card.as_ref().map(|card| &card.agreed.layouts);
        let mut measure = layouts.into_iter().flat_map(BTreeMap::keys);
        let partial = open.measuring && !measure.all(|party| open.has_given(party));
        let OpenRound { exchange, purpose, batch, queries, first, .. } = open;
        let (samples, round) = (batch.samples(), exchange.round);
        let finite = |loss: f64| {
            if loss.is_finite() { Ok(loss) } else { Err(PartyError::Diverged { round, loss }) }
        };
        let sealed = first.is_some() || queries.is_some();
        let (mut best, mut trained) = (false, running.trained.is_some());
        let (mut gradients, mut void) = (BTreeMap::new(), false);
        let mut masked_gradients = BTreeMap::new();
        match purpose {
            Purpose::Train if sealed => {
                let loss = first.as_ref().map(|first| first.loss);
                running.schedule.learned(loss.map(finite).transpose()?);
                void = loss.is_none();
                masked_gradients = running
                    .masked_gradients(first.map(|first| first.gradients_due).unwrap_or_default())?;
            }
            Purpose::Train => {
                let learned = running.model.learn(samples, &given)?;
                running.schedule.learned(learned.loss.map(finite).transpose()?);
                void = learned.loss.is_none();
                gradients =
                    running.pack(self.settings.terms.compression, samples, learned.gradients)?;
            }
            Purpose::Validate => {
                let before = running.schedule.validation_total();
                let total = match &queries {
                    Some(queries) => queries.total(before),
                    None => running.model.validate(samples, &given, before)?,
                };
                let total = finite(total)?;
                let verdict = running.schedule.judged(total, partial);
                (best, trained) = (verdict.best, verdict.trained);
                if best {
                    running.model.keep_best();
                }
                if let Some(epoch) = running.schedule.history().last().filter(|_| verdict.epoch) {
                    self.events.push(Event::Epoch(*epoch));
                }
            }
            Purpose::Estimate => {
                running.model.estimate(samples, &given.embeddings)?;
                running.schedule.estimated();
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
            let masked_gradient = masked_gradients.remove(&party);
            let message = match (purpose, gradients.remove(&party)) {
                (Purpose::Train, Some(gradient)) => ToGuest::Gradient { exchange, gradient },
                (Purpose::Train, None) if masked_gradient.is_some() => match masked_gradient {
                    Some(gradient) => ToGuest::MaskedGradient { exchange, gradient },
                    None => ToGuest::ExchangeClosed { exchange, best, trained },
                },
                // Whoever came after the first update has no gradient of its embedding.
                (Purpose::Train, None) if !void && !sealed => {
                    let reason = format!("no gradient for `{party}` in round {round}");
                    return Err(PartyError::Model(crate::model::ModelFailure(reason)));
                }
                _ => ToGuest::ExchangeClosed { exchange, best, trained },
            };
            messages.insert(party, message);
        }
        running.closed = Some(ClosedExchange { round, messages: messages.clone() });
        self.events.push(Event::Round(round));
        let over = running.schedule.next().is_none();
        let due = self.card.as_ref().is_some_and(|card| card.plan.checkpoint_due(round));
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
        let kept = HostCheckpoint {
            progress: running.schedule.progress().clone(),
            trained: running.trained,
            left: running.feedback.keys().cloned().collect(),
        };
        self.store.put(round, &kept.write(&running.feedback, &running.model.save()?)?)?;
        self.ledger.sync()?;
        self.events.push(Event::Checkpointed(round));
        Ok(())
    }

    /// A guest greets in the middle of training.
    pub(super) fn rejoin(
        &mut self,
        now: Now,
        party: &PartyId,
        resume_state: &ResumeState,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (Some(card), Some(running)) = (&self.card, &self.running) else { return Ok(()) };
        let (attempt, done) = (card.attempt, running.done);
        let last = running.closed.as_ref().and_then(|closed| closed.messages.get(party)).cloned();
        let Some(guest) = self.sessions.get(party) else { return Ok(()) };
        let holds = done == Round::START || resume_state.checkpoints.contains(&done);
        let waiting = Some((guest.session, attempt, Resume::AtRound(done)));
        match resume_state.in_memory {
            Some((its, round)) if its == attempt && round == done => {
                self.welcome(now, party, Resume::AtRound(done), out)?;
                self.ask(now, party, out)
            }
            Some((its, round)) if its == attempt && round.precedes(done) && last.is_some() => {
                self.welcome(now, party, Resume::AtRound(round), out)?;
                if let Some(message) = last {
                    self.say(now, party, message, out)?;
                }
                self.ask(now, party, out)
            }
            // The welcome got lost.
            None if guest.welcome == waiting && !guest.spoke && holds => {
                self.welcome(now, party, Resume::AtRound(done), out)?;
                self.ask(now, party, out)
            }
            // It has missed rounds, or its memory.
            _ if self.settings.absent == AbsencePolicy::Skip => {
                let missed = self.missed_by(resume_state);
                self.welcome(now, party, missed, out)?;
                self.ask(now, party, out)
            }
            _ => self.gather_again(now, party, out),
        }
    }
}
