//! A guest's measurements, encrypted: uploads, products with the host's rows, and its own gradient.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ledger::{QueriedSteps, QueryBudget, Recorded as _};
use protocol::message::committed::Digest;
use protocol::message::key_authority::ToAuthority;
use protocol::message::measurements::Measurements;
use protocol::message::parts::{EmbeddingGradient, Values};
use protocol::message::sealed::{
    BlockWeights, Fingerprint, MissingCiphertexts, Scheme, Sealed, Sealing,
};
use protocol::message::{Exchange, Purpose, ToHost};
use protocol::party::PartyId;
use sealed::ipfe::public_key_request;
use sealed::keyed::KeyedGuest;
use sealed::plain::PlainGuest;
use sealed::rlwe::{KeySeed, RlweGuest};
use sealed::{Agreement, SealedError};
use traffic::Window;

use super::GuestContext;
use super::coefficients::MessageHead;
use super::commitments::CommitmentPolicy;
use super::run::Run;
use super::training::{Training, check_own};
use crate::agreement::{agreement, block_of, levels as level_range, ranges, samples_of_block};
use crate::error::PartyError;
use crate::keys::no_authority;
use crate::model::GuestModel;
use crate::store::Store;

/// What a guest discloses of encrypted measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DisclosurePolicy {
    /// Measurements leave it encrypted or not at all.
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

/// The most products that a guest decrypts with one key, if it has encrypted measurements of several exchanges with it.
///
/// What a host asks about need not be the products that it should be: each answer, of 40 bits, may tell up to 25 of the key's
/// 8192 ternary numbers. After 96 answers 5792 are left, with which log q = 150 has 128 bits (docs/sealed.md).
/// More answers are given with keys that have encrypted measurements of one exchange alone: all of those are charged with all of its answers.
pub(crate) const MOST_SHARED_ANSWERS: usize = 96;
// 128 bits: 218 bits of modulus for 8192 numbers (Homomorphic Encryption Standard), so 150 for 5637.
const _: () = assert!(8192 - 25 * MOST_SHARED_ANSWERS >= 8192 * 150 / 218);

/// A guest's side of the products, with its key: until the host asks for a new one.
pub(super) struct EncryptionState {
    pub products: Box<dyn Products>,
    pub agreement: Agreement,
    /// What its key is known by.
    pub key: Fingerprint,
    /// Products decrypted with it.
    answered: usize,
    /// The first exchange whose measurements were encrypted with it, and whether there are others.
    uploaded: Option<Exchange>,
    shared: bool,
}

/// The queries of an exchange that a guest has answered.
#[derive(Default)]
pub(super) struct AnsweredQueries {
    /// The query about its measurements.
    pub query: Option<Sealed>,
    /// The challenge to that query.
    pub challenge: Option<Digest>,
    /// Requests with encrypted coefficients, by whom they are for.
    pub coefficients: BTreeMap<PartyId, MessageHead>,
    /// Queries and requests that others have taken the place of: they may still come late, or twice.
    superseded: BTreeSet<MessageHead>,
}

/// The most superseded queries and requests of one exchange that are remembered.
const MOST_SUPERSEDED: usize = 4096;

impl AnsweredQueries {
    pub(super) fn is_superseded(&self, head: &MessageHead) -> bool {
        self.superseded.contains(head)
    }

    /// Remembers what something else has taken the place of.
    pub(super) fn supersede(&mut self, head: MessageHead) {
        if self.superseded.len() < MOST_SUPERSEDED {
            self.superseded.insert(head);
        }
    }
}

/// How many products a guest still gives of the open batch.
pub(super) struct Budget {
    /// Per number of a step, if there is a limit.
    most: Option<f64>,
    spent: QueryBudget,
    samples: Vec<Window>,
    /// Steps that it holds.
    steps: u64,
}

impl Budget {
    /// Refuses so many products of so many values of the batch, where each step has so many numbers.
    pub(super) fn check(
        &self,
        rows: usize,
        values: usize,
        numbers: usize,
    ) -> Result<(), PartyError> {
        let Some(most) = self.most else { return Ok(()) };
        let products = (rows as u64).saturating_mul(values as u64);
        let more = QueriedSteps::of(&self.samples, numbers, products);
        // What is not known is shared by all.
        let before = self.spent.unplaced() as f64 / (self.steps as f64 * numbers as f64).max(1.0);
        let found = before + self.spent.most_with(&self.samples, more.as_ref());
        if found > most { Err(PartyError::Budget { found, rows, most }) } else { Ok(()) }
    }
}

