//! What training makes small.
//!
//! An [`Objective`] turns a batch of estimates into a loss and its gradient. It sees the whole batch at
//! once, because a traffic model ties samples of consecutive steps together. [`Labelled`]: squared
//! errors against labels.

use std::sync::Arc;

use neural::{Checkpoint, CheckpointError, Loss, Plan, Squared};

use crate::data::measurements::MeasuredBatch;
use crate::loss::linear_part::{MeasurementWeights, PartialLoss};
use crate::model::sub_model::{PassError, check_len};
use traffic::Window;

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
    fn judge(
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

    /// As [`judge`](Self::judge) with some parties' values elsewhere: the sum of the losses that need none of them, and
    /// how the rest depends on them; slopes of estimates are not told.
    fn judge_without_values(
        &mut self,
        _samples: &[Window],
        _measured: &MeasuredBatch<'_>,
        _weights: &MeasurementWeights<'_>,
        _y: &[f32],
    ) -> Result<PartialLoss, PassError> {
        Err(PassError::NoLinearPart)
    }
}

/// Labels of samples, in the model's own scale.
pub trait Labels {
    /// Writes the label of a sample.
    fn write_label(&self, sample: Window, to: &mut [f32]);
    /// Weights of the outputs in the loss.
    fn weights(&self) -> &[f32];
    /// Weights of the outputs in the validation loss.
    fn judged(&self) -> &[f32];
}

impl<L: Labels + ?Sized> Labels for Arc<L> {
    fn write_label(&self, sample: Window, to: &mut [f32]) {
        (**self).write_label(sample, to);
    }
    fn weights(&self) -> &[f32] {
        (**self).weights()
    }
    fn judged(&self) -> &[f32] {
        (**self).judged()
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn write_label(&self, sample: Window, to: &mut [f32]) {
        (**self).write_label(sample, to);
    }
    fn weights(&self) -> &[f32] {
        (**self).weights()
    }
    fn judged(&self) -> &[f32] {
        (**self).judged()
    }
}

/// The paper's supervised loss: weighted squared errors against labels.
pub struct Labelled<L> {
    labels: L,
    targets: Vec<f32>,
}

impl<L: Labels> Labelled<L> {
    /// Against these labels.
    pub fn new(labels: L) -> Self {
        Self { labels, targets: Vec::new() }
    }

    fn fill(&mut self, samples: &[Window], y: &[f32]) -> Result<(), PassError> {
        let outputs = self.labels.weights().len();
        check_len("estimates", y.len(), samples.len() * outputs)?;
        self.targets.resize(y.len(), 0.0);
        for (&sample, target) in samples.iter().zip(self.targets.chunks_exact_mut(outputs)) {
            self.labels.write_label(sample, target);
        }
        Ok(())
    }
}

impl<L: Labels> Objective for Labelled<L> {
    fn train(
        &mut self,
        samples: &[Window],
        _measured: &MeasuredBatch<'_>,
        y: &[f32],
        dy: &mut [f32],
    ) -> Result<f64, PassError> {
        self.fill(samples, y)?;
        check_len("gradient of the estimates", dy.len(), y.len())?;
        let loss = Squared::new(&self.targets, self.labels.weights());
        Ok(evaluate(&loss, samples.len(), y, dy))
    }

    fn judge(
        &mut self,
        samples: &[Window],
        _measured: &MeasuredBatch<'_>,
        y: &[f32],
        mut total: f64,
    ) -> Result<f64, PassError> {
        self.fill(samples, y)?;
        let outputs = self.labels.judged().len();
        for (y, target) in y.chunks_exact(outputs).zip(self.targets.chunks_exact(outputs)) {
            for ((y, t), w) in y.iter().zip(target).zip(self.labels.judged()) {
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
