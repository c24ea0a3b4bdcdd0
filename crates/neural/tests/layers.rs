//! Laws that hold for every layer, whatever its formula: tested over all of them, in odd shapes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail")]

use std::sync::Arc;

use neural::check::{RNG, passes};
use neural::{
    Activate, Activation, BackwardPass, Chain, ChebConv, ChebShape, Draw, Dropout, Fusion, Given,
    Layer, LayerNorm, Learner, Linear, Memory, MessagePassing, MessageShape, NodeEmbedding,
    ParametersError, PartyDropout, Pass, Plan, Residual, Sparse, TemporalConv, TemporalShape, head,
    scaled_laplacian,
};

const NODES: usize = 3;

/// A path 0 → 1 → 2: the ends have neighbours on one side only.
fn path() -> (Sparse, Sparse) {
    let up = Sparse::mean_over(NODES, &[(1, 0), (2, 1)]).unwrap();
    let down = Sparse::mean_over(NODES, &[(0, 1), (1, 2)]).unwrap();
    (up, down)
}

/// Every layer, with sizes that fill no vector of the machine, and some with single rows and channels.
fn layers() -> Vec<(&'static str, Box<dyn Layer>)> {
    let (up, down) = path();
    let laplacian = scaled_laplacian(&up, 1.5);
    let temporal =
        |kernel, inputs, outputs| TemporalShape { kernel, time: 4, nodes: NODES, inputs, outputs };
    let cheb = |orders, inputs, outputs| ChebShape { orders, slices: 2, inputs, outputs };
    let messages = |inputs, outputs| MessageShape { slices: 2, inputs, outputs };
    let boxed = |layer: Box<dyn Layer>| layer;
    let mut all: Vec<(&'static str, Box<dyn Layer>)> = vec![
        ("linear", boxed(Box::new(Linear::new(2, 5, 3)))),
        ("linear of one value", Box::new(Linear::new(1, 1, 1))),
        ("linear, relu", Box::new(Linear::new(3, 17, 19).then(Activation::Relu))),
        ("linear, gelu", Box::new(Linear::new(1, 7, 2).then(Activation::Gelu))),
        ("linear, sigmoid", Box::new(Linear::new(1, 7, 2).then(Activation::Sigmoid))),
        ("norm", Box::new(LayerNorm::new(2, 67))),
        ("norm of one value", Box::new(LayerNorm::new(3, 1))),
        ("embedding", Box::new(NodeEmbedding::new(2, NODES, 3, 5))),
        ("gated", Box::new(TemporalConv::gated(temporal(3, 2, 5)))),
        ("gated, narrower", Box::new(TemporalConv::gated(temporal(2, 5, 2)))),
        ("conv of one step", Box::new(TemporalConv::new(temporal(1, 3, 3), Activation::Relu))),
        (
            "conv of all steps after a mix",
            Box::new(TemporalConv::new(temporal(4, 3, 4), Activation::Sigmoid).after_mix()),
        ),
        ("gated by fewer products", Box::new(TemporalConv::gated(temporal(3, 16, 18)))),
        (
            "cheb of one order",
            Box::new(ChebConv::new(cheb(1, 2, 3), &laplacian, Activation::Identity, false)),
        ),
        ("cheb", Box::new(ChebConv::new(cheb(3, 4, 5), &laplacian, Activation::Relu, true))),
        ("messages", Box::new(MessagePassing::new(messages(3, 5), &up, &down, Activation::Gelu))),
        (
            "messages of one channel",
            Box::new(MessagePassing::new(messages(1, 1), &up, &down, Activation::Identity)),
        ),
        ("dropout", Box::new(Dropout::new(0.4, 11, 3))),
        ("party", Box::new(PartyDropout::new(0.5, 4, 1))),
        ("party, flagged and silent", Box::new(PartyDropout::new(0.5, 4, 1).flagged().silent())),
        (
            "residual, narrower",
            Box::new(Residual::new(2, 5, 3, Linear::new(2, 5, 3).then(Activation::Silu))),
        ),
        (
            "residual, wider",
            Box::new(Residual::new(2, 3, 5, Linear::new(2, 3, 5).then(Activation::Tanh))),
        ),
        (
            "chain",
            Box::new(
                Chain::new()
                    .then("in", Linear::new(2, 3, 7).then(Activation::Silu))
                    .then("drop", Dropout::new(0.3, 14, 1))
                    .then("norm", LayerNorm::new(2, 7))
                    .then("out", Linear::new(1, 14, 2)),
            ),
        ),
        ("chain of one", Box::new(Chain::new().then("only", Linear::new(1, 3, 2)))),
        (
            "fusion",
            Box::new(
                Fusion::new(head(6, 5, 3))
                    .with("host", Linear::new(1, 2, 1).then(Activation::Relu))
                    .with("guest", PartyDropout::new(0.5, 4, 2)),
            ),
        ),
    ];
    for activation in [
        Activation::Identity,
        Activation::Relu,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Silu,
        Activation::Gelu,
    ] {
        all.push(("activation", Box::new(Activate::new(activation, 13))));
    }
    all
}

