//! From what was seen to what it came from, learned from examples: embeddings to features, gradients to labels.
//!
//! The adversary has examples of both (a host may know some of a guest's data from elsewhere, a guest some of
//! the truth) and learns to predict one from the other; it is scored on other samples. Two decoders are tried, a linear map by
//! least squares and a network of two hidden layers, and whichever is better on an eighth of the examples is
//! used.

use neural::{Activation, Adam, Chain, Decay, Learner, Linear, Plan, Schedule, Squared, hash};
use thiserror::Error;

use crate::linear::{Equations, ShapeError};

/// Hidden units of the network.
const UNITS: usize = 128;
/// Examples of a training step.
const BATCH: usize = 128;
/// Highest learning rate.
const RATE: f32 = 3e-3;
/// What the linear map's factors are held down by, in equations' worth.
const RIDGE: f64 = 1.0;

/// Examples that do not fit.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DecoderError {
    /// Numbers of them.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Too few.
    #[error("examples: found {found}, expected 16 or more")]
    Few {
        /// Given.
        found: usize,
    },
}

/// Pairs of what is seen, `[example, number]`, and what it came from, likewise.
#[derive(Clone, Copy)]
pub struct Examples<'a> {
    /// How many.
    pub count: usize,
    /// What is seen.
    pub seen: &'a [f64],
    /// What it came from.
    pub hidden: &'a [f64],
}

/// Guesses for what is seen, `[example, number]`, by a decoder of these examples, trained for so many steps.
pub fn decode(
    examples: Examples<'_>,
    seen: &[f64],
    steps: u64,
    seed: u64,
) -> Result<Vec<f64>, DecoderError> {
    let Examples { count, .. } = examples;
    if count < 16 {
        return Err(DecoderError::Few { found: count });
    }
    let (inputs, outputs) = (examples.seen.len() / count, examples.hidden.len() / count);
    for (what, each) in [("what is seen", inputs), ("what it came from", outputs)] {
        if each == 0 {
            return Err(ShapeError { what, found: 0, expected: count }.into());
        }
    }
    check("what is seen", examples.seen.len(), count * inputs)?;
    check("what it came from", examples.hidden.len(), count * outputs)?;
    check("what is to be decoded", seen.len() % inputs.max(1), 0)?;
    let scale = Standard::of(examples.seen, inputs);
    let target = Standard::of(examples.hidden, outputs);
    let (x, y) = (scale.apply(examples.seen), target.apply(examples.hidden));
    // Every eighth example judges.
    let judge = |i: usize| i % 8 == 7;
    let part = |all: &[f64], each: usize, judged: bool| -> Vec<f64> {
        let rows = all.chunks_exact(each).enumerate();
        rows.filter(|(i, _)| judge(*i) == judged).flat_map(|(_, row)| row.to_vec()).collect()
    };
    let learned = (part(&x, inputs, false), part(&y, outputs, false));
    let judged = (part(&x, inputs, true), part(&y, outputs, true));
    let linear = LinearMap::fit(&learned.0, &learned.1, inputs, outputs)?;
    let network = trained(&learned.0, &learned.1, [inputs, outputs], steps, seed);
    let error = |guess: Vec<f64>| -> f64 {
        guess.iter().zip(&judged.1).map(|(guess, y)| (guess - y).powi(2)).sum()
    };
    let seen = scale.apply(seen);
    let guess = if error(linear.apply(&judged.0)) < error(inferred(&network, &judged.0)) {
        linear.apply(&seen)
    } else {
        inferred(&network, &seen)
    };
    Ok(target.undo(&guess))
}

fn trained(
    x: &[f64],
    y: &[f64],
    [inputs, outputs]: [usize; 2],
    steps: u64,
    seed: u64,
) -> Learner<Chain> {
    let model = Chain::new()
        .then("first", Linear::new(1, inputs, UNITS).then(Activation::Silu))
        .then("second", Linear::new(1, UNITS, UNITS).then(Activation::Silu))
        .then("out", Linear::new(1, UNITS, outputs));
    let mut learner = Learner::new(model, seed, Plan::default());
    let mut adam = Adam::new(learner.parameters().len(), Decay::Decoupled(1e-2));
    let schedule = Schedule::OneCycle { highest: RATE, steps };
    let weights = vec![1.0 / outputs as f32; outputs];
    let count = x.len() / inputs;
    let (mut batch, mut targets) = (Vec::new(), Vec::new());
    for step in 0..steps {
        batch.clear();
        targets.clear();
        for i in 0..BATCH as u64 {
            let at = (hash([seed, step, i]) % count as u64) as usize;
            batch.extend(x[at * inputs..][..inputs].iter().map(|&x| x as f32));
            targets.extend(y[at * outputs..][..outputs].iter().map(|&y| y as f32));
        }
        learner.train(&batch, &Squared::new(&targets, &weights), None);
        learner.step(&mut adam, schedule.rate(step));
    }
    learner
}

