//! What guests contribute to the gradients of embeddings, as the host sees it: masked.
//!
//! A guest's gradient is Σ D·u + c over the measurements u of *all* guests, itself among them, and only that guest may know
//! it. With the query about its own rows, each guest gets shares: D of its own gradient and of every other guest's,
//! encrypted. What comes back is masked for the recipient, and goes into its masked gradient.

use std::collections::BTreeMap;

use estimator::EmbeddingCoefficients;
use protocol::message::parts::Batch;
use protocol::message::sealed::{CoefficientEntries, Fingerprint, Sealed};
use protocol::message::{Exchange, ToGuest};
use protocol::party::{Now, PartyId};
use sealed::{Coefficients, MagnitudeBound, MaskedShare, PendingProducts, Scale};

use super::ciphertexts::GuestCiphertexts;
use super::sealing::{PendingQueries, of_this_exchange};
use super::{Host, Running, ToGuestOutbox};
use crate::error::PartyError;
use crate::model::{GuestRows, HostModel};
use crate::store::Store;

/// Products that a guest was asked for and another one, or itself, is to get.
pub(super) struct PendingShare {
    /// As it was asked: said again, it has the same bytes.
    query: Sealed,
    /// Which of its values they are of.
    entries: CoefficientEntries,
    /// The recipient's key, if that is another guest.
    key: Option<Sealed>,
    pending: PendingProducts,
    masked: Option<MaskedShare>,
}

impl PendingShare {
    pub fn is_answered(&self) -> bool {
        self.masked.is_some()
    }

    pub fn message(&self, exchange: Exchange, to: &PartyId) -> ToGuest {
        let (key, entries) = (self.key.clone(), self.entries.clone());
        let coefficients = self.query.clone();
        ToGuest::EncryptedCoefficients {
            exchange,
            recipient: to.clone(),
            key,
            entries,
            coefficients,
        }
    }
}

/// The gradient of a guest's embedding, as far as it is known; the guest is told it at the end of the exchange.
pub(super) struct PendingGradient {
    known: Vec<f64>,
    shared: GradientTerms,
    masked: Vec<MaskedShare>,
}

/// What the parts of a gradient have in common.
#[derive(Clone, Copy)]
pub(super) struct GradientTerms {
    scale: Scale,
    /// The recipient's key, which others have encrypted with.
    key: Fingerprint,
}

/// By owner and, of each, by recipient.
type PendingShares = BTreeMap<PartyId, BTreeMap<PartyId, PendingShare>>;

/// Asks everyone for what the gradients of all need. `rows` are of those who are asked at all; afterwards they have no
/// shares any more.
pub(super) fn request_shares(
    ciphertexts: &mut BTreeMap<PartyId, GuestCiphertexts>,
    batch: &Batch,
    rows: &mut BTreeMap<PartyId, GuestRows>,
) -> Result<(PendingShares, BTreeMap<PartyId, GradientTerms>), PartyError> {
    let (mut shares, mut shared) = (PendingShares::new(), BTreeMap::new());
    for (recipient, rows) in rows {
        let Some(one) = ciphertexts.get(recipient).filter(|_| !rows.known.is_empty()) else {
            continue;
        };
        let (public_key, key) = (one.public_key.clone(), one.key());
        let own = (recipient.clone(), std::mem::take(&mut rows.embedding));
        let mut bound = MagnitudeBound::of_offsets(&rows.known)?;
        let mut parts: Vec<(PartyId, EmbeddingCoefficients)> = Vec::new();
        for (owner, mut share) in [own].into_iter().chain(std::mem::take(&mut rows.others)) {
            let Some(one) = ciphertexts.get(&owner).filter(|one| one.holds(batch)) else {
                continue;
            };
            if share.terms == 0 {
                continue;
            }
            one.in_shares_of_ranges(&mut share);
            bound = bound.and(MagnitudeBound::of(&one.agreement, &coefficients(&share))?);
            parts.push((owner, share));
        }
        let scale = bound.scale()?;
        for (owner, share) in parts {
            let Some(one) = ciphertexts.get_mut(&owner) else { continue };
            let own = owner == *recipient;
            let (query, pending) =
                one.products.encrypt_coefficients(&coefficients(&share), scale, own)?;
            let query = Sealed::new(query).map_err(PartyError::misuse)?;
            let entries = CoefficientEntries::new(share.entries).map_err(PartyError::misuse)?;
            let key = Some(public_key.clone()).filter(|_| !own);
            let share = PendingShare { query, entries, key, pending, masked: None };
            shares.entry(owner).or_default().insert(recipient.clone(), share);
        }
        shared.insert(recipient.clone(), GradientTerms { scale, key });
    }
    Ok((shares, shared))
}

