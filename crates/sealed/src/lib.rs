//! Secure products of one party's matrix with another party's vectors, and noise that is drawn once.
//!
//! ```text
//! values ► clipped, noised once, on a grid ► encrypted blocks ─► products that only one party can read
//!          noise                fixed_point   rlwe · ipfe · plain        product
//! ```
//!
//! 1. [`product`]: what the parties do, as traits without I/O: [`Host`], [`Guest`], [`Answerer`].
//! 2. [`fixed_point`]: real numbers as whole numbers whose products cannot overflow.
//! 3. [`rlwe`]: lattice encryption, the default; [`ipfe`]: functional encryption with a key authority, and [`keyed`]: as
//!    the rounds use it; [`plain`]: nothing hidden, for tests.
//! 4. [`masked_gradient`]: products of guests' values that one guest gets, and nobody else.
//! 5. [`noise`]: the discrete Gaussian, the (ε, δ) of noise drawn once, and vectors that carry theirs.
//! 6. [`committed`]: what holds a guest to the data that it has committed to. Opt-in.
//! 7. [`aggregate`]: sums over guests under masks that cancel.
//! 8. [`wire`]: every message as bounded, versioned bytes. [`random`]: where randomness comes from.
//!
//! ```
//! use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
//! use sealed::{Agreement, Answerer, BlockId, Grid, Guest, Host, Matrix};
//!
//! let grid = Grid::new(0.0, 100.0, 16384)?;
//! let agreement = Agreement { width: 3, grid, most_rows: 10, most_blocks: 10 };
//! let mut guest = RlweGuest::new(agreement, &KeySeed::from_os()?)?;
//! let mut host = RlweHost::new(agreement, &guest.public_key())?;
//!
//! // The guest's values, encrypted once; the host's matrix, which the guest does not see.
//! let upload = guest.upload(BlockId(7), &grid.levels_of(&[10.0, 20.0, 50.0])?)?;
//! let block = host.store(&upload)?;
//! let matrix = Matrix { rows: 2, blocks: &[block], values: &[1.0, 1.0, 1.0, 0.5, 0.0, -0.1] };
//! let question = host.ask(&matrix)?;
//! let products = host.open(&guest.answer(&question)?)?;
//! // To rounding of values to the grid (0.003) and of the matrix.
//! assert!((products[0] - 80.0).abs() < 0.02 && products[1].abs() < 0.02);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate knows nothing of traffic, of models, or of networks. What it hides, from whom and under which
//! assumptions is in docs/sealed.md, and so is what it does not hide: **exact products give the vectors
//! away** after enough of them, whatever the encryption. Encrypt noised vectors.

/// `Debug` that tells sizes alone: what a type holds must not get into a log.
macro_rules! debug_sizes {
    ($type:ty, |$it:ident| $($format:tt)+) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                write!(f, $($format)+)
            }
        }
    };
}
pub(crate) use debug_sizes;

pub mod aggregate;
pub mod committed;
pub mod fixed_point;
pub mod ipfe;
mod kernel;
pub mod keyed;
pub mod masked_gradient;
pub mod noise;
pub mod plain;
pub mod product;
pub mod random;
pub mod rlwe;
pub mod wire;

pub use fixed_point::Grid;
pub use masked_gradient::{MagnitudeBound, MaskedShare, PendingProducts, Scale};
pub use product::{
    Agreement, AnsweredBy, Answerer, BlockId, Coefficients, CoefficientsSize, Guest, Host, Matrix,
    SealedError,
};
pub use random::Randomness;
