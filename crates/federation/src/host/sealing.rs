//! Guests' measurements as the host has them where they are sealed: encrypted, and as products with its rows.
//!
//! ```text
//! all have embedded and uploaded ─► rows of the model ─► a question to each ─► their products ─► settled
//! ```
//!
//! If a guest comes or goes in the middle, the rows are computed and asked anew. A question that is said again
//! has the same bytes.

use std::collections::BTreeMap;

use sealed::plain::PlainHost;
use sealed::rlwe::RlweHost;
use sealed::wire::DecodeError;
use sealed::{BlockId, BlockProducts, Matrix, SealedError};

use super::{Host, Running, ToGuestOutbox};
use crate::error::PartyError;
use crate::message::measurements::Layout;
use crate::message::parts::Batch;
use crate::message::sealed::{
    BlockWeights, Lacking, Scheme, Sealed, Sealing, block_length, block_of, range,
};
use crate::message::{Exchange, Purpose};
use crate::model::{GuestRows, HostModel, Products, RowsApart};
use crate::party::{Now, PartyId};
use crate::store::Store;

/// What the host has of a guest's sealed measurements.
pub(super) struct SealedSeat {
    products: Box<dyn sealed::Host + Send>,
    weights: BTreeMap<BlockId, BlockWeights>,
    /// The largest value of each entry of a sample.
    ranges: Vec<f64>,
    /// Samples of a block.
    length: usize,
}

/// What guests were asked of a batch.
#[derive(Default)]
pub(super) struct Posed {
    guests: BTreeMap<PartyId, Pending>,
    /// In validation, the total without what guests measured.
    known: f64,
    /// There is nothing to learn from.
    void: bool,
}

struct Pending {
    question: Sealed,
    products: Option<Vec<f64>>,
    rows: GuestRows,
}

impl Posed {
    pub fn has_answered(&self, party: &PartyId) -> bool {
        self.guests.get(party).is_some_and(|pending| pending.products.is_some())
            || self.guests.is_empty()
    }

    /// Whether there is nothing to learn from.
    pub fn is_void(&self) -> bool {
        self.void
    }

    /// What a guest was asked and has not answered.
    pub fn question(&self, party: &PartyId) -> Option<Sealed> {
        let pending = self.guests.get(party).filter(|pending| pending.products.is_none());
        pending.map(|pending| pending.question.clone())
    }

