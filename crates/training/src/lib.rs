//! One training engine: signal + participants + model + optimiser + protection, in one process or over the network.
//!
//! ```text
//! TrainOptions ── Method (a row of METHODS) ─┬─ baselines of `estimator`
//!                                            ├─ all data in one place: CentralRun ──┐
//!                                            ├─ of the sum over guests: `aggregate`, then the same │
//!                                            └─ federated: Host, Guest (`federation`)┴─► HostLearner, GuestLearner
//! ```
//!
//! 1. [`Method`] names an estimator: whose data it sees, what it learns from, who takes part.
//! 2. [`TrainOptions`] fits one on a [`Study`](estimator::Study) and estimates windows.
//! 3. [`learner`]: what host and guests do in each exchange (FedBCD).
//! 4. [`CentralRun`] drives the learners directly: centralised training. `federated` drives them through the messages
//!    of `federation`, with all parties in this process.
//! 5. [`party`]: a party's data, policy and model, for `federated` and for parties in processes of their own.

mod absence;
mod aggregate;
mod central;
mod combination;
mod engine;
mod error;
mod federated;
mod fingerprint;
mod judged;
mod kept_run;
pub mod learner;
mod memory;
mod method;
mod options;
pub mod party;
mod releases;
pub mod signal;
mod task;
mod watched;

pub use aggregate::fleets_at_use;
pub use combination::ModelWeight;
pub use engine::{CentralRun, EngineError, Exchange, Learners, central_plan};
pub use error::{Context, Result, TrainingError};
pub(crate) use fingerprint::run_fingerprint;
pub use judged::KnownErrors;
pub use method::{EstimatorKind, Hindsight, METHODS, Method, MethodSpec, Participants};
pub use options::{
    FederationOptions, Fusion, GuestOptions, HostUpdating, InvalidOption, Packing, PhysicsOptions,
    RecipeOptions, SubModelChoice,
};
pub use releases::{Releases, Sent};
pub use task::{Fitted, TrainOptions, Training, Watch};
pub use watched::Outputs;
