//! Products of one guest's values that another guest is to get, and nobody else.
//!
//! ```text
//!  lender (u_j)                        host                                     taker (u_k)
//!    │ ◄──────── lend: D_j·u_j + r_j      r_j uniform, known to the host alone
//!    │ relay: the same, encrypted ───►    accept: it cannot read it
//!    │        for the taker
//!    │                                    grant_with ─────────────────────────►   take: D_k·u_k + c + Σ_j D_j·u_j
//! ```
//!
//! All parts of a grant are whole numbers in units of one power of two, the [`Scale`], modulo 2^40. What keeps their
//! sum from overflowing is the [`Reach`] of all parts together.

use std::fmt;

use zeroize::Zeroize;

use crate::fixed_point::FixedPointError;
use crate::product::{Agreement, BlockProducts, SealedError, misuse};
use crate::rlwe::message::{LEAST_SCALE, MOST_SCALE, Sealed};
use crate::rlwe::ring::{PLAIN_LIMIT, WEIGHT_LIMIT};

/// What the products of a grant are in units of: 2^−scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale(pub(crate) i32);

/// How large the products of a grant, or of a part of it, can become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// The largest product.
    largest: f64,
    /// What rounding can add to it, in units.
    rounding: f64,
    /// The largest sum of a row's weights, as a share of what a row may have, at a scale of 0.
    weights: f64,
}

impl Reach {
    /// That of one guest's part.
    pub fn of(agreement: &Agreement, products: &BlockProducts<'_>) -> Result<Self, SealedError> {
        let Agreement { width, grid, .. } = *agreement;
        let mut all = products.coefficients.iter().chain(products.offsets);
        if let Some(&found) = all.find(|x| !x.is_finite()) {
            return Err(FixedPointError::NotFinite { what: "block product", found }.into());
        }
        let reach = grid.step() * f64::from(grid.levels()) + grid.centre().abs();
        let rows = products.coefficients.chunks_exact(width).zip(products.offsets);
        let (mut largest_norm, mut largest) = (f64::MIN_POSITIVE, f64::MIN_POSITIVE);
        for (row, offset) in rows {
            let norm: f64 = row.iter().map(|d| d.abs()).sum();
            largest_norm = largest_norm.max(norm * grid.step());
            largest = largest.max(norm * reach + offset.abs());
        }
        // Rounding costs levels/2 per weight and 1/2 for the offset; weights have a limit of their own.
        let rounding = (width as i64 * i64::from(grid.levels())) / 2 + 2;
        let weights = largest_norm / (WEIGHT_LIMIT - width as i64) as f64;
        Ok(Self { largest, rounding: rounding as f64, weights })
    }

    /// That of both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            largest: self.largest + other.largest,
            rounding: self.rounding + other.rounding,
            weights: self.weights.max(other.weights),
        }
    }

    /// The largest scale by which no product overflows. The taker must know it, so it is a power of two, and says no
    /// more of the coefficients than the order of their largest row.
    pub fn scale(&self) -> Result<Scale, SealedError> {
        let too_large =
            || misuse("block products", format!("a row of size {}", self.largest), "less");
        let room = PLAIN_LIMIT as f64 - self.rounding;
        if room < 1.0 {
            return Err(too_large());
        }
        let bits = libm::log2(room) - libm::log2(self.largest);
        let scale = libm::floor(bits.min(-libm::log2(self.weights)) - 1e-9);
        if scale < f64::from(LEAST_SCALE) {
            return Err(too_large());
        }
        Ok(Scale(scale.min(f64::from(MOST_SCALE)) as i32))
    }
}

/// Refuses a part that could overflow at a scale.
pub(crate) fn check_scale(
    agreement: &Agreement,
    products: &BlockProducts<'_>,
    scale: Scale,
) -> Result<(), SealedError> {
    let most = Reach::of(agreement, products)?.scale()?;
    if scale > most || scale < Scale(LEAST_SCALE) {
        return Err(misuse("scale of a grant", scale.0, format!("{LEAST_SCALE} to {}", most.0)));
    }
    Ok(())
}

/// What the host keeps of a loan until it is relayed. Erased when dropped.
pub struct Loan {
    /// Random: a relay of another loan has another.
    pub(crate) exchange: u64,
    pub(crate) rows: usize,
    /// What is to be added to each number that was lent, modulo 2^40: the mask goes, the middle of the grid comes.
    pub(crate) corrections: Vec<u64>,
}

/// What a lender has made of a loan, as the host can use it: encrypted for the taker.
pub struct Lent(pub(crate) Numbers);

pub(crate) enum Numbers {
    Plain(Vec<f64>),
    Lattice { corrections: Vec<u64>, polys: Vec<Sealed> },
}

impl Lent {
    /// How many products.
    pub(crate) fn rows(&self) -> usize {
        match &self.0 {
            Numbers::Plain(products) => products.len(),
            Numbers::Lattice { corrections, .. } => corrections.len(),
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.corrections.zeroize();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        match &mut self.0 {
            Numbers::Plain(products) => products.zeroize(),
            Numbers::Lattice { corrections, .. } => corrections.zeroize(),
        }
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan({} rows, …)", self.rows)
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} rows, …)", self.rows())
    }
}
