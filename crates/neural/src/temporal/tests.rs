use super::*;
use crate::check::{check_layer, passes};
use crate::random::Draw;

/// The formula of the module, for one sample.
fn formula(s: TemporalShape, gated: bool, relu: bool, w: &[f64], x: &[f64]) -> Vec<f64> {
    let width = if gated { 2 * s.outputs } else { s.outputs };
    let (w, rest) = w.split_at(s.kernel * s.inputs * width);
    let (b, align) = rest.split_at(width);
    let at = |t: usize, n: usize, c: usize| x[(t * s.nodes + n) * s.inputs + c];
    let mut y = Vec::new();
    for t in 0..s.time - s.kernel + 1 {
        for n in 0..s.nodes {
            let conv = |j: usize| {
                let tap = |tau: usize| -> f64 {
                    let term = |i| at(t + tau, n, i) * w[(tau * s.inputs + i) * width + j];
                    (0..s.inputs).map(term).sum()
                };
                b[j] + (0..s.kernel).map(tap).sum::<f64>()
            };
            let last = t + s.kernel - 1;
            let residual = |j: usize| {
                if s.inputs <= s.outputs {
                    return if j < s.inputs { at(last, n, j) } else { 0.0 };
                }
                let map = |i| at(last, n, i) * align[i * s.outputs + j];
                align[s.inputs * s.outputs + j] + (0..s.inputs).map(map).sum::<f64>()
            };
            y.extend((0..s.outputs).map(|j| {
                let value = conv(j) + residual(j);
                let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
                match (gated, relu) {
                    (true, _) => value * sigmoid(conv(s.outputs + j)),
                    (_, true) => value.max(0.0),
                    _ => sigmoid(value),
                }
            }));
        }
    }
    y
}

#[test]
fn values_and_gradients_are_those_of_the_formula() {
    for (inputs, outputs) in [(2, 5), (4, 4), (5, 3)] {
        for (kernel, time) in [(3, 6), (1, 2), (3, 4), (4, 4)] {
            let shape = TemporalShape { kernel, time, nodes: 3, inputs, outputs };
            check_layer(&TemporalConv::gated(shape), 2, 1, |w, x| {
                formula(shape, true, false, w, x)
            });
            for (activation, relu) in [(Activation::Relu, true), (Activation::Sigmoid, false)] {
                check_layer(&TemporalConv::new(shape, activation), 2, 2, |w, x| {
                    formula(shape, false, relu, w, x)
                });
            }
        }
    }
}

/// The residual enters through the weights; here it is computed as the formula says.
#[test]
fn residual_is_the_aligned_last_step() {
    let shape = TemporalShape { kernel: 2, time: 2, nodes: 1, inputs: 2, outputs: 1 };
    let conv = TemporalConv::gated(shape);
    let mut learner = crate::Learner::new(conv, 0, crate::Plan::default());
    // Taps are zero, gate bias is 0 (σ = ½), P bias 1; A = (3, 5)ᵀ with bias 7.
    let mut parameters = vec![0.0; 8];
    parameters.extend([1.0, 0.0, 3.0, 5.0, 7.0]);
    learner.set_parameters(&parameters).unwrap();
    let mut y = [0.0];
    learner.infer(&[9.0, 9.0, 10.0, 100.0], &mut y);
    assert_eq!(y, [(1.0 + 3.0 * 10.0 + 5.0 * 100.0 + 7.0) / 2.0]);
}

/// The map before the convolution, computed as what it is.
#[test]
fn a_mix_is_a_linear_layer_before() {
    for (kernel, inputs) in [(3, 4), (2, 5), (3, 16)] {
        let shape = TemporalShape { kernel, time: 4, nodes: 2, inputs, outputs: 4 };
        let layer = TemporalConv::gated(shape).after_mix();
        check_layer(&layer, 2, 3, |w, x| {
            let (mix, rest) = w.split_at(inputs * inputs);
            let (bias, w) = rest.split_at(inputs);
            let row = |x: &[f64]| -> Vec<f64> {
                let column = |j: usize| -> f64 {
                    bias[j] + (0..inputs).map(|i| x[i] * mix[i * inputs + j]).sum::<f64>()
                };
                (0..inputs).map(column).collect()
            };
            let mixed: Vec<f64> = x.chunks_exact(inputs).flat_map(row).collect();
            formula(shape, true, false, w, &mixed)
        });
    }
}

/// Winograd's way against the direct one: every division of steps into blocks, nodes of several
/// samples in a group and groups that divide a sample.
#[test]
fn fewer_products_give_the_same() {
    let sizes = [(1, 3, 4), (5, 3, 5), (30, 3, 6), (8, 17, 7), (1, 64, 5), (2, 150, 9)];
    for (samples, nodes, time) in sizes {
        for inputs in [16, 21] {
            let shape = TemporalShape { kernel: 3, time, nodes, inputs, outputs: 18 };
            let conv = TemporalConv::gated(shape);
            assert!(conv.winograd.is_some());
            let direct = TemporalConv { winograd: None, ..conv.clone() };
            let mut draw = Draw::new(9);
            let mut some =
                |len: usize| -> Vec<f32> { (0..len).map(|_| draw.uniform(-1.0, 1.0)).collect() };
            let parameters = some(conv.layout.len());
            let x = some(samples * conv.input_len());
            let dy = some(samples * conv.output_len());
            let found = passes(&conv, samples, &parameters, &x, &dy);
            let expected = passes(&direct, samples, &parameters, &x, &dy);
            for (found, expected) in
                [(found.0, expected.0), (found.1, expected.1), (found.2, expected.2)]
            {
                let scale = expected.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
                for (found, expected) in found.iter().zip(&expected) {
                    // Rounding of both: some 2⁻²⁴ of sums of up to 2400 terms.
                    assert!(
                        (found - expected).abs() < 1e-5 * scale,
                        "{shape:?}: {found} {expected}"
                    );
                }
            }
        }
    }
}
