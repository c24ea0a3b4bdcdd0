//! A guest's model with its data: of built-in layers, or a custom sub-model.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimator::artifact::no_weights;
use estimator::{EmbeddingShape, LayerSubModel, PartyWeights, SubModel, SubModelKind};
use federation::{AbsencePolicy, GuestModel, ModelFailure};
use protocol::Measurements;
use protocol::message::parts::EmbeddingGradient;
use traffic::Window;

use super::guest_part::GuestWindows;
use crate::learner::{CustomGuestLearner, CustomSubModel, GuestLearner};

/// A guest's model with its data.
pub enum GuestParty {
    /// Of built-in layers.
    Layers(Box<GuestLearner<LayerSubModel, GuestWindows>>),
    /// A custom sub-model.
    Custom(Box<CustomGuestLearner<GuestWindows>>),
}

/// A custom sub-model, and how to make it.
#[derive(Clone)]
pub struct CustomSubModelSpec {
    /// [`SubModelKind::Custom`] or [`SubModelKind::CustomByStep`]: how it wants its features.
    pub kind: SubModelKind,
    /// What it gives; the architecture's own if none.
    pub embedding: Option<EmbeddingShape>,
    /// Makes it, with its first weights.
    pub make: MakeCustomSubModel,
}

/// Makes a sub-model, given the shape of a sample of its input.
pub type MakeCustomSubModel =
    Arc<dyn Fn(&[usize]) -> Result<Box<dyn CustomSubModel>, ModelFailure> + Send + Sync>;

/// The custom sub-models of a federation.
#[derive(Clone)]
pub struct CustomSubModels {
    /// The host's sub-model.
    pub host: Option<CustomSubModelSpec>,
    /// Sub-models by the names of their guests.
    pub guests: BTreeMap<String, CustomSubModelSpec>,
    /// What the host does without a guest whose sub-model fails.
    pub absent: AbsencePolicy,
}

impl Default for CustomSubModels {
    fn default() -> Self {
        Self { host: None, guests: BTreeMap::new(), absent: AbsencePolicy::Wait }
    }
}

impl CustomSubModels {
    /// Whether all sub-models are built-in ones.
    pub fn is_empty(&self) -> bool {
        self.host.is_none() && self.guests.is_empty()
    }
}

impl GuestParty {
    /// The sub-model, if it is of built-in layers.
    pub(crate) fn layers(&self) -> Option<&LayerSubModel> {
        match self {
            GuestParty::Layers(guest) => Some(guest.sub_model()),
            GuestParty::Custom(_) => None,
        }
    }

    /// The best weights of built-in layers, and the best state of a custom sub-model.
    pub fn save_best(&self) -> Result<(PartyWeights, Option<&[u8]>), ModelFailure> {
        match self {
            GuestParty::Layers(guest) => Ok((guest.sub_model().save_best(), None)),
            GuestParty::Custom(guest) => Ok((no_weights(), Some(guest.best()?))),
        }
    }

    /// Tells the weights that were kept.
    pub fn digest(&self) -> String {
        match self {
            GuestParty::Layers(guest) => super::digest(guest.sub_model().best()),
            GuestParty::Custom(guest) => super::digest_bytes(guest.best().unwrap_or_default()),
        }
    }

    /// Gives a custom sub-model its best weights, for good.
    pub fn settle(&mut self) -> Result<(), ModelFailure> {
        match self {
            GuestParty::Layers(_) => Ok(()),
            GuestParty::Custom(guest) => guest.settle(),
        }
    }
}

/// Does the same with either.
macro_rules! either {
    ($self:ident, $guest:ident => $does:expr) => {
        match $self {
            GuestParty::Layers($guest) => $does,
            GuestParty::Custom($guest) => $does,
        }
    };
}

impl GuestModel for GuestParty {
    fn width(&self) -> usize {
        either!(self, guest => guest.width())
    }
    fn embed(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        either!(self, guest => guest.embed(samples))
    }
    fn skip_to(&mut self, exchanges: u64) {
        either!(self, guest => guest.skip_to(exchanges));
    }
    fn learn(&mut self, gradient: &EmbeddingGradient) -> Result<(), ModelFailure> {
        either!(self, guest => guest.learn(gradient))
    }
    fn skip_update(&mut self) {
        either!(self, guest => guest.skip_update());
    }
    fn validate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        either!(self, guest => guest.validate(samples))
    }
    fn keep_best(&mut self) {
        either!(self, guest => guest.keep_best());
    }
    fn estimate(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        either!(self, guest => guest.estimate(samples))
    }
    fn measure(&self, samples: &[Window]) -> Result<Measurements, ModelFailure> {
        either!(self, guest => guest.measure(samples))
    }
    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        either!(self, guest => guest.save())
    }
    fn restore(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        either!(self, guest => guest.restore(saved))
    }
}
