//! A guest takes part: each exchange is asked, answered and closed.

use std::time::Duration;

use protocol::message::measurements::{MeasurementLayout, Measurements};
use protocol::message::parts::{Batch, Embedding, EmbeddingGradient};
use protocol::message::sealed::MissingCiphertexts;
use protocol::message::{Exchange, Purpose, ToGuest, ToHost};
use protocol::party::PartyId;
use traffic::Window;

use super::coefficients::ShareRequest;
use super::encryption::AnsweredQueries;
use super::run::Run;
use super::{GuestContext, GuestEvent};
use crate::error::{PartyError, differently_packed};
use crate::model::GuestModel;
use crate::store::Store;

/// See the [module](self).
pub(super) struct Training<M> {
    pub run: Run<M>,
    /// The exchange that waits for its end; none between two.
    pub open: Option<OpenExchange>,
    /// What was asked too early: the end of the exchange before it is still on its way.
    early: Option<EmbeddingRequest>,
}

/// A request for embeddings.
#[derive(Clone, Debug, PartialEq)]
struct EmbeddingRequest {
    exchange: Exchange,
    purpose: Purpose,
    batch: Batch,
    missing: Option<MissingCiphertexts>,
    checkpoint: bool,
}

/// An exchange that the guest has answered, at least in part.
pub(super) struct OpenExchange {
    pub exchange: Exchange,
    pub purpose: Purpose,
    pub batch: Batch,
    /// Whether a checkpoint is due when it is over.
    pub checkpoint: bool,
    /// What it has said to it.
    pub answers: Vec<ToHost>,
    pub answered: Duration,
    pub queries: AnsweredQueries,
}

impl OpenExchange {
    pub(super) fn samples(&self) -> &[Window] {
        self.batch.samples()
    }
}

impl<M: GuestModel> Training<M> {
    pub(super) fn new(run: Run<M>) -> Self {
        Self { run, open: None, early: None }
    }

    /// Forgets what was under way.
    pub(super) fn close_all(&mut self) {
        (self.open, self.early) = (None, None);
    }

