//! A fleet's share of the traffic by link and time.
//!
//! A fleet that is no fair sample has another share among the vehicles of each entry to the network, and at
//! other hours. Loops tell it where they are; conservation carries it on: a vehicle that came in by an entry
//! is the same vehicle on every link that it passes. With `x_e(t)` the logarithm of the share among those of
//! entry `e`, and `a_le` the part of the fleet on link `l` that came in by `e` (from its turns),
//!
//! ```text
//! log p_l(t) = Σ_e a_le·x_e(t)          to first order of the differences between entries
//! ```
//!
//! The `x_e` drift together, and a loop that counts `c` vehicles sees `p_l·c` of the fleet pass, with binomial
//! noise. An extended Kalman filter follows them; only what was counted before a step tells the share in it.
//! How far they drift, and how far entries differ, is whatever makes the passages of the training part likeliest:
//! of a fair sample that is not at all.

use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use traffic::{LinkId, Network, Step};

use super::error::HeldOutError;
use super::folds::check_steps;
use super::penetration::penetration;
use crate::artifact::neural_estimator::NeuralError;
use crate::data::sources::{FleetData, LocalShares, LoopData};

/// Steps between two looks at the loops: long enough for some vehicles, short beside an hour.
const STEPS_PER_LOOK: usize = 12;

/// How unsure the common share is before the first look, as the logarithm's standard deviation.
const COMMON_SPREAD: f64 = 0.3;

/// Candidates: drift of the common share per look.
const DRIFTS: [f64; 5] = [0.0, 0.005, 0.015, 0.05, 0.15];
/// Candidates: how far entries differ.
const DIFFERENCES: [f64; 3] = [0.03, 0.1, 0.3];
/// Candidates: variance of passages, counted on the way and at the loop, in squared vehicles.
const COUNTING: [f64; 3] = [3.0, 10.0, 30.0];

/// How a fleet's share was found to vary; logarithms' standard deviations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareVariation {
    /// Of the common share, in each look at the loops (two minutes with steps of 10 s).
    pub drift: f64,
    /// Of entries among each other.
    pub difference: f64,
    /// Variance of passages beyond the binomial one, in squared vehicles.
    pub counting: f64,
}

/// How a fleet's share is found on each link and in each step: what its training part told, to follow the loops with, on
/// the same recording or another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalShareModel {
    /// The mean share.
    mean: f64,
    origins: Origins,
    variation: ShareVariation,
}

impl LocalShareModel {
    /// From loops and a fleet's folds in the steps of the training part.
    ///
    /// # Errors
    /// If loops and folds are not of the same steps, or tell no share.
    pub fn fit(
        loops: &LoopData,
        folds: &[FleetData],
        training: &RangeInclusive<Step>,
    ) -> Result<Self, HeldOutError> {
        check_steps(loops.timeline(), folds)?;
        let mean = penetration(loops, folds, training)?;
        let origins = Origins::of(loops.timeline().network(), folds, training);
        let looks = looks(loops, folds);
        let in_training = looks.iter().filter(|look| training.contains(&look.last)).count();

        let mut best: Option<(f64, ShareVariation)> = None;
        for drift in DRIFTS {
            for difference in DIFFERENCES {
                for counting in COUNTING {
                    let variation = ShareVariation { drift, difference, counting };
                    let mut filter = ShareFilter::new(mean, &origins, variation);
                    let likelihood: f64 =
                        looks[..in_training].iter().map(|look| filter.take(look)).sum();
                    if best.is_none_or(|(most, _)| likelihood > most) {
                        best = Some((likelihood, variation));
                    }
                }
            }
        }
        let (_, variation) = best.ok_or(HeldOutError::Rate(mean))?;
        Ok(Self { mean, origins, variation })
    }

    /// How the share was found to vary.
    pub fn variation(&self) -> ShareVariation {
        self.variation
    }

