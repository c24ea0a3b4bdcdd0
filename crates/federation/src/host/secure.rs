//! Guests' measurements as the host has them where they are encrypted: ciphertexts, and products with its rows.
//!
//! ```text
//! all have embedded and uploaded ─► rows of the model ─► a query to each ──────────► products ─────────► closed
//!                                                     └► coefficients to each ─► masked products ─┘
//! ```
//!
//! Rows and coefficients that no message has room for are asked in parts, one after the other: some rows of all guests, and
//! some samples' coefficients. Numbers are those of one part, since each row has a scale of its own. Rows are divided and
//! columns never are: a product of some samples alone would tell the host more than the product of all.
//!
//! If a guest comes or goes in the middle, the rows are computed and asked anew. A query that is sent again has the same
//! bytes.

use std::collections::{BTreeMap, BTreeSet};

use protocol::message::parts::Batch;
use protocol::message::sealed::{BlockWeights, MissingCiphertexts, Sealed, Sealing};
use protocol::message::{Exchange, Purpose, ToGuest};
use protocol::party::PartyId;
use sealed::wire::DecodeError;
use sealed::{AnsweredBy, SealedError};

use super::HostContext;
use super::ciphertexts::GuestCiphertexts;
use super::commitments::{CommitmentRegistry, ProductCheck};
use super::run::Run;
use super::shares::{PendingGradient, PendingShare, pending_gradients};
use super::training::Training;
use crate::agreement::{block_of, samples_of_block};
use crate::error::PartyError;
use crate::guest::MOST_SHARED_ANSWERS;
use crate::model::{GuestRows, HostModel, ProductRows, Products};
use crate::store::Store;

/// Blocks of a guest that are kept from one validation for the next: 630 MB. If there are more, they are uploaded anew.
const MOST_KEPT_BLOCKS: usize = 4096;

/// The products of an exchange, as far as they are here.
pub(super) struct SecureProducts {
    /// Guests whose ciphertexts of this batch are all here.
    uploaded: BTreeSet<PartyId>,
    /// None before rows are computed, and when they have to be computed anew.
    queries: Option<PendingQueries>,
    /// None before the first update, and outside of training.
    first: Option<FirstUpdate>,
}

/// The first of an exchange's updates with products: its loss is the exchange's, and guests learn from its rows.
pub(super) struct FirstUpdate {
    pub loss: f64,
    pub gradients: BTreeMap<PartyId, PendingGradient>,
}

/// How far the products of an exchange are.
enum Progress {
    /// All are here, and all updates done.
    Done,
    /// Rows are to be computed and asked.
    Ask,
    /// The next part of them is to be asked.
    AskMore,
    /// Nobody is there to be asked.
    Nobody,
}

/// What guests are asked of a batch, part by part.
#[derive(Default)]
struct PendingQueries {
    guests: BTreeMap<PartyId, PendingQuery>,
    /// Gradients that guests are to get when the exchange ends.
    gradients: BTreeMap<PartyId, PendingGradient>,
    /// In validation, the total without what guests measured.
    known: f64,
    /// There is nothing to learn from.
    void: bool,
    /// The part that is asked.
    part: usize,
}

/// What one guest is asked.
pub(super) struct PendingQuery {
    /// Rows of all parts, and the most of one.
    rows: usize,
    at_once: usize,
    /// About the rows of this part; none if it has none.
    question: Option<Question>,
    /// Products of the parts so far.
    products: Vec<f64>,
    /// Encrypted coefficients of this part, by the guest whose gradient they are for.
    pub(super) shares: BTreeMap<PartyId, PendingShare>,
}

/// Rows, as they were asked.
struct Question {
    query: Sealed,
    answered: bool,
    /// Rows whose products are compared with what the guest has committed to, where the plan asks for that.
    check: Option<ProductCheck>,
}

impl PendingQuery {
    fn is_answered(&self) -> bool {
        let question = self.question.as_ref().is_none_or(|question| {
            question.answered && question.check.as_ref().is_none_or(ProductCheck::passed)
        });
        question && self.shares.values().all(PendingShare::is_answered)
    }

