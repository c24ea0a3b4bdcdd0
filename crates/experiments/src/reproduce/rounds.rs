//! Rounds to reach a target error, from the course of trainings with Q local updates.

use std::fmt::Write;

use estimator::Architecture;
use serde::Serialize;

use super::cells::Quantity;
use super::curves::{Curve, TrainingCurve};
use super::markdown::aligned;
use super::table::QUANTITIES;
use super::variant::Variant;

/// The target is so many times what one local update per round has at its end: the paper's 7.7
/// veh/km/lane over the 6.81 of its Table 2.
const FACTOR: f64 = 1.13;

/// The paper's Table 3 (its label `tab-Q`): rounds to a density RMSE of 7.7 and a flow RMSE of 1.75.
pub const PAPER: [(u32, [u32; 2]); 3] = [(1, [812, 826]), (2, [420, 420]), (3, [308, 322])];

/// A row: one architecture with Q local updates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Rounds {
    pub label: &'static str,
    pub architecture: Option<Architecture>,
    pub q: u32,
    pub density: Reached,
    pub flow: Reached,
}

/// When a quantity's target was reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Reached {
    /// Of each training.
    pub seeds: Vec<SeedReached>,
    /// Mean over trainings, if all have reached it.
    pub target: Option<f64>,
    pub rounds: Option<f64>,
    /// The mean of the rounds as a share of those with Q = 1.
    pub share: Option<f64>,
    /// Mean RMSE on the test part of the weights that were kept.
    pub end: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SeedReached {
    pub demand_seed: u64,
    pub training_seed: Option<u64>,
    pub target: f64,
    /// None if never.
    pub rounds: Option<usize>,
    /// RMSE on the test part of the weights that were kept.
    pub end: f64,
}

/// All rows. Who has no training with Q = 1 on the same data has no target.
pub(super) fn rounds(curves: &[Curve]) -> Vec<Rounds> {
    let usual = Variant { curve: true, ..Variant::USUAL };
    let mut rows: Vec<Rounds> = Vec::new();
    for curve in curves {
        let one =
            |other: &&Curve| other.architecture == curve.architecture && other.variant == usual;
        let Some(one) = curves.iter().find(one) else { continue };
        let q = curve.variant.q.unwrap_or(1);
        let [density, flow] = QUANTITIES.map(|quantity| {
            let first =
                rows.iter().find(|row| row.architecture == curve.architecture && row.q == 1);
            let first = first.map(|row| row.of(quantity));
            Reached::of(curve, one, quantity, first)
        });
        let (label, architecture) = (curve.label, curve.architecture);
        rows.push(Rounds { label, architecture, q, density, flow });
    }
    rows
}

impl Rounds {
    pub(super) fn of(&self, quantity: Quantity) -> &Reached {
        quantity.pick(&self.density, &self.flow)
    }
}

impl Reached {
    fn of(curve: &Curve, one: &Curve, quantity: Quantity, first: Option<&Reached>) -> Self {
        let reached = |run: &TrainingCurve| {
            let same = |other: &&TrainingCurve| {
                (other.demand_seed, other.training_seed) == (run.demand_seed, run.training_seed)
            };
            let target = FACTOR * one.runs.iter().find(same)?.end_rmse(quantity);
            let epochs = run.epochs_to(quantity, target);
            Some(SeedReached {
                demand_seed: run.demand_seed,
                training_seed: run.training_seed,
                target,
                rounds: epochs.map(|epochs| epochs * curve.exchanges),
                end: run.end_rmse(quantity),
            })
        };
        let seeds: Vec<SeedReached> = curve.runs.iter().filter_map(reached).collect();
        let mean = |pick: fn(&SeedReached) -> Option<f64>, seeds: &[SeedReached]| {
            let all: Option<Vec<f64>> = seeds.iter().map(pick).collect();
            all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
        };
        let rounds: fn(&SeedReached) -> Option<f64> = |seed| seed.rounds.map(|n| n as f64);
        let mut found = Self {
            target: mean(|seed| Some(seed.target), &seeds),
            rounds: mean(rounds, &seeds),
            share: None,
            end: mean(|seed| Some(seed.end), &seeds),
            seeds,
        };
        // Only over trainings that both have.
        let shared = first.map(|first| {
            let has = |one: &&SeedReached| {
                let training = |seed: &SeedReached| (seed.demand_seed, seed.training_seed);
                found.seeds.iter().any(|seed| training(seed) == training(one))
            };
            first.seeds.iter().filter(has).cloned().collect::<Vec<_>>()
        });
        let usual = shared.and_then(|shared| mean(rounds, &shared));
        found.share = usual.zip(found.rounds).map(|(usual, rounds)| rounds / usual);
        found
    }
}

