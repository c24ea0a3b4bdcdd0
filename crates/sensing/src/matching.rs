//! Map matching: from places in time to positions on links.
//!
//! A hidden Markov model after Newson and Krumm (2009). The hidden states of a place are the links
//! near it; a state is the likelier the nearer its link, and a step between two states the likelier
//! the better the way by road agrees with the straight line:
//!
//! ```text
//! log p(place | link) = −½ (distance / σ)²      log p(step) = −|by road − straight| / β
//! ```
//!
//! 1. [`Track`] comes in. Where records are missing it is cut into stretches.
//! 2. Of each stretch the places at least 2σ apart are decided upon: links near them (R-tree), ways
//!    between them (bounded Dijkstra, remembered), the likeliest chain (Viterbi). Where no chain
//!    goes on, the stretch is cut and the matching starts anew: it never stops at a gap.
//! 3. *All* places are then projected onto the chosen way, and smoothed to positions that never
//!    decrease (isotonic regression): noise while standing does not make vehicles drive back.
//! 4. [`VehiclePosition`](traffic::VehiclePosition)s go out, with a [`TrackReport`] of how much was
//!    matched and [why](Unmatched) the rest was not. [`MatchReport`] adds tracks up.
//!
//! Links run from stop line to stop line, so what happens inside a junction is on the link that the
//! vehicle drives into.

mod accuracy;
mod lattice;
mod matcher;
mod parameters;
mod report;
mod road_map;
mod routes;
mod track;
mod way;

pub use accuracy::{Accuracy, accuracy};
pub use matcher::{MatchScratch, MatchedTrack, Matcher, MatcherError};
pub use parameters::{MatchParameters, ParameterError};
pub use report::{Extent, MatchReport, TrackReport, Unmatched, UnmatchedTotal};
pub use track::{Track, TrackPoint};
