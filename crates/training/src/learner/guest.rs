//! A guest's part of FedBCD.

use std::path::Path;
use std::sync::Arc;

use estimator::model::PassError;
use estimator::{MeasurementSource, PARTY_CHECKPOINT, SubModel, WindowSource, gather_rows};
use federation::{GuestModel, ModelFailure};
use neural::Checkpoint;
use protocol::message::parts::EmbeddingGradient;
use protocol::{LocalVariant, Measurements, Plan};
use traffic::Window;

use super::{EXCHANGES, Pace, STATE, failed};

/// A sub-model with its data, see the [module](super).
pub struct GuestLearner<M, D> {
    model: M,
    data: D,
    pace: Pace,
    /// What it measures, kind after kind.
    measured: Vec<Arc<dyn MeasurementSource>>,
    /// Inputs of the last embedding, for the gradient that comes back.
    x: Vec<f32>,
    z: Vec<f32>,
}

impl<M: SubModel, D: WindowSource> GuestLearner<M, D> {
    /// Under a plan; the model moves by [`update_rule`](super::update_rule).
    pub fn new(model: M, data: D, plan: &Plan) -> Result<Self, ModelFailure> {
        let (found, expected) = (data.row_len(), model.input_len());
        if found != expected {
            let problem = format!("found {found} features of a window, expected {expected}");
            return Err(ModelFailure(problem));
        }
        let (measured, x, z) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { model, data, pace: Pace::new(plan), measured, x, z })
    }

    /// The same with what it measures: one for each kind that the plan asks for, in the order of
    /// [`MeasurementKind`](protocol::MeasurementKind)s.
    pub fn measuring(mut self, measured: Vec<Arc<dyn MeasurementSource>>) -> Self {
        self.measured = measured;
        self
    }

    /// The sub-model.
    pub fn sub_model(&self) -> &M {
        &self.model
    }

    /// All updates of an exchange, from the gradient of the last embedding, `[sample, number]`.
    pub(crate) fn learn_from(&mut self, gradient: &[f32]) -> Result<(), ModelFailure> {
        let rate = self.pace.rate();
        for update in 0..self.pace.local.count {
            let noise = self.pace.noise(update);
            if update == 0 || self.pace.local.variant == LocalVariant::Recompute {
                if update > 0 {
                    self.model.forward(&self.x, &mut self.z, noise).map_err(failed)?;
                }
                self.model.backward(&self.x, gradient, noise).map_err(failed)?;
            }
            self.model.update(rate);
        }
        self.pace.exchanges += 1;
        Ok(())
    }

    fn infer(
        &mut self,
        samples: &[Window],
        with: impl Fn(&M, &[f32], &mut [f32]) -> Result<(), PassError>,
    ) -> Result<Vec<f32>, ModelFailure> {
        let mut x = Vec::new();
        gather_rows(&self.data, samples, &mut x);
        let mut z = vec![0.0; samples.len() * self.model.output_len()];
        with(&self.model, &x, &mut z).map_err(failed)?;
        Ok(z)
    }
}

impl<M: SubModel, D: WindowSource> GuestModel for GuestLearner<M, D> {
    fn width(&self) -> usize {
        self.model.output_len()
    }

    fn embed(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        gather_rows(&self.data, samples, &mut self.x);
        self.z.resize(samples.len() * self.model.output_len(), 0.0);
        self.model.begin_round();
        self.model.forward(&self.x, &mut self.z, self.pace.noise(0)).map_err(failed)?;
        Ok(self.z.clone())
    }

    fn skip_to(&mut self, exchanges: u64) {
        self.pace.exchanges = exchanges;
    }

    fn learn(&mut self, gradient: &EmbeddingGradient) -> Result<(), ModelFailure> {
        self.learn_from(gradient.0.as_slice())
    }

    fn skip_update(&mut self) {
        self.pace.exchanges += 1;
    }

    fn validate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        self.infer(samples, M::infer)
    }

    fn keep_best(&mut self) {
        self.model.keep_best();
    }

    fn estimate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        self.infer(samples, M::infer_best)
    }

    fn measure(&self, samples: &[Window]) -> Result<Measurements, ModelFailure> {
        measurements(&self.measured, samples)
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let mut checkpoint = self.model.save();
        checkpoint.set(EXCHANGES, self.pace.exchanges);
        checkpoint.to_bytes(Path::new(STATE)).map_err(failed)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let saved = Checkpoint::parse(saved, Path::new(STATE), PARTY_CHECKPOINT).map_err(failed)?;
        let exchanges = saved.count(EXCHANGES).map_err(failed)?;
        self.model.load(&saved).map_err(failed)?;
        self.pace.exchanges = exchanges;
        Ok(())
    }
}

/// What is measured of samples, kind after kind.
pub(super) fn measurements(
    measured: &[Arc<dyn MeasurementSource>],
    samples: &[Window],
) -> Result<Measurements, ModelFailure> {
    let entries: usize = measured.iter().map(|kind| kind.entries().len()).sum();
    let mut values = vec![0.0; samples.len() * entries];
    let mut weights = values.clone();
    let rows = values.chunks_exact_mut(entries.max(1));
    let rows = rows.zip(weights.chunks_exact_mut(entries.max(1)));
    for (&sample, (mut values, mut weights)) in samples.iter().zip(rows) {
        for kind in measured {
            let (own, others) = values.split_at_mut(kind.entries().len());
            let (own_weights, other_weights) = weights.split_at_mut(own.len());
            kind.write(sample, own, own_weights);
            (values, weights) = (others, other_weights);
        }
    }
    Measurements::new(entries, values, weights).map_err(failed)
}
