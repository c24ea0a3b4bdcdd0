//! Ridge regression by link: linear, closed-form, and hard to beat.
//!
//! Each link has a regression of its own, on what was measured on it and around it: the steps of the window one by
//! one on the link, on those next to it and at the nearest loops, and in means of three steps on the nearest links
//! beyond. With `X` these features (one row a window, standardised) and `y` the density or flow,
//!
//! ```text
//! w = (XᵀX + λI)⁻¹ Xᵀ(y − b)
//! ```
//!
//! by Cholesky's factorisation. The base `b` is what the regression shrinks to: the link's mean, or the fleet's
//! scaled-up mean over the target's steps or over the window. λ and base are those that do best on the validation part, for each link and
//! quantity. Time and memory are linear in links.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{LinkId, LinkState, Network, Step, VehPerKmLane, VehPerMinLane};

use crate::baseline::scale_up::averaged_steps;
use crate::data::observed::{Asked, Observed};
use crate::data::study::{FeatureSet, GuestFeatures, Study, TargetKind, WINDOW};
use crate::least_squares::{STRENGTHS, Scaler, factorise, products, substitute};
use crate::metrics::Estimates;

/// How many links and loops around a link are looked at.
const NEAREST_LINKS: usize = 24;
const NEAREST_LOOPS: usize = 8;

/// Steps of a window in one mean, for links that are not next to a link.
const STEPS_PER_MEAN: usize = 3;

/// Density and flow.
const QUANTITIES: usize = 2;

/// Why a fit failed.
#[derive(Debug, Error, PartialEq)]
pub enum RidgeError {
    /// A feature or target is not a number.
    #[error("{what} of the window that ends with step {step}: found a value that is not a number")]
    NotANumber {
        /// Features or targets.
        what: &'static str,
        /// The window's last step.
        step: i64,
    },
    /// The normal equations cannot be solved.
    #[error("ridge regression: the normal equations are not positive definite at strength {0}")]
    Singular(f64),
    /// A link that was not fitted.
    #[error("ridge regression of link `{0}`: found none, expected one that was fitted")]
    NotFitted(String),
    /// A file whose parts do not fit together, or not the network.
    #[error(
        "ridge regression of link number {0}: found links, loops or weights of another network, expected those of this one"
    )]
    OtherNetwork(usize),
    /// A regression for other data.
    #[error(
        "ridge regression of link `{link}`: found {found} features of a window, expected {expected}"
    )]
    Features {
        /// The link.
        link: String,
        /// In the data.
        found: usize,
        /// In the regression.
        expected: usize,
    },
}

/// A fitted regression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ridge {
    party: FeatureSet,
    /// Of each link that was fitted.
    links: Vec<LinkRidge>,
}

/// The regression of one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkRidge {
    surroundings: Surroundings,
    features: Scaler,
    /// Density's and flow's.
    outputs: [Output; QUANTITIES],
}

/// One quantity's part of a regression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    base: Base,
    /// Mean of what the base misses.
    offset: f64,
    weights: Vec<f64>,
}

/// What a regression shrinks to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Base {
    /// The same in all windows.
    Mean,
    /// The fleet's scaled-up mean over the last steps, so many.
    ScaledUp(usize),
}

/// The links and loops that a link's regression looks at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Surroundings {
    link: LinkId,
    /// Those that turn into it, and into which it turns.
    pub(crate) adjacent: Vec<LinkId>,
    /// The nearest ones beyond.
    near: Vec<LinkId>,
    /// The nearest loops, by their places in the network's list; those on the link itself first.
    pub(crate) loops: Vec<usize>,
}

