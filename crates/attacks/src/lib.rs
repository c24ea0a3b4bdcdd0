//! What an adversary recovers from what parties send each other, measured.
//!
//! Each attack takes plain arrays: what the adversary sees, and, to judge it by, what it must not learn. Each is
//! compared with the trivial guess, which needs no messages at all.
//!
//! 1. [`least_squares`]: a host that collects products A·u over rounds solves for u.
//! 2. [`lattice`]: with fewer products than values it still finds them, if they are whole numbers of a few bits.
//! 3. [`decoder`]: embeddings back to features, and gradients to labels, by a trained network.
//! 4. [`membership`]: was this vehicle among the data? A lower bound of ε, with its confidence.
//!
//! This crate knows nothing of networks between computers, nor of files.

pub mod decoder;
pub mod lattice;
pub mod least_squares;
pub mod linear;
pub mod membership;
mod mode;
mod recovery;
mod sealed_batch;

pub use mode::Mode;
pub use recovery::Recovery;
pub use sealed_batch::SealedBatch;
