//! Arithmetic modulo primes just below 2^50, on whole numbers in `f64`.
//!
//! Residues are *balanced*: |x| ≤ p/2 after [`Modulus::reduce`]. In between they may grow, as long as they
//! stay whole numbers below 2^53. A product x·y of up to 102 bits is split exactly into its rounded value h
//! and the error l = x·y − h (one fused multiplication); with q the nearest whole number to x·y/p, both
//! h − q·p and (h − q·p) + l are whole numbers below 2^53, so they are exact.
//!
//! Bounds, with p < 2^50 and |x·y|/p < 2^51: q is off by at most ½ + ¼, so |x·y mod p| ≤ 0.76 p.
//!
//! No branches and no table lookups: the time does not depend on the values.

use crate::kernel::{Lanes, ROUND, rest};

/// A prime modulus below 2^50.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Modulus {
    value: f64,
    inverse: f64,
}

/// A fixed factor, with its quotient by the modulus.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Factor {
    /// The balanced residue.
    pub(crate) value: f64,
    /// The residue divided by the modulus.
    pub(crate) quotient: f64,
}

impl Modulus {
    /// The modulus; `prime` must be odd and below 2^50.
    pub(crate) const fn new(prime: u64) -> Self {
        Self { value: prime as f64, inverse: 1.0 / prime as f64 }
    }

    /// The modulus as a whole number.
    #[inline(always)]
    pub(crate) fn get(self) -> u64 {
        self.value as u64
    }

    /// The balanced residue of x, |x| ≤ 2^53.
    #[inline(always)]
    pub(crate) fn reduce(self, x: f64) -> f64 {
        // q·p with |q| ≤ 8 has at most 53 bits, so this is exact without fusing.
        let q = (x * self.inverse + ROUND) - ROUND;
        x - q * self.value
    }

    /// The residue of x in 0..p, |x| ≤ 2^53.
    #[inline(always)]
    pub(crate) fn canonical(self, x: f64) -> u64 {
        let r = self.reduce(x) as i64;
        (r + ((r >> 63) & self.value as i64)) as u64
    }

    /// The balanced residue of x·y, with |x·y| < 2^51·p.
    #[inline(always)]
    pub(crate) fn multiply(self, x: f64, y: f64) -> f64 {
        let q = (x * y * self.inverse + ROUND) - ROUND;
        self.reduce(rest(x, y, q, self.value))
    }

    /// A fixed factor from any residue in 0..p.
    pub(crate) fn factor(self, residue: u64) -> Factor {
        let value = self.reduce(residue as f64);
        Factor { value, quotient: value * self.inverse }
    }

    /// base^exponent; for tables of public constants only, its time depends on the exponent.
    pub(crate) fn power(self, base: u64, mut exponent: u64) -> u64 {
        let p = u128::from(self.get());
        let (mut square, mut result) = (u128::from(base) % p, 1u128);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result * square % p;
            }
            square = square * square % p;
            exponent >>= 1;
        }
        result as u64
    }

    /// The inverse of a residue that is not 0.
    pub(crate) fn inverse_of(self, residue: u64) -> u64 {
        self.power(residue, self.get() - 2)
    }

    /// The same for eight residues at once.
    #[inline(always)]
    pub(crate) fn lanes<L: Lanes>(self) -> LaneModulus<L> {
        LaneModulus { value: L::splat(self.value), inverse: L::splat(self.inverse) }
    }
}

/// A modulus in all lanes.
#[derive(Clone, Copy)]
pub(crate) struct LaneModulus<L> {
    value: L,
    inverse: L,
}

impl<L: Lanes> LaneModulus<L> {
    /// Balanced residues of x, |x| ≤ 2^53.
    #[inline(always)]
    pub(crate) fn reduce(self, x: L) -> L {
        x.minus_product(x.nearest_product(self.inverse), self.value)
    }

    /// x·y to within 0.76 p, with |x·y| < 2^51·p.
    #[inline(always)]
    pub(crate) fn multiply(self, x: L, y: L) -> L {
        let q = x.mul(y).nearest_product(self.inverse);
        x.rest(y, q, self.value)
    }

    /// x·w to within 0.76 p for a fixed factor, given with its quotient; |x·w| < 2^51·p.
    #[inline(always)]
    pub(crate) fn multiply_by(self, x: L, w: L, quotient: L) -> L {
        x.rest(w, x.nearest_product(quotient), self.value)
    }
}
