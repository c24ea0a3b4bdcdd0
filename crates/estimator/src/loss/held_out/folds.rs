//! Folds put together: all but one to see, one to be asked about, all at use.

use std::sync::Arc;

use traffic::{LinkId, LinkState, Step, VehPerKmLane, VehPerMinLane};

use super::error::HeldOutError;
use super::rates::FoldRates;
use crate::data::sources::{FleetData, LocalShares, LoopData};
use crate::data::timeline::Timeline;

/// Every choice of folds, in the order of the fold that is left out.
pub(crate) struct Choices {
    /// All folds but one, in scale-up units of their own rate.
    pub seen: Vec<FleetData>,
    /// The one, in those of its rate.
    pub held_out: Vec<FleetData>,
    /// All folds, not scaled up.
    pub whole: FleetData,
}

impl Choices {
    /// Of the folds of one fleet, which hold the same steps.
    pub(crate) fn of(
        loops: &LoopData,
        folds: &[FleetData],
        rates: &FoldRates,
    ) -> Result<Self, HeldOutError> {
        check_steps(loops.timeline(), folds)?;
        Self::of_folds(folds, rates)
    }

    /// The same, scaled up by shares that differ by link and step.
    pub(crate) fn shared_as(self, local: Option<&Arc<LocalShares>>) -> Self {
        let all = |fleets: Vec<FleetData>| -> Vec<FleetData> {
            fleets.into_iter().map(|fleet| fleet.shared_as(local)).collect()
        };
        Self { seen: all(self.seen), held_out: all(self.held_out), whole: self.whole }
    }

    /// The same without a host's loops.
    pub(crate) fn of_folds(folds: &[FleetData], rates: &FoldRates) -> Result<Self, HeldOutError> {
        let first = folds.first().ok_or(HeldOutError::Folds(0))?;
        check_steps(first.timeline(), folds)?;
        let all: Vec<&FleetData> = folds.iter().collect();
        let together = |fleets: &[&FleetData], name: &str, rate: f64| {
            FleetData::together(fleets, name, rate).ok_or(HeldOutError::Folds(folds.len()))
        };
        let (mut seen, mut held_out) = (Vec::new(), Vec::new());
        for (at, fold) in folds.iter().enumerate() {
            let rest: Vec<&FleetData> = [&all[..at], &all[at + 1..]].concat();
            let name = format!("all but {}", fold.name());
            seen.push(together(&rest, &name, rates.seen())?);
            held_out.push(together(&[fold], fold.name(), rates.held_out())?);
        }
        Ok(Self { seen, held_out, whole: together(&all, "all folds", 1.0)? })
    }
}

/// Refuses folds that do not hold these steps.
pub(super) fn check_steps(expected: &Timeline, folds: &[FleetData]) -> Result<(), HeldOutError> {
    let other = folds.iter().find(|fold| {
        let found = fold.timeline();
        found.held() != expected.held()
            || found.network_hash() != expected.network_hash()
            || found.cell_shape() != expected.cell_shape()
    });
    other.map_or(Ok(()), |fold| Err(HeldOutError::OtherSteps { fold: fold.name().to_owned() }))
}

/// Mean of a fleet's scaled-up states over some steps, the last of which is given.
pub(super) fn trailing_state(fleet: &FleetData, last: Step, steps: i64, link: LinkId) -> LinkState {
    let (mut density, mut flow) = (0.0, 0.0);
    for step in (last.0 + 1 - steps..=last.0).map(Step) {
        let state = fleet.scaled_up(step, link);
        density += state.density.get();
        flow += state.flow.get();
    }
    let count = steps as f64;
    LinkState {
        density: VehPerKmLane::new(density / count),
        flow: VehPerMinLane::new(flow / count),
    }
}
