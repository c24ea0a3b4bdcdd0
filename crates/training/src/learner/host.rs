//! The host's part of FedBCD.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use estimator::model::HostBatch;
use estimator::{HostStudy, PARTY_CHECKPOINT, WindowSource, gather_rows};
use federation::model::{Answers, Embeddings, Learned, Updated};
use federation::{HostModel, ModelFailure, ProductRows, Products};
use neural::Checkpoint;
use protocol::message::parts::{EmbeddingGradient, Values};
use protocol::{LocalVariant, Measurements, NameError, PartyId, Plan};
use serde_json::Value;
use traffic::{FleetView, Step, Window};

use super::host_loss::Gathering;
use super::sealed_size::check_products;
use super::secure_update::PendingRows;
use crate::memory;

use super::{EXCHANGES, HostLoss, Pace, STATE, failed};

/// The entries of a checkpoint that name the estimated samples, and the tensor with their estimates.
const ESTIMATED: &str = "estimated";
const VIEWS: &str = "views";
/// The same of samples whose embeddings are kept.
const EMBEDDED: &str = "embedded";

/// Windows that are estimated together with a read-out.
const READ_OUT_BLOCK: usize = 512;

/// The host's model with its data and its loss, see the [module](super).
pub struct HostLearner<D> {
    pub(super) model: estimator::HostModel,
    pub(super) data: D,
    pub(super) loss: HostLoss,
    pub(super) pace: Pace,
    parties: BTreeMap<PartyId, usize>,
    pub(super) x: Vec<f32>,
    /// While products are on their way.
    pub(super) pending: PendingRows,
    /// Updates of this exchange that were done with products.
    pub(super) done: u32,
    /// Estimates by the best weights, in the model's own scale.
    estimates: BTreeMap<Window, Vec<f32>>,
    /// What all guests gave for them, one after the other, for a read-out; none without one.
    embedded: Option<BTreeMap<Window, Vec<f32>>>,
}

/// What the first update of an exchange started from.
#[derive(Clone, Debug, PartialEq)]
pub struct HostUpdate {
    /// The loss.
    pub loss: f64,
    /// The gradient of each guest's embedding, `[sample, number]`, by name.
    pub gradients: Vec<(String, Vec<f32>)>,
}

impl<D: WindowSource> HostLearner<D> {
    /// Under a plan; the model moves by [`update_rule`](super::update_rule), and its guests are named as the parties.
    pub fn new(
        model: estimator::HostModel,
        data: D,
        loss: HostLoss,
        plan: &Plan,
    ) -> Result<Self, ModelFailure> {
        let (found, expected) = (data.row_len(), model.input_len());
        if found != expected {
            let problem = format!("found {found} features of a window, expected {expected}");
            return Err(ModelFailure(problem));
        }
        let parties = model.guests().map(|(name, width)| Ok((PartyId::new(name)?, width)));
        let parties = parties.collect::<Result<_, NameError>>().map_err(failed)?;
        check_products(&model, &loss.sources, plan, memory::available())?;
        let (x, pending, done, estimates) = (Vec::new(), PendingRows::None, 0, BTreeMap::new());
        let pace = Pace::new(plan);
        let embedded = None;
        Ok(Self { model, data, loss, pace, parties, x, pending, done, estimates, embedded })
    }

    /// The same, with embeddings of what is estimated kept for [`fit_read_out`](Self::fit_read_out).
    pub(crate) fn keeping_embeddings(self) -> Self {
        Self { embedded: Some(BTreeMap::new()), ..self }
    }

