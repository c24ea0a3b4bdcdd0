use std::collections::BTreeSet;
use std::path::Path;

use estimator::{EmbeddingShape, GuestShape, LayerSubModel, Sizes, SubModel, SubModelKind, WINDOW};
use neural::{Checkpoint, DropoutRng};
use protocol::message::parts::Values;
use protocol::plan::{LocalUpdates, OptimiserSettings};
use traffic::{Step, corridor};

use super::*;
use crate::learner::{GuestLearner, update_rule};

/// Any numbers, the same for the same sample.
struct Sines(usize);

impl WindowSource for Sines {
    fn row_len(&self) -> usize {
        self.0
    }
    fn write_row(&self, sample: Window, to: &mut [f32]) {
        let number = |i: usize| (sample.last.0 as f32 + 0.37 * i as f32).sin();
        to.iter_mut().enumerate().for_each(|(i, x)| *x = number(i));
    }
}

/// Built-in layers as a custom sub-model.
struct OurLayers {
    layers: LayerSubModel,
    x: Vec<f32>,
}

/// A linear map draws nothing at random.
const NOISE: DropoutRng = DropoutRng { seed: 0, step: 0, first_sample: 0 };

fn failure(error: impl std::fmt::Display) -> ModelFailure {
    ModelFailure(error.to_string())
}

