//! What one may choose of a training: for the command line (feature `clap`), and as data (`serde`) for other front ends.
//!
//! `Default` has the defaults of both; `check` has the limits of both.

use std::fmt::Display;
use std::ops::RangeInclusive;

use estimator::loss::TrafficModelKind;
use estimator::{
    Architecture, EmbeddingShape, LEAST_WINDOW, MOST_WINDOW, NeuralPlan, Recipe, SubModelKind,
    WINDOW,
};
use federation::CheckpointInterval;
use protocol::{Compression, HostUpdates, LocalUpdates, LocalVariant};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::party::privacy::{Mode, PrivacyOptions};

/// Most samples of an exchange: as many as a message holds.
const MOST_BATCH: u32 = 4096;

/// An option whose value does not fit. The command line calls it `--warm-up`, Python `warm_up`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("--{}: {problem}", name.replace('_', "-"))]
pub struct InvalidOption {
    /// The field that holds it.
    pub name: &'static str,
    /// What was found and what was expected.
    pub problem: String,
}

impl InvalidOption {
    /// An option, what was found and what was expected.
    pub fn new(name: &'static str, problem: impl Display) -> Self {
        Self { name, problem: problem.to_string() }
    }

    /// Refuses a value outside a range.
    ///
    /// # Errors
    /// If a value is given and lies outside.
    pub fn check_range<T: PartialOrd + Display>(
        name: &'static str,
        given: impl IntoIterator<Item = T>,
        range: RangeInclusive<T>,
    ) -> Result<(), Self> {
        // NaN is in no range.
        match given.into_iter().find(|value| !range.contains(value)) {
            None => Ok(()),
            Some(value) => {
                let (least, most) = range.into_inner();
                Err(Self::new(name, format!("found {value}, expected {least} to {most}")))
            }
        }
    }
}

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
    #[cfg_attr(feature = "clap", arg(long))]
    pub embedding_size: Option<u16>,
    /// Probability that a guest counts as absent for a sample in training, so that the host learns
    /// to do without it; 0 unless given
    #[cfg_attr(feature = "clap", arg(long))]
    pub party_dropout: Option<f32>,
    /// Units of a link in the host's head, with `--arch link`; 64 unless given, 4 where measurements are sealed: there each
    /// parameter of the host is a product per exchange
    #[cfg_attr(feature = "clap", arg(long))]
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
    /// Refuses values outside their limits.
    ///
    /// # Errors
    /// With the first of them.
    pub fn check(&self) -> Result<(), InvalidOption> {
        InvalidOption::check_range("embedding_size", self.embedding_size, 1..=256)?;
        InvalidOption::check_range("head_units", self.head_units, 2..=1024)
    }

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

/// What one may choose of the recipe that neural estimators are trained by, besides epochs and learning rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct RecipeOptions {
    /// Samples of an exchange; 128 unless given. Rounded up to whole segments where a traffic model ties steps together
    #[cfg_attr(feature = "clap", arg(long))]
    pub batch: Option<u32>,
    /// Learning rate of the host's part of the model (η_0 of the paper); that of the guests unless given
    #[cfg_attr(feature = "clap", arg(long))]
    pub host_learning_rate: Option<f32>,
    /// Weight decay (λ of the paper); 0.01 for `link`, 0.001 for `paper` unless given
    #[cfg_attr(feature = "clap", arg(long, value_name = "LAMBDA"))]
    pub weight_decay: Option<f32>,
    /// Weight of flow beside density in the loss on labels (α of the paper); 1 unless given
    #[cfg_attr(feature = "clap", arg(long, value_name = "ALPHA"))]
    pub flow_weight: Option<f32>,
    /// Steps of a window (h of the paper), at whose last one everything is estimated: 3 to 120; 9 unless given, and at least 9
    /// with `--arch paper` and `--sub-model stgcn`. Of all methods; what is kept knows it
    #[cfg_attr(feature = "clap", arg(long, value_name = "H"))]
    pub window: Option<u16>,
}

impl RecipeOptions {
    /// Refuses values outside their limits.
    ///
    /// # Errors
    /// With the first of them.
    pub fn check(&self) -> Result<(), InvalidOption> {
        InvalidOption::check_range("batch", self.batch, 1..=MOST_BATCH)?;
        let rate = self.host_learning_rate;
        InvalidOption::check_range("host_learning_rate", rate, f32::MIN_POSITIVE..=1.0)?;
        InvalidOption::check_range("weight_decay", self.weight_decay, 0.0..=1.0)?;
        InvalidOption::check_range("flow_weight", self.flow_weight, 0.0..=1e6)?;
        let limits = LEAST_WINDOW as u16..=MOST_WINDOW as u16;
        InvalidOption::check_range("window", self.window, limits)
    }

