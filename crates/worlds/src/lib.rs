//! Makes traffic.
//!
//! 1. [`Demand`]: who wants to drive where and when: [`corridor_demand`], [`Demand::parse`] or
//!    [`Demand::uniform`].
//! 2. [`Departure`]s, streamed by [`Demand::departures`]: the same list for both worlds.

mod demand;
mod departure;

pub use demand::{
    Demand, DemandError, Departures, Entry, FORMAT as DEMAND_FORMAT, Headways, Routes,
    corridor_demand,
};
pub use departure::{Departure, Stop};
