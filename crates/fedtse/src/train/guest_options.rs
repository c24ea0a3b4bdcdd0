//! What one may choose of a guest's part.

use clap::{Args, ValueEnum};
use estimator::{Architecture, EmbeddingShape, NeuralPlan, SubModelKind};

/// See the [module](self).
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct GuestOptions {
    /// Sub-model of the guests; `link` unless given, `stgcn` with `--arch paper`
    #[arg(long, value_enum)]
    pub sub_model: Option<SubModel>,
    /// Numbers that cross from a guest to the host: per link, 4 unless given; in all, 9 unless
    /// given, with `--arch paper`
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub crossing: Option<u16>,
    /// Probability that a guest counts as absent for a sample in training, so that the host learns
    /// to do without it; 0 unless given
    #[arg(long)]
    pub party_dropout: Option<f32>,
    /// Units of a link in the host's head, with `--arch link`; 64 unless given, 4 where measurements are sealed: there each
    /// parameter of the host is a product per exchange
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub head_units: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SubModel {
    /// One set of weights for all links, with message passing
    Link,
    /// The paper's spatio-temporal graph convolution
    Stgcn,
    /// Two hidden layers, the same for all links
    Mlp,
    /// A linear map of each link's own
    Linear,
}

impl GuestOptions {
    /// Changes a plan accordingly. What makes no model is refused when the model is built.
    pub fn apply(&self, plan: &mut NeuralPlan) {
        for guest in &mut plan.guests {
            if let Some(kind) = self.sub_model {
                guest.sub_model = match kind {
                    SubModel::Link => SubModelKind::Link,
                    SubModel::Stgcn => SubModelKind::Stgcn,
                    SubModel::Mlp => SubModelKind::Mlp,
                    SubModel::Linear => SubModelKind::Linear,
                };
            }
            if let Some(numbers) = self.crossing.map(usize::from) {
                guest.crossing = match plan.architecture {
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
