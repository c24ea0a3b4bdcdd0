//! How layers are tested: against their formula in f64, and its central differences.
//!
//! Differences in f32 are too coarse to tell a wrong gradient from rounding. So each layer's test
//! writes its formula a second time, naively, in f64; the layer's output must equal it, and the
//! layer's gradients must equal its central differences.
//!
//! Public for the tests of crates that have layers of their own.

use crate::layer::{BackwardPass, DropoutRng, Given, Layer, Memory, Pass};
use crate::random::Draw;

/// Where the random decisions of a tested pass stand.
pub const RNG: DropoutRng = DropoutRng { seed: 5, step: 6, first_sample: 0 };

/// Checks a layer at a random place. `formula(parameters, x)` computes one sample.
///
/// # Panics
/// If the layer does not follow its formula.
pub fn check_layer(
    layer: &dyn Layer,
    samples: usize,
    seed: u64,
    formula: impl Fn(&[f64], &[f64]) -> Vec<f64>,
) {
    let numbered = |parameters: &[f64], _sample: usize, x: &[f64]| formula(parameters, x);
    check_layer_by_sample(layer, samples, seed, numbered);
}

/// As [`check_layer`], for a formula that depends on the number of the sample (dropout).
///
/// # Panics
/// As [`check_layer`].
pub(crate) fn check_layer_by_sample(
    layer: &dyn Layer,
    samples: usize,
    seed: u64,
    formula: impl Fn(&[f64], usize, &[f64]) -> Vec<f64>,
) {
    let mut draw = Draw::new(seed);
    let mut some = |len: usize| -> Vec<f32> { (0..len).map(|_| draw.uniform(-1.0, 1.0)).collect() };
    let parameters = some(layer.layout().len());
    let x = some(samples * layer.input_len());
    let dy = some(samples * layer.output_len());

    let (y, dx, gradient) = passes(layer, samples, &parameters, &x, &dy);
    let whole = |parameters: &[f64], x: &[f64]| -> Vec<f64> {
        let each = x.chunks_exact(layer.input_len()).enumerate();
        each.flat_map(|(i, x)| formula(parameters, i, x)).collect()
    };
    let (parameters, x) = (widen(&parameters), widen(&x));
    // Rounding of sums of some tens of terms of order 1 in f32.
    assert_near("output", &y, &whole(&parameters, &x), 1e-5);

    let loss = |parameters: &[f64], x: &[f64]| -> f64 {
        whole(parameters, x).iter().zip(&dy).map(|(y, &w)| y * f64::from(w)).sum()
    };
    // Central differences in f64: truncation about h², rounding about 1e-16/h.
    assert_near("input gradient", &dx, &differences(&x, |x| loss(&parameters, x)), 1e-5);
    let expected = differences(&parameters, |parameters| loss(parameters, &x));
    for parameter in layer.layout().parameters() {
        let range = parameter.range.clone();
        assert_near(&parameter.name, &gradient[range.clone()], &expected[range], 1e-5);
    }
}

/// Output, input gradient and parameter gradient of one chunk, with dirty memory.
pub fn passes(
    layer: &dyn Layer,
    samples: usize,
    parameters: &[f32],
    x: &[f32],
    dy: &[f32],
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let mut prepared = vec![f32::NAN; layer.prepared_len()];
    layer.prepare(parameters, &mut prepared);
    let pass = Pass { samples, parameters, prepared: &prepared, rng: Some(RNG) };
    let mut saved = vec![f32::NAN; layer.saved_len(samples)];
    let mut scratch = vec![f32::NAN; layer.scratch_len(samples)];
    let mut y = vec![f32::NAN; samples * layer.output_len()];
    layer.forward(&pass, x, &mut y, Memory { saved: &mut saved, scratch: &mut scratch });
    scratch.fill(f32::NAN);
    let mut dx = vec![f32::NAN; x.len()];
    // Starts at one: backward must add, not overwrite.
    let mut gradient = vec![1.0; parameters.len()];
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
    gradient.iter_mut().for_each(|g| *g -= 1.0);
    layer.finish_gradient(&mut gradient);
    (y, dx, gradient)
}

fn differences(at: &[f64], function: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    let mut place = at.to_vec();
    (0..at.len())
        .map(|i| {
            let mut moved = |by: f64| {
                place[i] = at[i] + by;
                let value = function(&place);
                place[i] = at[i];
                value
            };
            (moved(step) - moved(-step)) / (2.0 * step)
        })
        .collect()
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// Compares relative to the largest expected value.
fn assert_near(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    let scale = expected.iter().fold(1.0f64, |scale, value| scale.max(value.abs()));
    for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(found) - expected).abs() <= tolerance * scale,
            "{what}[{i}]: found {found}, expected {expected}"
        );
    }
}
