//! Training gives the same bits whatever the number of threads, and the same numbers, to rounding,
//! whatever the division of the batch.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail")]

use neural::{
    Activation, Adam, Chain, Decay, Draw, Dropout, DropoutRng, Fusion, Layer, LayerNorm, Learner,
    Linear, Loss, MessagePassing, MessageShape, NodeEmbedding, PartyDropout, Plan, Residual,
    Sparse, Squared, StgcnShape, clip_norm, head, scaled_laplacian, stgcn,
};

const NODES: usize = 5;
const SAMPLES: usize = 29; // not a multiple of any chunk below

/// One party of each sort of model, both with dropout.
fn model() -> impl Layer {
    let edges: Vec<_> = (1..NODES).map(|n| (n, n - 1)).collect();
    let back: Vec<_> = edges.iter().map(|&(a, b)| (b, a)).collect();
    let up = Sparse::mean_over(NODES, &edges).unwrap();
    let down = Sparse::mean_over(NODES, &back).unwrap();
    let shape = StgcnShape { blocks: vec![[16, 17], [16, 17]], ..StgcnShape::paper(1) };
    let paper = Chain::new()
        .then("stgcn", stgcn(&shape, &scaled_laplacian(&up, 1.0)).unwrap())
        .then("party", PartyDropout::new(0.3, 9, 0));
    let round = MessageShape { slices: 1, inputs: 8, outputs: 8 };
    let shared = Chain::new()
        .then("embed", NodeEmbedding::new(1, NODES, 6, 2))
        .then("first", Linear::new(NODES, 8, 8).then(Activation::Gelu))
        .then("drop", Dropout::new(0.2, NODES * 8, 0))
        .then(
            "round",
            Residual::new(NODES, 8, 8, MessagePassing::new(round, &up, &down, Activation::Silu)),
        )
        .then("norm", LayerNorm::new(NODES, 8))
        .then("last", Linear::new(NODES, 8, 2));
    Fusion::new(head(10 + 2 * NODES, 16, 2 * NODES)).with("paper", paper).with("shared", shared)
}

fn some(seed: u64, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    Draw::new(seed).fill(&mut values, 1.0);
    values
}

/// Parameters, losses and an estimate after a few steps.
fn train(threads: usize, plan: Plan) -> (Vec<f32>, Vec<f64>, Vec<f32>) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut learner = Learner::new(model(), 3, plan);
        let mut adam = Adam::new(learner.parameters().len(), Decay::Decoupled(0.01));
        let x = some(1, SAMPLES * learner.model().input_len());
        let mut y = some(2, SAMPLES * learner.model().output_len());
        let mut losses = Vec::new();
        for step in 0..6 {
            let rng = Some(DropoutRng { seed: 4, step, first_sample: 0 });
            let loss = Squared::new(&y, &[0.1; 2 * NODES]);
            losses.push(learner.train(&x, &loss, rng));
            clip_norm(learner.gradient_mut(), 1.0);
            learner.step(&mut adam, 0.01);
        }
        learner.infer(&x, &mut y);
        (learner.parameters().to_vec(), losses, y)
    })
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let plan = Plan { chunk: 4, lanes: 3 };
    let one = train(1, plan);
    assert!(one.1[5] < one.1[0], "training reduces the loss: {:?}", one.1);
    for threads in [2, 3, 8] {
        assert_eq!(train(threads, plan), one, "{threads} threads");
    }
}

/// Dropout included: its masks depend on the sample, not on the chunk.
#[test]
fn same_numbers_for_any_division_of_the_batch() {
    let one = train(1, Plan { chunk: SAMPLES, lanes: 1 });
    for plan in [Plan { chunk: 1, lanes: 7 }, Plan { chunk: 8, lanes: 2 }] {
        let other = train(2, plan);
        for (a, b) in one.1.iter().zip(&other.1) {
            // Sums in another order: f32 rounding, a little enlarged by six steps.
            assert!((a - b).abs() < 1e-4 * a, "{plan:?}: {a} {b}");
        }
    }
}

/// A federation's two calls give what the joint one gives, and the gradient of the input besides.
#[test]
fn forward_and_backward_equal_train() {
    let rng = Some(DropoutRng { seed: 4, step: 0, first_sample: 0 });
    let mut learner = Learner::new(model(), 3, Plan { chunk: 4, lanes: 3 });
    let (inputs, outputs) = (learner.model().input_len(), learner.model().output_len());
    let (x, target) = (some(1, SAMPLES * inputs), some(2, SAMPLES * outputs));
    let loss = Squared::new(&target, &[0.1; 2 * NODES]);
    learner.train(&x, &loss, rng);
    let joint = learner.gradient().to_vec();

    let (mut y, mut dy) = (vec![0.0; SAMPLES * outputs], vec![0.0; SAMPLES * outputs]);
    let mut dx = vec![f32::NAN; x.len()];
    learner.forward(&x, &mut y, rng);
    loss.evaluate(0, &y, &mut dy);
    learner.backward(&x, &dy, Some(&mut dx), rng);
    assert_eq!(learner.gradient(), joint);

    // The input gradient predicts the change of the loss along itself.
    let square: f32 = dx.iter().map(|d| d * d).sum();
    let step = 1e-2 / square.sqrt();
    let mut at = |factor: f32| {
        let moved: Vec<f32> = x.iter().zip(&dx).map(|(x, d)| x + factor * step * d).collect();
        learner.forward(&moved, &mut y, rng);
        loss.evaluate(0, &y, &mut dy)
    };
    let slope = (at(1.0) - at(-1.0)) / f64::from(2.0 * step);
    // A difference in f32 over a step of 0.01: good to some per cent, wrong signs would show.
    assert!((slope / f64::from(square) - 1.0).abs() < 0.05, "{slope} {square}");
}
