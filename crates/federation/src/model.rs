//! What the round needs of a party's model and data.
//!
//! A host or guest drives one of these and knows nothing of what is inside. Embeddings are
//! `[sample, width]`, measurements `[sample, entry]`.

use std::collections::BTreeMap;
use std::ops::Range;

use estimator::EmbeddingCoefficients;
use protocol::message::measurements::{MeasurementLayout, Measurements, Movements};
use protocol::message::parts::{Embedding, EmbeddingGradient};
use protocol::party::PartyId;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::Window;

/// A model could not do what it was asked.
#[derive(Debug, Error)]
#[error("model: {0}")]
pub struct ModelFailure(pub String);

/// The embeddings of one exchange; none of a guest that is absent.
pub type Embeddings = BTreeMap<PartyId, Option<Embedding>>;

/// What the guests have answered in one exchange.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Of every guest; none of one that is absent.
    pub embeddings: Embeddings,
    /// Of those who are there, if the plan asks for any.
    pub measured: BTreeMap<PartyId, Measurements>,
    /// The weights of what they have measured, `[sample, entry]`, where the values are sealed.
    pub weights: BTreeMap<PartyId, Vec<f32>>,
}

/// The rows that a guest's sealed measurements are to be multiplied by; columns are `[sample, entry]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuestRows {
    /// How many rows A has: [`HostModel::write_rows`] writes them.
    pub rows: usize,
    /// D of the embedding's gradient Σ D·u + c, by this guest's values.
    pub embedding: EmbeddingCoefficients,
    /// D of it by other guests' values.
    pub others: BTreeMap<PartyId, EmbeddingCoefficients>,
    /// c of it: `[sample, number]`.
    pub known: Vec<f64>,
}

/// What a host asks of each guest whose measurements are sealed.
pub type ProductRows = BTreeMap<PartyId, GuestRows>;

/// Products of rows with guests' measurements.
pub type Products = BTreeMap<PartyId, Vec<f64>>;

/// What each guest measures for a run, as far as the plan asks for it.
pub type Layouts = BTreeMap<PartyId, MeasurementLayout>;

/// What a host has heard of its guests when a run begins, and keeps for the whole of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreed {
    /// What they measure.
    pub layouts: Layouts,
    /// Their shares of the traffic, if they hold out parts of their fleets.
    pub shares: BTreeMap<PartyId, f64>,
    /// Where the vehicles of all of them went.
    pub movements: Movements,
}

/// A guest's private sub-model, with its data.
pub trait GuestModel: Send {
    /// Numbers of an embedding, per sample.
    fn width(&self) -> usize;

    /// Embeds training samples with the weights as they are and with dropout, and remembers what
    /// [`learn`](Self::learn) needs.
    fn embed(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure>;

    /// So many training exchanges have been done, some of them without this guest.
    fn skip_to(&mut self, exchanges: u64);

    /// All updates of an exchange, from the gradient of the last [`embed`](Self::embed).
    fn learn(&mut self, gradient: &EmbeddingGradient) -> Result<(), ModelFailure>;

    /// A training exchange from which there was nothing to learn: counts it, and updates nothing.
    fn skip_update(&mut self);

    /// Embeds samples with the weights that would be kept, without dropout.
    fn validate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure>;

    /// The weights that would be kept are the best so far: remember them.
    fn keep_best(&mut self);

    /// Embeds samples with the best weights, without dropout.
    fn estimate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure>;

    /// What it has measured of samples, of all kinds that the plan asks for; always the same.
    fn measure(&self, samples: &[Window]) -> Result<Measurements, ModelFailure>;

    /// All that changes in training, as bytes.
    fn save(&self) -> Result<Vec<u8>, ModelFailure>;

    /// Goes back to what was saved.
    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure>;
}

/// What the host learns from an exchange.
#[derive(Debug)]
pub struct Learned {
    /// The loss before the update; none if there was nothing to learn from, and nobody updates.
    pub loss: Option<f64>,
    /// For each guest that answered, the gradient of its embedding, before the update; empty without a
    /// loss.
    pub gradients: BTreeMap<PartyId, EmbeddingGradient>,
}

/// What came of products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Updated {
    /// The loss before the update, less what no estimate changes.
    pub loss: f64,
    /// Whether another update of the same exchange needs products of its own.
    pub more: bool,
}

/// The host's sub-model and head, with its data and what it learns from.
pub trait HostModel: Send {
    /// Numbers of each guest's embedding, per sample.
    fn widths(&self) -> BTreeMap<PartyId, usize>;

    /// Fuses, computes the loss, updates.
    fn learn(&mut self, samples: &[Window], answers: &Answers) -> Result<Learned, ModelFailure>;

    /// Adds the validation losses of some samples to a total, one after the other, with the weights
    /// that would be kept.
    fn validate(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<f64, ModelFailure>;

    /// As [`learn`](Self::learn) with values that are sealed: fuses, computes what it can alone, and says which
    /// products it needs; nothing if there is nothing to learn from. May be called again before
    /// [`finish_secure_update`](Self::finish_secure_update), which then belongs to the last call.
    fn begin_secure_update(
        &mut self,
        samples: &[Window],
        answers: &Answers,
    ) -> Result<Option<ProductRows>, ModelFailure>;

    /// Writes some rows of A of a guest, `[row, column]`, over whatever is there: of the last
    /// [`begin_secure_update`](Self::begin_secure_update) or [`validate_without_values`](Self::validate_without_values),
    /// until its products are here. All of A may be larger than the memory.
    fn write_rows(
        &mut self,
        party: &PartyId,
        rows: Range<usize>,
        to: &mut [f64],
    ) -> Result<(), ModelFailure>;

    /// Updates with these products. If there is another update in this exchange,
    /// [`begin_secure_update`](Self::begin_secure_update) says which products that one needs.
    fn finish_secure_update(&mut self, products: &Products) -> Result<Updated, ModelFailure>;

    /// As [`validate`](Self::validate) with values that are sealed: the total without them, and one row for each guest.
    /// The products of these rows are to be added.
    fn validate_without_values(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<(f64, ProductRows), ModelFailure>;

    /// The weights that would be kept are the best so far: remember them.
    fn keep_best(&mut self);

    /// Estimates samples with the best weights and takes note of the result.
    fn estimate(&mut self, samples: &[Window], embeddings: &Embeddings)
    -> Result<(), ModelFailure>;

    /// All that changes in training, as bytes.
    fn save(&self) -> Result<Vec<u8>, ModelFailure>;

    /// Goes back to what was saved.
    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure>;
}
