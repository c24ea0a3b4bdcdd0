//! Estimates of two links over an hour beside the truth, to be drawn: one with a loop, one without.

use std::collections::BTreeMap;

use estimator::{Study, TargetKind};
use serde::{Deserialize, Serialize};
use traffic::{LinkId, LinkState, Step};

use super::cells::Quantity;
use super::job::Record;
use super::plan::{Range, TablePlan};

/// Steps that are kept: an hour of 10 s.
const STEPS: usize = 360;

/// One link's truth and estimates, step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub link: String,
    pub has_loop: bool,
    /// Minutes since the first one.
    pub minutes: Vec<f64>,
    /// Truth and estimate of density, then of flow.
    pub density: [Vec<f64>; 2],
    pub flow: [Vec<f64>; 2],
}

/// The series of a row of a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Labelled {
    pub label: String,
    pub demand_seed: u64,
    pub series: Vec<Series>,
}

impl Series {
    /// Truth and estimate.
    pub fn of(&self, quantity: Quantity) -> &[Vec<f64>; 2] {
        quantity.pick(&self.density, &self.flow)
    }
}

/// What the finished jobs of a plan have kept of the first demand seed that all have.
pub(super) fn labelled(
    plan: &TablePlan,
    range: &Range,
    target: TargetKind,
    records: &BTreeMap<String, Record>,
) -> Vec<Labelled> {
    let of_seed = |seed: u64| -> Vec<Labelled> {
        let rows = plan.rows.iter().filter_map(|row| {
            let mut jobs = row.jobs(plan.columns.first()?, target, range);
            let job = jobs.find(|job| job.demand_seed == seed)?;
            let series = records.get(&job.name())?.series.clone();
            Some(Labelled { label: row.label.to_owned(), demand_seed: seed, series })
        });
        rows.collect()
    };
    let all = range.seeds.iter().map(|&seed| of_seed(seed));
    all.reduce(|most, next| if next.len() > most.len() { next } else { most }).unwrap_or_default()
}

/// Of the first target link that has a loop and the first that has none.
pub(super) fn of_links(
    study: &Study,
    target: TargetKind,
    windows: &[Step],
    estimates: &[LinkState],
) -> Vec<Series> {
    let network = study.network();
    let counted = |link: LinkId| network.loops().iter().any(|detector| detector.link == link);
    let first = |with_loop| study.targets().iter().position(|&link| counted(link) == with_loop);
    let step = study.step().get() / 60.0;
    let series = [false, true].into_iter().filter_map(|has_loop| {
        let place = first(has_loop)?;
        let link = study.targets()[place];
        let both = |value: fn(&LinkState) -> f64| {
            let truths = windows.iter().take(STEPS);
            let truths = truths.map(|&step| value(&study.target(target, step, link)));
            let rows = estimates.chunks_exact(study.targets().len()).take(STEPS);
            [truths.collect(), rows.map(|row| value(&row[place])).collect()]
        };
        let minutes = windows.iter().take(STEPS).map(|at| (at.0 - windows[0].0) as f64 * step);
        Some(Series {
            link: network.link(link).name.clone(),
            has_loop,
            minutes: minutes.collect(),
            density: both(|state| state.density.get()),
            flow: both(|state| state.flow.get()),
        })
    });
    series.collect()
}
