//! Guests' measurements as the host has them where they are sealed: encrypted, and as products with its rows.
//!
//! ```text
//! all have embedded and uploaded ─► rows of the model ─► a query to each ─► their products ─► closed
//!                                                     └► shares from each ───► their relays ──┘
//! ```
//!
//! If a guest comes or goes in the middle, the rows are computed and asked anew. A query that is said again
//! has the same bytes.

use std::collections::BTreeMap;

use protocol::message::sealed::{BlockWeights, MissingCiphertexts, Sealed, block_length};
use protocol::message::{Exchange, Purpose, ToGuest};
use protocol::party::{Now, PartyId};
use sealed::SealedError;
use sealed::wire::DecodeError;

use super::ciphertexts::GuestCiphertexts;
use super::committing::{CommitmentRegistry, ProductCheck};
use super::lending::{GradientTerms, PendingGradient, PendingShare, request_shares};
use super::{Host, ToGuestOutbox};
use crate::agreement::block_of;
use crate::error::PartyError;
use crate::model::{HostModel, ProductRows, Products};
use crate::store::Store;

/// The first of an exchange's updates with products: its loss is the exchange's, and guests learn from its rows.
pub(super) struct FirstUpdate {
    pub loss: f64,
    pub gradients_due: BTreeMap<PartyId, PendingGradient>,
}

/// How far the products of an exchange are.
enum Progress {
    /// All are here, and all updates done.
    Done,
    /// Rows are to be computed and asked.
    Ask,
    /// Nobody is there to be asked.
    Nobody,
}

/// What guests were asked of a batch.
#[derive(Default)]
pub(super) struct PendingQueries {
    pub(super) guests: BTreeMap<PartyId, PendingQuery>,
    /// In validation, the total without what guests measured.
    known: f64,
    /// There is nothing to learn from.
    void: bool,
}

pub(super) struct PendingQuery {
    query: Sealed,
    products: Option<Vec<f64>>,
    /// Rows whose products are held against what it has committed to.
    pub(super) check: Option<ProductCheck>,
    /// The gradient of its embedding without what was measured.
    pub(super) known: Vec<f64>,
    /// Encrypted coefficients that it is sent, by the guest whose gradient they are for.
    pub(super) shares: BTreeMap<PartyId, PendingShare>,
    /// What the parts of that gradient have in common.
    pub(super) shared: Option<GradientTerms>,
}

impl PendingQuery {
    fn is_answered(&self) -> bool {
        let checked = self.check.as_ref().is_none_or(ProductCheck::passed);
        self.products.is_some() && checked && self.shares.values().all(PendingShare::is_answered)
    }
}

impl PendingQuery {
    /// What is asked about its products, once they are here.
    fn challenge(&self, exchange: Exchange) -> Result<Option<ToGuest>, PartyError> {
        let check = self.check.as_ref();
        check.map_or(Ok(None), |check| check.challenge(exchange, &self.query))
    }
}

impl PendingQueries {
    pub fn has_answered(&self, party: &PartyId) -> bool {
        self.guests.get(party).is_some_and(PendingQuery::is_answered) || self.guests.is_empty()
    }

    /// What a guest was asked and has not answered.
    pub fn unanswered(
        &self,
        party: &PartyId,
        exchange: Exchange,
    ) -> Result<Vec<ToGuest>, PartyError> {
        let Some(pending) = self.guests.get(party) else { return Ok(Vec::new()) };
        let challenge = pending.challenge(exchange)?;
        let query = Some(pending.query.clone()).filter(|_| pending.products.is_none());
        let query = query.map(|query| ToGuest::ProductQuery { exchange, query });
        let shares = pending.shares.iter().filter(|(_, share)| !share.is_answered());
        let shares = shares.map(|(to, share)| share.message(exchange, to));
        Ok(query.into_iter().chain(challenge).chain(shares).collect())
    }

    /// All products.
    fn products(&self) -> Products {
        let each = self.guests.iter();
        let each =
            each.map(|(party, one)| (party.clone(), one.products.clone().unwrap_or_default()));
        each.collect()
    }

    /// The total with them.
    pub fn total(&self, before: f64) -> f64 {
        let products = self.guests.values().flat_map(|one| one.products.iter().flatten());
        products.fold(before + self.known, |total, product| total + product)
    }
}

impl<M: HostModel, S: Store> Host<M, S> {
    /// Whether measurements of the open round are sealed.
    pub(super) fn is_sealed(&self) -> bool {
        let purpose = self.running.as_ref().and_then(|running| running.open.as_ref());
        let plan = self.card.as_ref().map(|card| &card.plan);
        plan.zip(purpose).is_some_and(|(plan, open)| plan.seals(open.purpose).is_some())
    }

