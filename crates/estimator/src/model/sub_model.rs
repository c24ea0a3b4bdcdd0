//! A guest's private part, as a federation drives it: it knows nothing of the other parties.

use neural::{Checkpoint, CheckpointError, DropoutRng, Layer};
use thiserror::Error;
use traffic::Network;

use crate::model::model_error::ModelError;
use crate::model::parts::{GuestShape, party_seed};
use crate::model::party_block::{PartyBlock, UpdateRule};

/// Numbers that a model cannot take.
#[derive(Debug, Error, PartialEq)]
pub enum PassError {
    /// Too few or too many.
    #[error("{what}: found {found} numbers, expected {expected}")]
    Length {
        /// Which numbers.
        what: &'static str,
        /// Given.
        found: usize,
        /// Expected.
        expected: String,
    },
    /// NaN or infinite.
    #[error("{what}: found {found} at place {place}, expected a finite number")]
    NotFinite {
        /// Which numbers.
        what: &'static str,
        /// The value.
        found: f32,
        /// Where.
        place: usize,
    },
    /// Less than 0 where nothing below makes sense.
    #[error("{what}: found {found} at place {place}, expected 0 or more")]
    Negative {
        /// Which numbers.
        what: &'static str,
        /// The value.
        found: f32,
        /// Where.
        place: usize,
    },
    /// The traffic model of a loss refused its numbers.
    #[error("traffic model of the loss: {0}")]
    Physics(String),
    /// A guest that has no slot.
    #[error("guest `{found}`: found no slot for it, expected one of: {expected}")]
    UnknownGuest {
        /// Its name.
        found: String,
        /// The guests there are.
        expected: String,
    },
    /// A loss that needs all values where it is computed.
    #[error("loss: found measurements that are elsewhere, expected a loss without labels")]
    NoLinearPart,
}

/// A private part of the model. All batches are `[sample, number]`.
///
/// One exchange at a guest:
///
/// ```text
/// begin_round
/// forward(x, noise)  → z            crosses to the host
/// backward(x, ∂L/∂z, noise)         what came back
/// update(rate)
/// Q − 1 times: forward, backward with the same ∂L/∂z, update      (or, frozen: update alone)
/// ```
pub trait SubModel: Send {
    /// Numbers of one input.
    fn input_len(&self) -> usize;
    /// Numbers of one output.
    fn output_len(&self) -> usize;
    /// A round begins: the proximal term draws to the weights of this moment.
    fn begin_round(&mut self);
    /// Outputs of a batch in training, with dropout.
    fn forward(&mut self, x: &[f32], z: &mut [f32], noise: DropoutRng) -> Result<(), PassError>;
    /// The gradient of the own parameters from that of the outputs. `x` and `noise` as in the last
    /// [`forward`](Self::forward), since which nothing was updated.
    fn backward(&mut self, x: &[f32], dz: &[f32], noise: DropoutRng) -> Result<(), PassError>;
    /// One step along the gradient of the last [`backward`](Self::backward), which stays.
    fn update(&mut self, rate: f32);
    /// Outputs of a batch by the weights that are validated, without dropout.
    fn infer(&self, x: &[f32], z: &mut [f32]) -> Result<(), PassError>;
    /// The weights that are validated are the best so far: they are kept.
    fn keep_best(&mut self);
    /// Outputs of a batch by the weights that were kept, without dropout.
    fn infer_best(&self, x: &[f32], z: &mut [f32]) -> Result<(), PassError>;
    /// The parameters as they move.
    fn parameters(&self) -> &[f32];
    /// The parameters that were kept.
    fn best(&self) -> &[f32];
    /// Everything that changes in training, between two rounds.
    fn save(&self) -> Checkpoint;
    /// Goes back to what was saved by a model of the same shape and rule.
    fn load(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError>;
}

/// Any layer as a sub-model.
///
/// ```
/// use estimator::{Architecture, LayerSubModel, Recipe, SubModel, UpdateRule};
/// use neural::{DropoutRng, Linear};
///
/// let rule = UpdateRule::of(&Recipe::of(Architecture::Link));
/// let mut guest = LayerSubModel::new(Linear::new(1, 3, 2), 1, rule);
/// let noise = DropoutRng { seed: 1, step: 0, first_sample: 0 };
/// let (x, mut z) = ([0.5, 1.0, 2.0], [0.0; 2]);
/// guest.begin_round();
/// guest.forward(&x, &mut z, noise)?; // z crosses to the host,
/// guest.backward(&x, &[1.0, 0.0], noise)?; // and ∂L/∂z comes back
/// let before = guest.parameters().to_vec();
/// guest.update(0.01);
/// assert_ne!(guest.parameters(), before);
/// # Ok::<(), estimator::model::PassError>(())
/// ```
pub struct LayerSubModel {
    block: PartyBlock,
    /// Samples of the last forward pass.
    forwarded: usize,
}

impl LayerSubModel {
    /// A layer with parameters drawn from a seed.
    pub fn new(layer: impl Layer + 'static, seed: u64, rule: UpdateRule) -> Self {
        Self { block: PartyBlock::new(layer, seed, rule), forwarded: 0 }
    }

