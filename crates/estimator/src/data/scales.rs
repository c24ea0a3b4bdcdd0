//! Means and deviations of the training part, by which numbers are scaled.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use traffic::{LinkId, Step};

use crate::data::inputs::InputsError;
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::GuestFeatures;

/// Mean and standard deviation, from the training part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// The scales of the host's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostScales {
    /// Counts of each loop.
    pub loops: Vec<Scale>,
}

/// The scales of a guest's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestScales {
    /// Channels of whole links: density and flow, or speed.
    pub links: Vec<Scale>,
    /// Density and flow of cells.
    pub cells: Vec<Scale>,
}

impl Scale {
    /// Of some values; a constant is only centred.
    pub(crate) fn fit(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count().max(1) as f64;
        let mean = values.clone().sum::<f64>() / count;
        let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let deviation = variance.sqrt();
        Self { mean, deviation: if deviation > 1e-9 { deviation } else { 1.0 } }
    }

    /// In units of the deviation, from the mean.
    pub(crate) fn apply(&self, value: f64) -> f32 {
        ((value - self.mean) / self.deviation) as f32
    }

    /// The opposite of [`apply`](Self::apply).
    pub(crate) fn undo(&self, value: f32) -> f64 {
        f64::from(value) * self.deviation + self.mean
    }
}

impl HostScales {
    /// From some steps: those of the training part.
    pub(crate) fn fit(data: &LoopData, steps: &RangeInclusive<Step>) -> Result<Self, InputsError> {
        let steps = || data.timeline().steps().filter(|step| steps.contains(step));
        let mut loops = Vec::new();
        for (at, detector) in data.timeline().network().loops().iter().enumerate() {
            let counts: Vec<f64> = steps().filter_map(|step| data.counts(step)[at]).collect();
            if counts.is_empty() {
                return Err(InputsError::SilentLoop { detector: detector.name.clone() });
            }
            loops.push(Scale::fit(counts.iter().copied()));
        }
        Ok(Self { loops })
    }
}

impl GuestScales {
    /// From some steps: those of the training part. Pooled over links, so that links stay
    /// comparable.
    pub(crate) fn fit(
        fleet: &FleetData,
        features: GuestFeatures,
        steps: &RangeInclusive<Step>,
    ) -> Result<Self, InputsError> {
        let timeline = fleet.timeline();
        let steps = || timeline.steps().filter(|step| steps.contains(step));
        let links = || timeline.network().link_ids();
        let pooled = |number: &dyn Fn(Step, LinkId) -> Option<f64>| {
            let values: Vec<f64> =
                steps().flat_map(|step| links().filter_map(move |l| number(step, l))).collect();
            Scale::fit(values.iter().copied())
        };
        let density = |step, link| Some(fleet.scaled_up(step, link).density.get());
        let flow = |step, link| Some(fleet.scaled_up(step, link).flow.get());
        let speed = |step, link| fleet.speed(step, link).map(|speed| speed.get());
        let whole = match features {
            GuestFeatures::Speeds => vec![pooled(&speed)],
            GuestFeatures::Totals | GuestFeatures::TotalsAndCells => {
                vec![pooled(&density), pooled(&flow)]
            }
        };
        let mut cells = Vec::new();
        if features == GuestFeatures::TotalsAndCells {
            let half = cell_numbers(fleet)? / 2;
            for part in 0..2 {
                let values: Vec<f64> = steps()
                    .flat_map(|step| links().map(move |link| (step, link)))
                    .flat_map(|(step, link)| {
                        fleet.scaled_up_cells(step, link).skip(part * half).take(half)
                    })
                    .collect();
                cells.push(Scale::fit(values.iter().copied()));
            }
        }
        Ok(Self { links: whole, cells })
    }
}

/// Numbers of the cells of one link and step.
pub(crate) fn cell_numbers(fleet: &FleetData) -> Result<usize, InputsError> {
    let [cells, sub_steps] = fleet.timeline().cell_shape();
    if cells * sub_steps < 2 { Err(InputsError::NoCells) } else { Ok(2 * cells * sub_steps) }
}
