//! A run: its record beside the checkpoints, and what the host has of it in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::compression::{Compression, Feedback};
use protocol::message::committed::Digest;
use protocol::message::measurements::TrafficShares;
use protocol::message::parts::{EmbeddingGradient, HeldSteps, PartError, Text};
use protocol::message::{MissedRounds, Resume, ResumeState, Terms, ToGuest};
use protocol::party::{Attempt, PartyId, Round, RunId};
use protocol::plan::{Plan, Summary};
use serde::{Deserialize, Serialize};
use traffic::Window;

use super::ciphertexts::GuestCiphertexts;
use super::commitments::CommitmentRegistry;
use super::{Event, HostContext};
use crate::error::PartyError;
use crate::model::{Agreed, HostModel};
use crate::schedule::{EpochLosses, Progress, SampleSchedule};
use crate::store::{Store, StoreError};

/// What the checkpoints belong to; stored beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunRecord {
    pub run: RunId,
    pub attempt: Attempt,
    pub plan: Plan,
    pub terms: Terms,
    pub subject: Text,
    /// The samples that all hold.
    pub aligned: HeldSteps,
    /// What the guests measure for this run.
    pub agreed: Agreed,
    /// What each guest has committed to, once it has to everything.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commitments: BTreeMap<PartyId, Digest>,
    pub finished: Option<Summary>,
}

impl RunRecord {
    /// What a guest is told of shares.
    pub(super) fn shares_of(&self, party: &PartyId) -> Option<TrafficShares> {
        let own = self.agreed.shares.get(party).copied()?;
        // A sum of shares may round to more than everyone.
        Some(TrafficShares { own, all: self.agreed.shares.values().sum::<f64>().min(1.0).max(own) })
    }
}

/// What compression has lost of each guest's gradients.
type Residuals = BTreeMap<PartyId, Feedback>;

/// How the last exchange ended, for those who did not hear of it.
pub(super) struct ClosedExchange {
    pub round: Round,
    pub messages: BTreeMap<PartyId, ToGuest>,
}

/// A run that the host has in memory.
pub(super) struct Run<M> {
    pub record: RunRecord,
    pub model: M,
    initial: Vec<u8>,
    residuals: Residuals,
    pub schedule: SampleSchedule,
    beginning: Progress,
    /// The last finished round.
    pub done: Round,
    /// The round after which training had ended.
    pub trained: Option<Round>,
    /// When the last checkpoint was stored or loaded, by the clock on the wall.
    pub checkpointed: Duration,
    /// None before the first exchange of an attempt has ended.
    pub closed: Option<ClosedExchange>,
    /// What guests have uploaded, where measurements are encrypted.
    pub ciphertexts: BTreeMap<PartyId, GuestCiphertexts>,
    /// What they have committed to, where the plan asks for it.
    pub commitments: Option<CommitmentRegistry>,
    /// Memory for rows that are asked.
    pub rows: Vec<f64>,
}

impl<M: HostModel> Run<M> {
    /// The model at the beginning of a run.
    pub(super) fn new<S: Store>(
        record: RunRecord,
        context: &mut HostContext<M, S>,
    ) -> Result<Self, PartyError> {
        let model = (context.make)(&record.plan, &record.agreed)?;
        let settings = &context.settings;
        let widths = model.widths();
        for (party, &width) in &settings.guests {
            let found = widths.get(party).copied();
            if found != Some(width as usize) {
                let found = format!("{found:?} for `{party}` in the model");
                let error = PartError::new("numbers of an embedding", found, width);
                return Err(PartyError::misuse(error));
            }
        }
        let samples = settings.samples.filter(|step| record.aligned.contains(step));
        let commitments = CommitmentRegistry::of(&record.plan, &samples);
        let schedule = SampleSchedule::new(samples, settings.order(&record.agreed.layouts));
        Ok(Self {
            initial: model.save()?,
            residuals: BTreeMap::new(),
            beginning: schedule.progress().clone(),
            record,
            model,
            schedule,
            done: Round::START,
            trained: None,
            checkpointed: context.guests.wall_time(),
            closed: None,
            ciphertexts: BTreeMap::new(),
            commitments,
            rows: Vec::new(),
        })
    }

    /// Goes to the state after a round.
    pub(super) fn load(&mut self, round: Round, store: &impl Store) -> Result<(), PartyError> {
        if round == Round::START {
            self.model.restore(&self.initial)?;
            self.residuals.clear();
            self.schedule.restore(self.beginning.clone());
            self.trained = None;
        } else {
            let bytes = store.get(round)?;
            let (checkpoint, residuals, model) = HostCheckpoint::parse(&bytes)?;
            self.model.restore(model)?;
            self.residuals = residuals;
            self.schedule.restore(checkpoint.progress);
            self.trained = checkpoint.trained;
        }
        self.done = round;
        self.closed = None;
        Ok(())
    }

