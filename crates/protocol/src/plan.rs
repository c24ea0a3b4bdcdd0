//! How the parties train together: what the host decides and every guest must know.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::message::Purpose;
use crate::message::measurements::{MeasurementKind, TrafficShares};
use crate::message::parts::{MAX_STEPS, PartError};
use crate::message::sealed::Sealing;
use crate::party::Round;

/// Most local updates per exchange.
pub(crate) const MAX_LOCAL_UPDATES: u32 = 1000;
/// Most passes over the training part.
pub(crate) const MAX_EPOCHS: u32 = 1_000_000;
/// Most consecutive steps that are taken together.
pub(crate) const MAX_SEGMENT: u32 = 512;

/// Everything about a training run that a guest needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seed of first weights and dropout. The order of batches is the host's own affair.
    pub seed: u64,
    /// Samples of a training exchange.
    pub batch: u32,
    /// Passes over the training part, at most.
    pub epochs: u32,
    /// Training exchanges of a pass.
    pub exchanges: u32,
    /// How the weights move.
    pub optimiser: OptimiserSettings,
    /// Updates of each party per exchange.
    pub local: LocalUpdates,
    /// Training and validation take samples in runs of so many consecutive steps: T.
    pub segment: u32,
    /// What guests measure for training and validation, besides what they embed.
    pub measured: BTreeSet<MeasurementKind>,
    /// The shares of the traffic of the guest that is told this plan, if it holds out part of its
    /// fleet. The host's own plan has none.
    pub shares: Option<TrafficShares>,
    /// How measurements are sealed; none if they cross as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing: Option<Sealing>,
}

/// The numbers of the recipe that every party uses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimiserSettings {
    /// Highest learning rate.
    pub rate: f32,
    /// Whether the rate rises and falls in one cycle; otherwise it shrinks by 1 % every 140 steps.
    pub one_cycle: bool,
    /// Weight decay (λ).
    pub decay: f32,
    /// Longest gradient of a party; longer ones are scaled down to it.
    pub clip: Option<f32>,
    /// Decay of the moving average of the weights, which then is what is judged and kept.
    pub average: Option<f32>,
}

/// What each party does between two exchanges (FedBCD).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalUpdates {
    /// Q: updates per exchange, at least 1.
    pub count: u32,
    /// What the updates after the first one use.
    pub variant: LocalVariant,
    /// μ of the term μ/2·‖θ − θ_r‖² that holds the weights near those of the exchange.
    pub proximal: f32,
    /// How many of them the host makes.
    #[serde(default, skip_serializing_if = "HostUpdates::is_each")]
    pub host: HostUpdates,
}

/// Which of the local updates of an exchange the host makes; guests make all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostUpdates {
    /// All Q, as FedBCD has it.
    #[default]
    Each,
    /// The first one, as the paper's Algorithms 1 and 2 have it.
    Once,
}

impl HostUpdates {
    fn is_each(&self) -> bool {
        *self == HostUpdates::Each
    }
}

impl LocalUpdates {
    /// Updates of the host in an exchange.
    pub fn of_host(&self) -> u32 {
        match self.host {
            HostUpdates::Each => self.count,
            HostUpdates::Once => 1,
        }
    }
}

/// What the local updates after the first one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalVariant {
    /// The forward pass anew; only what came from the other parties is stale.
    Recompute,
    /// The first update's gradient again, as the authors' code does.
    Frozen,
}

/// How a run went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Rounds done.
    pub rounds: Round,
    /// Passes over the training part.
    pub epochs: u32,
    /// The one whose weights were kept.
    pub best_epoch: u32,
    /// Its validation loss.
    pub validation: f64,
}

impl Default for LocalUpdates {
    fn default() -> Self {
        let (variant, host) = (LocalVariant::Recompute, HostUpdates::Each);
        Self { count: 1, variant, proximal: 0.0, host }
    }
}

impl Plan {
    /// Refuses a plan that nobody could follow, whoever sent it.
    pub fn check(&self) -> Result<(), PartError> {
        within("batch", self.batch, MAX_STEPS as u32)?;
        within("epochs", self.epochs, MAX_EPOCHS)?;
        within("exchanges of an epoch", self.exchanges, u32::MAX)?;
        within("local updates", self.local.count, MAX_LOCAL_UPDATES)?;
        within("steps of a segment", self.segment, MAX_SEGMENT)?;
        if !self.batch.is_multiple_of(self.segment) {
            let expected = format!("whole segments of {} steps", self.segment);
            return Err(PartError::new("batch", self.batch, expected));
        }
        self.shares.map_or(Ok(()), |shares| shares.check())?;
        self.sealing.map_or(Ok(()), |sealing| sealing.check(self))?;
        let recipe = &self.optimiser;
        not_negative("learning rate", recipe.rate)?;
        not_negative("weight decay", recipe.decay)?;
        not_negative("proximal term", self.local.proximal)?;
        not_negative("longest gradient", recipe.clip.unwrap_or(0.0))?;
        let average = recipe.average.unwrap_or(0.0);
        if !(0.0..1.0).contains(&average) {
            return Err(PartError::new("average of weights", average, "0 or more and less than 1"));
        }
        Ok(())
    }

    /// Whether guests measure what they embed for this purpose.
    pub fn measures(&self, purpose: Purpose) -> bool {
        !self.measured.is_empty() && purpose != Purpose::Estimate
    }

    /// How measurements are sealed for this purpose; none if they cross as they are, or none are asked for.
    pub fn seals(&self, purpose: Purpose) -> Option<Sealing> {
        self.sealing.filter(|_| self.measures(purpose))
    }
}

fn within(field: &'static str, found: u32, most: u32) -> Result<(), PartError> {
    if (1..=most).contains(&found) {
        Ok(())
    } else {
        Err(PartError::new(field, found, format!("1 to {most}")))
    }
}

fn not_negative(field: &'static str, found: f32) -> Result<(), PartError> {
    if found >= 0.0 && found.is_finite() {
        Ok(())
    } else {
        Err(PartError::new(field, found, "a number of 0 or more"))
    }
}
