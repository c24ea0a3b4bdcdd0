//! Layers that `neural` does not have: maps of each node's own, and ways to put parts together.
//!
//! All take and give `[sample, node, channel]`, and know nothing of traffic.

pub mod gated;
pub mod interleave;
pub mod per_node;
pub mod sum;

pub use gated::Gated;
pub use interleave::{Interleave, Spread};
pub use per_node::PerNode;
pub use sum::Sum;

/// `to += from`, element by element.
fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

#[cfg(test)]
mod tests;
