//! A training step whose measurements are elsewhere: how its gradients depend on them.
//!
//! With A = ∂L/∂θ by u for the parameters θ of the host, and D_t, c_t for the embedding of a guest in sample t:
//!
//! ```text
//! ∂L/∂θ   = known + Σ_guests A·u            rows = parameters, columns = [sample, entry]
//! ∂L/∂z_t = c_t + Σ_guests D_t·u_t          for the guest with this embedding, and for it alone
//! ```
//!
//! c_t is what the host knows of a guest's gradient: traffic model, own measurements, and what all guests'
//! measurements should be. D of the guest itself and of each other one are apart, since their values are.

use std::collections::BTreeMap;

use neural::{Noise, PulledBack};
use rayon::prelude::*;

use super::{HostBatch, HostModel};
use crate::apart::{Apart, LinearPart, WeightsApart};
use crate::objective::Objective;
use crate::sub_model::{PassError, check_len};

/// How a batch's loss and gradients depend on values that are elsewhere, see the text at the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApartStep {
    /// What the loss is if all of them are 0, less a constant.
    pub loss: f64,
    /// By party.
    pub parties: BTreeMap<String, Rows>,
}

/// The coefficients of one party's values; columns are `[sample, entry]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Entries of a sample.
    pub entries: usize,
    /// Of the loss: one row.
    pub loss: Vec<f64>,
    /// A: `[parameter, column]`.
    pub parameters: Vec<f64>,
    /// D of this party's own values: `[sample, number of the embedding, entry]`.
    pub embedding: Vec<f64>,
    /// D of other parties' values, by their names; their entries.
    pub others: BTreeMap<String, Vec<f64>>,
    /// c: `[sample, number of the embedding]`.
    pub known: Vec<f64>,
}

impl HostModel {
    /// Forward and backward with all that is known. What the values add to the gradient comes later, by
    /// [`add_to_gradient`](Self::add_to_gradient).
    pub fn train_apart(
        &mut self,
        given: &HostBatch<'_>,
        weights: &WeightsApart<'_>,
        objective: &mut dyn Objective,
        noise: Noise,
    ) -> Result<ApartStep, PassError> {
        let samples = self.check(given.x, given.embeddings)?;
        check_len("samples", given.samples.len(), samples)?;
        let mut x = std::mem::take(&mut self.x);
        self.fill(given.x, given.embeddings, samples, &mut x);
        let outputs = samples * self.output_len();
        self.y.resize(outputs, 0.0);
        self.dy.resize(outputs, 0.0);
        self.dx.resize(x.len(), 0.0);
        let learner = &mut self.block.learner;
        learner.forward(&x, &mut self.y, Some(noise));
        let apart =
            objective.train_apart(given.samples, given.measured, weights, &self.y, &mut self.dy)?;
        learner.backward(&x, &self.dy, Some(&mut self.dx), Some(noise));
        let parts: Vec<&LinearPart> = apart.parties.values().collect();
        let directions = parts.iter().map(|part| part.links.len()).sum();
        let pulled = match &mut self.by_link {
            Some(by_link) => {
                let (links, slopes) = directions_of(&parts, samples);
                by_link.pull_back(learner.parameters(), &x, noise, (&links, &slopes))
            }
            None => learner.pull_back(&x, Some(noise), directions, |sample, mut number, dy| {
                for part in &parts {
                    let entries = part.links.len();
                    if number < entries {
                        let [density, flow] = part.slopes[sample * entries + number];
                        dy[2 * part.links[number]] = density;
                        dy[2 * part.links[number] + 1] = flow;
                        return;
                    }
                    number -= entries;
                }
            }),
        };
        self.x = x;
        Ok(self.rows(&apart, &pulled, samples, directions))
    }

    /// Adds what came of products with rows of parameters to the gradient of the last step.
    pub fn add_to_gradient(&mut self, products: &[f64]) -> Result<(), PassError> {
        let gradient = self.block.learner.gradient_mut();
        check_len("products", products.len(), gradient.len())?;
        let pairs = gradient.iter_mut().zip(products);
        pairs.for_each(|(gradient, product)| *gradient = (f64::from(*gradient) + product) as f32);
        Ok(())
    }