    /// Stores the state after the last finished round.
    pub(super) fn checkpoint<S: Store>(
        &mut self,
        context: &mut HostContext<M, S>,
    ) -> Result<(), PartyError> {
        let checkpoint = HostCheckpoint {
            progress: self.schedule.progress().clone(),
            trained: self.trained,
            left: self.residuals.keys().cloned().collect(),
        };
        let bytes = checkpoint.write(&self.residuals, &self.model.save()?)?;
        context.store.put(self.done, &bytes)?;
        context.guests.ledger_mut().sync()?;
        self.checkpointed = context.guests.wall_time();
        context.events.push(Event::Checkpointed(self.done));
        Ok(())
    }

    /// The gradients of training samples as their guests will see them.
    pub(super) fn compress(
        &mut self,
        compression: Compression,
        samples: &[Window],
        gradients: BTreeMap<PartyId, EmbeddingGradient>,
    ) -> Result<BTreeMap<PartyId, EmbeddingGradient>, PartyError> {
        if compression == Compression::None {
            return Ok(gradients);
        }
        let mut packed = BTreeMap::new();
        for (party, EmbeddingGradient(values)) in gradients {
            let residual = self.residuals.entry(party.clone()).or_default();
            let width = values.width();
            let values = residual
                .pack(compression, samples, width, values.into_vec())
                .map_err(PartyError::misuse)?;
            packed.insert(party, EmbeddingGradient(values));
        }
        Ok(packed)
    }
}

impl<M> Run<M> {
    /// The round after which training had ended; the beginning, if it has not.
    pub(super) fn trained(&self) -> Round {
        self.trained.unwrap_or(Round::START)
    }

    pub(super) fn history(&self) -> &[EpochLosses] {
        self.schedule.history()
    }

    /// How the last exchange ended for a guest.
    pub(super) fn closed_for(&self, party: &PartyId) -> Option<ToGuest> {
        self.closed.as_ref().and_then(|closed| closed.messages.get(party)).cloned()
    }

    /// The round that a guest has in memory, of this attempt.
    pub(super) fn in_memory(&self, resume_state: &ResumeState) -> Option<Round> {
        let in_memory = resume_state.in_memory.filter(|(its, _)| *its == self.record.attempt);
        in_memory.map(|(_, round)| round)
    }

    /// From where a guest continues after the last round; none if it lacks the last trained state.
    pub(super) fn resume_after_training(
        &self,
        resume_state: &ResumeState,
        skips: bool,
    ) -> Option<Resume> {
        let trained = self.trained();
        if resume_state.checkpoints.contains(&trained) {
            let further = self.in_memory(resume_state).filter(|round| *round >= trained);
            return Some(Resume::AtRound(further.unwrap_or(trained)));
        }
        skips.then(|| self.missed_by(resume_state))
    }

    /// What a guest has missed, under the policy `skip`.
    pub(super) fn missed_by(&self, resume_state: &ResumeState) -> Resume {
        let in_memory = self.in_memory(resume_state);
        let knows = in_memory.or(resume_state.checkpoints.last().copied()).unwrap_or_default();
        Resume::NewestWeights(MissedRounds {
            round: self.done,
            exchanges: self.schedule.exchanges(),
            best: self.schedule.best_round().is_some_and(|best| best > knows),
        })
    }

    /// A guest that introduces itself without its folder has lost what its commitments were hidden by: it commits anew,
    /// and is refused if it had committed to everything before.
    pub(super) fn forget_commitments(&mut self, party: &PartyId) {
        if let Some(commitments) = &mut self.commitments {
            commitments.forget(party);
        }
    }
}

/// What a checkpoint says of the run, besides numbers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostCheckpoint {
    progress: Progress,
    trained: Option<Round>,
    /// The guests with something left to be sent, in the order of what follows the text.
    left: Vec<PartyId>,
}

impl HostCheckpoint {
    /// Length of the text, the text, what is left for each guest, the model.
    fn write(&self, residuals: &Residuals, model: &[u8]) -> Result<Vec<u8>, StoreError> {
        let text = serde_json::to_vec(self).map_err(|error| content(error.to_string()))?;
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&text);
        residuals.values().for_each(|residual| residual.save(&mut bytes));
        bytes.extend_from_slice(model);
        Ok(bytes)
    }

    fn parse(bytes: &[u8]) -> Result<(Self, Residuals, &[u8]), StoreError> {
        let cut = || content("found less than a whole checkpoint".to_owned());
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (text, mut rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let checkpoint: Self =
            serde_json::from_slice(text).map_err(|error| content(error.to_string()))?;
        let mut residuals = BTreeMap::new();
        for party in &checkpoint.left {
            residuals.insert(party.clone(), Feedback::restore(&mut rest)?);
        }
        Ok((checkpoint, residuals, rest))
    }
}

fn content(problem: String) -> StoreError {
    StoreError::Content { path: "the host's checkpoint".into(), problem }
}