fn some(seed: u64, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    Draw::new(seed).fill(&mut values, 1.0);
    values
}

/// Parameters, inputs and output gradients of so many samples.
fn numbers(layer: &dyn Layer, samples: usize) -> [Vec<f32>; 3] {
    let lens = [layer.layout().len(), samples * layer.input_len(), samples * layer.output_len()];
    [some(1, lens[0]), some(2, lens[1]), some(3, lens[2])]
}

/// Relative to the largest: roundings of sums of some tens of terms in f32.
fn near(found: &[f32], expected: &[f32]) -> bool {
    let scale = expected.iter().fold(1e-3f32, |scale, value| scale.max(value.abs()));
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-5 * scale)
}

/// Samples never mix: three at once give what each gives alone, and the parameter gradient is the sum.
#[test]
fn samples_are_independent() {
    for (name, layer) in layers() {
        let layer = layer.as_ref();
        let [w, x, dy] = numbers(layer, 3);
        let (y, dx, gradient) = passes(layer, 3, &w, &x, &dy);
        let (mut ys, mut dxs, mut sum) = (Vec::new(), Vec::new(), vec![0.0; w.len()]);
        let (input, output) = (layer.input_len(), layer.output_len());
        for sample in 0..3 {
            let x = &x[sample * input..(sample + 1) * input];
            let dy = &dy[sample * output..(sample + 1) * output];
            let noise = neural::DropoutRng { first_sample: sample as u64, ..RNG };
            let (y, dx, gradient) = alone(layer, &w, x, dy, noise);
            ys.extend(y);
            dxs.extend(dx);
            sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
        }
        assert!(near(&y, &ys), "{name}: outputs");
        assert!(near(&dx, &dxs), "{name}: input gradients");
        assert!(near(&gradient, &sum), "{name}: parameter gradients");
    }
}

/// One sample with its place in the batch.
fn alone(
    layer: &dyn Layer,
    parameters: &[f32],
    x: &[f32],
    dy: &[f32],
    noise: neural::DropoutRng,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let mut prepared = vec![0.0; layer.prepared_len()];
    layer.prepare(parameters, &mut prepared);
    let pass = Pass { samples: 1, parameters, prepared: &prepared, rng: Some(noise) };
    let mut saved = vec![0.0; layer.saved_len(1)];
    let mut scratch = vec![0.0; layer.scratch_len(1)];
    let mut y = vec![0.0; layer.output_len()];
    layer.forward(&pass, x, &mut y, Memory { saved: &mut saved, scratch: &mut scratch });
    let (mut dx, mut gradient) = (vec![0.0; x.len()], vec![0.0; parameters.len()]);
    let memory = Memory { saved: &mut saved, scratch: &mut scratch };
    let given = Given { x, y: &y };
    layer.backward(
        &pass,
        BackwardPass {
            given,
            dy: &mut dy.to_vec(),
            dx: Some(&mut dx),
            gradient: &mut gradient,
            memory,
        },
    );
    layer.finish_gradient(&mut gradient);
    (y, dx, gradient)
}

