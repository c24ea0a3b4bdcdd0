//! What guests contribute to the gradients of embeddings, as the host sees it: masked.
//!
//! A guest's gradient is Σ D·u + c over the measurements u of *all* guests, itself among them, and only that guest may know
//! it. With the query about its own rows, each guest gets D of its own gradient and of every other guest's,
//! encrypted. What comes back is masked for the recipient, and goes into its masked gradient.

use std::collections::BTreeMap;
use std::ops::Range;

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
    /// Without what was measured: `[sample, number]`.
    known: Vec<f64>,
    /// Numbers of a sample.
    width: usize,
    /// Samples of a part.
    at_once: usize,
    scale: Scale,
    /// The recipient's key, which others encrypt with, and what it is known by.
    public_key: Sealed,
    key: Fingerprint,
    /// D, by whose values it is of.
    coefficients: Vec<(PartyId, EmbeddingCoefficients)>,
    /// What they have made of it, by part.
    masked: Vec<Vec<MaskedShare>>,
}

impl PendingGradient {
    /// How many parts it has.
    pub(super) fn parts(&self) -> usize {
        self.masked.len()
    }

    /// Keeps a share of a part.
    pub(super) fn keep(&mut self, part: usize, masked: MaskedShare) {
        if let Some(of_part) = self.masked.get_mut(part) {
            of_part.push(masked);
        }
    }

    /// The places of a part in as many numbers for each number of the gradient.
    fn part(&self, part: usize, each: usize) -> Range<usize> {
        let samples = self.known.len() / self.width.max(1);
        let first = (part * self.at_once).min(samples);
        let last = (first + self.at_once).min(samples);
        first * self.width * each..last * self.width * each
    }

    /// Asks everyone for what a part needs.
    pub(super) fn ask(
        &self,
        part: usize,
        recipient: &PartyId,
        ciphertexts: &mut BTreeMap<PartyId, GuestCiphertexts>,
    ) -> Result<Vec<(PartyId, PendingShare)>, PartyError> {
        let mut asked = Vec::new();
        for (owner, all) in self.coefficients.iter().filter(|_| part < self.parts()) {
            let Some(one) = ciphertexts.get_mut(owner) else { continue };
            let own = owner == recipient;
            let values = &all.coefficients[self.part(part, all.terms)];
            let coefficients = Coefficients { terms: all.terms, values };
            let (query, pending) =
                one.products.encrypt_coefficients(&coefficients, self.scale, own)?;
            let query = Sealed::new(query).map_err(PartyError::misuse)?;
            let entries = CoefficientEntries::new(all.entries.clone());
            let first = (part * self.at_once) as u32;
            let entries = entries.map_err(PartyError::misuse)?.from_sample(first);
            let key = Some(self.public_key.clone()).filter(|_| !own);
            asked
                .push((owner.clone(), PendingShare { query, entries, key, pending, masked: None }));
        }
        Ok(asked)
    }
}

/// What the gradients of all guests need of all guests. `rows` are of those who are asked at all; afterwards they have
/// no coefficients any more.
pub(super) fn pending_gradients(
    ciphertexts: &BTreeMap<PartyId, GuestCiphertexts>,
    batch: &Batch,
    rows: &mut BTreeMap<PartyId, GuestRows>,
) -> Result<BTreeMap<PartyId, PendingGradient>, PartyError> {
    let (mut gradients, samples) = (BTreeMap::new(), batch.samples().len());
    for (recipient, rows) in rows {
        let Some(to) = ciphertexts.get(recipient).filter(|_| !rows.known.is_empty()) else {
            continue;
        };
        let own = (recipient.clone(), std::mem::take(&mut rows.embedding));
        let mut bound = MagnitudeBound::of_offsets(&rows.known)?;
        let mut all: Vec<(PartyId, EmbeddingCoefficients)> = Vec::new();
        for (owner, mut share) in [own].into_iter().chain(std::mem::take(&mut rows.others)) {
            let Some(one) = ciphertexts.get(&owner).filter(|one| one.holds(batch)) else {
                continue;
            };
            if share.terms == 0 {
                continue;
            }
            one.in_shares_of_ranges(&mut share);
            // Of all parts together: the recipient learns one scale.
            bound = bound.and(MagnitudeBound::of(&one.agreement, &coefficients(&share))?);
            all.push((owner, share));
        }
        let known = std::mem::take(&mut rows.known);
        let width = known.len() / samples;
        let terms = all.iter().map(|(_, share)| share.terms).max().unwrap_or(0);
        let at_once = to.samples_at_once(samples, width, terms)?;
        gradients.insert(
            recipient.clone(),
            PendingGradient {
                known,
                width,
                at_once,
                scale: bound.scale()?,
                public_key: to.public_key.clone(),
                key: to.key(),
                coefficients: all,
                masked: (0..samples.div_ceil(at_once)).map(|_| Vec::new()).collect(),
            },
        );
    }
    Ok(gradients)
}

fn coefficients(share: &EmbeddingCoefficients) -> Coefficients<'_> {
    Coefficients { terms: share.terms, values: &share.coefficients }
}

impl<M: HostModel> Run<M> {
    /// The gradient of each guest's embedding, for that guest alone.
    pub(super) fn masked_gradients(
        &mut self,
        gradients: BTreeMap<PartyId, PendingGradient>,
    ) -> Result<BTreeMap<PartyId, Vec<Sealed>>, PartyError> {
        let mut masked_gradients = BTreeMap::new();
        for (party, gradient) in gradients {
            // A guest with a new key has no masks for the old one.
            let one = self.ciphertexts.get_mut(&party).filter(|one| one.key() == gradient.key);
            let Some(one) = one else { continue };
            let parts = gradient.masked.iter().enumerate().map(|(part, masked)| {
                let known = &gradient.known[gradient.part(part, 1)];
                let part = one.products.mask_gradient(known, gradient.scale, masked)?;
                Sealed::new(part).map_err(PartyError::misuse)
            });
            masked_gradients.insert(party, parts.collect::<Result<Vec<_>, PartyError>>()?);
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
