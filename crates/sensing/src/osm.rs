//! Networks from OpenStreetMap.
//!
//! 1. Read ([`open_osm`]): nodes, the ways that cars use, turn restrictions. As OpenStreetMap is
//!    distributed: XML, plain or compressed with gzip or bzip2, or the binary form (PBF); streamed.
//! 2. Understand tags: directions, lanes, speed limits, with defaults by class of road.
//! 3. Cut ways into pieces where they meet; join pieces that merely continue each other, and pull
//!    together junctions less than a metre apart.
//! 4. Each piece and direction becomes a link named `way_from_to` after its OpenStreetMap numbers,
//!    each passage between links a turn unless a restriction forbids it or it goes straight back.
//! 5. Keep the largest part that hangs together, and [report](OsmReport) what was left out.
//!
//! OpenStreetMap knows where signals stand, but not their timing: they are counted, not invented.

mod build;
mod line_reader;
mod parse;
mod pbf;
mod pieces;
mod raw_map;
mod tags;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{Metres, Network, NetworkError};

use self::raw_map::RawMap;

/// How to make a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OsmOptions {
    /// The network's title.
    pub name: String,
    /// How much of a link crosses the junction that it begins at, but never more than a quarter of
    /// the link.
    pub junction: Metres,
    /// Pieces of road shorter than this are pulled together into one junction.
    pub min_length: Metres,
    /// Let vehicles turn round where a two-way road ends.
    pub turn_round_at_dead_ends: bool,
}

impl Default for OsmOptions {
    fn default() -> Self {
        Self {
            name: "OpenStreetMap".into(),
            junction: Metres::new(10.0),
            min_length: Metres::new(1.0),
            turn_round_at_dead_ends: false,
        }
    }
}

/// A network and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct OsmImport {
    /// The network, without signals.
    pub network: Network,
    /// The street's name of each link, where it has one.
    pub streets: Vec<Option<String>>,
    /// What was used and what was left out.
    pub report: OsmReport,
}

/// What was used and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OsmReport {
    /// Ways of the file that cars may use.
    pub ways: usize,
    /// Roads left out because cars may not use them, or because their direction changes.
    pub closed_ways: usize,
    /// Values of tags that could not be read, so that the default was used.
    pub unreadable_values: usize,
    /// Nodes that ways name but the file lacks, as at the border of an extract.
    pub missing_nodes: usize,
    /// Traffic signals on the roads used. Their timing is not known.
    pub signals: usize,
    /// Pieces joined to the one they continue.
    pub joined_pieces: usize,
    /// Pieces too short, pulled together.
    pub short_pieces: usize,
    /// Turn restrictions that took effect.
    pub restrictions: usize,
    /// Turn restrictions of a kind that is not supported, or that fit no turn.
    pub ignored_restrictions: usize,
    /// Links of the network.
    pub links: usize,
    /// Links left out because they do not hang together with the rest.
    pub dropped_links: usize,
    /// Their length.
    pub dropped: Metres,
}

/// Why a file gives no network.
#[derive(Debug, Error)]
pub enum OsmError {
    /// It cannot be read.
    #[error("{file}: {error}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// A block of the binary form cannot be read.
    #[error("{file}: block {block}: {problem}")]
    Block {
        /// The file.
        file: String,
        /// The block, from 1.
        block: u64,
        /// What is wrong.
        problem: String,
    },
    /// It is not well-formed XML.
    #[error("{file}: line {line}: {problem}")]
    Xml {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// An attribute is missing or not what it should be.
    #[error("{file}: line {line}: {field}: found {found}, expected {expected}")]
    Field {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// Element and attribute.
        field: String,
        /// What is there.
        found: String,
        /// What should be there.
        expected: &'static str,
    },
    /// No road for cars is in it.
    #[error("{file}: found no roads that cars may use among {ways} ways, expected at least one")]
    NoRoads {
        /// The file.
        file: String,
        /// Ways read.
        ways: usize,
    },
    /// The roads do not make a network.
    #[error("{file}: {error}")]
    Network {
        /// The file.
        file: String,
        /// What is wrong.
        error: NetworkError,
    },
}

/// Reads a file as OpenStreetMap is distributed: `.osm`, `.osm.gz`, `.osm.bz2` or `.osm.pbf`. What it
/// is, its first bytes tell.
pub fn open_osm(path: impl AsRef<Path>, options: &OsmOptions) -> Result<OsmImport, OsmError> {
    let file = path.as_ref().display().to_string();
    let fail = |error| OsmError::Io { file: file.clone(), error };
    let mut plain = BufReader::with_capacity(BUFFER, File::open(path.as_ref()).map_err(fail)?);
    let mut first = [0; 3];
    let known = plain.fill_buf().map_err(fail)?.read(&mut first).map_err(fail)?;
    match first {
        // The binary form begins with the length of its first block, big-endian and below 64 KiB.
        [0, 0, _] if known == first.len() => import_pbf(plain, &file, options),
        [0x1f, 0x8b, _] => {
            let text = BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain));
            import_osm(text, &file, options)
        }
        [b'B', b'Z', b'h'] => {
            let text = BufReader::with_capacity(BUFFER, MultiBzDecoder::new(plain));
            import_osm(text, &file, options)
        }
        _ => import_osm(plain, &file, options),
    }
}

/// Bytes.
const BUFFER: usize = 1 << 18;

/// Reads OpenStreetMap XML; `file` is its name for messages.
pub fn import_osm(
    reader: impl BufRead,
    file: &str,
    options: &OsmOptions,
) -> Result<OsmImport, OsmError> {
    network_of(&parse::parse(reader, file)?, file, options)
}

/// Reads OpenStreetMap's binary form (PBF); `file` is its name for messages.
pub fn import_pbf(
    reader: impl Read + Send,
    file: &str,
    options: &OsmOptions,
) -> Result<OsmImport, OsmError> {
    network_of(&pbf::parse(reader, file)?, file, options)
}

fn network_of(map: &RawMap, file: &str, options: &OsmOptions) -> Result<OsmImport, OsmError> {
    let mut report = map.report.clone();
    if map.ways.is_empty() {
        return Err(OsmError::NoRoads { file: file.into(), ways: map.ways_read });
    }
    let pieces = pieces::cut(map, options.min_length, &mut report);
    build::build(map, &pieces, options, report, file)
}

#[cfg(test)]
mod tests;
