//! A party when its training has finished, as it is kept for estimating live.

use std::path::Path;
use std::sync::Arc;

use estimator::artifact::PARTY_FORMAT;
use estimator::data::Timeline;
use estimator::{PartyFile, PartyWeights};
use protocol::{PartyId, RunId};
use tracing::info;

use super::policy::Policy;
use super::trained_model::keep_state;
use crate::error::{Context, Result, TrainingError};

/// All of a party but its weights and the run's name, which are known at the end.
pub struct TrainedParty<P> {
    name: PartyId,
    part: P,
    timeline: Arc<Timeline>,
    /// Of a guest.
    policy: Option<Policy>,
}

impl<P: estimator::artifact::Trained> TrainedParty<P> {
    /// A party of this name, with the time line of its data.
    pub fn new(name: &PartyId, part: P, timeline: Arc<Timeline>) -> Self {
        TrainedParty { name: name.clone(), part, timeline, policy: None }
    }

    /// The same under a policy, to which it keeps live, too.
    pub(super) fn under(self, policy: &Policy) -> Self {
        Self { policy: Some(policy.clone()), ..self }
    }

    /// Writes `model` into the folder of a run, with the best state of a custom sub-model.
    pub fn write(
        self,
        folder: &Path,
        run: Option<RunId>,
        weights: &PartyWeights,
        custom: Option<&[u8]>,
    ) -> Result<()> {
        let file = PartyFile {
            format: PARTY_FORMAT.into(),
            run: run.context("the run's name")?.to_string(),
            name: self.name.to_string(),
            steps: self.timeline.step_spec(),
            part: self.part,
        };
        let folder = folder.join("model");
        std::fs::create_dir_all(&folder).map_err(|error| TrainingError::file(&folder, error))?;
        keep_state(&folder, custom)?;
        self.policy.map_or(Ok(()), |policy| policy.write(&folder))?;
        file.write(&folder, self.timeline.network(), weights)?;
        info!(folder = %folder.display(), "the model is kept, for `fedtse live`");
        Ok(())
    }
}
