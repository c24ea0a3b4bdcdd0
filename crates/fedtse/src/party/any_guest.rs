//! A guest's model, whatever it is made of: our layers, or what the guest brings along.

use std::collections::BTreeMap;
use std::sync::Arc;

use estimator::{EmbeddingShape, LayerSubModel, PartyWeights, SubModel, SubModelKind, no_weights};
use federation::fedbcd::{FedGuest, OwnGuest, OwnSubModel};
use federation::{Absent, GuestModel, ModelFailure};
use protocol::Measurements;
use protocol::message::parts::EmbeddingGradient;
use traffic::Window;

use super::guest_part::GuestWindows;

/// A guest's model with its data.
pub enum GuestOf {
    /// Of our layers.
    Layers(Box<FedGuest<LayerSubModel, GuestWindows>>),
    /// Its own.
    Own(OwnGuest<GuestWindows>),
}

/// A sub-model that a guest brings along.
#[derive(Clone)]
pub struct Own {
    /// [`SubModelKind::Own`] or [`SubModelKind::OwnByStep`]: how it wants its features.
    pub kind: SubModelKind,
    /// What it gives; the architecture's own if none.
    pub crossing: Option<EmbeddingShape>,
    /// Makes it, with its first weights.
    pub make: MakeOwn,
}

/// Makes a sub-model, given the shape of a sample of its input.
pub type MakeOwn =
    Arc<dyn Fn(&[usize]) -> Result<Box<dyn OwnSubModel>, ModelFailure> + Send + Sync>;

/// What the parties of a federation bring along.
#[derive(Clone)]
pub struct Brought {
    /// The host's sub-model.
    pub host: Option<Own>,
    /// Sub-models by the names of their guests.
    pub guests: BTreeMap<String, Own>,
    /// What the host does without a guest whose sub-model fails.
    pub absent: Absent,
}

impl Default for Brought {
    fn default() -> Self {
        Self { host: None, guests: BTreeMap::new(), absent: Absent::Wait }
    }
}

impl Brought {
    /// Whether all sub-models are built-in ones.
    pub fn is_empty(&self) -> bool {
        self.host.is_none() && self.guests.is_empty()
    }
}

impl GuestOf {
    /// The best weights, of our layers.
    pub fn layers(&self) -> Option<&LayerSubModel> {
        match self {
            GuestOf::Layers(guest) => Some(guest.sub_model()),
            GuestOf::Own(_) => None,
        }
    }

    /// The best weights alone: of our layers; and the best state of a model that was brought along.
    pub fn save_best(&self) -> Result<(PartyWeights, Option<&[u8]>), ModelFailure> {
        match self {
            GuestOf::Layers(guest) => Ok((guest.sub_model().save_best(), None)),
            GuestOf::Own(guest) => Ok((no_weights(), Some(guest.best()?))),
        }
    }

    /// Tells the weights that were kept.
    pub fn digest(&self) -> String {
        match self {
            GuestOf::Layers(guest) => super::digest(guest.sub_model().best()),
            GuestOf::Own(guest) => super::digest_bytes(guest.best().unwrap_or_default()),
        }
    }

    /// A model that was brought along has its best weights from now on.
    pub fn settle(&mut self) -> Result<(), ModelFailure> {
        match self {
            GuestOf::Layers(_) => Ok(()),
            GuestOf::Own(guest) => guest.settle(),
        }
    }
}

/// Does the same with either.
macro_rules! either {
    ($self:ident, $guest:ident => $does:expr) => {
        match $self {
            GuestOf::Layers($guest) => $does,
            GuestOf::Own($guest) => $does,
        }
    };
}

impl GuestModel for GuestOf {
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
    fn pass(&mut self) {
        either!(self, guest => guest.pass());
    }
    fn judge(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        either!(self, guest => guest.judge(samples))
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
