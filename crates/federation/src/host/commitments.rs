//! Guests that are held to their data, as the host sees them: what they have committed to, and whether they train with it.
//!
//! Before a guest's first exchange with sealed measurements it commits to all samples of the schedule, some at a time. Then
//! each query has rows of random weights at places that nobody else knows; once the products are here, the guest is
//! told the weights and opens the sums of its commitments with them. A sum that is not the product ends the run.

use std::collections::{BTreeMap, BTreeSet};

use protocol::message::committed::{
    CheckWeights, CommitmentOpenings, CommitmentReply, CommitmentRequest, CommitmentTerms, Digest,
    ProvenCommitments, samples_at_a_time,
};
use protocol::message::parts::Batch;
use protocol::message::sealed::Sealed;
use protocol::message::{Exchange, ToGuest};
use protocol::party::PartyId;
use protocol::plan::Plan;
use rayon::prelude::*;
use sealed::committed::{Commitments, CommittedError};
use sealed::rlwe::RlweHost;
use sealed::{Randomness, SealedError};
use traffic::Window;

use super::ciphertexts::GuestCiphertexts;
use super::training::Training;
use super::{Event, HostContext};
use crate::agreement::{agreement, levels};
use crate::error::PartyError;
use crate::guest::{proof_context, write_record};
use crate::model::HostModel;
use crate::schedule::Samples;
use crate::store::Store;

/// What guests have committed to.
pub(super) struct CommitmentRegistry {
    committing: CommitmentTerms,
    /// The samples that are trained and validated with, each once.
    needed: Vec<Window>,
    guests: BTreeMap<PartyId, GuestCommitments>,
}

/// What one guest has committed to: the first samples that are needed, in order.
struct GuestCommitments {
    digest: Digest,
    samples: BTreeMap<Window, Commitments>,
}

impl CommitmentRegistry {
    /// None if the plan wants no commitments.
    pub(super) fn of(plan: &Plan, samples: &Samples) -> Option<Self> {
        let committing = plan.sealing?.commitments?;
        let taken = samples.in_segments(plan.segment as usize);
        let needed: BTreeSet<Window> = taken.train.into_iter().chain(taken.validation).collect();
        let needed = needed.into_iter().collect();
        Some(Self { committing, needed, guests: BTreeMap::new() })
    }

    /// The guest commits anew.
    pub(super) fn forget(&mut self, party: &PartyId) {
        self.guests.remove(party);
    }

    /// The samples that a guest commits to next, and what it has committed to so far.
    fn next(&self, party: &PartyId, entries: usize) -> (Digest, &[Window]) {
        let held = self.guests.get(party);
        let (digest, done) =
            held.map_or((Digest::START, 0), |held| (held.digest, held.samples.len()));
        let rest = &self.needed[done.min(self.needed.len())..];
        (digest, &rest[..rest.len().min(samples_at_a_time(entries))])
    }

    /// What a guest has committed to of a batch.
    fn of_batch(&self, party: &PartyId, batch: &Batch) -> Option<Commitments> {
        let held = self.guests.get(party)?;
        let parts: Option<Vec<&Commitments>> =
            batch.samples().iter().map(|sample| held.samples.get(sample)).collect();
        Some(Commitments::joined(parts?))
    }

    /// Hides rows of random weights among the rows of a query.
    pub(super) fn hide(
        &self,
        ciphertexts: &GuestCiphertexts,
        batch: &Batch,
        rows: &mut Vec<f64>,
    ) -> Result<ProductCheck, PartyError> {
        let columns = (batch.samples().len() * ciphertexts.ranges.len()).max(1);
        let checks = self.committing.checks as usize;
        let count = rows.len() / columns + checks;
        let mut random = Randomness::from_os().map_err(SealedError::from)?;
        let mut places = BTreeSet::new();
        while places.len() < checks {
            places.insert(random.below(count as u128) as usize);
        }
        let mut others = rows.chunks_exact(columns);
        let mut all = Vec::with_capacity(count * columns);
        let mut hidden = Vec::with_capacity(checks);
        for place in 0..count {
            if !places.contains(&place) {
                all.extend_from_slice(others.next().unwrap_or_default());
                continue;
            }
            // Rows are of values, and become rows of shares of their ranges.
            let ranges = ciphertexts.ranges.iter().cycle().take(columns);
            let row: Vec<f64> = ranges.clone().map(|range| share(&mut random) / range).collect();
            let shares: Vec<f64> = row.iter().zip(ranges).map(|(a, range)| a * range).collect();
            all.extend_from_slice(&row);
            hidden.push(CheckRow::of(ciphertexts, &shares)?);
        }
        *rows = all;
        Ok(ProductCheck { places, hidden, wholes: None, passed: false })
    }
}

