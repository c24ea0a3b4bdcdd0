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
//! scaled-up mean over the target's steps or over the window. The validation part of one link is too short to choose λ and base by:
//! the estimate is the mean over all choices, weighted by the likelihood of the link's validation errors and of those
//! of all links. Time and memory are linear in links.

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

/// Strengths that are tried; at the last one nothing is added to a scaled-up base.
fn strengths() -> impl Iterator<Item = f64> {
    STRENGTHS.into_iter().chain([f64::INFINITY])
}

/// Density and flow.
const QUANTITIES: usize = 2;

/// Independent errors that the validation part of a link counts as: errors of one minute are much like those of the next.
const INDEPENDENT_ERRORS: f64 = 8.0;

/// A mean square below which an error is as good as none, (veh/km/lane)² or (veh/min/lane)²: a link that is always empty
/// says nothing of the others.
const SMALLEST_LOSS: f64 = 1e-4;

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
    /// With their shares.
    bases: Vec<(Base, f64)>,
    /// Mean of what the bases miss.
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
    /// How often a fit comes to each link: the validation losses of all links weigh the regressions of each. What the first pass solves is
    /// solved again, since the weights of all choices of all links would not fit into memory.
    pub const PASSES: u64 = 2;

    /// Fits some links on the training part; the validation part weighs strengths and bases. `passed` is called [`PASSES`](Self::PASSES) times for
    /// each link, from any thread.
    pub fn fit(
        study: &Study,
        kind: TargetKind,
        party: FeatureSet,
        links: &[LinkId],
        passed: impl Fn() + Sync,
    ) -> Result<Self, RidgeError> {
        let bases = &Base::of(study, kind, party)[..];
        let losses = |&link: &LinkId| {
            let losses = LinkSystem::new(study, kind, party, link, bases)?.losses()?;
            passed();
            Ok(losses)
        };
        let losses: Vec<Losses> = links.par_iter().map(losses).collect::<Result<_, _>>()?;
        let shares = shares_of(&losses);
        let fit = |(&link, shares): (&LinkId, &[Vec<f64>; QUANTITIES])| {
            let fitted = LinkSystem::new(study, kind, party, link, bases)?.fit(shares);
            passed();
            fitted
        };
        let links = links.par_iter().zip(&shares).map(fit).collect::<Result<_, _>>()?;
        Ok(Self { party, links })
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

impl Base {
    /// Those that are tried.
    fn of(study: &Study, kind: TargetKind, party: FeatureSet) -> Vec<Self> {
        match party.guest_features() {
            Some(GuestFeatures::Totals | GuestFeatures::TotalsAndCells) => {
                let target = averaged_steps(kind, study.step()) as usize;
                vec![Self::Mean, Self::ScaledUp(target.min(WINDOW)), Self::ScaledUp(WINDOW)]
            }
            Some(GuestFeatures::Speeds) | None => vec![Self::Mean],
        }
    }
}

/// The logarithms of a link's validation losses, `[quantity][choice]`. A choice is a strength and a base.
type Losses = [Vec<f64>; QUANTITIES];

/// What each choice counts for on each link. The likelihood of `n` independent errors of mean square `L`, with the variance that fits them best, is
/// `L^(-n/2)`; those of all links count as much as the link's own.
fn shares_of(losses: &[Losses]) -> Vec<[Vec<f64>; QUANTITIES]> {
    let common: [Vec<f64>; QUANTITIES] = std::array::from_fn(|quantity| {
        let choices = losses.first().map_or(0, |link| link[quantity].len());
        let sum = |choice: usize| losses.iter().map(|link| link[quantity][choice]).sum::<f64>();
        (0..choices).map(|choice| sum(choice) / losses.len() as f64).collect()
    });
    let of_link = |link: &Losses| {
        std::array::from_fn(|quantity| {
            let both = link[quantity].iter().zip(&common[quantity]).map(|(own, all)| own + all);
            let both: Vec<f64> = both.collect();
            let least = both.iter().copied().fold(f64::INFINITY, f64::min);
            let likelihoods =
                both.iter().map(|loss| (INDEPENDENT_ERRORS / 2.0 * (least - loss)).exp());
            let likelihoods: Vec<f64> = likelihoods.collect();
            let sum: f64 = likelihoods.iter().sum();
            likelihoods.iter().map(|likelihood| likelihood / sum).collect()
        })
    };
    losses.iter().map(of_link).collect()
}

/// The normal equations of a link.
struct LinkSystem {
    surroundings: Surroundings,
    features: Scaler,
    gram: Vec<f64>,
    train: usize,
    of_bases: Vec<MissedByBase>,
    /// Features of the validation part.
    x_validation: Vec<f64>,
}

/// What a base misses.
struct MissedByBase {
    base: Base,
    /// In training, in the mean.
    offset: [f64; QUANTITIES],
    /// In training, centred, times the features.
    moments: Vec<f64>,
    validation: Vec<[f64; QUANTITIES]>,
}

impl MissedByBase {
    /// What is added to the base besides the regression: a fleet that is scaled up has no bias that a short training part could tell.
    fn offset(&self, strength: f64) -> [f64; QUANTITIES] {
        match self.base {
            Base::ScaledUp(_) if strength.is_infinite() => [0.0; QUANTITIES],
            Base::ScaledUp(_) | Base::Mean => self.offset,
        }
    }
}

impl LinkSystem {
    fn new(
        study: &Study,
        kind: TargetKind,
        party: FeatureSet,
        link: LinkId,
        bases: &[Base],
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
        let (y, y_validation) =
            (targets(study, kind, link, train)?, targets(study, kind, link, validation)?);
        let missed = |&base: &Base| {
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
            MissedByBase { base, offset, moments, validation: minus(&y_validation, validation) }
        };
        let of_bases = bases.iter().map(missed).collect();
        let gram = products(&x, columns, &x, columns);
        Ok(Self { surroundings, features, gram, train: train.len(), of_bases, x_validation })
    }

    /// The weights of each base's regression at a strength, `[base][feature][quantity]`.
    fn solve(&self, strength: f64) -> Result<Vec<Vec<f64>>, RidgeError> {
        let columns = self.features.mean.len();
        if strength.is_infinite() {
            return Ok(vec![vec![0.0; columns * QUANTITIES]; self.of_bases.len()]);
        }
        let mut factor = self.gram.clone();
        for at in 0..columns {
            factor[at * columns + at] += strength * self.train as f64;
        }
        if !factorise(&mut factor, columns) {
            return Err(RidgeError::Singular(strength));
        }
        let solved = |missed: &MissedByBase| {
            let mut weights = missed.moments.clone();
            substitute(&factor, columns, &mut weights, QUANTITIES);
            weights
        };
        Ok(self.of_bases.iter().map(solved).collect())
    }

    /// The validation losses, choice by choice: bases of one strength stand together.
    fn losses(&self) -> Result<Losses, RidgeError> {
        let columns = self.features.mean.len().max(1);
        let mut losses: Losses = Default::default();
        for strength in strengths() {
            for (weights, missed) in self.solve(strength)?.iter().zip(&self.of_bases) {
                let mut squares = [0.0; QUANTITIES];
                for (row, rest) in self.x_validation.chunks(columns).zip(&missed.validation) {
                    for (quantity, square) in squares.iter_mut().enumerate() {
                        let weights = weights.iter().skip(quantity).step_by(QUANTITIES);
                        let found: f64 = row.iter().zip(weights).map(|(x, w)| x * w).sum();
                        *square +=
                            (missed.offset(strength)[quantity] + found - rest[quantity]).powi(2);
                    }
                }
                let windows = missed.validation.len().max(1) as f64;
                for (losses, square) in losses.iter_mut().zip(squares) {
                    losses.push((square / windows).max(SMALLEST_LOSS).ln());
                }
            }
        }
        Ok(losses)
    }

    fn fit(self, shares: &[Vec<f64>; QUANTITIES]) -> Result<LinkRidge, RidgeError> {
        let bases: Vec<(Base, f64)> =
            self.of_bases.iter().map(|missed| (missed.base, 0.0)).collect();
        let weights = vec![0.0; self.features.mean.len()];
        let mut outputs = [(); QUANTITIES].map(|()| Output {
            bases: bases.clone(),
            offset: 0.0,
            weights: weights.clone(),
        });
        for (at, strength) in strengths().enumerate() {
            for (base, solved) in self.solve(strength)?.iter().enumerate() {
                for (quantity, output) in outputs.iter_mut().enumerate() {
                    let share = shares[quantity][at * bases.len() + base];
                    output.bases[base].1 += share;
                    output.offset += share * self.of_bases[base].offset(strength)[quantity];
                    let solved = solved.iter().skip(quantity).step_by(QUANTITIES);
                    output.weights.iter_mut().zip(solved).for_each(|(sum, w)| *sum += share * w);
                }
            }
        }
        Ok(LinkRidge { surroundings: self.surroundings, features: self.features, outputs })
    }
}

impl LinkRidge {
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
        let bases_of = |output: &Output| {
            let mut sum = vec![[0.0; QUANTITIES]; windows.len()];
            for &(base, share) in &output.bases {
                let values = self.surroundings.bases(observed, base, windows);
                for (sum, value) in sum.as_flattened_mut().iter_mut().zip(values.as_flattened()) {
                    *sum += share * value;
                }
            }
            sum
        };
        let bases = self.outputs.each_ref().map(bases_of);
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
    /// What is added to the bases.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two choices with mean squares 1 and 4 on one link and the reverse on another: all links together do not tell them apart, and each link's
    /// likelihood is 4^(8/2) = 256 to 1.
    #[test]
    fn choices_count_by_their_likelihood() {
        let of = |losses: [f64; 2]| losses.map(f64::ln).to_vec();
        let losses = [[of([1.0, 4.0]), of([1.0, 1.0])], [of([4.0, 1.0]), of([1.0, 1.0])]];
        let shares = shares_of(&losses);
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
        near(shares[0][0][0], 256.0 / 257.0);
        near(shares[1][0][0], 1.0 / 257.0);
        near(shares[0][1][0], 0.5);
        // A link with the losses of all the others: both agree, 256² to 1.
        let same = [[of([1.0, 4.0]), of([1.0, 1.0])], [of([1.0, 4.0]), of([1.0, 1.0])]];
        near(shares_of(&same)[0][0][1], 1.0 / (1.0 + 65536.0));
    }
}
