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
    pub(crate) fn new(
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
    pub(crate) fn check_stable(
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

    pub(crate) fn count(&self) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_networks::network;

    /// Links of 300 m and 100 m at 15 m/s; waves run at 5 m/s.
    fn cut(cells: CellRule, sub_steps: SubSteps, step: f64) -> Result<Cells, ModelError> {
        let network = network(&[(300.0, 1, 15.0), (100.0, 2, 15.0)], &[(0, 1)]);
        let parameters = Parameters::typical(&network).unwrap();
        Cells::new(
            &network,
            &parameters,
            Discretisation { step: Seconds::new(step), cells, sub_steps },
        )
    }

    #[test]
    fn the_fewest_sub_steps_are_those_of_courant() {
        // 15 m/s · 10 s = 150 m: the link of 100 m needs two.
        let plan = Discretisation::of_step(Seconds::new(10.0));
        assert_eq!((plan.cells, plan.sub_steps), (CellRule::OnePerLink, SubSteps::Fewest));
        let cells = cut(plan.cells, plan.sub_steps, 10.0).unwrap();
        assert_eq!((cells.count(), cells.sub_steps), (2, 2));
        assert_eq!(cells.start, [0, 1, 2]);
        assert_eq!(cells.length, [0.3, 0.1]);
        assert!((cells.sub_step - 5.0 / 60.0).abs() < 1e-15);
        // Just as far as the cell is long is stable, and needs no more: 100 m in 6.67 s.
        for (step, expected) in [(100.0 / 15.0, 1), (200.0 / 15.0, 2), (6.7, 2), (0.1, 1)] {
            let cells = cut(CellRule::OnePerLink, SubSteps::Fewest, step).unwrap();
            assert_eq!(cells.sub_steps, expected, "{step}");
        }
    }

    #[test]
    fn links_are_cut_as_the_rule_says() {
        let counts = |rule, step| {
            let cells = cut(rule, SubSteps::Fewest, step).unwrap();
            (cells.start[1], cells.count() - cells.start[1], cells.sub_steps)
        };
        assert_eq!(counts(CellRule::Each(4), 1.0), (4, 4, 1));
        // 25 m cells of the shorter link: 150 m of way are six of them.
        assert_eq!(counts(CellRule::Each(4), 10.0), (4, 4, 6));
        assert_eq!(counts(CellRule::UpTo(Metres::new(40.0)), 1.0), (8, 3, 1));
        assert_eq!(counts(CellRule::UpTo(Metres::new(100.0)), 1.0), (3, 1, 1));
        assert_eq!(counts(CellRule::UpTo(Metres::new(1e9)), 1.0), (1, 1, 1));
        // The finest: cells as long as the way of a sub-step or a little longer, 15 m: 20 and 6.
        assert_eq!(counts(CellRule::Finest, 1.0), (20, 6, 1));
        assert_eq!(counts(CellRule::Finest, 10.0), (4, 1, 2));
        // Whatever the rule, cells make up their links.
        for rule in [CellRule::Each(7), CellRule::UpTo(Metres::new(33.0)), CellRule::Finest] {
            let cells = cut(rule, SubSteps::Fewest, 2.0).unwrap();
            for (n, length) in [0.3, 0.1].into_iter().enumerate() {
                let count = (cells.start[n + 1] - cells.start[n]) as f64;
                assert!((count * cells.length[n] - length).abs() < 1e-15, "{rule:?}");
                assert!(15.0 * 0.06 * cells.sub_step <= cells.length[n] * (1.0 + 1e-9));
            }
        }
    }

    #[test]
    fn plans_that_are_unstable_or_none_are_refused() {
        let refusal = |cells, sub_steps, step: f64| cut(cells, sub_steps, step).unwrap_err();
        let error = refusal(CellRule::OnePerLink, SubSteps::Exactly(1), 10.0);
        let ModelError::Unstable { link, speed, run, sub_step, cell } = error else {
            panic!("{error}");
        };
        assert_eq!(link, "L1");
        for (found, expected) in
            [(speed.get(), 15.0), (run.get(), 150.0), (sub_step.get(), 10.0), (cell.get(), 100.0)]
        {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        let number = |error: ModelError| error.to_string();
        for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let expected = format!("discretisation: step: found {step}, expected more than 0 s");
            assert_eq!(number(refusal(CellRule::OnePerLink, SubSteps::Fewest, step)), expected);
        }
        for count in [0, 10_001] {
            let expected = format!("discretisation: sub-steps: found {count}, expected 1 to 10000");
            assert_eq!(
                number(refusal(CellRule::OnePerLink, SubSteps::Exactly(count), 1.0)),
                expected
            );
        }
        assert_eq!(
            number(refusal(CellRule::Each(0), SubSteps::Fewest, 1.0)),
            "discretisation: cells per link: found 0, expected more than 0"
        );
        for length in [0.0, -5.0, f64::NAN] {
            let rule = CellRule::UpTo(Metres::new(length));
            let expected =
                format!("discretisation: length of a cell: found {length}, expected more than 0");
            assert_eq!(number(refusal(rule, SubSteps::Fewest, 1.0)), expected);
        }
        // A day in cells of 100 m: 86,400 s · 15 m/s over 100 m.
        let error = refusal(CellRule::OnePerLink, SubSteps::Fewest, 86_400.0);
        assert!(
            matches!(&error, ModelError::TooManySubSteps { link, needed, most: 10_000, .. }
                if link == "L1" && *needed == 12_960.0),
            "{error}"
        );
        let error = refusal(CellRule::Each(6_000_000), SubSteps::Exactly(1), 1e-9);
        assert_eq!(
            error.to_string(),
            "discretisation: cells: found 12000000, expected at most 10 million"
        );
    }
}
