//! Our layers, optimisers and the paper's whole model against PyTorch's numbers, which
//! `scripts/golden_torch.py` writes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail")]

use std::path::Path;

use neural::{
    Activate, Activation, Adam, ChebConv, ChebShape, Decay, Draw, Fusion, Huber, Layer, LayerNorm,
    Learner, Linear, Loss, Optimiser, Plan, Schedule, Sgd, Sparse, Squared, StgcnShape,
    TemporalConv, TemporalShape, head, stgcn,
};
use safetensors::SafeTensors;

struct Golden(Vec<u8>);

impl Golden {
    fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        Golden(std::fs::read(path).unwrap())
    }

    fn get(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap_or_else(|_| panic!("no tensor {name}"));
        let values = tensor.data().chunks_exact(4);
        values.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn laplacian(&self) -> Sparse {
        let dense = self.get("laplacian");
        let entries: Vec<_> =
            (0..17 * 17).filter(|&i| dense[i] != 0.0).map(|i| (i / 17, i % 17, dense[i])).collect();
        Sparse::new(17, &entries).unwrap()
    }
}

/// Relative to the largest expected value: both sides round sums of that size.
#[track_caller]
fn assert_near(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    let scale = expected.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let distance = (found - expected).abs();
        assert!(distance <= tolerance * scale, "{what}[{i}]: found {found}, PyTorch {expected}");
    }
}

fn check(golden: &Golden, name: &str, layer: impl Layer) {
    let get = |key: &str| golden.get(&format!("{name}.{key}"));
    let mut learner = Learner::new(layer, 0, Plan::default());
    learner.set_parameters(&get("parameters")).unwrap();
    let x = get("x");
    let mut y = vec![0.0; get("y").len()];
    let mut dx = vec![0.0; x.len()];
    learner.forward(&x, &mut y, None);
    learner.backward(&x, &get("dy"), Some(&mut dx), None);
    // Sums of tens of terms in f32, on both sides.
    assert_near(&format!("{name}.y"), &y, &get("y"), 3e-6);
    assert_near(&format!("{name}.dx"), &dx, &get("dx"), 3e-6);
    assert_near(&format!("{name}.gradient"), learner.gradient(), &get("gradient"), 3e-6);
}

#[test]
fn layers() {
    let golden = Golden::read("layers.safetensors");
    let temporal =
        |kernel, inputs, outputs| TemporalShape { kernel, time: 5, nodes: 3, inputs, outputs };
    check(&golden, "glu-widen", TemporalConv::gated(temporal(3, 2, 5)));
    check(&golden, "glu-narrow", TemporalConv::gated(temporal(3, 6, 4)));
    check(&golden, "relu-widen", TemporalConv::new(temporal(3, 4, 6), Activation::Relu));
    check(&golden, "sigmoid-same", TemporalConv::new(temporal(1, 5, 5), Activation::Sigmoid));
    let shape = ChebShape { orders: 3, slices: 2, inputs: 4, outputs: 4 };
    let chebyshev = ChebConv::new(shape, &golden.laplacian(), Activation::Relu, true);
    check(&golden, "chebyshev", chebyshev);
    check(&golden, "node-norm", LayerNorm::new(4, 15));
    check(&golden, "channel-norm", LayerNorm::new(3, 6));
    check(&golden, "linear", Linear::new(1, 7, 9));
}

#[test]
fn activations() {
    let golden = Golden::read("layers.safetensors");
    for (name, activation) in [
        ("relu", Activation::Relu),
        ("sigmoid", Activation::Sigmoid),
        ("tanh", Activation::Tanh),
        ("silu", Activation::Silu),
        ("gelu", Activation::Gelu),
    ] {
        let get = |key: &str| golden.get(&format!("{name}.{key}"));
        let x = get("x");
        let mut learner = Learner::new(Activate::new(activation, 1), 0, Plan::default());
        let (mut y, mut dx) = (vec![0.0; 50], vec![0.0; 50]);
        learner.forward(&x, &mut y, None);
        learner.backward(&x, &[1.0; 50], Some(&mut dx), None);
        // A few units in the last place of the exponential.
        assert_near(name, &y, &get("y"), 1e-6);
        assert_near(name, &dx, &get("dx"), 1e-6);
    }
}

