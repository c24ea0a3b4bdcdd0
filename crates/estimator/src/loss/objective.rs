//! Loss functions.
//!
//! An [`Objective`] turns a batch of estimates into a loss and its gradient. It sees the whole batch at
//! once, because a traffic model ties samples of consecutive steps together. [`Labelled`]: squared
//! errors against labels.
//!
//! [`PartialLoss`]: a loss whose measurements are elsewhere, as sealed products need it.
//!
//! With u the values of a party, w their weights and h what they should be by the estimates y:
//!
//! ```text
//! L     = known(y)  +  Σ c·u  +  ½ Σ w·u²          c = −w·h       the last is constant, and left out
//! ∂L/∂y = known'(y) +  Σ d·u                       d = −w·h'(y)
//! ```
//!
//! The host knows all but u. Each entry touches density and flow of one link of one sample, so d is two
//! numbers. Everything is per sample and link, as in [`Objective`].

use std::collections::BTreeMap;

use neural::{Checkpoint, CheckpointError, Loss, Plan, Squared};

use crate::data::measurements::MeasuredBatch;
use crate::data::window_source::WindowSource;
use crate::model::recipe::Recipe;
use crate::model::sub_model::{PassError, check_len};
use traffic::{Network, Window};

/// A loss over a batch of estimates.
///
/// Estimates are `[sample, link, (density, flow)]` in the model's own scale.
pub trait Objective {
    /// The mean loss of a batch, and its gradient into `dy`, all of which is written.
    fn train(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        y: &[f32],
        dy: &mut [f32],
    ) -> Result<f64, PassError>;

    /// Adds the validation losses of some samples to `total`, one after the other, and gives the sum.
    fn validate(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        y: &[f32],
        total: f64,
    ) -> Result<f64, PassError>;

    /// One step of what the loss itself learns, such as a traffic model's parameters, along the gradient of the last
    /// [`train`](Self::train) or [`train_without_values`](Self::train_without_values). Due with the model's own update: a batch that is
    /// computed again before it, since a guest came or went, still counts once.
    fn update(&mut self) {}

    /// Writes what the loss itself has learned beside the weights of the model that it trains.
    fn save(&self, _to: &mut Checkpoint) {}

    /// Goes on from what [`save`](Self::save) has written.
    fn restore(&mut self, _from: &Checkpoint) -> Result<(), CheckpointError> {
        Ok(())
    }

    /// Whether there is anything to learn from with these measurements.
    fn has_terms(&self, _measured: &MeasuredBatch<'_>) -> bool {
        true
    }

    /// As [`train`](Self::train), with some parties' values elsewhere: what needs none of them into `dy`, and how the
    /// rest depends on them. See [`PartialLoss`].
    fn train_without_values(
        &mut self,
        _samples: &[Window],
        _measured: &MeasuredBatch<'_>,
        _weights: &MeasurementWeights<'_>,
        _y: &[f32],
        _dy: &mut [f32],
    ) -> Result<PartialLoss, PassError> {
        Err(PassError::NoLinearPart)
    }

    /// As [`validate`](Self::validate) with some parties' values elsewhere: the sum of the losses that need none of them, and
    /// how the rest depends on them; slopes of estimates are not told.
    fn validate_without_values(
        &mut self,
        _samples: &[Window],
        _measured: &MeasuredBatch<'_>,
        _weights: &MeasurementWeights<'_>,
        _y: &[f32],
    ) -> Result<PartialLoss, PassError> {
        Err(PassError::NoLinearPart)
    }
}

/// The weights of parties whose values are elsewhere, `[sample, entry]`, by name.
pub type MeasurementWeights<'a> = BTreeMap<&'a str, &'a [f32]>;

/// A loss without the values of some parties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartialLoss {
    /// What the loss is if all these values are 0.
    pub known: f64,
    /// What each party's values add, by name.
    pub parties: BTreeMap<String, LinearPart>,
}

