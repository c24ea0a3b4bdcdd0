//! A guest's part of FedBCD.

use std::path::Path;

use estimator::{PARTY_CHECKPOINT, SubModel};
use neural::Checkpoint;
use traffic::Step;

use super::{EXCHANGES, Pace, STATE, Windows, failed, gather};
use crate::message::parts::EmbeddingGradient;
use crate::model::{GuestModel, ModelFailure};
use crate::plan::{LocalVariant, Plan};

/// A sub-model with its data, see the [module](super).
pub struct FedGuest<M, D> {
    model: M,
    data: D,
    pace: Pace,
    /// Inputs of the last embedding, for the gradient that comes back.
    x: Vec<f32>,
    z: Vec<f32>,
}

impl<M: SubModel, D: Windows> FedGuest<M, D> {
    /// Under a plan; the model moves by [`Plan::rule`].
    pub fn new(model: M, data: D, plan: &Plan) -> Result<Self, ModelFailure> {
        let (found, expected) = (data.input_len(), model.input_len());
        if found != expected {
            let problem = format!("found {found} features of a window, expected {expected}");
            return Err(ModelFailure(problem));
        }
        Ok(Self { model, data, pace: Pace::new(plan), x: Vec::new(), z: Vec::new() })
    }

    /// The sub-model.
    pub fn sub_model(&self) -> &M {
        &self.model
    }

    fn infer(
        &mut self,
        steps: &[Step],
        with: impl Fn(&M, &[f32], &mut [f32]) -> Result<(), estimator::PassError>,
    ) -> Result<Vec<f32>, ModelFailure> {
        let mut x = Vec::new();
        gather(&self.data, steps, &mut x);
        let mut z = vec![0.0; steps.len() * self.model.output_len()];
        with(&self.model, &x, &mut z).map_err(failed)?;
        Ok(z)
    }
}

impl<M: SubModel, D: Windows> GuestModel for FedGuest<M, D> {
    fn width(&self) -> usize {
        self.model.output_len()
    }

    fn embed(&mut self, steps: &[Step]) -> Result<Vec<f32>, ModelFailure> {
        gather(&self.data, steps, &mut self.x);
        self.z.resize(steps.len() * self.model.output_len(), 0.0);
        self.model.begin_round();
        self.model.forward(&self.x, &mut self.z, self.pace.noise(0)).map_err(failed)?;
        Ok(self.z.clone())
    }

    fn skip_to(&mut self, exchanges: u64) {
        self.pace.exchanges = exchanges;
    }

    fn learn(&mut self, gradient: &EmbeddingGradient) -> Result<(), ModelFailure> {
        let (gradient, rate) = (gradient.0.as_slice(), self.pace.rate());
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

    fn judge(&mut self, steps: &[Step]) -> Result<Vec<f32>, ModelFailure> {
        self.infer(steps, M::infer)
    }

    fn keep_best(&mut self) {
        self.model.keep_best();
    }

    fn estimate(&mut self, steps: &[Step]) -> Result<Vec<f32>, ModelFailure> {
        self.infer(steps, M::infer_best)
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
