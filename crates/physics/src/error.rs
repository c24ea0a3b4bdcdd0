//! What can be wrong with a traffic model or with what it is given.

use thiserror::Error;
use traffic::{DiagramError, Metres, MetresPerSecond, Seconds};

/// Why a traffic model cannot be made or cannot step.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ModelError {
    /// Waves would cross more than a cell in a sub-step.
    #[error(
        "link `{link}`: unstable: waves of {speed} run {run} in a sub-step of {sub_step}, \
         but cells are {cell} long; expected cells at least that long: use more sub-steps or fewer cells"
    )]
    Unstable {
        /// The link.
        link: String,
        /// Its fastest wave.
        speed: MetresPerSecond,
        /// How far that runs.
        run: Metres,
        /// Length of a sub-step.
        sub_step: Seconds,
        /// Length of a cell.
        cell: Metres,
    },
    /// Speeds would overshoot in a sub-step (METANET).
    #[error(
        "link `{link}`: unstable: sub-steps of {sub_step}, expected at most {longest} for its \
         relaxation and anticipation: use more sub-steps or longer cells"
    )]
    Overshoot {
        /// The link.
        link: String,
        /// Length of a sub-step.
        sub_step: Seconds,
        /// The longest that is stable.
        longest: Seconds,
    },
    /// Stability would take more sub-steps than is sensible.
    #[error(
        "link `{link}`: a stable step of {step} takes {needed} sub-steps, expected at most {most}: \
         use a shorter step, fewer cells, or join the link with its neighbour"
    )]
    TooManySubSteps {
        /// The link that needs them.
        link: String,
        /// Length of a step.
        step: Seconds,
        /// How many it needs.
        needed: f64,
        /// The most there may be.
        most: usize,
    },
    /// The shares of a link's traffic do not add up.
    #[error(
        "link `{link}`: turning ratios and exit share add up to {sum}, expected 1 (each from 0 to 1)"
    )]
    Ratios {
        /// The link.
        link: String,
        /// Their sum, or the ratio that is out of range.
        sum: f64,
    },
    /// Nothing ever leaves.
    #[error(
        "the network has no sink: no link has an exit share above 0, so traffic could only pile up"
    )]
    NoSinks,
    /// Traffic on a link cannot leave the network.
    #[error(
        "link `{link}`: no way to a sink along turns with a ratio above 0, so traffic there could only pile up"
    )]
    Trap {
        /// The link.
        link: String,
    },
    /// A number is out of its range.
    #[error("{place}: {field}: found {found}, expected {expected}")]
    Number {
        /// Where: a link, a turn, the plan.
        place: String,
        /// Which number.
        field: &'static str,
        /// Its value.
        found: f64,
        /// What it should be.
        expected: &'static str,
    },
    /// A slice has the wrong length.
    #[error("{what}: found {found} numbers, expected {expected}")]
    Shape {
        /// Which slice.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The right length.
        expected: usize,
    },
    /// A fundamental diagram.
    #[error("link `{link}`: {source}")]
    Diagram {
        /// The link.
        link: String,
        /// What is wrong with it.
        source: DiagramError,
    },
}

/// Refuses a slice of the wrong length.
pub(crate) fn check_len(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), ModelError> {
    if found == expected { Ok(()) } else { Err(ModelError::Shape { what, found, expected }) }
}