fn coefficients(share: &EmbeddingCoefficients) -> Coefficients<'_> {
    Coefficients { terms: share.terms, values: &share.coefficients }
}

impl PendingQueries {
    /// What is to be granted when the exchange ends.
    pub(super) fn into_pending_gradients(self) -> BTreeMap<PartyId, PendingGradient> {
        let mut masked: BTreeMap<PartyId, Vec<MaskedShare>> = BTreeMap::new();
        let mut gradients_due = BTreeMap::new();
        for (party, pending) in self.guests {
            for (recipient, share) in pending.shares {
                masked.entry(recipient).or_default().extend(share.masked);
            }
            let Some(shared) = pending.shared else { continue };
            gradients_due.insert(
                party,
                PendingGradient { known: pending.known, shared, masked: Vec::new() },
            );
        }
        for (party, due) in &mut gradients_due {
            due.masked = masked.remove(party).unwrap_or_default();
        }
        gradients_due
    }
}

impl<M: HostModel> Running<M> {
    /// The gradient of each guest's embedding, for that guest alone.
    pub(super) fn masked_gradients(
        &mut self,
        gradients_due: BTreeMap<PartyId, PendingGradient>,
    ) -> Result<BTreeMap<PartyId, Sealed>, PartyError> {
        let mut masked_gradients = BTreeMap::new();
        for (party, PendingGradient { known, shared, masked }) in gradients_due {
            // A guest with a new key has no masks for the old one.
            let one = self.sealed.get_mut(&party).filter(|one| one.key() == shared.key);
            let Some(one) = one else { continue };
            let masked_gradient = one.products.mask_gradient(&known, shared.scale, &masked)?;
            masked_gradients
                .insert(party, Sealed::new(masked_gradient).map_err(PartyError::misuse)?);
        }
        Ok(masked_gradients)
    }
}

impl<M: HostModel, S: Store> Host<M, S> {
    pub(super) fn masked_products(
        &mut self,
        now: Now,
        from: &PartyId,
        exchange: Exchange,
        (to, key, masked_products): (&PartyId, Fingerprint, &Sealed),
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if !self.sealed_round(now, from, exchange, out)? {
            return Ok(());
        }
        let Some(running) = &mut self.running else { return Ok(()) };
        let queries = running.open.as_mut().and_then(|open| open.queries.as_mut());
        let pending = queries.and_then(|queries| queries.guests.get_mut(from));
        let share = pending.and_then(|pending| pending.shares.get_mut(to));
        let Some(share) = share.filter(|share| share.masked.is_none()) else { return Ok(()) };
        let (owner, recipient) = (running.sealed.get(from), running.sealed.get(to));
        let Some((owner, recipient)) = owner.zip(recipient) else { return Ok(()) };
        let accepted = owner.products.accept_masked(&share.pending, masked_products.as_slice());
        let Some(masked) = of_this_exchange(accepted, from, "masked_products")? else {
            return Ok(());
        };
        if key != recipient.key() {
            let what = format!(
                "key of `{to}` that it has encrypted with: found {key}, expected {}",
                recipient.key()
            );
            return Err(PartyError::misbehaved(from, what));
        }
        share.masked = Some(masked);
        self.close_if_answered(now, out)
    }
}
