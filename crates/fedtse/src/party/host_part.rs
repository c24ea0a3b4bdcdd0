//! The host's data, sub-model and head, as a federation drives them.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use estimator::{HostStudy, NeuralPlan, Score, Seat, Study, score};
use federation::fedbcd::{FedHost, LabelledWindows, Windows};
use federation::host::MakeHostModel;
use federation::message::Terms;
use federation::{ModelFailure, Plan, Samples};
use traffic::Step;

use super::guest_part::terms;

/// The host's model with its data.
pub type HostOf = FedHost<HostWindows>;

/// Windows of the loops, with the truth.
#[derive(Clone)]
pub struct HostWindows(Arc<HostStudy>);

impl Windows for HostWindows {
    fn input_len(&self) -> usize {
        self.0.inputs().len()
    }
    fn write_input(&self, last: Step, to: &mut [f32]) {
        self.0.inputs().write(last, to);
    }
}

impl LabelledWindows for HostWindows {
    fn output_len(&self) -> usize {
        self.0.outputs()
    }
    fn write_target(&self, last: Step, to: &mut [f32]) {
        self.0.write_target(last, to);
    }
    fn weights(&self) -> &[f32] {
        self.0.weights()
    }
    fn judged(&self) -> &[f32] {
        self.0.judged()
    }
}

/// All that the host brings.
pub struct HostPart {
    study: Study,
    windows: HostWindows,
    plan: NeuralPlan,
}

impl HostPart {
    /// Reads loops and truth, and nothing of any fleet.
    pub fn read(folder: &Path, plan: NeuralPlan) -> Result<Self> {
        let study = Study::open_fleets(folder, &[])?;
        let windows = HostWindows(Arc::new(HostStudy::new(&study, &plan)?));
        Ok(HostPart { study, windows, plan })
    }

    pub fn terms(&self) -> Terms {
        terms(self.study.timeline())
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
        let windows = self.windows.clone();
        let shape = self.plan.host_shape(windows.0.inputs(), seats);
        Box::new(move |plan: &Plan| {
            let network = windows.0.timeline().network();
            let model = estimator::HostModel::new(&shape, network, plan.seed, plan.rule())
                .map_err(|error| ModelFailure(error.to_string()))?;
            FedHost::new(model, windows.clone(), plan)
        })
    }

    /// Errors on the samples that were estimated, over the links that are scored.
    pub fn score(&self, model: &HostOf) -> Score {
        let (mut steps, mut states) = (Vec::new(), Vec::new());
        for (&step, estimate) in model.estimates() {
            steps.push(step);
            let all: Vec<_> = self.windows.0.card().states(estimate).collect();
            states.extend(self.study.targets().iter().map(|link| all[link.index()]));
        }
        score(&self.study, self.plan.target, &steps, &states)
    }
}