/// Backward is linear in the output gradient: twice as much gives twice as much, in every bit, since
/// a factor of two rounds nothing; and none gives none.
#[test]
fn backward_is_linear_in_the_output_gradient() {
    for (name, layer) in layers() {
        let layer = layer.as_ref();
        let [w, x, dy] = numbers(layer, 1);
        let (y, dx, gradient) = alone(layer, &w, &x, &dy, RNG);
        let twice: Vec<f32> = dy.iter().map(|dy| 2.0 * dy).collect();
        let (y2, dx2, gradient2) = alone(layer, &w, &x, &twice, RNG);
        let double = |values: &[f32]| values.iter().map(|value| 2.0 * value).collect::<Vec<f32>>();
        assert_eq!(y2, y, "{name}");
        assert_eq!(dx2, double(&dx), "{name}");
        assert_eq!(gradient2, double(&gradient), "{name}");
        let (_, dx, gradient) = alone(layer, &w, &x, &vec![0.0; dy.len()], RNG);
        assert!(dx.iter().chain(&gradient).all(|value| *value == 0.0), "{name}");
    }
}

/// A first layer's input gradient is not asked for; its parameters' is the same.
#[test]
fn parameter_gradients_do_not_depend_on_whether_the_input_has_one() {
    for (name, layer) in layers() {
        let layer = layer.as_ref();
        let [w, x, dy] = numbers(layer, 2);
        let (y, _, with) = passes(layer, 2, &w, &x, &dy);
        let mut prepared = vec![f32::NAN; layer.prepared_len()];
        layer.prepare(&w, &mut prepared);
        let pass = Pass { samples: 2, parameters: &w, prepared: &prepared, rng: Some(RNG) };
        let mut saved = vec![f32::NAN; layer.saved_len(2)];
        let mut scratch = vec![f32::NAN; layer.scratch_len(2)];
        let mut again = vec![f32::NAN; y.len()];
        let memory = Memory { saved: &mut saved, scratch: &mut scratch };
        layer.forward(&pass, &x, &mut again, memory);
        assert_eq!(again, y, "{name}: forward is a function");
        let mut without = vec![1.0; w.len()];
        let memory = Memory { saved: &mut saved, scratch: &mut scratch };
        let given = Given { x: &x, y: &y };
        layer.backward(
            &pass,
            BackwardPass { given, dy: &mut dy.clone(), dx: None, gradient: &mut without, memory },
        );
        without.iter_mut().for_each(|g| *g -= 1.0);
        layer.finish_gradient(&mut without);
        assert_eq!(without, with, "{name}");
    }
}

/// A layer behind a pointer is the same layer, in every method.
#[test]
fn layers_behind_pointers_are_the_same() {
    let layer = || {
        TemporalConv::gated(TemporalShape { kernel: 2, time: 4, nodes: 2, inputs: 3, outputs: 4 })
    };
    let [w, x, dy] = numbers(&layer(), 2);
    let expected = passes(&layer(), 2, &w, &x, &dy);
    let (boxed, shared): (Box<dyn Layer>, Arc<dyn Layer>) = (Box::new(layer()), Arc::new(layer()));
    assert_eq!(passes(&boxed, 2, &w, &x, &dy), expected);
    assert_eq!(passes(&shared, 2, &w, &x, &dy), expected);
    let first = |layer: &dyn Layer| {
        let mut parameters = vec![0.0; layer.layout().len()];
        layer.initialise(&mut Draw::new(4), &mut parameters);
        parameters
    };
    assert_eq!(first(&boxed), first(&layer()));
    assert_eq!(first(&shared), first(&layer()));
    assert_eq!(shared.layout(), layer().layout());
}

