//! How links are cut into cells and a step into sub-steps, so that the models are stable.
//!
//! Stable (Courant, Friedrichs, Lewy): no wave crosses more than a cell in a sub-step,
//! `max(v_f, w)·δt ≤ Δx`. Then a cell never sends more than it holds nor takes more than it has
//! room for. The paper asks for `Δx > v_f·Δt`; equality is stable too, and sharpest.

use traffic::{Metres, MetresPerSecond, Network, Seconds};

use crate::error::ModelError;
use crate::parameters::{KM_PER_MIN, Parameters};

/// More sub-steps than this point to a link of a few centimetres.
const MOST_SUB_STEPS: usize = 10_000;
/// More cells than this point to a wrong unit.
const MOST_CELLS: f64 = 1e7;
/// Rounding of a length divided by a speed and a time.
const ROUNDING: f64 = 1e-9;

/// How a link is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum CellRule {
    /// Not at all: a link is a cell, as in the paper, and its density is the whole state.
    #[default]
    OnePerLink,
    /// Into so many cells each.
    Each(usize),
    /// Into cells of at most this length.
    UpTo(Metres),
    /// Into as many as are stable, for the sharpest waves.
    Finest,
}

/// How a step is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubSteps {
    /// Into as few as are stable.
    #[default]
    Fewest,
    /// Into so many; refused where that is unstable.
    Exactly(usize),
}

/// Time and space of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Discretisation {
    /// Length of a step.
    pub step: Seconds,
    /// How links are cut.
    pub cells: CellRule,
    /// How steps are cut.
    pub sub_steps: SubSteps,
}

impl Discretisation {
    /// One cell per link, as few sub-steps as are stable.
    pub fn of_step(step: Seconds) -> Self {
        Self { step, cells: CellRule::default(), sub_steps: SubSteps::default() }
    }
}

/// A stable discretisation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cells {
    /// Cells of link n are `start[n]..start[n + 1]`, from upstream.
    pub start: Vec<usize>,
    /// Length of each link's cells, km.
    pub length: Vec<f64>,
    pub sub_steps: usize,
    /// Length of a sub-step, min.
    pub sub_step: f64,
    pub step: Seconds,
}

impl Cells {
    pub fn new(
        network: &Network,
        parameters: &Parameters,
        plan: Discretisation,
    ) -> Result<Self, ModelError> {
        if !(plan.step.get() > 0.0 && plan.step.get().is_finite()) {
            return Err(ModelError::Number {
                place: "discretisation".into(),
                field: "step",
                found: plan.step.get(),
                expected: "more than 0 s",
            });
        }
        let links = network.links();
        let length: Vec<f64> = links.iter().map(|link| link.length.get() / 1000.0).collect();
        let fastest: Vec<f64> = (0..links.len()).map(|n| fastest_wave(parameters, n)).collect();
        let minutes = plan.step.get() / 60.0;
        let asked = asked_cells(network, plan.cells)?;
        // What a link needs: its waves' way in a step, over the length of its cells.
        let needed = |n: usize| fastest[n] * minutes * asked[n] / length[n] * (1.0 - ROUNDING);
        let sub_steps = match plan.sub_steps {
            SubSteps::Exactly(count) if count > 0 && count <= MOST_SUB_STEPS => count,
            SubSteps::Exactly(count) => {
                return Err(ModelError::Number {
                    place: "discretisation".into(),
                    field: "sub-steps",
                    found: count as f64,
                    expected: "1 to 10000",
                });
            }
            SubSteps::Fewest => {
                let worst = (0..links.len()).max_by(|&a, &b| needed(a).total_cmp(&needed(b)));
                let worst = worst.unwrap_or(0);
                let count = needed(worst).ceil().max(1.0);
                if count > MOST_SUB_STEPS as f64 {
                    return Err(ModelError::TooManySubSteps {
                        link: links[worst].name.clone(),
                        step: plan.step,
                        needed: count,
                        most: MOST_SUB_STEPS,
                    });
                }
                count as usize
            }
        };
        let sub_step = minutes / sub_steps as f64;
        let counts: Vec<usize> = match plan.cells {
            CellRule::Finest => (0..links.len())
                .map(|n| (length[n] / (fastest[n] * sub_step) * (1.0 + ROUNDING)).max(1.0) as usize)
                .collect(),
            _ => asked.iter().map(|&count| count as usize).collect(),
        };
        let total: f64 = counts.iter().map(|&count| count as f64).sum();
        if total > MOST_CELLS {
            return Err(ModelError::Number {
                place: "discretisation".into(),
                field: "cells",
                found: total,
                expected: "at most 10 million",
            });
        }
        let mut start = vec![0];
        start.extend(counts.iter().scan(0, |sum, &count| {
            *sum += count;
            Some(*sum)
        }));
        let length = length.iter().zip(&counts).map(|(&l, &count)| l / count as f64).collect();
        let cells = Self { start, length, sub_steps, sub_step, step: plan.step };
        cells.check_stable(parameters, |n| links[n].name.clone())?;
        Ok(cells)
    }

    /// Refuses parameters with which waves would outrun the cells.
    pub fn check_stable(
        &self,
        parameters: &Parameters,
        name: impl Fn(usize) -> String,
    ) -> Result<(), ModelError> {
        for (n, &length) in self.length.iter().enumerate() {
            let speed = fastest_wave(parameters, n);
            if speed * self.sub_step > length * (1.0 + ROUNDING) {
                return Err(ModelError::Unstable {
                    link: name(n),
                    speed: MetresPerSecond::new(speed / KM_PER_MIN),
                    run: Metres::new(speed * self.sub_step * 1000.0),
                    sub_step: Seconds::new(self.sub_step * 60.0),
                    cell: Metres::new(length * 1000.0),
                });
            }
        }
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.start.last().copied().unwrap_or(0)
    }
}

/// km/min.
fn fastest_wave(parameters: &Parameters, link: usize) -> f64 {
    let diagram = parameters.diagram(link);
    diagram.free.max(diagram.wave)
}

/// Cells per link before stability is looked at; one where as many as are stable were asked for.
fn asked_cells(network: &Network, rule: CellRule) -> Result<Vec<f64>, ModelError> {
    let refuse = |field, found| {
        let place = "discretisation".to_string();
        Err(ModelError::Number { place, field, found, expected: "more than 0" })
    };
    let each = |count: f64| Ok(vec![count; network.links().len()]);
    match rule {
        CellRule::OnePerLink | CellRule::Finest => each(1.0),
        CellRule::Each(0) => refuse("cells per link", 0.0),
        CellRule::Each(count) => each(count as f64),
        CellRule::UpTo(longest) if longest <= Metres::ZERO || longest.get().is_nan() => {
            refuse("length of a cell", longest.get())
        }
        CellRule::UpTo(longest) => {
            Ok(network.links().iter().map(|link| (link.length / longest).ceil().max(1.0)).collect())
        }
    }
}