#[test]
fn optimisers() {
    let golden = Golden::read("layers.safetensors");
    let gradients = golden.get("optimiser.gradients");
    let mut all: Vec<(&str, Box<dyn Optimiser>)> = vec![
        ("adam", Box::new(Adam::new(12, Decay::None))),
        ("adam-decay", Box::new(Adam::new(12, Decay::InGradient(0.1)))),
        ("adamw", Box::new(Adam::new(12, Decay::Decoupled(0.1)))),
        ("sgd", Box::new(Sgd::new(12, 0.9, Decay::InGradient(0.1)))),
    ];
    for (name, optimiser) in &mut all {
        let mut parameters = golden.get("optimiser.start");
        for gradient in gradients.chunks_exact(12) {
            optimiser.update(0.01, &mut parameters, gradient);
        }
        // Five steps, a few roundings each.
        assert_near(name, &parameters, &golden.get(&format!("optimiser.{name}")), 1e-6);
    }
}

#[test]
fn schedules() {
    let golden = Golden::read("layers.safetensors");
    for (name, schedule) in [
        ("step", Schedule::Step { rate: 0.1, every: 3, factor: 0.5 }),
        ("one-cycle", Schedule::OneCycle { highest: 3e-3, steps: 20 }),
    ] {
        let rates: Vec<f32> = (0..20).map(|step| schedule.rate(step)).collect();
        // Both are f64 formulas, rounded to f32 at the end.
        assert_near(name, &rates, &golden.get(&format!("schedule.{name}")), 1e-6);
    }
}

#[test]
fn losses() {
    let golden = Golden::read("layers.safetensors");
    let get = |key: &str| golden.get(&format!("loss.{key}"));
    let (y, target, weights) = (get("y"), get("target"), get("weights"));
    let squared = Squared::new(&target, &weights);
    let huber = Huber::new(&target, &weights, 0.7);
    for (name, loss) in [("squared", &squared as &dyn Loss), ("huber", &huber)] {
        let mut gradient = vec![0.0; y.len()];
        let value = loss.evaluate(0, &y, &mut gradient) as f32;
        assert_near(name, &[value], &get(name), 1e-6);
        assert_near(name, &gradient, &get(&format!("{name}.gradient")), 1e-6);
    }
}

/// The paper's two sub-models and head over its corridor, 20 samples: output, all gradients and
/// ten steps of Adam.
#[test]
fn whole_model() {
    let golden = Golden::read("paper.safetensors");
    let laplacian = golden.laplacian();
    let part = |channels| stgcn(&StgcnShape::paper(channels), &laplacian).unwrap();
    let joint = Fusion::new(head(18, 272, 34)).with("host", part(1)).with("guest", part(2));
    let mut learner = Learner::new(joint, 0, Plan::default());

    let layout = learner.layout().clone();
    let mut draw = Draw::new(1);
    let mut parameters = vec![0.0; layout.len()];
    draw.fill(&mut parameters, 0.2);
    for parameter in layout.parameters().iter().filter(|p| p.name.ends_with("scale")) {
        parameters[parameter.range.clone()].iter_mut().for_each(|value| *value += 1.0);
    }
    learner.set_parameters(&parameters).unwrap();
    let some = |seed, len: usize| {
        let mut values = vec![0.0; len];
        Draw::new(seed).fill(&mut values, 1.0);
        values
    };
    let (x, target) = (some(2, 20 * 9 * 17 * 3), some(3, 20 * 34));
    let weights: Vec<f32> = (0..34).map(|j| if j < 17 { 1.0 } else { 0.5 } / 17.0).collect();

    let mut y = vec![0.0; 20 * 34];
    learner.infer(&x, &mut y);
    // Ten layers of f32 against f64.
    assert_near("output", &y, &golden.get("output"), 1e-5);

    let mut adam = Adam::new(layout.len(), Decay::InGradient(1e-3));
    for (step, expected) in golden.get("losses").iter().enumerate() {
        let loss = learner.train(&x, &Squared::new(&target, &weights), None) as f32;
        assert!((loss / expected - 1.0).abs() < 1e-4, "step {step}: {loss}, PyTorch {expected}");
        if step == 0 {
            check_gradients(&golden, &learner);
        }
        learner.step(&mut adam, 3e-4);
    }
}

fn check_gradients<L: Layer>(golden: &Golden, learner: &Learner<L>) {
    for parameter in learner.layout().parameters() {
        let name = &parameter.name;
        let gradient = &learner.gradient()[parameter.range.clone()];
        let expected = golden.get(&format!("gradient.{name}"));
        let norm = golden.get(&format!("norm.{name}"))[0];
        let found = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt() as f32;
        assert!((found / norm - 1.0).abs() < 1e-4, "norm of {name}: {found}, PyTorch {norm}");
        let spaces = (expected.len() - 1).max(1);
        let places = (0..expected.len()).map(|i| i * (gradient.len() - 1) / spaces);
        let sampled: Vec<f32> = places.map(|place| gradient[place]).collect();
        assert_near(name, &sampled, &expected, 1e-4);
    }
}
