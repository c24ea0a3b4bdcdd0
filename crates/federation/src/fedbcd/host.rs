//! The host's part of FedBCD.

use std::collections::BTreeMap;
use std::path::Path;

use estimator::{HostBatch, Labelled, Labels, MeasuredBatch, Objective, PARTY_CHECKPOINT, Sample};
use neural::Checkpoint;
use serde_json::Value;
use traffic::Step;

use super::{EXCHANGES, LabelledWindows, Pace, STATE, failed, gather};
use crate::message::parts::{EmbeddingGradient, Values};
use crate::model::{Embeddings, HostModel, Learned, ModelFailure};
use crate::party::PartyId;
use crate::plan::{LocalVariant, Plan};

/// The entry of a checkpoint that names the estimated steps, and the tensor with their estimates.
const ESTIMATED: &str = "estimated";

/// The host's model with its data and labels, see the [module](super).
pub struct FedHost<D> {
    model: estimator::HostModel,
    data: D,
    pace: Pace,
    parties: BTreeMap<PartyId, usize>,
    x: Vec<f32>,
    /// Estimates by the best weights, in the model's own scale.
    estimates: BTreeMap<Step, Vec<f32>>,
}

impl<D: LabelledWindows> FedHost<D> {
    /// Under a plan; the model moves by [`Plan::rule`], and its guests are named as the parties.
    pub fn new(model: estimator::HostModel, data: D, plan: &Plan) -> Result<Self, ModelFailure> {
        let pairs = [
            ("features of a window", data.input_len(), model.input_len()),
            ("targets of a window", data.output_len(), model.output_len()),
            ("weights of the loss", data.weights().len(), model.output_len()),
            ("weights of the validation loss", data.judged().len(), model.output_len()),
        ];
        for (what, found, expected) in pairs {
            if found != expected {
                return Err(ModelFailure(format!("found {found} {what}, expected {expected}")));
            }
        }
        let parties = model.guests().map(|(name, width)| Ok((PartyId::new(name)?, width)));
        let parties = parties.collect::<Result<_, crate::party::NameError>>().map_err(failed)?;
        let (x, estimates) = (Vec::new(), BTreeMap::new());
        Ok(Self { model, data, pace: Pace::new(plan), parties, x, estimates })
    }

    /// The model.
    pub fn host_model(&self) -> &estimator::HostModel {
        &self.model
    }

    /// What was estimated, in the model's own scale.
    pub fn estimates(&self) -> &BTreeMap<Step, Vec<f32>> {
        &self.estimates
    }

    fn outputs(&mut self, steps: &[Step]) -> Vec<f32> {
        gather(&self.data, steps, &mut self.x);
        vec![0.0; steps.len() * self.model.output_len()]
    }
}

/// The host's labels as an objective reads them.
struct Truth<'a, D>(&'a D);

impl<D: LabelledWindows> Labels for Truth<'_, D> {
    fn write_label(&self, sample: Sample, to: &mut [f32]) {
        self.0.write_target(sample.last, to);
    }
    fn weights(&self) -> &[f32] {
        self.0.weights()
    }
    fn judged(&self) -> &[f32] {
        self.0.judged()
    }
}

/// Those who are there, as the model names them.
fn given(embeddings: &Embeddings) -> estimator::Embeddings<'_> {
    let there = |(party, embedding)| match (party, embedding) {
        (party, Some(embedding)) => Some((party, embedding)),
        (_, None) => None,
    };
    let there =
        embeddings.iter().map(|(party, embedding)| (party, embedding.as_ref())).filter_map(there);
    there.map(|(party, embedding)| (party.as_str(), embedding.0.as_slice())).collect()
}

impl<D: LabelledWindows> HostModel for FedHost<D> {
    fn widths(&self) -> BTreeMap<PartyId, usize> {
        self.parties.clone()
    }