    /// Numbers that the host learns, and so rows of a product.
    pub fn parameter_count(&self) -> usize {
        self.block.learner.parameters().len()
    }

    fn rows(
        &self,
        apart: &Apart,
        pulled: &PulledBack,
        samples: usize,
        directions: usize,
    ) -> ApartStep {
        let mut step = ApartStep { loss: apart.known, parties: BTreeMap::new() };
        let mut first = 0;
        let of_party = |(name, part): (&String, &LinearPart)| {
            let columns = Columns { first, entries: part.links.len(), directions, samples };
            first += columns.entries;
            (name.clone(), columns)
        };
        let all: BTreeMap<String, Columns> = apart.parties.iter().map(of_party).collect();
        for (name, columns) in &all {
            let parameters = columns.transposed(&pulled.parameters, self.parameter_count());
            let embedding = self.of_embedding(name, pulled, columns);
            let others = all.iter().filter(|(other, _)| *other != name);
            let others = others
                .map(|(other, columns)| (other.clone(), self.of_embedding(name, pulled, columns)));
            let loss = apart.parties.get(name).map(|part| part.loss.clone()).unwrap_or_default();
            let (entries, others) = (columns.entries, others.collect());
            let known = self.known(name, samples);
            let rows = Rows { entries, loss, parameters, embedding, others, known };
            step.parties.insert(name.clone(), rows);
        }
        step
    }

    /// D of a guest's embedding by the values of some columns; nothing for a party that has no seat.
    fn of_embedding(&self, guest: &str, pulled: &PulledBack, columns: &Columns) -> Vec<f64> {
        let width = self.block.model().input_len();
        let Some(place) = self.seats.iter().find(|place| place.name == guest) else {
            return Vec::new();
        };
        let mut embedding = Vec::new();
        for sample in 0..columns.samples {
            for number in place.numbers.clone() {
                let own = columns.first..columns.first + columns.entries;
                embedding.extend(own.map(|direction| {
                    let row = (sample * columns.directions + direction) * width;
                    f64::from(pulled.inputs[row + number])
                }));
            }
        }
        embedding
    }

    /// c of a guest's embedding.
    fn known(&self, guest: &str, samples: usize) -> Vec<f64> {
        let width = self.block.model().input_len();
        let Some(place) = self.seats.iter().find(|place| place.name == guest) else {
            return Vec::new();
        };
        let numbers =
            |sample: usize| place.numbers.clone().map(move |number| sample * width + number);
        (0..samples).flat_map(numbers).map(|at| f64::from(self.dx[at])).collect()
    }
}

/// The links of all parties' entries, and their slopes by sample.
fn directions_of(parts: &[&LinearPart], samples: usize) -> (Vec<usize>, Vec<[f32; 2]>) {
    let links = parts.iter().flat_map(|part| &part.links).copied().collect();
    let each = |sample: usize| {
        let of = move |part: &&LinearPart| {
            let entries = part.links.len();
            part.slopes[sample * entries..][..entries].to_vec()
        };
        parts.iter().flat_map(of)
    };
    (links, (0..samples).flat_map(each).collect())
}

/// Rows that are written at once: the numbers of a column that share a line of the cache.
const ROWS_AT_ONCE: usize = 16;

/// Where a party's columns are among all directions.
struct Columns {
    first: usize,
    entries: usize,
    directions: usize,
    samples: usize,
}

impl Columns {
    /// From `[sample, direction, number]` to `[number, (sample, entry)]`.
    fn transposed(&self, pulled: &[f32], numbers: usize) -> Vec<f64> {
        let columns = self.samples * self.entries;
        let mut rows = vec![0.0; numbers * columns];
        let some = rows.par_chunks_mut((ROWS_AT_ONCE * columns).max(1)).enumerate();
        some.for_each(|(chunk, rows)| {
            let count = rows.len() / columns;
            for column in 0..columns {
                let (sample, entry) = (column / self.entries, column % self.entries);
                let from = (sample * self.directions + self.first + entry) * numbers;
                let values = &pulled[from + chunk * ROWS_AT_ONCE..][..count];
                for (row, &value) in rows.chunks_exact_mut(columns).zip(values) {
                    row[column] = f64::from(value);
                }
            }
        });
        rows
    }
}
