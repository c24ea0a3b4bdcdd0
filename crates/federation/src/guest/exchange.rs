//! One exchange, as a guest sees it: asked, answered, ended.

use std::collections::{BTreeMap, BTreeSet};

use protocol::message::measurements::{MeasurementLayout, Measurements};
use protocol::message::parts::{Batch, Embedding, EmbeddingGradient};
use protocol::message::{Exchange, Purpose, ToHost};
use protocol::party::Now;

use super::{Asked, Guest, Open, Running, Stage, ToHostOutbox};
use crate::error::{PartyError, differently_packed};
use crate::model::GuestModel;
use crate::store::Store;
use crate::timing::lasted;

impl<M: GuestModel, S: Store> Guest<M, S> {
    /// The run, if a message belongs to it.
    pub(super) fn current(&mut self, exchange: Exchange) -> Option<&mut Running<M>> {
        let training = matches!(self.stage, Stage::Training);
        let running = self.running.as_mut().filter(|_| training)?;
        ((running.run, running.attempt) == (exchange.run, exchange.attempt)).then_some(running)
    }

    pub(super) fn ask(
        &mut self,
        now: Now,
        asked: Asked,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let exchange = asked.exchange;
        let Some(running) = self.current(exchange) else { return Ok(()) };
        match &running.open {
            Some(open) if open.exchange == exchange => {
                if (open.purpose, &open.batch) != (asked.purpose, &asked.batch) {
                    let what = format!("it asked for round {} twice, differently", exchange.round);
                    return Err(PartyError::misbehaved(&self.settings.host, what));
                }
                self.answer_again(now, out)
            }
            Some(open) if open.exchange.round.precedes(exchange.round) => {
                // The end of our exchange got lost or is late: the answer again brings it.
                running.early = Some(asked);
                self.answer_again(now, out)
            }
            None if running.done.precedes(exchange.round) => self.answer(now, asked, out),
            // Long over, or from a time that this guest has not reached.
            _ => Ok(()),
        }
    }

    /// Says the last answer again, but not to everyone who asks again at once: a small query must not
    /// cost a large answer each time.
    pub(super) fn answer_again(
        &mut self,
        now: Now,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let pause = self.settings.timing.resend / 2;
        let open = self.running.as_mut().and_then(|running| running.open.as_mut());
        let Some(open) = open.filter(|open| lasted(open.answered, now.monotonic, pause)) else {
            return Ok(());
        };
        open.answered = now.monotonic;
        let answers = open.answers.clone();
        answers.into_iter().try_for_each(|answer| self.say_again(now, answer, out))
    }

    /// Refuses samples that were not announced.
    pub(super) fn check_batch(&self, batch: &Batch) -> Result<(), PartyError> {
        let (host, samples) = (&self.settings.host, batch.samples());
        let (held, folds) = (&self.settings.held, self.settings.measures.folds);
        if let Some(sample) = samples.iter().find(|sample| !held.contains(sample.last)) {
            let what = format!("it asked for step {}, which was not announced", sample.last.0);
            return Err(PartyError::misbehaved(host, what));
        }
        if let Some(sample) = samples.iter().find(|sample| sample.view.0 > folds) {
            let what = format!("it asked for view {} of a fleet of {folds} folds", sample.view.0);
            return Err(PartyError::misbehaved(host, what));
        }
        Ok(())
    }

    fn answer(&mut self, now: Now, asked: Asked, out: &mut ToHostOutbox) -> Result<(), PartyError> {
        let Asked { exchange, purpose, batch, missing } = asked;
        self.check_batch(&batch)?;
        let (host, samples) = (&self.settings.host, batch.samples());
        let Some(running) = &mut self.running else { return Ok(()) };
        let model = &mut running.model;
        let numbers = match purpose {
            Purpose::Train => model.embed(samples),
            Purpose::Validate => model.validate(samples),
            Purpose::Estimate => model.estimate(samples),
        }?;
        let (width, compression) = (model.width(), self.settings.terms.compression);
        let values = match purpose {
            Purpose::Train => running.feedback.pack(compression, samples, width, numbers),
            Purpose::Validate | Purpose::Estimate => compression.pack(width, numbers),
        };
        let values = values.map_err(PartyError::misuse)?;
        let mut answers =
            vec![ToHost::Embedding { exchange, purpose, embedding: Embedding(values) }];
        if running.plan.seals(purpose).is_some() {
            let sealed = running.seal(exchange, samples, missing.as_ref(), host)?;
            answers.extend(sealed);
        } else if running.plan.measures(purpose) {
            let measurements = running.model.measure(samples)?;
            check_own(&measurements, samples.len(), &running.asked)?;
            answers.push(ToHost::Measurements { exchange, purpose, measurements });
        }
        let answered = now.monotonic;
        let (query, coefficient_requests, challenge) = (None, BTreeMap::new(), None);
        let superseded = BTreeSet::new();
        let said = answers.clone();
        running.open = Some(Open {
            exchange,
            purpose,
            batch,
            answers: said,
            answered,
            query,
            superseded,
            coefficient_requests,
            challenge,
        });
        answers.into_iter().try_for_each(|answer| self.say(now, answer, out))
    }

