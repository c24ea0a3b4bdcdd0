//! What a neural estimator reads, as f32 in the order of its parts.
//!
//! Per step and link, or per step for the whole network:
//!
//! | part | by link | by step (the paper's) |
//! |---|---|---|
//! | host, whole network | loop counts and masks, signal clock | |
//! | host, each link | share of green at its end | loop count, 0 without a loop |
//! | guest, each link | see [`GuestFeatures`](crate::GuestFeatures); each with a mask | the same, without masks of totals |
//!
//! Numbers are scaled by mean and deviation of the training part, pooled over links, so that links
//! stay comparable. Masks, clock and green are left as they are.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::Step;

use crate::data::timeline::Timeline;

mod guest;
mod host;

pub use guest::GuestInputs;
pub use host::HostInputs;

/// How the features are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// `[shared | link, (step, channel)]`
    ByLink,
    /// `[step, link, channel]`, as the STGCN reads it.
    ByStep,
}

/// Why features cannot be read by an estimator.
#[derive(Debug, Error, PartialEq)]
pub enum InputsError {
    /// NaN or infinite.
    #[error("step {step}: {what}: found {found}, expected a finite number")]
    NotFinite {
        /// The step.
        step: i64,
        /// Which number.
        what: String,
        /// Its value.
        found: f64,
    },
    /// A loop that never reported in the training part.
    #[error("loop `{detector}`: found no count in the training part, expected at least one")]
    SilentLoop {
        /// Its name.
        detector: String,
    },
    /// The data have other loops than the scales.
    #[error("found {found} loops, expected {expected}")]
    Loops {
        /// In the data.
        found: usize,
        /// In the model.
        expected: usize,
    },
    /// The features have no cells.
    #[error(
        "found features without cells, expected cells and sub-steps; make the features with more of either"
    )]
    NoCells,
}

/// Numbers of each row, side by side.
#[derive(Default)]
struct Table {
    width: usize,
    values: Vec<f32>,
}

impl Table {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// Knows its width once all rows are there; refuses what is not a number.
    fn finish(&mut self, timeline: &Timeline, what: &str) -> Result<(), InputsError> {
        self.width = self.values.len() / timeline.held().len().max(1);
        match self.values.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(at) => Err(InputsError::NotFinite {
                step: timeline.steps().nth(at / self.width.max(1)).map_or(0, |step| step.0),
                what: what.into(),
                found: f64::from(self.values[at]),
            }),
        }
    }
}

/// The rows of the window that ends with a step.
fn window_rows(timeline: &Timeline, last: Step) -> std::ops::Range<usize> {
    let end = timeline.row(last) + 1;
    end - timeline.window()..end
}

struct Writer<'a> {
    sample: &'a mut [f32],
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(sample: &'a mut [f32], expected: usize) -> Self {
        assert_eq!(sample.len(), expected, "numbers of a sample");
        Writer { sample, at: 0 }
    }

    fn put(&mut self, values: &[f32]) {
        self.sample[self.at..self.at + values.len()].copy_from_slice(values);
        self.at += values.len();
    }
}
