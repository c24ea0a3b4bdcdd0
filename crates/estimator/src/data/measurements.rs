//! What parties measure of the traffic, for losses without ground truth.
//!
//! A party's measurements are a fixed list of [`MeasurementEntry`]s: what is measured where, known to all.
//! Values are the party's own. A weight is one over the variance, in the units of the quantity; 0
//! says that nothing was measured.

use std::collections::BTreeMap;

use crate::model::sub_model::{PassError, check_finite, check_len};
use traffic::{MeasurementEntry, Window};

/// A party that measures.
pub trait MeasurementSource: Send + Sync {
    /// The layout of its numbers, fixed for a run.
    fn entries(&self) -> &[MeasurementEntry];
    /// Writes values and weights of a sample, a number for each entry. Values of weight 0 are 0.
    fn write(&self, sample: Window, values: &mut [f32], weights: &mut [f32]);
}

/// A party's measurements for a batch, `[sample, entry]` each.
#[derive(Clone, Copy, Debug)]
pub struct Readings<'a> {
    /// The values.
    pub values: &'a [f32],
    /// One over the variance of each.
    pub weights: &'a [f32],
}

/// The measurements of those who are there, by name.
pub type MeasuredBatch<'a> = BTreeMap<&'a str, Readings<'a>>;

impl Readings<'_> {
    /// Refuses wrong lengths, values that are not finite and weights that are no inverse variances.
    pub fn check(&self, samples: usize, entries: usize) -> Result<(), PassError> {
        check_len("measurements", self.values.len(), samples * entries)?;
        check_len("weights of measurements", self.weights.len(), samples * entries)?;
        check_finite("measurements", self.values)?;
        check_finite("weights of measurements", self.weights)?;
        match self.weights.iter().position(|weight| *weight < 0.0) {
            None => Ok(()),
            Some(place) => Err(PassError::Negative {
                what: "weights of measurements",
                found: self.weights[place],
                place,
            }),
        }
    }
}

/// A batch of a party's measurements, with its memory.
#[derive(Debug, Default)]
pub struct Gathered {
    values: Vec<f32>,
    weights: Vec<f32>,
}

impl Gathered {
    /// Asks a party for the measurements of some samples.
    pub fn gather(&mut self, party: &dyn MeasurementSource, samples: &[Window]) {
        let entries = party.entries().len();
        self.values.resize(samples.len() * entries, 0.0);
        self.weights.resize(samples.len() * entries, 0.0);
        if entries == 0 {
            return;
        }
        let places =
            self.values.chunks_exact_mut(entries).zip(self.weights.chunks_exact_mut(entries));
        for (&sample, (values, weights)) in samples.iter().zip(places) {
            party.write(sample, values, weights);
        }
    }

    /// What was gathered.
    pub fn readings(&self) -> Readings<'_> {
        Readings { values: &self.values, weights: &self.weights }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_measurement_is_refused() {
        let refused = |values: &[f32], weights: &[f32]| {
            Readings { values, weights }.check(1, 2).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&[1.0, 2.0], &[0.0, 0.5]), None);
        let length = "weights of measurements: found 1 numbers, expected 2";
        assert_eq!(refused(&[1.0, 2.0], &[1.0]).as_deref(), Some(length));
        let negative = "weights of measurements: found -1 at place 1, expected 0 or more";
        assert_eq!(refused(&[1.0, 2.0], &[1.0, -1.0]).as_deref(), Some(negative));
        assert!(refused(&[f32::NAN, 2.0], &[0.0, 1.0]).is_some());
        assert!(refused(&[1.0, 2.0], &[f32::INFINITY, 1.0]).is_some());
    }
}