    /// A message about an exchange.
    pub(super) fn answer<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        message: ToGuest,
    ) -> Result<(), PartyError> {
        let Some(exchange) = message.exchange() else { return Ok(()) };
        let run = &self.run;
        if (run.record.run, run.attempt) != (exchange.run, exchange.attempt) {
            return Ok(());
        }
        match message {
            ToGuest::EmbeddingRequest { exchange, purpose, batch, missing, checkpoint } => {
                let request = EmbeddingRequest { exchange, purpose, batch, missing, checkpoint };
                return self.request(context, request);
            }
            // Commitments are made before the exchange is answered.
            ToGuest::Commitment(request) => return self.commitment(context, exchange, request),
            _ => {}
        }
        if self.open.as_ref().is_none_or(|open| open.exchange != exchange) {
            if let ToGuest::ExchangeClosed { .. } = message
                && exchange.round == self.run.done
                && context.store.rounds()?.contains(&exchange.round)
            {
                // The host may ask again because our word that the state is stored got lost.
                context.host.say(ToHost::Checkpointed { exchange })?;
            }
            return Ok(());
        }
        match message {
            ToGuest::ProductQuery { query, .. } => self.query(context, query),
            ToGuest::EncryptedCoefficients { recipient, key, entries, coefficients, .. } => {
                let request = ShareRequest { recipient, key, entries, coefficients };
                self.encrypted_coefficients(context, request)
            }
            ToGuest::MaskedGradient { gradient, .. } => self.masked_gradient(context, &gradient),
            ToGuest::Gradient { gradient, .. } => self.gradient(context, &gradient),
            ToGuest::ExchangeClosed { best, trained, .. } => {
                self.exchange_closed(context, best, trained)
            }
            _ => Ok(()),
        }
    }

    fn request<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        request: EmbeddingRequest,
    ) -> Result<(), PartyError> {
        let exchange = request.exchange;
        match &self.open {
            Some(open) if open.exchange == exchange => {
                let asked = (open.purpose, &open.batch, open.checkpoint);
                if asked != (request.purpose, &request.batch, request.checkpoint) {
                    let what = format!("it asked for round {} twice, differently", exchange.round);
                    return Err(PartyError::misbehaved(&context.settings.host, what));
                }
                self.repeat_answers(context)
            }
            Some(open) if open.exchange.round.precedes(exchange.round) => {
                // The end of our exchange got lost or is late: the answer again brings it.
                self.early = Some(request);
                self.repeat_answers(context)
            }
            None if self.run.done.precedes(exchange.round) => self.embed(context, request),
            // Long over, or from a time that this guest has not reached.
            _ => Ok(()),
        }
    }

    /// Sends the last answers again.
    pub(super) fn repeat_answers<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
    ) -> Result<(), PartyError> {
        let open = self.open.as_mut().filter(|open| context.host.may_repeat(open.answered));
        let Some(open) = open else { return Ok(()) };
        open.answered = context.host.now();
        for answer in open.answers.clone() {
            context.host.repeat(answer)?;
        }
        Ok(())
    }

    fn embed<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        request: EmbeddingRequest,
    ) -> Result<(), PartyError> {
        let EmbeddingRequest { exchange, purpose, batch, missing, checkpoint } = request;
        context.check_batch(&batch)?;
        let (run, samples) = (&mut self.run, batch.samples());
        let model = &mut run.model;
        let numbers = match purpose {
            Purpose::Train => model.embed(samples),
            Purpose::Validate => model.validate(samples),
            Purpose::Estimate => model.estimate(samples),
        }?;
        let (width, compression) = (model.width(), context.settings.terms.compression);
        let values = match purpose {
            Purpose::Train => run.residual.pack(compression, samples, width, numbers),
            Purpose::Validate | Purpose::Estimate => compression.pack(width, numbers),
        };
        let embedding = Embedding(values.map_err(PartyError::misuse)?);
        let mut answers = vec![ToHost::Embedding { exchange, purpose, embedding }];
        if run.plan().seals(purpose).is_some() {
            answers.extend(run.encrypt(context, exchange, samples, missing.as_ref())?);
        } else if run.plan().measures(purpose) {
            let measurements = run.model.measure(samples)?;
            check_own(&measurements, samples.len(), &run.layout)?;
            answers.push(ToHost::Measurements { exchange, purpose, measurements });
        }
        let (said, queries) = (answers.clone(), AnsweredQueries::default());
        let answered = context.host.now();
        self.open = Some(OpenExchange {
            exchange,
            purpose,
            batch,
            checkpoint,
            answers: said,
            answered,
            queries,
        });
        for answer in answers {
            context.host.say(answer)?;
        }
        Ok(())
    }

    fn gradient<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        gradient: &EmbeddingGradient,
    ) -> Result<(), PartyError> {
        let Some(open) = &self.open else { return Ok(()) };
        let (host, round) = (&context.settings.host, open.exchange.round);
        if open.purpose != Purpose::Train || self.run.plan().sealing.is_some() {
            let what = format!(
                "it sent a gradient in round {round}, which trains nothing or with masked gradients"
            );
            return Err(PartyError::misbehaved(host, what));
        }
        let expected = [open.samples().len(), self.run.model.width()];
        let found = [gradient.0.samples(), gradient.0.width()];
        if found != expected {
            let what = format!("gradient of round {round}: found {found:?}, expected {expected:?}");
            return Err(PartyError::misbehaved(host, what));
        }
        let expected = context.settings.terms.compression;
        let found = gradient.0.packing().compression();
        if found != expected {
            return Err(PartyError::misbehaved(host, differently_packed(found, expected)));
        }
        self.run.model.learn(gradient)?;
        self.close(context, false)
    }

    fn exchange_closed<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        best: bool,
        trained: bool,
    ) -> Result<(), PartyError> {
        let Some(open) = &self.open else { return Ok(()) };
        if open.purpose == Purpose::Train {
            // Without what another guest measures there may be nothing to learn from.
            if !self.run.plan().measured.is_empty() {
                self.run.model.skip_update();
                return self.close(context, false);
            }
            let what = format!("it ended round {} without a gradient", open.exchange.round);
            return Err(PartyError::misbehaved(&context.settings.host, what));
        }
        if best {
            self.run.model.keep_best();
        }
        let last = trained && open.purpose == Purpose::Validate;
        self.close(context, last)
    }

    /// The exchange is over. A checkpoint that is due is stored before anything else leaves.
    pub(super) fn close<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        last: bool,
    ) -> Result<(), PartyError> {
        let Some(OpenExchange { exchange, checkpoint, .. }) = self.open.take() else {
            return Ok(());
        };
        let round = exchange.round;
        self.run.done = round;
        if last || checkpoint {
            context.store.put(round, &self.run.save()?)?;
            context.host.ledger_mut().sync()?;
            context.host.say(ToHost::Checkpointed { exchange })?;
            context.events.push(GuestEvent::Checkpointed(round));
        }
        match self.early.take() {
            Some(next) if round.precedes(next.exchange.round) => self.embed(context, next),
            _ => Ok(()),
        }
    }
}

impl<M, S> GuestContext<M, S> {
    /// Refuses samples that were not announced.
    pub(super) fn check_batch(&self, batch: &Batch) -> Result<(), PartyError> {
        let (host, samples): (&PartyId, _) = (&self.settings.host, batch.samples());
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
}

/// What the guest's own model measures must be what the guest has announced.
pub(super) fn check_own(
    measurements: &Measurements,
    samples: usize,
    layout: &MeasurementLayout,
) -> Result<(), PartyError> {
    let found = [measurements.samples(), measurements.entries()];
    let expected = [samples, layout.len()];
    if found == expected {
        return measurements.check(layout).map_err(PartyError::misuse);
    }
    let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
    Err(PartyError::Misuse { what: "measurements [sample, entry]", found, expected })
}
