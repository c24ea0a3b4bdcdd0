//! Any estimator, as it is kept and used again.

use thiserror::Error;
use traffic::{LinkId, LinkState, VehPerKmLane, VehPerMinLane};

use crate::artifact::model_folder::ModelFolderError;
use crate::artifact::neural_estimator::{NeuralError, NeuralEstimator};
use crate::baseline::{
    CalibratedFilter, FilteredError, LiveQueues, QueueKnowledge, QueueReport, QueueStates,
    QueueStatesError, Ridge, RidgeError, scale_up,
};
use crate::data::observed::{Asked, Observed};
use crate::data::sources::FleetData;
use crate::loss::held_out::{HeldOutError, HeldOutEstimator, limit_to_standing};
use crate::metrics::Estimates;

/// What makes estimates, with all that it has learned.
pub enum SavedEstimator {
    /// A neural model of whole fleets.
    Neural(NeuralEstimator),
    /// A neural model of the folds of one fleet.
    HeldOut(HeldOutEstimator),
    /// The weighted sum of several models.
    Combination(Vec<CombinedModel>),
    /// Fleet totals over the penetration rate.
    ScaleUp,
    /// Ridge regression.
    Ridge(Ridge),
    /// The unscented filter.
    Filter(Box<CalibratedFilter>),
    /// Queue profiles: nothing of them is learned before they are used.
    QueueProfiles {
        /// Whose knowledge they are made of.
        knowledge: QueueKnowledge,
        /// Whether an estimate of a step may use what happened after it.
        hindsight: bool,
    },
}

/// A model of a combination.
pub struct CombinedModel {
    /// What it is.
    pub name: String,
    /// Its weights, of density and of flow.
    pub weights: [f64; 2],
    /// The model.
    pub estimator: SavedEstimator,
}

/// Why there are no estimates.
#[derive(Debug, Error)]
pub enum EstimateError {
    /// Folders and records.
    #[error(transparent)]
    Folder(#[from] ModelFolderError),
    /// Model and data.
    #[error(transparent)]
    Neural(#[from] NeuralError),
    /// Folds.
    #[error(transparent)]
    HeldOut(#[from] HeldOutError),
    /// Ridge regression.
    #[error(transparent)]
    Ridge(#[from] RidgeError),
    /// The filter.
    #[error(transparent)]
    Filter(#[from] FilteredError),
    /// Queue profiles.
    #[error(transparent)]
    Queues(#[from] QueueStatesError),
    /// Not one fleet.
    #[error("{what}: found {found} fleets, expected {expected}")]
    Fleets {
        /// Whose.
        what: &'static str,
        /// In the data.
        found: usize,
        /// Needed.
        expected: String,
    },
}

/// What was found out besides estimates, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Remark {
    /// How queue profiles came out.
    Queues(QueueReport),
    /// Measurements that contradicted all else in the filter and counted less.
    Softened(usize),
}

impl SavedEstimator {
    /// Estimates states, from fleets that stand in the order of `fleets`: how many each guest has, one or its folds.
    pub fn estimate(
        &self,
        observed: &Observed<'_>,
        fleets: &[Vec<String>],
        asked: &Asked<'_>,
    ) -> Result<(Estimates, Option<Remark>), EstimateError> {
        let network = observed.network();
        let names: Vec<&str> = observed.fleets.iter().map(FleetData::name).collect();
        let plain = |estimates| Ok((estimates, None));
        match self {
            SavedEstimator::Neural(model) => {
                let whole = whole_fleets(fleets, observed.fleets)?;
                let all = model.estimate_all(observed.loops, &whole, asked.windows)?;
                plain(asked.of_all(&all, network))
            }
            SavedEstimator::HeldOut(model) => {
                let all = model.estimate_all(observed.loops, observed.fleets, asked.windows)?;
                plain(asked.of_all(&all, network))
            }
            SavedEstimator::Combination(models) => {
                let mut each = Vec::new();
                for model in models {
                    let (mut states, _) = model.estimator.estimate(observed, fleets, asked)?;
                    states.iter_mut().for_each(limit_to_standing);
                    each.push(states);
                }
                let weights: Vec<[f64; 2]> = models.iter().map(|model| model.weights).collect();
                plain(weighted_sum(&each.iter().collect::<Vec<_>>(), &weights))
            }
            SavedEstimator::ScaleUp => plain(scale_up(observed, asked)),
            SavedEstimator::Ridge(ridge) => plain(ridge.estimate(observed, asked)?),
            SavedEstimator::Filter(filter) => {
                let [fleet] = observed.fleets else {
                    let (what, expected) = ("ukf", "one".to_owned());
                    return Err(EstimateError::Fleets { what, found: names.len(), expected });
                };
                let queues =
                    QueueStates::read(observed.folder, fleet.name(), QueueKnowledge::Fleet);
                if let Err(error) = &queues {
                    eprintln!("warning: ukf: no densities by queue profiles: {error}");
                }
                let states = filter.states(observed.loops, fleet, queues.ok().as_ref())?;
                Ok((states.estimate(asked), Some(Remark::Softened(states.softened))))
            }
            &SavedEstimator::QueueProfiles { knowledge, hindsight: true } => {
                let states = QueueStates::read_union(observed.folder, &names, knowledge)?;
                Ok((states.estimate(asked), Some(Remark::Queues(*states.report()))))
            }
            &SavedEstimator::QueueProfiles { knowledge, hindsight: false } => {
                let queues = LiveQueues::read_union(observed.folder, &names, knowledge)?;
                let (estimates, report) = queues.estimate(asked)?;
                Ok((estimates, Some(Remark::Queues(report))))
            }
        }
    }

    /// The links that it can estimate: all, but of a regression those that had targets.
    pub fn links(&self, observed: &Observed<'_>) -> Vec<LinkId> {
        match self {
            SavedEstimator::Ridge(ridge) => ridge.links().collect(),
            _ => observed.network().link_ids().collect(),
        }
    }
}

/// Each guest's fleet, of fleets that stand one after the other; where there are no guests, nobody looks at fleets.
pub fn whole_fleets(
    named: &[Vec<String>],
    fleets: &[FleetData],
) -> Result<Vec<FleetData>, NeuralError> {
    let expected: usize = named.iter().map(Vec::len).sum();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    if fleets.len() != expected {
        let (found, expected) = (fleets.len().to_string(), expected.to_string());
        return Err(NeuralError::Mismatch { what: "fleets", found, expected });
    }
    let mut rest = fleets;
    let mut whole = Vec::new();
    for own in named {
        let (parts, others) = rest.split_at(own.len());
        rest = others;
        whole.extend(FleetData::union(parts));
    }
    Ok(whole)
}

/// Weighted sums of several models' states; a model may give less than nothing, their sum does not.
pub fn weighted_sum(models: &[&Vec<LinkState>], weights: &[[f64; 2]]) -> Vec<LinkState> {
    let count = models.first().map_or(0, |states| states.len());
    let state = |at: usize| {
        let (mut density, mut flow) = (0.0, 0.0);
        for (states, weights) in models.iter().zip(weights) {
            density += weights[0] * states[at].density.get();
            flow += weights[1] * states[at].flow.get();
        }
        LinkState {
            density: VehPerKmLane::new(density.max(0.0)),
            flow: VehPerMinLane::new(flow.max(0.0)),
        }
    };
    (0..count).map(state).collect()
}