    fn learn(&mut self, steps: &[Step], embeddings: &Embeddings) -> Result<Learned, ModelFailure> {
        gather(&self.data, steps, &mut self.x);
        let samples: Vec<Sample> = steps.iter().map(|&step| Sample::whole(step)).collect();
        let (given, measured) = (given(embeddings), MeasuredBatch::new());
        let mut objective = Labelled::new(Truth(&self.data));
        let rate = self.pace.rate();
        self.model.begin_round();
        let mut learned = Learned { loss: 0.0, gradients: BTreeMap::new() };
        for update in 0..self.pace.local.count {
            let noise = self.pace.noise(update);
            if update == 0 || self.pace.local.variant == LocalVariant::Recompute {
                let (samples, x) = (&samples, &self.x);
                let batch = HostBatch { samples, x, embeddings: &given, measured: &measured };
                let loss = self.model.train(&batch, &mut objective, noise).map_err(failed)?;
                if update == 0 {
                    learned.loss = loss;
                    learned.gradients = self.gradients(embeddings)?;
                }
            }
            self.model.update(rate);
        }
        self.pace.exchanges += 1;
        Ok(learned)
    }

    fn judge(
        &mut self,
        steps: &[Step],
        embeddings: &Embeddings,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        let mut y = self.outputs(steps);
        self.model.infer(&self.x, &given(embeddings), &mut y).map_err(failed)?;
        let samples: Vec<Sample> = steps.iter().map(|&step| Sample::whole(step)).collect();
        let mut objective = Labelled::new(Truth(&self.data));
        objective.judge(&samples, &MeasuredBatch::new(), &y, total).map_err(failed)
    }

    fn keep_best(&mut self) {
        self.model.keep_best();
    }

    fn estimate(&mut self, steps: &[Step], embeddings: &Embeddings) -> Result<(), ModelFailure> {
        let mut y = self.outputs(steps);
        self.model.infer_best(&self.x, &given(embeddings), &mut y).map_err(failed)?;
        let rows = y.chunks_exact(self.data.output_len()).map(<[f32]>::to_vec);
        self.estimates.extend(steps.iter().copied().zip(rows));
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let mut checkpoint = self.model.save();
        checkpoint.set(EXCHANGES, self.pace.exchanges);
        let steps: Vec<i64> = self.estimates.keys().map(|step| step.0).collect();
        let numbers: Vec<f32> = self.estimates.values().flatten().copied().collect();
        checkpoint.put(ESTIMATED, &[steps.len(), self.data.output_len()], &numbers);
        checkpoint.set(ESTIMATED, steps);
        checkpoint.to_bytes(Path::new(STATE)).map_err(failed)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let saved = Checkpoint::parse(saved, Path::new(STATE), PARTY_CHECKPOINT).map_err(failed)?;
        let exchanges = saved.count(EXCHANGES).map_err(failed)?;
        let steps = saved.get(ESTIMATED).and_then(Value::as_array).cloned().unwrap_or_default();
        let outputs = self.data.output_len();
        let numbers = saved.tensor(ESTIMATED, &[steps.len(), outputs]).map_err(failed)?;
        let steps = steps.iter().filter_map(Value::as_i64).map(Step);
        let estimates = steps.zip(numbers.chunks_exact(outputs).map(<[f32]>::to_vec)).collect();
        self.model.load(&saved).map_err(failed)?;
        (self.pace.exchanges, self.estimates) = (exchanges, estimates);
        Ok(())
    }
}

impl<D> FedHost<D> {
    fn gradients(
        &self,
        embeddings: &Embeddings,
    ) -> Result<BTreeMap<PartyId, EmbeddingGradient>, ModelFailure> {
        let mut gradients = BTreeMap::new();
        for (party, embedding) in embeddings {
            let gradient = self.model.gradient_of(party.as_str());
            if let (Some(embedding), Some(gradient)) = (embedding, gradient) {
                let values = Values::new(embedding.0.width(), gradient.to_vec()).map_err(failed)?;
                gradients.insert(party.clone(), EmbeddingGradient(values));
            }
        }
        Ok(gradients)
    }
}
