//! The SUMO world: writes a scenario, runs `netconvert` and `sumo`, and reads the result back.
//!
//! 1. [`SumoTools::find`] finds the programs.
//! 2. [`simulate_sumo`] writes the network and the departures as SUMO's files, and runs them.
//! 3. [`SumoRun::samples`] and [`SumoRun::loop_counts`] stream what happened, on our links.
//!
//! [`ScenarioRun`] runs a scenario that somebody else wrote.
//!
//! ```no_run
//! use std::path::Path;
//! use traffic::{PositionSource, Seconds};
//! use worlds::{SumoOptions, SumoTools, corridor_demand, simulate_sumo};
//!
//! let corridor = traffic::corridor()?;
//! let options = SumoOptions { until: Seconds::new(3600.0), ..SumoOptions::default() };
//! let demand = corridor_demand(&corridor)?;
//! let departures = demand.departures(&corridor, 1, options.until);
//! let tools = SumoTools::find(None)?;
//! let folder = Path::new("out/sumo");
//! let run = simulate_sumo(&tools, &corridor, departures, folder, &options, |time| {
//!     println!("{time}");
//! })?;
//! println!("{} teleports", run.statistics.teleports);
//! let mut samples = run.samples(&corridor)?;
//! let mut moment = Vec::new();
//! while let Some(time) = samples.next_moment(&mut moment)? {
//!     println!("{time}: {} vehicles", moment.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod plain;
mod run;
mod scenario;
mod statistics;
mod tools;
mod trips;

use std::io;
use std::path::PathBuf;

use sensing::sumo::SumoFileError;
use thiserror::Error;
use traffic::Seconds;

pub use run::{SumoRun, simulate_sumo};
pub use scenario::{ScenarioOutcome, ScenarioRun};
pub use statistics::SumoStatistics;
pub use tools::SumoTools;

/// How to run SUMO.
#[derive(Clone, Debug, PartialEq)]
pub struct SumoOptions {
    /// How long to simulate.
    pub until: Seconds,
    /// The time step, which is also the interval of the vehicles' positions.
    pub step: Seconds,
    /// The seed of SUMO's drivers; who departs when is the demand's business.
    pub seed: u32,
    /// The interval of the loops' counts.
    pub loop_interval: Seconds,
    /// After how long a vehicle that cannot move is lifted to its next link.
    pub time_to_teleport: Seconds,
    /// The form of the vehicles' positions.
    pub fcd: FcdFormat,
}

impl Default for SumoOptions {
    fn default() -> Self {
        Self {
            until: Seconds::new(810.0 * 60.0),
            step: Seconds::new(1.0),
            seed: 1,
            loop_interval: Seconds::new(10.0),
            time_to_teleport: Seconds::new(300.0),
            fcd: FcdFormat::default(),
        }
    }
}

/// The form in which SUMO writes the vehicles' positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FcdFormat {
    /// Half the size of XML and the fastest to read; SUMO 1.24 or newer.
    #[default]
    Csv,
    /// A quarter of that, and slower to write.
    CsvGz,
    /// What every version writes.
    Xml,
}

impl FcdFormat {
    fn file_name(self) -> &'static str {
        match self {
            Self::Csv => "fcd.csv",
            Self::CsvGz => "fcd.csv.gz",
            Self::Xml => "fcd.xml",
        }
    }
}

/// Why a SUMO scenario could not be written, run or read.
#[derive(Debug, Error)]
pub enum SumoError {
    /// No SUMO on this machine.
    #[error(
        "SUMO's programs `sumo` and `netconvert` were not found (looked in: {looked}). Install \
         SUMO with `make sumo` in the project's folder, or with `pip install eclipse-sumo==1.28.0`, or set \
         SUMO_HOME to where it is"
    )]
    NotFound {
        /// The folders looked in.
        looked: String,
    },
    /// A program could not be started.
    #[error("{}: could not be run: {error}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A program failed.
    #[error("{}: failed: {message}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// The end of what it said.
        message: String,
    },
    /// A program was ended before its end, because it was not to go on.
    #[error("{}: stopped before the end", program.display())]
    Stopped {
        /// The program.
        program: PathBuf,
    },
    /// A file could not be written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The result could not be read.
    #[error(transparent)]
    Result(#[from] SumoFileError),
    /// Signals that SUMO cannot express.
    #[error(
        "signal `{signal}` governs `{movement}`, but `{other}` governs another movement of the same \
         junction: SUMO has one signal a junction"
    )]
    TwoSignals {
        /// The movement.
        movement: String,
        /// Its signal.
        signal: String,
        /// The other signal.
        other: String,
    },
}

#[cfg(test)]
mod tests;