impl CustomSubModel for OurLayers {
    fn forward(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>, ModelFailure> {
        self.x = x.to_vec();
        let mut z = vec![0.0; samples * self.layers.output_len()];
        self.layers.forward(x, &mut z, NOISE).map_err(failure)?;
        Ok(z)
    }
    fn backward(&mut self, gradient: &[f32], _: usize, rate: f32) -> Result<(), ModelFailure> {
        self.layers.backward(&self.x, gradient, NOISE).map_err(failure)?;
        self.layers.update(rate);
        Ok(())
    }
    fn infer(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>, ModelFailure> {
        let mut z = vec![0.0; samples * self.layers.output_len()];
        self.layers.infer(x, &mut z).map_err(failure)?;
        Ok(z)
    }
    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        self.layers.save().to_bytes(Path::new("test")).map_err(failure)
    }
    fn load(&mut self, saved: &[u8]) -> Result<(), ModelFailure> {
        let saved = Checkpoint::parse(saved, Path::new("test"), estimator::PARTY_CHECKPOINT);
        self.layers.load(&saved.map_err(failure)?).map_err(failure)
    }
}

fn plan(updates: u32) -> Plan {
    Plan {
        seed: 3,
        batch: 4,
        epochs: 2,
        exchanges: 10,
        optimiser: OptimiserSettings {
            rate: 1e-2,
            one_cycle: true,
            decay: 1e-2,
            clip: None,
            average: None,
        },
        local: LocalUpdates { count: updates, ..LocalUpdates::default() },
        segment: 1,
        measured: BTreeSet::new(),
        shares: None,
        sealing: None,
    }
}

fn layers(plan: &Plan) -> LayerSubModel {
    let shape = GuestShape {
        name: "a".into(),
        sub_model: SubModelKind::Linear,
        channels: 3 * WINDOW,
        totals: true,
        embedding: EmbeddingShape::PerLink(2),
        sizes: Sizes::default(),
        window: WINDOW,
    };
    LayerSubModel::of(&shape, &corridor().expect("corridor"), 3, update_rule(plan))
        .expect("a model")
}

fn own(plan: &Plan) -> CustomGuestLearner<Sines> {
    let layers = layers(plan);
    let (inputs, width) = (layers.input_len(), layers.output_len());
    let model = Box::new(OurLayers { layers, x: Vec::new() });
    CustomGuestLearner::new(model, Sines(inputs), width, plan, Vec::new()).expect("a guest")
}

fn samples(first: i64) -> Vec<Window> {
    (first..first + 4).map(|step| Window::whole(Step(step))).collect()
}

fn gradient(width: usize, round: i64) -> EmbeddingGradient {
    let number = |i: usize| 0.1 * (round as f32 + i as f32).cos();
    let values = (0..4 * width).map(number).collect();
    EmbeddingGradient(Values::new(width, values).expect("numbers"))
}

/// A run of some rounds; everything that it has said.
fn run(guest: &mut impl GuestModel, rounds: std::ops::Range<i64>) -> Vec<Vec<f32>> {
    let mut said = Vec::new();
    for round in rounds {
        said.push(guest.embed(&samples(4 * round)).unwrap());
        guest.learn(&gradient(guest.width(), round)).unwrap();
        said.push(guest.validate(&samples(100)).unwrap());
        if round % 3 == 1 {
            guest.keep_best();
        }
        // The best weights in between leave those that move as they are.
        said.push(guest.estimate(&samples(100)).unwrap());
    }
    said
}

#[test]
fn what_is_brought_along_does_what_built_in_models_do() {
    for updates in [1, 3] {
        let plan = plan(updates);
        let layers = layers(&plan);
        let inputs = layers.input_len();
        let mut built_in = GuestLearner::new(layers, Sines(inputs), &plan).unwrap();
        assert_eq!(run(&mut built_in, 0..6), run(&mut own(&plan), 0..6), "{updates} updates");
    }
}

#[test]
fn a_run_that_goes_on_from_a_checkpoint_is_the_same_run() {
    let plan = plan(2);
    let mut whole = own(&plan);
    let expected = run(&mut whole, 0..6);
    let mut first = own(&plan);
    let mut found = run(&mut first, 0..3);
    let saved = first.save().unwrap();
    let mut second = own(&plan);
    second.restore(&saved).unwrap();
    found.extend(run(&mut second, 3..6));
    assert_eq!(found, expected);
    assert_eq!(second.best().unwrap(), whole.best().unwrap());
}

#[test]
fn damaged_checkpoints_are_refused_and_change_nothing() {
    let plan = plan(1);
    let mut guest = own(&plan);
    let saved = guest.save().unwrap();
    for cut in [0, 10, FORMAT.len() + 3, FORMAT.len() + 12, FORMAT.len() + 20] {
        assert!(guest.restore(&saved[..cut]).is_err(), "{cut}");
    }
    let mut long = saved.clone();
    long[FORMAT.len() + 8..FORMAT.len() + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(guest.restore(&long).is_err());
    assert_eq!(guest.save().unwrap(), saved);
}

/// Gives what it is told to.
struct Odd(Vec<f32>);

impl CustomSubModel for Odd {
    fn forward(&mut self, _: &[f32], _: usize) -> Result<Vec<f32>, ModelFailure> {
        Ok(self.0.clone())
    }
    fn backward(&mut self, _: &[f32], _: usize, _: f32) -> Result<(), ModelFailure> {
        Ok(())
    }
    fn infer(&mut self, _: &[f32], _: usize) -> Result<Vec<f32>, ModelFailure> {
        Ok(self.0.clone())
    }
    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        Ok(Vec::new())
    }
    fn load(&mut self, _: &[u8]) -> Result<(), ModelFailure> {
        Ok(())
    }
}

#[test]
fn outputs_of_a_wrong_shape_or_that_are_no_numbers_do_not_leave() {
    let error = |z: Vec<f32>| {
        let mut guest =
            CustomGuestLearner::new(Box::new(Odd(z)), Sines(3), 2, &plan(1), Vec::new()).unwrap();
        guest.embed(&samples(0)).unwrap_err().to_string()
    };
    assert!(error(vec![0.0; 7]).contains("found 7 numbers for 4 samples, expected 8"));
    let mut z = vec![0.0; 8];
    z[5] = f32::NAN;
    assert!(error(z).contains("found NaN at place 5"));
}

#[test]
fn what_it_cannot_do_is_refused_at_the_beginning() {
    let mut plan = plan(2);
    plan.local.variant = LocalVariant::Frozen;
    let new = |plan: &Plan| {
        CustomGuestLearner::new(Box::new(Odd(Vec::new())), Sines(3), 2, plan, Vec::new())
    };
    assert!(new(&plan).err().unwrap().to_string().contains("frozen"));
    plan.local = LocalUpdates { proximal: 0.1, ..LocalUpdates::default() };
    assert!(new(&plan).is_err());
}