    /// What is asked about its products, once they are here.
    fn challenge(&self, exchange: Exchange) -> Result<Option<ToGuest>, PartyError> {
        let Some(Question { query, check: Some(check), .. }) = &self.question else {
            return Ok(None);
        };
        check.challenge(exchange, query)
    }

    /// The rows of this part that are compared with what the guest has committed to.
    pub(super) fn check(&mut self) -> Option<&mut ProductCheck> {
        self.question.as_mut()?.check.as_mut()
    }
}

impl PendingQueries {
    /// How many parts there are.
    fn parts(&self) -> usize {
        let rows = self.guests.values().map(|one| one.rows.div_ceil(one.at_once));
        rows.chain(self.gradients.values().map(PendingGradient::parts)).max().unwrap_or(0)
    }

    /// Keeps what came of this part.
    fn keep_shares(&mut self) {
        for pending in self.guests.values_mut() {
            for (recipient, share) in std::mem::take(&mut pending.shares) {
                let gradient = self.gradients.get_mut(&recipient);
                if let Some((gradient, masked)) = gradient.zip(share.masked()) {
                    gradient.keep(self.part, masked);
                }
            }
        }
    }
}

impl SecureProducts {
    /// Guests may have uploaded the batch in an earlier exchange.
    pub(super) fn new<M>(run: &Run<M>, batch: &Batch) -> Self {
        let parties = run.ciphertexts.keys();
        let uploaded = parties.filter(|party| run.holds(party, batch)).cloned().collect();
        Self { uploaded, queries: None, first: None }
    }

    pub(super) fn has_uploaded(&self, party: &PartyId) -> bool {
        self.uploaded.contains(party)
    }

    /// Whether a guest has answered what it was asked.
    pub(super) fn has_answered(&self, party: &PartyId) -> bool {
        self.queries.as_ref().is_none_or(|queries| {
            let pending = queries.guests.get(party);
            pending.is_some_and(PendingQuery::is_answered) || queries.guests.is_empty()
        })
    }

    /// What a guest was asked and has not answered.
    pub(super) fn unanswered(
        &self,
        party: &PartyId,
        exchange: Exchange,
    ) -> Result<Vec<ToGuest>, PartyError> {
        let pending = self.queries.as_ref().and_then(|queries| queries.guests.get(party));
        let Some(pending) = pending else { return Ok(Vec::new()) };
        let challenge = pending.challenge(exchange)?;
        let question = pending.question.as_ref().filter(|question| !question.answered);
        let query = question.map(|question| question.query.clone());
        let query = query.map(|query| ToGuest::ProductQuery { exchange, query });
        let shares = pending.shares.iter().filter(|(_, share)| !share.is_answered());
        let shares = shares.map(|(to, share)| share.message(exchange, to));
        Ok(query.into_iter().chain(challenge).chain(shares).collect())
    }

    /// Who is there has changed: rows have to be computed anew.
    pub(super) fn ask_anew(&mut self) {
        self.queries = None;
    }

    pub(super) fn forget(&mut self, party: &PartyId) {
        self.uploaded.remove(party);
        self.queries = None;
    }

    /// What a guest was asked.
    pub(super) fn pending(&mut self, party: &PartyId) -> Option<&mut PendingQuery> {
        self.queries.as_mut()?.guests.get_mut(party)
    }

    /// A validation total with the products of all guests.
    pub(super) fn total(&self, before: f64) -> f64 {
        let Some(queries) = &self.queries else { return before };
        let products = queries.guests.values().flat_map(|one| &one.products);
        products.fold(before + queries.known, |total, product| total + product)
    }

    /// None if there was nothing to learn from.
    pub(super) fn take_first_update(&mut self) -> Option<FirstUpdate> {
        self.first.take()
    }
}

impl<M> Run<M> {
    /// Forgets ciphertexts whose keys guests give no more products with. Training asks for as many as the host has
    /// parameters: each of its exchanges has keys of its own.
    pub(super) fn retire_keys(&mut self) {
        let Some((purpose, _)) = self.schedule.next() else { return };
        let sealing = self.record.plan.sealing.unwrap_or(Sealing::lattice());
        let next = 1 + sealing.checks();
        // An authority's public keys are for one exchange.
        let validates = purpose != Purpose::Train && !sealing.is_keyed();
        self.ciphertexts.retain(|_, one| {
            let more = one.asked + next <= MOST_SHARED_ANSWERS;
            validates && more && one.weights.len() <= MOST_KEPT_BLOCKS
        });
    }