    /// Shares by link and step relative to the mean one, each by what was counted before the step.
    ///
    /// # Errors
    /// If loops and folds are not of the same steps, or of another network.
    pub fn shares(
        &self,
        loops: &LoopData,
        folds: &[FleetData],
    ) -> Result<LocalShares, HeldOutError> {
        check_steps(loops.timeline(), folds)?;
        let links = loops.timeline().network().links().len();
        self.origins.check(links)?;
        let mut filter = ShareFilter::new(self.mean, &self.origins, self.variation);
        let mut factors = Vec::with_capacity(loops.timeline().steps().count() * links);
        for look in &looks(loops, folds) {
            let share = |link| (filter.share(link) / self.mean) as f32;
            let shares: Vec<f32> = (0..links).map(share).collect();
            (0..look.steps).for_each(|_| factors.extend_from_slice(&shares));
            filter.take(look);
        }
        Ok(LocalShares::new(Arc::clone(loops.timeline()), links, factors))
    }
}

/// Shares of a recording, and the model that found them.
pub(crate) struct FollowedShares {
    pub model: LocalShareModel,
    pub shares: Arc<LocalShares>,
}

impl FollowedShares {
    /// Follows the loops of a recording.
    pub(crate) fn of(
        model: LocalShareModel,
        loops: &LoopData,
        folds: &[FleetData],
    ) -> Result<Self, HeldOutError> {
        let shares = Arc::new(model.shares(loops, folds)?);
        Ok(Self { model, shares })
    }
}

/// By which entries a fleet came to each link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Origins {
    /// `[link]`: parts by entry, which add up to 1.
    of_link: Vec<Vec<f64>>,
    entries: usize,
}

impl Origins {
    /// Refuses those of another network.
    fn check(&self, links: usize) -> Result<(), HeldOutError> {
        let found = self.of_link.len();
        let whole = self.of_link.iter().all(|parts| parts.len() == self.entries);
        if found == links && whole && self.entries > 0 {
            return Ok(());
        }
        let (found, expected) = (found.to_string(), links.to_string());
        Err(NeuralError::Mismatch { what: "links with a share", found, expected }.into())
    }

    /// From a fleet's turns, taken as if each depended on the link alone. Without turns everything is one entry.
    fn of(network: &Network, folds: &[FleetData], training: &RangeInclusive<Step>) -> Self {
        let links = network.links().len();
        let mut turned = vec![0.0; network.turns().len()];
        let mut left = vec![0.0; links];
        for fold in folds {
            let movements = fold.movements();
            for (_, turn, count) in movements.turns.iter().filter(|row| training.contains(&row.0)) {
                turned[turn.index()] += f64::from(*count);
                left[network.turns()[turn.index()].from.index()] += f64::from(*count);
            }
            for (_, link, count) in movements.ends.iter().filter(|row| training.contains(&row.0)) {
                left[link.index()] += f64::from(*count);
            }
        }
        let entries: Vec<LinkId> =
            network.entries().filter(|entry| left[entry.index()] > 0.0).collect();
        if entries.is_empty() || turned.iter().sum::<f64>() == 0.0 {
            return Self { of_link: vec![vec![1.0]; links], entries: 1 };
        }
        let ratios: Vec<f64> = network
            .turns()
            .iter()
            .zip(&turned)
            .map(|(turn, count)| count / left[turn.from.index()].max(1.0))
            .collect();
        let by_entry: Vec<Vec<f64>> = entries
            .iter()
            .map(|entry| visits(network, &ratios, *entry, left[entry.index()]))
            .collect();
        let total: f64 = entries.iter().map(|entry| left[entry.index()]).sum();
        let of_link = (0..links).map(|link| {
            let here: f64 = by_entry.iter().map(|visits| visits[link]).sum();
            if here > 0.0 {
                return by_entry.iter().map(|visits| visits[link] / here).collect();
            }
            // Where nobody came by an entry, all of them tell a little.
            entries.iter().map(|entry| left[entry.index()] / total).collect()
        });
        Self { of_link: of_link.collect(), entries: entries.len() }
    }
}

/// How often vehicles of one entry pass each link. Streets may lead back to where they came from: what is
/// left over after as many turns as there are links, twice, is too little to matter.
fn visits(network: &Network, ratios: &[f64], entry: LinkId, vehicles: f64) -> Vec<f64> {
    let links = network.links().len();
    let mut arriving = vec![0.0; links];
    arriving[entry.index()] = vehicles;
    let mut visits = arriving.clone();
    for _ in 0..2 * links {
        let mut next = vec![0.0; links];
        for (turn, ratio) in network.turns().iter().zip(ratios) {
            next[turn.to.index()] += ratio * arriving[turn.from.index()];
        }
        visits.iter_mut().zip(&next).for_each(|(sum, own)| *sum += own);
        if next.iter().sum::<f64>() < 1e-6 * vehicles {
            break;
        }
        arriving = next;
    }
    visits
}

