//! Gradients of a host's model by all entries of each sample, whatever the model is.

use std::ops::Range;

use neural::PulledBack;
use rayon::prelude::*;

use super::product_rows::EmbeddingCoefficients;
use super::product_rows::{Columns, Gradients};

/// Rows that are written at once: the numbers of a column that share a line of the cache.
const ROWS_AT_ONCE: usize = 16;

/// One backward pass for each entry. An entry of any party is a direction.
pub(super) struct Whole {
    pub samples: usize,
    pub directions: usize,
    pub parameters: usize,
    pub inputs: usize,
    pub pulled: PulledBack,
}

impl Gradients for Whole {
    fn touched(&self, columns: &Columns) -> Vec<usize> {
        let own = |sample: &[f32]| {
            let own = sample.chunks_exact(self.parameters);
            let own = own.skip(columns.first).take(columns.entries);
            let mut touched = vec![false; self.parameters];
            for gradient in own {
                touched.iter_mut().zip(gradient).for_each(|(any, g)| *any |= *g != 0.0);
            }
            touched
        };
        let each = (self.directions * self.parameters).max(1);
        let samples = self.pulled.parameters.par_chunks_exact(each).map(own);
        let touched = samples.reduce(Vec::new, |mut some, others| {
            if some.is_empty() {
                return others;
            }
            some.iter_mut().zip(others).for_each(|(any, other)| *any |= other);
            some
        });
        touched.iter().enumerate().filter(|(_, any)| **any).map(|(at, _)| at).collect()
    }

    /// From `[sample, direction, parameter]` to `[parameter, (sample, entry)]`.
    fn write_rows(&self, parameters: &[usize], columns: &Columns, to: &mut [f64]) {
        let each = self.samples * columns.entries;
        let some = to.par_chunks_mut((ROWS_AT_ONCE * each).max(1));
        some.zip(parameters.par_chunks(ROWS_AT_ONCE)).for_each(|(rows, parameters)| {
            for column in 0..each {
                let (sample, entry) = (column / columns.entries, column % columns.entries);
                let from = (sample * self.directions + columns.first + entry) * self.parameters;
                let gradient = &self.pulled.parameters[from..][..self.parameters];
                for (row, &parameter) in rows.chunks_exact_mut(each).zip(parameters) {
                    row[column] = f64::from(gradient[parameter]);
                }
            }
        });
    }

    fn share(&self, numbers: Range<usize>, columns: &Columns) -> EmbeddingCoefficients {
        let terms = columns.entries;
        let entries = numbers.clone().flat_map(|_| 0..terms as u32).collect();
        let mut coefficients = Vec::with_capacity(self.samples * numbers.len() * terms);
        for sample in 0..self.samples {
            for number in numbers.clone() {
                let own = columns.first..columns.first + columns.entries;
                coefficients.extend(own.map(|direction| {
                    let row = (sample * self.directions + direction) * self.inputs;
                    f64::from(self.pulled.inputs[row + number])
                }));
            }
        }
        EmbeddingCoefficients { terms, entries, coefficients }
    }
}
