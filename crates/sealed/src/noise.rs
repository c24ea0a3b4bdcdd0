//! Noise that is drawn once per datum, and what it promises.
//!
//! 1. [`DiscreteGaussian`]: whole numbers with probability ∝ exp(−k²/2σ²), exactly.
//! 2. [`accounting`]: which (ε, δ) a noise of σ gives, and which σ it takes.
//! 3. [`NoisedVector`]: a clipped vector with its noise, to be stored and never drawn again.

pub mod accounting;
mod gaussian;
mod noised;

pub use gaussian::{DiscreteGaussian, NoiseError};
pub use noised::{NoisedError, NoisedVector};
