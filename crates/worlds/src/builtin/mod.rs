//! The built-in world: a microscopic simulator of urban traffic that needs nothing installed.
//!
//! 1. [`SimulationPlan`] says what to simulate, `trips` checks departures against the network.
//! 2. `streets` lays the network out in lanes; `lights` shows the fixed-time signals; `vehicle`,
//!    with [`Driving`](crate::Driving), says what drives.
//! 3. Each step of a [`Simulation`], from one and the same state: `lane_change` collects wishes and carries them out,
//!    `merging` decides who may enter lanes that several lanes lead into, `speed` (with `krauss` for
//!    car-following) chooses everyone's speed, `moving` moves them, hands them on to the next link
//!    or out, and `entering` lets new ones in.
//!
//! **What it models.** Krauss' car-following with dawdling drivers; lane changes that the route
//! needs, with others yielding, and changes for speed, also around double-parked vehicles; signals
//! (at yellow and red, who can stop with the comfortable deceleration stops); merging one by one;
//! spill-back: nobody enters a link whose queue leaves no room to clear the junction; queues outside
//! the network where demand exceeds what can enter. **What it does not:** conflicts between paths
//! that cross inside a junction (signals are taken to separate them), slower turning, overtaking
//! within a lane. A driver in a wrong lane waits at the stop line for a gap; after missing 10 s of
//! its own green it turns from where it is when there is room, and is counted in [`Incidents`].
//!
//! **Nobody collides** and nobody brakes harder than 4.5 m/s²: see `krauss` for the argument.
//!
//! **Samples.** A vehicle's position is its front bumper. Its speed is that of the step that ends at
//! the sample, so positions of successive samples differ by exactly speed × step. A vehicle first
//! appears at the start of its first link. The last step of a vehicle ends somewhere beyond its
//! last link; its last sample puts it exactly at the end of that link, at the end of that step. So
//! no distance is lost, and the time on the last link is too long by the part of a step that the
//! vehicle was already gone: half a step on average. Leaving it out instead would lose distance and
//! time.
//!
//! **Deterministic.** Random numbers are hashes of seed, vehicle and step, speeds are chosen from
//! the state before the step, and all that needs an order has a fixed one. So the number of threads
//! changes nothing. Memory grows with the vehicles present and waiting, never with time.

mod entering;
mod krauss;
mod lane_change;
mod lane_choice;
mod lights;
mod merging;
mod moving;
mod plan;
mod random;
mod road;
mod simulation;
mod speed;
mod streets;
mod trips;
mod vehicle;

pub use moving::Incidents;
pub use plan::{SimulationError, SimulationPlan};
pub use simulation::{Counts, Entered, Simulation};

#[cfg(test)]
mod tests;