impl EncryptionState {
    /// With a new key; `issued` is the authority's, where there is one.
    fn new(sealing: Sealing, agreement: Agreement, issued: &[u8]) -> Result<Self, SealedError> {
        let products: Box<dyn Products> = match sealing.scheme {
            Scheme::KeyAuthority => {
                Box::new(KeyedGuest::new(agreement, issued, &KeySeed::from_os()?)?)
            }
            Scheme::Lattice => Box::new(RlweGuest::new(agreement, &KeySeed::from_os()?)?),
            Scheme::Plain => Box::new(PlainGuest::new(agreement)?),
        };
        let key = Fingerprint::of_bytes(&products.public_key());
        Ok(Self { products, agreement, key, answered: 0, uploaded: None, shared: false })
    }

    /// Takes note of measurements of an exchange.
    fn uploads(&mut self, exchange: Exchange) {
        self.shared |= *self.uploaded.get_or_insert(exchange) != exchange;
    }

    /// Refuses so many more answers, if the key could be computed from them and is one for others, too.
    fn check_answers(&self, rows: usize, host: &PartyId) -> Result<(), PartyError> {
        let found = self.answered.saturating_add(rows);
        if !self.shared || found <= MOST_SHARED_ANSWERS {
            return Ok(());
        }
        let what = format!(
            "it asked for {found} products under a key of several exchanges, expected at most {MOST_SHARED_ANSWERS}, or a new key"
        );
        Err(PartyError::misbehaved(host, what))
    }
}

impl<M: GuestModel> Run<M> {
    pub(super) fn encryption(&mut self) -> Result<&mut EncryptionState, PartyError> {
        let encryption = match self.encryption.take() {
            Some(encryption) => encryption,
            None => {
                let (sealing, agreement) = self.agreement(0)?;
                EncryptionState::new(sealing, agreement, &[])?
            }
        };
        Ok(self.encryption.insert(encryption))
    }

    /// What both sides agree on, for a batch of so many samples.
    fn agreement(&self, samples: usize) -> Result<(Sealing, Agreement), PartyError> {
        let plan = &self.record.plan;
        let sealing = plan.sealing.unwrap_or(Sealing::lattice());
        // A guest keeps no blocks of others.
        let agreement = agreement(&sealing, &self.layout, (plan.segment, samples), usize::MAX);
        Ok((sealing, agreement.map_err(PartyError::misuse)?))
    }

    /// New keys for an exchange; with an authority, also a public key of the authority's, which is for this exchange alone.
    fn renew_keys<S>(
        &mut self,
        context: &mut GuestContext<M, S>,
        exchange: Exchange,
        samples: usize,
    ) -> Result<&mut EncryptionState, PartyError> {
        let (sealing, agreement) = self.agreement(samples)?;
        let mut issued = Vec::new();
        if sealing.is_keyed() {
            let authority = context.keys.as_mut().ok_or_else(no_authority)?;
            let (round, request) = (exchange.round, public_key_request(&agreement));
            let message = ToAuthority::PublicKey { round, request };
            let message = context.host.release(authority.name(), message)?;
            issued = authority.ask(&message)?;
        }
        Ok(self.encryption.insert(EncryptionState::new(sealing, agreement, &issued)?))
    }

    /// What the host lacks of the measurements of a batch.
    pub(super) fn encrypt<S>(
        &mut self,
        context: &mut GuestContext<M, S>,
        exchange: Exchange,
        samples: &[Window],
        missing: Option<&MissingCiphertexts>,
    ) -> Result<Vec<ToHost>, PartyError> {
        let host = &context.settings.host.clone();
        let segment = self.record.plan.segment as usize;
        let whole = samples.len().is_multiple_of(segment)
            && samples.chunks(segment).all(|s| s.windows(2).all(|pair| pair[0].leads_to(pair[1])));
        let Some(missing) = missing.filter(|_| whole) else {
            let what =
                format!("it asked for sealed measurements of no whole segments of {segment}");
            return Err(PartyError::misbehaved(host, what));
        };
        let sealing = self.record.plan.sealing.unwrap_or(Sealing::lattice());
        let length =
            samples_of_block(&sealing, &self.layout, self.record.plan.segment, samples.len());
        if sealing.is_keyed() && self.encryption.is_none() && !missing.public_key {
            let what = "it asked for measurements under a public key that this guest does not have";
            return Err(PartyError::misbehaved(host, what));
        }
        if missing.blocks.last().is_some_and(|&last| last as usize >= samples.len() / length) {
            return Err(PartyError::misbehaved(host, "it lacks a block beyond the batch"));
        }
        let mut answers = Vec::new();
        if missing.public_key {
            // This is asked once for an exchange: what it gets again are the same bytes.
            let renewed = self.renew_keys(context, exchange, samples.len())?;
            let key = Sealed::new(renewed.products.public_key());
            let key = key.map_err(PartyError::misuse)?;
            answers.push(ToHost::PublicKey { exchange, key });
        }
        let encryption = self.encryption()?;
        encryption.uploads(exchange);
        encryption.check_answers(0, host)?;
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
        check_own(&measurements, samples.len(), &self.layout)?;
        let (ranges, sealing) = (ranges(&self.layout), self.record.plan.sealing);
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
}

impl<M: GuestModel> Training<M> {
    /// For products of these samples of the open batch.
    pub(super) fn budget<S: Store>(
        &self,
        context: &GuestContext<M, S>,
        samples: &[Window],
    ) -> Budget {
        let (most, steps) = (context.settings.sharing.most_products, context.settings.held.steps());
        let samples = samples.to_vec();
        // Without a limit nothing is counted.
        let ledger = context.host.ledger();
        let spent = most.map_or(QueryBudget::default(), |_| ledger.queries().clone());
        Budget { most, spent, samples, steps }
    }

