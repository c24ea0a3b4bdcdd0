//! The host's model, with a custom sub-model if there is one.
//!
//! Such a sub-model sees the host's features in place of the built-in part, and its outputs have a slot at the
//! head beside the guests'. It is trained like a guest's, but nothing of it is sent.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use estimator::{HostStudy, WindowSource};
use federation::model::{Answers, Embeddings, Learned, Updated};
use federation::{GuestModel, HostModel, ModelFailure, ProductRows, Products};
use protocol::PartyId;
use protocol::message::parts::{Embedding, Values};
use traffic::{Step, Window};

use crate::learner::{CustomGuestLearner, HostLearner};
use crate::watched::{Outputs, WatchedWindows};

/// The name of the host's custom sub-model at its head.
pub const HOST_SUB_MODEL: &str = "own-part";

/// What the built-in part sees: the host's features, or nothing if they go elsewhere.
pub struct HostWindows {
    /// The features.
    pub study: Arc<HostStudy>,
    /// Whether it sees nothing.
    pub blind: bool,
}

impl WindowSource for HostWindows {
    fn row_len(&self) -> usize {
        self.study.row_len()
    }
    fn write_row(&self, sample: Window, to: &mut [f32]) {
        if self.blind {
            to.fill(0.0);
        } else {
            self.study.write_row(sample, to);
        }
    }
}

/// The host of a federation, with its data and the sub-model that it may bring.
pub struct HostParty {
    model: HostLearner<HostWindows>,
    custom: Option<CustomPart>,
    watched: Option<WatchedWindows>,
}

struct CustomPart {
    party: PartyId,
    guest: CustomGuestLearner<Arc<HostStudy>>,
}

impl HostParty {
    /// A model and, if there is one, a custom sub-model.
    pub fn new(
        model: HostLearner<HostWindows>,
        custom: Option<CustomGuestLearner<Arc<HostStudy>>>,
    ) -> Result<Self, ModelFailure> {
        let party =
            PartyId::new(HOST_SUB_MODEL).map_err(|error| ModelFailure(error.to_string()))?;
        Ok(Self { model, custom: custom.map(|guest| CustomPart { party, guest }), watched: None })
    }

    /// The same, with some windows looked at after each epoch.
    pub(crate) fn watching(self, watched: Option<WatchedWindows>) -> Self {
        Self { watched, ..self }
    }

    /// What was given for those windows after each epoch.
    pub(crate) fn epochs(&self) -> &[Outputs] {
        self.watched.as_ref().map_or(&[], WatchedWindows::epochs)
    }

    /// The built-in part and head.
    pub fn host_model(&self) -> &estimator::HostModel {
        self.model.host_model()
    }

    /// What was estimated of whole fleets by the best weights, in the model's own scale.
    pub(crate) fn estimates(&self) -> BTreeMap<Step, Vec<f32>> {
        self.model.estimates()
    }

    /// What was estimated in views of folds.
    pub(crate) fn estimates_in_views(&self) -> impl Iterator<Item = (Window, &[f32])> {
        self.model.estimates_in_views()
    }

    /// Fits the read-out on the labels of a study, and moves the estimates; without labels there is none.
    pub(crate) fn fit_read_out(&mut self, study: &HostStudy) -> Result<(), ModelFailure> {
        self.model.fit_read_out(study)
    }

    /// The best state of a custom sub-model.
    pub fn custom_best(&self) -> Result<Option<&[u8]>, ModelFailure> {
        self.custom.as_ref().map(|custom| custom.guest.best()).transpose()
    }

    /// Tells the weights that were kept.
    pub fn digest(&self) -> String {
        let head = super::digest(self.host_model().best());
        match &self.custom {
            None => head,
            Some(custom) => {
                let part = super::digest_bytes(custom.guest.best().unwrap_or_default());
                format!("{head}-{part}")
            }
        }
    }

    /// Gives a custom sub-model its best weights, for good.
    pub fn settle(&mut self) -> Result<(), ModelFailure> {
        self.custom.as_mut().map_or(Ok(()), |custom| custom.guest.settle())
    }

    fn validate_all(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        let Some(custom) = &mut self.custom else {
            return HostModel::validate(&mut self.model, samples, answers, total);
        };
        let z = custom.guest.validate(samples)?;
        let embeddings = custom.beside(&answers.embeddings, z)?;
        let answers = Answers { embeddings, ..answers.clone() };
        HostModel::validate(&mut self.model, samples, &answers, total)
    }