/// What some steps in a row show at the loops.
struct Look {
    last: Step,
    steps: usize,
    /// Link, vehicles counted and passages of the fleet, of each loop that reported.
    seen: Vec<(usize, f64, f64)>,
}

fn looks(loops: &LoopData, folds: &[FleetData]) -> Vec<Look> {
    let network = loops.timeline().network();
    let steps: Vec<Step> = loops.timeline().steps().collect();
    let look = |steps: &[Step]| {
        let of_loop = |at: usize, link: LinkId| {
            let reported = steps.iter().filter_map(|step| Some((*step, loops.counts(*step)[at]?)));
            let (mut counted, mut passages) = (0.0, 0.0);
            for (step, count) in reported {
                counted += count;
                let length = network.link(link).length;
                passages +=
                    folds.iter().map(|fold| fold.totals(step, link).distance / length).sum::<f64>();
            }
            (link.index(), counted, passages)
        };
        let seen = network.loops().iter().enumerate().map(|(at, own)| of_loop(at, own.link));
        let seen = seen.filter(|(_, counted, _)| *counted > 0.0).collect();
        Look { last: steps[steps.len() - 1], steps: steps.len(), seen }
    };
    steps.chunks(STEPS_PER_LOOK).map(look).collect()
}

/// The logarithms of the shares by entry, and how sure they are.
struct ShareFilter<'a> {
    origins: &'a Origins,
    variation: ShareVariation,
    logarithms: Vec<f64>,
    /// `[entry][entry]`
    covariance: Vec<f64>,
}

impl<'a> ShareFilter<'a> {
    fn new(mean: f64, origins: &'a Origins, variation: ShareVariation) -> Self {
        let entries = origins.entries;
        let mut covariance = vec![COMMON_SPREAD.powi(2); entries * entries];
        for entry in 0..entries {
            covariance[entry * entries + entry] += variation.difference.powi(2);
        }
        Self { origins, variation, logarithms: vec![mean.ln(); entries], covariance }
    }

    /// The share on a link.
    fn share(&self, link: usize) -> f64 {
        let terms = self.origins.of_link[link].iter().zip(&self.logarithms);
        terms.map(|(part, logarithm)| part * logarithm).sum::<f64>().exp().min(1.0)
    }

    /// Takes a look at the loops, one after the other; returns the logarithm of its likelihood.
    fn take(&mut self, look: &Look) -> f64 {
        self.covariance.iter_mut().for_each(|entry| *entry += self.variation.drift.powi(2));
        look.seen.iter().map(|(link, counted, passages)| self.see(*link, *counted, *passages)).sum()
    }

    fn see(&mut self, link: usize, counted: f64, passages: f64) -> f64 {
        let entries = self.origins.entries;
        let share = self.share(link);
        let expected = counted * share;
        // ∂(c·p_l)/∂x_e = c·p_l·a_le
        let slopes: Vec<f64> =
            self.origins.of_link[link].iter().map(|part| part * expected).collect();
        let spread: Vec<f64> = self
            .covariance
            .chunks(entries)
            .map(|row| row.iter().zip(&slopes).map(|(own, slope)| own * slope).sum())
            .collect();
        let prior: f64 = spread.iter().zip(&slopes).map(|(own, slope)| own * slope).sum();
        let noise = expected * (1.0 - share) + self.variation.counting * share * share;
        let variance = prior + noise.max(f64::MIN_POSITIVE);
        let surprise = passages - expected;
        for (logarithm, own) in self.logarithms.iter_mut().zip(&spread) {
            *logarithm += own * surprise / variance;
        }
        for (row, own) in spread.iter().enumerate() {
            for (column, other) in spread.iter().enumerate() {
                self.covariance[row * entries + column] -= own * other / variance;
            }
        }
        -0.5 * (surprise * surprise / variance + variance.ln())
    }
}

#[cfg(test)]
mod tests;