    /// A guest's part with its first weights, as the joint model of the same seed has them.
    pub fn of(
        shape: &GuestShape,
        network: &Network,
        seed: u64,
        rule: UpdateRule,
    ) -> Result<Self, ModelError> {
        Ok(Self::new(shape.build(network)?, party_seed(seed, &shape.name), rule))
    }

    /// The best weights alone, for `load_best`.
    pub fn save_best(&self) -> Checkpoint {
        self.block.save_best()
    }

    /// Takes the best weights of a model of the same shape.
    pub(crate) fn load_best(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.block.load_best(checkpoint)
    }

    /// The same, as numbers.
    pub(crate) fn set_best(&mut self, weights: &[f32]) {
        self.block.set_best(weights);
    }

    fn samples(&self, x: &[f32], z: usize) -> Result<usize, PassError> {
        let samples = whole_samples("input", x.len(), self.input_len())?;
        check_len("output", z, samples * self.output_len())?;
        Ok(samples)
    }
}

impl SubModel for LayerSubModel {
    fn input_len(&self) -> usize {
        self.block.model().input_len()
    }
    fn output_len(&self) -> usize {
        self.block.model().output_len()
    }
    fn begin_round(&mut self) {
        self.block.begin_round();
    }

    fn forward(&mut self, x: &[f32], z: &mut [f32], noise: DropoutRng) -> Result<(), PassError> {
        self.forwarded = self.samples(x, z.len())?;
        self.block.learner.forward(x, z, Some(noise));
        Ok(())
    }

    fn backward(&mut self, x: &[f32], dz: &[f32], noise: DropoutRng) -> Result<(), PassError> {
        check_len("input", x.len(), self.forwarded * self.input_len())?;
        check_len("gradient of the output", dz.len(), self.forwarded * self.output_len())?;
        check_finite("gradient of the output", dz)?;
        self.block.learner.backward(x, dz, None, Some(noise));
        Ok(())
    }

    fn update(&mut self, rate: f32) {
        self.block.update(rate);
    }

    fn infer(&self, x: &[f32], z: &mut [f32]) -> Result<(), PassError> {
        self.samples(x, z.len())?;
        self.block.validated().infer(x, z);
        Ok(())
    }

    fn keep_best(&mut self) {
        self.block.keep_best();
    }

    fn infer_best(&self, x: &[f32], z: &mut [f32]) -> Result<(), PassError> {
        self.samples(x, z.len())?;
        self.block.kept().infer(x, z);
        Ok(())
    }

    fn parameters(&self) -> &[f32] {
        self.block.learner.parameters()
    }
    fn best(&self) -> &[f32] {
        self.block.best()
    }
    fn save(&self) -> Checkpoint {
        self.block.save()
    }
    fn load(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.forwarded = 0;
        self.block.load(checkpoint)
    }
}

/// How many samples a batch holds.
pub(crate) fn whole_samples(
    what: &'static str,
    found: usize,
    each: usize,
) -> Result<usize, PassError> {
    if each > 0 && found.is_multiple_of(each) {
        return Ok(found / each);
    }
    Err(PassError::Length { what, found, expected: format!("a multiple of {each}") })
}

pub(crate) fn check_len(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), PassError> {
    if found == expected {
        return Ok(());
    }
    Err(PassError::Length { what, found, expected: expected.to_string() })
}

pub(crate) fn check_finite(what: &'static str, values: &[f32]) -> Result<(), PassError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(place) => Err(PassError::NotFinite { what, found: values[place], place }),
    }
}

#[cfg(test)]
mod tests;
