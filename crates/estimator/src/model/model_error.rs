//! Why a model cannot be built.

use neural::{SparseError, StgcnError};
use thiserror::Error;

use crate::model::architecture::{HEAD, HOST};

/// Most guests of a host.
pub(crate) const MOST_GUESTS: usize = 256;
/// Most units, numbers per link or rounds of message passing.
pub(crate) const LARGEST: usize = 4096;

/// Why there is no such model.
#[derive(Debug, Error, PartialEq)]
pub enum ModelError {
    /// The graph.
    #[error(transparent)]
    Graph(#[from] SparseError),
    /// The STGCN.
    #[error(transparent)]
    Stgcn(#[from] StgcnError),
    /// Too few or too many numbers cross.
    #[error("guest `{guest}`: numbers that cross: found {found}, expected 1 to {most}")]
    EmbeddingShape {
        /// The guest.
        guest: String,
        /// Asked for.
        found: usize,
        /// Most allowed.
        most: usize,
    },
    /// Numbers for the whole network where those of links are expected.
    #[error(
        "guest `{guest}`: found numbers for the whole network, expected some for each link (model `link`)"
    )]
    NotPerLink {
        /// The guest.
        guest: String,
    },
    /// A custom sub-model, which only its guest can build.
    #[error("guest `{guest}`: found a custom sub-model, expected one that can be built here")]
    CustomSubModel {
        /// The guest.
        guest: String,
    },
    /// A guest without features.
    #[error("guest `{guest}`: found no features, expected at least one number for each link")]
    NoChannels {
        /// The guest.
        guest: String,
    },
    /// A name that is taken.
    #[error(
        "guest `{found}`: expected names that differ from each other, from `{HOST}`, from `{HEAD}` and from nothing"
    )]
    Name {
        /// The name.
        found: String,
    },
    /// Too many guests.
    #[error("found {found} guests, expected at most {MOST_GUESTS}")]
    Guests {
        /// How many.
        found: usize,
    },
    /// Seats and guests differ.
    #[error("guest `{guest}`: found no slot at its place among the host's, expected its own")]
    Seats {
        /// The guest.
        guest: String,
    },
    /// A size out of bounds.
    #[error("{what}: found {found}, expected {least} to {LARGEST}")]
    Size {
        /// Which one.
        what: &'static str,
        /// Asked for.
        found: usize,
        /// Least allowed.
        least: usize,
    },
    /// Not a probability.
    #[error("{what}: found {found}, expected at least 0 and below 1")]
    Probability {
        /// Which one.
        what: &'static str,
        /// Asked for.
        found: f32,
    },
}
