//! What messages are made of. Each part is checked when it is made, so that a message that exists
//! is within bounds.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{Step, Window};

use super::measurements::MAX_FOLDS;
use crate::compression::Packing;

/// Longest text in a message, in bytes.
pub(crate) const MAX_TEXT: usize = 512;
/// Most numbers in an embedding or gradient: 16 MiB.
pub const MAX_VALUES: usize = 1 << 22;
/// Most samples that are asked for at once.
pub const MAX_STEPS: usize = 4096;
/// Most ranges of steps that a guest announces.
pub(crate) const MAX_RANGES: usize = 4096;
/// Steps are numbered within ± this.
pub const MAX_STEP: i64 = 1 << 40;
/// Most checkpoints that a guest announces.
pub const MAX_CHECKPOINTS: usize = 8;
/// The most training exchanges of a run: more than could ever be done, few enough to count with.
pub(crate) const MAX_EXCHANGES: u64 = 1 << 40;

/// A part of a message that is out of bounds.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{field}: found {found}, expected {expected}")]
pub struct PartError {
    /// Which part.
    pub field: &'static str,
    /// What it holds.
    pub found: String,
    /// What it may hold.
    pub expected: String,
}

impl PartError {
    /// From anything that can be shown.
    pub fn new(field: &'static str, found: impl ToString, expected: impl ToString) -> Self {
        Self { field, found: found.to_string(), expected: expected.to_string() }
    }
}

/// A short text for people, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text(String);

impl Text {
    /// Of our own words: too long ones are cut, control characters become spaces.
    pub fn of(words: impl fmt::Display) -> Self {
        let mut text = String::new();
        for c in words.to_string().chars() {
            if text.len() + c.len_utf8() > MAX_TEXT {
                break;
            }
            text.push(if c.is_control() { ' ' } else { c });
        }
        Self(text)
    }

