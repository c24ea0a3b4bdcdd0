//! Weights of several models that follow the traffic.
//!
//! A model that is best in one hour is not in the next: where jams grow beyond all that it has learned from, what the fleet shows is
//! better than any model. Labels are there at use as in training, since no truth is in them: so weights are fitted anew after each
//! step, to what the folds told until then, and what they told before counts less and less.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use traffic::Step;

use super::convex_fit::ConvexFit;
use super::error::HeldOutError;
use super::folds::Choices;
use super::judge::{HeldOutJudge, ViewEstimates};
use super::rates::FoldRates;
use crate::artifact::neural_estimator::NeuralError;
use crate::data::sources::{FleetData, LoopData};
use crate::data::timeline::Timeline;

/// Seconds after which what was told counts 1/e: some cycles of a signal, a part of a rush hour.
const REMEMBERED_S: f64 = 600.0;
/// Seconds in which labels of a link are of much the same vehicles: where they stand, as long as labels are remembered.
const ALIKE_S: f64 = REMEMBERED_S;
/// Numbers of estimates in views that are made of a model, at most: where there are more, windows are thinned out evenly.
const MOST_NUMBERS: usize = 8_000_000;

/// What the validation part tells of models, from which their weights go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowedWeights {
    rates: FoldRates,
    /// Models that have weights beforehand, the first ones, in equal parts.
    plain: usize,
    /// Length of a step, s.
    step_s: f64,
    /// The last step of the validation part.
    since: Step,
    /// What was told until then, of density and of flow.
    known: [ConvexFit; 2],
}

/// Weights by time, of each model those of density and of flow.
pub struct WeightsInTime {
    first: Vec<[f64; 2]>,
    /// From these steps on.
    later: BTreeMap<Step, Vec<[f64; 2]>>,
}

impl FollowedWeights {
    /// Of models that have estimated some steps in views, those of the validation part in the order of time.
    /// Before that, the first ones, so many, have equal weights and the others none.
    pub fn fit(
        judge: &HeldOutJudge,
        models: &[&ViewEstimates],
        plain: usize,
        validation: &[Step],
    ) -> Self {
        let empty = ConvexFit::new(models.len());
        let mut own = Self {
            rates: *judge.rates(),
            plain: plain.clamp(1, models.len().max(1)),
            step_s: judge.step().get(),
            since: validation.first().copied().unwrap_or(Step(0)),
            known: [empty.clone(), empty],
        };
        for &step in validation {
            own.take(judge, models, step);
        }
        own
    }

    /// Refuses what does not fit so many models.
    pub(crate) fn check(&self, models: usize) -> Result<(), NeuralError> {
        let sound = (1..=models).contains(&self.plain) && self.step_s > 0.0;
        if sound && self.known.iter().all(|known| known.is_sound(models)) {
            return Ok(());
        }
        let (found, expected) = ("others".to_owned(), format!("finite ones of {models} models"));
        Err(NeuralError::Mismatch { what: "sums of a combination", found, expected })
    }

    /// The windows that the weights follow until the last of those asked for.
    pub fn steps(&self, timeline: &Timeline, asked: &[Step]) -> Vec<Step> {
        Self::steps_after(self.since, timeline, self.rates.folds(), asked)
    }

    /// The same of a validation part that ends with a step, and a fleet of so many folds.
    pub fn steps_after(
        since: Step,
        timeline: &Timeline,
        folds: usize,
        asked: &[Step],
    ) -> Vec<Step> {
        let windows = timeline.windows();
        let numbers = windows.len() * folds * timeline.network().links().len() * 2;
        let every = numbers.div_ceil(MOST_NUMBERS).max(1);
        let last = asked.iter().max().copied().unwrap_or(since);
        let later = windows.iter().copied().filter(|&step| step > since && step <= last);
        later.step_by(every).collect()
    }

    /// Follows some steps, of which all models have estimates in views.
    pub fn follow(
        mut self,
        judge: &HeldOutJudge,
        models: &[&ViewEstimates],
        steps: &[Step],
    ) -> WeightsInTime {
        let first = self.now();
        let of_step = |&step: &Step| {
            self.take(judge, models, step);
            (step, self.now())
        };
        WeightsInTime { first, later: steps.iter().map(of_step).collect() }
    }

    /// The weights as of the last step that was taken.
    pub fn now(&self) -> Vec<[f64; 2]> {
        // Views of a box are of the same vehicles, too.
        let alike = self.rates.folds() as f64 * (ALIKE_S / self.step_s).max(1.0);
        let fitted = |known: &ConvexFit| {
            let plain = |model| if model < self.plain { 1.0 / self.plain as f64 } else { 0.0 };
            let before: Vec<f64> = (0..known.moments.len()).map(plain).collect();
            known.clone().without_memory(&self.rates).expecting(&before, alike).solve()
        };
        let [density, flow] = self.known.each_ref().map(fitted);
        density.into_iter().zip(flow).map(|(density, flow)| [density, flow]).collect()
    }

    /// A judge of folds by which the weights go on.
    pub(crate) fn judge(
        &self,
        loops: &LoopData,
        folds: &[FleetData],
    ) -> Result<HeldOutJudge, HeldOutError> {
        if folds.len() != self.rates.folds() {
            let (found, expected) = (folds.len().to_string(), self.rates.folds().to_string());
            return Err(NeuralError::Mismatch { what: "folds", found, expected }.into());
        }
        let choices = Choices::of(loops, folds, &self.rates)?;
        Ok(HeldOutJudge::of_choices(self.rates, choices, loops))
    }

    fn take(&mut self, judge: &HeldOutJudge, models: &[&ViewEstimates], step: Step) {
        let passed = (step.0 - self.since.0).max(0) as f64 * self.step_s;
        self.since = step;
        for (known, told) in self.known.iter_mut().zip(judge.told_of(models, step)) {
            known.fade((-passed / REMEMBERED_S).exp());
            known.take(&told);
        }
    }
}

impl WeightsInTime {
    /// Those that hold at a step: of the validation part's end before all others.
    pub fn at(&self, step: Step) -> &[[f64; 2]] {
        let before = self.later.range(..=step).next_back();
        before.map_or(&self.first, |(_, weights)| weights)
    }

    /// Weights that are always the same.
    pub fn constant(weights: Vec<[f64; 2]>) -> Self {
        Self { first: weights, later: BTreeMap::new() }
    }
}
