//! What is to be trained, with all data in one place or apart.

use serde::{Deserialize, Serialize};

use crate::data::inputs::{Arrangement, GuestInputs, HostInputs};
use crate::data::study::{FeatureSet, GuestFeatures, TargetKind};
use crate::model::architecture::{Architecture, GuestSlot, HostShape};
use crate::model::parts::{EmbeddingShape, GuestShape, SubModelKind};
use crate::model::recipe::Recipe;
use crate::model::sizes::Sizes;

/// What is to be trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeuralPlan {
    /// Which model.
    pub architecture: Architecture,
    /// What it estimates.
    pub target: TargetKind,
    /// Seed of first weights, order and dropout.
    pub seed: u64,
    /// The guests.
    pub guests: Vec<GuestPlan>,
    /// How often, in training, a guest counts as absent for a sample.
    pub party_dropout: f32,
    /// Sizes of the `link` model.
    pub sizes: Sizes,
    /// Other sizes of the host's part and head, if they differ: a small one has few products to ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Sizes>,
    /// How it is trained.
    pub recipe: Recipe,
}

/// A guest's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestPlan {
    /// The guest's name.
    pub name: String,
    /// What it makes of its fleet.
    pub features: GuestFeatures,
    /// Its sub-model.
    pub sub_model: SubModelKind,
    /// What it gives.
    pub embedding: EmbeddingShape,
}

impl NeuralPlan {
    /// The default for an architecture: one guest, unless the host is alone.
    pub fn new(
        party: FeatureSet,
        architecture: Architecture,
        target: TargetKind,
        seed: u64,
    ) -> Self {
        let guest = party.guest_features().map(|f| GuestPlan::new("guest", f, architecture));
        Self {
            architecture,
            target,
            seed,
            guests: guest.into_iter().collect(),
            party_dropout: 0.0,
            sizes: Sizes::default(),
            head: None,
            recipe: Recipe::of(architecture),
        }
    }

    /// The same with other guests.
    pub fn with_guests(mut self, guests: Vec<GuestPlan>) -> Self {
        self.guests = guests;
        self
    }

    /// How the host's features are arranged.
    pub fn host_arrangement(&self) -> Arrangement {
        self.architecture.sub_model().arrangement()
    }

    /// The host's part and head, for its features and its guests' slots.
    pub fn host_shape(&self, inputs: &HostInputs, slots: Vec<GuestSlot>) -> HostShape {
        HostShape {
            architecture: self.architecture,
            shared: inputs.shared(),
            channels: inputs.channels(),
            slots,
            party_dropout: self.party_dropout,
            sizes: self.head.unwrap_or(self.sizes),
            window: inputs.window(),
        }
    }
}

impl GuestPlan {
    /// The default for an architecture.
    pub fn new(name: &str, features: GuestFeatures, architecture: Architecture) -> Self {
        Self {
            name: name.into(),
            features,
            sub_model: architecture.sub_model(),
            embedding: architecture.embedding(),
        }
    }

    /// The guest's part for its features.
    pub fn shape(&self, inputs: &GuestInputs, sizes: Sizes) -> GuestShape {
        let by_link = self.sub_model.arrangement() == Arrangement::ByLink;
        GuestShape {
            name: self.name.clone(),
            sub_model: self.sub_model,
            channels: inputs.channels(),
            totals: by_link && self.features != GuestFeatures::Speeds,
            embedding: self.embedding,
            sizes,
            window: inputs.window(),
        }
    }
}