/// Renaming the nodes of the graph renames the outputs: the weights know no node.
#[test]
fn graph_layers_do_not_care_for_the_order_of_nodes() {
    let edges = [(0, 1), (0, 2), (2, 3), (3, 0), (1, 3)];
    // Node n becomes node order[n].
    let order = [2usize, 0, 3, 1];
    let renamed: Vec<_> = edges.iter().map(|&(a, b)| (order[a], order[b])).collect();
    let build = |edges: &[(usize, usize)]| -> [Box<dyn Layer>; 2] {
        let back: Vec<_> = edges.iter().map(|&(a, b)| (b, a)).collect();
        let up = Sparse::mean_over(4, edges).unwrap();
        let down = Sparse::mean_over(4, &back).unwrap();
        let cheb = ChebShape { orders: 3, slices: 1, inputs: 2, outputs: 3 };
        let round = MessageShape { slices: 1, inputs: 2, outputs: 3 };
        let laplacian = scaled_laplacian(&up, 1.7);
        [
            Box::new(ChebConv::new(cheb, &laplacian, Activation::Relu, true)),
            Box::new(MessagePassing::new(round, &up, &down, Activation::Tanh)),
        ]
    };
    let rename = |values: &[f32], width: usize| {
        let mut to = vec![0.0; values.len()];
        for (node, row) in values.chunks(width).enumerate() {
            to[order[node] * width..][..width].copy_from_slice(row);
        }
        to
    };
    for (plain, other) in build(&edges).into_iter().zip(build(&renamed)) {
        let [w, x, dy] = numbers(plain.as_ref(), 1);
        let (y, dx, gradient) = passes(plain.as_ref(), 1, &w, &x, &dy);
        let found = passes(other.as_ref(), 1, &w, &rename(&x, 2), &rename(&dy, 3));
        assert!(near(&found.0, &rename(&y, 3)));
        assert!(near(&found.1, &rename(&dx, 2)));
        assert!(near(&found.2, &gradient));
    }
}

/// A graph without edges is so many nodes that each go through the same linear map.
#[test]
fn nodes_without_neighbours_are_alone() {
    let none = Sparse::mean_over(NODES, &[]).unwrap();
    let round = MessageShape { slices: 2, inputs: 4, outputs: 3 };
    let messages = MessagePassing::new(round, &none, &none, Activation::Identity);
    let linear = Linear::new(2 * NODES, 4, 3);
    let [w, x, dy] = numbers(&messages, 2);
    // W of messages: own, from upstream, from downstream; then the bias.
    let own = [&w[..12], &w[36..]].concat();
    let (y, dx, gradient) = passes(&messages, 2, &w, &x, &dy);
    let expected = passes(&linear, 2, &own, &x, &dy);
    assert!(near(&y, &expected.0) && near(&dx, &expected.1));
    assert!(near(&[&gradient[..12], &gradient[36..]].concat(), &expected.2));
    assert!(gradient[12..36].iter().all(|value| *value == 0.0), "nothing was heard");
}

/// The mean of what is normalised is β's, its variance γ²; the input gradient has no part along a
/// shift of all values, nor along their own deviation.
#[test]
fn norms_take_out_mean_and_scale() {
    let width = 67;
    let layer = LayerNorm::new(1, width);
    let w = [vec![1.0; width], vec![0.0; width]].concat();
    let (x, dy) = (some(4, width), some(5, width));
    let (y, dx, _) = passes(&layer, 1, &w, &x, &dy);
    let sum = |values: &[f32]| values.iter().map(|v| f64::from(*v)).sum::<f64>();
    let squares: Vec<f32> = y.iter().map(|y| y * y).collect();
    // 67 roundings of numbers up to 2.
    assert!(sum(&y).abs() < 1e-5, "{}", sum(&y));
    // var/(var + 1e-5), where the variance of uniform numbers in ±1 is about a third.
    assert!((sum(&squares) / width as f64 - 1.0).abs() < 1e-4);
    assert!(sum(&dx).abs() < 1e-5, "{}", sum(&dx));
    let along: Vec<f32> = dx.iter().zip(&y).map(|(dx, y)| dx * y).collect();
    // ε in the root leaves a part of 1e-5/var.
    assert!(sum(&along).abs() < 1e-3, "{}", sum(&along));
    // Shifted inputs are the same inputs, to the digits that the shift costs.
    let shifted: Vec<f32> = x.iter().map(|x| x + 8.0).collect();
    let (again, ..) = passes(&layer, 1, &w, &shifted, &dy);
    assert!(y.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-5));
    // Equal values have no deviation: β is all that is left, and the gradient is finite.
    let w = [vec![3.0; width], some(6, width)].concat();
    let (y, dx, _) = passes(&layer, 1, &w, &vec![0.5; width], &dy);
    assert_eq!(y, w[width..]);
    let mean = sum(&dy) / width as f64;
    for (dx, dy) in dx.iter().zip(&dy) {
        // dx = γ·(dy − mean dy)/√ε with γ = 3, ε = 1e-5; roundings of numbers up to 1000.
        let expected = 3.0 * (f64::from(*dy) - mean) / 1e-5f64.sqrt();
        assert!((f64::from(*dx) - expected).abs() < 1e-3, "{dx} {expected}");
    }
}

