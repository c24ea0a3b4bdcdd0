//! Each layer: values by hand, gradients against central differences.

use neural::{Activation, Chain, Draw, Given, Layer, Learner, Linear, Memory, Noise, Pass, Plan};

use super::*;

const NOISE: Noise = Noise { seed: 5, step: 6, first_sample: 0 };

/// Output, input gradient and parameter gradient, with dirty memory.
fn passes(
    layer: &dyn Layer,
    parameters: &[f32],
    x: &[f32],
    dy: &[f32],
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let samples = x.len() / layer.input_len();
    let mut prepared = vec![f32::NAN; layer.prepared_len()];
    layer.prepare(parameters, &mut prepared);
    let pass = Pass { samples, parameters, prepared: &prepared, noise: Some(NOISE) };
    let mut saved = vec![f32::NAN; layer.saved_len(samples)];
    let mut scratch = vec![f32::NAN; layer.scratch_len(samples)];
    let mut y = vec![f32::NAN; samples * layer.output_len()];
    layer.forward(&pass, x, &mut y, Memory { saved: &mut saved, scratch: &mut scratch });
    scratch.fill(f32::NAN);
    let mut dx = vec![f32::NAN; x.len()];
    let mut gradient = vec![0.0; parameters.len()];
    let memory = Memory { saved: &mut saved, scratch: &mut scratch };
    let given = Given { x, y: &y };
    layer.backward(&pass, given, &mut dy.to_vec(), Some(&mut dx), &mut gradient, memory);
    (y, dx, gradient)
}

/// The slope of Σ w·y along each single coordinate, by central differences in f32.
fn check_gradients(layer: &dyn Layer) {
    let samples = 3;
    let mut draw = Draw::new(1);
    let mut some = |len: usize| -> Vec<f32> { (0..len).map(|_| draw.uniform(-1.0, 1.0)).collect() };
    let parameters = some(layer.layout().len());
    let x = some(samples * layer.input_len());
    let dy = some(samples * layer.output_len());
    let (_, dx, gradient) = passes(layer, &parameters, &x, &dy);
    let value = |parameters: &[f32], x: &[f32]| -> f64 {
        let (y, ..) = passes(layer, parameters, x, &dy);
        y.iter().zip(&dy).map(|(y, w)| f64::from(*y) * f64::from(*w)).sum()
    };
    let step = 0.02;
    let check = |what: &str, at: &[f32], slopes: &[f32], value: &dyn Fn(&[f32]) -> f64| {
        for i in 0..at.len() {
            let moved = |by: f32| {
                let mut place = at.to_vec();
                place[i] += by;
                value(&place)
            };
            let expected = (moved(step) - moved(-step)) / f64::from(2.0 * step);
            // Rounding of sums of some tens of terms near 1 over the step, and its square as
            // truncation: a few 1e-4.
            let found = f64::from(slopes[i]);
            assert!((found - expected).abs() < 2e-3, "{what}[{i}]: {found}, expected {expected}");
        }
    };
    check("input", &x, &dx, &|x| value(&parameters, x));
    check("parameter", &parameters, &gradient, &|parameters| value(parameters, &x));
}

fn infer(layer: impl Layer, parameters: &[f32], x: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; x.len() / layer.input_len() * layer.output_len()];
    let mut learner = Learner::new(layer, 0, Plan::default());
    learner.set_parameters(parameters).unwrap();
    learner.infer(x, &mut y);
    y
}

#[test]
fn each_node_has_a_map_of_its_own() {
    let layer = PerNode::new(2, 2, 1, &[(1, 0, 1.0)]);
    // Weights of both nodes, then biases; two samples.
    let y =
        infer(layer, &[1.0, 2.0, 3.0, 4.0, 0.5, -0.5], &[1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 2.0, 0.0]);
    assert_eq!(y, [3.5, 6.5, 2.5, 5.5]);
    check_gradients(&PerNode::new(3, 5, 2, &[]));
    // Starts as the choice of an input.
    let learner = Learner::new(PerNode::new(2, 2, 1, &[(1, 0, 1.0)]), 3, Plan::default());
    let mut y = [0.0; 2];
    learner.infer(&[7.0, 8.0, 9.0, 10.0], &mut y);
    assert_eq!(y, [8.0, 10.0]);
}

#[test]
fn shared_parts_are_repeated_at_each_node() {
    let layer = Interleave::new(2, &[Spread::PerNode(1), Spread::Shared(2)]);
    assert_eq!(infer(layer, &[], &[1.0, 2.0, 8.0, 9.0]), [1.0, 8.0, 9.0, 2.0, 8.0, 9.0]);
    check_gradients(&Interleave::new(3, &[Spread::Shared(2), Spread::PerNode(2)]));
}

#[test]
fn combined_layers_have_the_gradients_of_their_formulas() {
    let dense = |inputs, outputs| Linear::new(3, inputs, outputs).then(Activation::Tanh);
    let chain = Chain::new().then("a", dense(2, 4)).then("b", Linear::new(3, 4, 2));
    check_gradients(&Sum::new(("chain", chain), ("own", PerNode::new(3, 2, 2, &[]))));
    check_gradients(&Sum::new(("a", dense(2, 3)), ("b", PerNode::new(3, 2, 3, &[]))));
    check_gradients(&Gated::new(dense(3, 4), PerNode::new(3, 3, 2, &[]), 2));
    // Correction 5, gate σ(0) = ½, direct 3·x.
    let gated = Gated::new(Linear::new(1, 1, 2), PerNode::new(1, 1, 1, &[]), 1);
    assert_eq!(infer(gated, &[0.0, 0.0, 5.0, 0.0, 3.0, 0.0], &[4.0]), [11.0]);
}
