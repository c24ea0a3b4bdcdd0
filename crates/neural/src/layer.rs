//! What every layer and every model does: forward and backward over a chunk of samples.
//!
//! A layer owns its sizes, not its numbers. Parameters, gradients and activations are slices that
//! the caller lends: so a chunk fits in cache, nothing is allocated during training, and
//! optimisers, checkpoints and noise work on one flat vector.
//!
//! Activations are `[sample, time, node, channel]`, channels adjacent. Samples never mix, so a
//! batch may be cut into chunks at will.

use std::sync::Arc;

use crate::{Draw, Layout};

/// A differentiable function of a chunk of samples, with parameters.
///
/// A model is a layer too: see [`Chain`](crate::Chain), [`stgcn`](crate::stgcn()),
/// [`Fusion`](crate::Fusion). To train one, give it to a [`Learner`](crate::Learner).
pub trait Layer: Send + Sync {
    /// Names, shapes and places of the parameters.
    fn layout(&self) -> Layout {
        Layout::default()
    }
    /// Input values of one sample.
    fn input_len(&self) -> usize;
    /// Output values of one sample.
    fn output_len(&self) -> usize {
        self.input_len()
    }
    /// Values that [`prepare`](Self::prepare) writes.
    fn prepared_len(&self) -> usize {
        0
    }
    /// Values kept from forward to backward, for this many samples.
    fn saved_len(&self, _samples: usize) -> usize {
        0
    }
    /// Values needed within one call only, for this many samples.
    fn scratch_len(&self, _samples: usize) -> usize {
        0
    }
    /// Draws first parameters.
    fn initialise(&self, _draw: &mut Draw, _parameters: &mut [f32]) {}
    /// Derives from the parameters what passes need again and again (transposed weights, …).
    /// Called once after each change of the parameters.
    fn prepare(&self, _parameters: &[f32], _prepared: &mut [f32]) {}

    /// Computes `y` from `x`. `saved` keeps what backward needs.
    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>);

    /// Adds the gradient of the parameters to `gradient` and writes that of the input to `dx`, if
    /// wanted. `x`, `y` and `saved` are as forward left them; `dy` and `saved` may be overwritten.
    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>);

    /// Completes the gradient after all chunks have been added up. For parameters whose gradient
    /// is a copy of another's.
    fn finish_gradient(&self, _gradient: &mut [f32]) {}
}

/// A layer behind a pointer is the same layer.
macro_rules! layer_behind {
    ($($pointer:ty),*) => {$(
        impl<T: Layer + ?Sized> Layer for $pointer {
            fn layout(&self) -> Layout {
                (**self).layout()
            }
            fn input_len(&self) -> usize {
                (**self).input_len()
            }
            fn output_len(&self) -> usize {
                (**self).output_len()
            }
            fn prepared_len(&self) -> usize {
                (**self).prepared_len()
            }
            fn saved_len(&self, samples: usize) -> usize {
                (**self).saved_len(samples)
            }
            fn scratch_len(&self, samples: usize) -> usize {
                (**self).scratch_len(samples)
            }
            fn initialise(&self, draw: &mut Draw, parameters: &mut [f32]) {
                (**self).initialise(draw, parameters);
            }
            fn prepare(&self, parameters: &[f32], prepared: &mut [f32]) {
                (**self).prepare(parameters, prepared);
            }
            fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], memory: Memory<'_>) {
                (**self).forward(pass, x, y, memory);
            }
            fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
                (**self).backward(pass, work);
            }
            fn finish_gradient(&self, gradient: &mut [f32]) {
                (**self).finish_gradient(gradient);
            }
        }
    )*};
}

layer_behind!(Box<T>, Arc<T>);

/// What one pass works with, the same for forward and backward.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// Samples in this chunk.
    pub samples: usize,
    /// Parameters of this layer.
    pub parameters: &'a [f32],
    /// What [`Layer::prepare`] made of them.
    pub prepared: &'a [f32],
    /// Randomness of this pass: `None` for estimates, where nothing is dropped.
    pub rng: Option<DropoutRng>,
}

/// Where a pass stands in training. Each random decision is a hash of this, of the layer and of
/// the sample, so that it depends neither on threads nor on chunks, and is the same in backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropoutRng {
    /// Seed of the training run.
    pub seed: u64,
    /// Number of the training step.
    pub step: u64,
    /// Number, within the batch, of the first sample of this chunk.
    pub first_sample: u64,
}

/// Input and output of the forward pass that backward answers.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The input.
    pub x: &'a [f32],
    /// The output.
    pub y: &'a [f32],
}

/// What a layer computes derivatives from, and where to.
#[derive(Debug)]
pub struct BackwardPass<'a> {
    /// Input and output of the forward pass.
    pub given: Given<'a>,
    /// ∂L/∂y; may be overwritten.
    pub dy: &'a mut [f32],
    /// Where ∂L/∂x is written, if it is wanted.
    pub dx: Option<&'a mut [f32]>,
    /// Where the gradient of the parameters is added.
    pub gradient: &'a mut [f32],
    /// Space of the layer.
    pub memory: Memory<'a>,
}

/// Memory lent to a pass, of at least the lengths that the layer asked for. Its first contents
/// are arbitrary.
#[derive(Debug)]
pub struct Memory<'a> {
    /// Kept from forward to backward.
    pub saved: &'a mut [f32],
    /// Free after each call.
    pub scratch: &'a mut [f32],
}

impl<'a> Pass<'a> {
    /// The pass of a part of this layer, with its share of the parameters.
    pub fn part(
        &self,
        parameters: std::ops::Range<usize>,
        prepared: std::ops::Range<usize>,
    ) -> Self {
        Pass {
            parameters: &self.parameters[parameters],
            prepared: &self.prepared[prepared],
            ..*self
        }
    }
}

/// Cuts slices of the given lengths off a longer one, one after the other.
///
/// ```
/// let mut memory = [1.0, 2.0, 3.0, 4.0];
/// let [first, second] = neural::carve(&mut memory, [1, 2]);
/// assert_eq!((first, second), (&mut [1.0][..], &mut [2.0, 3.0][..]));
/// ```
///
/// # Panics
/// If the lengths add up to more than there is.
pub fn carve<const N: usize>(memory: &mut [f32], lengths: [usize; N]) -> [&mut [f32]; N] {
    let mut rest = memory;
    lengths.map(|length| {
        let (cut, after) = std::mem::take(&mut rest).split_at_mut(length);
        rest = after;
        cut
    })
}
