//! Datasets: simulated or imported, and their link-time features.

pub mod features;
pub mod import;
pub mod pneuma;
pub mod simulate;

use std::path::Path;

use anyhow::Result;
use traffic::{Network, corridor};

/// The network of a file, or the corridor.
pub fn load_network(file: Option<&Path>) -> Result<Network> {
    match file {
        Some(file) => Ok(sensing::read_network(file)?),
        None => Ok(corridor()?),
    }
}
