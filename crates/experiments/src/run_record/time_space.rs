//! Speed over time and distance along the busiest way, for a picture that can be asked.

use sensing::{FeatureTable, Features};
use serde::{Deserialize, Serialize};
use traffic::{LinkId, Network, Step};

use crate::plot::busiest_way;

/// Speeds of all cells along a chain of links, step by step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeSpace {
    /// Of the first step, since the dataset's epoch; then one column a step.
    pub from_minute: f64,
    pub step_s: f64,
    pub links: Vec<Stretch>,
    /// Of each link.
    pub cells: usize,
    /// The highest that is allowed on any of the links, m/s.
    pub fastest: f64,
    /// `[step][link][cell]` in cm/s; none where no vehicle was.
    pub speeds: Vec<Option<u16>>,
}

/// A link and its length.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    pub link: String,
    pub metres: f64,
}

impl TimeSpace {
    /// Of the steps of a span; none if it holds no step or the network no way.
    pub fn new(
        network: &Network,
        features: &Features,
        truth: &FeatureTable,
        (first, last): (Step, Step),
    ) -> Option<Self> {
        let step = features.manifest().step_s;
        let along = busiest_way(network, truth);
        let steps: Vec<Step> = truth.held.iter().collect();
        let shown = |at: &usize| (first..=last).contains(&steps[*at]);
        let shown: Vec<usize> = (0..steps.len()).filter(shown).collect();
        let begin = steps[*shown.first()?];
        let cells = if truth.cell_count == 0 { 1 } else { features.manifest().cells };
        let mut speeds = Vec::with_capacity(shown.len() * along.len() * cells);
        for &at in &shown {
            for &link in &along {
                speeds.extend((0..cells).map(|cell| speed(truth, at, link, cell, cells)));
            }
        }
        let stretch = |&link: &LinkId| {
            let link = network.link(link);
            Stretch { link: link.name.clone(), metres: link.length.get() }
        };
        Some(Self {
            from_minute: begin.0 as f64 * step.get() / 60.0,
            step_s: step.get(),
            links: along.iter().map(stretch).collect(),
            cells,
            fastest: along.iter().map(|&link| network.link(link).speed.get()).fold(1.0, f64::max),
            speeds,
        })
    }
}

/// Distance over time of a cell in a step, over all its sub-steps.
fn speed(truth: &FeatureTable, at: usize, link: LinkId, cell: usize, cells: usize) -> Option<u16> {
    let row = at * truth.links + link.index();
    let metres_per_second = if truth.cell_count == 0 {
        truth.totals[row].speed()?.get()
    } else {
        let block = &truth.cells[row * 2 * truth.cell_count..][..2 * truth.cell_count];
        let (seconds, metres) = block.split_at(truth.cell_count);
        let sum = |values: &[f32]| -> f64 {
            values.iter().skip(cell).step_by(cells).map(|&value| f64::from(value)).sum()
        };
        let seconds = sum(seconds);
        if seconds <= 0.0 {
            return None;
        }
        sum(metres) / seconds
    };
    // No road vehicle reaches 655 m/s.
    Some((metres_per_second * 100.0).round().clamp(0.0, f64::from(u16::MAX)) as u16)
}
