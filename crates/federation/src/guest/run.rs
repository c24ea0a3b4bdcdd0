//! A run: its record beside the checkpoints, and what the guest has of it in memory.

use protocol::compression::Feedback;
use protocol::message::measurements::MeasurementLayout;
use protocol::message::parts::Text;
use protocol::party::{Attempt, Round, RunId};
use protocol::plan::{Plan, Summary};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::commitments::{Commitments, StoredSeed};
use super::encryption::EncryptionState;
use crate::error::PartyError;
use crate::model::{GuestModel, ModelFailure};
use crate::store::{RUN_RECORD, Store, StoreError};

/// What the checkpoints belong to; stored beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunRecord {
    pub run: RunId,
    pub plan: Plan,
    pub subject: Text,
    /// What its commitments are hidden by, where it commits to its data. As secret as the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blinding: Option<StoredSeed>,
    pub finished: Option<Summary>,
}

/// A run that the guest has in memory.
pub(super) struct Run<M> {
    pub record: RunRecord,
    pub attempt: Attempt,
    /// What the plan asks for of what the guest measures.
    pub layout: MeasurementLayout,
    pub model: M,
    initial: Vec<u8>,
    /// What compression has lost of embeddings.
    pub residual: Feedback,
    /// The last finished round.
    pub done: Round,
    /// Its key, once measurements are encrypted with it.
    pub(super) encryption: Option<EncryptionState>,
    pub commitments: Commitments,
}

impl<M: GuestModel> Run<M> {
    pub(super) fn new(
        record: RunRecord,
        attempt: Attempt,
        layout: MeasurementLayout,
        model: M,
    ) -> Result<Self, ModelFailure> {
        Ok(Self {
            record,
            attempt,
            layout,
            initial: model.save()?,
            model,
            residual: Feedback::default(),
            done: Round::START,
            encryption: None,
            commitments: Commitments::default(),
        })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.record.plan
    }

    /// All that changes in training.
    pub(super) fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let mut bytes = Vec::new();
        self.residual.save(&mut bytes);
        bytes.extend(self.model.save()?);
        Ok(bytes)
    }

    /// Goes back to what was saved.
    pub(super) fn restore(&mut self, mut saved: &[u8]) -> Result<(), PartyError> {
        self.residual = Feedback::restore(&mut saved).map_err(StoreError::from)?;
        Ok(self.model.restore(saved)?)
    }

    /// Goes back to the beginning.
    pub(super) fn begin_anew(&mut self) -> Result<(), ModelFailure> {
        self.residual = Feedback::default();
        self.model.restore(&self.initial)
    }
}

/// Version of run records and checkpoints.
const FORMAT: &str = "fedtse-run/3";

/// A run record as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<R> {
    format: String,
    record: R,
}

/// The run record beside some checkpoints.
pub(crate) fn read_record<R: DeserializeOwned>(
    store: &impl Store,
) -> Result<Option<R>, StoreError> {
    #[derive(Deserialize)]
    struct Header {
        format: Option<String>,
    }
    let Some(bytes) = store.run_record()? else { return Ok(None) };
    let Header { format } = serde_json::from_slice(&bytes).map_err(|error| content(&error))?;
    if format.as_deref() != Some(FORMAT) {
        let found = format.map_or("no format".to_owned(), |format| format!("format `{format}`"));
        let problem =
            format!("found {found}, expected `{FORMAT}`; begin a new run in a new folder");
        return Err(StoreError::Content { path: RUN_RECORD.into(), problem });
    }
    let stored: Stored<R> = serde_json::from_slice(&bytes).map_err(|error| content(&error))?;
    Ok(Some(stored.record))
}

/// Writes the run record beside some checkpoints.
pub(crate) fn write_record(
    store: &mut impl Store,
    record: &impl Serialize,
) -> Result<(), StoreError> {
    let stored = Stored { format: FORMAT.to_owned(), record };
    store.put_run_record(&serde_json::to_vec(&stored).map_err(|error| content(&error))?)
}

fn content(error: &serde_json::Error) -> StoreError {
    StoreError::Content { path: RUN_RECORD.into(), problem: error.to_string() }
}