/// The rows as Markdown, then the paper's.
pub(super) fn text(rows: &[Rounds], seeds: usize) -> String {
    let mut grid: Vec<Vec<String>> = vec![
        ["", "density target", "rounds", "at the end", "flow target", "rounds", "at the end"]
            .map(String::from)
            .to_vec(),
    ];
    for row in rows {
        let mut line = vec![row.label.to_owned()];
        for quantity in QUANTITIES {
            let reached = row.of(quantity);
            let number =
                |rmse: Option<f64>| rmse.map_or("–".to_owned(), |rmse| format!("{rmse:.2}"));
            line.extend([number(reached.target), shown(reached, seeds), number(reached.end)]);
        }
        grid.push(line);
    }
    for (q, rounds) in PAPER {
        let share = |at: usize| f64::from(rounds[at]) / f64::from(PAPER[0].1[at]);
        let text = |at: usize| match q {
            1 => rounds[at].to_string(),
            _ => format!("{} ({:.0} %)", rounds[at], 100.0 * share(at)),
        };
        let label = format!("*paper: FedTSE, Q = {q}*");
        let (density, flow, unknown) = ("7.70".to_owned(), "1.75".to_owned(), "–".to_owned());
        grid.push(vec![label, density, text(0), unknown.clone(), flow, text(1), unknown]);
    }
    "\nRounds until the RMSE on the test part is at most the target, in brackets as a share of the first\nrow's with the same model; and the RMSE of the weights that were kept:\n\n"
        .to_owned()
        + &aligned(&grid)
}

fn shown(reached: &Reached, seeds: usize) -> String {
    let Some(rounds) = reached.rounds else {
        let never = reached.seeds.iter().filter(|seed| seed.rounds.is_none()).count();
        return if never == 0 { "–".to_owned() } else { "not reached".to_owned() };
    };
    let mut text = format!("{rounds:.0}");
    if let Some(share) = reached.share {
        let _ = write!(text, " ({:.0} %)", 100.0 * share);
    }
    if reached.seeds.len() < seeds {
        let _ = write!(text, " of {} seed(s)", reached.seeds.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use estimator::{Errors, Score};

    use super::*;

    fn curve(q: Option<u32>, density: &[f64], end: f64) -> Curve {
        let errors = Errors { rmse: end, mae: 0.0 };
        let run = TrainingCurve {
            demand_seed: 1,
            training_seed: Some(1),
            end: Score { density: errors, flow: errors },
            density: density.to_vec(),
            flow: density.to_vec(),
            validation_density: Vec::new(),
            validation_flow: Vec::new(),
        };
        Curve {
            label: "",
            estimator: String::new(),
            architecture: None,
            variant: Variant { q, curve: true, ..Variant::USUAL },
            rate: 20,
            exchanges: 10,
            runs: vec![run],
        }
    }

    #[test]
    fn rounds_are_counted_to_the_target_of_one_local_update() {
        // The end is 10, the target 11.3: after 4 epochs with Q = 1, after 2 with Q = 2, never
        // with Q = 3, whatever its own end is.
        let curves = [
            curve(None, &[20.0, 15.0, 12.0, 11.0, 10.0], 10.0),
            curve(Some(2), &[15.0, 11.2, 12.0], 11.2),
            curve(Some(3), &[15.0, 14.0], 14.0),
        ];
        let rows = rounds(&curves);
        let found: Vec<_> = rows.iter().map(|row| (row.density.rounds, row.flow.share)).collect();
        assert_eq!(found, [(Some(40.0), None), (Some(20.0), Some(0.5)), (None, None)]);
        assert!((rows[1].density.target.unwrap() - 11.3).abs() < 1e-12);
        let text = text(&rows, 1);
        assert!(text.contains("20 (50 %)") && text.contains("not reached"), "{text}");
        // Without Q = 1 there is nothing to reach.
        assert!(rounds(&curves[1..]).is_empty());
    }
}
