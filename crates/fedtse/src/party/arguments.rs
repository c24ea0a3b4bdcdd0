//! What all parties are started with.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::de::DeserializeOwned;

use super::config;

/// Which configuration a party is started with.
#[derive(Args)]
pub(super) struct ConfigArguments {
    /// The configuration
    #[arg(long, required_unless_present = "example")]
    config: Option<PathBuf>,
    /// Print a configuration with all fields explained, and do nothing else
    #[arg(long)]
    example: bool,
}

impl ConfigArguments {
    /// The configuration and its folder; none if the example was wanted, which is printed.
    pub(super) fn read<C: DeserializeOwned>(&self, example: &str) -> Result<Option<(C, PathBuf)>> {
        if self.example {
            print!("{example}");
            return Ok(None);
        }
        config::read(self.config.as_deref().context("--config: expected a file")?).map(Some)
    }
}
