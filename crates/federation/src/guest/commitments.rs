//! A guest that is held to its data: it commits to it before training, and opens the sums that it is challenged with.
//!
//! Everything follows from the guest's data and a seed that is kept with its checkpoints, so a guest that starts anew
//! gives the same commitments again. Without its folder it cannot, and a host that has some of it refuses others.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use protocol::message::committed::{
    Bounds, CheckWeights, CommitmentGroup, CommitmentOpenings, CommitmentReply, CommitmentRequest,
    CommitmentTerms, Digest, ProvenCommitments, samples_at_a_time,
};
use protocol::message::parts::{Batch, PartError};
use protocol::message::{Exchange, ToHost};
use protocol::party::{PartyId, RunId};
use protocol::plan::Plan;
use rayon::prelude::*;
use sealed::Randomness;
use sealed::committed::{BlindingSeed, CommittedError, Named};
use serde::{Deserialize, Serialize};
use traffic::Window;

use super::GuestContext;
use super::run::{Run, RunRecord, write_record};
use super::training::Training;
use crate::agreement::levels;
use crate::error::PartyError;
use crate::model::GuestModel;
use crate::store::Store;

/// Whether a guest commits to its data if a host asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitmentPolicy {
    /// It does: commitments tell nothing.
    #[default]
    Freely,
    /// It does, but not to lie within physical limits: its data has noise.
    WithNoise,
    /// It does not take part then.
    Never,
}

/// What blindings follow from, as it is kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct StoredSeed([u8; 32]);

impl StoredSeed {
    fn seed(&self) -> BlindingSeed {
        BlindingSeed::from_bytes(self.0)
    }
}

impl fmt::Debug for StoredSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredSeed(…)")
    }
}

impl From<StoredSeed> for String {
    fn from(seed: StoredSeed) -> Self {
        HEXLOWER.encode(&seed.0)
    }
}

impl TryFrom<String> for StoredSeed {
    type Error = PartError;
    fn try_from(text: String) -> Result<Self, PartError> {
        let wrong = || PartError::new("seed of blindings", "other text", "64 hexadecimal digits");
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| wrong())?;
        bytes.try_into().map(Self).map_err(|_| wrong())
    }
}

/// What a guest remembers of its commitments.
#[derive(Default)]
pub(super) struct Commitments {
    /// The last ones, in case the host asks again.
    last: Option<Last>,
    /// All that it has said to be committed to.
    said: BTreeSet<Digest>,
}

struct Last {
    after: Digest,
    batch: Batch,
    digest: Digest,
    proven: ProvenCommitments,
    said: Duration,
}

/// The context of a proof: it is of this guest, in this run, at this place of the chain.
pub(crate) fn proof_context(run: RunId, party: &PartyId, after: Digest) -> Vec<u8> {
    [&run.0.to_le_bytes()[..], party.as_str().as_bytes(), after.as_slice()].concat()
}

/// What blindings of a sample are named by.
fn name(run: RunId, sample: Window) -> [u8; 18] {
    let mut name = [0; 18];
    name[..8].copy_from_slice(&run.0.to_le_bytes());
    name[8..16].copy_from_slice(&sample.last.0.to_le_bytes());
    name[16..].copy_from_slice(&sample.view.0.to_le_bytes());
    name
}

impl<M: GuestModel> Run<M> {
    fn committing(&self) -> Option<CommitmentTerms> {
        self.record.plan.sealing.and_then(|sealing| sealing.commitments)
    }

