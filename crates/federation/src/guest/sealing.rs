//! A guest's measurements, sealed: uploads, products with the host's rows, and its own gradient.

use protocol::ledger::{QueriedSteps, QueryBudget, Recorded as _};
use protocol::message::measurements::Measurements;
use protocol::message::parts::{EmbeddingGradient, Values};
use protocol::message::sealed::{
    BlockWeights, Fingerprint, MissingCiphertexts, Scheme, Sealed, Sealing, block_length, range,
};
use protocol::message::{Exchange, Purpose, ToHost};
use protocol::party::{Now, PartyId};
use sealed::plain::PlainGuest;
use sealed::rlwe::{KeySeed, RlweGuest};
use sealed::{Agreement, SealedError};
use traffic::Window;

use super::committing::CommitmentPolicy;
use super::exchange::check_own;
use super::lending::MessageHead;
use super::{Guest, Running, ToHostOutbox};
use crate::agreement::{agreement, block_of, levels as level_range};
use crate::error::PartyError;
use crate::model::GuestModel;
use crate::store::Store;

/// What a guest gives of sealed measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DisclosurePolicy {
    /// Measurements leave it sealed or not at all.
    pub sealed_only: bool,
    /// How many products it answers per number of any step, in the mean over the numbers of that step and over all
    /// its life; without limit if none.
    pub most_products: Option<f64>,
    /// Whether it commits to them.
    pub commits: CommitmentPolicy,
}

/// Both things that a guest does in a secure product.
pub(super) trait Products: sealed::Guest + sealed::Answerer + Send {}
impl<G: sealed::Guest + sealed::Answerer + Send> Products for G {}

/// A guest's side of the products, with its key: for as long as it runs.
pub(super) struct EncryptionState {
    pub products: Box<dyn Products>,
    pub agreement: Agreement,
    /// What its key is known by.
    pub key: Fingerprint,
}

/// How many products a guest still gives of the open batch.
pub(super) struct Budget {
    /// Per number of a step, if there is a limit.
    most: Option<f64>,
    asked: QueryBudget,
    samples: Vec<Window>,
    /// Steps that it holds.
    steps: u64,
}

impl Budget {
    /// Refuses so many products of so many values of the batch, where each step has so many numbers.
    pub fn check(&self, rows: usize, values: usize, numbers: usize) -> Result<(), PartyError> {
        let Some(most) = self.most else { return Ok(()) };
        let products = (rows as u64).saturating_mul(values as u64);
        let more = QueriedSteps::of(&self.samples, numbers, products);
        // What is not known is shared by all.
        let before = self.asked.unplaced() as f64 / (self.steps as f64 * numbers as f64).max(1.0);
        let found = before + self.asked.most_with(&self.samples, more.as_ref());
        if found > most { Err(PartyError::Budget { found, rows, most }) } else { Ok(()) }
    }
}

impl EncryptionState {
    fn new(sealing: Sealing, agreement: Agreement) -> Result<Self, SealedError> {
        let products: Box<dyn Products> = match sealing.scheme {
            Scheme::Lattice => Box::new(RlweGuest::new(agreement, &KeySeed::from_os()?)?),
            Scheme::Plain => Box::new(PlainGuest::new(agreement)?),
        };
        let key = Fingerprint::of_bytes(&products.public_key());
        Ok(Self { products, agreement, key })
    }
}

impl<M: GuestModel> Running<M> {
    pub(super) fn encryption(&mut self) -> Result<&mut EncryptionState, PartyError> {
        let encryption = match self.encryption.take() {
            Some(encryption) => encryption,
            None => {
                let sealing = self.plan.sealing.unwrap_or(Sealing::lattice());
                // A guest keeps no blocks of others.
                let agreement = agreement(&sealing, &self.asked, self.plan.segment, usize::MAX)
                    .map_err(PartyError::misuse)?;
                EncryptionState::new(sealing, agreement)?
            }
        };
        Ok(self.encryption.insert(encryption))
    }

