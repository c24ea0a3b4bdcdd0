//! What a host's model estimates of some windows after each epoch, to draw learning curves.
//!
//! The windows are embedded together with the validation part, but neither learned from nor validated
//! by: the weights are those of a run that is not watched. Only runs that learn from labels are watched:
//! measurements come in segments, which single windows would tear apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimator::HostStudy;
use federation::model::Embeddings;
use federation::{ModelFailure, Samples};
use protocol::message::parts::{Embedding, Values};
use traffic::{Step, Window};

/// What the model gave for each window, in its own scale.
pub type Outputs = BTreeMap<Step, Vec<f32>>;

/// See the [module](self).
pub(crate) struct WatchedWindows {
    data: Arc<HostStudy>,
    /// The windows that are validated by, and those that are looked at.
    validated: Vec<Step>,
    watched: Vec<Step>,
    current: Outputs,
    epochs: Vec<Outputs>,
}

/// The samples of a run that is watched: what is looked at comes with the validation part.
pub(crate) fn with_watched(mut samples: Samples, windows: &[Step]) -> Samples {
    let more = windows.iter().map(|&last| Window::whole(last));
    let more: Vec<Window> = more.filter(|sample| !samples.validation.contains(sample)).collect();
    samples.validation.extend(more);
    samples
}

impl WatchedWindows {
    /// Looks at some windows; nothing without any.
    pub(crate) fn new(data: Arc<HostStudy>, windows: &[Step]) -> Option<Self> {
        let mut watched = windows.to_vec();
        watched.sort_unstable();
        let validated = data.split().validation.clone();
        let all = Self { data, validated, watched, current: Outputs::new(), epochs: Vec::new() };
        (!all.watched.is_empty()).then_some(all)
    }

    /// What was given for the windows after each epoch.
    pub(crate) fn epochs(&self) -> &[Outputs] {
        &self.epochs
    }

    /// Looks at the samples that it watches, and leaves those to validate by, if there are any.
    pub(crate) fn look(
        &mut self,
        model: &estimator::HostModel,
        samples: &[Window],
        embeddings: &Embeddings,
    ) -> Result<Option<(Vec<Window>, Embeddings)>, ModelFailure> {
        self.note(model, samples, embeddings)?;
        let is_validated =
            |place: &usize| self.validated.binary_search(&samples[*place].last).is_ok();
        let places: Vec<usize> = (0..samples.len()).filter(is_validated).collect();
        if places.is_empty() {
            return Ok(None);
        }
        let validated = places.iter().map(|&place| samples[place]).collect();
        Ok(Some((validated, some_of(embeddings, &places)?)))
    }

    fn note(
        &mut self,
        model: &estimator::HostModel,
        samples: &[Window],
        embeddings: &Embeddings,
    ) -> Result<(), ModelFailure> {
        let inputs = self.data.inputs();
        let mut x = vec![0.0; samples.len() * inputs.len()];
        for (sample, x) in samples.iter().zip(x.chunks_exact_mut(inputs.len())) {
            inputs.write(sample.last, x);
        }
        let there = embeddings.iter().filter_map(|(party, embedding)| {
            Some((party.as_str(), embedding.as_ref()?.0.as_slice()))
        });
        let mut y = vec![0.0; samples.len() * self.data.outputs()];
        model
            .infer(&x, &there.collect(), &mut y)
            .map_err(|error| ModelFailure(error.to_string()))?;
        for (sample, y) in samples.iter().zip(y.chunks_exact(self.data.outputs())) {
            if self.watched.binary_search(&sample.last).is_ok() {
                self.current.insert(sample.last, y.to_vec());
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
