//! Embeddings and gradients in fewer bytes, with a known loss.
//!
//! ```text
//! none  4 bytes a number, nothing is lost
//! f16   2 bytes: 11 significant bits, with one power of two for all numbers of a message
//! q8    1 byte: whole steps of max|x|/127, with a step for each column of a message
//! ```
//!
//! What [`Compression::pack`] returns are the numbers as the receiver will see them, so that a run in
//! memory and one over the network stay the same to the last bit.
//!
//! **Error feedback.** What 8 bits lose of a training sample is remembered and added when the same
//! sample is sent the next time ([`Feedback`]): the sum of what was sent follows the sum of what should
//! have been, to within half a step.

mod feedback;

use half::f16;
use serde::{Deserialize, Serialize};

use crate::message::parts::{PartError, Values};

pub use feedback::Feedback;

/// The largest code of 8 bits; −128 is not used, so that codes are symmetric.
pub(crate) const MAX_CODE: i8 = 127;
/// Exponents of the power of two in front of 16-bit numbers: with these every one of them is a number
/// of 32 bits.
pub(crate) const EXPONENTS: std::ops::RangeInclusive<i32> = -125..=113;
/// Where the largest number of a message lies among those of 16 bits, which end below 2^16.
const TOP: i32 = 14;

/// How embeddings and gradients cross. All parties must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// 16 bits a number.
    F16,
    /// 8 bits a number, with error feedback in training.
    Q8,
}

impl Compression {
    /// The name, as configurations and errors say it.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::F16 => "f16",
            Compression::Q8 => "q8",
        }
    }

    /// Numbers `[sample, width]` as the receiver will see them.
    pub fn pack(self, width: usize, numbers: Vec<f32>) -> Result<Values, PartError> {
        let values = Values::new(width, numbers)?;
        match self {
            Compression::None => Ok(values),
            Compression::F16 => {
                let exponent = exponent(values.as_slice());
                let half = |number: &f32| from_half(to_half(*number, exponent), exponent);
                let numbers = values.as_slice().iter().map(half).collect();
                Values::packed(width, numbers, Packing::F16 { exponent })
            }
            Compression::Q8 => {
                let steps = steps(width, values.as_slice());
                let rows = values.as_slice().chunks_exact(width);
                let numbers = rows.flat_map(|row| row.iter().zip(&steps));
                let numbers =
                    numbers.map(|(number, step)| from_code(to_code(*number, *step), *step));
                let numbers = numbers.collect();
                Values::packed(width, numbers, Packing::Q8 { steps })
            }
        }
    }
}

/// How the numbers of a message are packed. Nothing is lost by it: they are such numbers already.
#[derive(Clone, Debug, PartialEq)]
pub enum Packing {
    /// 32 bits each.
    F32,
    /// 16 bits each, times a power of two.
    F16 {
        /// Of the power of two; one of `EXPONENTS`.
        exponent: i32,
    },
    /// 8 bits each: multiples of a step.
    Q8 {
        /// For each column: 0, or a normal number.
        steps: Vec<f32>,
    },
}

impl Packing {
    /// Which compression leads to it.
    pub fn compression(&self) -> Compression {
        match self {
            Packing::F32 => Compression::None,
            Packing::F16 { .. } => Compression::F16,
            Packing::Q8 { .. } => Compression::Q8,
        }
    }

    /// Refuses a packing that nobody of us would have chosen.
    pub(crate) fn check(&self, width: usize) -> Result<(), PartError> {
        match self {
            Packing::F32 => Ok(()),
            Packing::F16 { exponent } if EXPONENTS.contains(exponent) => Ok(()),
            Packing::F16 { exponent } => {
                let expected = format!("{} to {}", EXPONENTS.start(), EXPONENTS.end());
                Err(PartError::new("exponent of numbers", exponent, expected))
            }
            Packing::Q8 { steps } if steps.len() != width => {
                Err(PartError::new("steps of numbers", steps.len(), width))
            }
            Packing::Q8 { steps } => {
                let sound = |step: &&f32| **step == 0.0 || step.is_normal() && **step > 0.0;
                match steps.iter().find(|step| !sound(step)) {
                    Some(step) => Err(PartError::new("steps of numbers", step, "0, or more")),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The exponent that brings the largest of some numbers to [`TOP`].
fn exponent(numbers: &[f32]) -> i32 {
    let most = numbers.iter().fold(0f32, |most, number| most.max(number.abs()));
    if most == 0.0 {
        return 0;
    }
    let magnitude = (most.to_bits() >> 23) as i32 - 127;
    (magnitude - TOP).clamp(*EXPONENTS.start(), *EXPONENTS.end())
}

/// The 16 bits of a number.
pub(crate) fn to_half(number: f32, exponent: i32) -> u16 {
    f16::from_f32(number * power_of_two(-exponent)).to_bits()
}

/// The number of 16 bits.
pub(crate) fn from_half(bits: u16, exponent: i32) -> f32 {
    f16::from_bits(bits).to_f32() * power_of_two(exponent)
}

/// Exactly; for exponents of normal numbers.
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}

/// For each column the step by which its largest number is [`MAX_CODE`].
fn steps(width: usize, numbers: &[f32]) -> Vec<f32> {
    let mut most = vec![0f32; width];
    for row in numbers.chunks_exact(width) {
        most.iter_mut().zip(row).for_each(|(most, number)| *most = most.max(number.abs()));
    }
    let step = |most: f32| match most {
        0.0 => 0.0,
        // A step too small to be divided by would lose more than half of itself.
        _ => (most / f32::from(MAX_CODE)).max(f32::MIN_POSITIVE),
    };
    most.into_iter().map(step).collect()
}

/// The nearest multiple of a step.
pub(crate) fn to_code(number: f32, step: f32) -> i8 {
    if step == 0.0 {
        return 0;
    }
    let most = f32::from(MAX_CODE);
    (number / step).round().clamp(-most, most) as i8
}

/// A multiple of a step.
pub(crate) fn from_code(code: i8, step: f32) -> f32 {
    f32::from(code) * step
}

#[cfg(test)]
mod tests;
