//! The host's part and head as one trainable whole, with guests elsewhere.

mod by_link;
mod known;
mod product_rows;
mod whole;

use std::collections::BTreeMap;
use std::ops::Range;

use neural::{Checkpoint, CheckpointError, DropoutRng};
use traffic::Network;

use crate::data::measurements::MeasuredBatch;
use crate::loss::objective::Objective;
use crate::model::architecture::HostShape;
use crate::model::model_error::ModelError;
use crate::model::parts::{EmbeddingShape, party_seed};
use crate::model::party_block::{PartyBlock, UpdateRule};
use crate::model::read_out::ReadOut;
use crate::model::sub_model::{PassError, check_finite, check_len, whole_samples};
use traffic::Window;

use by_link::ByLink;
use product_rows::PendingRows;

pub use known::KnownBlock;
pub use product_rows::{EmbeddingCoefficients, PartialGradients, Rows};

/// What the guests gave for a batch, by name: `[sample, number]` each. Who is not there is absent.
pub type Embeddings<'a> = BTreeMap<&'a str, &'a [f32]>;

/// All that a training step of the host works with.
pub struct HostBatch<'a> {
    /// The samples.
    pub samples: &'a [Window],
    /// The host's own input, `[sample, number]`.
    pub x: &'a [f32],
    /// What the guests gave.
    pub embeddings: &'a Embeddings<'a>,
    /// What all parties measured, as far as the objective asks for it.
    pub measured: &'a MeasuredBatch<'a>,
}

/// The host's part and head, with guests elsewhere.
///
/// One exchange at the host:
///
/// ```text
/// begin_round
/// train(batch, objective, …) → loss     gradient_of(guest) → ∂L/∂z, to that guest alone
/// update(rate)
/// Q − 1 times: train with the same embeddings, update             (or, frozen: update alone)
/// ```
///
/// A guest without an embedding is absent: the head is given the vector learned for that, and a
/// flag, never zeros.
pub struct HostModel {
    block: PartyBlock,
    own: usize,
    slots: Vec<GuestInput>,
    /// Where each link is estimated by itself.
    by_link: Option<ByLink>,
    /// What moves estimates by the kept weights, if it was fitted.
    read_out: Option<ReadOut>,
    x: Vec<f32>,
    y: Vec<f32>,
    dy: Vec<f32>,
    dx: Vec<f32>,
    /// Rows that can be asked for.
    pending: Option<PendingRows>,
}

/// A guest in the model's input.
struct GuestInput {
    name: String,
    /// Its flag, then what it gave, in one sample.
    flag: usize,
    numbers: Range<usize>,
    embedding: EmbeddingShape,
    /// The gradient of what it gave, if it took part in the last batch.
    gradient: Option<Vec<f32>>,
}

impl HostModel {
    /// The model with its first weights, as the joint model of the same seed has them.
    pub fn new(
        shape: &HostShape,
        network: &Network,
        seed: u64,
        rule: UpdateRule,
    ) -> Result<Self, ModelError> {
        let fusion = shape.build(network)?;
        let block = PartyBlock::new(fusion, party_seed(seed, HostShape::PART), rule);
        let links = network.links().len();
        let guests: usize = shape.slots.iter().map(|slot| 1 + slot.embedding.len(links)).sum();
        let own = block.model().input_len() - guests;
        let mut flag = own;
        let slots = shape.slots.iter().map(|slot| {
            let numbers = flag + 1..flag + 1 + slot.embedding.len(links);
            let (name, embedding) = (slot.name.clone(), slot.embedding);
            let place = GuestInput { name, flag, numbers, embedding, gradient: None };
            flag = place.numbers.end;
            place
        });
        let slots = slots.collect();
        let by_link = ByLink::of(shape, links, block.learner.layout())?;
        let [x, y, dy, dx] = [const { Vec::new() }; 4];
        let (read_out, pending) = (None, None);
        Ok(Self { block, own, slots, by_link, read_out, x, y, dy, dx, pending })
    }

    /// Numbers of the host's own input.
    pub fn input_len(&self) -> usize {
        self.own
    }

    /// Numbers of one estimate: density and flow of each link.
    pub fn output_len(&self) -> usize {
        self.block.model().output_len()
    }

    /// The guests, and how many numbers each gives for a sample.
    pub fn guests(&self) -> impl Iterator<Item = (&str, usize)> {
        self.slots.iter().map(|place| (place.name.as_str(), place.numbers.len()))
    }

    /// A round begins: the proximal term draws to the weights of this moment.
    pub fn begin_round(&mut self) {
        self.block.begin_round();
    }

    /// Loss of a batch; the gradients of the own parameters and of all embeddings follow from it.
    pub fn train(
        &mut self,
        given: &HostBatch<'_>,
        objective: &mut dyn Objective,
        noise: DropoutRng,
    ) -> Result<f64, PassError> {
        let samples = self.check(given.x, given.embeddings)?;
        check_len("samples", given.samples.len(), samples)?;
        let mut batch = std::mem::take(&mut self.x);
        self.fill(given.x, given.embeddings, samples, &mut batch);
        let outputs = samples * self.output_len();
        self.y.resize(outputs, 0.0);
        self.dy.resize(outputs, 0.0);
        self.dx.resize(batch.len(), 0.0);
        let learner = &mut self.block.learner;
        learner.forward(&batch, &mut self.y, Some(noise));
        let loss = objective.train(given.samples, given.measured, &self.y, &mut self.dy)?;
        learner.backward(&batch, &self.dy, Some(&mut self.dx), Some(noise));
        let width = self.block.model().input_len();
        for place in &mut self.slots {
            place.gradient = given.embeddings.contains_key(place.name.as_str()).then(|| {
                let rows = self.dx.chunks_exact(width);
                rows.flat_map(|row| &row[place.numbers.clone()]).copied().collect()
            });
        }
        self.x = batch;
        Ok(loss)
    }

