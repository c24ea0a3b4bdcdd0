//! The engine of centralised training against the reference implementation, and what it must not depend on.

mod corridor;
mod reference;

use std::sync::Arc;

use corridor::{Columns, SEED, TRAIN, Targets, VALIDATION, recipe, shape, steps, table};
use estimator::artifact::{DataSpec, HostRecord, ModelRecord};
use estimator::data::{HostScales, JointData, Scale};
use estimator::loss::Labelled;
use estimator::{
    Architecture, FeatureSet, ModelShape, NeuralPlan, Recipe, TargetKind, WINDOW, WindowSource,
};
use traffic::{Window, corridor as corridor_network};
use training::learner::HostLoss;
use training::{CentralRun, EngineError};

/// The random table of a shape, each party with its columns.
fn data(shape: &ModelShape, recipe: Recipe) -> JointData {
    let network = corridor_network().expect("the corridor");
    let whole = table(shape);
    let mut from = 0;
    let mut next = |length: usize| {
        from += length;
        Arc::new(whole.with_own(from - length..from)) as Arc<dyn WindowSource>
    };
    let rule = estimator::UpdateRule::of(&recipe);
    let host = estimator::HostModel::new(&shape.host, &network, SEED, rule).expect("a model");
    let host = next(host.input_len());
    let inputs = shape.guests.iter().map(|guest| {
        let layer = guest.build(&network).expect("a model");
        next(neural::Layer::input_len(&layer))
    });
    let guests = inputs.collect();
    let plan = NeuralPlan::new(FeatureSet::Both, Architecture::Link, TargetKind::Raw, SEED);
    let scale = Scale { mean: 0.0, deviation: 1.0 };
    let record = ModelRecord {
        plan: NeuralPlan { recipe, ..plan },
        shape: shape.clone(),
        host: HostRecord {
            common: DataSpec { network_hash: String::new(), step_s: 10.0, window: WINDOW },
            loops: Vec::new(),
            inputs: HostScales { loops: Vec::new() },
            outputs: vec![[scale; 2]; network.links().len()],
        },
        guests: Vec::new(),
    };
    let whole = |range| steps(range).into_iter().map(Window::whole).collect();
    JointData {
        record,
        network: Arc::new(network),
        host,
        guests,
        train: whole(TRAIN),
        validation: whole(VALIDATION),
        segment: 1,
    }
}

fn loss(columns: &Columns) -> HostLoss {
    HostLoss::of(Labelled::new(Targets(columns.clone()), columns.loss_weights()))
}

fn run(shape: &ModelShape, recipe: Recipe) -> CentralRun {
    CentralRun::new(&data(shape, recipe), loss(&table(shape))).expect("a run")
}

fn finished(mut run: CentralRun) -> CentralRun {
    while run.epoch().expect("a finite loss").is_some() {}
    run
}

fn weights(run: &CentralRun) -> Vec<Vec<f32>> {
    run.best().into_iter().map(<[f32]>::to_vec).collect()
}

/// Bit for bit, for a host alone, one guest and three that all differ.
#[test]
fn the_engine_equals_the_reference() {
    for guests in [0, 1, 3] {
        let shape = shape(guests);
        let run = finished(run(&shape, recipe()));
        let columns = table(&shape);
        let weights_of_outputs = columns.loss_weights().training;
        let (train, validation) = (steps(TRAIN), steps(VALIDATION));
        let examples = reference::Examples {
            inputs: &columns,
            targets: &Targets(columns.clone()),
            weights: &weights_of_outputs,
            train: &train,
            validation: &validation,
        };
        let network = corridor_network().unwrap();
        let expected = reference::train(&shape, &network, (&recipe(), SEED), &examples);
        let losses: Vec<[f64; 2]> =
            run.history().iter().map(|epoch| [epoch.train, epoch.validation]).collect();
        assert_eq!(losses, expected.losses, "{guests} guests");
        assert!(weights(&run) == expected.best, "{guests} guests");
    }
}

#[test]
fn weights_are_the_same_bits_on_any_number_of_threads() {
    let trained = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| weights(&finished(run(&shape(1), recipe()))))
    };
    assert!(trained(1) == trained(3));
}

/// A run that was saved between two epochs ends with the same weights and losses.
#[test]
fn a_saved_run_continues_to_the_same_weights() {
    let shape = shape(2);
    let whole = finished(run(&shape, recipe()));
    let mut first = run(&shape, recipe());
    first.epoch().unwrap();
    let saved = first.save("this run").unwrap();
    first.epoch().unwrap(); // killed before this epoch was saved
    let mut second = run(&shape, recipe());
    second.restore(&saved, "this run").unwrap();
    assert_eq!(second.history().len(), 1);
    let second = finished(second);
    assert_eq!(second.history(), whole.history());
    assert!(weights(&second) == weights(&whole));

    // Neither another run nor other bytes.
    let refused = |saved: &[u8], fingerprint: &str| {
        run(&shape, recipe()).restore(saved, fingerprint).unwrap_err().to_string()
    };
    assert!(refused(&saved, "another").contains("other data or with other settings"));
    assert!(refused(b"bytes", "this run").contains("expected a run of format"));
    assert!(refused(&saved[..saved.len() - 1], "this run").contains("found too few bytes"));
    let other = CentralRun::new(&data(&corridor::shape(1), recipe()), loss(&table(&shape)));
    let error = other.unwrap().restore(&saved, "this run").unwrap_err().to_string();
    assert!(error.contains("found 3 states, expected those of 2 parties"), "{error}");
}

#[test]
fn a_loss_that_is_not_a_number_ends_training() {
    struct Infinite(Targets);
    impl WindowSource for Infinite {
        fn row_len(&self) -> usize {
            self.0.row_len()
        }
        fn write_row(&self, window: Window, to: &mut [f32]) {
            self.0.write_row(window, to);
            if window.last.0 == 77 {
                to.fill(f32::INFINITY);
            }
        }
    }
    let shape = shape(1);
    let columns = table(&shape);
    let labels = Infinite(Targets(columns.clone()));
    let loss = HostLoss::of(Labelled::new(labels, columns.loss_weights()));
    let error = CentralRun::new(&data(&shape, recipe()), loss).unwrap().epoch().unwrap_err();
    let EngineError::Diverged { epoch, loss, .. } = error else { unreachable!("{error}") };
    assert!(epoch == 1 && !loss.is_finite(), "{error}");
}

#[test]
fn training_stops_when_nothing_gets_better() {
    // The average of equal weights differs in the last bit; the weights themselves do not.
    let recipe = Recipe { epochs: 50, patience: 2, rate: 0.0, average: None, ..recipe() };
    let run = finished(run(&shape(1), recipe));
    // The first epoch is the best of equals; two more bring nothing.
    assert_eq!((run.history().len(), run.best_epoch()), (3, Some(1)));
}