    /// The levels of samples, and what a seed makes of them.
    fn named<T>(
        &mut self,
        samples: &[Window],
        make: impl FnOnce(&[Named<'_>]) -> Result<T, CommittedError>,
    ) -> Result<T, PartyError> {
        let (_, levels) = self.levels(samples)?;
        let names: Vec<_> = samples.iter().map(|&sample| name(self.record.run, sample)).collect();
        let parts = names.iter().zip(levels.chunks(self.layout.len().max(1)));
        let parts: Vec<Named<'_>> = parts.map(|(name, levels)| Named { name, levels }).collect();
        Ok(make(&parts)?)
    }

    /// Commitments to all that is held of some samples, each group with its proof.
    fn prove(
        &mut self,
        seed: &BlindingSeed,
        committing: CommitmentTerms,
        samples: &[Window],
        context: &[u8],
    ) -> Result<ProvenCommitments, PartyError> {
        let range = levels(&committing, &self.encryption()?.agreement.grid);
        let groups = self.named(samples, |parts| seed.commit(parts))?;
        let proven = groups.par_iter().map(|group| {
            let mut random = Randomness::from_os().map_err(sealed::SealedError::from)?;
            let proof = group.prove(range, context, &mut random)?;
            Ok(CommitmentGroup { commitments: group.commitments(), proof })
        });
        let proven = proven.collect::<Result<Vec<_>, PartyError>>()?;
        ProvenCommitments::new(proven).map_err(PartyError::misuse)
    }
}

impl<M, S: Store> GuestContext<M, S> {
    /// Refuses a plan whose commitments this guest does not make.
    pub(super) fn check_commitments(&self, plan: &Plan) -> Result<(), PartyError> {
        let Some(terms) = plan.sealing.and_then(|sealing| sealing.commitments) else {
            return Ok(());
        };
        let what = match (self.settings.sharing.commits, terms.bounds) {
            (CommitmentPolicy::Never, _) => {
                "it asks for commitments, which this guest's policy refuses"
            }
            (CommitmentPolicy::WithNoise, Bounds::Physical) => {
                "it asks for values within physical limits, and this guest's have noise"
            }
            _ => return Ok(()),
        };
        Err(PartyError::misbehaved(&self.settings.host, what))
    }

    /// Draws what blindings follow from, once, and stores it before anything is committed to.
    pub(super) fn with_seed(&mut self, mut record: RunRecord) -> Result<RunRecord, PartyError> {
        let commits = record.plan.sealing.is_some_and(|sealing| sealing.commitments.is_some());
        if commits && record.blinding.is_none() {
            let seed = BlindingSeed::from_os().map_err(sealed::SealedError::from)?;
            record.blinding = Some(StoredSeed(*seed.as_bytes()));
            write_record(&mut self.store, &record)?;
        }
        Ok(record)
    }
}

impl<M: GuestModel> Training<M> {
    pub(super) fn commitment<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        exchange: Exchange,
        request: CommitmentRequest,
    ) -> Result<(), PartyError> {
        let blinding = self.run.record.blinding.as_ref().map(StoredSeed::seed);
        let Some((terms, seed)) = self.run.committing().zip(blinding) else {
            let what = "it speaks of commitments, and its plan has none";
            return Err(PartyError::misbehaved(&context.settings.host, what));
        };
        match request {
            CommitmentRequest::Samples { after, batch, .. } => {
                self.commit(context, exchange, (terms, &seed), after, batch)
            }
            // What this guest has said before it started anew it does not know.
            CommitmentRequest::Accepted { digest, .. } => {
                let said = &self.run.commitments.said;
                if said.is_empty() || said.contains(&digest) {
                    return Ok(());
                }
                let what = format!("it accepted commitments {digest}, which were never made");
                Err(PartyError::misbehaved(&context.settings.host, what))
            }
            CommitmentRequest::Challenge { query, weights, .. } => {
                self.challenge(context, exchange, (terms, &seed), query, &weights)
            }
        }
    }

    /// Commits to some samples. The answer follows from the request alone, whatever was asked before.
    fn commit<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        exchange: Exchange,
        (terms, seed): (CommitmentTerms, &BlindingSeed),
        after: Digest,
        batch: Batch,
    ) -> Result<(), PartyError> {
        context.check_batch(&batch)?;
        let (run, settings) = (&mut self.run, &context.settings);
        let entries = run.layout.len();
        let most = samples_at_a_time(entries);
        if batch.samples().len() > most {
            let found = batch.samples().len();
            let what =
                format!("it asked for commitments to {found} samples at a time, of at most {most}");
            return Err(PartyError::misbehaved(&settings.host, what));
        }
        let values = (entries * batch.samples().len()) as u32;
        let message = |digest, proven| {
            let reply = CommitmentReply::Commitments { exchange, after, digest, values, proven };
            ToHost::Commitment(reply)
        };
        let known = run.commitments.last.as_mut();
        if let Some(last) = known.filter(|last| last.after == after && last.batch == batch) {
            if !context.host.may_repeat(last.said) {
                return Ok(());
            }
            last.said = context.host.now();
            return Ok(context.host.repeat(message(last.digest, last.proven.clone()))?);
        }
        let proof_context = proof_context(run.record.run, &settings.party, after);
        let proven = run.prove(seed, terms, batch.samples(), &proof_context)?;
        let digest = after.and(batch.samples(), &proven);
        run.commitments.said.insert(digest);
        let (kept, said) = (proven.clone(), context.host.now());
        run.commitments.last = Some(Last { after, batch, digest, proven: kept, said });
        Ok(context.host.say(message(digest, proven))?)
    }

    /// Opens the sums of a challenge to the query that it has answered.
    fn challenge<S: Store>(
        &mut self,
        context: &mut GuestContext<M, S>,
        exchange: Exchange,
        (terms, seed): (CommitmentTerms, &BlindingSeed),
        query: Digest,
        weights: &CheckWeights,
    ) -> Result<(), PartyError> {
        let samples = self.open.as_ref().map_or(Vec::new(), |open| open.samples().to_vec());
        let (budget, now) = (self.budget(context, &samples), context.host.now());
        let open = self.open.as_mut().filter(|open| open.exchange == exchange);
        let (run, Some(open)) = (&mut self.run, open) else { return Ok(()) };
        let host = &context.settings.host;
        // About a query from before another guest came back.
        if open.queries.query.as_ref().map(Digest::of_query) != Some(query) {
            return Ok(());
        }
        let challenge = weights.digest();
        match open.queries.challenge {
            Some(known) if known == challenge => return self.repeat_answers(context),
            Some(_) => {
                let what = "it challenged twice for one query, with different weights";
                return Err(PartyError::misbehaved(host, what));
            }
            None => {}
        }
        let (data, rows) = (run.layout.len(), terms.checks as usize);
        let values = open.samples().len() * data;
        if weights.as_slice().len() != rows * values {
            let found = weights.as_slice().len();
            let what = format!("its challenge: found {found} weights, expected {rows} of {values}");
            return Err(PartyError::misbehaved(host, what));
        }
        budget.check(rows, values, data)?;
        let opened = run.named(open.samples(), |parts| {
            let rows = weights.as_slice().chunks_exact(values);
            let rows = rows.map(|row| {
                let row: Vec<i64> = row.iter().map(|&weight| weight.into()).collect();
                seed.open(parts, &row)
            });
            rows.collect::<Result<Vec<_>, _>>()
        });
        let openings = opened.map_err(|error| match error {
            PartyError::Committed(error @ CommittedError::Misuse { .. }) => {
                PartyError::misbehaved(host, format!("its challenge: {error}"))
            }
            other => other,
        })?;
        let openings = CommitmentOpenings::new(openings).map_err(PartyError::misuse)?;
        let size = [rows as u32, values as u32];
        let reply = CommitmentReply::Response { exchange, challenge, size, openings };
        let message = ToHost::Commitment(reply);
        open.queries.challenge = Some(challenge);
        open.answered = now;
        open.answers.push(message.clone());
        self.say_products(context, message, &samples)
    }
}
