//! What guests lend each other for the gradients of their embeddings, as the host has it: encrypted.
//!
//! A guest's gradient is Σ D·u + c over the measurements u of *all* guests, and only that guest may know it. With the
//! question about its own rows, each guest gets loans: D of every other guest's gradient, masked. What comes back is
//! encrypted for that other guest, and goes into its grant.

use std::collections::BTreeMap;

use sealed::{Lent, Loan, Reach, Scale};

use super::sealed_seat::{Part, SealedSeat};
use super::sealing::{Posed, of_this_exchange};
use super::{Host, Running, ToGuestOutbox};
use crate::error::PartyError;
use crate::message::parts::Batch;
use crate::message::sealed::{Fingerprint, Sealed};
use crate::message::{Exchange, ToGuest};
use crate::model::{GuestRows, HostModel};
use crate::party::{Now, PartyId};
use crate::store::Store;

/// Products that one guest was asked for and another is to get.
pub(super) struct Loaned {
    /// As it was asked: said again, it has the same bytes.
    question: Sealed,
    /// The other guest's key.
    key: Sealed,
    loan: Loan,
    lent: Option<Lent>,
}

impl Loaned {
    pub fn is_answered(&self) -> bool {
        self.lent.is_some()
    }

    pub fn message(&self, exchange: Exchange, to: &PartyId) -> ToGuest {
        let (key, loan) = (self.key.clone(), self.question.clone());
        ToGuest::Loan { exchange, to: to.clone(), key, loan }
    }
}

/// The gradient of a guest's embedding, as far as it is known; the guest is told it at the end of the exchange.
pub(super) struct Due {
    rows: GuestRows,
    /// What others add to it, and in which units: none if there are no others.
    shared: Option<Shared>,
    lent: Vec<Lent>,
}

/// What the parts of a gradient have in common.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    scale: Scale,
    /// The key that others have encrypted with.
    key: Fingerprint,
}

/// By lender and, of each, by taker.
type Loans = BTreeMap<PartyId, BTreeMap<PartyId, Loaned>>;

/// Asks everyone for what the others' gradients need. `rows` are of those who are asked at all; afterwards they have no
/// parts of others any more.
pub(super) fn lend(
    seats: &mut BTreeMap<PartyId, SealedSeat>,
    batch: &Batch,
    rows: &mut BTreeMap<PartyId, GuestRows>,
) -> Result<(Loans, BTreeMap<PartyId, Shared>), PartyError> {
    let (mut loans, mut shared) = (Loans::new(), BTreeMap::new());
    for (taker, rows) in rows {
        let Some(seat) = seats.get(taker) else { continue };
        let (opening, key) = (seat.opening.clone(), seat.key());
        let own = seat.part(batch, &rows.embedding, &rows.known);
        let mut reach = Reach::of(&seat.agreement, &own.products())?;
        let nothing = vec![0.0; rows.known.len()];
        let mut parts: Vec<(PartyId, Part)> = Vec::new();
        for (lender, coefficients) in std::mem::take(&mut rows.others) {
            let Some(seat) = seats.get(&lender).filter(|seat| seat.holds(batch)) else { continue };
            let part = seat.part(batch, &coefficients, &nothing);
            reach = reach.and(Reach::of(&seat.agreement, &part.products())?);
            parts.push((lender, part));
        }
        if parts.is_empty() {
            continue;
        }
        let scale = reach.scale()?;
        for (lender, part) in parts {
            let Some(seat) = seats.get_mut(&lender) else { continue };
            let (question, loan) = seat.products.lend(&part.products(), scale)?;
            let question = Sealed::new(question).map_err(PartyError::misuse)?;
            let loaned = Loaned { question, key: opening.clone(), loan, lent: None };
            loans.entry(lender).or_default().insert(taker.clone(), loaned);
        }
        shared.insert(taker.clone(), Shared { scale, key });
    }
    Ok((loans, shared))
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
            let (rows, shared) = (pending.rows, pending.shared);
            dues.insert(party, Due { rows, shared, lent: Vec::new() });
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
        batch: &Batch,
    ) -> Result<BTreeMap<PartyId, Sealed>, PartyError> {
        let mut grants = BTreeMap::new();
        for (party, Due { rows, shared, lent }) in dues {
            let seat = self.sealed.get_mut(&party).filter(|seat| seat.holds(batch));
            let Some(seat) = seat else { continue };
            let part = seat.part(batch, &rows.embedding, &rows.known);
            let grant = match shared {
                // A guest with a new key cannot read what was encrypted with the old one.
                Some(shared) if shared.key != seat.key() => continue,
                Some(Shared { scale, .. }) => {
                    seat.products.grant_with(&part.products(), scale, &lent)?
                }
                None => seat.products.grant(&part.products())?,
            };
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
        let Some(taker) = running.sealed.get(to) else { return Ok(()) };
        let accepted = taker.products.accept(&loaned.loan, relay.as_slice());
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
