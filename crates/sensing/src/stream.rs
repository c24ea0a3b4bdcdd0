//! Records as they come, line by line, from a file, a pipe or a connection.
//!
//! ```text
//! time,vehicle,link,position          loop,begin,end,count
//! 600,taxi-17,west-2,48.25            L1,600,610,4
//! 600,taxi-18,east-1,3.5              L2,600,610,0
//! 601,,,                              ,,611,
//! ```
//!
//! The first line names the columns, as in files that `fedtse import` reads; others are ignored. A
//! line with nothing but a time says that all records up to then have been sent: without it nobody
//! could tell an empty road from a slow sender.
//!
//! 1. [`FleetColumns`] and [`LoopColumns`] read lines.
//! 2. [`FleetFeed`] makes steps of a fleet's records, [`LoopFeed`] of loop counts. Memory does not
//!    grow with the length of a stream.
//!
//! A new recording begins where time jumps by more than the gap, either way: no step lies across it. A
//! line with nothing but a time is believed at once; of vehicles and loops three in a row must agree,
//! and those before are refused, so that a single wrong clock does not stop all others.

mod columns;
mod fleet_feed;
mod jumps;
mod loop_feed;

use thiserror::Error;

use crate::extract::ExtractError;
use crate::journey::PositionError;

pub use columns::{FleetColumns, FleetRecord, LoopColumns, LoopRecord, MAX_LINE, name_field};
pub use fleet_feed::FleetFeed;
pub use loop_feed::LoopFeed;

/// Why a record cannot be used.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The first line.
    #[error("columns: found {found}, expected {expected}")]
    Columns {
        /// Those there are.
        found: String,
        /// Those there should be.
        expected: &'static str,
    },
    /// A field.
    #[error("{field}: found `{found}`, expected {expected}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it may hold.
        expected: String,
    },
    /// Not as many fields as columns.
    #[error("found {found} fields, expected {expected}")]
    Fields {
        /// In the line.
        found: usize,
        /// Columns.
        expected: usize,
    },
    /// It came after its time.
    #[error("time: found {found}, expected {now} or later: the record is late")]
    Late {
        /// Its time.
        found: f64,
        /// The time that the stream has reached.
        now: f64,
    },
    /// Its time is far from that of the others.
    #[error("time: found {found}, expected within {gap} s of {now}")]
    Jump {
        /// Its time.
        found: f64,
        /// The time that the stream has reached.
        now: f64,
        /// The most that time may jump.
        gap: f64,
    },
    /// It cannot be true.
    #[error(transparent)]
    Sample(#[from] PositionError),
    /// The extractor refuses it.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// More vehicles at a time than there can be.
    #[error("vehicles under way: found more than {most}")]
    Vehicles {
        /// The most.
        most: usize,
    },
    /// A loop has reported the time already.
    #[error(
        "loop `{detector}`: found a count from {begin} s on, expected {reached} s or later: it has been counted"
    )]
    Counted {
        /// The loop.
        detector: String,
        /// Beginning of the interval.
        begin: f64,
        /// Up to when it has reported.
        reached: f64,
    },
    /// A loop's interval lies across the border of a step.
    #[error(
        "loop `{detector}`: found a count for {begin} to {end} s, expected intervals that fit steps of {step} s"
    )]
    Interval {
        /// The loop.
        detector: String,
        /// Its beginning.
        begin: f64,
        /// Its end.
        end: f64,
        /// Length of a step.
        step: f64,
    },
}

#[cfg(test)]
mod tests;