    /// Fits the read-out on those windows of the training and validation part that were estimated with all guests, and
    /// moves the estimates. `study` has the labels.
    pub(crate) fn fit_read_out(&mut self, study: &HostStudy) -> Result<(), ModelFailure> {
        let Some(embedded) = self.embedded.take() else { return Ok(()) };
        let widths: Vec<(String, usize)> =
            self.model.guests().map(|(name, width)| (name.to_owned(), width)).collect();
        let of_windows = |windows: &[Window]| {
            let rows: Option<Vec<&Vec<f32>>> =
                windows.iter().map(|one| embedded.get(one)).collect();
            let rows = rows?;
            let mut begin = 0;
            let of_guest = |(name, width): &(String, usize)| {
                let own = begin..begin + width;
                begin = own.end;
                let numbers = rows.iter().flat_map(|row| &row[own.clone()]).copied();
                (name.clone(), numbers.collect::<Vec<f32>>())
            };
            Some(widths.iter().map(of_guest).collect::<BTreeMap<_, _>>())
        };
        let fitted = study.fit_read_out(&mut self.model, |steps| {
            let windows: Vec<Window> = steps.iter().map(|&last| Window::whole(last)).collect();
            Ok(of_windows(&windows))
        });
        fitted.map_err(failed)?;
        let windows: Vec<Window> = embedded.keys().copied().collect();
        for block in windows.chunks(READ_OUT_BLOCK) {
            let Some(given) = of_windows(block) else { continue };
            let given = given.iter().map(|(name, z)| (name.as_str(), z.as_slice())).collect();
            let mut y = self.outputs(block);
            self.model.infer_best(&self.x, &given, &mut y).map_err(failed)?;
            let rows = y.chunks_exact(self.model.output_len()).map(<[f32]>::to_vec);
            self.estimates.extend(block.iter().copied().zip(rows));
        }
        Ok(())
    }

    /// The model.
    pub fn host_model(&self) -> &estimator::HostModel {
        &self.model
    }

    /// What was estimated of whole fleets, in the model's own scale.
    pub fn estimates(&self) -> BTreeMap<Step, Vec<f32>> {
        let whole = self.estimates.iter().filter(|(sample, _)| sample.view == FleetView::WHOLE);
        whole.map(|(sample, y)| (sample.last, y.clone())).collect()
    }

    /// What was estimated in views of folds, in the model's own scale.
    pub(crate) fn estimates_in_views(&self) -> impl Iterator<Item = (Window, &[f32])> {
        let views = self.estimates.iter().filter(|(sample, _)| sample.view != FleetView::WHOLE);
        views.map(|(sample, y)| (*sample, y.as_slice()))
    }

    /// All updates of an exchange, from what the guests gave and measured; none if there is nothing to learn from.
    pub(crate) fn learn_from(
        &mut self,
        samples: &[Window],
        embeddings: &estimator::Embeddings<'_>,
        measured: &BTreeMap<PartyId, Measurements>,
    ) -> Result<Option<HostUpdate>, ModelFailure> {
        gather_rows(&self.data, samples, &mut self.x);
        let rate = self.pace.rate();
        let gathered = Gathering::of(&self.loss.sources, samples, measured)?;
        let measured = gathered.batch();
        if !self.loss.objective.has_terms(&measured) {
            // An update would be decay and momentum alone.
            self.pace.exchanges += 1;
            return Ok(None);
        }
        self.model.begin_round();
        let mut first = HostUpdate { loss: 0.0, gradients: Vec::new() };
        for update in 0..self.pace.local.of_host() {
            let noise = self.pace.noise(update);
            if update == 0 || self.pace.local.variant == LocalVariant::Recompute {
                let x = &self.x;
                let batch = HostBatch { samples, x, embeddings, measured: &measured };
                let objective = self.loss.objective.as_mut();
                let loss = self.model.train(&batch, objective, noise).map_err(failed)?;
                objective.update();
                if update == 0 {
                    let guests = embeddings.keys();
                    let gradients = guests.filter_map(|guest| {
                        Some(((*guest).to_owned(), self.model.gradient_of(guest)?.to_vec()))
                    });
                    first = HostUpdate { loss, gradients: gradients.collect() };
                }
            }
            self.model.update(rate);
        }
        self.pace.exchanges += 1;
        Ok(Some(first))
    }

