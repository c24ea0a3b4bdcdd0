//! What a loss is made of.

use serde::{Deserialize, Serialize};
use traffic::FleetView;

use crate::loss::held_out::Penetration;
use crate::loss::physics_informed::SYSTEMATIC;
use crate::model::recipe::Recipe;

/// What training learns from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainingSignal {
    /// Squared errors against ground truth.
    Labels,
    /// Squared errors against what a held-out fold of the fleet tells of the traffic that the other folds do not see.
    HeldOutFleet {
        /// Folds of the fleet, one of which is held out at a time.
        folds: usize,
        /// How the fleet's share of the traffic is taken to be.
        penetration: Penetration,
    },
    /// Measurements, each by its variance, and a traffic model.
    Measurements(MeasuredTerms),
}

/// The terms of a loss of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredTerms {
    /// Flow at the host's loops.
    pub loops: bool,
    /// Mean speeds of the fleets.
    pub speeds: bool,
    /// Densities by queue profiles of the fleets.
    pub queues: bool,
    /// The usual flow of each link: how much traffic there is, where nothing else says so.
    pub usual_flows: bool,
    /// What a held-out fold tells of all traffic: the number of folds.
    pub held_out: Option<usize>,
    /// A traffic model between consecutive steps.
    pub physics: bool,
}

impl MeasuredTerms {
    /// Loop flow and a traffic model, to which others are added.
    pub const HOST: Self = Self {
        loops: true,
        speeds: false,
        queues: false,
        usual_flows: false,
        held_out: None,
        physics: true,
    };

    /// How far what errs alike each time is trusted. Beside a held-out fold, whose noise averages out over samples, it
    /// counts less.
    pub fn systematic_trust(&self) -> f64 {
        if self.held_out.is_some() { SYSTEMATIC } else { 1.0 }
    }
}

impl TrainingSignal {
    /// Loop flow, the fleets' speeds, densities by queue profiles and a traffic model (L^PI).
    pub const PI: Self =
        Self::Measurements(MeasuredTerms { speeds: true, queues: true, ..MeasuredTerms::HOST });
    /// The same without densities by queue profiles.
    pub const PI_V: Self =
        Self::Measurements(MeasuredTerms { speeds: true, ..MeasuredTerms::HOST });
    /// The same without speeds.
    pub const PI_K: Self =
        Self::Measurements(MeasuredTerms { queues: true, ..MeasuredTerms::HOST });
    /// Loop flow, speeds, usual flows and a traffic model.
    pub const PI_P: Self = Self::Measurements(MeasuredTerms {
        speeds: true,
        usual_flows: true,
        ..MeasuredTerms::HOST
    });

    /// What a held-out fold tells of all traffic, densities by queue profiles, loop flow and a traffic model.
    pub const fn pi_and_held_out(folds: usize) -> Self {
        Self::Measurements(MeasuredTerms {
            queues: true,
            held_out: Some(folds),
            ..MeasuredTerms::HOST
        })
    }

    /// What a held-out fold tells of all traffic, and nothing else.
    pub const fn held_out_totals(folds: usize) -> Self {
        let nothing = MeasuredTerms { loops: false, physics: false, ..MeasuredTerms::HOST };
        Self::Measurements(MeasuredTerms { held_out: Some(folds), ..nothing })
    }

    /// The terms, if it is made of measurements.
    pub const fn measurements(&self) -> Option<&MeasuredTerms> {
        match self {
            Self::Measurements(terms) => Some(terms),
            Self::Labels | Self::HeldOutFleet { .. } => None,
        }
    }

    /// Whether it needs ground truth.
    pub const fn has_labels(&self) -> bool {
        matches!(self, Self::Labels)
    }

    /// Folds of each guest's fleet, if one is held out.
    pub const fn folds(&self) -> Option<usize> {
        match self {
            Self::Labels => None,
            Self::HeldOutFleet { folds, .. } => Some(*folds),
            Self::Measurements(terms) => terms.held_out,
        }
    }

    /// How it is trained: with a fold held out, as many steps as without, in epochs that see a window once for each fold.
    pub fn recipe(&self, recipe: Recipe) -> Recipe {
        self.folds().map_or(recipe, |folds| recipe.held_out(folds))
    }

    /// How windows are seen in training: by all folds but one, for each, where one is held out.
    pub fn views(&self) -> Vec<FleetView> {
        match self.folds() {
            Some(folds) => (0..folds).filter_map(FleetView::without).collect(),
            None => vec![FleetView::WHOLE],
        }
    }

    /// Whether a traffic model ties consecutive steps together.
    pub const fn has_physics(&self) -> bool {
        matches!(self, Self::Measurements(MeasuredTerms { physics: true, .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_says_what_it_needs() {
        assert_eq!(TrainingSignal::PI.folds(), None);
        assert!(TrainingSignal::PI.has_physics() && !TrainingSignal::PI.has_labels());
        let held_out = TrainingSignal::held_out_totals(8);
        assert_eq!((held_out.folds(), held_out.has_physics()), (Some(8), false));
        let both = TrainingSignal::pi_and_held_out(4);
        assert!(both.has_physics() && both.measurements().is_some_and(|terms| terms.queues));
        assert_eq!(both.measurements().map(MeasuredTerms::systematic_trust), Some(SYSTEMATIC));
        assert!(TrainingSignal::Labels.has_labels() && !TrainingSignal::Labels.has_physics());
    }
}
