//! Losses without labels: with Q = 1 the federated run is training with all data in one place, bit for bit,
//! also where guests measure, samples have views and come in segments.

mod corridor;

use std::collections::BTreeMap;
use std::path::Path;

use estimator::data::MeasuredBatch;
use estimator::{
    MeasurementSource, Objective, Readings, Recipe, SubModel, WindowSource, epoch_order, segments,
};
use federation::memory;
use federation::model::{Answers, GuestModel, HostModel};
use neural::{Adam, DropoutRng, Layer, Learner};
use protocol::message::parts::{Embedding, Values};
use protocol::{Compression, LocalUpdates, PartyId, Plan};
use traffic::{MeasurementEntry, Window};
use training::learner::{HELD_OUT, optimiser_settings};

use corridor::sensors::{From, HOST, Sensor};
use corridor::{SEED, parties_that_learn, plan, recipe, shape, table};

/// Without what is done to gradients of single parties, which is tested with labels.
fn plain() -> Recipe {
    Recipe { clip: None, average: None, batch: 12, epochs: 2, ..recipe() }
}

fn plan_of(learned: From) -> Plan {
    Plan {
        batch: plain().batch as u32,
        epochs: plain().epochs as u32,
        optimiser: optimiser_settings(&plain()),
        segment: learned.segment(),
        measured: learned.kinds(),
        ..plan(LocalUpdates::default())
    }
}

/// Best weights of each party, and the validation losses.
type Outcome = (BTreeMap<String, Vec<f32>>, Vec<f64>);

fn apart(guests: usize, learned: From) -> Outcome {
    let (mut host, mut guests) =
        parties_that_learn(&shape(guests), &plan_of(learned), Compression::None, learned);
    memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
    let losses = host.history().iter().map(|epoch| epoch.validation).collect();
    let host = host.into_model().expect("a model");
    let mut weights = BTreeMap::from([("city".to_owned(), host.host_model().best().to_vec())]);
    for (party, guest) in guests {
        let guest = guest.into_model().expect("a model");
        weights.insert(party.to_string(), guest.sub_model().best().to_vec());
    }
    (weights, losses)
}

/// Measurements of a batch by name, all in one place.
struct Together {
    by_name: BTreeMap<String, (Vec<f32>, Vec<f32>)>,
}

impl Together {
    /// Of guests that all measure the same entries.
    fn of(learned: From, guests: &[String], samples: &[Window]) -> Self {
        let mut by_name: BTreeMap<String, (Vec<f32>, Vec<f32>)> = BTreeMap::new();
        // A host adds up in the order of names.
        let sorted: std::collections::BTreeSet<&String> = guests.iter().collect();
        for guest in sorted {
            let sensors = learned.sensors(guest);
            let sensors: Vec<&dyn MeasurementSource> =
                sensors.iter().map(|sensor| &**sensor).collect();
            let own = numbers(&sensors, samples);
            if learned == From::Physics {
                by_name.insert(guest.clone(), own);
                continue;
            }
            let sum = by_name.entry(HELD_OUT.to_owned());
            sum.and_modify(|sum| add(sum, &own)).or_insert(own);
        }
        if learned == From::Physics {
            by_name.insert(HOST.to_owned(), numbers(&[&Sensor::flows()], samples));
        }
        Self { by_name }
    }

    fn batch(&self) -> MeasuredBatch<'_> {
        let all = self.by_name.iter();
        all.map(|(name, (values, weights))| (name.as_str(), Readings { values, weights })).collect()
    }
}

fn numbers(sensors: &[&dyn MeasurementSource], samples: &[Window]) -> (Vec<f32>, Vec<f32>) {
    let (mut values, mut weights) = (Vec::new(), Vec::new());
    for &sample in samples {
        for sensor in sensors {
            let (mut v, mut w) =
                (vec![0.0; sensor.entries().len()], vec![0.0; sensor.entries().len()]);
            sensor.write(sample, &mut v, &mut w);
            values.extend(v);
            weights.extend(w);
        }
    }
    (values, weights)
}

fn add(sum: &mut (Vec<f32>, Vec<f32>), other: &(Vec<f32>, Vec<f32>)) {
    for place in 0..sum.0.len() {
        let (one, two) = (sum.1[place], other.1[place]);
        if one > 0.0 && two > 0.0 {
            sum.0[place] += other.0[place];
            sum.1[place] = 1.0 / (1.0 / one + 1.0 / two);
        } else {
            (sum.0[place], sum.1[place]) = (0.0, 0.0);
        }
    }
}

