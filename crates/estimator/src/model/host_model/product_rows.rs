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
use std::ops::Range;

use neural::DropoutRng;

use super::whole::Whole;
use super::{HostBatch, HostModel};
use crate::loss::objective::{LinearPart, MeasurementWeights, Objective, PartialLoss};
use crate::model::sub_model::{PassError, check_len};

/// That of number n in sample s is Σ_i coefficients[s, n, i]·u[s, entries[n, i]], with the party's values u.
///
/// Without message passing between links, a number of a link depends on what was measured of this link alone: on two
/// values, say, of thirty-four. Without terms there is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbeddingCoefficients {
    /// Values that each number depends on.
    pub terms: usize,
    /// Which ones: entries of a sample, `[number, term]`.
    pub entries: Vec<u32>,
    /// `[sample, number, term]`. Zero for a term too many: some links may have less entries than others.
    pub coefficients: Vec<f64>,
}

/// How a batch's loss and gradients depend on values that are elsewhere, see the text at the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartialGradients {
    /// What the loss is if all of them are 0, less a constant.
    pub loss: f64,
    /// By party.
    pub parties: BTreeMap<String, Rows>,
}

/// The coefficients of one party's values; columns are `[sample, entry]`. A is written some rows at a time, by
/// [`write_rows`](HostModel::write_rows): all of it may be larger than the memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Entries of a sample.
    pub entries: usize,
    /// The parameters whose gradients depend on the values at all, in order: one row of A for each; then one for the loss.
    pub touched: Vec<usize>,
    /// D of this party's own values.
    pub embedding: EmbeddingCoefficients,
    /// D of other parties' values, by their names.
    pub others: BTreeMap<String, EmbeddingCoefficients>,
    /// c: `[sample, number of the embedding]`.
    pub known: Vec<f64>,
}

/// Rows of the last batch that can be written; those of a model by links are in [`ByLink`].
pub(super) struct PendingRows {
    whole: Option<Whole>,
    parties: BTreeMap<String, PartyRows>,
}

struct PartyRows {
    columns: Columns,
    touched: Vec<usize>,
    /// The row of the loss.
    loss: Vec<f64>,
}

/// Gradients of the estimates of a batch, by all parties' entries.
pub(super) trait Gradients {
    /// The parameters that some entry of a party touches, in order.
    fn touched(&self, columns: &Columns) -> Vec<usize>;

    /// Writes a party's rows of these parameters, over whatever is there.
    fn write_rows(&self, parameters: &[usize], columns: &Columns, to: &mut [f64]);

    /// What a party's entries add to the gradients of some numbers of the input: those of an embedding.
    fn share(&self, numbers: Range<usize>, columns: &Columns) -> EmbeddingCoefficients;
}

/// Where a party's entries are among those of all parties, in each sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    pub first: usize,
    pub entries: usize,
}

impl HostModel {
    /// Forward and backward with all that is known. What the values add to the gradient comes later, by
    /// [`add_to_gradient`](Self::add_to_gradient).
    pub fn train_without_values(
        &mut self,
        given: &HostBatch<'_>,
        weights: &MeasurementWeights<'_>,
        objective: &mut dyn Objective,
        noise: DropoutRng,
    ) -> Result<PartialGradients, PassError> {
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
        let mut apart = objective.train_without_values(
            given.samples,
            given.measured,
            weights,
            &self.y,
            &mut self.dy,
        )?;
        learner.backward(&x, &self.dy, Some(&mut self.dx), Some(noise));
        let parts: Vec<&LinearPart> = apart.parties.values().collect();
        let mut by_link = self.by_link.take();
        let whole = match &mut by_link {
            Some(by_link) => {
                by_link.pull_back(self.block.learner.parameters(), &x, noise, &parts);
                None
            }
            None => Some(self.pull_back(&x, noise, &parts)),
        };
        let (step, parties) = match (&by_link, &whole) {
            (Some(by_link), _) => self.rows(&mut apart, by_link, samples),
            (None, Some(whole)) => self.rows(&mut apart, whole, samples),
            (None, None) => Default::default(),
        };
        (self.x, self.by_link) = (x, by_link);
        self.pending = Some(PendingRows { whole, parties });
        Ok(step)
    }

    /// Writes some rows of A of a party, of the last batch, over whatever is there.
    pub fn write_rows(
        &self,
        party: &str,
        rows: Range<usize>,
        to: &mut [f64],
    ) -> Result<(), PassError> {
        let pending = self.pending.as_ref();
        let own = pending.and_then(|pending| pending.parties.get(party));
        let Some((pending, own)) = pending.zip(own) else {
            let expected = "a party whose rows are asked".to_owned();
            return Err(PassError::UnknownGuest { found: party.to_owned(), expected });
        };
        let (count, columns) = (own.touched.len() + 1, own.loss.len());
        check_len("rows", rows.end.min(count).saturating_sub(rows.start), rows.len())?;
        check_len("entries of rows", to.len(), rows.len() * columns)?;
        let parameters = &own.touched[rows.start..rows.end.min(own.touched.len())];
        let (of_parameters, of_loss) = to.split_at_mut(parameters.len() * columns);
        match (&self.by_link, &pending.whole) {
            (Some(by_link), _) => by_link.write_rows(parameters, &own.columns, of_parameters),
            (None, Some(whole)) => whole.write_rows(parameters, &own.columns, of_parameters),
            (None, None) => {}
        }
        if rows.end == count {
            of_loss.copy_from_slice(&own.loss);
        }
        Ok(())
    }

