//! Makes traffic.

mod departure;

pub use departure::{Departure, Stop};