    /// What the host lacks of a guest's sealed measurements of the open round.
    pub(super) fn missing(&self, party: &PartyId) -> Option<MissingCiphertexts> {
        let (card, running) = (self.card.as_ref()?, self.running.as_ref()?);
        let open = running.open.as_ref()?;
        card.plan.seals(open.purpose)?;
        let entries = card.agreed.layouts.get(party)?.len();
        let blocks = open.batch.samples().chunks(block_length(card.plan.segment, entries));
        let ciphertexts = running.sealed.get(party);
        let has = |first| {
            ciphertexts
                .is_some_and(|ciphertexts| ciphertexts.weights.contains_key(&block_of(first)))
        };
        let places = blocks.enumerate().filter(|(_, samples)| !has(samples[0]));
        let blocks = places.map(|(place, _)| place as u32).collect();
        Some(MissingCiphertexts { public_key: ciphertexts.is_none(), blocks })
    }

    /// Takes note of those whose measurements of the open round are here from before.
    pub(super) fn note_uploads(&mut self) {
        if !self.is_sealed() {
            return;
        }
        let complete = |party: &PartyId| {
            self.missing(party).is_some_and(|missing| missing == MissingCiphertexts::default())
        };
        let there = self.sessions.keys().filter(|party| complete(party)).cloned().collect();
        if let Some(open) = self.running.as_mut().and_then(|running| running.open.as_mut()) {
            open.uploaded = there;
        }
    }

    /// The open round, if a message about sealed measurements belongs to it.
    pub(super) fn sealed_round(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        out: &mut ToGuestOutbox,
    ) -> Result<bool, PartyError> {
        if !self.takes_part(now, from, exchange, out)? {
            return Ok(false);
        }
        let open = self.running.as_ref().and_then(|running| running.open.as_ref());
        let Some(open) = open.filter(|open| open.exchange.round <= exchange.round) else {
            return Ok(false);
        };
        if open.exchange.round != exchange.round || !self.is_sealed() {
            let what = format!(
                "it sent sealed measurements in round {}, which asks for none",
                exchange.round
            );
            return Err(PartyError::misbehaved(from, what));
        }
        Ok(true)
    }

    pub(super) fn public_key(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        key: &Sealed,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.sealed_round(now, from, exchange, out)? || self.owes_commitments(from) {
            return Ok(());
        }
        let (Some(card), Some(running)) = (&self.card, &mut self.running) else { return Ok(()) };
        let (Some(sealing), Some(layout)) = (card.plan.sealing, card.agreed.layouts.get(from))
        else {
            return Ok(());
        };
        if !running.sealed.contains_key(from) {
            let blocks = self.settings.samples.all().count();
            let ciphertexts =
                GuestCiphertexts::new(sealing, layout, card.plan.segment, blocks, key);
            running.sealed.insert(from.clone(), ciphertexts.map_err(|error| blamed(from, error))?);
        }
        Ok(())
    }

    pub(super) fn upload(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        (place, weights, upload): (u32, BlockWeights, &Sealed),
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.sealed_round(now, from, exchange, out)? || self.owes_commitments(from) {
            return Ok(());
        }
        let Some(running) = &mut self.running else { return Ok(()) };
        let (Some(ciphertexts), Some(open)) = (running.sealed.get_mut(from), &running.open) else {
            // Its key got lost on the way: it is asked for again.
            return Ok(());
        };
        let wrong = |what: String| Err(PartyError::misbehaved(from, what));
        let mut blocks = open.batch.samples().chunks(ciphertexts.length);
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
        if self.missing(from).is_some_and(|missing| missing == MissingCiphertexts::default())
            && let Some(open) = self.running.as_mut().and_then(|running| running.open.as_mut())
        {
            open.uploaded.insert(from.clone());
            open.queries = None;
        }
        self.close_if_answered(now, out)
    }

    pub(super) fn products(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        answer: &Sealed,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.sealed_round(now, from, exchange, out)? {
            return Ok(());
        }
        let Some(running) = &mut self.running else { return Ok(()) };
        let queries = running.open.as_mut().and_then(|open| open.queries.as_mut());
        let pending = queries.and_then(|queries| queries.guests.get_mut(from));
        let Some(pending) = pending.filter(|pending| pending.products.is_none()) else {
            return Ok(());
        };
        let Some(ciphertexts) = running.sealed.get_mut(from) else { return Ok(()) };
        let opened = ciphertexts.products.open(answer.as_slice());
        let Some(products) = of_this_exchange(opened, from, "products")? else { return Ok(()) };
        let products = match &mut pending.check {
            Some(check) => check.take(products),
            None => products,
        };
        pending.products = Some(products);
        if let Some(challenge) = pending.challenge(exchange)? {
            return self.say(now, from, challenge, out);
        }
        self.close_if_answered(now, out)
    }

