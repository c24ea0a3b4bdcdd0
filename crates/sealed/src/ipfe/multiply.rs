//! Σ w_j·P_j for small whole weights, by buckets (Pippenger).
//!
//! The time depends on the weights: they are the host's own, on its own machine.

use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::traits::Identity;

/// Bits per digit: 32 buckets, which some thousand points fill well.
const WINDOW: u32 = 6;
const HALF: i64 = 1 << (WINDOW - 1);

pub(super) fn weighted_sum(weights: &[i32], points: &[RistrettoPoint]) -> RistrettoPoint {
    let largest = weights.iter().map(|weight| weight.unsigned_abs()).max().unwrap_or(0);
    // Two bits more, for the carry of signed digits: n of them, from −32 to 31, reach no further than 31/63 of 64^n.
    let bits = u32::BITS - largest.leading_zeros() + 2;
    let mut sum = RistrettoPoint::identity();
    for window in (0..bits.div_ceil(WINDOW)).rev() {
        for _ in 0..WINDOW {
            sum = sum + sum;
        }
        sum += one_digit(weights, points, window);
    }
    sum
}

/// Σ d_j·P_j for the digits at one place.
fn one_digit(weights: &[i32], points: &[RistrettoPoint], window: u32) -> RistrettoPoint {
    let mut buckets: [Option<RistrettoPoint>; HALF as usize] = [None; HALF as usize];
    for (&weight, point) in weights.iter().zip(points) {
        let digit = digit(weight.into(), window);
        let Some(place) = (digit.unsigned_abs() as usize).checked_sub(1) else { continue };
        let signed = if digit < 0 { -point } else { *point };
        buckets[place] = Some(buckets[place].map_or(signed, |held| held + signed));
    }
    // Σ k·bucket_k, as a sum of running sums.
    let (mut running, mut sum) = (RistrettoPoint::identity(), RistrettoPoint::identity());
    for bucket in buckets.into_iter().rev() {
        if let Some(bucket) = bucket {
            running += bucket;
        }
        sum += running;
    }
    sum
}

/// The digit in −32..32 of a number at a place of base 64.
fn digit(weight: i64, window: u32) -> i64 {
    // Adding a half at all places below makes plain digits of signed ones.
    let halves: i64 = (0..=window).map(|place| HALF << (WINDOW * place)).sum();
    (((weight + halves) >> (WINDOW * window)) & (2 * HALF - 1)) - HALF
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::traits::MultiscalarMul;

    use super::*;
    use crate::ipfe::{random_scalar, small_scalar};
    use crate::random::Randomness;

    #[test]
    fn equals_the_general_product() {
        let mut random = Randomness::insecure_from_seed(1);
        for (count, bits) in [(1, 1), (3, 7), (40, 12), (40, 30)] {
            let points: Vec<_> =
                (0..count).map(|_| RistrettoPoint::mul_base(&random_scalar(&mut random))).collect();
            let mut weights: Vec<i32> =
                (0..count).map(|_| random.below(2 << bits) as i32 - (1 << bits)).collect();
            weights[0] = -(1 << bits);
            let scalars = weights.iter().map(|&weight| small_scalar(weight.into()));
            let expected = RistrettoPoint::multiscalar_mul(scalars, &points);
            assert_eq!(weighted_sum(&weights, &points), expected, "{count} points, {bits} bits");
        }
        assert_eq!(weighted_sum(&[], &[]), RistrettoPoint::identity());
    }

    /// The first and the last weights of each number of bits, alone and as the largest.
    #[test]
    fn no_carry_is_lost() {
        let one = RistrettoPoint::mul_base(&small_scalar(1));
        for bits in 0..=30 {
            let (first, last) = (1i32 << bits, i32::try_from((1i64 << (bits + 1)) - 1));
            let last = last.unwrap_or(i32::MAX).min(1 << 30);
            for weight in [first, first + first / 2, last - last / 64, last - 1, last] {
                for weight in [weight, -weight] {
                    let sum = weighted_sum(&[weight, 1], &[one, one]);
                    let expected = RistrettoPoint::mul_base(&small_scalar(i64::from(weight) + 1));
                    assert_eq!(sum, expected, "{weight}");
                }
            }
        }
    }

    #[test]
    fn digits_make_the_number() {
        for weight in [0, 1, -1, 31, 32, 33, -32, -33, 4095, -4096, 1 << 30, -(1 << 30)] {
            let sum: i64 = (0..6).map(|place| digit(weight, place) << (WINDOW * place)).sum();
            assert_eq!(sum, weight);
        }
    }
}
