//! A guest's part of FedBCD with a custom sub-model, which keeps its weights to itself and updates them itself.

use std::sync::Arc;

use estimator::{MeasurementSource, WindowSource, gather_rows};
use federation::{GuestModel, ModelFailure};
use protocol::message::parts::EmbeddingGradient;
use protocol::{LocalVariant, Measurements, Plan};
use traffic::Window;

use super::Pace;
use super::guest::measurements;

/// A sub-model that the user supplies. All batches are `[sample, number]`.
pub trait CustomSubModel: Send {
    /// Outputs of a batch in training.
    fn forward(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>, ModelFailure>;
    /// One update, from the gradient of the last [`forward`](Self::forward)'s outputs. The plan's learning
    /// rate may be followed or not.
    fn backward(&mut self, gradient: &[f32], samples: usize, rate: f32)
    -> Result<(), ModelFailure>;
    /// Outputs of a batch by the weights as they are, with nothing left to chance.
    fn infer(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>, ModelFailure>;
    /// All that changes in training.
    fn save(&self) -> Result<Vec<u8>, ModelFailure>;
    /// Goes back to what was saved.
    fn load(&mut self, saved: &[u8]) -> Result<(), ModelFailure>;
}

/// Such a sub-model with its data.
pub struct CustomGuestLearner<D> {
    model: Box<dyn CustomSubModel>,
    data: D,
    /// How many numbers it returns for a sample.
    width: usize,
    pace: Pace,
    measured: Vec<Arc<dyn MeasurementSource>>,
    /// Inputs of the last embedding, for the gradient that comes back.
    x: Vec<f32>,
    samples: usize,
    /// The best state so far, or why it could not be saved.
    best: Result<Vec<u8>, String>,
    /// The state that moves, while the model has the best one.
    resting: Option<Vec<u8>>,
}

/// What the bytes of a checkpoint begin with.
const FORMAT: &[u8] = b"fedtse-custom-sub-model/1\n";

impl<D: WindowSource> CustomGuestLearner<D> {
    /// Under a plan.
    pub fn new(
        model: Box<dyn CustomSubModel>,
        data: D,
        width: usize,
        plan: &Plan,
        measured: Vec<Arc<dyn MeasurementSource>>,
    ) -> Result<Self, ModelFailure> {
        let local = plan.local;
        if local.count > 1 && local.variant == LocalVariant::Frozen || local.proximal > 0.0 {
            let problem = "local updates: found `frozen` or a proximal term, expected `recompute` without one: a custom sub-model updates its weights itself";
            return Err(ModelFailure(problem.into()));
        }
        let best = Ok(model.save()?);
        let (x, samples, resting) = (Vec::new(), 0, None);
        let pace = Pace::new(plan);
        Ok(Self { model, data, width, pace, measured, x, samples, best, resting })
    }

    /// Gives the model its best state, for good.
    pub(crate) fn settle(&mut self) -> Result<(), ModelFailure> {
        self.rest()
    }

    /// The best state.
    pub(crate) fn best(&self) -> Result<&[u8], ModelFailure> {
        self.best.as_deref().map_err(|problem| ModelFailure(problem.clone()))
    }

    /// Puts the best state into the model.
    fn rest(&mut self) -> Result<(), ModelFailure> {
        if self.resting.is_none() {
            let moving = self.model.save()?;
            let best = self.best.clone().map_err(ModelFailure)?;
            self.model.load(&best)?;
            self.resting = Some(moving);
        }
        Ok(())
    }

    /// Puts the state that moves into the model.
    fn wake(&mut self) -> Result<(), ModelFailure> {
        if let Some(moving) = &self.resting {
            self.model.load(moving)?;
            self.resting = None;
        }
        Ok(())
    }

    fn inferred(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        let mut x = Vec::new();
        gather_rows(&self.data, samples, &mut x);
        let z = self.model.infer(&x, samples.len())?;
        self.checked(z, samples.len())
    }

    fn checked(&self, z: Vec<f32>, samples: usize) -> Result<Vec<f32>, ModelFailure> {
        let (found, expected) = (z.len(), samples * self.width);
        if found != expected {
            let problem = format!(
                "its outputs: found {found} numbers for {samples} samples, expected {expected}"
            );
            return Err(ModelFailure(problem));
        }
        match z.iter().position(|value| !value.is_finite()) {
            None => Ok(z),
            Some(place) => {
                let problem = format!(
                    "its outputs: found {} at place {place}, expected finite numbers",
                    z[place]
                );
                Err(ModelFailure(problem))
            }
        }
    }
}

impl<D: WindowSource> GuestModel for CustomGuestLearner<D> {
    fn width(&self) -> usize {
        self.width
    }

    fn embed(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        self.wake()?;
        gather_rows(&self.data, samples, &mut self.x);
        self.samples = samples.len();
        let z = self.model.forward(&self.x, self.samples)?;
        self.checked(z, self.samples)
    }

    fn skip_to(&mut self, exchanges: u64) {
        self.pace.exchanges = exchanges;
    }

    fn learn(&mut self, gradient: &EmbeddingGradient) -> Result<(), ModelFailure> {
        for update in 0..self.pace.local.count {
            if update > 0 {
                let z = self.model.forward(&self.x, self.samples)?;
                self.checked(z, self.samples)?;
            }
            let (gradient, rate) = (gradient.0.as_slice(), self.pace.rate());
            self.model.backward(gradient, self.samples, rate)?;
        }
        self.pace.exchanges += 1;
        Ok(())
    }

    fn skip_update(&mut self) {
        self.pace.exchanges += 1;
    }

    fn validate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        self.wake()?;
        self.inferred(samples)
    }

    fn keep_best(&mut self) {
        let saved = self.wake().and_then(|()| self.model.save());
        self.best = saved.map_err(|failure| failure.0);
    }

    fn estimate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        self.rest()?;
        self.inferred(samples)
    }

    fn measure(&self, samples: &[Window]) -> Result<Measurements, ModelFailure> {
        measurements(&self.measured, samples)
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let moving = match &self.resting {
            Some(moving) => moving.clone(),
            None => self.model.save()?,
        };
        let mut bytes = FORMAT.to_vec();
        bytes.extend(self.pace.exchanges.to_le_bytes());
        bytes.extend((moving.len() as u64).to_le_bytes());
        bytes.extend(moving);
        bytes.extend(self.best()?);
        Ok(bytes)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let (exchanges, moving, best) = parts(saved).ok_or_else(|| {
            ModelFailure(
                "the party's state: found other bytes, expected those of a custom sub-model".into(),
            )
        })?;
        self.model.load(moving)?;
        self.pace.exchanges = exchanges;
        (self.best, self.resting) = (Ok(best.to_vec()), None);
        Ok(())
    }
}

/// Exchanges done, the state that moves and the best one.
fn parts(saved: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let rest = saved.strip_prefix(FORMAT)?;
    let (exchanges, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (moving, best) = rest.split_at_checked(length)?;
    Some((u64::from_le_bytes(*exchanges), moving, best))
}

#[cfg(test)]
mod tests;
