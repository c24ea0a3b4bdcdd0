//! Layers over the links of a network, in the form of [`neural::Layer`].
//!
//! All take and give `[sample, node, channel]`, and know nothing of traffic.

mod dropout;
mod embedding;
mod gated;
mod interleave;
mod neighbours;
mod per_node;
mod residual;
mod sum;

pub use dropout::Dropout;
pub use embedding::Embedding;
pub use gated::Gated;
pub use interleave::{Interleave, Spread};
pub use neighbours::Neighbours;
pub use per_node::PerNode;
pub use residual::Residual;
pub use sum::Sum;

/// `to += from`, element by element.
fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

#[cfg(test)]
mod tests;
