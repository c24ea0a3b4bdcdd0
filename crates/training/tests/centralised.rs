//! Federated equals centralised: with Q = 1 the weights are bit for bit those of the joint model, trained in one place
//! by the reference implementation.

mod corridor;
mod reference;

use std::collections::BTreeMap;

use corridor::{
    ESTIMATE, SEED, TRAIN, Targets, VALIDATION, parties, plan, recipe, shape, steps, table,
};
use estimator::{SubModel, WindowSource};
use federation::memory;
use neural::Layer;
use protocol::{LocalUpdates, LocalVariant};
use reference::Examples;
use traffic::Window;

/// Best weights of each party, and the validation losses.
type Outcome = (BTreeMap<String, Vec<f32>>, Vec<f64>);

fn centralised(guests: usize) -> Outcome {
    let shape = shape(guests);
    let columns = table(&shape);
    let weights = columns.loss_weights().training;
    let (train, validation) = (steps(TRAIN), steps(VALIDATION));
    let data = Examples {
        inputs: &columns,
        targets: &Targets(columns.clone()),
        weights: &weights,
        train: &train,
        validation: &validation,
    };
    let network = traffic::corridor().expect("corridor");
    let trained = reference::train(&shape, &network, (&recipe(), SEED), &data);
    let names = ["city".to_owned()].into_iter().chain(shape.guests.iter().map(|g| g.name.clone()));
    let losses = trained.losses.iter().map(|[_, validation]| *validation).collect();
    (names.zip(trained.best).collect(), losses)
}

fn federated(guests: usize, local: LocalUpdates) -> (Outcome, Vec<Vec<f32>>) {
    let shape = shape(guests);
    let (mut host, mut guests) = parties(&shape, &plan(local));
    let summary = memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
    assert_eq!(summary.epochs as usize, recipe().epochs);
    assert_eq!(host.unconfirmed().count(), 0);
    let losses = host.history().iter().map(|epoch| epoch.validation).collect();
    let host = host.into_model().expect("a model");
    let mut weights = BTreeMap::from([("city".to_owned(), host.host_model().best().to_vec())]);
    for (party, guest) in guests {
        let guest = guest.into_model().expect("a model");
        weights.insert(party.to_string(), guest.sub_model().best().to_vec());
    }
    let estimates = host.estimates().values().cloned().collect();
    ((weights, losses), estimates)
}

#[test]
fn federated_equals_centralised_for_one_guest() {
    let (outcome, estimates) = federated(1, LocalUpdates::default());
    assert_eq!(outcome, centralised(1));
    assert_eq!(estimates.len(), ESTIMATE.count());
}

#[test]
fn federated_equals_centralised_for_three_different_guests() {
    let (outcome, estimates) = federated(3, LocalUpdates::default());
    assert_eq!(outcome, centralised(3));

    // The estimates are those of the joint model with the best weights.
    let shape = shape(3);
    let data = table(&shape);
    let mut learner = shape.learner(&traffic::corridor().unwrap(), SEED).unwrap();
    let blocks = shape.blocks(learner.model());
    let names = ["city".to_owned()].into_iter().chain(shape.guests.iter().map(|g| g.name.clone()));
    learner.update(|parameters, _| {
        for (name, ranges) in names.zip(&blocks) {
            let mut own = outcome.0[&name].as_slice();
            for range in ranges {
                let (part, rest) = own.split_at(range.len());
                parameters[range.clone()].copy_from_slice(part);
                own = rest;
            }
        }
    });
    let inputs = learner.model().input_len();
    for (step, estimate) in steps(ESTIMATE).into_iter().zip(estimates) {
        let (mut x, mut y) = (vec![0.0; inputs], vec![0.0; estimate.len()]);
        data.write_row(Window::whole(step), &mut x);
        learner.infer(&x, &mut y);
        assert_eq!(y, estimate, "step {}", step.0);
    }
}

/// More local updates are other weights, each variant its own; what is learned stays finite.
#[test]
fn local_updates_and_their_variants_differ() {
    let updates = |count, variant, proximal| LocalUpdates {
        count,
        variant,
        proximal,
        ..LocalUpdates::default()
    };
    let variants = [
        updates(1, LocalVariant::Recompute, 0.0),
        updates(2, LocalVariant::Recompute, 0.0),
        updates(2, LocalVariant::Recompute, 0.5),
        updates(2, LocalVariant::Frozen, 0.0),
    ];
    let outcomes: Vec<Outcome> = variants.map(|local| federated(2, local).0).into();
    for (i, outcome) in outcomes.iter().enumerate() {
        assert!(outcome.1.iter().all(|loss| loss.is_finite()));
        for other in &outcomes[..i] {
            for party in ["city", "totals", "speeds"] {
                assert_ne!(outcome.0[party], other.0[party], "{:?}", variants[i]);
            }
        }
    }
    // With one update there is nothing to recompute, to freeze or to hold near.
    let frozen = federated(2, updates(1, LocalVariant::Frozen, 0.0)).0;
    let held = federated(2, updates(1, LocalVariant::Recompute, 0.5)).0;
    assert_eq!((&frozen, &held), (&outcomes[0], &outcomes[0]));
}