    pub(super) fn gradient(
        &mut self,
        now: Now,
        exchange: Exchange,
        gradient: &EmbeddingGradient,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let host = self.settings.host.clone();
        let compression = self.settings.terms.compression;
        let Some(running) = self.current(exchange) else { return Ok(()) };
        let Some(open) = running.open.as_ref().filter(|open| open.exchange == exchange) else {
            return Ok(());
        };
        if open.purpose != Purpose::Train || running.plan.sealing.is_some() {
            let what = format!(
                "it sent a gradient in round {}, which trains nothing or by grants",
                exchange.round
            );
            return Err(PartyError::misbehaved(&host, what));
        }
        let expected = [open.batch.samples().len(), running.model.width()];
        let found = [gradient.0.samples(), gradient.0.width()];
        if found != expected {
            let what = format!(
                "gradient of round {}: found {found:?}, expected {expected:?}",
                exchange.round
            );
            return Err(PartyError::misbehaved(&host, what));
        }
        let (found, expected) = (gradient.0.packing().compression(), compression);
        if found != expected {
            return Err(PartyError::misbehaved(&host, differently_packed(found, expected)));
        }
        running.model.learn(gradient)?;
        self.close(now, exchange, false, out)
    }

    pub(super) fn exchange_closed(
        &mut self,
        now: Now,
        exchange: Exchange,
        best: bool,
        trained: bool,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let host = self.settings.host.clone();
        let Some(running) = self.current(exchange) else { return Ok(()) };
        let Some(open) = running.open.as_ref().filter(|open| open.exchange == exchange) else {
            // It may ask again because our word that the state is kept got lost.
            if exchange.round == running.done && self.store.rounds()?.contains(&exchange.round) {
                return self.say(now, ToHost::Checkpointed { exchange }, out);
            }
            return Ok(());
        };
        if open.purpose == Purpose::Train {
            // Without what another guest measures there may be nothing to learn from.
            if !running.plan.measured.is_empty() {
                running.model.skip_update();
                return self.close(now, exchange, false, out);
            }
            let what = format!("it ended round {} without a gradient", exchange.round);
            return Err(PartyError::misbehaved(&host, what));
        }
        if best {
            running.model.keep_best();
        }
        let last = trained && open.purpose == Purpose::Validate;
        self.close(now, exchange, last, out)
    }

    /// The exchange is over. A checkpoint that is due is written before anything else leaves.
    pub(super) fn close(
        &mut self,
        now: Now,
        exchange: Exchange,
        last: bool,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let purpose = running.open.take().map(|open| open.purpose);
        running.done = exchange.round;
        let estimates = purpose == Some(Purpose::Estimate);
        if last || running.plan.checkpoint_due(exchange.round) && !estimates {
            self.store.put(exchange.round, &running.save()?)?;
            self.ledger.sync()?;
            self.say(now, ToHost::Checkpointed { exchange }, out)?;
        }
        let early = self.running.as_mut().and_then(|running| running.early.take());
        match early {
            Some(next) if exchange.round.precedes(next.exchange.round) => {
                self.answer(now, next, out)
            }
            _ => Ok(()),
        }
    }
}

/// What the guest's own model measures must be what the guest has announced.
pub(super) fn check_own(
    measurements: &Measurements,
    samples: usize,
    asked: &MeasurementLayout,
) -> Result<(), PartyError> {
    let found = [measurements.samples(), measurements.entries()];
    let expected = [samples, asked.len()];
    if found == expected {
        return measurements.check(asked).map_err(PartyError::misuse);
    }
    let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
    Err(PartyError::Misuse { what: "measurements [sample, entry]", found, expected })
}