/// Far out, saturated functions reach their limits exactly, and nothing becomes NaN.
#[test]
fn activations_have_their_limits() {
    let far = [-1e30f32, -1e4, -90.0, 0.0, 90.0, 1e4, 1e30];
    let at = |activation| {
        let (y, dx, _) = passes(&Activate::new(activation, 7), 1, &[], &far, &[1.0; 7]);
        (y, dx)
    };
    let (y, dx) = at(Activation::Relu);
    assert_eq!(y, [0.0, 0.0, 0.0, 0.0, 90.0, 1e4, 1e30]);
    assert_eq!(dx, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0], "no slope at zero");
    let (y, dx) = at(Activation::Tanh);
    assert_eq!(y, [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0]);
    assert_eq!(dx, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    let (y, dx) = at(Activation::Sigmoid);
    // e^-88 is the smallest that the exponential of f32 gives.
    assert!(y[..3].iter().all(|y| (0.0..1e-37).contains(y)), "{y:?}");
    assert_eq!(y[3..], [0.5, 1.0, 1.0, 1.0]);
    assert!(dx[..3].iter().all(|slope| slope.abs() < 1e-37), "{dx:?}");
    assert_eq!(dx[3..], [0.25, 0.0, 0.0, 0.0]);
    for activation in [Activation::Silu, Activation::Gelu] {
        let (y, dx) = at(activation);
        // The slope of GELU has the cube of its input, which f32 has no room for beyond 1e12.
        let finite = |values: &[f32]| values[1..6].iter().all(|value| value.is_finite());
        assert!(finite(&y) && finite(&dx), "{activation:?}: {y:?} {dx:?}");
        assert!(y[..3].iter().chain(&dx[1..3]).all(|value| value.abs() < 1e-7), "{y:?} {dx:?}");
        assert_eq!((y[3], dx[3]), (0.0, 0.5));
        assert_eq!(y[4..6], [90.0, 1e4]);
        assert_eq!(dx[4..6], [1.0, 1.0]);
    }
    // A number that is none stays none: it must not look like a value.
    for activation in [Activation::Relu, Activation::Tanh, Activation::Sigmoid, Activation::Silu] {
        let (y, ..) = passes(&Activate::new(activation, 1), 1, &[], &[f32::NAN], &[1.0]);
        assert!(y[0].is_nan(), "{activation:?}");
    }
}

/// First weights are uniform within ±1/√inputs: their variance is a third of the bound's square.
#[test]
fn first_weights_have_their_spread() {
    let learner = Learner::new(Linear::new(1, 64, 256), 5, Plan::default());
    let weights = learner.parameters();
    let bound = 1.0 / 8.0;
    assert!(weights.iter().all(|w| w.abs() <= bound));
    let count = weights.len() as f64;
    let mean = weights.iter().map(|w| f64::from(*w)).sum::<f64>() / count;
    let square = weights.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / count;
    // 16,640 draws: the mean deviates by 0.125/√3/√16640 = 0.00056, the square by 0.0047·√0.8/129 = 3.6e-5; five each.
    assert!(mean.abs() < 0.0028, "{mean}");
    assert!((square - bound as f64 * bound as f64 / 3.0).abs() < 1.8e-4, "{square}");
    // The same seed, the same weights; another seed, others: not one in a hundred is the same.
    let other = |seed| Learner::new(Linear::new(1, 64, 256), seed, Plan::default());
    assert_eq!(other(5).parameters(), weights);
    let same = other(6).parameters().iter().zip(weights).filter(|(a, b)| a == b).count();
    assert!(same < weights.len() / 100, "{same}");
}

