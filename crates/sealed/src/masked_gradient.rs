//! Products of guests' values that one guest is to get, and nobody else.
//!
//! ```text
//!  owner (values u_j)                    host (coefficients D_j, new each exchange)        recipient
//!    │ ◄─────── coefficients D_j, encrypted       by a key of the host's, for this request alone
//!    │ reply: D_j·u_j + r_j under that key,
//!    │        and r_j's seed for the recipient ─►  accept: reads D_j·u_j + r_j, which is uniform
//!    │                                         gradient: Σ_j (D_j·u_j + r_j) + c, seeds ─────────►  take: Σ_j D_j·u_j + c
//! ```
//!
//! A guest contributes to its own gradient, too: of its own mask it needs no seed.
//!
//! All parts of a masked gradient are whole numbers in units of one power of two, the [`Scale`], modulo a prime below 2^40. What
//! keeps their sum from overflowing is the [`MagnitudeBound`] of all parts together.

use zeroize::Zeroize;

use crate::fixed_point::FixedPointError;
use crate::product::{Agreement, Coefficients, SealedError, misuse};
use crate::rlwe::message::{LEAST_SCALE, MOST_SCALE, Sealed};
use crate::rlwe::ring::Poly;
use crate::rlwe::slots::SLOT_LIMIT;

/// What the products of a masked gradient are in units of: 2^−scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale(pub(crate) i32);

/// How large the products of a masked gradient, or of a part of it, can become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MagnitudeBound {
    /// The largest product.
    largest: f64,
    /// What rounding can add to it, in units.
    rounding: f64,
}

impl MagnitudeBound {
    /// That of one guest's part.
    pub fn of(agreement: &Agreement, part: &Coefficients<'_>) -> Result<Self, SealedError> {
        let grid = agreement.grid;
        let reach = grid.step() * f64::from(grid.levels()) + grid.centre().abs();
        let rows = part.values.chunks_exact(part.terms.max(1));
        let norms = rows.map(|row| row.iter().map(|d| d.abs()).sum::<f64>());
        let largest = finite("coefficient of a masked gradient", part.values, norms)? * reach;
        // Rounding costs levels/2 per weight, and 1/2 for what the middle of the grid adds.
        let rounding = (part.terms as i64 * i64::from(grid.levels())) / 2 + 1;
        Ok(Self { largest, rounding: rounding as f64 })
    }

    /// That of what the host adds.
    pub fn of_offsets(offsets: &[f64]) -> Result<Self, SealedError> {
        let sizes = offsets.iter().map(|offset| offset.abs());
        Ok(Self { largest: finite("offset of a masked gradient", offsets, sizes)?, rounding: 1.0 })
    }

    /// That of both together.
    pub fn and(self, other: Self) -> Self {
        let (largest, rounding) = (self.largest + other.largest, self.rounding + other.rounding);
        Self { largest, rounding }
    }

    /// The largest scale by which no product overflows. The recipient must know it, so it is a power of two, and says no
    /// more of the coefficients than the order of their largest row.
    pub fn scale(&self) -> Result<Scale, SealedError> {
        let too_large = || {
            misuse(
                "products of a masked gradient",
                format!("a row of size {}", self.largest),
                "less",
            )
        };
        let room = SLOT_LIMIT as f64 - self.rounding;
        if room < 1.0 {
            return Err(too_large());
        }
        let scale = libm::floor(libm::log2(room) - libm::log2(self.largest) - 1e-9);
        if scale < f64::from(LEAST_SCALE) {
            return Err(too_large());
        }
        Ok(Scale(scale.min(f64::from(MOST_SCALE)) as i32))
    }

    /// Refuses a scale by which this could overflow.
    pub(crate) fn check(&self, scale: Scale) -> Result<(), SealedError> {
        let most = self.scale()?;
        if scale > most || scale < Scale(LEAST_SCALE) {
            let expected = format!("{LEAST_SCALE} to {}", most.0);
            return Err(misuse("scale of a masked gradient", scale.0, expected));
        }
        Ok(())
    }
}

/// The largest of some sizes of finite numbers; never 0.
fn finite(
    what: &'static str,
    numbers: &[f64],
    sizes: impl Iterator<Item = f64>,
) -> Result<f64, SealedError> {
    if let Some(&found) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(FixedPointError::NotFinite { what, found }.into());
    }
    Ok(sizes.fold(f64::MIN_POSITIVE, f64::max))
}

/// What the host keeps of encrypted coefficients until the masked products arrive. Erased when dropped.
pub struct PendingProducts {
    /// Random: a reply of another request has another.
    pub(crate) exchange: u64,
    pub(crate) products: usize,
    /// Whether the owner is the recipient: then nobody else needs to know its mask.
    pub(crate) own: bool,
    pub(crate) kept: ProductSecrets,
}

pub(crate) enum ProductSecrets {
    Plain,
    Lattice {
        /// The key of this request, modulo the first prime.
        key: Poly,
        /// What is to be added to each product: the middle of the grid times the coefficients.
        corrections: Vec<f64>,
    },
}

/// What a owner has made of encrypted coefficients, as the host has it: masked by numbers that only owner and recipient know.
pub struct MaskedShare {
    pub(crate) exchange: u64,
    pub(crate) own: bool,
    pub(crate) numbers: Numbers,
}

pub(crate) enum Numbers {
    Plain(Vec<f64>),
    Lattice {
        masked: Vec<f64>,
        /// The seed of the mask, encrypted for the recipient; none if that is the owner itself.
        seed: Option<Sealed>,
    },
}

impl MaskedShare {
    /// How many products.
    pub(crate) fn products(&self) -> usize {
        match &self.numbers {
            Numbers::Plain(products) => products.len(),
            Numbers::Lattice { masked, .. } => masked.len(),
        }
    }
}

impl Drop for PendingProducts {
    fn drop(&mut self) {
        if let ProductSecrets::Lattice { corrections, .. } = &mut self.kept {
            corrections.zeroize();
        }
    }
}

impl Drop for MaskedShare {
    fn drop(&mut self) {
        match &mut self.numbers {
            Numbers::Plain(products) => products.zeroize(),
            Numbers::Lattice { masked, .. } => masked.zeroize(),
        }
    }
}

crate::debug_sizes!(PendingProducts, |it| "PendingProducts({} products, …)", it.products);

crate::debug_sizes!(MaskedShare, |it| "MaskedShare({} products, …)", it.products());
