//! Learning without ground truth: part of a fleet is held out, and the rest is asked about it.
//!
//! A fleet that is a fair sample of the traffic measures it without bias, only noisily, and noisy
//! labels without bias teach a regression what clean ones would. What a model sees and what it is
//! asked must not share the noise, so the fleet is dealt by vehicle into folds:
//!
//! 1. [`penetration`]: the fleet's share of the traffic, from loops.
//!    [`LocalShareModel`]: by link and time, of a fleet that is no fair sample.
//! 2. [`FoldRates`]: the algebra of folds, labels and estimates; [`LabelNoise`]: how noisy the
//!    labels are, from how the folds differ.
//! 3. [`HeldOutStudy`]: windows as seen by all folds but one, with the state as that one scales it
//!    up for a label. Made of loops and folds alone: truth has no way in.
//! 4. [`HeldOutEstimator`]: what the whole fleet sees, and for what it does not see the mean of the
//!    model's answers to each choice of folds.
//!    [`FleetMeans`]: the same with means over time in place of a model.
//! 5. [`HeldOutJudge`]: the error of any estimates, and the best combination of several; [`FollowedWeights`]: one that follows the traffic.
//!
//! `docs/held-out-fleet.md` derives it.

mod convex_fit;
mod error;
mod estimator;
mod fleet_means;
mod folds;
mod following;
mod judge;
mod local;
mod noise;
mod penetration;
mod rates;
mod study;
#[cfg(test)]
mod tests;
mod totals;
mod views;

pub use error::HeldOutError;
pub use estimator::{HeldOutEstimator, ModelAnswer};
pub use fleet_means::FleetMeans;
pub(crate) use folds::Choices;
pub use following::{FollowedWeights, WeightsInTime};
pub use judge::{EstimatedErrors, HeldOutJudge, ViewEstimates, limit_to_standing};
pub(crate) use local::FollowedShares;
pub use local::{LocalShareModel, ShareVariation};
pub use noise::LabelNoise;
pub use penetration::{counted_per_step, passages_per_step, penetration, share_by_loops};
pub use rates::FoldRates;
pub use study::{HeldOutLabels, HeldOutStudy, Penetration};
pub(crate) use totals::held_out_totals;
pub use totals::{held_out_entries, held_out_part};
pub use views::FoldedInputs;
