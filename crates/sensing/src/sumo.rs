//! SUMO's files: networks, vehicle positions (FCD) and loop counts.
//!
//! 1. [`import_net`] makes a [`Network`](traffic::Network) of any `.net.xml`, with its signals and
//!    detectors, and an [`EdgeMap`] from SUMO's lanes to our links. For a network that we wrote
//!    ourselves, [`EdgeMap::read`] does the second part alone.
//! 2. [`FcdReader`] streams vehicle positions from FCD output, as XML or CSV, also gzipped.
//! 3. [`LoopReader`] streams the counts of induction loops, summed over lanes.
//!
//! **Junctions.** SUMO drives vehicles across a junction on internal lanes (`:J_0_0`). They belong
//! to the link that they lead into and are its first [`junction`](traffic::Link::junction) metres.

mod config;
mod edges;
mod fcd;
mod import;
mod lights;
mod loops;
mod names;
mod net;
mod number;
mod projection;
mod source;
mod xml;

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use traffic::NetworkError;

pub use config::SumoConfig;
pub use edges::EdgeMap;
pub use fcd::{FcdReader, SkippedRows};
pub use import::{ImportOptions, ImportReport, ImportedNet, import_net};
pub use loops::{LoopMap, LoopReader};
pub use names::{OUTSIDE, edge_names, loop_names, signal_names};
pub use xml::{Element, XmlFile};

/// Why a SUMO file was refused.
#[derive(Debug, Error)]
pub enum SumoFileError {
    /// It could not be opened or read.
    #[error("{}: line {line}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// How far reading came.
        line: u64,
        /// What happened.
        error: io::Error,
    },
    /// It is not XML or CSV of the expected form.
    #[error("{}: line {line}: {problem}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// What was found and what was expected.
        problem: String,
    },
    /// A field has a value that makes no sense.
    #[error("{}: line {line}: {field}: found {found}, expected {expected}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The field.
        field: String,
        /// What the file says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// It holds nothing.
    #[error("{}: the file is empty, expected {expected}", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// Its parts do not make a network.
    #[error("{}: {error}", file.display())]
    Network {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        error: NetworkError,
    },
}

/// A field's fault, before it is known in which file and line.
#[derive(Debug)]
struct Fault {
    field: String,
    found: String,
    expected: String,
}

impl Fault {
    fn new(field: &str, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { field: field.into(), found: found.into(), expected: expected.into() }
    }

    fn at(self, file: &std::path::Path, line: u64) -> SumoFileError {
        let Self { field, found, expected } = self;
        SumoFileError::Value { file: file.into(), line, field, found, expected }
    }
}

/// Bytes of a file as text for a message.
fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let short: String = text.chars().take(60).collect();
    format!("`{short}{}`", if short.len() < text.len() { "…" } else { "" })
}
