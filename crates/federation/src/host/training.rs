//! The host trains: one exchange after the other, each asked, answered by all, and closed.

use std::collections::BTreeMap;

use protocol::message::measurements::{MeasurementLayout, Measurements};
use protocol::message::parts::{Embedding, EmbeddingGradient};
use protocol::message::sealed::Sealed;
use protocol::message::{Exchange, Purpose, Resume, ResumeState, ToGuest, ToHost};
use protocol::party::{PartyId, Round};

use super::checkpointing::Checkpointing;
use super::open_exchange::{Measured, OpenExchange};
use super::run::{ClosedExchange, Run};
use super::{Event, HostContext, Phase, Transition};
use crate::error::{PartyError, differently_packed};
use crate::model::{HostModel, ModelFailure};
use crate::schedule::ScheduleUpdate;
use crate::store::Store;

/// See the [module](self).
pub(super) struct Training<M> {
    pub run: Run<M>,
    pub open: OpenExchange,
}

/// What guests are told when a training exchange ends.
#[derive(Default)]
struct Gradients {
    clear: BTreeMap<PartyId, EmbeddingGradient>,
    masked: BTreeMap<PartyId, Vec<Sealed>>,
    /// A guest may have none: there was nothing to learn from, or it came after the first update with products.
    optional: bool,
}

impl<M: HostModel> Training<M> {
    /// Opens the first exchange of an attempt, if the run has one left.
    pub(super) fn enter<S: Store>(
        mut run: Run<M>,
        context: &mut HostContext<M, S>,
    ) -> Result<(Phase<M>, Transition), PartyError> {
        let Some(open) = OpenExchange::next(&mut run, context)? else {
            return Ok(Checkpointing::enter(run, context));
        };
        let mut phase = Self { run, open };
        phase.ask_all(context)?;
        Ok((Phase::Training(phase), Transition::Stay))
    }

    fn ask_all<S: Store>(&mut self, context: &mut HostContext<M, S>) -> Result<(), PartyError> {
        let present = context.guests.those(|guest, _| guest.present);
        present.iter().try_for_each(|party| self.ask(context, party))
    }

    /// Asks a guest for what it has not answered yet.
    pub(super) fn ask<S: Store>(
        &self,
        context: &mut HostContext<M, S>,
        party: &PartyId,
    ) -> Result<(), PartyError> {
        if self.open.has_answered(party) {
            return Ok(());
        }
        let exchange = self.open.exchange;
        let mut messages = match &self.open.measured {
            Measured::Encrypted(products) => products.unanswered(party, exchange)?,
            Measured::Nothing | Measured::Values(_) => Vec::new(),
        };
        if messages.is_empty() {
            messages.extend(self.commitment_request(party)?);
        }
        if messages.is_empty() {
            let (purpose, batch) = (self.open.purpose, self.open.batch.clone());
            let missing = self.missing_ciphertexts(party);
            let checkpoint = self.open.checkpoint;
            let request =
                ToGuest::EmbeddingRequest { exchange, purpose, batch, missing, checkpoint };
            messages.push(request);
        }
        for message in messages {
            context.guests.ask(party, message)?;
        }
        Ok(())
    }

