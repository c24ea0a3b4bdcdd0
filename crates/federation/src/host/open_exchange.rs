//! The exchange that waits for answers.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::message::measurements::Measurements;
use protocol::message::parts::{Batch, Embedding};
use protocol::message::{Exchange, Purpose};
use protocol::party::PartyId;
use traffic::Window;

use super::HostContext;
use super::run::Run;
use super::secure::SecureProducts;
use crate::error::PartyError;
use crate::model::Answers;

/// See the [module](self).
pub(super) struct OpenExchange {
    pub exchange: Exchange,
    pub purpose: Purpose,
    pub batch: Batch,
    /// Whether all store a checkpoint when it is over.
    pub checkpoint: bool,
    embeddings: BTreeMap<PartyId, Embedding>,
    pub measured: Measured,
    pub since: Duration,
}

/// What guests send of their measurements in an exchange.
pub(super) enum Measured {
    /// Nothing.
    Nothing,
    /// Their values.
    Values(BTreeMap<PartyId, Measurements>),
    /// Ciphertexts, and products with these.
    Encrypted(SecureProducts),
}

impl OpenExchange {
    /// The next exchange of the schedule; none if all are done.
    pub(super) fn next<M, S>(
        run: &mut Run<M>,
        context: &HostContext<M, S>,
    ) -> Result<Option<Self>, PartyError> {
        run.retire_keys();
        let Some((purpose, samples)) = run.schedule.next() else { return Ok(None) };
        let record = &run.record;
        let exchange =
            Exchange { run: record.run, attempt: record.attempt, round: run.done.next() };
        let batch = Batch::new(samples.to_vec()).map_err(PartyError::misuse)?;
        let measured = if record.plan.seals(purpose).is_some() {
            Measured::Encrypted(SecureProducts::new(run, &batch))
        } else if record.plan.measures(purpose) {
            Measured::Values(BTreeMap::new())
        } else {
            Measured::Nothing
        };
        let embeddings = BTreeMap::new();
        let (checkpoints, wall) = (context.settings.checkpoints, context.guests.wall_time());
        let checkpoint = purpose != Purpose::Estimate
            && checkpoints.is_due(exchange.round, run.checkpointed, wall);
        let since = context.guests.now();
        Ok(Some(Self { exchange, purpose, batch, checkpoint, embeddings, measured, since }))
    }

    pub(super) fn samples(&self) -> &[Window] {
        self.batch.samples()
    }

    /// What is encrypted, if that is so in this exchange.
    pub(super) fn encrypted(&mut self) -> Option<&mut SecureProducts> {
        if let Measured::Encrypted(products) = &mut self.measured { Some(products) } else { None }
    }

    /// Whether a guest has said all that it was asked for.
    pub(super) fn has_answered(&self, party: &PartyId) -> bool {
        let products = match &self.measured {
            Measured::Encrypted(products) => products.has_answered(party),
            Measured::Nothing | Measured::Values(_) => true,
        };
        products && self.has_given(party)
    }

    /// Whether a guest has embedded and measured.
    pub(super) fn has_given(&self, party: &PartyId) -> bool {
        let measured = match &self.measured {
            Measured::Nothing => true,
            Measured::Values(values) => values.contains_key(party),
            Measured::Encrypted(products) => products.has_uploaded(party),
        };
        measured && self.embeddings.contains_key(party)
    }

    /// Takes an embedding, the first one if there are several. A guest that gives it after others were asked for
    /// products is part of a new query.
    pub(super) fn add(&mut self, party: &PartyId, embedding: Embedding) {
        if self.embeddings.contains_key(party) {
            return;
        }
        self.embeddings.insert(party.clone(), embedding);
        if let Some(products) = self.encrypted() {
            products.ask_anew();
        }
    }

    /// What those have said who have embedded and measured; a guest that has said a part of its answer is absent.
    pub(super) fn given<'a>(&self, parties: impl Iterator<Item = &'a PartyId>) -> Answers {
        let mut given = Answers::default();
        for party in parties {
            let there = self.has_given(party);
            let embedding = self.embeddings.get(party).filter(|_| there).cloned();
            if let (Measured::Values(values), true) = (&self.measured, there) {
                let values = values.get(party).cloned();
                given.measured.extend(values.map(|values| (party.clone(), values)));
            }
            given.embeddings.insert(party.clone(), embedding);
        }
        given
    }

    /// Does without a guest that has gone in the middle.
    pub(super) fn forget(&mut self, party: &PartyId) {
        self.embeddings.remove(party);
        match &mut self.measured {
            Measured::Nothing => {}
            Measured::Values(values) => {
                values.remove(party);
            }
            Measured::Encrypted(products) => products.forget(party),
        }
    }

    /// A guest in a new session may have other weights: part of an answer from before does not go with the rest of one
    /// from now, and its key is a new one.
    pub(super) fn forget_session(&mut self, party: &PartyId) {
        if matches!(self.measured, Measured::Encrypted(_)) || !self.has_answered(party) {
            self.forget(party);
        }
    }
}