    /// All products.
    pub fn products(&self) -> Products {
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

impl<M: HostModel> Running<M> {
    /// The gradient of each guest's embedding, for that guest alone.
    pub(super) fn grants(
        &mut self,
        posed: Posed,
        batch: &Batch,
    ) -> Result<BTreeMap<PartyId, Sealed>, PartyError> {
        let mut grants = BTreeMap::new();
        for (party, pending) in posed.guests {
            let Some(seat) = self.sealed.get_mut(&party) else { continue };
            let grant = seat.grant(batch, &pending.rows)?;
            grants.insert(party, Sealed::new(grant).map_err(PartyError::misuse)?);
        }
        Ok(grants)
    }
}

impl SealedSeat {
    fn new(
        sealing: Sealing,
        layout: &Layout,
        segment: u32,
        blocks: usize,
        opening: &Sealed,
    ) -> Result<Self, PartyError> {
        let agreement = sealing.agreement(layout, segment, blocks).map_err(PartyError::misuse)?;
        let products: Box<dyn sealed::Host + Send> = match sealing.scheme {
            Scheme::Lattice => Box::new(RlweHost::new(agreement, opening.as_slice())?),
            Scheme::Plain => Box::new(PlainHost::new(agreement)?),
        };
        let entries = layout.groups().flat_map(|(_, entries)| entries);
        let ranges = entries.map(|entry| range(entry.quantity)).collect();
        Ok(Self { products, weights: BTreeMap::new(), ranges, length: block_length(segment) })
    }

    fn blocks(&self, batch: &Batch) -> Vec<BlockId> {
        batch.samples().chunks(self.length).map(|block| block_of(block[0])).collect()
    }

    /// The weights of a batch, `[sample, entry]`, if all of it is here.
    fn weights_of(&self, batch: &Batch) -> Option<Vec<f32>> {
        let mut all = Vec::new();
        for block in self.blocks(batch) {
            all.extend_from_slice(self.weights.get(&block)?.as_slice());
        }
        Some(all)
    }

    /// Rows of values become rows of shares of their ranges.
    fn ask(&mut self, batch: &Batch, rows: &[f64]) -> Result<Vec<u8>, SealedError> {
        let columns = batch.samples().len() * self.ranges.len();
        let scaled = rows.iter().zip(self.ranges.iter().cycle()).map(|(a, range)| a * range);
        let values: Vec<f64> = scaled.collect();
        let blocks = self.blocks(batch);
        let rows = values.len() / columns.max(1);
        self.products.ask(&Matrix { rows, blocks: &blocks, values: &values })
    }

    fn grant(&mut self, batch: &Batch, rows: &GuestRows) -> Result<Vec<u8>, SealedError> {
        let (length, entries) = (self.length, self.ranges.len());
        let samples = batch.samples().len();
        let numbers = rows.known.len() / samples.max(1);
        let width = length * entries;
        let mut coefficients = vec![0.0; rows.known.len() * width];
        let own = rows.embedding.chunks_exact(entries.max(1));
        // A sample's gradient depends on that sample's measurements alone.
        for (at, (own, place)) in own.zip(coefficients.chunks_exact_mut(width)).enumerate() {
            let sample = at / numbers.max(1) % length;
            let place = &mut place[sample * entries..][..entries];
            for ((place, d), range) in place.iter_mut().zip(own).zip(&self.ranges) {
                *place = d * range;
            }
        }
        let blocks = self.blocks(batch);
        self.products.grant(&BlockProducts {
            rows: length * numbers,
            blocks: &blocks,
            coefficients: &coefficients,
            offsets: &rows.known,
        })
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
    pub(super) fn lacking(&self, party: &PartyId) -> Option<Lacking> {
        let (card, running) = (self.card.as_ref()?, self.running.as_ref()?);
        let open = running.open.as_ref()?;
        card.plan.seals(open.purpose)?;
        let blocks = open.batch.samples().chunks(block_length(card.plan.segment));
        let seat = running.sealed.get(party);
        let has = |first| seat.is_some_and(|seat| seat.weights.contains_key(&block_of(first)));
        let places = blocks.enumerate().filter(|(_, samples)| !has(samples[0]));
        let blocks = places.map(|(place, _)| place as u32).collect();
        Some(Lacking { opening: seat.is_none(), blocks })
    }

    /// Takes note of those whose measurements of the open round are here from before.
    pub(super) fn note_uploads(&mut self) {
        if !self.is_sealed() {
            return;
        }
        let complete = |party: &PartyId| {
            self.lacking(party).is_some_and(|lacking| lacking == Lacking::default())
        };
        let there = self.seats.keys().filter(|party| complete(party)).cloned().collect();
        if let Some(open) = self.running.as_mut().and_then(|running| running.open.as_mut()) {
            open.uploaded = there;
        }
    }

    /// The open round, if a message about sealed measurements belongs to it.
    fn sealed_round(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        out: &mut ToGuestOutbox,
    ) -> Result<bool, PartyError> {
        if !self.seated(now, from, exchange, out)? {
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

    pub(super) fn opening(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        opening: &Sealed,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.sealed_round(now, from, exchange, out)? {
            return Ok(());
        }
        let (Some(card), Some(running)) = (&self.card, &mut self.running) else { return Ok(()) };
        let (Some(sealing), Some(layout)) = (card.plan.sealing, card.agreed.layouts.get(from))
        else {
            return Ok(());
        };
        if !running.sealed.contains_key(from) {
            let blocks = self.settings.samples.all().count();
            let seat = SealedSeat::new(sealing, layout, card.plan.segment, blocks, opening);
            running.sealed.insert(from.clone(), seat.map_err(|error| blamed(from, error))?);
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
        if !self.sealed_round(now, from, exchange, out)? {
            return Ok(());
        }
        let Some(running) = &mut self.running else { return Ok(()) };
        let (Some(seat), Some(open)) = (running.sealed.get_mut(from), &running.open) else {
            // Its key got lost on the way: it is asked for again.
            return Ok(());
        };
        let wrong = |what: String| Err(PartyError::misbehaved(from, what));
        let mut blocks = open.batch.samples().chunks(seat.length);
        let count = blocks.len();
        let Some(samples) = blocks.nth(place as usize) else {
            return wrong(format!("upload: found place {place}, expected less than {count}"));
        };
        let block = block_of(samples[0]);
        if seat.weights.contains_key(&block) {
            return Ok(());
        }
        let expected = seat.length * seat.ranges.len();
        if weights.as_slice().len() != expected {
            let found = weights.as_slice().len();
            return wrong(format!("upload: found {found} weights, expected {expected}"));
        }
        match seat.products.store(upload.as_slice()) {
            Ok(stored) if stored == block => {}
            Ok(stored) => {
                // It may have taken the place of an earlier one, which is then asked for again.
                seat.products.forget(stored);
                seat.weights.remove(&stored);
                return wrong(format!("upload: found {stored}, expected {block}"));
            }
            Err(error) => return wrong(format!("upload: {error}")),
        }
        seat.weights.insert(block, weights);
        if self.lacking(from).is_some_and(|lacking| lacking == Lacking::default())
            && let Some(open) = self.running.as_mut().and_then(|running| running.open.as_mut())
        {
            open.uploaded.insert(from.clone());
            open.posed = None;
        }
        self.settle_if_answered(now, out)
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
        let posed = running.open.as_mut().and_then(|open| open.posed.as_mut());
        let pending = posed.and_then(|posed| posed.guests.get_mut(from));
        let Some(pending) = pending.filter(|pending| pending.products.is_none()) else {
            return Ok(());
        };
        let Some(seat) = running.sealed.get_mut(from) else { return Ok(()) };
        match seat.products.open(answer.as_slice()) {
            Ok(products) => pending.products = Some(products),
            // An answer to a question from before another guest came back.
            Err(SealedError::Peer { reason, .. }) if is_of_another_exchange(&reason) => {
                return Ok(());
            }
            Err(error) => {
                return Err(PartyError::misbehaved(from, format!("its products: {error}")));
            }
        }
        self.settle_if_answered(now, out)
    }

    /// Whether all products are here; if nobody was asked for them yet, asks.
    pub(super) fn has_products(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<bool, PartyError> {
        let Some(running) = &mut self.running else { return Ok(false) };
        let Some(open) = &mut running.open else { return Ok(false) };
        if let Some(posed) = &open.posed {
            let silent = posed.guests.iter().filter(|(_, pending)| pending.products.is_none());
            let silent: Vec<PartyId> = silent.map(|(party, _)| party.clone()).collect();
            if silent.is_empty() {
                return Ok(true);
            }
            // They have gone, and are not waited for: without them the rows are others.
            silent.iter().for_each(|party| open.forget(party));
            if !self.seats.keys().any(|party| open.has_given(party)) {
                return Ok(false);
            }
        }
        let mut given = open.given(self.seats.keys().cloned());
        for (party, seat) in &running.sealed {
            if open.has_given(party)
                && let Some(weights) = seat.weights_of(&open.batch)
            {
                given.weights.insert(party.clone(), weights);
            }
        }
        let samples = open.batch.samples();
        let (known, rows): (f64, Option<RowsApart>) = match open.purpose {
            Purpose::Train => (0.0, running.model.learn_apart(samples, &given)?),
            _ => {
                let (known, rows) = running.model.judge_apart(samples, &given, 0.0)?;
                (known, Some(rows))
            }
        };
        let mut posed = Posed { guests: BTreeMap::new(), known, void: rows.is_none() };
        for (party, rows) in rows.into_iter().flatten() {
            let Some(seat) = running.sealed.get_mut(&party) else { continue };
            let question = Sealed::new(seat.ask(&open.batch, &rows.rows)?);
            let question = question.map_err(PartyError::misuse)?;
            let rows = GuestRows { rows: Vec::new(), ..rows };
            posed.guests.insert(party, Pending { question, products: None, rows });
        }
        let asked: Vec<PartyId> = posed.guests.keys().cloned().collect();
        open.posed = Some(posed);
        for party in &asked {
            self.ask(now, party, out)?;
        }
        Ok(asked.is_empty())
    }
}

fn is_of_another_exchange(reason: &DecodeError) -> bool {
    matches!(reason, DecodeError::Range { what: "exchange of the answer", .. })
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