    /// Adds the validation losses of some samples to `total`, and gives the sum.
    pub(crate) fn validate(
        &mut self,
        samples: &[Window],
        embeddings: &estimator::Embeddings<'_>,
        measured: &BTreeMap<PartyId, Measurements>,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        let y = self.infer(samples, embeddings)?;
        let gathered = Gathering::of(&self.loss.sources, samples, measured)?;
        self.loss.objective.validate(samples, &gathered.batch(), &y, total).map_err(failed)
    }

    /// Estimates by the weights that are validated, in the model's own scale.
    pub fn infer(
        &mut self,
        samples: &[Window],
        embeddings: &estimator::Embeddings<'_>,
    ) -> Result<Vec<f32>, ModelFailure> {
        let mut y = self.outputs(samples);
        self.model.infer(&self.x, embeddings, &mut y).map_err(failed)?;
        Ok(y)
    }

    /// Numbers that all guests give for a sample.
    fn embedding_width(&self) -> usize {
        self.model.guests().map(|(_, width)| width).sum()
    }

    pub(super) fn outputs(&mut self, samples: &[Window]) -> Vec<f32> {
        gather_rows(&self.data, samples, &mut self.x);
        vec![0.0; samples.len() * self.model.output_len()]
    }
}

/// Those who are there, as the model names them.
pub(super) fn given(embeddings: &Embeddings) -> estimator::Embeddings<'_> {
    let there = |(party, embedding)| match (party, embedding) {
        (party, Some(embedding)) => Some((party, embedding)),
        (_, None) => None,
    };
    let there =
        embeddings.iter().map(|(party, embedding)| (party, embedding.as_ref())).filter_map(there);
    there.map(|(party, embedding)| (party.as_str(), embedding.0.as_slice())).collect()
}

impl<D: WindowSource> HostModel for HostLearner<D> {
    fn widths(&self) -> BTreeMap<PartyId, usize> {
        self.parties.clone()
    }

    fn learn(&mut self, samples: &[Window], answers: &Answers) -> Result<Learned, ModelFailure> {
        let embeddings = given(&answers.embeddings);
        let Some(update) = self.learn_from(samples, &embeddings, &answers.measured)? else {
            return Ok(Learned { loss: None, gradients: BTreeMap::new() });
        };
        let mut gradients = BTreeMap::new();
        for (party, embedding) in &answers.embeddings {
            let gradient = update.gradients.iter().find(|(name, _)| name == party.as_str());
            if let (Some(embedding), Some((_, gradient))) = (embedding, gradient) {
                let values = Values::new(embedding.0.width(), gradient.clone()).map_err(failed)?;
                gradients.insert(party.clone(), EmbeddingGradient(values));
            }
        }
        Ok(Learned { loss: Some(update.loss), gradients })
    }

    fn validate(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        self.validate(samples, &given(&answers.embeddings), &answers.measured, total)
    }

    fn begin_secure_update(
        &mut self,
        samples: &[Window],
        answers: &Answers,
    ) -> Result<Option<ProductRows>, ModelFailure> {
        self.rows_of_training(samples, answers)
    }

    fn write_rows(
        &mut self,
        party: &PartyId,
        rows: Range<usize>,
        to: &mut [f64],
    ) -> Result<(), ModelFailure> {
        self.rows_of(party, rows, to)
    }

    fn finish_secure_update(&mut self, products: &Products) -> Result<Updated, ModelFailure> {
        self.update_by(products)
    }