    /// What the host lacks of a guest's ciphertexts of a batch; none if it sends none.
    fn missing_of(&self, party: &PartyId, batch: &Batch) -> Option<MissingCiphertexts> {
        let (plan, layout) = (&self.record.plan, self.record.agreed.layouts.get(party)?);
        let (sealing, samples) = (plan.sealing?, batch.samples());
        let length = samples_of_block(&sealing, layout, plan.segment, samples.len());
        let blocks = samples.chunks(length.max(1));
        let ciphertexts = self.ciphertexts.get(party);
        let has = |first| ciphertexts.is_some_and(|one| one.weights.contains_key(&block_of(first)));
        let missing = blocks.enumerate().filter(|(_, samples)| !has(samples[0]));
        let blocks = missing.map(|(place, _)| place as u32).collect();
        Some(MissingCiphertexts { public_key: ciphertexts.is_none(), blocks })
    }

    fn holds(&self, party: &PartyId, batch: &Batch) -> bool {
        self.missing_of(party, batch) == Some(MissingCiphertexts::default())
    }
}

impl<M: HostModel> Training<M> {
    /// What a guest is asked to upload in this exchange.
    pub(super) fn missing_ciphertexts(&self, party: &PartyId) -> Option<MissingCiphertexts> {
        self.run.record.plan.seals(self.open.purpose)?;
        self.run.missing_of(party, &self.open.batch)
    }

    pub(super) fn public_key<S: Store>(
        &mut self,
        context: &HostContext<M, S>,
        from: &PartyId,
        key: &Sealed,
    ) -> Result<(), PartyError> {
        if self.owes_commitments(from) || self.run.ciphertexts.contains_key(from) {
            return Ok(());
        }
        let record = &self.run.record;
        let (Some(sealing), Some(layout)) = (record.plan.sealing, record.agreed.layouts.get(from))
        else {
            return Ok(());
        };
        let blocks = context.settings.samples.all().count();
        let size = (record.plan.segment, self.open.samples().len());
        let ciphertexts = GuestCiphertexts::new(sealing, layout, size, blocks, key);
        let ciphertexts = ciphertexts.map_err(|error| blamed(from, error))?;
        self.run.ciphertexts.insert(from.clone(), ciphertexts);
        Ok(())
    }

    pub(super) fn upload(
        &mut self,
        from: &PartyId,
        place: u32,
        weights: BlockWeights,
        upload: &Sealed,
    ) -> Result<(), PartyError> {
        if self.owes_commitments(from) {
            return Ok(());
        }
        // If its key got lost on the way, that is asked for again.
        let Some(ciphertexts) = self.run.ciphertexts.get_mut(from) else { return Ok(()) };
        let wrong = |what: String| Err(PartyError::misbehaved(from, what));
        let mut blocks = self.open.samples().chunks(ciphertexts.length);
        let count = blocks.len();
        let Some(samples) = blocks.nth(place as usize) else {
            return wrong(format!("upload: found place {place}, expected less than {count}"));
        };
        let block = block_of(samples[0]);
        if ciphertexts.weights.contains_key(&block) {
            return Ok(());
        }
        let expected = ciphertexts.length * ciphertexts.ranges.len();
        if weights.as_slice().len() != expected {
            let found = weights.as_slice().len();
            return wrong(format!("upload: found {found} weights, expected {expected}"));
        }
        match ciphertexts.products.store(upload.as_slice()) {
            Ok(stored) if stored == block => {}
            Ok(stored) => {
                // It may have taken the place of an earlier one, which is then asked for again.
                ciphertexts.products.forget(stored);
                ciphertexts.weights.remove(&stored);
                return wrong(format!("upload: found {stored}, expected {block}"));
            }
            Err(error) => return wrong(format!("upload: {error}")),
        }
        ciphertexts.weights.insert(block, weights);
        let complete = self.run.holds(from, &self.open.batch);
        if let Some(products) = self.open.encrypted().filter(|_| complete) {
            products.uploaded.insert(from.clone());
            products.ask_anew();
        }
        Ok(())
    }

