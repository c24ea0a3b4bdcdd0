//! With Q = 1 the federated run is training with all data in one place, bit for bit: every number
//! is computed from the same numbers in the same order, wherever.

mod corridor;

use std::collections::BTreeMap;

use estimator::{Examples, SubModel, Trainer};
use federation::memory;
use neural::Layer;
use protocol::{LocalUpdates, LocalVariant};

use corridor::{ESTIMATE, SEED, parties, plan, recipe, shape, steps, table};

/// Best weights of each party, and the validation losses.
type Outcome = (BTreeMap<String, Vec<f32>>, Vec<f64>);

fn together(guests: usize) -> Outcome {
    let shape = shape(guests);
    let data = table(&shape);
    let learner = shape.learner(&traffic::corridor().expect("corridor"), SEED).expect("a model");
    let blocks = shape.blocks(learner.model());
    let mut trainer = Trainer::new(learner, blocks.clone(), recipe(), SEED, data.train().len());
    while !trainer.is_done() {
        trainer.epoch(&data).expect("an epoch");
    }
    let losses = trainer.history().iter().map(|epoch| epoch.validation).collect();
    let best = trainer.finish();
    let names = ["city".to_owned()].into_iter().chain(shape.guests.iter().map(|g| g.name.clone()));
    let weights = names.zip(&blocks).map(|(name, ranges)| {
        let own = ranges.iter().flat_map(|range| best.parameters()[range.clone()].to_vec());
        (name, own.collect())
    });
    (weights.collect(), losses)
}

fn apart(guests: usize, local: LocalUpdates) -> (Outcome, Vec<Vec<f32>>) {
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
fn one_guest_trains_as_if_all_data_were_in_one_place() {
    let (outcome, estimates) = apart(1, LocalUpdates::default());
    assert_eq!(outcome, together(1));
    assert_eq!(estimates.len(), ESTIMATE.count());
}

#[test]
fn three_different_guests_train_as_if_all_data_were_in_one_place() {
    let (outcome, estimates) = apart(3, LocalUpdates::default());
    assert_eq!(outcome, together(3));

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
        Examples::write_input(&data, step, &mut x);
        learner.infer(&x, &mut y);
        assert_eq!(y, estimate, "step {}", step.0);
    }
}

/// More local updates are other weights, each variant its own; what is learned stays finite.
#[test]
fn local_updates_and_their_variants_differ() {
    let updates = |count, variant, proximal| LocalUpdates { count, variant, proximal };
    let variants = [
        updates(1, LocalVariant::Recompute, 0.0),
        updates(2, LocalVariant::Recompute, 0.0),
        updates(2, LocalVariant::Recompute, 0.5),
        updates(2, LocalVariant::Frozen, 0.0),
    ];
    let outcomes: Vec<Outcome> = variants.map(|local| apart(2, local).0).into();
    for (i, outcome) in outcomes.iter().enumerate() {
        assert!(outcome.1.iter().all(|loss| loss.is_finite()));
        for other in &outcomes[..i] {
            for party in ["city", "totals", "speeds"] {
                assert_ne!(outcome.0[party], other.0[party], "{:?}", variants[i]);
            }
        }
    }
    // With one update there is nothing to recompute, to freeze or to hold near.
    let frozen = apart(2, updates(1, LocalVariant::Frozen, 0.0)).0;
    let held = apart(2, updates(1, LocalVariant::Recompute, 0.5)).0;
    assert_eq!((&frozen, &held), (&outcomes[0], &outcomes[0]));
}
