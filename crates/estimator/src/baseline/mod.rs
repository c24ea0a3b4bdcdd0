//! Estimators that every other one is compared with: scale-up, ridge regression, the unscented filter, queue profiles.

pub(crate) mod filtered;
pub(crate) mod queue_states;
pub(crate) mod ridge;
pub(crate) mod scale_up;

pub use filtered::{CalibratedFilter, FilteredError, FilteredStates};
pub use queue_states::{
    FleetShare, LiveQueues, Origin, QueueKnowledge, QueueReport, QueueState, QueueStates,
    QueueStatesError,
};
pub(crate) use ridge::Surroundings;
pub use ridge::{Ridge, RidgeError};
pub use scale_up::scale_up;