    /// What the host lacks of the measurements of a batch.
    pub(super) fn seal(
        &mut self,
        exchange: Exchange,
        samples: &[Window],
        missing: Option<&MissingCiphertexts>,
        host: &PartyId,
    ) -> Result<Vec<ToHost>, PartyError> {
        let segment = self.plan.segment as usize;
        let whole = samples.len().is_multiple_of(segment)
            && samples.chunks(segment).all(|s| s.windows(2).all(|pair| pair[0].leads_to(pair[1])));
        let Some(missing) = missing.filter(|_| whole) else {
            let what =
                format!("it asked for sealed measurements of no whole segments of {segment}");
            return Err(PartyError::misbehaved(host, what));
        };
        let length = block_length(self.plan.segment, self.asked.len());
        if missing.blocks.last().is_some_and(|&last| last as usize >= samples.len() / length) {
            return Err(PartyError::misbehaved(host, "it lacks a block beyond the batch"));
        }
        let mut answers = Vec::new();
        if missing.public_key {
            let key = Sealed::new(self.encryption()?.products.public_key());
            let key = key.map_err(PartyError::misuse)?;
            answers.push(ToHost::PublicKey { exchange, key });
        }
        for &place in &missing.blocks {
            let samples = &samples[place as usize * length..][..length];
            let (measurements, levels) = self.levels(samples)?;
            let encryption = self.encryption()?;
            let upload = encryption.products.upload(block_of(samples[0]), &levels)?;
            let upload = Sealed::new(upload).map_err(PartyError::misuse)?;
            let weights = BlockWeights::new(measurements.weights().to_vec());
            let weights = weights.map_err(PartyError::misuse)?;
            answers.push(ToHost::Upload { exchange, place, weights, upload });
        }
        Ok(answers)
    }

    /// What it has measured of some samples, and the levels of that: all that is ever sealed or committed to.
    pub(super) fn levels(
        &mut self,
        samples: &[Window],
    ) -> Result<(Measurements, Vec<i32>), PartyError> {
        let measurements = self.model.measure(samples)?;
        check_own(&measurements, samples.len(), &self.asked)?;
        let (ranges, sealing) = (self.ranges(), self.plan.sealing);
        let grid = self.encryption()?.agreement.grid;
        // Whoever commits to lie within limits uploads nothing beyond them.
        let committing = sealing.and_then(|sealing| sealing.commitments);
        let limits = committing.map(|committing| level_range(&committing, &grid));
        let (low, high) = limits.unwrap_or((-grid.levels(), grid.levels()));
        let values = measurements.values().iter().zip(ranges.iter().cycle());
        // Of what was not measured, nothing is said by its value either.
        let levels = values.zip(measurements.weights()).map(|((value, range), weight)| {
            let share = if *weight > 0.0 { f64::from(*value) / range } else { 0.0 };
            Ok(grid.level(share)?.clamp(low, high))
        });
        let levels = levels.collect::<Result<Vec<_>, SealedError>>()?;
        Ok((measurements, levels))
    }

    fn ranges(&self) -> Vec<f64> {
        let entries = self.asked.groups().flat_map(|(_, entries)| entries);
        entries.map(|entry| range(entry.quantity)).collect()
    }
}

impl<M: GuestModel, S: Store> Guest<M, S> {
    pub(super) fn budget(&self) -> Budget {
        let (most, steps) = (self.settings.sharing.most_products, self.settings.held.steps());
        let open = self.running.as_ref().and_then(|running| running.open.as_ref());
        let samples = open.map_or(Vec::new(), |open| open.batch.samples().to_vec());
        // Without a limit nothing is counted.
        let asked = most.map_or(QueryBudget::default(), |_| self.ledger.queries().clone());
        Budget { most, asked, samples, steps }
    }

