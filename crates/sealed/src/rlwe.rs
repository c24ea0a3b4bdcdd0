//! Secure products by lattice encryption (ring learning with errors), the default.
//!
//! See docs/sealed.md for the protocol, its parameters and what it hides.
//!
//! 1. `residue`, `transform`, `ring`: arithmetic modulo q and X^8192 + 1.
//! 2. `codec`, [`message`]: ciphertexts as bytes.
//! 3. [`RlweGuest`] encrypts and decrypts; [`RlweHost`] multiplies and hides.
//! 4. `slots`, `masked_gradient`: the mirror, in which the host encrypts and the guest multiplies.
//!
//! # Packing
//!
//! A block u is the polynomial Σ u_j X^j, j < width. Row i of a host's rows takes the places i·width to
//! i·width + width − 1 of the polynomial of weights, backwards; then the coefficient of X^(i·width + width − 1)
//! in the product is Σ_j w_j u_j: a weight of another row would have to be moved by `width` places or more to
//! get there, and u moves it by less. So one product of polynomials does ⌊8192/width⌋ rows.

mod accumulate;
pub(crate) mod codec;
mod encrypt;
mod guest;
mod hiding;
mod host;
mod masked_gradient;
pub mod message;
pub(crate) mod residue;
pub(crate) mod ring;
mod scratch;
pub(crate) mod slots;
pub(crate) mod transform;

pub use guest::{KeySeed, RlweGuest};
pub use host::{AppliedRow, RlweHost};

use transform::DEGREE;

/// How many rows one polynomial holds, for blocks of this width (1 to 8192).
pub(crate) fn rows_per_poly(width: usize) -> usize {
    DEGREE / width.clamp(1, DEGREE)
}

/// The coefficients that hold the products of so many rows.
pub(crate) fn row_places(width: usize, rows: usize) -> impl Iterator<Item = usize> {
    (0..rows.min(rows_per_poly(width))).map(move |row| row * width + width - 1)
}

#[cfg(test)]
mod hiding_tests;
#[cfg(test)]
mod masked_gradient_tests;
#[cfg(test)]
mod tests;
