//! Real numbers as words whose sums cannot wrap around.

use super::{AggregateError, MOST_GUESTS};

/// The most steps of a value. 64 times as many, with a sign, fit a word with room to spare.
const MOST_STEPS: f64 = (1u64 << 56) as f64;
const _: () = assert!(MOST_GUESTS as u64 * (1 << 56) < 1 << 63);

/// Numbers within a bound as multiples of 2^-`fraction_bits`, in two's complement modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedPoint {
    bound: f64,
    /// Steps of 1: a power of two, so that scaling is exact.
    scale: f64,
}

impl FixedPoint {
    /// Refuses what sums of [`MOST_GUESTS`] values could leave.
    pub fn new(bound: f64, fraction_bits: u32) -> Result<Self, AggregateError> {
        // Powers of two up to 2^1023 are exact.
        let scale = 2f64.powi(fraction_bits.min(1023) as i32);
        if (1.0..=MOST_STEPS).contains(&(bound * scale)) {
            Ok(Self { bound, scale })
        } else {
            Err(AggregateError::FixedPoint { bound, fraction_bits })
        }
    }

    /// The nearest multiples, one word each.
    pub fn encode(&self, values: &[f64]) -> Result<Vec<u64>, AggregateError> {
        let word = |(place, &found): (usize, &f64)| {
            // Of what is no number, no comparison holds.
            if found.abs() <= self.bound {
                Ok((found * self.scale).round() as i64 as u64)
            } else {
                Err(AggregateError::Value { place, found, bound: self.bound })
            }
        };
        values.iter().enumerate().map(word).collect()
    }

    /// Sums over so many guests as numbers, rounded to the nearest `f64`. Masks that do not cancel leave random words, of which
    /// nearly all are beyond the bound.
    pub fn decode(&self, guests: usize, sums: &[u64]) -> Result<Vec<f64>, AggregateError> {
        if !(1..=MOST_GUESTS).contains(&guests) {
            return Err(AggregateError::Guests { found: guests });
        }
        let most = guests as i64 * (self.bound * self.scale).ceil() as i64;
        let value = |(place, &word): (usize, &u64)| {
            let steps = word as i64;
            if steps.unsigned_abs() <= most as u64 {
                Ok(steps as f64 / self.scale)
            } else {
                let (found, most) = (steps as f64 / self.scale, most as f64 / self.scale);
                Err(AggregateError::Sum { place, found, most })
            }
        };
        sums.iter().enumerate().map(value).collect()
    }
}