    fn check_built_in(&self) -> Result<(), ModelFailure> {
        match self.custom {
            None => Ok(()),
            Some(_) => Err(ModelFailure(
                "sealed products: found a custom sub-model of the host, expected the built-in one"
                    .into(),
            )),
        }
    }
}

impl CustomPart {
    /// The embeddings with its own.
    fn beside(&self, embeddings: &Embeddings, z: Vec<f32>) -> Result<Embeddings, ModelFailure> {
        let values = Values::new(self.guest.width(), z);
        let values = values.map_err(|error| ModelFailure(error.to_string()))?;
        let mut all = embeddings.clone();
        all.insert(self.party.clone(), Some(Embedding(values)));
        Ok(all)
    }
}

impl HostModel for HostParty {
    fn widths(&self) -> BTreeMap<PartyId, usize> {
        let mut widths = self.model.widths();
        if let Some(custom) = &self.custom {
            widths.remove(&custom.party);
        }
        widths
    }

    fn learn(&mut self, samples: &[Window], answers: &Answers) -> Result<Learned, ModelFailure> {
        let Some(custom) = &mut self.custom else { return self.model.learn(samples, answers) };
        let z = custom.guest.embed(samples)?;
        let embeddings = custom.beside(&answers.embeddings, z)?;
        let answers = Answers { embeddings, ..answers.clone() };
        let mut learned = self.model.learn(samples, &answers)?;
        match learned.gradients.remove(&custom.party) {
            Some(gradient) => custom.guest.learn(&gradient)?,
            None => custom.guest.skip_update(),
        }
        Ok(learned)
    }

    fn validate(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        let Some(watched) = &mut self.watched else {
            return self.validate_all(samples, answers, total);
        };
        match watched.look(self.model.host_model(), samples, &answers.embeddings)? {
            None => Ok(total),
            Some((samples, embeddings)) => {
                let answers = Answers { embeddings, ..Answers::default() };
                self.validate_all(&samples, &answers, total)
            }
        }
    }

    fn begin_secure_update(
        &mut self,
        samples: &[Window],
        answers: &Answers,
    ) -> Result<Option<ProductRows>, ModelFailure> {
        self.check_built_in()?;
        self.model.begin_secure_update(samples, answers)
    }

    fn write_rows(
        &mut self,
        party: &PartyId,
        rows: Range<usize>,
        to: &mut [f64],
    ) -> Result<(), ModelFailure> {
        self.check_built_in()?;
        self.model.write_rows(party, rows, to)
    }

    fn finish_secure_update(&mut self, products: &Products) -> Result<Updated, ModelFailure> {
        self.check_built_in()?;
        self.model.finish_secure_update(products)
    }

    fn validate_without_values(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<(f64, ProductRows), ModelFailure> {
        self.check_built_in()?;
        self.model.validate_without_values(samples, answers, total)
    }

    fn keep_best(&mut self) {
        self.model.keep_best();
        if let Some(custom) = &mut self.custom {
            custom.guest.keep_best();
        }
    }

    fn estimate(
        &mut self,
        samples: &[Window],
        embeddings: &Embeddings,
    ) -> Result<(), ModelFailure> {
        let Some(custom) = &mut self.custom else {
            return self.model.estimate(samples, embeddings);
        };
        let z = custom.guest.estimate(samples)?;
        let embeddings = custom.beside(embeddings, z)?;
        self.model.estimate(samples, &embeddings)
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let saved = self.model.save()?;
        let Some(custom) = &self.custom else { return Ok(saved) };
        let mut bytes = (saved.len() as u64).to_le_bytes().to_vec();
        bytes.extend(saved);
        bytes.extend(custom.guest.save()?);
        Ok(bytes)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let Some(custom) = &mut self.custom else { return self.model.restore(saved) };
        let parts = saved.split_first_chunk::<8>().and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
        });
        let (model, part) = parts.ok_or_else(|| {
            ModelFailure(
                "the host's state: found other bytes, expected model and custom sub-model".into(),
            )
        })?;
        custom.guest.restore(part)?;
        self.model.restore(model)
    }
}