/// A batch of nothing, of one sample, and of one more than a chunk.
#[test]
fn batches_of_any_size_are_run() {
    let plan = Plan { chunk: 4, lanes: 3 };
    let mut learner = Learner::new(Linear::new(1, 2, 1), 1, plan);
    learner.set_parameters(&[2.0, -1.0, 0.5]).unwrap();
    for samples in [0usize, 1, 4, 5, 13] {
        let x: Vec<f32> = (0..2 * samples).map(|i| i as f32).collect();
        let expected: Vec<f32> = x.chunks(2).map(|x| 2.0 * x[0] - x[1] + 0.5).collect();
        let mut y = vec![9.0; samples];
        learner.infer(&x, &mut y);
        assert_eq!(y, expected);
        y.fill(9.0);
        learner.forward(&x, &mut y, None);
        assert_eq!(y, expected);
        let mut dx = vec![9.0; x.len()];
        learner.backward(&x, &vec![1.0; samples], Some(&mut dx), None);
        assert_eq!(dx, [2.0, -1.0].repeat(samples));
        // Σ x₀, Σ x₁ and the number of samples: small whole numbers, exact in any order.
        let sum = |which: usize| x.chunks(2).map(|x| x[which]).sum::<f32>();
        assert_eq!(learner.gradient(), [sum(0), sum(1), samples as f32]);
        let targets = vec![0.0; samples];
        let loss = learner.train(&x, &neural::Squared::new(&targets, &[1.0]), None);
        let mean = expected.iter().map(|y| f64::from(y * y)).sum::<f64>() / samples.max(1) as f64;
        assert!((loss - mean).abs() <= 1e-6 * mean, "{loss} {mean}");
    }
}

#[test]
fn parameters_that_do_not_fit_are_refused_and_change_nothing() {
    let mut learner = Learner::new(Linear::new(1, 2, 1), 1, Plan::default());
    let before = learner.parameters().to_vec();
    let error = learner.set_parameters(&[1.0; 4]).unwrap_err();
    assert_eq!(error, ParametersError::Length { found: 4, expected: 3 });
    assert_eq!(error.to_string(), "found 4 parameters, expected 3");
    for (place, name) in [(0, "weight"), (1, "weight"), (2, "bias")] {
        let mut bad = vec![0.0; 3];
        bad[place] = f32::INFINITY;
        let error = learner.set_parameters(&bad).unwrap_err();
        assert_eq!(error, ParametersError::NotFinite { name: name.into() });
    }
    assert_eq!(learner.parameters(), before);
}

#[test]
#[should_panic(expected = "3 inputs are not a whole number of samples of 2")]
fn half_a_sample_is_a_mistake() {
    Learner::new(Linear::new(1, 2, 1), 1, Plan::default()).infer(&[0.0; 3], &mut [0.0]);
}

#[test]
#[should_panic(expected = "forward has not run on these 9 samples")]
fn backward_needs_a_forward_of_as_many_samples() {
    let mut learner = Learner::new(Linear::new(1, 1, 1), 1, Plan { chunk: 4, lanes: 1 });
    learner.forward(&[0.0; 4], &mut [0.0; 4], None);
    learner.backward(&[0.0; 9], &[0.0; 9], None, None);
}

#[test]
#[should_panic(expected = "layer second does not fit the one before it")]
fn layers_of_a_chain_must_fit() {
    let _ = Chain::new().then("first", Linear::new(1, 2, 3)).then("second", Linear::new(1, 2, 1));
}

#[test]
#[should_panic(expected = "the parts give 4 values, the head takes 3")]
fn parts_of_a_fusion_must_fit_the_head() {
    let _ = Fusion::new(Linear::new(1, 3, 1))
        .with("host", Linear::new(1, 1, 2))
        .with("guest", Linear::new(1, 1, 2));
}

#[test]
#[should_panic(expected = "the inner layer does not go from 2 x 3 to 2 x 4")]
fn a_residual_goes_around_a_layer_of_its_sizes() {
    let _ = Residual::new(2, 3, 4, Linear::new(2, 3, 5));
}
