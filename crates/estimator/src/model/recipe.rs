//! How a model is trained.

use neural::{Decay, Schedule};
use serde::{Deserialize, Serialize};

use crate::model::architecture::Architecture;

/// Everything about a training run but the model and the data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Passes over the training part, at most.
    pub epochs: usize,
    /// Samples of a step.
    pub batch: usize,
    /// Highest learning rate.
    pub rate: f32,
    /// That of the host's part, if it has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_rate: Option<f32>,
    /// Whether the rate rises and falls in one cycle; otherwise it shrinks by 1 % every 140 steps.
    pub one_cycle: bool,
    /// Weight decay: apart from the gradient with one cycle, in the gradient without.
    pub decay: f32,
    /// Longest gradient of one party; longer ones are scaled down to it.
    pub clip: Option<f32>,
    /// Decay of the moving average of the weights, which then is what is validated and kept.
    pub average: Option<f32>,
    /// Epochs without a better validation loss after which training stops.
    pub patience: usize,
    /// Weight of flow beside density (α of the paper).
    pub flow_weight: f32,
    /// Weight of links that are not scored, beside those that are.
    pub other_links: f32,
    /// Whether the training part is shuffled in each epoch.
    pub shuffle: bool,
}

impl Recipe {
    /// The one for an architecture.
    pub fn of(architecture: Architecture) -> Self {
        match architecture {
            Architecture::Link => Recipe {
                epochs: 100,
                batch: 128,
                rate: 3e-3,
                host_rate: None,
                one_cycle: true,
                decay: 1e-2,
                clip: Some(1.0),
                average: Some(0.99),
                patience: 20,
                flow_weight: 1.0,
                other_links: 1.0,
                shuffle: true,
            },
            Architecture::Paper => Recipe {
                epochs: 200,
                batch: 128,
                rate: 3e-4,
                host_rate: None,
                one_cycle: false,
                decay: 1e-3,
                clip: None,
                average: None,
                patience: 20,
                flow_weight: 1.0,
                other_links: 1.0,
                shuffle: true,
            },
        }
    }

    /// The same for labels of held-out folds: as many steps, in epochs that see a window once with
    /// each fold held out.
    pub fn held_out(self, folds: usize) -> Self {
        let folds = folds.max(1);
        Self {
            epochs: self.epochs.div_ceil(folds),
            patience: self.patience.div_ceil(folds),
            ..self
        }
    }

    /// The learning rates, for epochs of this many steps.
    pub fn schedule(&self, steps_per_epoch: usize) -> Schedule {
        if self.one_cycle {
            let steps = (self.epochs * steps_per_epoch) as u64;
            Schedule::OneCycle { highest: self.rate, steps }
        } else {
            Schedule::Step { rate: self.rate, every: 140, factor: 0.99 }
        }
    }

    /// The weight decay.
    pub fn weight_decay(&self) -> Decay {
        if self.one_cycle { Decay::Decoupled(self.decay) } else { Decay::InGradient(self.decay) }
    }
}