    /// Steps of a window.
    pub fn window(&self) -> usize {
        self.window.map_or(WINDOW, usize::from)
    }

    /// Changes a recipe accordingly.
    pub fn apply(&self, recipe: &mut Recipe) {
        if let Some(batch) = self.batch {
            recipe.batch = batch as usize;
        }
        if let Some(decay) = self.weight_decay {
            recipe.decay = decay;
        }
        if let Some(weight) = self.flow_weight {
            recipe.flow_weight = weight;
        }
        recipe.host_rate = self.host_learning_rate.or(recipe.host_rate);
    }
}

/// What one may choose of the rounds between host and guests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct FederationOptions {
    /// Guests of the federated estimators, among which the fleet is divided
    #[cfg_attr(feature = "clap", arg(long, default_value_t = FederationOptions::default().guests))]
    pub guests: u16,
    /// What the host makes of the guests' data: `concatenate` their embeddings, as in the paper, or `sum` their
    /// totals and train on the sum; with two or more guests sum, unless something else is given that only exchanges of
    /// embeddings have; with one concatenate
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub fusion: Option<Fusion>,
    /// Local updates of each party per exchange
    #[cfg_attr(feature = "clap", arg(long, default_value_t = FederationOptions::default().q))]
    pub q: u32,
    /// Which of the local updates the host makes: `each`, or the first one alone (`once`), as in the paper's
    /// Algorithms 1 and 2; guests make all
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value_t = FederationOptions::default().host_updates))]
    pub host_updates: HostUpdating,
    /// Use the first gradient for all local updates, as the authors' code does
    #[cfg_attr(feature = "clap", arg(long))]
    pub frozen: bool,
    /// Proximal coefficient μ
    #[cfg_attr(feature = "clap", arg(long, default_value_t = FederationOptions::default().proximal, value_name = "MU"))]
    pub proximal: f32,
    /// Compression of embeddings and gradients: `f16` halves their bytes, `q8` leaves a quarter, both with a
    /// small loss of accuracy
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value_t = FederationOptions::default().compression))]
    pub compression: Packing,
    /// Seconds between checkpoints of all parties of a run that is kept
    #[cfg_attr(feature = "clap", arg(long, default_value_t = FederationOptions::default().checkpoint_s, value_name = "SECONDS"))]
    pub checkpoint_s: f64,
    /// Protection of what guests send.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub privacy: PrivacyOptions,
}

/// What the host makes of the guests' data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Fusion {
    /// Each guest trains a sub-model; the host's head reads their embeddings side by side
    Concatenate,
    /// Each guest gives its totals once; the host trains on their sum, however the fleet is divided
    Sum,
}

/// Local updates of the host in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum HostUpdating {
    /// As many as guests
    Each,
    /// One
    Once,
}

impl From<HostUpdating> for HostUpdates {
    fn from(updating: HostUpdating) -> Self {
        match updating {
            HostUpdating::Each => HostUpdates::Each,
            HostUpdating::Once => HostUpdates::Once,
        }
    }
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
        let (compression, privacy) = (Packing::None, PrivacyOptions::default());
        let (fusion, host_updates) = (None, HostUpdating::Each);
        let checkpoint_s = CheckpointInterval::default().time.as_secs_f64();
        Self {
            guests: 1,
            fusion,
            q: 1,
            host_updates,
            frozen: false,
            proximal: 0.0,
            compression,
            checkpoint_s,
            privacy,
        }
    }
}

impl FederationOptions {
    /// The defaults, but nothing that guests send is protected.
    pub fn clear() -> Self {
        Self { privacy: PrivacyOptions::clear(), ..Self::default() }
    }

    /// Refuses values outside their limits.
    ///
    /// # Errors
    /// With the first of them.
    pub fn check(&self) -> Result<(), InvalidOption> {
        InvalidOption::check_range("guests", [self.guests], 1..=64)?;
        InvalidOption::check_range("q", [self.q], 1..=100)?;
        InvalidOption::check_range("checkpoint_s", [self.checkpoint_s], 0.01..=1e6)?;
        self.privacy.check()?;
        self.check_fusion()
    }