impl Surroundings {
    pub(crate) fn of(network: &Network, link: LinkId) -> Self {
        // Both ways: queues grow against the traffic.
        let next_to = |link: LinkId| {
            let into = network.incoming(link).iter().map(|&turn| network.turn(turn).from);
            into.chain(network.outgoing(link).iter().map(|&turn| network.turn(turn).to))
        };
        let mut found = vec![link];
        let mut adjacent_end = 1;
        let mut at = 0;
        while at < found.len() && found.len() <= NEAREST_LINKS {
            for other in next_to(found[at]) {
                if !found.contains(&other) {
                    found.push(other);
                }
            }
            at += 1;
            if at == 1 {
                adjacent_end = found.len();
            }
        }
        let most = found.len().min(NEAREST_LINKS.max(adjacent_end));
        let mut loops: Vec<(usize, usize)> = network
            .loops()
            .iter()
            .enumerate()
            .map(|(place, detector)| {
                let hops = found.iter().position(|&other| other == detector.link);
                (hops.unwrap_or(usize::MAX), place)
            })
            .collect();
        loops.sort_unstable();
        Self {
            link,
            adjacent: found[1..adjacent_end].to_vec(),
            near: found[adjacent_end..most].to_vec(),
            loops: loops.into_iter().take(NEAREST_LOOPS).map(|(_, place)| place).collect(),
        }
    }

    /// Appends the features of a window that ends with `last`.
    fn features(&self, observed: &Observed<'_>, party: FeatureSet, last: Step, out: &mut Vec<f64>) {
        for &place in &self.loops {
            means(last, 1, out, |step| {
                let count = observed.loops.counts(step)[place];
                [count.unwrap_or(0.0), f64::from(u8::from(count.is_some()))]
            });
        }
        let Some(features) = party.guest_features() else { return };
        for fleet in observed.fleets {
            let mut of_link = |link: LinkId, steps: usize| {
                means(last, steps, out, |step| match features {
                    GuestFeatures::Speeds => {
                        let speed = fleet.speed(step, link).map(|speed| speed.get());
                        [speed.unwrap_or(0.0), f64::from(u8::from(speed.is_some()))]
                    }
                    GuestFeatures::Totals | GuestFeatures::TotalsAndCells => {
                        let state = fleet.scaled_up(step, link);
                        [state.density.get(), state.flow.get()]
                    }
                });
            };
            of_link(self.link, 1);
            self.adjacent.iter().for_each(|&link| of_link(link, 1));
            self.near.iter().for_each(|&link| of_link(link, STEPS_PER_MEAN));
        }
    }

    /// The features of windows, one row each.
    fn rows(
        &self,
        observed: &Observed<'_>,
        party: FeatureSet,
        windows: &[Step],
    ) -> Result<Vec<f64>, RidgeError> {
        let mut rows = Vec::new();
        for &last in windows {
            let begin = rows.len();
            self.features(observed, party, last, &mut rows);
            if rows[begin..].iter().any(|value| !value.is_finite()) {
                return Err(RidgeError::NotANumber { what: "features", step: last.0 });
            }
        }
        Ok(rows)
    }

    /// The base of windows, `[window][quantity]`.
    fn bases(
        &self,
        observed: &Observed<'_>,
        base: Base,
        windows: &[Step],
    ) -> Vec<[f64; QUANTITIES]> {
        let base_of = |&last: &Step| match base {
            Base::Mean => [0.0; QUANTITIES],
            Base::ScaledUp(steps) => {
                let mut mean = [0.0; QUANTITIES];
                for ago in 0..steps {
                    let state = observed.scaled_up(Step(last.0 - ago as i64), self.link);
                    mean[0] += state.density.get() / steps as f64;
                    mean[1] += state.flow.get() / steps as f64;
                }
                mean
            }
        };
        windows.iter().map(base_of).collect()
    }
}

/// Appends means of pairs over groups of a window's steps, oldest first.
fn means(last: Step, group: usize, out: &mut Vec<f64>, pair: impl Fn(Step) -> [f64; 2]) {
    let mut back = WINDOW;
    while back > 0 {
        let steps = group.min(back);
        let mut sum = [0.0; 2];
        for ago in (back - steps..back).rev() {
            let values = pair(Step(last.0 - ago as i64));
            sum[0] += values[0] / steps as f64;
            sum[1] += values[1] / steps as f64;
        }
        out.extend(sum);
        back -= steps;
    }
}