    /// Sends products of the measurements of these samples.
    pub(super) fn say_products<S: Store>(
        &self,
        context: &mut GuestContext<M, S>,
        message: ToHost,
        samples: &[Window],
    ) -> Result<(), PartyError> {
        let products = message.shape().iter().map(|&side| side as u64).product();
        let about = QueriedSteps::of(samples, self.run.layout.len(), products);
        Ok(context.host.say_products(message, about)?)
    }

    /// Answers a query about encrypted measurements; the same one with the same bytes.
    pub(super) fn query<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        query: Sealed,
    ) -> Result<(), PartyError> {
        let samples = self.open.as_ref().map_or(Vec::new(), |open| open.samples().to_vec());
        let budget = self.budget(context, &samples);
        let (host, now) = (context.settings.host.clone(), context.host.now());
        let (run, Some(open)) = (&mut self.run, &mut self.open) else { return Ok(()) };
        let exchange = open.exchange;
        if run.plan().seals(open.purpose).is_none() {
            let what = format!("it asked for products in round {}, which has none", exchange.round);
            return Err(PartyError::misbehaved(&host, what));
        }
        if open.queries.query.as_ref() == Some(&query) {
            return self.repeat_answers(context);
        }
        if open.queries.is_superseded(&MessageHead::of(&query)) {
            return Ok(());
        }
        let misbehaved =
            |error: SealedError| PartyError::misbehaved(&host, format!("its query: {error}"));
        let data = run.layout.len();
        let values = open.samples().len() * data;
        let encryption = run.encryption()?;
        let rows = encryption.products.rows(query.as_slice()).map_err(misbehaved)?;
        encryption.check_answers(rows, &host)?;
        budget.check(rows, values, data)?;
        let answer = encryption.products.answer(query.as_slice()).map_err(misbehaved)?;
        encryption.answered += rows;
        let answer = Sealed::new(answer).map_err(PartyError::misuse)?;
        let size = [rows as u32, values as u32];
        let message = ToHost::Products { exchange, size, answer };
        let before = open.queries.query.replace(query);
        before.iter().for_each(|query| open.queries.supersede(MessageHead::of(query)));
        open.queries.challenge = None;
        open.answered = now;
        // If the host asks anew because another guest came back, only the new answer counts.
        open.answers
            .retain(|answer| !matches!(answer, ToHost::Products { .. } | ToHost::Commitment(_)));
        open.answers.push(message.clone());
        self.say_products(context, message, &samples)
    }

    /// Learns from a gradient that only this guest can read.
    pub(super) fn masked_gradient<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        masked: &[Sealed],
    ) -> Result<(), PartyError> {
        let (run, Some(open)) = (&mut self.run, &self.open) else { return Ok(()) };
        let host = &context.settings.host;
        // With an authority, the host asks the guest for no products of its own.
        let asked = |sealing: Sealing| sealing.is_keyed() || open.queries.query.is_some();
        if open.purpose != Purpose::Train || !run.plan().seals(open.purpose).is_some_and(asked) {
            let round = open.exchange.round;
            let what = format!("it sent a masked gradient in round {round} out of turn");
            return Err(PartyError::misbehaved(host, what));
        }
        let wrong =
            |what: String| PartyError::misbehaved(host, format!("its masked gradient: {what}"));
        let width = run.model.width();
        let expected = open.samples().len() * width;
        let mut gradient = Vec::new();
        for part in masked {
            let part = run.encryption()?.products.unmask(part.as_slice());
            gradient.extend(part.map_err(|error| wrong(error.to_string()))?);
        }
        if gradient.len() != expected {
            let found = gradient.len();
            return Err(wrong(format!("found {found} numbers, expected {expected}")));
        }
        let numbers = gradient.iter().map(|&number| number as f32).collect();
        let values = Values::new(width, numbers).map_err(|error| wrong(error.to_string()))?;
        run.model.learn(&EmbeddingGradient(values))?;
        self.close(context, false)
    }
}
