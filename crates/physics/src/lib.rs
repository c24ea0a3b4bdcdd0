//! Traffic models, and what is done with them.
//!
//! 1. [`Parameters`]: a fundamental diagram per link and a share per movement.
//! 2. [`TrafficModel`]: `step(state, inputs) → state` with its vector–Jacobian product; [`Ctm`] by the
//!    paper's equations, [`StoreAndForward`], [`Metanet`] and [`RegionModel`].
//! 3. [`PhysicsLoss`]: the residual of a model over consecutive steps, for training without labels.
//! 4. [`calibrate`]: parameters and variances from data, with their errors.
//! 5. [`filter`]: the unscented Kalman filter on the CTM.
//! 6. [`queue`]: queue profiles at signals from the trajectories of a fleet.
//!
//! Equations, and which are the paper's and which ours: `docs/physics.md`. This crate knows nothing
//! of files, tensors or networks of computers.

pub mod calibrate;
mod cells;
mod convergence;
mod ctm;
mod error;
mod exchange;
pub mod filter;
#[cfg(test)]
mod finite_differences;
mod graph;
mod metanet;
mod model;
mod parameters;
pub mod queue;
mod region;
mod residual;
mod rounding;
mod signals;
mod store_and_forward;
mod stores;
#[cfg(test)]
mod test_networks;

pub use cells::{CellRule, Discretisation, SubSteps};
pub use convergence::{Bottleneck, Profile, cell_error};
pub use ctm::Ctm;
pub use error::ModelError;
pub use graph::RoadGraph;
pub use metanet::{Metanet, MetanetConstants};
pub use model::{Gradient, Inputs, Memory, Throughput, TrafficModel};
pub use parameters::{ParameterLayout, Parameters, STANDING};
pub use region::{Mfd, Region, RegionModel, Regions};
pub use residual::{PhysicsLoss, ResidualWeights, Segment, SegmentGradient};
pub use signals::GreenPlan;
pub use store_and_forward::{LinkQueue, StoreAndForward};
pub use stores::{Law, StoreModel};
