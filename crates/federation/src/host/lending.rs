//! What guests lend to the gradients of embeddings, as the host has it: masked.
//!
//! A guest's gradient is Σ D·u + c over the measurements u of *all* guests, itself among them, and only that guest may know
//! it. With the question about its own rows, each guest gets loans: D of its own gradient and of every other guest's,
//! encrypted. What comes back is masked for the taker, and goes into its grant.

use std::collections::BTreeMap;

use estimator::EmbeddingCoefficients;
use protocol::message::parts::Batch;
use protocol::message::sealed::{Fingerprint, LoanEntries, Sealed};
use protocol::message::{Exchange, ToGuest};
use protocol::party::{Now, PartyId};
use sealed::{Coefficients, Lent, Loan, Reach, Scale};

use super::sealed_seat::SealedSeat;
use super::sealing::{Posed, of_this_exchange};
use super::{Host, Running, ToGuestOutbox};
use crate::error::PartyError;
use crate::model::{GuestRows, HostModel};
use crate::store::Store;

/// Products that a guest was asked for and another one, or itself, is to get.
pub(super) struct Loaned {
    /// As it was asked: said again, it has the same bytes.
    question: Sealed,
    /// Which of its values they are of.
    entries: LoanEntries,
    /// The taker's key, if that is another guest.
    key: Option<Sealed>,
    loan: Loan,
    lent: Option<Lent>,
}

impl Loaned {
    pub fn is_answered(&self) -> bool {
        self.lent.is_some()
    }

    pub fn message(&self, exchange: Exchange, to: &PartyId) -> ToGuest {
        let (key, entries, loan) = (self.key.clone(), self.entries.clone(), self.question.clone());
        ToGuest::Loan { exchange, to: to.clone(), key, entries, loan }
    }
}

/// The gradient of a guest's embedding, as far as it is known; the guest is told it at the end of the exchange.
pub(super) struct Due {
    known: Vec<f64>,
    shared: Shared,
    lent: Vec<Lent>,
}

/// What the parts of a gradient have in common.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    scale: Scale,
    /// The taker's key, which others have encrypted with.
    key: Fingerprint,
}

/// By lender and, of each, by taker.
type Loans = BTreeMap<PartyId, BTreeMap<PartyId, Loaned>>;

/// Asks everyone for what the gradients of all need. `rows` are of those who are asked at all; afterwards they have no
/// shares any more.
pub(super) fn lend(
    seats: &mut BTreeMap<PartyId, SealedSeat>,
    batch: &Batch,
    rows: &mut BTreeMap<PartyId, GuestRows>,
) -> Result<(Loans, BTreeMap<PartyId, Shared>), PartyError> {
    let (mut loans, mut shared) = (Loans::new(), BTreeMap::new());
    for (taker, rows) in rows {
        let Some(seat) = seats.get(taker).filter(|_| !rows.known.is_empty()) else { continue };
        let (opening, key) = (seat.opening.clone(), seat.key());
        let own = (taker.clone(), std::mem::take(&mut rows.embedding));
        let mut reach = Reach::of_offsets(&rows.known)?;
        let mut parts: Vec<(PartyId, EmbeddingCoefficients)> = Vec::new();
        for (lender, mut share) in [own].into_iter().chain(std::mem::take(&mut rows.others)) {
            let Some(seat) = seats.get(&lender).filter(|seat| seat.holds(batch)) else { continue };
            if share.terms == 0 {
                continue;
            }
            seat.in_shares_of_ranges(&mut share);
            reach = reach.and(Reach::of(&seat.agreement, &coefficients(&share))?);
            parts.push((lender, share));
        }
        let scale = reach.scale()?;
        for (lender, share) in parts {
            let Some(seat) = seats.get_mut(&lender) else { continue };
            let own = lender == *taker;
            let (question, loan) = seat.products.lend(&coefficients(&share), scale, own)?;
            let question = Sealed::new(question).map_err(PartyError::misuse)?;
            let entries = LoanEntries::new(share.entries).map_err(PartyError::misuse)?;
            let key = Some(opening.clone()).filter(|_| !own);
            let loaned = Loaned { question, entries, key, loan, lent: None };
            loans.entry(lender).or_default().insert(taker.clone(), loaned);
        }
        shared.insert(taker.clone(), Shared { scale, key });
    }
    Ok((loans, shared))
}

fn coefficients(share: &EmbeddingCoefficients) -> Coefficients<'_> {
    Coefficients { terms: share.terms, values: &share.coefficients }
}

impl Posed {
    /// What is to be granted when the exchange ends.
    pub(super) fn into_dues(self) -> BTreeMap<PartyId, Due> {
        let mut lent: BTreeMap<PartyId, Vec<Lent>> = BTreeMap::new();
        let mut dues = BTreeMap::new();
        for (party, pending) in self.guests {
            for (taker, loaned) in pending.loans {
                lent.entry(taker).or_default().extend(loaned.lent);
            }
            let Some(shared) = pending.shared else { continue };
            dues.insert(party, Due { known: pending.known, shared, lent: Vec::new() });
        }
        for (party, due) in &mut dues {
            due.lent = lent.remove(party).unwrap_or_default();
        }
        dues
    }
}

impl<M: HostModel> Running<M> {
    /// The gradient of each guest's embedding, for that guest alone.
    pub(super) fn grants(
        &mut self,
        dues: BTreeMap<PartyId, Due>,
    ) -> Result<BTreeMap<PartyId, Sealed>, PartyError> {
        let mut grants = BTreeMap::new();
        for (party, Due { known, shared, lent }) in dues {
            // A guest with a new key has no masks for the old one.
            let seat = self.sealed.get_mut(&party).filter(|seat| seat.key() == shared.key);
            let Some(seat) = seat else { continue };
            let grant = seat.products.grant(&known, shared.scale, &lent)?;
            grants.insert(party, Sealed::new(grant).map_err(PartyError::misuse)?);
        }
        Ok(grants)
    }
}

impl<M: HostModel, S: Store> Host<M, S> {
    pub(super) fn relay(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        (to, key, relay): (&PartyId, Fingerprint, &Sealed),
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.sealed_round(now, from, exchange, out)? {
            return Ok(());
        }
        let Some(running) = &mut self.running else { return Ok(()) };
        let posed = running.open.as_mut().and_then(|open| open.posed.as_mut());
        let pending = posed.and_then(|posed| posed.guests.get_mut(from));
        let loaned = pending.and_then(|pending| pending.loans.get_mut(to));
        let Some(loaned) = loaned.filter(|loaned| loaned.lent.is_none()) else { return Ok(()) };
        let (lender, taker) = (running.sealed.get(from), running.sealed.get(to));
        let Some((lender, taker)) = lender.zip(taker) else { return Ok(()) };
        let accepted = lender.products.accept(&loaned.loan, relay.as_slice());
        let Some(lent) = of_this_exchange(accepted, from, "relay")? else { return Ok(()) };
        if key != taker.key() {
            let what = format!(
                "key of `{to}` that it has encrypted with: found {key}, expected {}",
                taker.key()
            );
            return Err(PartyError::misbehaved(from, what));
        }
        loaned.lent = Some(lent);
        self.settle_if_answered(now, out)
    }
}
