//! A host's model that also estimates some windows after each epoch, to draw learning curves.
//!
//! The windows are embedded together with the validation part, but neither learned from nor judged
//! by: the weights are those of a run that is not watched.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimator::HostStudy;
use federation::message::parts::{Embedding, Values};
use federation::model::{Embeddings, Learned};
use federation::{HostModel, ModelFailure, PartyId, Samples};
use traffic::Step;

use crate::party::host_part::HostOf;

/// What the model gave for each window, in its own scale.
pub type Outputs = BTreeMap<Step, Vec<f32>>;

/// See the [module](self).
pub struct Watched {
    model: HostOf,
    data: Arc<HostStudy>,
    /// The windows that are judged by, and those that are looked at.
    judged: Vec<Step>,
    watched: Vec<Step>,
    current: Outputs,
    epochs: Vec<Outputs>,
}

/// The samples of a run that is watched: what is looked at comes with the validation part.
pub fn with_watched(mut samples: Samples, windows: &[Step]) -> Samples {
    let more: Vec<Step> =
        windows.iter().copied().filter(|step| !samples.validation.contains(step)).collect();
    samples.validation.extend(more);
    samples
}

impl Watched {
    /// Looks at some windows, or at none.
    pub fn new(model: HostOf, data: Arc<HostStudy>, windows: &[Step]) -> Self {
        let mut watched = windows.to_vec();
        watched.sort_unstable();
        let judged = data.split().validation.clone();
        Self { model, data, judged, watched, current: Outputs::new(), epochs: Vec::new() }
    }

    pub fn model(&self) -> &HostOf {
        &self.model
    }

    pub fn model_mut(&mut self) -> &mut HostOf {
        &mut self.model
    }

    /// What was given for the windows after each epoch.
    pub fn epochs(&self) -> &[Outputs] {
        &self.epochs
    }

    fn look(&mut self, steps: &[Step], embeddings: &Embeddings) -> Result<(), ModelFailure> {
        let inputs = self.data.inputs();
        let mut x = vec![0.0; steps.len() * inputs.len()];
        for (&step, x) in steps.iter().zip(x.chunks_exact_mut(inputs.len())) {
            inputs.write(step, x);
        }
        let there = embeddings.iter().filter_map(|(party, embedding)| {
            Some((party.as_str(), embedding.as_ref()?.0.as_slice()))
        });
        let mut y = vec![0.0; steps.len() * self.data.outputs()];
        self.model
            .host_model()
            .infer(&x, &there.collect(), &mut y)
            .map_err(|error| ModelFailure(error.to_string()))?;
        for (&step, y) in steps.iter().zip(y.chunks_exact(self.data.outputs())) {
            if self.watched.binary_search(&step).is_ok() {
                self.current.insert(step, y.to_vec());
            }
        }
        if self.current.len() == self.watched.len() {
            self.epochs.push(std::mem::take(&mut self.current));
        }
        Ok(())
    }
}

/// The embeddings of some of the samples, by their places.
fn some_of(embeddings: &Embeddings, places: &[usize]) -> Result<Embeddings, ModelFailure> {
    let mut some = Embeddings::new();
    for (party, embedding) in embeddings {
        let chosen = match embedding {
            Some(embedding) => {
                let (all, width) = (embedding.0.as_slice(), embedding.0.width());
                let rows = places.iter().flat_map(|place| &all[place * width..][..width]);
                let values = Values::new(width, rows.copied().collect())
                    .map_err(|error| ModelFailure(error.to_string()))?;
                Some(Embedding(values))
            }
            None => None,
        };
        some.insert(party.clone(), chosen);
    }
    Ok(some)
}

impl HostModel for Watched {
    fn widths(&self) -> BTreeMap<PartyId, usize> {
        self.model.widths()
    }

    fn learn(&mut self, steps: &[Step], embeddings: &Embeddings) -> Result<Learned, ModelFailure> {
        self.model.learn(steps, embeddings)
    }

    fn judge(
        &mut self,
        steps: &[Step],
        embeddings: &Embeddings,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        if self.watched.is_empty() {
            return self.model.judge(steps, embeddings, total);
        }
        self.look(steps, embeddings)?;
        let is_judged = |place: &usize| self.judged.binary_search(&steps[*place]).is_ok();
        let places: Vec<usize> = (0..steps.len()).filter(is_judged).collect();
        if places.is_empty() {
            return Ok(total);
        }
        let judged: Vec<Step> = places.iter().map(|&place| steps[place]).collect();
        self.model.judge(&judged, &some_of(embeddings, &places)?, total)
    }

    fn keep_best(&mut self) {
        self.model.keep_best();
    }

    fn estimate(&mut self, steps: &[Step], embeddings: &Embeddings) -> Result<(), ModelFailure> {
        self.model.estimate(steps, embeddings)
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        self.model.save()
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        self.model.restore(saved)
    }
}