/// A number from −1 to 1.
fn share(random: &mut Randomness) -> f64 {
    let whole = random.bits() >> 11;
    whole as f64 / (1u64 << 52) as f64 - 1.0
}

/// A row of random weights, as it is really taken.
struct CheckRow {
    weights: Vec<i64>,
    /// What a product counts that is 1 in levels, and what is added to it.
    unit: f64,
    offset: f64,
}

impl CheckRow {
    fn of(ciphertexts: &GuestCiphertexts, shares: &[f64]) -> Result<Self, PartyError> {
        let grid = ciphertexts.agreement.grid;
        let applied = RlweHost::applied(&ciphertexts.agreement, shares)?;
        let offset = grid.centre() * shares.iter().sum::<f64>();
        Ok(Self { weights: applied.weights, unit: applied.unit * grid.step(), offset })
    }

    /// The sum of levels that a product stands for. Products have 40 bits and are known to nearly all of 53.
    fn whole(&self, product: f64) -> i64 {
        ((product - self.offset) / self.unit).round() as i64
    }
}

/// The rows of random weights in a query.
pub(super) struct ProductCheck {
    places: BTreeSet<usize>,
    hidden: Vec<CheckRow>,
    /// Their products, in levels.
    wholes: Option<Vec<i64>>,
    passed: bool,
}

impl ProductCheck {
    pub(super) fn passed(&self) -> bool {
        self.passed
    }

    /// Takes its own products out of all.
    pub(super) fn take(&mut self, products: Vec<f64>) -> Vec<f64> {
        let own = self.places.iter().filter_map(|&place| products.get(place));
        let wholes = self.hidden.iter().zip(own).map(|(row, &product)| row.whole(product));
        self.wholes = Some(wholes.collect());
        let others = products.into_iter().enumerate();
        others
            .filter(|(place, _)| !self.places.contains(place))
            .map(|(_, product)| product)
            .collect()
    }

    fn weights(&self) -> Result<CheckWeights, PartyError> {
        let weights = self.hidden.iter().flat_map(|row| &row.weights);
        // Far below 2^31: they and the largest level make less than 2^39.
        let weights = weights.map(|&weight| weight as i32).collect();
        CheckWeights::new(weights).map_err(PartyError::misuse)
    }

    /// Tells the guest what the rows were, once it has answered.
    pub(super) fn challenge(
        &self,
        exchange: Exchange,
        query: &Sealed,
    ) -> Result<Option<ToGuest>, PartyError> {
        if self.passed || self.wholes.is_none() {
            return Ok(None);
        }
        let (query, weights) = (Digest::of_query(query), self.weights()?);
        Ok(Some(ToGuest::Commitment(CommitmentRequest::Challenge { exchange, query, weights })))
    }

    /// Whether all sums are those of the committed values.
    fn verify(
        &self,
        committed: &Commitments,
        openings: &CommitmentOpenings,
    ) -> Result<(), CommittedError> {
        let wholes = self.wholes.iter().flatten();
        let mut rows = self.hidden.iter().zip(wholes).zip(openings.rows());
        rows.try_for_each(|((row, &whole), opening)| {
            committed.check_product(&row.weights, whole, opening)
        })
    }
}

impl<M: HostModel> Training<M> {
    /// Whether a guest still has to commit to something before it takes part in the open exchange. Whatever else it sends
    /// until then is not taken: it could choose its commitments by what it was asked.
    pub(super) fn owes_commitments(&self, party: &PartyId) -> bool {
        self.owed(party).is_some()
    }

    /// What a guest is to commit to before it takes part in the open exchange.
    pub(super) fn commitment_request(
        &self,
        party: &PartyId,
    ) -> Result<Option<ToGuest>, PartyError> {
        let Some((after, samples)) = self.owed(party) else { return Ok(None) };
        let (exchange, batch) = (self.open.exchange, Batch::new(samples.to_vec()));
        let batch = batch.map_err(PartyError::misuse)?;
        Ok(Some(ToGuest::Commitment(CommitmentRequest::Samples { exchange, after, batch })))
    }

    /// What the guest has committed to so far, and the samples that come next.
    fn owed(&self, party: &PartyId) -> Option<(Digest, &[Window])> {
        let (record, registry) = (&self.run.record, self.run.commitments.as_ref()?);
        record.plan.seals(self.open.purpose)?;
        let layout = record.agreed.layouts.get(party)?;
        let (after, samples) = registry.next(party, layout.len());
        (!samples.is_empty()).then_some((after, samples))
    }