    /// Of a peer's words.
    pub fn parse(words: String) -> Result<Self, PartError> {
        if words.len() > MAX_TEXT {
            return Err(PartError::new("text", words.len(), format!("at most {MAX_TEXT} bytes")));
        }
        if words.chars().any(char::is_control) {
            return Err(PartError::new("text", "a control character", "none"));
        }
        Ok(Self(words))
    }

    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Text {
    type Error = PartError;
    fn try_from(words: String) -> Result<Self, PartError> {
        Self::parse(words)
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Steps from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRange {
    /// The first.
    pub first: i64,
    /// The last.
    pub last: i64,
}

/// The samples that a guest can embed, by the last step of their windows: ranges in order and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<StepRange>", into = "Vec<StepRange>")]
pub struct HeldSteps(Vec<StepRange>);

impl HeldSteps {
    /// Checks ranges.
    pub fn new(ranges: Vec<StepRange>) -> Result<Self, PartError> {
        if ranges.len() > MAX_RANGES {
            let expected = format!("at most {MAX_RANGES} ranges");
            return Err(PartError::new("steps held", ranges.len(), expected));
        }
        let mut end = -MAX_STEP - 1;
        for &StepRange { first, last } in &ranges {
            if first <= end || last < first || last > MAX_STEP {
                let found = format!("{first} to {last}");
                let expected = format!("ranges within ±{MAX_STEP}, in order and apart");
                return Err(PartError::new("steps held", found, expected));
            }
            end = last;
        }
        Ok(Self(ranges))
    }

    /// From steps in order.
    pub fn of(steps: impl IntoIterator<Item = Step>) -> Result<Self, PartError> {
        let mut ranges: Vec<StepRange> = Vec::new();
        for Step(step) in steps {
            match ranges.last_mut() {
                Some(range) if step == range.last.saturating_add(1) => range.last = step,
                _ => ranges.push(StepRange { first: step, last: step }),
            }
        }
        Self::new(ranges)
    }

    /// The ranges.
    pub fn ranges(&self) -> &[StepRange] {
        &self.0
    }

    /// How many there are.
    pub fn steps(&self) -> u64 {
        self.0.iter().map(|range| range.last.abs_diff(range.first) + 1).sum()
    }

    /// Whether a step is among them.
    pub fn contains(&self, step: Step) -> bool {
        let after = self.0.partition_point(|range| range.first <= step.0);
        after > 0 && step.0 <= self.0[after - 1].last
    }
}

impl TryFrom<Vec<StepRange>> for HeldSteps {
    type Error = PartError;
    fn try_from(ranges: Vec<StepRange>) -> Result<Self, PartError> {
        Self::new(ranges)
    }
}

impl From<HeldSteps> for Vec<StepRange> {
    fn from(held: HeldSteps) -> Self {
        held.0
    }
}

/// The samples of one exchange: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch(Vec<Window>);

impl Batch {
    /// Checks their number and range.
    pub fn new(samples: Vec<Window>) -> Result<Self, PartError> {
        if samples.is_empty() || samples.len() > MAX_STEPS {
            let expected = format!("1 to {MAX_STEPS} samples");
            return Err(PartError::new("samples asked for", samples.len(), expected));
        }
        let last = |sample: &Window| sample.last.0;
        let mut steps = samples.iter().map(last);
        if let Some(step) = steps.find(|step| step.unsigned_abs() > MAX_STEP as u64) {
            let expected = format!("steps within ±{MAX_STEP}");
            return Err(PartError::new("samples asked for", step, expected));
        }
        if let Some(sample) = samples.iter().find(|sample| sample.view.0 > MAX_FOLDS) {
            let expected = format!("views up to {MAX_FOLDS}");
            return Err(PartError::new("samples asked for", sample.view.0, expected));
        }
        Ok(Self(samples))
    }

    /// The samples.
    pub fn samples(&self) -> &[Window] {
        &self.0
    }
}

/// Finite numbers of some samples, `[sample, width]`, few enough to be sent, as their receiver sees
/// them. What they are is never shown.
#[derive(Clone, PartialEq)]
pub struct Values {
    width: usize,
    numbers: Vec<f32>,
    packing: Packing,
}

impl Values {
    /// Checks numbers that cross as they are.
    pub fn new(width: usize, numbers: Vec<f32>) -> Result<Self, PartError> {
        Self::packed(width, numbers, Packing::F32)
    }

    /// Checks numbers that lose nothing when they are packed like this.
    pub(crate) fn packed(
        width: usize,
        numbers: Vec<f32>,
        packing: Packing,
    ) -> Result<Self, PartError> {
        if numbers.is_empty() || numbers.len() > MAX_VALUES {
            return Err(PartError::new("values", numbers.len(), format!("1 to {MAX_VALUES}")));
        }
        if width == 0 || !numbers.len().is_multiple_of(width) {
            let expected = format!("a whole number of samples of {width}");
            return Err(PartError::new("values", numbers.len(), expected));
        }
        if let Some(place) = numbers.iter().position(|value| !value.is_finite()) {
            let found = format!("{} at place {place}", numbers[place]);
            return Err(PartError::new("values", found, "finite numbers"));
        }
        packing.check(width)?;
        Ok(Self { width, numbers, packing })
    }

    /// How they cross.
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// How many numbers a sample has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Samples.
    pub fn samples(&self) -> usize {
        self.numbers.len() / self.width
    }

    /// The numbers, sample by sample.
    pub fn as_slice(&self) -> &[f32] {
        &self.numbers
    }

    /// The numbers, sample by sample.
    pub fn into_vec(self) -> Vec<f32> {
        self.numbers
    }
}

crate::debug_sizes!(Values, |it| "[{} × {} values]", it.samples(), it.width);

/// z^k: what a guest's sub-model makes of its windows, `[sample, width]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding(pub Values);

/// ∂L/∂z^k: how the loss depends on an embedding, `[sample, width]`.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingGradient(pub Values);

#[cfg(test)]
mod tests;
