//! The roots of unity of a transform, in the order in which its layers use them.

use super::super::residue::{Factor, Modulus};
use super::{BLOCKS, DEGREE};
use crate::kernel::LANES;

/// See the text at the head of this file.
#[derive(Debug)]
pub(super) struct Roots {
    /// Group i of the layer with g groups uses `wide[g + i]`.
    pub(super) wide: Vec<Factor>,
    /// For each block of 64 the 1 + 2 + 4 lanes of the last three layers.
    pub(super) narrow: Vec<[Narrow; 7]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow {
    pub(super) values: [f64; LANES],
    pub(super) quotients: [f64; LANES],
}

impl Roots {
    /// The roots of the layers with `groups` and 2·`groups` groups, in one of `parts` parts of the polynomial.
    #[inline(always)]
    pub(super) fn layers(
        &self,
        groups: usize,
        part: usize,
        parts: usize,
    ) -> (&[Factor], &[[Factor; 2]]) {
        let each = groups / parts;
        let first = &self.wide[groups + part * each..][..each];
        let second = &self.wide[2 * (groups + part * each)..][..2 * each];
        (first, second.as_chunks::<2>().0)
    }

    pub(super) fn new(modulus: Modulus, psi: u64) -> Self {
        let p = u128::from(modulus.get());
        let mut powers = vec![1u64; DEGREE];
        for i in 1..DEGREE {
            powers[i] = (u128::from(powers[i - 1]) * u128::from(psi) % p) as u64;
        }
        let bits = DEGREE.trailing_zeros();
        let reversed = |i: usize| powers[i.reverse_bits() >> (usize::BITS - bits)];
        let all: Vec<Factor> = (0..DEGREE).map(|i| modulus.factor(reversed(i))).collect();
        let narrow = (0..BLOCKS)
            .map(|block| {
                let lanes = |groups: usize, part: usize, parts: usize| {
                    let of = |l: usize| all[groups + (block * LANES + l) * parts + part];
                    Narrow {
                        values: std::array::from_fn(|l| of(l).value),
                        quotients: std::array::from_fn(|l| of(l).quotient),
                    }
                };
                let [four, two, one] = [DEGREE / 8, DEGREE / 4, DEGREE / 2];
                [
                    lanes(four, 0, 1),
                    lanes(two, 0, 2),
                    lanes(two, 1, 2),
                    lanes(one, 0, 4),
                    lanes(one, 1, 4),
                    lanes(one, 2, 4),
                    lanes(one, 3, 4),
                ]
            })
            .collect();
        Self { wide: all[..DEGREE / LANES].to_vec(), narrow }
    }
}
