//! `fedtse import osm`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use experiments::data::network_edits::NetworkEdits;
use sensing::osm::{OsmOptions, open_osm};

use super::counts;
use crate::network;

/// A network from OpenStreetMap data
///
/// As it is distributed: .osm, .osm.gz, .osm.bz2 or .osm.pbf; what a file is, its content tells.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse import osm athens.osm --out athens.toml\n  fedtse import osm athens.osm.pbf --loops 5% --out athens.toml"
)]
pub(super) struct OsmArguments {
    /// The file
    file: PathBuf,
    /// Where to write the network file
    #[arg(long)]
    out: PathBuf,
    /// Title of the network; the file's name if absent
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    edits: NetworkEdits,
}

pub(super) fn run(arguments: &OsmArguments, json: bool) -> Result<()> {
    let name = arguments.name.clone().unwrap_or_else(|| title(&arguments.file));
    let import = open_osm(&arguments.file, &OsmOptions { name, ..OsmOptions::default() })?;
    let network = arguments.edits.apply(import.network)?;
    network::write(&network, Some(&arguments.out), json)?;
    if !json {
        println!("{}", counts(&import.report)?);
    }
    Ok(())
}

/// A file's name without the endings of its form.
fn title(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut title = name.as_str();
    while let Some(shorter) =
        [".gz", ".bz2", ".pbf", ".osm", ".xml"].iter().find_map(|ending| title.strip_suffix(ending))
    {
        title = shorter;
    }
    title.to_owned()
}
