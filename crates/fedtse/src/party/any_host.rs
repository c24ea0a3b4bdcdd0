//! The host's model, with a sub-model of its own if it brings one along.
//!
//! Such a sub-model sees the host's features in the place of the built-in part, and its outputs have a seat at the
//! head beside the guests'. It is trained like a guest's; only that nothing of it is sent anywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimator::HostStudy;
use federation::fedbcd::{FedHost, OwnGuest, Windows};
use federation::model::{Answers, Embeddings, Learned, Updated};
use federation::{GuestModel, HostModel, ModelFailure, ProductRows, Products};
use protocol::PartyId;
use protocol::message::parts::{Embedding, Values};
use traffic::{Step, Window};

use super::watched::{Outputs, Watched};

/// The name of the host's own sub-model at its head.
pub const OWN_PART: &str = "own-part";

/// What the built-in part sees: the host's features, or nothing if they go elsewhere.
pub struct HostWindows {
    pub study: Arc<HostStudy>,
    pub blind: bool,
}

impl Windows for HostWindows {
    fn input_len(&self) -> usize {
        self.study.input_len()
    }
    fn write_input(&self, sample: Window, to: &mut [f32]) {
        if self.blind {
            to.fill(0.0);
        } else {
            self.study.write_input(sample, to);
        }
    }
}

/// See the [module](self).
pub struct HostOf {
    model: FedHost<HostWindows>,
    own: Option<OwnPart>,
    watched: Option<Watched>,
}

struct OwnPart {
    party: PartyId,
    guest: OwnGuest<Arc<HostStudy>>,
}

impl HostOf {
    pub fn new(
        model: FedHost<HostWindows>,
        own: Option<OwnGuest<Arc<HostStudy>>>,
    ) -> Result<Self, ModelFailure> {
        let party = PartyId::new(OWN_PART).map_err(|error| ModelFailure(error.to_string()))?;
        Ok(Self { model, own: own.map(|guest| OwnPart { party, guest }), watched: None })
    }

    /// The same, with some windows looked at after each epoch.
    pub fn watching(self, watched: Option<Watched>) -> Self {
        Self { watched, ..self }
    }

    /// What was given for those windows after each epoch.
    pub fn epochs(&self) -> &[Outputs] {
        self.watched.as_ref().map_or(&[], Watched::epochs)
    }

    pub fn host_model(&self) -> &estimator::HostModel {
        self.model.host_model()
    }

    pub fn estimates(&self) -> BTreeMap<Step, Vec<f32>> {
        self.model.estimates()
    }

    /// The best state of a sub-model that was brought along.
    pub fn own_best(&self) -> Result<Option<&[u8]>, ModelFailure> {
        self.own.as_ref().map(|own| own.guest.best()).transpose()
    }

    /// Tells the weights that were kept.
    pub fn digest(&self) -> String {
        let head = super::digest(self.host_model().best());
        match &self.own {
            None => head,
            Some(own) => {
                let part = super::digest_bytes(own.guest.best().unwrap_or_default());
                format!("{head}-{part}")
            }
        }
    }

    /// A sub-model that was brought along has its best weights from now on.
    pub fn settle(&mut self) -> Result<(), ModelFailure> {
        self.own.as_mut().map_or(Ok(()), |own| own.guest.settle())
    }

    fn judge_all(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        let Some(own) = &mut self.own else { return self.model.judge(samples, answers, total) };
        let z = own.guest.judge(samples)?;
        let embeddings = own.beside(&answers.embeddings, z)?;
        self.model.judge(samples, &Answers { embeddings, ..answers.clone() }, total)
    }

    fn apart(&self) -> Result<(), ModelFailure> {
        match self.own {
            None => Ok(()),
            Some(_) => Err(ModelFailure(
                "sealed products: found a sub-model of the host's own, expected the built-in one"
                    .into(),
            )),
        }
    }
}

impl OwnPart {
    /// The embeddings with its own.
    fn beside(&self, embeddings: &Embeddings, z: Vec<f32>) -> Result<Embeddings, ModelFailure> {
        let values = Values::new(self.guest.width(), z);
        let values = values.map_err(|error| ModelFailure(error.to_string()))?;
        let mut all = embeddings.clone();
        all.insert(self.party.clone(), Some(Embedding(values)));
        Ok(all)
    }
}

impl HostModel for HostOf {
    fn widths(&self) -> BTreeMap<PartyId, usize> {
        let mut widths = self.model.widths();
        if let Some(own) = &self.own {
            widths.remove(&own.party);
        }
        widths
    }

    fn learn(&mut self, samples: &[Window], answers: &Answers) -> Result<Learned, ModelFailure> {
        let Some(own) = &mut self.own else { return self.model.learn(samples, answers) };
        let z = own.guest.embed(samples)?;
        let embeddings = own.beside(&answers.embeddings, z)?;
        let answers = Answers { embeddings, ..answers.clone() };
        let mut learned = self.model.learn(samples, &answers)?;
        match learned.gradients.remove(&own.party) {
            Some(gradient) => own.guest.learn(&gradient)?,
            None => own.guest.pass(),
        }
        Ok(learned)
    }

    fn judge(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<f64, ModelFailure> {
        let Some(watched) = &mut self.watched else {
            return self.judge_all(samples, answers, total);
        };
        match watched.look(self.model.host_model(), samples, &answers.embeddings)? {
            None => Ok(total),
            Some((samples, embeddings)) => {
                let answers = Answers { embeddings, ..Answers::default() };
                self.judge_all(&samples, &answers, total)
            }
        }
    }

    fn begin_secure_update(
        &mut self,
        samples: &[Window],
        answers: &Answers,
    ) -> Result<Option<ProductRows>, ModelFailure> {
        self.apart()?;
        self.model.begin_secure_update(samples, answers)
    }

    fn finish_secure_update(&mut self, products: &Products) -> Result<Updated, ModelFailure> {
        self.apart()?;
        self.model.finish_secure_update(products)
    }

    fn judge_without_values(
        &mut self,
        samples: &[Window],
        answers: &Answers,
        total: f64,
    ) -> Result<(f64, ProductRows), ModelFailure> {
        self.apart()?;
        self.model.judge_without_values(samples, answers, total)
    }

    fn keep_best(&mut self) {
        self.model.keep_best();
        if let Some(own) = &mut self.own {
            own.guest.keep_best();
        }
    }

    fn estimate(
        &mut self,
        samples: &[Window],
        embeddings: &Embeddings,
    ) -> Result<(), ModelFailure> {
        let Some(own) = &mut self.own else { return self.model.estimate(samples, embeddings) };
        let z = own.guest.estimate(samples)?;
        let embeddings = own.beside(embeddings, z)?;
        self.model.estimate(samples, &embeddings)
    }

    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let saved = self.model.save()?;
        let Some(own) = &self.own else { return Ok(saved) };
        let mut bytes = (saved.len() as u64).to_le_bytes().to_vec();
        bytes.extend(saved);
        bytes.extend(own.guest.save()?);
        Ok(bytes)
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let Some(own) = &mut self.own else { return self.model.restore(saved) };
        let parts = saved.split_first_chunk::<8>().and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
        });
        let (model, part) = parts.ok_or_else(|| {
            ModelFailure("the host's state: found other bytes, expected model and own part".into())
        })?;
        own.guest.restore(part)?;
        self.model.restore(model)
    }
}