fn inferred(network: &Learner<Chain>, x: &[f64]) -> Vec<f64> {
    use neural::Layer;
    let model = network.model();
    let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    let mut y = vec![0.0; x.len() / model.input_len() * model.output_len()];
    network.infer(&x, &mut y);
    y.into_iter().map(f64::from).collect()
}

/// y = x·M + b, a column of M for each number of y.
struct LinearMap {
    inputs: usize,
    columns: Vec<Vec<f64>>,
}

impl LinearMap {
    fn fit(x: &[f64], y: &[f64], inputs: usize, outputs: usize) -> Result<Self, ShapeError> {
        let with_one: Vec<f64> =
            x.chunks_exact(inputs).flat_map(|row| row.iter().chain(&[1.0])).copied().collect();
        let columns = (0..outputs).map(|column| {
            let mut equations = Equations::with_guess(&vec![0.0; inputs + 1], RIDGE.sqrt());
            let right: Vec<f64> = y.iter().skip(column).step_by(outputs).copied().collect();
            equations.add(&with_one, &right)?;
            Ok(equations.solve())
        });
        Ok(Self { inputs, columns: columns.collect::<Result<_, ShapeError>>()? })
    }

    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let row = |row: &[f64]| -> Vec<f64> {
            let of = |column: &Vec<f64>| {
                let sum: f64 = row.iter().zip(column).map(|(x, m)| x * m).sum();
                sum + column[self.inputs]
            };
            self.columns.iter().map(of).collect()
        };
        x.chunks_exact(self.inputs).flat_map(row).collect()
    }
}

/// Mean 0 and deviation 1 of each number; numbers that never change stay as they are.
struct Standard {
    means: Vec<f64>,
    deviations: Vec<f64>,
}

impl Standard {
    fn of(values: &[f64], each: usize) -> Self {
        let count = (values.len() / each.max(1)).max(1) as f64;
        let column = |i: usize| values.iter().skip(i).step_by(each);
        let means: Vec<f64> = (0..each).map(|i| column(i).sum::<f64>() / count).collect();
        let deviations = means.iter().enumerate().map(|(i, mean)| {
            let square = column(i).map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            if square > 0.0 { square.sqrt() } else { 1.0 }
        });
        Self { deviations: deviations.collect(), means }
    }

    fn each(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.means.iter().copied().zip(self.deviations.iter().copied()).cycle()
    }

    fn apply(&self, values: &[f64]) -> Vec<f64> {
        values
            .iter()
            .zip(self.each())
            .map(|(x, (mean, deviation))| (x - mean) / deviation)
            .collect()
    }

    fn undo(&self, values: &[f64]) -> Vec<f64> {
        values.iter().zip(self.each()).map(|(x, (mean, deviation))| x * deviation + mean).collect()
    }
}

fn check(what: &'static str, found: usize, expected: usize) -> Result<(), ShapeError> {
    if found == expected { Ok(()) } else { Err(ShapeError { what, found, expected }) }
}

#[cfg(test)]
mod tests {
    use neural::unit;

    use super::*;

    fn numbers(count: usize, key: u64) -> Vec<f64> {
        (0..count).map(|i| 2.0 * f64::from(unit(hash([key, i as u64]))) - 1.0).collect()
    }

    fn explained(truth: &[f64], guess: &[f64]) -> f64 {
        let mean = truth.iter().sum::<f64>() / truth.len() as f64;
        let sum = |other: &dyn Fn(usize) -> f64| -> f64 {
            truth.iter().enumerate().map(|(i, x)| (x - other(i)).powi(2)).sum()
        };
        1.0 - sum(&|i| guess[i]) / sum(&|_| mean)
    }

    #[test]
    fn a_linear_embedding_is_undone() {
        // Four numbers from three: z = (a + b, b − c, c, 2a).
        let seen = |x: &[f64]| -> Vec<f64> {
            x.chunks(3).flat_map(|r| [r[0] + r[1], r[1] - r[2], r[2], 2.0 * r[0]]).collect()
        };
        let (known, other) = (numbers(3 * 400, 1), numbers(3 * 100, 2));
        let examples = Examples { count: 400, seen: &seen(&known), hidden: &known };
        let guess = decode(examples, &seen(&other), 10, 1).unwrap();
        // The ridge of one equation among 350 leaves 1e-5 of the variance.
        assert!(explained(&other, &guess) > 0.9999);
    }