    pub(super) fn commitment_reply<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
        from: &PartyId,
        reply: CommitmentReply,
    ) -> Result<(), PartyError> {
        match reply {
            CommitmentReply::Commitments { after, digest, proven, .. } => {
                self.commitments(context, from, (after, digest, &proven))
            }
            CommitmentReply::Response { challenge, openings, .. } => {
                self.response(from, challenge, &openings)
            }
        }
    }

    fn commitments<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
        from: &PartyId,
        (after, digest, proven): (Digest, Digest, &ProvenCommitments),
    ) -> Result<(), PartyError> {
        let (exchange, record) = (self.open.exchange, &mut self.run.record);
        let layout = record.agreed.layouts.get(from);
        let sealing = record.plan.sealing;
        let (Some(registry), Some(layout), Some(sealing)) =
            (&mut self.run.commitments, layout, sealing)
        else {
            return Err(PartyError::misbehaved(from, "it sent commitments, and the plan has none"));
        };
        let (expected, samples) = registry.next(from, layout.len());
        if samples.is_empty() || after != expected {
            // Sent twice.
            return Ok(());
        }
        let samples = samples.to_vec();
        let wrong = |what: String| PartyError::misbehaved(from, format!("its commitments: {what}"));
        if after.and(&samples, proven) != digest {
            return Err(wrong(format!("found {digest}, which is not what they make")));
        }
        let agreed =
            agreement(&sealing, layout, (record.plan.segment, 0), 1).map_err(PartyError::misuse)?;
        let range = levels(&registry.committing, &agreed.grid);
        let proof_context = proof_context(record.run, from, after);
        let groups = proven.groups().par_iter().map(|group| {
            let commitments = Commitments::decode(&group.commitments)?;
            commitments.check_range(range, &proof_context, &group.proof)?;
            Ok(commitments)
        });
        let groups = groups.collect::<Result<Vec<_>, CommittedError>>();
        let groups = groups.map_err(|error| wrong(error.to_string()))?;
        let all = Commitments::joined(&groups);
        let (found, values) = (all.len(), samples.len() * layout.len());
        if found != values {
            return Err(wrong(format!("found {found} values, expected {values}")));
        }
        let start = || GuestCommitments { digest: Digest::START, samples: BTreeMap::new() };
        let held = registry.guests.entry(from.clone()).or_insert_with(start);
        for (i, sample) in samples.into_iter().enumerate() {
            let own = all.part(i * layout.len()..(i + 1) * layout.len());
            held.samples.extend(own.map(|own| (sample, own)));
        }
        held.digest = digest;
        let (done, all) = (held.samples.len(), registry.needed.len());
        context.events.push(Event::Committed(from.clone(), done, all));
        // However long it takes, it comes to its end.
        self.open.since = context.guests.now();
        if done == all {
            let known = *record.commitments.entry(from.clone()).or_insert(digest);
            if known != digest {
                registry.forget(from);
                return Err(PartyError::PeerIncompatible {
                    party: from.clone(),
                    what: "commitments",
                    found: digest.to_string(),
                    expected: format!(
                        "{known}, as when the run began; restore its data and folder"
                    ),
                });
            }
            write_record(&mut context.store, record)?;
            let accepted = CommitmentRequest::Accepted { exchange, digest };
            context.guests.say(from, ToGuest::Commitment(accepted))?;
        }
        self.ask(context, from)
    }

    fn response(
        &mut self,
        from: &PartyId,
        challenge: Digest,
        openings: &CommitmentOpenings,
    ) -> Result<(), PartyError> {
        let (batch, round) = (self.open.batch.clone(), self.open.exchange.round);
        let pending = self.open.encrypted().and_then(|products| products.pending(from));
        let check = pending.and_then(|pending| pending.check());
        let check = check.filter(|check| !check.passed && check.wholes.is_some());
        let Some((check, registry)) = check.zip(self.run.commitments.as_ref()) else {
            return Ok(());
        };
        // To a query from before another guest came back.
        if check.weights()?.digest() != challenge {
            return Ok(());
        }
        let (found, expected) = (openings.rows().len(), check.hidden.len());
        if found != expected {
            let what = format!("it opened {found} rows, expected {expected}");
            return Err(PartyError::misbehaved(from, what));
        }
        // One that has started anew commits again first, and to the same.
        let Some(committed) = registry.of_batch(from, &batch) else { return Ok(()) };
        match check.verify(&committed, openings) {
            Ok(()) => {
                check.passed = true;
                Ok(())
            }
            Err(CommittedError::Opening) => {
                let steps = || batch.samples().iter().map(|sample| sample.last.0);
                let (first, last) = (steps().min().unwrap_or(0), steps().max().unwrap_or(0));
                let party = from.clone();
                Err(PartyError::CommitmentMismatch { party, round, first, last })
            }
            Err(error) => Err(PartyError::misbehaved(from, error.to_string())),
        }
    }
}
