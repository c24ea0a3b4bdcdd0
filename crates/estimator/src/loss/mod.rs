//! What training minimises: squared errors against labels, measurements with a traffic model, a held-out fleet.

pub(crate) mod calibrated_physics;
pub(crate) mod held_out;
pub(crate) mod label_free;
pub(crate) mod objective;
pub(crate) mod physics_informed;
pub(crate) mod signal;

pub use calibrated_physics::{
    FleetAggregates, PhysicsPlan, TrafficModelKind, calibrated_physics, fleet_aggregates,
    movement_counts, physics_of_counts,
};
pub use held_out::{
    EstimatedErrors, FleetMeans, FoldRates, FoldedInputs, FollowedWeights, HeldOutError,
    HeldOutEstimator, HeldOutJudge, HeldOutLabels, HeldOutStudy, LabelNoise, LocalShareModel,
    ModelAnswer, Penetration, ShareVariation, ViewEstimates, WeightsInTime, counted_per_step,
    held_out_entries, held_out_part, limit_to_standing, passages_per_step, penetration,
    share_by_loops,
};
pub use label_free::{LabelFreeError, LabelFreeEstimator, LabelFreeStudy};
pub use objective::{
    Labelled, LinearPart, LossWeights, MeasurementWeights, Objective, PartialLoss,
};
pub use physics_informed::{
    CTM_DEVIATIONS, LearnedPhysics, Physics, PhysicsInformed, SYSTEMATIC, SomeLabels,
};
pub use signal::{MeasuredTerms, TrainingSignal};
