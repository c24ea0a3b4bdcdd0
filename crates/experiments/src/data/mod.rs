//! Datasets: simulated or imported, and their link-time features.

pub mod features;
pub mod import;
pub mod network_edits;
pub mod pneuma;
pub mod simulate;

use std::path::Path;

use anyhow::Result;
use traffic::{Network, corridor};
use training::InvalidOption;

/// Refuses an option without its folder.
pub(crate) fn check_folder(option: &'static str, folder: &Path) -> Result<(), InvalidOption> {
    match folder.as_os_str().is_empty() {
        true => Err(InvalidOption::new(option, "found none, expected a folder")),
        false => Ok(()),
    }
}

/// The network of a file, or the corridor.
pub fn load_network(file: Option<&Path>) -> Result<Network> {
    match file {
        Some(file) => Ok(sensing::read_network(file)?),
        None => Ok(corridor()?),
    }
}