fn together(guests: usize, learned: From) -> Outcome {
    let (shape, recipe) = (shape(guests), plain());
    let names: Vec<String> = shape.guests.iter().map(|guest| guest.name.clone()).collect();
    let columns = table(&shape);
    let mut learner =
        shape.learner(&traffic::corridor().expect("corridor"), SEED).expect("a model");
    let blocks = shape.blocks(learner.model());
    let mut adam = Adam::new(learner.parameters().len(), recipe.weight_decay());
    let (samples, segment) = (learned.samples(), learned.segment() as usize);
    let train = segments(&samples.train, segment);
    let validation = segments(&samples.validation, segment);
    let schedule = recipe.schedule(train.len().div_ceil(recipe.batch));
    let mut parties: BTreeMap<String, Vec<MeasurementEntry>> = BTreeMap::new();
    for guest in &names {
        let entries = learned.sensors(guest).iter().flat_map(|s| s.entries().to_vec()).collect();
        let held_out = learned == From::HeldOut;
        parties.insert(if held_out { HELD_OUT.to_owned() } else { guest.clone() }, entries);
    }
    if learned == From::Physics {
        parties.insert(HOST.to_owned(), Sensor::flows().entries().to_vec());
    }
    let mut objective = learned.objective(parties);
    let (inputs, outputs) = (learner.model().input_len(), learner.model().output_len());
    let gather = |samples: &[Window]| {
        let mut x = vec![0.0; samples.len() * inputs];
        for (&sample, x) in samples.iter().zip(x.chunks_exact_mut(inputs)) {
            columns.write_row(sample, x);
        }
        x
    };
    let (mut losses, mut best, mut step) = (Vec::new(), learner.parameters().to_vec(), 0);
    for epoch in 1..=recipe.epochs as u64 {
        for batch in epoch_order(&train, segment, SEED, epoch).chunks(recipe.batch) {
            let measured = Together::of(learned, &names, batch);
            let (x, mut y) = (gather(batch), vec![0.0; batch.len() * outputs]);
            let mut dy = y.clone();
            let noise = Some(DropoutRng { seed: SEED, step, first_sample: 0 });
            learner.forward(&x, &mut y, noise);
            objective.train(batch, &measured.batch(), &y, &mut dy).expect("a loss");
            learner.backward(&x, &dy, None, noise);
            learner.step(&mut adam, schedule.rate(step));
            step += 1;
        }
        let loss = validate(&mut learner, &mut objective, (learned, &names), &validation, &gather);
        if losses.iter().all(|before| loss < *before) {
            best = learner.parameters().to_vec();
        }
        losses.push(loss);
    }
    let names = ["city".to_owned()].into_iter().chain(names);
    let weights = names.zip(&blocks).map(|(name, ranges)| {
        let own = ranges.iter().flat_map(|range| best[range.clone()].to_vec());
        (name, own.collect())
    });
    (weights.collect(), losses)
}

fn validate<M: Layer>(
    learner: &mut Learner<M>,
    objective: &mut impl Objective,
    (learned, guests): (From, &[String]),
    samples: &[Window],
    gather: &impl Fn(&[Window]) -> Vec<f32>,
) -> f64 {
    let mut y = vec![0.0; samples.len() * learner.model().output_len()];
    learner.infer(&gather(samples), &mut y);
    let measured = Together::of(learned, guests, samples);
    let total = objective.validate(samples, &measured.batch(), &y, 0.0).expect("a loss");
    total / samples.len() as f64
}

#[test]
fn a_traffic_model_and_measurements_train_as_if_all_data_were_in_one_place() {
    for guests in [1, 2] {
        let (apart, together) = (apart(guests, From::Physics), together(guests, From::Physics));
        assert_eq!(apart.1, together.1, "losses of {guests} guests");
        assert!(apart.0 == together.0, "weights of {guests} guests");
    }
}

#[test]
fn held_out_fleets_train_as_if_all_data_were_in_one_place() {
    for guests in [1, 3] {
        let (apart, together) = (apart(guests, From::HeldOut), together(guests, From::HeldOut));
        assert_eq!(apart.1, together.1, "losses of {guests} guests");
        assert!(apart.0 == together.0, "weights of {guests} guests");
    }
}

/// Without what one guest holds out there is no sum and no loss, so that nobody's weights or moments move;
/// with it there is, and they do.
#[test]
fn a_round_without_anything_to_learn_from_updates_nothing() {
    let (mut host, mut guests) =
        parties_that_learn(&shape(2), &plan_of(From::HeldOut), Compression::None, From::HeldOut);
    memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
    let mut host = host.into_model().expect("a model");
    let guests = guests.into_iter().map(|(party, guest)| (party, guest.into_model().expect("one")));
    let mut guests: BTreeMap<PartyId, _> = guests.collect();
    let samples = &From::HeldOut.samples().train[..4];
    let mut answers = Answers::default();
    for (party, guest) in &mut guests {
        let values = Values::new(guest.width(), guest.embed(samples).expect("numbers"));
        let embedding = values.map(Embedding).expect("an embedding");
        answers.embeddings.insert(party.clone(), Some(embedding));
        answers.measured.insert(party.clone(), guest.measure(samples).expect("measurements"));
    }
    let mut missing = answers.clone();
    let absent = missing.measured.pop_last().expect("two guests").0;
    missing.embeddings.insert(absent, None);

    let state =
        |checkpoint: neural::Checkpoint| checkpoint.to_bytes(Path::new("-")).expect("bytes");
    let before = state(host.host_model().save());
    let learned = host.learn(samples, &missing).expect("a round");
    assert!(learned.loss.is_none() && learned.gradients.is_empty());
    assert!(state(host.host_model().save()) == before);
    let learned = host.learn(samples, &answers).expect("a round");
    assert!(learned.loss.is_some_and(|loss| loss > 0.0));
    assert!(state(host.host_model().save()) != before);
    for (party, guest) in &mut guests {
        let before = state(guest.sub_model().save());
        guest.skip_update();
        assert!(state(guest.sub_model().save()) == before);
        guest.learn(&learned.gradients[party]).expect("an update");
        assert!(state(guest.sub_model().save()) != before);
    }
}
