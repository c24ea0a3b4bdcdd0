//! Any estimator, as it is kept and used again.

use thiserror::Error;
use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane};

use crate::artifact::model_folder::ModelFolderError;
use crate::artifact::neural_estimator::{NeuralError, NeuralEstimator};
use crate::baseline::{
    CalibratedFilter, FilteredError, LiveQueues, QueueKnowledge, QueueReport, QueueStates,
    QueueStatesError, Ridge, RidgeError, scale_up,
};
use crate::data::observed::{Asked, Observed};
use crate::data::sources::FleetData;
use crate::loss::held_out::{
    FleetMeans, FollowedWeights, HeldOutError, HeldOutEstimator, ViewEstimates, WeightsInTime,
    limit_to_standing,
};
use crate::metrics::Estimates;

/// What makes estimates, with all that it has learned.
pub enum SavedEstimator {
    /// A neural model of whole fleets.
    Neural(NeuralEstimator),
    /// A neural model of the folds of one fleet.
    HeldOut(HeldOutEstimator),
    /// Means over time of what the folds of one fleet show.
    FleetMeans(FleetMeans),
    /// The weighted sum of several models.
    Combination(Combination),
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

/// Several models and their weights.
pub struct Combination {
    /// The models.
    pub models: Vec<CombinedModel>,
    /// How the weights follow the traffic, where they do.
    pub following: Option<FollowedWeights>,
}

/// A model of a combination.
pub struct CombinedModel {
    /// What it is.
    pub name: String,
    /// Its weights, of density and of flow; as of the validation part's end where they follow the traffic.
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
            SavedEstimator::FleetMeans(means) => {
                let all = means.estimate_all(observed.loops, observed.fleets, asked.windows)?;
                plain(asked.of_all(&all, network))
            }
            SavedEstimator::Combination(combination) => {
                let mut each = Vec::new();
                for model in &combination.models {
                    let (mut states, _) = model.estimator.estimate(observed, fleets, asked)?;
                    states.iter_mut().for_each(limit_to_standing);
                    each.push(states);
                }
                let weights = combination.weights(observed, asked.windows)?;
                let each: Vec<&Estimates> = each.iter().collect();
                plain(weighted_windows(&each, &weights, asked.windows, asked.links.len()))
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

    /// Estimates all links of windows from each choice of folds alone, if it is made for folds.
    fn estimate_in_views(
        &self,
        observed: &Observed<'_>,
        windows: &[Step],
    ) -> Result<ViewEstimates, EstimateError> {
        let &Observed { loops, fleets, .. } = observed;
        match self {
            SavedEstimator::HeldOut(model) => Ok(model.estimate_in_views(loops, fleets, windows)?),
            SavedEstimator::FleetMeans(means) => {
                Ok(means.estimate_in_views(loops, fleets, windows)?)
            }
            _ => {
                let (found, expected) = ("one of whole fleets".into(), "one of folds".into());
                Err(NeuralError::Mismatch { what: "model of a combination", found, expected }
                    .into())
            }
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

impl Combination {
    fn weights(
        &self,
        observed: &Observed<'_>,
        asked: &[Step],
    ) -> Result<WeightsInTime, EstimateError> {
        let Some(following) = &self.following else {
            let weights = self.models.iter().map(|model| model.weights).collect();
            return Ok(WeightsInTime::constant(weights));
        };
        let steps = following.steps(observed.loops.timeline(), asked);
        let mut views = Vec::new();
        for model in &self.models {
            let mut own = model.estimator.estimate_in_views(observed, &steps)?;
            own.values_mut().flatten().for_each(limit_to_standing);
            views.push(own);
        }
        let judge = following.judge(observed.loops, observed.fleets)?;
        Ok(following.clone().follow(&judge, &views.iter().collect::<Vec<_>>(), &steps))
    }
}

/// Weighted sums of several models' states in windows of so many links, by the weights that hold at each.
pub fn weighted_windows(
    models: &[&Estimates],
    weights: &WeightsInTime,
    windows: &[Step],
    links: usize,
) -> Estimates {
    let of_window = |(at, &step): (usize, &Step)| {
        let row = at * links..(at + 1) * links;
        let rows: Vec<&[LinkState]> = models.iter().map(|states| &states[row.clone()]).collect();
        weighted_sum(&rows, weights.at(step))
    };
    windows.iter().enumerate().flat_map(of_window).collect()
}

/// Weighted sums of several models' states; a model may give less than nothing, their sum does not.
pub fn weighted_sum(models: &[&[LinkState]], weights: &[[f64; 2]]) -> Vec<LinkState> {
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