    fn validate_without_values(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<(f64, ProductRows), ModelFailure> {
        self.rows_of_validation(samples, answers, total)
    }

    fn keep_best(&mut self) {
        self.model.keep_best();
    }

    fn estimate(
        &mut self,
        samples: &[Window],
        embeddings: &Embeddings,
    ) -> Result<(), ModelFailure> {
        let mut y = self.outputs(samples);
        self.model.infer_best(&self.x, &given(embeddings), &mut y).map_err(failed)?;
        let rows = y.chunks_exact(self.model.output_len()).map(<[f32]>::to_vec);
        self.estimates.extend(samples.iter().copied().zip(rows));
        if let Some(embedded) = &mut self.embedded {
            let guests: Vec<_> = self.model.guests().collect();
            for (at, sample) in samples.iter().enumerate() {
                let of_guest = |(name, width): &(&str, usize)| {
                    let party = embeddings.iter().find(|(party, _)| party.as_str() == *name);
                    let numbers = party.and_then(|(_, embedding)| embedding.as_ref());
                    numbers.map(|numbers| &numbers.0.as_slice()[at * width..][..*width])
                };
                let row: Option<Vec<&[f32]>> = guests.iter().map(of_guest).collect();
                match row {
                    Some(row) => embedded.insert(*sample, row.concat()),
                    None => embedded.remove(sample),
                };
            }
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let mut checkpoint = self.model.save();
        checkpoint.set(EXCHANGES, self.pace.exchanges);
        let steps: Vec<i64> = self.estimates.keys().map(|sample| sample.last.0).collect();
        let views: Vec<u16> = self.estimates.keys().map(|sample| sample.view.0).collect();
        let numbers: Vec<f32> = self.estimates.values().flatten().copied().collect();
        checkpoint.put(ESTIMATED, &[steps.len(), self.model.output_len()], &numbers);
        checkpoint.set(ESTIMATED, steps);
        checkpoint.set(VIEWS, views);
        if let Some(embedded) = &self.embedded {
            let steps: Vec<i64> = embedded.keys().map(|sample| sample.last.0).collect();
            let numbers: Vec<f32> = embedded.values().flatten().copied().collect();
            checkpoint.put(EMBEDDED, &[steps.len(), self.embedding_width()], &numbers);
            checkpoint.set(EMBEDDED, steps);
        }
        self.loss.objective.save(&mut checkpoint);
        checkpoint.to_bytes(Path::new(STATE)).map_err(failed)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let saved = Checkpoint::parse(saved, Path::new(STATE), PARTY_CHECKPOINT).map_err(failed)?;
        let exchanges = saved.count(EXCHANGES).map_err(failed)?;
        let list = |name| saved.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let steps = list(ESTIMATED);
        let outputs = self.model.output_len();
        let numbers = saved.tensor(ESTIMATED, &[steps.len(), outputs]).map_err(failed)?;
        let steps = steps.iter().filter_map(Value::as_i64).map(Step);
        let views = list(VIEWS);
        let views =
            views.iter().filter_map(|view| Some(FleetView(view.as_u64()?.try_into().ok()?)));
        let samples = steps.zip(views).map(|(last, view)| Window { last, view });
        let estimates = samples.zip(numbers.chunks_exact(outputs).map(<[f32]>::to_vec)).collect();
        let embedded = match &self.embedded {
            None => None,
            Some(_) => {
                let steps = list(EMBEDDED);
                let width = self.embedding_width();
                let numbers = saved.tensor(EMBEDDED, &[steps.len(), width]).map_err(failed)?;
                // A host without guests has nothing of them.
                let row = |at: usize| numbers[at * width..][..width].to_vec();
                let steps = steps.iter().enumerate();
                let window = |(at, step): (usize, &Value)| {
                    Some((Window::whole(Step(step.as_i64()?)), row(at)))
                };
                Some(steps.filter_map(window).collect())
            }
        };
        self.model.load(&saved).map_err(failed)?;
        self.loss.objective.restore(&saved).map_err(failed)?;
        (self.pace.exchanges, self.estimates) = (exchanges, estimates);
        self.embedded = embedded;
        (self.pending, self.done) = (PendingRows::None, 0);
        Ok(())
    }
}