    /// Whether the host trains on the sum over guests.
    pub(crate) fn is_summed(&self) -> bool {
        self.fusion == Some(Fusion::Sum) || self.privacy.privacy.is_some_and(Mode::is_aggregate)
    }

    /// With two or more guests the host sees sums over them alone, unless an option says otherwise: that option's name.
    pub fn says_otherwise(&self) -> Option<&'static str> {
        let said = [
            ("fusion", self.fusion.is_some()),
            ("privacy", self.privacy.privacy.is_some()),
            ("policy", self.privacy.policy.is_some()),
        ];
        let noise = ["epsilon", "delta", "unit"].into_iter().zip([
            self.privacy.epsilon.is_some(),
            self.privacy.delta.is_some(),
            self.privacy.unit.is_some(),
        ]);
        let mut all = said.into_iter().chain(self.of_exchanges()).chain(noise);
        all.find(|(_, said)| *said).map(|(name, _)| name)
    }

    /// Options of exchanges and products, which a sum does not have, and whether they are given.
    fn of_exchanges(&self) -> [(&'static str, bool); 8] {
        let usual = Self::default();
        [
            ("q", self.q != usual.q),
            ("host_updates", self.host_updates != usual.host_updates),
            ("frozen", self.frozen),
            ("proximal", self.proximal != usual.proximal),
            ("compression", self.compression != usual.compression),
            ("commitments", self.privacy.commitments),
            ("scheme", self.privacy.scheme.is_some()),
            ("most_products", self.privacy.most_products.is_some()),
        ]
    }

    /// Refuses what a sum does not have.
    fn check_fusion(&self) -> Result<(), InvalidOption> {
        if !self.is_summed() {
            return Ok(());
        }
        if self.fusion == Some(Fusion::Concatenate) {
            let problem = "found concatenate with --privacy aggregate, expected sum";
            return Err(InvalidOption::new("fusion", problem));
        }
        if let Some(mode) = self.privacy.privacy
            && !(mode == Mode::Clear || mode.is_aggregate())
        {
            let problem = format!(
                "found {} with --fusion sum, expected aggregate, aggregate+noise or clear",
                mode.name()
            );
            return Err(InvalidOption::new("privacy", problem));
        }
        let exact = self.privacy.privacy != Some(Mode::AggregateNoise);
        let noise = [
            ("epsilon", exact && self.privacy.epsilon.is_some()),
            ("delta", exact && self.privacy.delta.is_some()),
            ("unit", exact && self.privacy.unit.is_some()),
        ];
        let given = self.of_exchanges().into_iter().chain(noise);
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => {
                let problem = "found with a sum over guests, which has no exchanges or products, and noise with aggregate+noise alone";
                Err(InvalidOption::new(name, problem))
            }
        }
    }

    pub(crate) fn local_updates(&self) -> LocalUpdates {
        let variant = if self.frozen { LocalVariant::Frozen } else { LocalVariant::Recompute };
        let (count, host) = (self.q, self.host_updates.into());
        LocalUpdates { count, variant, proximal: self.proximal, host }
    }
}

/// What one may choose of a traffic model in the loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct PhysicsOptions {
    /// Consecutive steps of a segment, which a traffic model ties together; 4 unless given
    #[cfg_attr(feature = "clap", arg(long))]
    pub segment: Option<u16>,
    /// Traffic model that ties consecutive steps together
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value_t = TrafficModelKind::Ctm))]
    pub traffic_model: TrafficModelKind,
    /// Learn the traffic model's diagrams too
    #[cfg_attr(feature = "clap", arg(long))]
    pub learn_physics: bool,
    /// Leave the traffic model out
    #[cfg_attr(feature = "clap", arg(long))]
    pub no_physics: bool,
    /// Percentage of the training and of the validation part's steps, the last of each, that have ground truth besides
    #[cfg_attr(feature = "clap", arg(long))]
    pub label_share: Option<f64>,
}

impl PhysicsOptions {
    /// Refuses values outside their limits.
    ///
    /// # Errors
    /// With the first of them.
    pub fn check(&self) -> Result<(), InvalidOption> {
        InvalidOption::check_range("segment", self.segment, 1..=512)?;
        InvalidOption::check_range("label_share", self.label_share, 0.0..=100.0)
    }
}
