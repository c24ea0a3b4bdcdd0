//! Training, one epoch at a time.
//!
//! The loss is the paper's equation (312) on scaled targets:
//!
//! ```text
//! L = 1/N Σ_v (k_v − k̂_v)² + α/N Σ_v (q_v − q̂_v)²
//! ```
//!
//! over all links; the validation loss is the same over the scored links alone. The weights of the
//! best epoch are kept. Everything random is a hash of seed, epoch and step, so that a run depends
//! neither on threads nor on interruptions.

use std::ops::Range;

use neural::random::shuffle;
use neural::{
    Adam, Average, DropoutRng, Fusion, Layer, Learner, Optimiser, Schedule, Squared, clip_norm,
    hash,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::recipe::Recipe;
use crate::model::sub_model::PassError;

/// Windows that are estimated together outside training.
const BLOCK: usize = 512;

/// The samples of a training run.
pub trait Examples: Sync {
    /// What names a sample: a window by its last step, or more.
    type Window: Copy;
    /// Numbers of an input.
    fn inputs(&self) -> usize;
    /// Numbers of a target.
    fn outputs(&self) -> usize;
    /// Writes the input of a sample.
    fn write_input(&self, sample: Self::Window, to: &mut [f32]);
    /// Writes the scaled target of a sample.
    fn write_target(&self, sample: Self::Window, to: &mut [f32]);
    /// Weights of the outputs in the loss.
    fn weights(&self) -> &[f32];
    /// Weights of the outputs in the validation loss.
    fn judged(&self) -> &[f32];
    /// Samples to learn from.
    fn train(&self) -> &[Self::Window];
    /// Samples to judge by.
    fn validation(&self) -> &[Self::Window];
}

/// How an epoch went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// Its number, from 1.
    pub number: usize,
    /// Mean loss of its steps.
    pub train: f64,
    /// Loss of the validation part after it.
    pub validation: f64,
}

/// Why training failed.
#[derive(Debug, Error, PartialEq)]
pub enum TrainError {
    /// The loss is not a number any more.
    #[error(
        "training diverged in epoch {epoch}, step {step}: the loss is {loss}; try a smaller learning rate"
    )]
    Diverged {
        /// The epoch.
        epoch: usize,
        /// The step of the whole run.
        step: u64,
        /// Its loss.
        loss: f64,
    },
    /// The objective refused its numbers.
    #[error(transparent)]
    Objective(#[from] PassError),
}

