//! A model trained on held-out folds, at use.

use neural::{Fusion, Learner};
use serde::{Deserialize, Serialize};
use traffic::{FleetView, LinkId, LinkState, Step, VehPerKmLane, VehPerMinLane, Window};

use super::error::HeldOutError;
use super::folds::{Choices, trailing_state};
use super::judge::ViewEstimates;
use super::local::{FollowedShares, LocalShareModel};
use super::rates::FoldRates;
use crate::artifact::neural_estimator::NeuralError;
use crate::artifact::record::ModelRecord;
use crate::baseline::scale_up::averaged_steps;
use crate::data::inputs::{GuestInputs, HostInputs};
use crate::data::joint::{estimate_windows, write_all};
use crate::data::sources::{FleetData, LoopData};
use crate::metrics::Estimates;

/// What the whole fleet sees, and for what it does not see the mean of a model's answers.
pub struct HeldOutEstimator {
    record: ModelRecord,
    rates: FoldRates,
    learner: Learner<Fusion>,
    answer: ModelAnswer,
    /// Shares by link and step, of the steps that it was made with.
    local: Option<FollowedShares>,
}

/// What a held-out model tells of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelAnswer {
    /// The unseen part, scaled up.
    Unseen,
    /// The total.
    Total,
}

impl HeldOutEstimator {
    pub(super) fn new(
        record: ModelRecord,
        rates: FoldRates,
        learner: Learner<Fusion>,
        local: Option<FollowedShares>,
    ) -> Self {
        Self { record, rates, learner, answer: ModelAnswer::Unseen, local }
    }

    /// Of a model that tells totals.
    pub(crate) fn of_totals(
        record: ModelRecord,
        rates: FoldRates,
        learner: Learner<Fusion>,
    ) -> Self {
        Self { record, rates, learner, answer: ModelAnswer::Total, local: None }
    }

    /// Of parts that were kept.
    pub(crate) fn kept(
        (record, rates, answer): (ModelRecord, FoldRates, ModelAnswer),
        learner: Learner<Fusion>,
        local: Option<FollowedShares>,
    ) -> Self {
        Self { record, rates, learner, answer, local }
    }

    /// Its model and weights.
    pub(crate) fn learner(&self) -> &Learner<Fusion> {
        &self.learner
    }

    /// The shares of fleet and folds, and what its model tells.
    pub(crate) fn rates(&self) -> (FoldRates, ModelAnswer) {
        (self.rates, self.answer)
    }

    /// How the fleet's share on each link and in each step is found; none where it is the same everywhere and always.
    pub(crate) fn local_model(&self) -> Option<&LocalShareModel> {
        self.local.as_ref().map(|local| &local.model)
    }

    /// What its model assumes.
    pub fn record(&self) -> &ModelRecord {
        &self.record
    }

    /// Estimates all links of windows, given by their last steps: `[window][link]`.
    pub(crate) fn estimate_all(
        &self,
        loops: &LoopData,
        folds: &[FleetData],
        windows: &[Step],
    ) -> Result<Estimates, HeldOutError> {
        if folds.len() != self.rates.folds() {
            let (found, expected) = (folds.len().to_string(), self.rates.folds().to_string());
            return Err(NeuralError::Mismatch { what: "folds", found, expected }.into());
        }
        let choices = Choices::of(loops, folds, &self.rates)?
            .shared_as(self.local.as_ref().map(|local| &local.shares));
        self.record.check(loops, &choices.seen[..1])?;
        let unseen = self.unseen(loops, &choices, windows)?;
        let network = loops.timeline().network();
        let steps = averaged_steps(self.record.plan.target, loops.timeline().step());
        let mut estimates = Vec::with_capacity(unseen[0].len());
        for &last in windows {
            for link in network.link_ids() {
                let at = estimates.len();
                let whole = trailing_state(&choices.whole, last, steps, link);
                let factor =
                    self.local.as_ref().map_or(1.0, |local| local.shares.factor(last, link));
                let rates = self.rates.times(factor);
                let each = |value: fn(&LinkState) -> f64| -> Vec<f64> {
                    unseen.iter().map(|states| value(&states[at])).collect()
                };
                let density = each(|state| state.density.get());
                let flow = each(|state| state.flow.get());
                estimates.push(LinkState {
                    density: VehPerKmLane::new(rates.estimate(whole.density.get(), &density)),
                    flow: VehPerMinLane::new(rates.estimate(whole.flow.get(), &flow)),
                });
            }
        }
        Ok(estimates)
    }

