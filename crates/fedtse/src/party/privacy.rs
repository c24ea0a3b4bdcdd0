//! What guests show of their measurements: `clear`, as they are; `sealed`, in secure products alone.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use federation::{Kind, Sealing};
use serde::{Deserialize, Serialize};

use super::learning::Learning;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Measurements cross as they are
    #[default]
    Clear,
    /// Measurements cross in secure products alone, exact ones
    Sealed,
}

impl Mode {
    pub fn is_sealed(self) -> bool {
        self == Mode::Sealed
    }
}

/// What one may choose of privacy where there are no labels.
#[derive(Args, Clone, Copy, Debug)]
pub struct PrivacyOptions {
    /// What guests show of their measurements, where there are no labels
    #[arg(long, value_enum, default_value_t = Mode::Clear)]
    pub privacy: Mode,
}

impl PrivacyOptions {
    /// Nothing is hidden.
    pub fn clear() -> Self {
        Self { privacy: Mode::Clear }
    }

    /// How measurements are sealed. Refuses to seal what is learned from otherwise.
    pub fn sealing(&self, learning: Learning) -> Result<Option<Sealing>> {
        let kinds = learning.kinds();
        ensure!(
            self.privacy == Mode::Clear || !kinds.is_empty() && !kinds.contains(&Kind::HeldOut),
            "--privacy: found a method with labels or held-out folds, expected fedtse-pi, fedtse-pi-v or fedtse-pi-k"
        );
        Ok(self.privacy.is_sealed().then(Sealing::lattice))
    }
}
