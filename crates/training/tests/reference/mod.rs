//! Centralised training written out: the joint model in one piece, with labels.
//!
//! Independent of the learners that it is compared with: it shares the layers, the optimiser and the draw of the order
//! with them, and nothing of how parties, embeddings and gradients are put together.

use std::ops::Range;

use estimator::{ModelShape, Recipe, WindowSource};
use neural::random::shuffle;
use neural::{Adam, Average, DropoutRng, Fusion, Learner, Squared, clip_norm, hash};
use traffic::{Network, Step, Window};

/// All that is learned from.
pub(crate) struct Examples<'a> {
    /// Inputs of the joint model: the host's, then each guest's.
    pub inputs: &'a dyn WindowSource,
    /// Labels.
    pub targets: &'a dyn WindowSource,
    /// Weights of the outputs, in training and in validation.
    pub weights: &'a [f32],
    pub train: &'a [Step],
    pub validation: &'a [Step],
}

/// What it comes to.
#[derive(Debug, PartialEq)]
pub(crate) struct Trained {
    /// The best weights: the host's, then each guest's.
    pub best: Vec<Vec<f32>>,
    /// Training and validation loss of each epoch.
    pub losses: Vec<[f64; 2]>,
}

/// Trains to the end.
pub(crate) fn train(
    shape: &ModelShape,
    network: &Network,
    (recipe, seed): (&Recipe, u64),
    data: &Examples<'_>,
) -> Trained {
    let mut learner = shape.learner(network, seed).expect("a model");
    let blocks = shape.blocks(learner.model());
    let mut adam = Adam::new(learner.parameters().len(), recipe.weight_decay());
    let mut average = recipe.average.map(|decay| Average::new(learner.parameters(), decay));
    let schedule = recipe.schedule(data.train.len().div_ceil(recipe.batch));
    let (mut losses, mut best): (Vec<[f64; 2]>, _) = (Vec::new(), Vec::new());
    let (mut step, mut since_best) = (0, 0);
    for epoch in 1..=recipe.epochs as u64 {
        let mut order = data.train.to_vec();
        if recipe.shuffle {
            shuffle(&mut order, hash([seed, epoch]));
        }
        let mut total = 0.0;
        for batch in order.chunks(recipe.batch) {
            let (x, y) = (rows(data.inputs, batch), rows(data.targets, batch));
            let noise = DropoutRng { seed, step, first_sample: 0 };
            total += learner.train(&x, &Squared::new(&y, data.weights), Some(noise));
            for block in &blocks {
                clip(learner.gradient_mut(), block, recipe.clip);
            }
            learner.step(&mut adam, schedule.rate(step));
            if let Some(average) = &mut average {
                average.update(learner.parameters());
            }
            step += 1;
        }
        let moving = learner.parameters().to_vec();
        let kept = average.as_ref().map_or(&moving[..], Average::weights).to_vec();
        learner.set_parameters(&kept).expect("as many weights");
        let validation = validate(&learner, data);
        learner.set_parameters(&moving).expect("as many weights");
        since_best += 1;
        if losses.iter().all(|[_, before]| validation < *before) {
            (best, since_best) = (kept, 0);
        }
        losses.push([total / order.len().div_ceil(recipe.batch) as f64, validation]);
        if since_best >= recipe.patience {
            break;
        }
    }
    let own = |ranges: &Vec<Range<usize>>| {
        ranges.iter().flat_map(|range| best[range.clone()].to_vec()).collect()
    };
    Trained { best: blocks.iter().map(own).collect(), losses }
}

fn rows(source: &dyn WindowSource, steps: &[Step]) -> Vec<f32> {
    let mut all = vec![0.0; steps.len() * source.row_len()];
    for (&step, row) in steps.iter().zip(all.chunks_exact_mut(source.row_len())) {
        source.write_row(Window::whole(step), row);
    }
    all
}

fn validate(learner: &Learner<Fusion>, data: &Examples<'_>) -> f64 {
    let targets = rows(data.targets, data.validation);
    let mut y = vec![0.0; targets.len()];
    learner.infer(&rows(data.inputs, data.validation), &mut y);
    let mut total = 0.0;
    for ((y, t), w) in y.iter().zip(&targets).zip(data.weights.iter().cycle()) {
        total += f64::from(*w) * f64::from(y - t).powi(2);
    }
    total / data.validation.len() as f64
}

/// Clips the gradient of one party, as that party would by itself.
fn clip(gradient: &mut [f32], ranges: &[Range<usize>], longest: Option<f32>) {
    let Some(longest) = longest else { return };
    let own = ranges.iter().flat_map(|range| &gradient[range.clone()]);
    let mut own: Vec<f32> = own.copied().collect();
    clip_norm(&mut own, longest);
    let mut clipped = own.into_iter();
    for range in ranges {
        gradient[range.clone()].fill_with(|| clipped.next().expect("as many numbers"));
    }
}
