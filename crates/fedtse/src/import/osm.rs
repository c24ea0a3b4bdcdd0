//! `fedtse import osm`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use sensing::osm::{OsmOptions, open_osm};

use super::counts;
use crate::network;

/// A network from OpenStreetMap data (.osm XML)
#[derive(Args)]
#[command(after_help = "Example:\n  fedtse import osm athens.osm --out athens.toml")]
pub(super) struct OsmArguments {
    /// The file, as exported from OpenStreetMap; may be compressed with gzip
    file: PathBuf,
    /// Where to write the network file
    #[arg(long)]
    out: PathBuf,
    /// Title of the network; the file's name if absent
    #[arg(long)]
    name: Option<String>,
}

pub(super) fn run(arguments: &OsmArguments, json: bool) -> Result<()> {
    let stem = arguments.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = arguments.name.clone().or(stem).unwrap_or_default();
    let import = open_osm(&arguments.file, &OsmOptions { name, ..OsmOptions::default() })?;
    network::write(&import.network, Some(&arguments.out), json)?;
    if !json {
        println!("{}", counts(&import.report)?);
    }
    Ok(())
}
