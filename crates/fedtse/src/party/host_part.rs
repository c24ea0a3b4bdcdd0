//! The host's data, sub-model and head, as a federation drives them.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use estimator::{Estimates, HostStudy, NeuralPlan, Score, Seat, Study, TrainedHost, score};
use federation::fedbcd::FedHost;
use federation::host::MakeHostModel;
use federation::message::Terms;
use federation::message::parts::Text;
use federation::{Compression, ModelFailure, PartyId, Plan, Samples};
use traffic::Step;

use super::guest_part::terms;
use super::trained::Trained;
use crate::subject::subject;

/// The host's model with its data.
pub type HostOf = FedHost<Arc<HostStudy>>;

/// All that the host brings.
pub struct HostPart {
    study: Study,
    windows: Arc<HostStudy>,
    plan: NeuralPlan,
}

impl HostPart {
    /// Reads loops and truth, and nothing of any fleet.
    pub fn read(folder: &Path, plan: NeuralPlan) -> Result<Self> {
        let study = Study::open_fleets(folder, &[])?;
        let windows = Arc::new(HostStudy::new(&study, &plan)?);
        Ok(HostPart { study, windows, plan })
    }

    pub fn terms(&self, compression: Compression) -> Terms {
        terms(self.study.timeline(), compression)
    }

    /// What its checkpoints belong to.
    pub fn subject(&self, seats: &[Seat]) -> Result<Text> {
        subject(&(&self.plan, self.windows.card(), seats, self.study.windows()))
    }

    /// What is left of it when the training has finished: all that it needs to estimate live.
    pub fn trained(&self, name: &PartyId, seats: &[Seat]) -> Trained<TrainedHost> {
        let part = TrainedHost {
            host: self.windows.card().clone(),
            shape: self.plan.host_shape(self.windows.inputs(), seats.to_vec()),
            target: self.plan.target,
        };
        Trained::new(name, part, Arc::clone(self.study.timeline()))
    }

    pub fn links(&self) -> usize {
        self.study.network().links().len()
    }

    /// The samples to learn from, to judge by and to be estimated at the end.
    pub fn samples(&self) -> Samples {
        let split = self.study.split();
        Samples {
            train: split.train.clone(),
            validation: split.validation.clone(),
            estimate: split.test.clone(),
        }
    }

    /// Makes the host's model, with seats for its guests, when the plan is known.
    pub fn maker(&self, seats: Vec<Seat>) -> MakeHostModel<HostOf> {
        maker(&self.windows, &self.plan, seats)
    }

    /// Errors on the samples that were estimated, over the links that are scored.
    pub fn score(&self, model: &HostOf) -> Score {
        let steps: Vec<Step> = model.estimates().keys().copied().collect();
        let estimates = model.estimates().values().map(Vec::as_slice);
        let states = of_targets(&self.study, &self.windows, estimates);
        score(&self.study, self.plan.target, &steps, &states)
    }
}

/// Makes the host's model, with seats for its guests, when the plan is known.
pub fn maker(
    windows: &Arc<HostStudy>,
    plan: &NeuralPlan,
    seats: Vec<Seat>,
) -> MakeHostModel<HostOf> {
    let windows = Arc::clone(windows);
    let shape = plan.host_shape(windows.inputs(), seats);
    Box::new(move |plan: &Plan| {
        let network = windows.timeline().network();
        let model = estimator::HostModel::new(&shape, network, plan.seed, plan.rule())
            .map_err(|error| ModelFailure(error.to_string()))?;
        FedHost::new(model, Arc::clone(&windows), plan)
    })
}

/// The states of the links that are scored, of one estimate after the other.
pub fn of_targets<'a>(
    study: &Study,
    windows: &HostStudy,
    estimates: impl Iterator<Item = &'a [f32]>,
) -> Estimates {
    let mut states = Vec::new();
    for estimate in estimates {
        let all: Vec<_> = windows.card().states(estimate).collect();
        states.extend(study.targets().iter().map(|link| all[link.index()]));
    }
    states
}