    /// Takes products; the challenge that follows, where the guest has committed to its data.
    pub(super) fn products(
        &mut self,
        from: &PartyId,
        answer: &Sealed,
    ) -> Result<Option<ToGuest>, PartyError> {
        let exchange = self.open.exchange;
        let pending = self.open.encrypted().and_then(|products| products.pending(from));
        let Some((pending, ciphertexts)) = pending.zip(self.run.ciphertexts.get_mut(from)) else {
            return Ok(None);
        };
        let Some(question) = pending.question.as_mut().filter(|question| !question.answered) else {
            return Ok(None);
        };
        let opened = ciphertexts.products.open(answer.as_slice());
        let Some(products) = of_this_exchange(opened, from, "products")? else { return Ok(None) };
        question.answered = true;
        pending.products.extend(match &mut question.check {
            Some(check) => check.take(products),
            None => products,
        });
        pending.challenge(exchange)
    }

    /// Whether all products are here, of all updates; if nobody was asked for them yet, asks.
    pub(super) fn has_products<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<bool, PartyError> {
        if self.open.encrypted().is_none() {
            return Ok(true);
        }
        loop {
            match self.take_products(context)? {
                Progress::Done => return Ok(true),
                Progress::Nobody => return Ok(false),
                Progress::Ask => self.make_queries(context)?,
                // Each part has its own time.
                Progress::AskMore => self.open.since = context.guests.now(),
            }
            let asked = self.ask_part(context)?;
            for party in &asked {
                self.ask(context, party)?;
            }
            if !asked.is_empty() {
                return Ok(false);
            }
        }
    }

    /// Updates with products, if all that were asked for are here.
    fn take_products<S: Store>(
        &mut self,
        context: &HostContext<M, S>,
    ) -> Result<Progress, PartyError> {
        let purpose = self.open.purpose;
        let Some(products) = self.open.encrypted() else { return Ok(Progress::Done) };
        let Some(queries) = &products.queries else { return Ok(Progress::Ask) };
        let silent = queries.guests.iter().filter(|(_, pending)| !pending.is_answered());
        let silent: Vec<PartyId> = silent.map(|(party, _)| party.clone()).collect();
        if !silent.is_empty() {
            // They have gone, and are not waited for: without them the rows are others.
            silent.iter().for_each(|party| self.open.forget(party));
            let anyone = context.guests.parties().any(|party| self.open.has_given(party));
            return Ok(if anyone { Progress::Ask } else { Progress::Nobody });
        }
        let Some(queries) = &mut products.queries else { return Ok(Progress::Done) };
        queries.keep_shares();
        if queries.part + 1 < queries.parts() {
            queries.part += 1;
            return Ok(Progress::AskMore);
        }
        if purpose != Purpose::Train || queries.void {
            return Ok(Progress::Done);
        }
        let each = queries.guests.iter();
        let each = each.map(|(party, one)| (party.clone(), one.products.clone()));
        let updated = self.run.model.finish_secure_update(&each.collect::<Products>())?;
        let queries = products.queries.take().unwrap_or_default();
        products.first.get_or_insert_with(|| FirstUpdate {
            loss: updated.loss,
            gradients: queries.gradients,
        });
        Ok(if updated.more { Progress::Ask } else { Progress::Done })
    }

