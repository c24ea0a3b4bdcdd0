//! What one may choose of a training, for the command line (feature `clap`) and for other front ends.

use estimator::{Architecture, EmbeddingShape, NeuralPlan, SubModelKind};
use protocol::{Compression, LocalUpdates, LocalVariant};
use serde::{Deserialize, Serialize};

use crate::party::privacy::PrivacyOptions;

/// What one may choose of the models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct GuestOptions {
    /// Sub-model of the guests; `link` unless given, `stgcn` with `--arch paper`
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub sub_model: Option<SubModelChoice>,
    /// Size of a guest's embedding: numbers per link, 4 unless given; numbers in all, 9 unless
    /// given, with `--arch paper`
    #[cfg_attr(feature = "clap", arg(long, value_parser = clap::value_parser!(u16).range(1..=256)))]
    pub embedding_size: Option<u16>,
    /// Probability that a guest counts as absent for a sample in training, so that the host learns
    /// to do without it; 0 unless given
    #[cfg_attr(feature = "clap", arg(long))]
    pub party_dropout: Option<f32>,
    /// Units of a link in the host's head, with `--arch link`; 64 unless given, 4 where measurements are sealed: there each
    /// parameter of the host is a product per exchange
    #[cfg_attr(feature = "clap", arg(long, value_parser = clap::value_parser!(u16).range(2..=1024)))]
    pub head_units: Option<u16>,
}

/// Sub-models of guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum SubModelChoice {
    /// One set of weights for all links, with message passing
    Link,
    /// The paper's spatio-temporal graph convolution
    Stgcn,
    /// Two hidden layers, the same for all links
    Mlp,
    /// A linear map of each link's own
    Linear,
}

impl From<SubModelChoice> for SubModelKind {
    fn from(choice: SubModelChoice) -> Self {
        match choice {
            SubModelChoice::Link => SubModelKind::Link,
            SubModelChoice::Stgcn => SubModelKind::Stgcn,
            SubModelChoice::Mlp => SubModelKind::Mlp,
            SubModelChoice::Linear => SubModelKind::Linear,
        }
    }
}

impl GuestOptions {
    /// Changes a plan accordingly. What makes no model is refused when the model is built.
    pub(crate) fn apply(&self, plan: &mut NeuralPlan) {
        for guest in &mut plan.guests {
            if let Some(choice) = self.sub_model {
                guest.sub_model = choice.into();
            }
            if let Some(numbers) = self.embedding_size.map(usize::from) {
                guest.embedding = match plan.architecture {
                    Architecture::Link => EmbeddingShape::PerLink(numbers),
                    Architecture::Paper => EmbeddingShape::Whole(numbers),
                };
            }
        }
        if let Some(probability) = self.party_dropout {
            plan.party_dropout = probability;
        }
        if let Some(units) = self.head_units.map(usize::from) {
            plan.head = Some(plan.sizes.with_units(units));
        }
    }
}

/// What one may choose of the rounds between host and guests.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct FederationOptions {
    /// Guests of the federated estimators, among which the fleet is divided; more than one needs
    /// `fedtse features --providers`
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64)))]
    pub guests: u16,
    /// Local updates of each party per exchange
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100)))]
    pub q: u32,
    /// Use the first gradient for all local updates, as the authors' code does
    #[cfg_attr(feature = "clap", arg(long))]
    pub frozen: bool,
    /// Proximal coefficient μ
    #[cfg_attr(feature = "clap", arg(long, default_value_t = 0.0, value_name = "MU"))]
    pub proximal: f32,
    /// Compression of embeddings and gradients: `f16` halves their bytes, `q8` leaves a quarter, both with a
    /// small loss of accuracy
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value_t = Packing::None))]
    pub compression: Packing,
    /// Protection of what guests send.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub privacy: PrivacyOptions,
}

/// Compression of embeddings and gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Packing {
    /// None: 32 bits per number
    None,
    /// 16 bits per number
    F16,
    /// 8 bits per number, with error feedback
    Q8,
}

impl From<Packing> for Compression {
    fn from(packing: Packing) -> Self {
        match packing {
            Packing::None => Compression::None,
            Packing::F16 => Compression::F16,
            Packing::Q8 => Compression::Q8,
        }
    }
}

impl Default for FederationOptions {
    fn default() -> Self {
        let (compression, privacy) = (Packing::None, PrivacyOptions::clear());
        Self { guests: 1, q: 1, frozen: false, proximal: 0.0, compression, privacy }
    }
}

impl FederationOptions {
    pub(crate) fn local_updates(&self) -> LocalUpdates {
        let variant = if self.frozen { LocalVariant::Frozen } else { LocalVariant::Recompute };
        LocalUpdates { count: self.q, variant, proximal: self.proximal }
    }
}

/// What one may choose of a traffic model in the loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct PhysicsOptions {
    /// Consecutive steps of a segment, which a traffic model ties together; 4 unless given
    #[cfg_attr(feature = "clap", arg(long, value_parser = clap::value_parser!(u16).range(1..=512)))]
    pub segment: Option<u16>,
    /// Learn the traffic model's diagrams too
    #[cfg_attr(feature = "clap", arg(long))]
    pub learn_physics: bool,
    /// Leave the traffic model out
    #[cfg_attr(feature = "clap", arg(long))]
    pub no_physics: bool,
    /// Percentage of the training and of the validation part's steps, the last of each, that have ground truth besides
    #[cfg_attr(feature = "clap", arg(long, value_parser = percentage))]
    pub label_share: Option<f64>,
}

#[cfg(feature = "clap")]
fn percentage(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| (0.0..=100.0).contains(share));
    share.ok_or_else(|| "expected a percentage, 0 to 100".to_owned())
}
