//! What a fleet shows over some time, scaled up: estimates without any training, which know no vehicle by heart.
//!
//! As of a model ([`HeldOutEstimator`](super::HeldOutEstimator)): what the fleet sees of a box is taken as it is, and for the
//! rest of it stands a mean over time of what the fleet scales up to on the link. Over the step alone that is plain scale-up. The longer
//! the mean, the less sampling noise is in it, and the less it follows the traffic.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use traffic::{LinkId, LinkState, Step, VehPerKmLane, VehPerMinLane};

use super::error::HeldOutError;
use super::folds::{Choices, trailing_state};
use super::judge::ViewEstimates;
use super::penetration::penetration;
use super::rates::FoldRates;
use crate::artifact::neural_estimator::NeuralError;
use crate::data::sources::{FleetData, LoopData};
use crate::metrics::Estimates;
use traffic::{FleetView, Window};

/// Over which time the mean is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Span {
    /// The last steps, so many.
    Steps(usize),
    /// The training part: what all folds but one scale up to, `[fold left out][link][density, flow]`.
    Training(Vec<Vec<[f64; 2]>>),
}

/// A fleet seen over some time, scaled up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetMeans {
    rates: FoldRates,
    span: Span,
}

impl FleetMeans {
    /// Over the last steps of a window, so many; the share of the fleet comes from loops and the training part.
    pub fn of_steps(
        loops: &LoopData,
        folds: &[FleetData],
        training: &RangeInclusive<Step>,
        steps: usize,
    ) -> Result<Self, HeldOutError> {
        let rates = FoldRates::new(penetration(loops, folds, training)?, folds.len())?;
        Ok(Self { rates, span: Span::Steps(steps) })
    }

    /// Over the training part: the usual state of each link, at any time.
    pub fn of_training(
        loops: &LoopData,
        folds: &[FleetData],
        training: &RangeInclusive<Step>,
    ) -> Result<Self, HeldOutError> {
        let rates = FoldRates::new(penetration(loops, folds, training)?, folds.len())?;
        let choices = Choices::of(loops, folds, &rates)?;
        let held: Vec<Step> =
            loops.timeline().steps().filter(|step| training.contains(step)).collect();
        let usual = |fleet: &FleetData, link: LinkId| {
            let mut sums = [0.0; 2];
            for &step in &held {
                let LinkState { density, flow } = fleet.scaled_up(step, link);
                sums[0] += density.get();
                sums[1] += flow.get();
            }
            sums.map(|sum| sum / held.len().max(1) as f64)
        };
        let of_fleet = |fleet: &FleetData| {
            loops.timeline().network().link_ids().map(|link| usual(fleet, link)).collect()
        };
        Ok(Self { rates, span: Span::Training(choices.seen.iter().map(of_fleet).collect()) })
    }

    /// Refuses what does not fit a network.
    pub(crate) fn check(&self, links: usize) -> Result<(), NeuralError> {
        let Span::Training(usual) = &self.span else { return Ok(()) };
        let sound = |of_links: &Vec<[f64; 2]>| {
            of_links.len() == links && of_links.as_flattened().iter().all(|value| value.is_finite())
        };
        if usual.len() == self.rates.folds() && usual.iter().all(sound) {
            return Ok(());
        }
        let (found, expected) = ("others".to_owned(), format!("finite ones of {links} links"));
        Err(NeuralError::Mismatch { what: "usual states", found, expected })
    }

    /// Estimates all links of windows, given by their last steps: `[window][link]`.
    pub fn estimate_all(
        &self,
        loops: &LoopData,
        folds: &[FleetData],
        windows: &[Step],
    ) -> Result<Estimates, HeldOutError> {
        let (choices, links) = self.open(loops, folds)?;
        let whole_share = self.rates.fleet();
        let state = |last: Step, link: LinkId| {
            let seen = choices.whole.scaled_up(last, link);
            let rest = match &self.span {
                &Span::Steps(steps) => {
                    let mean = trailing_state(&choices.whole, last, steps as i64, link);
                    pair(mean).map(|value| value / whole_share)
                }
                Span::Training(usual) => {
                    let of_folds = usual.iter().map(|of_links| of_links[link.index()]);
                    let count = usual.len().max(1) as f64;
                    of_folds.fold([0.0; 2], |sum, one| [0, 1].map(|at| sum[at] + one[at] / count))
                }
            };
            let [density, flow] = rest;
            LinkState {
                density: VehPerKmLane::new(self.rates.estimate(seen.density.get(), &[density])),
                flow: VehPerMinLane::new(self.rates.estimate(seen.flow.get(), &[flow])),
            }
        };
        let links = &links;
        Ok(windows
            .iter()
            .flat_map(|&last| links.iter().map(move |&link| state(last, link)))
            .collect())
    }

    /// Estimates all links of windows from each choice of folds alone, without the fold that it leaves out.
    pub fn estimate_in_views(
        &self,
        loops: &LoopData,
        folds: &[FleetData],
        windows: &[Step],
    ) -> Result<ViewEstimates, HeldOutError> {
        let (choices, links) = self.open(loops, folds)?;
        let share = self.rates.seen();
        let mut all = ViewEstimates::new();
        for (fold, seen) in choices.seen.iter().enumerate() {
            let Some(view) = FleetView::without(fold) else { continue };
            for &last in windows {
                let state = |&link: &LinkId| {
                    let own = pair(seen.scaled_up(last, link));
                    let rest = match &self.span {
                        &Span::Steps(steps) => pair(trailing_state(seen, last, steps as i64, link)),
                        Span::Training(usual) => usual[fold][link.index()],
                    };
                    let [density, flow] =
                        [0, 1].map(|at| share * own[at] + (1.0 - share) * rest[at]);
                    LinkState {
                        density: VehPerKmLane::new(density),
                        flow: VehPerMinLane::new(flow),
                    }
                };
                all.insert(Window { last, view }, links.iter().map(state).collect());
            }
        }
        Ok(all)
    }

    fn open(
        &self,
        loops: &LoopData,
        folds: &[FleetData],
    ) -> Result<(Choices, Vec<LinkId>), HeldOutError> {
        if folds.len() != self.rates.folds() {
            let (found, expected) = (folds.len().to_string(), self.rates.folds().to_string());
            return Err(NeuralError::Mismatch { what: "folds", found, expected }.into());
        }
        let links: Vec<LinkId> = loops.timeline().network().link_ids().collect();
        self.check(links.len())?;
        Ok((Choices::of(loops, folds, &self.rates)?, links))
    }
}

fn pair(state: LinkState) -> [f64; 2] {
    [state.density.get(), state.flow.get()]
}