    /// Computes rows and coefficients, to be asked part by part.
    fn make_queries<S: Store>(&mut self, context: &HostContext<M, S>) -> Result<(), PartyError> {
        let (run, open) = (&mut self.run, &mut self.open);
        let mut given = open.given(context.guests.parties());
        for (party, ciphertexts) in &run.ciphertexts {
            if open.has_given(party)
                && let Some(weights) = ciphertexts.weights_of(&open.batch)
            {
                given.weights.insert(party.clone(), weights);
            }
        }
        let trains = open.purpose == Purpose::Train;
        let (known, rows): (f64, Option<ProductRows>) = if trains {
            (0.0, run.model.begin_secure_update(open.samples(), &given)?)
        } else {
            let (known, rows) = run.model.validate_without_values(open.samples(), &given, 0.0)?;
            (known, Some(rows))
        };
        let mut queries = PendingQueries { known, void: rows.is_none(), ..Default::default() };
        let mut rows = rows.unwrap_or_default();
        // Guests learn from the first update of an exchange alone.
        if trains && open.encrypted().is_some_and(|products| products.first.is_none()) {
            queries.gradients = pending_gradients(&run.ciphertexts, &open.batch, &mut rows)?;
        }
        for (party, GuestRows { rows, .. }) in rows {
            let Some(ciphertexts) = run.ciphertexts.get(&party) else { continue };
            let at_once = ciphertexts.rows_at_once(&open.batch);
            let (question, products, shares) = (None, Vec::new(), BTreeMap::new());
            let pending = PendingQuery { rows, at_once, question, products, shares };
            queries.guests.insert(party, pending);
        }
        if let Some(products) = open.encrypted() {
            products.queries = Some(queries);
        }
        Ok(())
    }

    /// Encrypts a part of rows and coefficients, and says who is to be asked. Where an authority issues keys, products are
    /// there at once.
    fn ask_part<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<Vec<PartyId>, PartyError> {
        let (run, batch) = (&mut self.run, self.open.batch.clone());
        let round = self.open.exchange.round;
        let queries = self.open.encrypted().and_then(|products| products.queries.as_mut());
        let Some(queries) = queries else { return Ok(Vec::new()) };
        for (party, pending) in &mut queries.guests {
            pending.question = None;
            let Some(ciphertexts) = run.ciphertexts.get_mut(party) else { continue };
            let first = queries.part * pending.at_once;
            let rows = first..(first + pending.at_once).min(pending.rows);
            if rows.is_empty() {
                continue;
            }
            run.rows.resize(rows.len() * ciphertexts.columns(&batch), 0.0);
            let size = [rows.len() as u32, ciphertexts.columns(&batch) as u32];
            run.model.write_rows(party, rows, &mut run.rows)?;
            let hide = |one: &CommitmentRegistry| one.hide(ciphertexts, &batch, &mut run.rows);
            let check = run.commitments.as_ref().map(hide).transpose()?;
            let query = ciphertexts.ask(&batch, &mut run.rows)?;
            if ciphertexts.products.answered_by() == AnsweredBy::Authority {
                let keys = context.keys_of(round, party, size, query)?;
                // The guest has encrypted what it opens.
                let opened = ciphertexts.products.open(&keys);
                let wrong = |error| PartyError::misbehaved(party, format!("its upload: {error}"));
                pending.products.extend(opened.map_err(wrong)?);
                continue;
            }
            let query = Sealed::new(query).map_err(PartyError::misuse)?;
            pending.question = Some(Question { query, answered: false, check });
        }
        for (recipient, gradient) in &queries.gradients {
            for (owner, share) in gradient.ask(queries.part, recipient, &mut run.ciphertexts)? {
                if let Some(pending) = queries.guests.get_mut(&owner) {
                    pending.shares.insert(recipient.clone(), share);
                }
            }
        }
        let asked = queries.guests.iter();
        let asked = asked.filter(|(_, one)| one.question.is_some() || !one.shares.is_empty());
        Ok(asked.map(|(party, _)| party.clone()).collect())
    }
}

/// What a guest answered; none if it is to something asked before another guest came back.
pub(super) fn of_this_exchange<T>(
    answer: Result<T, SealedError>,
    from: &PartyId,
    what: &str,
) -> Result<Option<T>, PartyError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(SealedError::Peer { reason: DecodeError::OtherExchange { .. }, .. }) => Ok(None),
        Err(error) => Err(PartyError::misbehaved(from, format!("its {what}: {error}"))),
    }
}

/// A guest's bytes are its own fault, all else is ours.
fn blamed(party: &PartyId, error: PartyError) -> PartyError {
    match error {
        PartyError::Sealed(error @ SealedError::Peer { .. }) => {
            PartyError::misbehaved(party, format!("its key: {error}"))
        }
        other => other,
    }
}
