//! Layers that `neural` does not have: maps of each node's own, and ways to put parts together.
//!
//! All take and give `[sample, node, channel]`, and know nothing of traffic.

pub(crate) mod gated;
pub(crate) mod interleave;
pub(crate) mod per_node;
pub(crate) mod sum;

pub(crate) use gated::Gated;
pub(crate) use interleave::{Interleave, PartLayout};
pub(crate) use per_node::PerNode;
pub(crate) use sum::Sum;

/// `to += from`, element by element.
fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

#[cfg(test)]
mod tests;