impl Ridge {
    /// Fits some links on the training part; the validation part chooses strengths and bases. `fitted` is called after
    /// each link, from any thread.
    pub fn fit(
        study: &Study,
        kind: TargetKind,
        party: FeatureSet,
        links: &[LinkId],
        fitted: impl Fn() + Sync,
    ) -> Result<Self, RidgeError> {
        let fit = |&link: &LinkId| {
            let one = LinkRidge::fit(study, kind, party, link);
            fitted();
            one
        };
        let links = links.par_iter().map(fit).collect::<Result<_, _>>()?;
        Ok(Self { party, links })
    }

    /// The links that were fitted.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.links.iter().map(|one| one.surroundings.link)
    }

    /// Refuses a regression that is not of this network.
    pub fn check(&self, network: &Network) -> Result<(), RidgeError> {
        let (links, loops) = (network.links().len(), network.loops().len());
        for LinkRidge { surroundings, features, outputs } in &self.links {
            let Surroundings { link, adjacent, near, loops: looked_at } = surroundings;
            let all = [link].into_iter().chain(adjacent).chain(near);
            let columns = features.mean.len();
            let outputs = outputs.iter().map(|output| output.weights.len());
            let sound = all.into_iter().all(|one| one.index() < links)
                && looked_at.iter().all(|&place| place < loops)
                && outputs.chain([features.deviation.len()]).all(|count| count == columns);
            if !sound {
                return Err(RidgeError::OtherNetwork(link.index()));
            }
        }
        Ok(())
    }

    /// Estimates states of links that were fitted. The target is that of the fit.
    pub fn estimate(
        &self,
        observed: &Observed<'_>,
        asked: &Asked<'_>,
    ) -> Result<Estimates, RidgeError> {
        let of_link = |link: &LinkId| {
            let fitted = self.links.iter().find(|one| one.surroundings.link == *link);
            let name = || observed.network().link(*link).name.clone();
            let fitted = fitted.ok_or_else(|| RidgeError::NotFitted(name()))?;
            fitted.estimate(observed, self.party, asked.windows)
        };
        let of_links: Vec<Vec<LinkState>> =
            asked.links.par_iter().map(of_link).collect::<Result<_, _>>()?;
        let windows = 0..asked.windows.len();
        Ok(windows.flat_map(|at| of_links.iter().map(move |link| link[at])).collect())
    }
}