    /// Forgets the rows of the last batch.
    pub fn forget_rows(&mut self) {
        self.pending = None;
    }

    /// Adds what came of products with rows of parameters to the gradient of the last step.
    pub fn add_to_gradient(&mut self, products: &[f64]) -> Result<(), PassError> {
        let gradient = self.block.learner.gradient_mut();
        check_len("products", products.len(), gradient.len())?;
        let pairs = gradient.iter_mut().zip(products);
        pairs.for_each(|(gradient, product)| *gradient = (f64::from(*gradient) + product) as f32);
        Ok(())
    }

    /// Whether the model passes no messages between links: then measurements of a link affect only its own numbers.
    pub fn is_by_link(&self) -> bool {
        self.by_link.is_some()
    }

    /// Bytes of the gradients that rows are made of, of so many samples with so many entries each.
    pub fn gradient_bytes(&self, samples: usize, entries: usize) -> u64 {
        let each = match &self.by_link {
            Some(by_link) => by_link.kept_of_entry(),
            None => self.parameter_count() + self.block.model().input_len(),
        };
        let numbers = (samples as u64).saturating_mul(entries as u64).saturating_mul(each as u64);
        numbers.saturating_mul(size_of::<f32>() as u64)
    }

    /// Numbers that the host learns, and so rows of a product.
    pub fn parameter_count(&self) -> usize {
        self.block.learner.parameters().len()
    }

    /// One backward pass for each sample and entry.
    pub(super) fn pull_back(&self, x: &[f32], noise: DropoutRng, parts: &[&LinearPart]) -> Whole {
        let learner = &self.block.learner;
        let directions = parts.iter().map(|part| part.links.len()).sum();
        let pulled = learner.pull_back(x, Some(noise), directions, |sample, mut number, dy| {
            for part in parts {
                let entries = part.links.len();
                if number < entries {
                    let link = part.links[number];
                    dy[2 * link..][..2].copy_from_slice(&part.slopes[sample * entries + number]);
                    return;
                }
                number -= entries;
            }
        });
        let (parameters, inputs) = (self.parameter_count(), self.block.model().input_len());
        Whole { samples: x.len() / inputs.max(1), directions, parameters, inputs, pulled }
    }

    fn rows(
        &self,
        apart: &mut PartialLoss,
        gradients: &impl Gradients,
        samples: usize,
    ) -> (PartialGradients, BTreeMap<String, PartyRows>) {
        let mut first = 0;
        let of_party = |(name, part): (&String, &LinearPart)| {
            let columns = Columns { first, entries: part.links.len() };
            first += columns.entries;
            (name.clone(), columns)
        };
        let all: BTreeMap<String, Columns> = apart.parties.iter().map(of_party).collect();
        let mut step = PartialGradients { loss: apart.known, parties: BTreeMap::new() };
        let mut pending = BTreeMap::new();
        for ((name, part), columns) in apart.parties.iter_mut().zip(all.values()) {
            let touched = gradients.touched(columns);
            let others = all.iter().filter(|(other, _)| *other != name);
            let others = others
                .map(|(other, columns)| (other.clone(), self.share(name, gradients, columns)));
            let (entries, others) = (columns.entries, others.collect());
            let embedding = self.share(name, gradients, columns);
            let known = self.known(name, samples);
            let rows = PartyRows {
                columns: *columns,
                touched: touched.clone(),
                loss: std::mem::take(&mut part.loss),
            };
            pending.insert(name.clone(), rows);
            let rows = Rows { entries, touched, embedding, others, known };
            step.parties.insert(name.clone(), rows);
        }
        (step, pending)
    }

    /// D of a guest's embedding by the values of some columns; nothing for a party that has no slot.
    fn share(
        &self,
        guest: &str,
        gradients: &impl Gradients,
        columns: &Columns,
    ) -> EmbeddingCoefficients {
        let place = self.slots.iter().find(|place| place.name == guest);
        place.map(|place| gradients.share(place.numbers.clone(), columns)).unwrap_or_default()
    }

    /// c of a guest's embedding.
    fn known(&self, guest: &str, samples: usize) -> Vec<f64> {
        let width = self.block.model().input_len();
        let Some(place) = self.slots.iter().find(|place| place.name == guest) else {
            return Vec::new();
        };
        let numbers =
            |sample: usize| place.numbers.clone().map(move |number| sample * width + number);
        (0..samples).flat_map(numbers).map(|at| f64::from(self.dx[at])).collect()
    }
}

impl Columns {
    /// Their places.
    pub(super) fn range(&self) -> Range<usize> {
        self.first..self.first + self.entries
    }

    /// The party's own of all entries of a sample.
    pub(super) fn of<'a, T>(&self, sample: &'a [T]) -> &'a [T] {
        &sample[self.first..][..self.entries]
    }
}