    /// A message about an exchange of this attempt.
    pub(super) fn answer<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
        from: &PartyId,
        exchange: Exchange,
        message: ToHost,
    ) -> Result<Transition, PartyError> {
        // Of a round that is over, the embedding brings the end again.
        if exchange.round < self.open.exchange.round {
            return Ok(Transition::Stay);
        }
        match message {
            ToHost::Embedding { purpose, embedding, .. } => {
                self.embedding(context, from, exchange, purpose, embedding)?;
            }
            ToHost::Measurements { purpose, measurements, .. } => {
                self.measurements(from, exchange, purpose, measurements)?;
            }
            ToHost::PublicKey { key, .. } => {
                self.check_encrypted(from, exchange)?;
                self.public_key(context, from, &key)?;
                return Ok(Transition::Stay);
            }
            ToHost::Upload { place, weights, upload, .. } => {
                self.check_encrypted(from, exchange)?;
                self.upload(from, place, weights, &upload)?;
            }
            ToHost::Products { answer, .. } => {
                self.check_encrypted(from, exchange)?;
                if let Some(challenge) = self.products(from, &answer)? {
                    context.guests.say(from, challenge)?;
                    return Ok(Transition::Stay);
                }
            }
            ToHost::MaskedProducts { recipient, key, products, .. } => {
                self.check_encrypted(from, exchange)?;
                self.masked_products(from, &recipient, key, &products)?;
            }
            ToHost::Commitment(reply) => {
                self.check_encrypted(from, exchange)?;
                self.commitment_reply(context, from, reply)?;
            }
            _ => return Ok(Transition::Stay),
        }
        self.close_if_answered(context)
    }

    /// Refuses ciphertexts of an exchange that asks for none.
    fn check_encrypted(&self, from: &PartyId, exchange: Exchange) -> Result<(), PartyError> {
        let encrypted = matches!(self.open.measured, Measured::Encrypted(_));
        if encrypted && self.open.exchange.round == exchange.round {
            return Ok(());
        }
        let round = exchange.round;
        let what = format!("it sent encrypted measurements in round {round}, which asks for none");
        Err(PartyError::misbehaved(from, what))
    }

    fn embedding<S: Store>(
        &mut self,
        context: &HostContext<M, S>,
        from: &PartyId,
        exchange: Exchange,
        purpose: Purpose,
        embedding: Embedding,
    ) -> Result<(), PartyError> {
        if self.owes_commitments(from) {
            return Ok(());
        }
        let open = &mut self.open;
        let width = context.settings.guests.get(from).copied().unwrap_or(0) as usize;
        let found = (exchange.round, purpose, embedding.0.samples(), embedding.0.width());
        let expected = (open.exchange.round, open.purpose, open.samples().len(), width);
        if found != expected {
            let what = format!(
                "embedding (round, purpose, samples, width): found {found:?}, expected {expected:?}"
            );
            return Err(PartyError::misbehaved(from, what));
        }
        let expected = context.settings.terms.compression;
        let found = embedding.0.packing().compression();
        if found != expected {
            return Err(PartyError::misbehaved(from, differently_packed(found, expected)));
        }
        open.add(from, embedding);
        Ok(())
    }

    fn measurements(
        &mut self,
        from: &PartyId,
        exchange: Exchange,
        purpose: Purpose,
        measurements: Measurements,
    ) -> Result<(), PartyError> {
        let layout = self.run.record.agreed.layouts.get(from);
        let entries = layout.map_or(0, MeasurementLayout::len);
        let open = &mut self.open;
        let clear = matches!(open.measured, Measured::Values(_));
        let samples = if clear { open.samples().len() } else { 0 };
        let found = (exchange.round, purpose, measurements.samples(), measurements.entries());
        let expected = (open.exchange.round, open.purpose, samples, entries);
        if found != expected {
            let what = format!(
                "measurements (round, purpose, samples, entries): found {found:?}, expected {expected:?}"
            );
            return Err(PartyError::misbehaved(from, what));
        }
        if let Some(Err(error)) = layout.map(|layout| measurements.check(layout)) {
            return Err(PartyError::misbehaved(from, error.to_string()));
        }
        if let Measured::Values(values) = &mut open.measured {
            values.entry(from.clone()).or_insert(measurements);
        }
        Ok(())
    }

    /// Closes the exchange once all that are expected to answer have.
    fn close_if_answered<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<Transition, PartyError> {
        let (open, skips) = (&self.open, context.skips());
        let expected = context.guests.those(|guest, _| guest.present || !skips);
        let missing = expected.iter().any(|party| !open.has_answered(party));
        // Without any guest there is nothing to learn: wait for one.
        let nobody = !context.guests.parties().any(|party| open.has_answered(party));
        if missing || nobody || !self.has_products(context)? {
            return Ok(Transition::Stay);
        }
        self.close(context)
    }

    /// Learns, validates or estimates; tells the guests, and opens the next exchange.
    fn close<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<Transition, PartyError> {
        let (exchange, purpose) = (self.open.exchange, self.open.purpose);
        let parties = context.guests.parties().filter(|party| self.open.has_answered(party));
        let answered: Vec<PartyId> = parties.cloned().collect();
        let mut gradients = Gradients::default();
        let (mut best, mut trained) = (false, self.run.trained.is_some());
        match purpose {
            Purpose::Train => gradients = self.learn(context)?,
            Purpose::Validate => {
                let update = self.validate(context)?;
                (best, trained) = (update.best, update.trained);
                let epoch = self.run.history().last().filter(|_| update.epoch);
                context.events.extend(epoch.map(|epoch| Event::Epoch(*epoch)));
            }
            Purpose::Estimate => {
                let given = self.open.given(context.guests.parties());
                self.run.model.estimate(self.open.samples(), &given.embeddings)?;
                self.run.schedule.estimated();
            }
        }
        let round = exchange.round;
        self.run.done = round;
        context.reached(round);
        let just_trained = trained && self.run.trained.is_none();
        if just_trained {
            self.run.trained = Some(round);
        }
        let mut messages = BTreeMap::new();
        for party in answered {
            let message = match (gradients.clear.remove(&party), gradients.masked.remove(&party)) {
                (Some(gradient), _) => ToGuest::Gradient { exchange, gradient },
                (None, Some(gradient)) => ToGuest::MaskedGradient { exchange, gradient },
                (None, None) if purpose == Purpose::Train && !gradients.optional => {
                    let reason = format!("no gradient for `{party}` in round {round}");
                    return Err(PartyError::Model(ModelFailure(reason)));
                }
                (None, None) => ToGuest::ExchangeClosed { exchange, best, trained },
            };
            messages.insert(party, message);
        }
        self.run.closed = Some(ClosedExchange { round, messages: messages.clone() });
        context.events.push(Event::Round(round));
        let over = self.run.schedule.next().is_none();
        if just_trained || over || self.open.checkpoint {
            self.run.checkpoint(context)?;
        }
        let next = OpenExchange::next(&mut self.run, context)?;
        for (party, message) in messages {
            context.guests.say(&party, message)?;
        }
        let Some(next) = next else { return Ok(Transition::Checkpoint) };
        self.open = next;
        self.ask_all(context)?;
        Ok(Transition::Stay)
    }

    fn learn<S: Store>(&mut self, context: &HostContext<M, S>) -> Result<Gradients, PartyError> {
        let round = self.open.exchange.round;
        if let Some(products) = self.open.encrypted() {
            // Its loss and the gradients of guests are those of the first update.
            let first = products.take_first_update();
            let loss = first.as_ref().map(|first| finite(round, first.loss)).transpose()?;
            self.run.schedule.learned(loss);
            let pending = first.map(|first| first.gradients).unwrap_or_default();
            let masked = self.run.masked_gradients(pending)?;
            return Ok(Gradients { masked, optional: true, ..Gradients::default() });
        }
        let (samples, given) = (self.open.samples(), self.open.given(context.guests.parties()));
        let learned = self.run.model.learn(samples, &given)?;
        let loss = learned.loss.map(|loss| finite(round, loss)).transpose()?;
        self.run.schedule.learned(loss);
        let compression = context.settings.terms.compression;
        let clear = self.run.compress(compression, samples, learned.gradients)?;
        Ok(Gradients { clear, optional: loss.is_none(), ..Gradients::default() })
    }

    fn validate<S: Store>(
        &mut self,
        context: &HostContext<M, S>,
    ) -> Result<ScheduleUpdate, PartyError> {
        let (open, run) = (&self.open, &mut self.run);
        let measures = !matches!(open.measured, Measured::Nothing);
        let partial =
            measures && !run.record.agreed.layouts.keys().all(|party| open.has_given(party));
        let before = run.schedule.validation_total();
        let total = match &open.measured {
            Measured::Encrypted(products) => products.total(before),
            Measured::Nothing | Measured::Values(_) => {
                let given = open.given(context.guests.parties());
                run.model.validate(open.samples(), &given, before)?
            }
        };
        let update = run.schedule.validated(finite(open.exchange.round, total)?, partial);
        if update.best {
            run.model.keep_best();
        }
        Ok(update)
    }

    /// Asks again those who are slow, and does what the policy says without those who are silent.
    pub(super) fn tick<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<Transition, PartyError> {
        let (timing, since, skips) = (context.guests.timing(), self.open.since, context.skips());
        let parties = context.guests.parties().filter(|party| !self.open.has_answered(party));
        let waiting: Vec<PartyId> = parties.cloned().collect();
        for party in waiting {
            // First, so that one who leaves and comes back all the time does not escape it.
            if context.guests.lasted(since, timing.limit) {
                return Err(context.absent_too_long(&party, since));
            }
            let Some(guest) = context.guests.get(&party) else { continue };
            let (present, spoke) = (guest.present, guest.spoke);
            let late = context.guests.lasted(since, timing.silence);
            if present && (context.guests.is_silent(&party) || late && skips) {
                context.miss(&party);
                if let next @ Transition::Checkpoint = self.proceed_without(context, &party)? {
                    return Ok(next);
                }
            } else if context.guests.resend_due(&party) && (present || !skips) {
                // A guest that has not spoken since it was welcomed may not know of it.
                if spoke {
                    self.ask(context, &party)?;
                } else {
                    context.guests.request_hello(&party)?;
                }
            }
        }
        Ok(Transition::Stay)
    }

    /// What the policy says without a guest.
    pub(super) fn proceed_without<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
        party: &PartyId,
    ) -> Result<Transition, PartyError> {
        context.check_absence(party)?;
        if context.skips() { self.close_if_answered(context) } else { Ok(Transition::Stay) }
    }

    /// A guest introduces itself in the middle of training.
    pub(super) fn rejoin<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
        party: &PartyId,
        resume_state: &ResumeState,
    ) -> Result<Transition, PartyError> {
        let (attempt, done) = (self.run.record.attempt, self.run.done);
        let last = self.run.closed_for(party);
        let Some(guest) = context.guests.get(party) else { return Ok(Transition::Stay) };
        let holds = done == Round::START || resume_state.checkpoints.contains(&done);
        let waiting = Some((guest.session, attempt, Resume::AtRound(done)));
        let lost_welcome = guest.welcome == waiting && !guest.spoke && holds;
        let (resume, message) = match (resume_state.in_memory, last) {
            (Some((its, round)), _) if its == attempt && round == done => {
                (Resume::AtRound(done), None)
            }
            (Some((its, round)), Some(message)) if its == attempt && round.precedes(done) => {
                (Resume::AtRound(round), Some(message))
            }
            (None, _) if lost_welcome => (Resume::AtRound(done), None),
            // It has missed rounds, or its memory.
            _ if context.skips() => (self.run.missed_by(resume_state), None),
            _ => return Ok(Transition::GatherAgain(party.clone())),
        };
        context.welcome(party, &self.run.record, resume)?;
        if let Some(message) = message {
            context.guests.say(party, message)?;
        }
        self.ask(context, party)?;
        Ok(Transition::Stay)
    }
}

fn finite(round: Round, loss: f64) -> Result<f64, PartyError> {
    if loss.is_finite() { Ok(loss) } else { Err(PartyError::Diverged { round, loss }) }
}