/// What one party's values add, `[sample, entry]` each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinearPart {
    /// c: of the loss.
    pub loss: Vec<f64>,
    /// d: of the gradient, by density and flow of the entry's link, in the model's own scale.
    pub slopes: Vec<[f32; 2]>,
    /// The links of a sample's entries.
    pub links: Vec<usize>,
}

/// Weights of the outputs of an estimate in the losses, `[link, (density, flow)]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LossWeights {
    /// In the training loss.
    pub training: Vec<f32>,
    /// In the validation loss.
    pub validation: Vec<f32>,
}

impl LossWeights {
    /// Those of a recipe: training counts all links, validation the scored ones.
    pub fn of(network: &Network, recipe: &Recipe) -> Self {
        Self {
            training: link_weights(network, recipe.flow_weight, recipe.other_links),
            validation: link_weights(network, recipe.flow_weight, 0.0),
        }
    }
}

/// Weights of density and flow of each link, such that those of density add up to 1.
fn link_weights(network: &Network, flow: f32, others: f32) -> Vec<f32> {
    let (each, targets) = (network.link_ids(), network.targets());
    let links: Vec<f32> =
        each.map(|link| if targets.contains(&link) { 1.0 } else { others }).collect();
    let total: f32 = links.iter().sum();
    links.iter().flat_map(|weight| [weight / total, flow * weight / total]).collect()
}

/// The paper's supervised loss: weighted squared errors against labels.
pub struct Labelled<L> {
    labels: L,
    weights: LossWeights,
    targets: Vec<f32>,
}

impl<L: WindowSource> Labelled<L> {
    /// Against these labels, in the model's own scale.
    pub fn new(labels: L, weights: LossWeights) -> Self {
        Self { labels, weights, targets: Vec::new() }
    }

    fn fill(&mut self, samples: &[Window], y: &[f32]) -> Result<(), PassError> {
        let outputs = self.weights.training.len();
        check_len("estimates", y.len(), samples.len() * outputs)?;
        self.targets.resize(y.len(), 0.0);
        for (&sample, target) in samples.iter().zip(self.targets.chunks_exact_mut(outputs)) {
            self.labels.write_row(sample, target);
        }
        Ok(())
    }
}

impl<L: WindowSource> Objective for Labelled<L> {
    fn train(
        &mut self,
        samples: &[Window],
        _measured: &MeasuredBatch<'_>,
        y: &[f32],
        dy: &mut [f32],
    ) -> Result<f64, PassError> {
        self.fill(samples, y)?;
        check_len("gradient of the estimates", dy.len(), y.len())?;
        let loss = Squared::new(&self.targets, &self.weights.training);
        Ok(evaluate(&loss, samples.len(), y, dy))
    }

    fn validate(
        &mut self,
        samples: &[Window],
        _measured: &MeasuredBatch<'_>,
        y: &[f32],
        mut total: f64,
    ) -> Result<f64, PassError> {
        self.fill(samples, y)?;
        let outputs = self.weights.validation.len();
        for (y, target) in y.chunks_exact(outputs).zip(self.targets.chunks_exact(outputs)) {
            for ((y, t), w) in y.iter().zip(target).zip(&self.weights.validation) {
                total += f64::from(*w) * f64::from(y - t).powi(2);
            }
        }
        Ok(total)
    }
}

/// The loss of a batch and its gradient, added up in the order of [`neural::Learner::train`], so
/// that not even the last bit tells where a model was trained.
fn evaluate(loss: &impl Loss, samples: usize, y: &[f32], dy: &mut [f32]) -> f64 {
    let Plan { chunk, lanes } = Plan::default();
    let outputs = y.len() / samples.max(1);
    let chunks = samples.div_ceil(chunk);
    let mut totals = vec![0.0; lanes];
    for (lane, total) in totals.iter_mut().enumerate() {
        for number in lane * chunks / lanes..(lane + 1) * chunks / lanes {
            let first = number * chunk;
            let range = first * outputs..(first + chunk).min(samples) * outputs;
            *total += loss.evaluate(first, &y[range.clone()], &mut dy[range]);
        }
    }
    totals.iter().sum()
}
