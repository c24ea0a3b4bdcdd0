//! Means and deviations of the training part, by which numbers are scaled.

use serde::{Deserialize, Serialize};
use traffic::{LinkId, Step};

use crate::inputs::InputsError;
use crate::study::{Party, Study};

/// Mean and standard deviation, from the training part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// The scales of all numbers that are scaled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputScales {
    /// Counts of each loop.
    pub loops: Vec<Scale>,
    /// Channels of the fleet's whole links: density and flow, or speed.
    pub fleet: Vec<Scale>,
    /// Density and flow of cells.
    pub cells: Vec<Scale>,
}

impl Scale {
    /// Of some values; a constant is only centred.
    pub fn fit(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count().max(1) as f64;
        let mean = values.clone().sum::<f64>() / count;
        let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let deviation = variance.sqrt();
        Self { mean, deviation: if deviation > 1e-9 { deviation } else { 1.0 } }
    }

    /// In units of the deviation, from the mean.
    pub fn apply(&self, value: f64) -> f32 {
        ((value - self.mean) / self.deviation) as f32
    }

    /// The opposite of [`apply`](Self::apply).
    pub fn undo(&self, value: f32) -> f64 {
        f64::from(value) * self.deviation + self.mean
    }
}

impl InputScales {
    /// From the training part of a study.
    pub fn fit(study: &Study, party: Party) -> Result<Self, InputsError> {
        let last = study.split().train.last().copied().unwrap_or(Step(i64::MIN));
        let steps = || study.steps().take_while(move |&step| step <= last);
        let links = || study.network().link_ids();
        let mut loops = Vec::new();
        for (at, detector) in study.network().loops().iter().enumerate() {
            let counts: Vec<f64> = steps().filter_map(|step| study.loop_counts(step)[at]).collect();
            if counts.is_empty() {
                return Err(InputsError::SilentLoop { detector: detector.name.clone() });
            }
            loops.push(Scale::fit(counts.iter().copied()));
        }
        let pooled = |number: &dyn Fn(Step, LinkId) -> Option<f64>| {
            let values: Vec<f64> =
                steps().flat_map(|step| links().filter_map(move |l| number(step, l))).collect();
            Scale::fit(values.iter().copied())
        };
        let density = |step, link| Some(study.scaled_up(step, link).density.get());
        let flow = |step, link| Some(study.scaled_up(step, link).flow.get());
        let speed = |step, link| study.fleet_speed(step, link).map(|speed| speed.get());
        let fleet = match party {
            Party::Host => Vec::new(),
            Party::HostAndSpeeds => vec![pooled(&speed)],
            Party::Both | Party::BothAndCells => vec![pooled(&density), pooled(&flow)],
        };
        let mut cells = Vec::new();
        if party == Party::BothAndCells {
            let half = cell_numbers(study)? / 2;
            for part in 0..2 {
                let values: Vec<f64> = steps()
                    .flat_map(|step| links().map(move |link| (step, link)))
                    .flat_map(|(step, link)| {
                        study.scaled_up_cells(step, link).skip(part * half).take(half)
                    })
                    .collect();
                cells.push(Scale::fit(values.iter().copied()));
            }
        }
        Ok(Self { loops, fleet, cells })
    }
}

/// Numbers of the cells of one link and step.
pub(crate) fn cell_numbers(study: &Study) -> Result<usize, InputsError> {
    let [cells, sub_steps] = study.cell_shape();
    if cells * sub_steps < 2 { Err(InputsError::NoCells) } else { Ok(2 * cells * sub_steps) }
}