    /// Whether all products are here, of all updates; if nobody was asked for them yet, asks.
    pub(super) fn has_products(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<bool, PartyError> {
        loop {
            match self.take_products()? {
                Progress::Done => return Ok(true),
                Progress::Nobody => return Ok(false),
                Progress::Ask => {}
            }
            let asked = self.make_queries()?;
            for party in &asked {
                self.ask(now, party, out)?;
            }
            if !asked.is_empty() {
                return Ok(false);
            }
        }
    }

    /// Updates with products, if all that were asked for are here.
    fn take_products(&mut self) -> Result<Progress, PartyError> {
        let Some(running) = &mut self.running else { return Ok(Progress::Nobody) };
        let Some(open) = &mut running.open else { return Ok(Progress::Nobody) };
        let Some(queries) = &open.queries else { return Ok(Progress::Ask) };
        let silent = queries.guests.iter().filter(|(_, pending)| !pending.is_answered());
        let silent: Vec<PartyId> = silent.map(|(party, _)| party.clone()).collect();
        if !silent.is_empty() {
            // They have gone, and are not waited for: without them the rows are others.
            silent.iter().for_each(|party| open.forget(party));
            let anyone = self.sessions.keys().any(|party| open.has_given(party));
            return Ok(if anyone { Progress::Ask } else { Progress::Nobody });
        }
        if open.purpose != Purpose::Train || queries.void {
            return Ok(Progress::Done);
        }
        let updated = running.model.finish_secure_update(&queries.products())?;
        let queries = open.queries.take().unwrap_or_default();
        open.first.get_or_insert_with(|| FirstUpdate {
            loss: updated.loss,
            gradients_due: queries.into_pending_gradients(),
        });
        Ok(if updated.more { Progress::Ask } else { Progress::Done })
    }

    /// Computes rows, and who is to be asked about them.
    fn make_queries(&mut self) -> Result<Vec<PartyId>, PartyError> {
        let Some(running) = &mut self.running else { return Ok(Vec::new()) };
        let Some(open) = &mut running.open else { return Ok(Vec::new()) };
        let mut given = open.given(self.sessions.keys().cloned());
        for (party, ciphertexts) in &running.sealed {
            if open.has_given(party)
                && let Some(weights) = ciphertexts.weights_of(&open.batch)
            {
                given.weights.insert(party.clone(), weights);
            }
        }
        let samples = open.batch.samples();
        let (known, rows): (f64, Option<ProductRows>) = match open.purpose {
            Purpose::Train => (0.0, running.model.begin_secure_update(samples, &given)?),
            _ => {
                let (known, rows) = running.model.validate_without_values(samples, &given, 0.0)?;
                (known, Some(rows))
            }
        };
        let mut queries = PendingQueries { guests: BTreeMap::new(), known, void: rows.is_none() };
        let mut rows = rows.unwrap_or_default();
        // Guests learn from the first update of an exchange alone.
        let trains = open.purpose == Purpose::Train && open.first.is_none();
        let (mut shares, mut shared) = match trains {
            true => request_shares(&mut running.sealed, &open.batch, &mut rows)?,
            false => Default::default(),
        };
        for (party, mut rows) in rows {
            let Some(ciphertexts) = running.sealed.get_mut(&party) else { continue };
            let registry = running.registry.as_ref();
            let hide =
                |one: &CommitmentRegistry| one.hide(ciphertexts, &open.batch, &mut rows.rows);
            let check = registry.map(hide).transpose()?;
            let query = Sealed::new(ciphertexts.ask(&open.batch, &mut rows.rows)?);
            let query = query.map_err(PartyError::misuse)?;
            running.model.recycle(std::mem::take(&mut rows.rows));
            let (shares, shared) =
                (shares.remove(&party).unwrap_or_default(), shared.remove(&party));
            let (products, known) = (None, rows.known);
            let pending = PendingQuery { query, products, check, known, shares, shared };
            queries.guests.insert(party, pending);
        }
        let asked: Vec<PartyId> = queries.guests.keys().cloned().collect();
        open.queries = Some(queries);
        Ok(asked)
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
