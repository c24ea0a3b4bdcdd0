//! What training minimises: squared errors against labels, measurements with a traffic model, a held-out fleet.

pub(crate) mod calibrated_ctm;
pub(crate) mod held_out;
pub(crate) mod label_free;
pub(crate) mod objective;
pub(crate) mod physics_informed;
pub(crate) mod signal;

pub use calibrated_ctm::{calibrated_ctm, ctm_of_counts, movement_counts};
pub use held_out::{
    FoldRates, FoldedInputs, HeldOutError, HeldOutEstimator, HeldOutLabels, HeldOutStudy,
    LabelNoise, Penetration, ShareVariation, counted_per_step, held_out_entries, held_out_part,
    local_shares, passages_per_step, penetration,
};
pub use label_free::{LabelFreeError, LabelFreeEstimator, LabelFreeStudy};
pub use objective::{
    Labelled, LinearPart, LossWeights, MeasurementWeights, Objective, PartialLoss,
};
pub use physics_informed::{
    CTM_DEVIATIONS, LearnedPhysics, Physics, PhysicsInformed, SYSTEMATIC, SomeLabels,
};
pub use signal::{MeasuredTerms, TrainingSignal};