    #[test]
    fn a_bent_embedding_is_undone_by_the_network() {
        // |x| and x² tell the size, their sign is in the third; a linear map cannot put them together.
        let seen = |x: &[f64]| -> Vec<f64> {
            x.iter().flat_map(|&x| [x.abs(), x * x, f64::from(x > 0.0)]).collect()
        };
        let (known, other) = (numbers(800, 3), numbers(200, 4));
        let examples = Examples { count: 800, seen: &seen(&known), hidden: &known };
        let guess = decode(examples, &seen(&other), 400, 1).unwrap();
        // A linear map has the sign alone to go by, and explains 75 %: what is left is the variance within a side,
        // 1/12 of 1/3.
        assert!(explained(&other, &guess) > 0.98, "{}", explained(&other, &guess));
    }

    #[test]
    fn nothing_is_read_out_of_noise() {
        let (known, other) = (numbers(600, 5), numbers(200, 6));
        let examples = Examples { count: 600, seen: &numbers(2 * 600, 7), hidden: &known };
        let guess = decode(examples, &numbers(2 * 200, 8), 100, 1).unwrap();
        // At most what chance gives: 3 factors of 600 examples, 0.5 %; the network may be worse than nothing.
        assert!(explained(&other, &guess) < 0.02);
    }

    #[test]
    fn examples_that_do_not_fit_are_refused() {
        let few = Examples { count: 15, seen: &[0.0; 15], hidden: &[0.0; 15] };
        let error = decode(few, &[0.0], 1, 1).unwrap_err();
        assert_eq!(error.to_string(), "examples: found 15, expected 16 or more");
        let refusal = |seen: usize, hidden: usize, decoded: usize| {
            let (seen, hidden) = (vec![0.0; seen], vec![0.0; hidden]);
            let examples = Examples { count: 16, seen: &seen, hidden: &hidden };
            decode(examples, &vec![0.0; decoded], 1, 1).unwrap_err().to_string()
        };
        assert_eq!(refusal(33, 16, 2), "what is seen: found 33 numbers, expected 32");
        assert_eq!(refusal(32, 17, 2), "what it came from: found 17 numbers, expected 16");
        assert_eq!(refusal(32, 16, 3), "what is to be decoded: found 1 numbers, expected 0");
        assert_eq!(refusal(0, 16, 0), "what is seen: found 0 numbers, expected 16");
        assert_eq!(refusal(16, 3, 0), "what it came from: found 0 numbers, expected 16");
    }

    #[test]
    fn standard_numbers_have_mean_zero_and_deviation_one() {
        // Two columns: 1, 3, 5 and a constant 7.
        let values = [1.0, 7.0, 3.0, 7.0, 5.0, 7.0];
        let standard = Standard::of(&values, 2);
        let deviation = (8.0f64 / 3.0).sqrt();
        assert_eq!(standard.means, [3.0, 7.0]);
        assert_eq!(standard.deviations, [deviation, 1.0], "what never changes is not divided");
        let scaled = standard.apply(&values);
        assert_eq!(scaled, [-2.0 / deviation, 0.0, 0.0, 0.0, 2.0 / deviation, 0.0]);
        for (found, value) in standard.undo(&scaled).iter().zip(values) {
            assert!((found - value).abs() < 1e-15, "{found} {value}");
        }
    }

    /// y = 2·x₀ − x₁ + 3 from ten thousand examples: the ridge of one equation moves factors by 1e-4 of themselves.
    #[test]
    fn a_linear_map_finds_factors_and_offset() {
        let x = numbers(2 * 10_000, 9);
        let y: Vec<f64> = x.chunks(2).flat_map(|x| [2.0 * x[0] - x[1] + 3.0, x[1]]).collect();
        let map = LinearMap::fit(&x, &y, 2, 2).unwrap();
        for (found, expected) in map.columns.concat().iter().zip([2.0, -1.0, 3.0, 0.0, 1.0, 0.0]) {
            // Uniform numbers in ±1 have a mean square of a third: 1/(1 + 10⁴/3) is 3e-4.
            assert!((found - expected).abs() < 1e-3, "{:?}", map.columns);
        }
        let found = map.apply(&[0.5, -0.5]);
        assert!((found[0] - 4.5).abs() < 2e-3 && (found[1] + 0.5).abs() < 1e-3, "{found:?}");
    }
}