    /// Estimates the scored links of windows: `[window][target link]`.
    pub fn estimate(
        &self,
        loops: &LoopData,
        folds: &[FleetData],
        windows: &[Step],
    ) -> Result<Estimates, HeldOutError> {
        let all = self.estimate_all(loops, folds, windows)?;
        let network = loops.timeline().network();
        let targets = network.targets();
        let of_window = |row: &[LinkState]| -> Estimates {
            targets.iter().map(|link| row[link.index()]).collect()
        };
        Ok(all.chunks(network.links().len().max(1)).flat_map(of_window).collect())
    }

    /// Estimates all links of windows from each choice of folds alone, without the fold that it leaves out.
    pub fn estimate_in_views(
        &self,
        loops: &LoopData,
        folds: &[FleetData],
        windows: &[Step],
    ) -> Result<ViewEstimates, HeldOutError> {
        let choices = Choices::of(loops, folds, &self.rates)?
            .shared_as(self.local.as_ref().map(|local| &local.shares));
        let unseen = self.unseen(loops, &choices, windows)?;
        let links: Vec<LinkId> = loops.timeline().network().link_ids().collect();
        let steps = averaged_steps(self.record.plan.target, loops.timeline().step());
        let share = self.rates.seen();
        let mut all = ViewEstimates::new();
        for (fold, (seen, states)) in choices.seen.iter().zip(&unseen).enumerate() {
            let Some(view) = FleetView::without(fold) else { continue };
            for (&last, states) in windows.iter().zip(states.chunks_exact(links.len())) {
                let total = |(&link, unseen): (&LinkId, &LinkState)| {
                    let own = trailing_state(seen, last, steps, link);
                    let sum = |own: f64, unseen: f64| share * own + (1.0 - share) * unseen;
                    LinkState {
                        density: VehPerKmLane::new(sum(own.density.get(), unseen.density.get())),
                        flow: VehPerMinLane::new(sum(own.flow.get(), unseen.flow.get())),
                    }
                };
                let states = links.iter().zip(states).map(total).collect();
                all.insert(Window { last, view }, states);
            }
        }
        Ok(all)
    }

    /// The unseen part, scaled up, as the model tells it from each choice of folds.
    fn unseen(
        &self,
        loops: &LoopData,
        choices: &Choices,
        windows: &[Step],
    ) -> Result<Vec<Estimates>, NeuralError> {
        let plan = &self.record.plan;
        let host = HostInputs::new(loops, plan.host_arrangement(), &self.record.host.inputs)?;
        let (guest, record) = (&plan.guests[0], &self.record.guests[0]);
        let mut answers = Vec::new();
        for fleet in &choices.seen {
            let arrangement = guest.sub_model.arrangement();
            let seen = [GuestInputs::new(fleet, guest.features, arrangement, &record.inputs)?];
            let mut states = Vec::new();
            estimate_windows(
                &self.learner,
                windows,
                |last, x| write_all(&host, &seen, last, x),
                |estimate| states.extend(self.record.host.states(estimate)),
            );
            if self.answer == ModelAnswer::Total {
                self.take_off_seen(fleet, windows, &mut states);
            }
            answers.push(states);
        }
        Ok(answers)
    }

    /// Of totals, the unseen part, scaled up.
    fn take_off_seen(&self, seen: &FleetData, windows: &[Step], totals: &mut [LinkState]) {
        let network = seen.timeline().network();
        let of_window = |&last| network.link_ids().map(move |link| (last, link));
        let boxes = windows.iter().flat_map(of_window);
        let steps = averaged_steps(self.record.plan.target, seen.timeline().step());
        let share = self.rates.seen();
        for (state, (last, link)) in totals.iter_mut().zip(boxes) {
            let own = trailing_state(seen, last, steps, link);
            let rest = |total: f64, seen: f64| self.rates.unseen_of(total, share * seen);
            state.density = VehPerKmLane::new(rest(state.density.get(), own.density.get()));
            state.flow = VehPerMinLane::new(rest(state.flow.get(), own.flow.get()));
        }
    }
}