    /// Products of the measurements of the open batch.
    pub(super) fn say_products(
        &mut self,
        now: Now,
        message: ToHost,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let about = self.running.as_ref().and_then(|running| {
            let products = message.shape().iter().map(|&side| side as u64).product();
            let samples = running.open.as_ref()?.batch.samples();
            QueriedSteps::of(samples, running.asked.len(), products)
        });
        out.push(self.ledger.release_products(now, &self.settings.host, message, about)?);
        self.said = Some(now.monotonic);
        Ok(())
    }

    /// Answers a query about sealed measurements; the same one with the same bytes.
    pub(super) fn query(
        &mut self,
        now: Now,
        exchange: Exchange,
        query: Sealed,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let host = self.settings.host.clone();
        let budget = self.budget();
        let Some(running) = self.current(exchange) else { return Ok(()) };
        let Some(open) = running.open.as_ref().filter(|open| open.exchange == exchange) else {
            return Ok(());
        };
        if running.plan.seals(open.purpose).is_none() {
            let what = format!("it asked for products in round {}, which has none", exchange.round);
            return Err(PartyError::misbehaved(&host, what));
        }
        if open.query.as_ref() == Some(&query) {
            return self.answer_again(now, out);
        }
        if open.is_superseded(&MessageHead::of(&query)) {
            return Ok(());
        }
        let misbehaved =
            |error: SealedError| PartyError::misbehaved(&host, format!("its query: {error}"));
        let values = open.batch.samples().len() * running.asked.len();
        let data = running.asked.len();
        let encryption = running.encryption()?;
        let rows = encryption.products.rows(query.as_slice()).map_err(misbehaved)?;
        budget.check(rows, values, data)?;
        let answer = encryption.products.answer(query.as_slice()).map_err(misbehaved)?;
        let answer = Sealed::new(answer).map_err(PartyError::misuse)?;
        let size = [rows as u32, values as u32];
        let message = ToHost::Products { exchange, size, answer };
        if let Some(open) = &mut running.open {
            let before = open.query.replace(query);
            before.iter().for_each(|query| open.supersede(MessageHead::of(query)));
            open.answered = now.monotonic;
            // If the host asks anew because another guest came back, only the new answer counts.
            open.answers.retain(|answer| {
                !matches!(answer, ToHost::Products { .. } | ToHost::Commitment(_))
            });
            open.challenge = None;
            open.answers.push(message.clone());
        }
        self.say_products(now, message, out)
    }

    /// Learns from a gradient that only this guest can read.
    pub(super) fn masked_gradient(
        &mut self,
        now: Now,
        exchange: Exchange,
        masked: &Sealed,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let host = self.settings.host.clone();
        let Some(running) = self.current(exchange) else { return Ok(()) };
        let Some(open) = running.open.as_ref().filter(|open| open.exchange == exchange) else {
            return Ok(());
        };
        let sealed = running.plan.seals(open.purpose).is_some();
        if open.purpose != Purpose::Train || !sealed || open.query.is_none() {
            let what = format!("it sent a masked gradient in round {} out of turn", exchange.round);
            return Err(PartyError::misbehaved(&host, what));
        }
        let expected = open.batch.samples().len() * running.model.width();
        let width = running.model.width();
        let gradient = running.encryption()?.products.unmask(masked.as_slice());
        let gradient = gradient.map_err(|error| {
            PartyError::misbehaved(&host, format!("its masked gradient: {error}"))
        })?;
        if gradient.len() != expected {
            let what = format!(
                "its masked gradient: found {} numbers, expected {expected}",
                gradient.len()
            );
            return Err(PartyError::misbehaved(&host, what));
        }
        let numbers = gradient.iter().map(|&number| number as f32).collect();
        let values = Values::new(width, numbers).map_err(|error| {
            PartyError::misbehaved(&host, format!("its masked gradient: {error}"))
        })?;
        running.model.learn(&EmbeddingGradient(values))?;
        self.close(now, exchange, false, out)
    }
}