/// A training run, between two epochs.
pub struct Trainer {
    pub(crate) learner: Learner<Fusion>,
    pub(crate) adam: Adam,
    pub(crate) average: Option<Average>,
    pub(crate) best: Vec<f32>,
    pub(crate) history: Vec<Epoch>,
    /// The parameters of each party.
    blocks: Vec<Vec<Range<usize>>>,
    recipe: Recipe,
    schedule: Schedule,
    seed: u64,
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Trainer {
    /// Before the first epoch. `blocks`: where each party's parameters are.
    pub fn new(
        learner: Learner<Fusion>,
        blocks: Vec<Vec<Range<usize>>>,
        recipe: Recipe,
        seed: u64,
        samples: usize,
    ) -> Self {
        let parameters = learner.parameters();
        Self {
            adam: Adam::new(parameters.len(), recipe.weight_decay()),
            average: recipe.average.map(|decay| Average::new(parameters, decay)),
            best: parameters.to_vec(),
            history: Vec::new(),
            schedule: recipe.schedule(samples.div_ceil(recipe.batch.max(1))),
            blocks,
            recipe,
            seed,
            x: Vec::new(),
            y: Vec::new(),
            learner,
        }
    }

    /// The epochs so far.
    pub fn history(&self) -> &[Epoch] {
        &self.history
    }

    /// The epoch with the least validation loss so far.
    pub fn best_epoch(&self) -> Option<Epoch> {
        let mut best: Option<Epoch> = None;
        for &epoch in &self.history {
            if best.is_none_or(|best| epoch.validation < best.validation) {
                best = Some(epoch);
            }
        }
        best
    }

    /// Whether nothing more is to be gained: all epochs done, or no better one for long.
    pub fn is_done(&self) -> bool {
        let best = self.best_epoch().map_or(0, |epoch| epoch.number);
        let done = self.history.len();
        done >= self.recipe.epochs || done - best >= self.recipe.patience.max(1)
    }

    /// One pass over the training part, then the validation part.
    pub fn epoch(&mut self, examples: &impl Examples) -> Result<Epoch, TrainError> {
        let number = self.history.len() + 1;
        let mut order = examples.train().to_vec();
        if self.recipe.shuffle {
            shuffle(&mut order, hash([self.seed, number as u64]));
        }
        let batch = self.recipe.batch.max(1);
        let train =
            self.pass(&order, batch, |own, batch, step| Ok(own.step(examples, batch, step)))?;
        let validation = self.validate(examples);
        self.record(train, validation)
    }

    /// Steps along an order, batch by batch; the mean loss.
    pub(crate) fn pass<S>(
        &mut self,
        order: &[S],
        batch: usize,
        mut step_on: impl FnMut(&mut Self, &[S], u64) -> Result<f64, TrainError>,
    ) -> Result<f64, TrainError> {
        let epoch = self.history.len() + 1;
        let (mut total, mut steps) = (0.0, 0);
        for batch in order.chunks(batch) {
            let step = self.adam.steps();
            let loss = step_on(self, batch, step)?;
            if !loss.is_finite() {
                return Err(TrainError::Diverged { epoch, step, loss });
            }
            total += loss;
            steps += 1;
        }
        Ok(total / f64::from(steps.max(1)))
    }

    /// The losses of an epoch; the weights are kept if they are the best so far.
    pub(crate) fn record(&mut self, train: f64, validation: f64) -> Result<Epoch, TrainError> {
        let number = self.history.len() + 1;
        if !validation.is_finite() {
            let step = self.adam.steps();
            return Err(TrainError::Diverged { epoch: number, step, loss: validation });
        }
        let epoch = Epoch { number, train, validation };
        if self.best_epoch().is_none_or(|best| validation < best.validation) {
            self.best = self.judged_weights().to_vec();
        }
        self.history.push(epoch);
        Ok(epoch)
    }

    fn step<E: Examples>(&mut self, examples: &E, batch: &[E::Window], step: u64) -> f64 {
        let (inputs, outputs) = (examples.inputs(), examples.outputs());
        self.x.resize(batch.len() * inputs, 0.0);
        self.y.resize(batch.len() * outputs, 0.0);
        let places = self.x.chunks_exact_mut(inputs).zip(self.y.chunks_exact_mut(outputs));
        for (&sample, (x, y)) in batch.iter().zip(places) {
            examples.write_input(sample, x);
            examples.write_target(sample, y);
        }
        let noise = self.noise(step);
        let loss = Squared::new(&self.y, examples.weights());
        let loss = self.learner.train(&self.x, &loss, Some(noise));
        self.update(step);
        loss
    }

    /// The randomness of a step.
    pub(crate) fn noise(&self, step: u64) -> DropoutRng {
        DropoutRng { seed: self.seed, step, first_sample: 0 }
    }

    /// One step along the learner's gradient.
    pub(crate) fn update(&mut self, step: u64) {
        if let Some(longest) = self.recipe.clip {
            for block in &self.blocks {
                clip_block(self.learner.gradient_mut(), block, longest);
            }
        }
        self.learner.step(&mut self.adam, self.schedule.rate(step));
        if let Some(average) = &mut self.average {
            average.update(self.learner.parameters());
        }
    }

    /// The weights that are judged and kept.
    fn judged_weights(&self) -> &[f32] {
        self.average.as_ref().map_or(self.learner.parameters(), Average::weights)
    }

    fn validate(&mut self, examples: &impl Examples) -> f64 {
        let windows = examples.validation();
        let mut target = vec![0.0; examples.outputs()];
        let mut total = 0.0;
        self.estimate(examples, windows, |last, estimate| {
            examples.write_target(last, &mut target);
            for ((y, t), w) in estimate.iter().zip(&target).zip(examples.judged()) {
                total += f64::from(*w) * f64::from(y - t).powi(2);
            }
        });
        total / windows.len().max(1) as f64
    }

    /// Runs the model over windows with the weights that are judged, and hands each output on.
    pub(crate) fn estimate<E: Examples>(
        &mut self,
        examples: &E,
        windows: &[E::Window],
        take: impl FnMut(E::Window, &[f32]),
    ) {
        self.estimate_with(windows, |one, x| examples.write_input(one, x), take);
    }

    /// The same with any inputs.
    pub(crate) fn estimate_with<S: Copy>(
        &mut self,
        windows: &[S],
        write_input: impl Fn(S, &mut [f32]),
        take: impl FnMut(S, &[f32]),
    ) {
        let weights = self.judged_weights().to_vec();
        let current = self.learner.parameters().to_vec();
        self.learner.update(|parameters, _| parameters.copy_from_slice(&weights));
        estimate_windows(&self.learner, windows, write_input, take);
        self.learner.update(|parameters, _| parameters.copy_from_slice(&current));
    }

    /// The model with the weights of the best epoch.
    pub fn finish(mut self) -> Learner<Fusion> {
        let best = self.best;
        self.learner.update(|parameters, _| parameters.copy_from_slice(&best));
        self.learner
    }
}

/// Runs a model over windows, or other samples, block by block, and hands each one's output on.
pub(crate) fn estimate_windows<S: Copy>(
    learner: &Learner<Fusion>,
    windows: &[S],
    write_input: impl Fn(S, &mut [f32]),
    mut take: impl FnMut(S, &[f32]),
) {
    let (inputs, outputs) = (learner.model().input_len(), learner.model().output_len());
    let mut x = vec![0.0; BLOCK.min(windows.len()) * inputs];
    let mut y = vec![0.0; BLOCK.min(windows.len()) * outputs];
    for block in windows.chunks(BLOCK) {
        let (x, y) = (&mut x[..block.len() * inputs], &mut y[..block.len() * outputs]);
        for (&last, x) in block.iter().zip(x.chunks_exact_mut(inputs)) {
            write_input(last, x);
        }
        learner.infer(x, y);
        for (&last, y) in block.iter().zip(y.chunks_exact(outputs)) {
            take(last, y);
        }
    }
}

/// Clips the gradient of one party, as that party would by itself: in a federation nobody knows
/// the length of the whole.
fn clip_block(gradient: &mut [f32], ranges: &[Range<usize>], longest: f32) {
    let own = ranges.iter().flat_map(|range| &gradient[range.clone()]);
    let mut own: Vec<f32> = own.copied().collect();
    clip_norm(&mut own, longest);
    let mut from = own.as_slice();
    for range in ranges {
        let (part, rest) = from.split_at(range.len());
        gradient[range.clone()].copy_from_slice(part);
        from = rest;
    }
}

#[cfg(test)]
mod tests;
