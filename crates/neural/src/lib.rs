//! Layers with explicit forward and backward, and what is needed to train them.
//!
//! 1. [`Layer`]: what a layer or model does with a chunk of samples. One file for each:
//!    [`Linear`], [`TemporalConv`], [`ChebConv`], [`MessagePassing`], [`NodeEmbedding`],
//!    [`LayerNorm`], [`Activate`], [`Dropout`], [`PartyDropout`].
//! 2. [`Chain`], [`Residual`], [`Fusion`]: layers after, around and beside each other. [`stgcn()`] and [`head()`]: the
//!    paper's models.
//! 3. [`Learner`]: runs a model over a batch, chunk by chunk, on all threads, with the same bits
//!    whatever their number.
//! 4. [`Squared`] and [`Huber`] losses; [`Adam`] and [`Sgd`] with a [`Schedule`], [`clip_norm`] and
//!    an [`Average`] of the weights.
//! 5. [`Checkpoint`]: weights, optimiser state and scalers as safetensors.
//!
//! All activations are f32, `[sample, time, node, channel]`; parameters and gradients are flat
//! vectors with a [`Layout`]. All dense layers share one matrix [`Product`]. This crate knows
//! nothing of traffic, nor of networks of computers.

pub mod activation;
pub mod average;
pub mod chain;
pub mod chebyshev;
#[doc(hidden)]
pub mod check;
pub mod dropout;
pub mod embedding;
pub mod fusion;
pub mod gemm;
mod kernel;
pub mod layer;
pub mod layout;
pub mod learner;
pub mod linear;
pub mod loss;
pub mod messages;
pub mod norm;
pub mod optimiser;
pub mod party;
pub mod random;
pub mod residual;
pub mod schedule;
pub mod sparse;
pub mod stgcn;
pub mod store;
pub mod temporal;
mod vector;
mod winograd;

pub use activation::{Activate, Activation};
pub use average::Average;
pub use chain::Chain;
pub use chebyshev::{ChebConv, ChebShape, SMALL_NODES, scaled_laplacian};
pub use dropout::Dropout;
pub use embedding::NodeEmbedding;
pub use fusion::Fusion;
pub use gemm::{Product, Start};
pub use layer::{BackwardPass, DropoutRng, Given, Layer, Memory, Pass, carve};
pub use layout::{Layout, Parameter};
pub use learner::{Learner, OneSample, ParametersError, Plan, PulledBack};
pub use linear::Linear;
pub use loss::{Huber, Loss, Squared};
pub use messages::{MessagePassing, MessageShape};
pub use norm::LayerNorm;
pub use optimiser::{Adam, Decay, Optimiser, Sgd, clip_norm};
pub use party::PartyDropout;
pub use random::{Draw, hash, unit};
pub use residual::Residual;
pub use schedule::Schedule;
pub use sparse::{Sparse, SparseError};
pub use stgcn::{StgcnError, StgcnShape, head, stgcn};
pub use store::{Checkpoint, CheckpointError};
pub use temporal::{TemporalConv, TemporalShape};