    /// The gradient of what a guest gave in the last batch; none if it was absent.
    pub fn gradient_of(&self, guest: &str) -> Option<&[f32]> {
        self.slots.iter().find(|place| place.name == guest)?.gradient.as_deref()
    }

    /// One step along the gradient of the last [`train`](Self::train), which stays.
    pub fn update(&mut self, rate: f32) {
        self.block.update(rate);
    }

    /// Estimates of a batch by the weights that are validated, without dropout.
    pub fn infer(
        &self,
        x: &[f32],
        embeddings: &Embeddings<'_>,
        y: &mut [f32],
    ) -> Result<(), PassError> {
        let batch = self.batch(x, embeddings, y.len())?;
        self.block.validated().infer(&batch, y);
        Ok(())
    }

    /// The weights that are validated are the best so far: they are kept.
    pub fn keep_best(&mut self) {
        self.block.keep_best();
    }

    /// Estimates of a batch by the weights that were kept, without dropout, and where no guest is absent by the
    /// read-out, if there is one.
    pub fn infer_best(
        &self,
        x: &[f32],
        embeddings: &Embeddings<'_>,
        y: &mut [f32],
    ) -> Result<(), PassError> {
        let batch = self.batch(x, embeddings, y.len())?;
        self.block.kept().infer(&batch, y);
        if let Some(read_out) = self.read_out.as_ref().filter(|_| self.all_in(embeddings)) {
            read_out.apply(&batch, self.block.model().input_len(), y);
        }
        Ok(())
    }

    /// Whether no guest is absent.
    fn all_in(&self, embeddings: &Embeddings<'_>) -> bool {
        self.slots.iter().all(|place| embeddings.contains_key(place.name.as_str()))
    }

    /// The parameters as they move.
    pub fn parameters(&self) -> &[f32] {
        self.block.learner.parameters()
    }

    /// The parameters that were kept.
    pub fn best(&self) -> &[f32] {
        self.block.best()
    }

    /// Everything that changes in training, between two rounds.
    pub fn save(&self) -> Checkpoint {
        self.block.save()
    }

    /// Goes back to what was saved by a model of the same shape and rule.
    pub fn load(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        self.block.load(checkpoint)
    }

    /// The best weights and the read-out, for `load_best`.
    pub fn save_best(&self) -> Checkpoint {
        let mut checkpoint = self.block.save_best();
        if let Some(read_out) = &self.read_out {
            read_out.save(&mut checkpoint);
        }
        checkpoint
    }

    /// Takes the best weights of a model of the same shape.
    pub(crate) fn load_best(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let links = self.output_len() / 2;
        self.read_out = ReadOut::load(checkpoint, links, self.block.model().input_len())?;
        self.block.load_best(checkpoint)
    }

    /// Takes weights and a read-out as the best.
    pub(crate) fn set_best(&mut self, weights: &[f32], read_out: Option<ReadOut>) {
        self.read_out = read_out;
        self.block.set_best(weights);
    }

    fn batch(
        &self,
        x: &[f32],
        embeddings: &Embeddings<'_>,
        outputs: usize,
    ) -> Result<Vec<f32>, PassError> {
        let samples = self.check(x, embeddings)?;
        check_len("estimates", outputs, samples * self.output_len())?;
        let mut batch = Vec::new();
        self.fill(x, embeddings, samples, &mut batch);
        Ok(batch)
    }

    fn check(&self, x: &[f32], embeddings: &Embeddings<'_>) -> Result<usize, PassError> {
        let samples = whole_samples("the host's input", x.len(), self.own)?;
        for (guest, numbers) in embeddings {
            let Some(place) = self.slots.iter().find(|place| place.name == *guest) else {
                let names: Vec<&str> = self.guests().map(|(name, _)| name).collect();
                let (found, expected) = ((*guest).to_owned(), names.join(", "));
                return Err(PassError::UnknownGuest { found, expected });
            };
            check_len("embedding of a guest", numbers.len(), samples * place.numbers.len())?;
            check_finite("embedding of a guest", numbers)?;
        }
        Ok(samples)
    }

    /// The host's numbers, then each guest's flag and numbers, sample by sample.
    fn fill(&self, x: &[f32], embeddings: &Embeddings<'_>, samples: usize, batch: &mut Vec<f32>) {
        let width = self.block.model().input_len();
        batch.clear();
        batch.resize(samples * width, 0.0);
        for (row, x) in batch.chunks_exact_mut(width).zip(x.chunks_exact(self.own)) {
            row[..self.own].copy_from_slice(x);
        }
        for place in &self.slots {
            let Some(numbers) = embeddings.get(place.name.as_str()) else { continue };
            let each = numbers.chunks_exact(place.numbers.len());
            for (row, numbers) in batch.chunks_exact_mut(width).zip(each) {
                row[place.flag] = 1.0;
                row[place.numbers.clone()].copy_from_slice(numbers);
            }
        }
    }
}

#[cfg(test)]
mod tests;
