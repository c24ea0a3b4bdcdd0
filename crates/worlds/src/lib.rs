//! Makes traffic.
//!
//! 1. [`Demand`]: who wants to drive where and when: [`corridor_demand`], [`Demand::parse`] or
//!    [`Demand::uniform`].
//! 2. [`Departure`]s, streamed by [`Demand::departures`]: the same list for both worlds.
//! 3. [`Simulation`]: the built-in world, which drives them.
//! 4. [`simulate_sumo`]: the SUMO world, which drives them with SUMO ([`SumoTools::find`]).

mod builtin;
mod demand;
mod departure;
mod driving;
mod sumo;

pub use builtin::{Counts, Entered, Incidents, Simulation, SimulationError, SimulationPlan};
pub use demand::{Demand, DemandError, Departures, Entry, Headways, Routes, corridor_demand};
pub use departure::{Departure, Stop};
pub use driving::Driving;
pub use sumo::{
    FcdFormat, ScenarioOutcome, ScenarioRun, SumoError, SumoOptions, SumoRun, SumoStatistics,
    SumoTools, simulate_sumo,
};
