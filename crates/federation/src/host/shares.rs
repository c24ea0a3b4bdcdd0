//! What guests contribute to the gradients of embeddings, as the host sees it: masked.
//!
//! A guest's gradient is Σ D·u + c over the measurements u of *all* guests, itself among them, and only that guest may know
//! it. With the query about its own rows, each guest gets D of its own gradient and of every other guest's,
//! encrypted. What comes back is masked for the recipient, and goes into its masked gradient.

use std::collections::BTreeMap;

use estimator::EmbeddingCoefficients;
use protocol::message::parts::Batch;
use protocol::message::sealed::{CoefficientEntries, Fingerprint, Sealed};
use protocol::message::{Exchange, ToGuest};
use protocol::party::PartyId;
use sealed::{Coefficients, MagnitudeBound, MaskedShare, PendingProducts, Scale};

use super::ciphertexts::GuestCiphertexts;
use super::run::Run;
use super::secure::of_this_exchange;
use super::training::Training;
use crate::error::PartyError;
use crate::model::{GuestRows, HostModel};

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
    pub(super) fn is_answered(&self) -> bool {
        self.masked.is_some()
    }

    pub(super) fn masked(self) -> Option<MaskedShare> {
        self.masked
    }

    pub(super) fn message(&self, exchange: Exchange, to: &PartyId) -> ToGuest {
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
    terms: GradientTerms,
    pub(super) masked: Vec<MaskedShare>,
}

impl PendingGradient {
    pub(super) fn new(known: Vec<f64>, terms: GradientTerms) -> Self {
        Self { known, terms, masked: Vec::new() }
    }
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
    let (mut shares, mut terms) = (PendingShares::new(), BTreeMap::new());
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
        terms.insert(recipient.clone(), GradientTerms { scale, key });
    }
    Ok((shares, terms))
}

fn coefficients(share: &EmbeddingCoefficients) -> Coefficients<'_> {
    Coefficients { terms: share.terms, values: &share.coefficients }
}

impl<M: HostModel> Run<M> {
    /// The gradient of each guest's embedding, for that guest alone.
    pub(super) fn masked_gradients(
        &mut self,
        gradients: BTreeMap<PartyId, PendingGradient>,
    ) -> Result<BTreeMap<PartyId, Sealed>, PartyError> {
        let mut masked_gradients = BTreeMap::new();
        for (party, PendingGradient { known, terms, masked }) in gradients {
            // A guest with a new key has no masks for the old one.
            let one = self.ciphertexts.get_mut(&party).filter(|one| one.key() == terms.key);
            let Some(one) = one else { continue };
            let masked_gradient = one.products.mask_gradient(&known, terms.scale, &masked)?;
            masked_gradients
                .insert(party, Sealed::new(masked_gradient).map_err(PartyError::misuse)?);
        }
        Ok(masked_gradients)
    }
}

impl<M: HostModel> Training<M> {
    /// Takes what a guest contributes to the gradient of a recipient.
    pub(super) fn masked_products(
        &mut self,
        from: &PartyId,
        recipient: &PartyId,
        key: Fingerprint,
        masked_products: &Sealed,
    ) -> Result<(), PartyError> {
        let pending = self.open.encrypted().and_then(|products| products.pending(from));
        let share = pending.and_then(|pending| pending.shares.get_mut(recipient));
        let Some(share) = share.filter(|share| share.masked.is_none()) else { return Ok(()) };
        let ciphertexts = &self.run.ciphertexts;
        let keys = ciphertexts.get(from).zip(ciphertexts.get(recipient));
        let Some((owner, to)) = keys else { return Ok(()) };
        let accepted = owner.products.accept_masked(&share.pending, masked_products.as_slice());
        let Some(masked) = of_this_exchange(accepted, from, "masked products")? else {
            return Ok(());
        };
        if key != to.key() {
            let expected = to.key();
            let what = format!(
                "key of `{recipient}` that it has encrypted with: found {key}, expected {expected}"
            );
            return Err(PartyError::misbehaved(from, what));
        }
        share.masked = Some(masked);
        Ok(())
    }
}
