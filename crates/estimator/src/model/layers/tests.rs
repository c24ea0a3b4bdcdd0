//! Each layer: values by hand, and its formula in f64 with central differences.

use neural::check::check_layer;
use neural::{Activation, Chain, Layer, Learner, Linear, Plan};

use super::*;

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
    check_layer(&PerNode::new(3, 5, 2, &[]), 4, 1, |w, x| own_maps(w, x, 3, 2));
    check_layer(&PerNode::new(3, 5, 2, &[]).alike(), 4, 1, |w, x| same_map(w, x, 5, 2));
    // Starts as the choice of an input.
    let learner = Learner::new(PerNode::new(2, 2, 1, &[(1, 0, 1.0)]), 3, Plan::default());
    let mut y = [0.0; 2];
    learner.infer(&[7.0, 8.0, 9.0, 10.0], &mut y);
    assert_eq!(y, [8.0, 10.0]);
}

#[test]
fn shared_parts_are_repeated_at_each_node() {
    let layer = Interleave::new(2, &[PartLayout::PerNode(1), PartLayout::Shared(2)]);
    assert_eq!(infer(layer, &[], &[1.0, 2.0, 8.0, 9.0]), [1.0, 8.0, 9.0, 2.0, 8.0, 9.0]);
    let layer = Interleave::new(3, &[PartLayout::Shared(2), PartLayout::PerNode(2)]);
    check_layer(&layer, 4, 1, |_, x| {
        let each = x[2..].chunks_exact(2);
        each.flat_map(|own| [x[0], x[1], own[0], own[1]]).collect()
    });
}

#[test]
fn combined_layers_have_the_gradients_of_their_formulas() {
    let dense = |inputs, outputs| Linear::new(3, inputs, outputs).then(Activation::Tanh);
    let chain = Chain::new().then("a", dense(2, 4)).then("b", Linear::new(3, 4, 2));
    let sum = Sum::new(("chain", chain), ("own", PerNode::new(3, 2, 2, &[])));
    check_layer(&sum, 4, 1, |w, x| {
        let (first, rest) = w.split_at(2 * 4 + 4);
        let (second, own) = rest.split_at(4 * 2 + 2);
        let hidden: Vec<f64> = same_map(first, x, 2, 4).iter().map(|v| v.tanh()).collect();
        let all = same_map(second, &hidden, 4, 2).into_iter().zip(own_maps(own, x, 3, 2));
        all.map(|(a, b)| a + b).collect()
    });
    let gated = Gated::new(dense(3, 4), PerNode::new(3, 3, 2, &[]), 2);
    check_layer(&gated, 4, 1, |w, x| {
        let (body, own) = w.split_at(3 * 4 + 4);
        let body: Vec<f64> = same_map(body, x, 3, 4).iter().map(|v| v.tanh()).collect();
        let direct = own_maps(own, x, 3, 2);
        let gate = |g: f64| 1.0 / (1.0 + (-g).exp());
        let nodes = body.chunks_exact(4).zip(direct.chunks_exact(2));
        nodes.flat_map(|(b, d)| [0, 1].map(|i| b[i] + gate(b[2 + i]) * d[i])).collect()
    });
    // Correction 5, gate σ(0) = ½, direct 3·x.
    let gated = Gated::new(Linear::new(1, 1, 2), PerNode::new(1, 1, 1, &[]), 1);
    assert_eq!(infer(gated, &[0.0, 0.0, 5.0, 0.0, 3.0, 0.0], &[4.0]), [11.0]);
}

/// One linear map for all nodes: weights, then biases.
fn same_map(w: &[f64], x: &[f64], inputs: usize, outputs: usize) -> Vec<f64> {
    let (weight, bias) = w.split_at(inputs * outputs);
    let node = |x: &[f64]| -> Vec<f64> {
        let sum = |j: usize| (0..inputs).map(|i| x[i] * weight[i * outputs + j]).sum::<f64>();
        (0..outputs).map(|j| bias[j] + sum(j)).collect()
    };
    x.chunks_exact(inputs).flat_map(node).collect()
}

/// A map for each node: all weights, then all biases.
fn own_maps(w: &[f64], x: &[f64], nodes: usize, outputs: usize) -> Vec<f64> {
    let inputs = x.len() / nodes;
    let (weights, biases) = w.split_at(nodes * inputs * outputs);
    let maps = weights.chunks_exact(inputs * outputs).zip(biases.chunks_exact(outputs));
    let maps = maps.map(|(weight, bias)| [weight, bias].concat());
    maps.zip(x.chunks_exact(inputs)).flat_map(|(w, x)| same_map(&w, x, inputs, outputs)).collect()
}
