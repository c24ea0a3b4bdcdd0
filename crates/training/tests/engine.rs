//! Training where the best possible error is known, and what it must not depend on.

use neural::{Linear, Plan, unit};
use traffic::{Step, corridor};

use super::*;
use crate::model::architecture::{Architecture, ModelShape};
use crate::model::sizes::Sizes;
use crate::model::test_models::one_guest;

/// Samples by their number; targets by any function of the input.
struct Table {
    steps: Vec<Step>,
    inputs: usize,
    weights: Vec<f32>,
    input: fn(u64, usize) -> f32,
    target: fn(u64, usize) -> f32,
}

impl Examples for Table {
    type Window = Step;
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
    let whole = vec![vec![0..learner.parameters().len()]];
    let mut trainer = Trainer::new(learner, whole, recipe, 1, data.steps.len());
    while !trainer.is_done() {
        trainer.epoch(&data).unwrap();
    }
    let reached = trainer.best_epoch().unwrap().validation;
    // The rate falls to nothing, so the last steps settle in the valley: excess far below 0.1 %.
    assert!(reached >= least - 1e-6 && reached < 1.001 * least, "{reached}, least {least}");
}

fn small_model() -> (ModelShape, Learner<Fusion>, Table) {
    let shape = one_guest(Sizes { units: 16, ..Sizes::default() }, 4);
    let learner = shape.learner(&corridor().unwrap(), 4).unwrap();
    let model = learner.model();
    let data = Table {
        steps: (0..200).map(Step).collect(),
        inputs: model.input_len(),
        weights: vec![1.0 / 17.0; model.output_len()],
        input: |sample, i| 2.0 * unit(hash([1, sample, i as u64])) - 1.0,
        target: |sample, i| unit(hash([2, sample, i as u64])),
    };
    (shape, learner, data)
}

fn trainer(recipe: Recipe) -> (Trainer, Table) {
    let (shape, learner, data) = small_model();
    let blocks = shape.blocks(learner.model());
    (Trainer::new(learner, blocks, recipe, 4, 200), data)
}

fn trained(threads: usize) -> Vec<f32> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let recipe = Recipe { epochs: 2, ..Recipe::of(Architecture::Link) };
        let (mut trainer, data) = trainer(recipe);
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
    let (mut trainer, mut data) = trainer(Recipe::of(Architecture::Link));
    data.target = |sample, _| if sample == 77 { f32::INFINITY } else { 0.0 };
    let error = trainer.epoch(&data).unwrap_err();
    let TrainError::Diverged { epoch, loss, .. } = error else { unreachable!("{error}") };
    assert!(epoch == 1 && !loss.is_finite(), "{error}");
}

#[test]
fn training_stops_when_nothing_gets_better() {
    // The average of equal weights differs in the last bit; the weights themselves do not.
    let recipe = Recipe {
        epochs: 50,
        patience: 2,
        rate: 0.0,
        average: None,
        ..Recipe::of(Architecture::Link)
    };
    let (mut trainer, data) = trainer(recipe);
    while !trainer.is_done() {
        trainer.epoch(&data).unwrap();
    }
    // The first epoch is the best of equals; two more bring nothing.
    assert_eq!((trainer.history().len(), trainer.best_epoch().unwrap().number), (3, 1));
}

/// Each party's gradient is clipped by its own length: a long one at the host does not shorten
/// the guest's.
#[test]
fn each_party_clips_its_own_gradient() {
    let mut gradient = [3.0, 0.3, 0.4, 4.0];
    clip_block(&mut gradient, &[0..1, 3..4], 1.0);
    clip_block(&mut gradient, &[1..2, 2..3], 1.0);
    assert_eq!(gradient, [0.6, 0.3, 0.4, 0.8]);
}
