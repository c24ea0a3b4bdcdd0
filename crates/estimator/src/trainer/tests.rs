//! Training where the best possible error is known, and what it must not depend on.

use neural::{Linear, Plan, unit};
use traffic::corridor;

use super::*;
use crate::architecture::{Architecture, ModelShape, Sizes};
use crate::study::WINDOW;

/// Samples by their number; targets by any function of the input.
struct Table {
    steps: Vec<Step>,
    inputs: usize,
    weights: Vec<f32>,
    input: fn(u64, usize) -> f32,
    target: fn(u64, usize) -> f32,
}

impl Examples for Table {
    fn inputs(&self) -> usize {
        self.inputs
    }
    fn outputs(&self) -> usize {
        self.weights.len()
    }
    fn write_input(&self, last: Step, to: &mut [f32]) {
        to.iter_mut().enumerate().for_each(|(i, x)| *x = (self.input)(last.0 as u64, i));
    }
    fn write_target(&self, last: Step, to: &mut [f32]) {
        to.iter_mut().enumerate().for_each(|(i, y)| *y = (self.target)(last.0 as u64, i));
    }
    fn weights(&self) -> &[f32] {
        &self.weights
    }
    fn judged(&self) -> &[f32] {
        &self.weights
    }
    fn train(&self) -> &[Step] {
        &self.steps
    }
    fn validation(&self) -> &[Step] {
        &self.steps
    }
}

/// All eight corners of a cube, in turn: orthogonal columns.
fn corner(sample: u64, i: usize) -> f32 {
    if (sample >> i) & 1 == 1 { 1.0 } else { -1.0 }
}

fn noisy_line(sample: u64, _: usize) -> f32 {
    let line = 0.5 + corner(sample, 0) - 2.0 * corner(sample, 1) + 0.3 * corner(sample, 2);
    line + 2.0 * unit(hash([9, sample])) - 1.0
}

/// On orthogonal columns the least squares are means, and so is the least error.
#[test]
fn a_linear_model_reaches_the_closed_form_error() {
    let data = Table {
        steps: (0..256).map(Step).collect(),
        inputs: 3,
        weights: vec![1.0],
        input: corner,
        target: noisy_line,
    };
    let mean = |f: &dyn Fn(u64) -> f64| (0..256).map(f).sum::<f64>() / 256.0;
    let y = |n: u64| f64::from(noisy_line(n, 0));
    let explained = mean(&y).powi(2)
        + (0..3).map(|i| mean(&|n| y(n) * f64::from(corner(n, i))).powi(2)).sum::<f64>();
    let least = mean(&|n| y(n).powi(2)) - explained;

    let model = Fusion::new(Linear::new(1, 2, 1)).with("part", Linear::new(1, 3, 2));
    let recipe = Recipe {
        epochs: 300,
        batch: 32,
        rate: 0.03,
        decay: 0.0,
        patience: 300,
        ..Recipe::of(Architecture::Link)
    };
    let learner = Learner::new(model, 1, Plan::default());
    let mut trainer = Trainer::new(learner, recipe, 1, data.steps.len());
    while !trainer.is_done() {
        trainer.epoch(&data).unwrap();
    }
    let reached = trainer.best_epoch().unwrap().validation;
    // The rate falls to nothing, so the last steps settle in the valley: excess far below 0.1 %.
    assert!(reached >= least - 1e-6 && reached < 1.001 * least, "{reached}, least {least}");
}

fn small_model() -> (Fusion, Table) {
    let network = corridor().unwrap();
    let shape = ModelShape {
        architecture: Architecture::Link,
        shared: 4,
        host: 2,
        guest: 3 * WINDOW,
        direct: true,
        sizes: Sizes { units: 16, ..Sizes::default() },
    };
    let model = shape.build(&network).unwrap();
    let data = Table {
        steps: (0..200).map(Step).collect(),
        inputs: model.input_len(),
        weights: vec![1.0 / 17.0; model.output_len()],
        input: |sample, i| 2.0 * unit(hash([1, sample, i as u64])) - 1.0,
        target: |sample, i| unit(hash([2, sample, i as u64])),
    };
    (model, data)
}

fn trained(threads: usize) -> Vec<f32> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let (model, data) = small_model();
        let recipe = Recipe { epochs: 2, ..Recipe::of(Architecture::Link) };
        let learner = Learner::new(model, 4, Plan::default());
        let mut trainer = Trainer::new(learner, recipe, 4, data.steps.len());
        while !trainer.is_done() {
            trainer.epoch(&data).unwrap();
        }
        trainer.finish().parameters().to_vec()
    })
}

#[test]
fn weights_are_the_same_bits_on_any_number_of_threads() {
    assert_eq!(trained(1), trained(3));
}

#[test]
fn a_loss_that_is_not_a_number_ends_training() {
    let (model, mut data) = small_model();
    data.target = |sample, _| if sample == 77 { f32::INFINITY } else { 0.0 };
    let recipe = Recipe::of(Architecture::Link);
    let mut trainer = Trainer::new(Learner::new(model, 4, Plan::default()), recipe, 4, 200);
    let error = trainer.epoch(&data).unwrap_err();
    let TrainError::Diverged { epoch, loss, .. } = error;
    assert!(epoch == 1 && !loss.is_finite(), "{error}");
}

#[test]
fn training_stops_when_nothing_gets_better() {
    let (model, data) = small_model();
    // The average of equal weights differs in the last bit; the weights themselves do not.
    let recipe = Recipe {
        epochs: 50,
        patience: 2,
        rate: 0.0,
        average: None,
        ..Recipe::of(Architecture::Link)
    };
    let mut trainer = Trainer::new(Learner::new(model, 4, Plan::default()), recipe, 4, 200);
    while !trainer.is_done() {
        trainer.epoch(&data).unwrap();
    }
    // The first epoch is the best of equals; two more bring nothing.
    assert_eq!((trainer.history().len(), trainer.best_epoch().unwrap().number), (3, 1));
}