impl LinkRidge {
    fn fit(
        study: &Study,
        kind: TargetKind,
        party: FeatureSet,
        link: LinkId,
    ) -> Result<Self, RidgeError> {
        let (train, validation) = (&study.split().train, &study.split().validation);
        let surroundings = Surroundings::of(study.network(), link);
        let observed = &study.observed();
        let mut x = surroundings.rows(observed, party, train)?;
        let columns = x.len() / train.len();
        let features = Scaler::fit(&x, columns);
        features.apply(&mut x);
        let mut x_validation = surroundings.rows(observed, party, validation)?;
        features.apply(&mut x_validation);
        let gram = products(&x, columns, &x, columns);
        let (y, y_validation) =
            (targets(study, kind, link, train)?, targets(study, kind, link, validation)?);

        let bases = match party.guest_features() {
            Some(GuestFeatures::Totals | GuestFeatures::TotalsAndCells) => {
                let target = averaged_steps(kind, study.step()) as usize;
                vec![Base::Mean, Base::ScaledUp(target.min(WINDOW)), Base::ScaledUp(WINDOW)]
            }
            Some(GuestFeatures::Speeds) | None => vec![Base::Mean],
        };
        // For each base, what it misses in training, centred, against the features.
        let mut missed = Vec::new();
        for base in bases {
            let minus = |of: &[[f64; QUANTITIES]], windows| {
                let bases = surroundings.bases(observed, base, windows);
                let pairs = of.iter().zip(bases);
                pairs.map(|(y, b)| [y[0] - b[0], y[1] - b[1]]).collect::<Vec<_>>()
            };
            let mut rest = minus(&y, train);
            let mut offset = [0.0; QUANTITIES];
            for pair in &rest {
                offset.iter_mut().zip(pair).for_each(|(sum, y)| *sum += y / train.len() as f64);
            }
            for pair in &mut rest {
                pair.iter_mut().zip(offset).for_each(|(y, mean)| *y -= mean);
            }
            let moments = products(&x, columns, rest.as_flattened(), QUANTITIES);
            missed.push((base, offset, moments, minus(&y_validation, validation)));
        }

        let mut best: [Option<(f64, Output)>; QUANTITIES] = [None, None];
        for strength in STRENGTHS {
            let mut factor = gram.clone();
            for at in 0..columns {
                factor[at * columns + at] += strength * train.len() as f64;
            }
            if !factorise(&mut factor, columns) {
                return Err(RidgeError::Singular(strength));
            }
            for (base, offset, moments, rest) in &missed {
                let mut weights = moments.clone();
                substitute(&factor, columns, &mut weights, QUANTITIES);
                for (quantity, best) in best.iter_mut().enumerate() {
                    let weights: Vec<f64> =
                        weights.iter().skip(quantity).step_by(QUANTITIES).copied().collect();
                    let output = Output { base: *base, offset: offset[quantity], weights };
                    let rows = x_validation.chunks(columns.max(1)).zip(rest);
                    let loss: f64 =
                        rows.map(|(row, rest)| (output.rest(row) - rest[quantity]).powi(2)).sum();
                    if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                        *best = Some((loss, output));
                    }
                }
            }
        }
        let [Some((_, density)), Some((_, flow))] = best else {
            return Err(RidgeError::Singular(0.0));
        };
        Ok(Self { surroundings, features, outputs: [density, flow] })
    }

    fn estimate(
        &self,
        observed: &Observed<'_>,
        party: FeatureSet,
        windows: &[Step],
    ) -> Result<Vec<LinkState>, RidgeError> {
        let mut x = self.surroundings.rows(observed, party, windows)?;
        let columns = self.features.mean.len();
        if x.len() != columns * windows.len() {
            let link = observed.network().link(self.surroundings.link).name.clone();
            let found = x.len() / windows.len().max(1);
            return Err(RidgeError::Features { link, found, expected: columns });
        }
        self.features.apply(&mut x);
        let bases = self
            .outputs
            .each_ref()
            .map(|output| self.surroundings.bases(observed, output.base, windows));
        let state = |at: usize| {
            let row = &x[at * columns..][..columns];
            // Negative traffic does not exist.
            let value = |quantity: usize| {
                (bases[quantity][at][quantity] + self.outputs[quantity].rest(row)).max(0.0)
            };
            LinkState { density: VehPerKmLane::new(value(0)), flow: VehPerMinLane::new(value(1)) }
        };
        Ok((0..windows.len()).map(state).collect())
    }
}

impl Output {
    /// What is added to the base.
    fn rest(&self, row: &[f64]) -> f64 {
        self.offset + row.iter().zip(&self.weights).map(|(x, w)| x * w).sum::<f64>()
    }
}

fn targets(
    study: &Study,
    kind: TargetKind,
    link: LinkId,
    windows: &[Step],
) -> Result<Vec<[f64; QUANTITIES]>, RidgeError> {
    let target = |&step: &Step| {
        let state = study.target(kind, step, link);
        let values = [state.density.get(), state.flow.get()];
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(RidgeError::NotANumber { what: "targets", step: step.0 })
        }
    };
    windows.iter().map(target).collect()
}
