//! Secure products of one party's matrix with another party's vectors, and noise that is drawn once.
mod kernel;
pub mod fixed_point;
pub mod product;
pub mod random;
pub mod rlwe;
pub mod wire;
