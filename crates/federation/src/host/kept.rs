//! What a checkpoint of the host holds: progress, what compression has lost, the model.

use std::collections::BTreeMap;

use protocol::compression::{Compression, Feedback};
use protocol::message::parts::EmbeddingGradient;
use protocol::party::{PartyId, Round};
use serde::{Deserialize, Serialize};

use super::Running;
use crate::error::PartyError;
use crate::schedule::Progress;
use crate::store::StoreError;

/// What compression has lost of each guest's gradients.
pub(super) type Residuals = BTreeMap<PartyId, Feedback>;

/// What a checkpoint says of the run, besides numbers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostCheckpoint {
    pub progress: Progress,
    pub trained: Option<Round>,
    /// The guests with something left to be sent, in the order of what follows the text.
    pub left: Vec<PartyId>,
}

impl HostCheckpoint {
    /// Length of the text, the text, what is left for each guest, the model.
    pub fn write(&self, feedback: &Residuals, model: &[u8]) -> Result<Vec<u8>, StoreError> {
        let text = serde_json::to_vec(self).map_err(|error| content(error.to_string()))?;
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&text);
        feedback.values().for_each(|feedback| feedback.save(&mut bytes));
        bytes.extend_from_slice(model);
        Ok(bytes)
    }

    pub fn parse(bytes: &[u8]) -> Result<(Self, Residuals, &[u8]), StoreError> {
        let cut = || content("found less than a whole checkpoint".to_owned());
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (text, mut rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let kept: Self =
            serde_json::from_slice(text).map_err(|error| content(error.to_string()))?;
        let mut feedback = BTreeMap::new();
        for party in &kept.left {
            feedback.insert(party.clone(), Feedback::restore(&mut rest)?);
        }
        Ok((kept, feedback, rest))
    }
}

impl<M> Running<M> {
    /// The gradients of training samples as their guests will see them.
    pub(super) fn pack(
        &mut self,
        compression: Compression,
        samples: &[traffic::Window],
        gradients: BTreeMap<PartyId, EmbeddingGradient>,
    ) -> Result<BTreeMap<PartyId, EmbeddingGradient>, PartyError> {
        if compression == Compression::None {
            return Ok(gradients);
        }
        let mut packed = BTreeMap::new();
        for (party, EmbeddingGradient(values)) in gradients {
            let feedback = self.feedback.entry(party.clone()).or_default();
            let width = values.width();
            let values = feedback
                .pack(compression, samples, width, values.into_vec())
                .map_err(PartyError::misuse)?;
            packed.insert(party, EmbeddingGradient(values));
        }
        Ok(packed)
    }
}

fn content(problem: String) -> StoreError {
    StoreError::Content { path: "the host's checkpoint".into(), problem }
}
