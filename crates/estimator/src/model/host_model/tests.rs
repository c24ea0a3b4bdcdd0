//! Host and guests, each with its own part, against the joint model with all data in one place.

use neural::{Adam, Average, Fusion, Layer, Learner, Squared, clip_norm};
use traffic::{Step, corridor};

use super::*;
use crate::data::window_source::WindowSource;
use crate::loss::objective::{Labelled, LossWeights};
use crate::model::architecture::{Architecture, ModelShape};
use crate::model::parts::{EmbeddingShape, GuestShape};
use crate::model::recipe::Recipe;
use crate::model::sizes::Sizes;
use crate::model::sub_model::{LayerSubModel, SubModel};
use crate::model::test_models::{guest, guests_of, joint, one_guest, some};

const SEED: u64 = 11;
const BATCH: usize = 20;
const STEPS: usize = 24;

fn sizes() -> Sizes {
    Sizes { units: 12, embedding: 3, ..Sizes::default() }
}

fn recipe() -> Recipe {
    // Short enough that some of the gradients of either party are clipped.
    let clip = Some(0.3);
    let (epochs, batch, shuffle) = (1, BATCH, false);
    Recipe { epochs, batch, shuffle, clip, ..Recipe::of(Architecture::Link) }
}

/// Samples by their number, with all parties' inputs side by side.
struct Table {
    inputs: usize,
    weights: Vec<f32>,
    steps: Vec<Step>,
}

impl Table {
    fn new(shape: &ModelShape) -> Self {
        let model = shape.build(&corridor().unwrap()).unwrap();
        Self {
            inputs: model.input_len(),
            weights: vec![1.0 / 17.0; model.output_len()],
            steps: (0..(STEPS * BATCH) as i64).map(Step).collect(),
        }
    }

    /// Columns of the inputs of a batch.
    fn columns(&self, batch: &[Step], columns: Range<usize>) -> Vec<f32> {
        let mut row = vec![0.0; self.inputs];
        let rows = batch.iter().flat_map(|&step| {
            self.write_input(step, &mut row);
            row[columns.clone()].to_vec()
        });
        rows.collect()
    }

    fn write_input(&self, last: Step, to: &mut [f32]) {
        to.copy_from_slice(&some(self.inputs, 100 + last.0 as u64));
    }

    fn write_target(&self, last: Step, to: &mut [f32]) {
        to.copy_from_slice(&some(self.weights.len(), 100_000 + last.0 as u64));
    }

    fn targets(&self, batch: &[Step]) -> Vec<f32> {
        let mut row = vec![0.0; self.weights.len()];
        let rows = batch.iter().flat_map(|&step| {
            self.write_target(step, &mut row);
            row.clone()
        });
        rows.collect()
    }
}

impl WindowSource for &Table {
    fn row_len(&self) -> usize {
        self.weights.len()
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        self.write_target(window.last, to);
    }
}

/// The joint model after an epoch of the table: the mean loss, the weights, and their average.
fn joint_epoch(
    data: &Table,
    mut learner: Learner<Fusion>,
    blocks: &[Vec<Range<usize>>],
) -> (f64, Learner<Fusion>, Vec<f32>) {
    let recipe = recipe();
    let (mut adam, mut total) = (Adam::new(learner.parameters().len(), recipe.weight_decay()), 0.0);
    let mut average = Average::new(learner.parameters(), recipe.average.unwrap());
    for (step, batch) in (0..).zip(data.steps.chunks(BATCH)) {
        let (x, y) = (data.columns(batch, 0..data.inputs), data.targets(batch));
        let noise = DropoutRng { seed: SEED, step, first_sample: 0 };
        total += learner.train(&x, &Squared::new(&y, &data.weights), Some(noise));
        for ranges in blocks {
            // Each party clips its own gradient.
            let own = ranges.iter().flat_map(|range| learner.gradient()[range.clone()].to_vec());
            let mut own: Vec<f32> = own.collect();
            clip_norm(&mut own, recipe.clip.unwrap());
            let mut clipped = own.into_iter();
            for range in ranges {
                learner.gradient_mut()[range.clone()].fill_with(|| clipped.next().unwrap());
            }
        }
        learner.step(&mut adam, recipe.schedule(STEPS).rate(step));
        average.update(learner.parameters());
    }
    (total / STEPS as f64, learner, average.weights().to_vec())
}

/// One training step of the host on labels.
fn train(
    host: &mut HostModel,
    data: &Table,
    batch: &[Step],
    x: &[f32],
    embeddings: &Embeddings<'_>,
    noise: DropoutRng,
) -> Result<f64, PassError> {
    let samples: Vec<Window> = batch.iter().map(|&step| Window::whole(step)).collect();
    let measured = MeasuredBatch::new();
    let batch = HostBatch { samples: &samples, x, embeddings, measured: &measured };
    let weights = data.weights.clone();
    let weights = LossWeights { training: weights.clone(), validation: weights };
    host.train(&batch, &mut Labelled::new(data, weights), noise)
}

/// All parties in one process, each with its part and its columns of the data.
struct Parties {
    host: HostModel,
    guests: Vec<(String, LayerSubModel, Range<usize>)>,
}

impl Parties {
    fn new(shape: &ModelShape) -> Self {
        let network = corridor().unwrap();
        let rule = UpdateRule::of(&recipe());
        let host = HostModel::new(&shape.host, &network, SEED, rule).unwrap();
        let mut from = host.input_len();
        let guests = shape.guests.iter().map(|guest| {
            let model = LayerSubModel::of(guest, &network, SEED, rule).unwrap();
            let columns = from..from + model.input_len();
            from = columns.end;
            (guest.name.clone(), model, columns)
        });
        let guests = guests.collect();
        Self { host, guests }
    }

    /// One exchange with Q = 1; the loss.
    fn exchange(&mut self, data: &Table, step: usize) -> f64 {
        let rate = recipe().schedule(STEPS).rate(step as u64);
        let batch = &data.steps[step * BATCH..][..BATCH];
        let noise = DropoutRng { seed: SEED, step: step as u64, first_sample: 0 };
        let inputs: Vec<_> =
            self.guests.iter().map(|(.., columns)| data.columns(batch, columns.clone())).collect();
        let mut embeddings = Vec::new();
        for ((_, model, _), x) in self.guests.iter_mut().zip(&inputs) {
            let mut z = vec![0.0; BATCH * model.output_len()];
            model.forward(x, &mut z, noise).unwrap();
            embeddings.push(z);
        }
        let names = self.guests.iter().map(|(name, ..)| name.as_str());
        let by_name: Embeddings<'_> = names.zip(embeddings.iter().map(Vec::as_slice)).collect();
        let x = data.columns(batch, 0..self.host.input_len());
        let loss = train(&mut self.host, data, batch, &x, &by_name, noise).unwrap();
        self.host.update(rate);
        for ((name, model, _), x) in self.guests.iter_mut().zip(&inputs) {
            model.backward(x, self.host.gradient_of(name).unwrap(), noise).unwrap();
            model.update(rate);
        }
        loss
    }

    fn exchange_all(&mut self, data: &Table, steps: Range<usize>) {
        for step in steps {
            self.exchange(data, step);
        }
    }

    /// The parameters of each party, the host's first.
    fn parameters(&self) -> Vec<&[f32]> {
        let guests = self.guests.iter().map(|(_, model, _)| model.parameters());
        [self.host.parameters()].into_iter().chain(guests).collect()
    }
}

/// Bit for bit: every number is computed from the same numbers in the same order, wherever.
fn federated_equals_centralised(shape: &ModelShape) {
    let data = Table::new(shape);
    let learner = shape.learner(&corridor().unwrap(), SEED).unwrap();
    let blocks = shape.blocks(learner.model());
    let first = learner.parameters().to_vec();
    let (loss, mut joint, average) = joint_epoch(&data, learner, &blocks);

    let mut parties = Parties::new(shape);
    let losses: Vec<f64> = (0..STEPS).map(|step| parties.exchange(&data, step)).collect();
    assert_eq!(losses.iter().sum::<f64>() / STEPS as f64, loss);
    let together = joint.parameters();
    assert_ne!(together, first);
    let of = |all: &[f32], ranges: &[Range<usize>]| -> Vec<f32> {
        ranges.iter().flat_map(|range| all[range.clone()].to_vec()).collect()
    };
    for (ranges, apart) in blocks.iter().zip(parties.parameters()) {
        assert_eq!(of(together, ranges), apart);
    }

    // What is validated and kept is the same too: the average.
    parties.host.keep_best();
    parties.guests.iter_mut().for_each(|(_, model, _)| model.keep_best());
    joint.set_parameters(&average).unwrap();
    let best = joint;
    assert_eq!(of(best.parameters(), &blocks[0]), parties.host.best());
    let batch = &data.steps[..BATCH];
    let embeddings: Vec<Vec<f32>> = parties
        .guests
        .iter()
        .map(|(_, model, columns)| {
            let mut z = vec![0.0; BATCH * model.output_len()];
            model.infer(&data.columns(batch, columns.clone()), &mut z).unwrap();
            z
        })
        .collect();
    let names = parties.guests.iter().map(|(name, ..)| name.as_str());
    let by_name = names.zip(embeddings.iter().map(Vec::as_slice)).collect();
    let (mut apart, mut together) = (data.targets(batch), data.targets(batch));
    let x = data.columns(batch, 0..parties.host.input_len());
    parties.host.infer(&x, &by_name, &mut apart).unwrap();
    best.infer(&data.columns(batch, 0..data.inputs), &mut together);
    assert_eq!(apart, together);
}

#[test]
fn one_guest_trains_as_if_all_data_were_in_one_place() {
    federated_equals_centralised(&one_guest(sizes(), 4));
}

#[test]
fn three_different_guests_train_as_if_all_data_were_in_one_place() {
    let mut shape = guests_of(sizes(), 3);
    shape.host.party_dropout = 0.3;
    federated_equals_centralised(&shape);
}

#[test]
fn the_papers_model_trains_as_if_all_data_were_in_one_place() {
    let guest = GuestShape {
        sub_model: Architecture::Paper.sub_model(),
        channels: 2,
        embedding: Architecture::Paper.embedding(),
        ..guest("guest", sizes(), 0)
    };
    let mut shape = joint(sizes(), vec![guest]);
    (shape.host.architecture, shape.host.channels) = (Architecture::Paper, 1);
    federated_equals_centralised(&shape);
}

#[test]
fn few_numbers_may_cross() {
    for each in [1, 2, 4] {
        federated_equals_centralised(&one_guest(sizes(), each));
    }
}

/// The slope of the loss along each embedding, by central differences.
#[test]
fn each_guest_gets_the_slope_of_the_loss_along_its_own_embedding() {
    let shape = guests_of(sizes(), 3);
    let data = Table::new(&shape);
    let mut host = Parties::new(&shape).host;
    let samples = 5;
    let batch = &data.steps[..samples];
    let x = data.columns(batch, 0..host.input_len());
    let noise = DropoutRng { seed: SEED, step: 0, first_sample: 0 };
    let guests: Vec<(String, usize)> =
        host.guests().map(|(name, width)| (name.to_owned(), width)).collect();
    let start: Vec<Vec<f32>> =
        guests.iter().zip(1..).map(|((_, width), key)| some(samples * width, key)).collect();
    let mut at = |embeddings: &[Vec<f32>]| {
        let names = guests.iter().map(|(name, _)| name.as_str());
        let by_name = names.zip(embeddings.iter().map(Vec::as_slice)).collect();
        let loss = train(&mut host, &data, batch, &x, &by_name, noise).unwrap();
        let gradient = |(name, _): &(String, usize)| host.gradient_of(name).unwrap().to_vec();
        (loss, guests.iter().map(gradient).collect::<Vec<_>>())
    };
    let (_, gradients) = at(&start);
    for (guest, gradient) in gradients.iter().enumerate() {
        // Uphill, and at random beside: mostly along what the gradient says, not only.
        let steepest = gradient.iter().fold(0.0f32, |most, g| most.max(g.abs()));
        let beside = some(gradient.len(), 7);
        let direction: Vec<f32> =
            gradient.iter().zip(beside).map(|(g, r)| g / steepest + 0.3 * r).collect();
        let step = 0.01;
        let mut moved = |by: f32| {
            let mut place = start.clone();
            place[guest].iter_mut().zip(&direction).for_each(|(z, d)| *z += by * d);
            at(&place).0
        };
        let expected = (moved(step) - moved(-step)) / f64::from(2.0 * step);
        let along = gradient.iter().zip(&direction);
        let found: f64 = along.map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        // f32 outputs round at 1e-7 of a loss near 1: 1e-5 after division by the step; the step's
        // square as truncation.
        assert!((found - expected).abs() < 1e-4 + 1e-3 * expected.abs(), "{found} {expected}");
        assert!(expected.abs() > 1e-3, "a slope that cannot be told from nothing: {expected}");
    }
}

#[test]
fn a_saved_run_continues_to_the_same_weights() {
    let shape = guests_of(sizes(), 2);
    let data = Table::new(&shape);
    let mut whole = Parties::new(&shape);
    whole.exchange_all(&data, 0..STEPS);

    let mut first = Parties::new(&shape);
    first.exchange_all(&data, 0..9);
    first.host.keep_best();
    let mut second = Parties::new(&shape);
    second.exchange(&data, 3); // must leave no trace
    let path = std::path::Path::new("host");
    let bytes = first.host.save().to_bytes(path).unwrap();
    let saved = Checkpoint::parse(&bytes, path, crate::PARTY_CHECKPOINT).unwrap();
    second.host.load(&saved).unwrap();
    for ((_, from, _), (_, to, _)) in first.guests.iter().zip(&mut second.guests) {
        to.load(&from.save()).unwrap();
    }
    assert_eq!(second.host.best(), first.host.best());
    second.exchange_all(&data, 9..STEPS);
    assert_eq!(second.parameters(), whole.parameters());
    // Not into a model of another shape.
    let mut other = Parties::new(&one_guest(sizes(), 2)).host;
    assert!(other.load(&saved).is_err());
}

#[test]
fn an_absent_guest_is_its_learned_vector_and_not_zeros() {
    let mut shape = one_guest(sizes(), 2);
    shape.host.party_dropout = 0.5;
    let data = Table::new(&shape);
    let mut parties = Parties::new(&shape);
    parties.exchange_all(&data, 0..STEPS);
    let host = &parties.host;
    let x = data.columns(&data.steps[..1], 0..host.input_len());
    let estimate = |embeddings: &Embeddings<'_>| {
        let mut y = vec![0.0; host.output_len()];
        host.infer(&x, embeddings, &mut y).unwrap();
        y
    };
    let absent = estimate(&Embeddings::new());
    let zeros = vec![0.0; 34];
    assert_ne!(absent, estimate(&Embeddings::from([("guest", zeros.as_slice())])));
    // With the learned vector in the place of an answer only the flag differs.
    let validated = host.block.validated();
    let learned = validated.layout().find("guest.absent").unwrap().range.clone();
    let learned = validated.parameters()[learned].to_vec();
    assert!(learned.iter().all(|value| *value != 0.0), "{learned:?}");
    let mut input = [x.as_slice(), &[0.0], &learned].concat();
    let by_hand = |input: &[f32]| {
        let mut y = vec![0.0; host.output_len()];
        validated.infer(input, &mut y);
        y
    };
    assert_eq!(absent, by_hand(&input));
    input[x.len()] = 1.0;
    assert_ne!(absent, by_hand(&input));
    assert_eq!(by_hand(&input), estimate(&Embeddings::from([("guest", learned.as_slice())])));
}

#[test]
fn a_round_without_a_guest_teaches_the_host_alone() {
    let shape = guests_of(sizes(), 2);
    let data = Table::new(&shape);
    let mut host = Parties::new(&shape).host;
    let batch = &data.steps[..BATCH];
    let x = data.columns(batch, 0..host.input_len());
    let speeds = some(BATCH * 2 * 17, 1);
    let here = Embeddings::from([("speeds", speeds.as_slice())]);
    let noise = DropoutRng { seed: SEED, step: 0, first_sample: 0 };
    train(&mut host, &data, batch, &x, &here, noise).unwrap();
    assert!(host.gradient_of("totals").is_none());
    assert!(host.gradient_of("speeds").unwrap().iter().any(|g| *g != 0.0));
    let layout = host.block.learner.layout().clone();
    let of = |name: &str| &host.block.learner.gradient()[layout.find(name).unwrap().range.clone()];
    assert!(of("totals.absent").iter().any(|g| *g != 0.0));
    assert!(of("speeds.absent").iter().all(|g| *g == 0.0));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut host = Parties::new(&one_guest(sizes(), 2)).host;
    let x = vec![0.0; 2 * host.input_len()];
    let mut y = vec![0.0; 2 * host.output_len()];
    let mut refused = |guest: &str, numbers: &[f32]| {
        let error = host.infer(&x, &Embeddings::from([(guest, numbers)]), &mut y);
        error.err().unwrap().to_string()
    };
    let mut good = vec![0.0; 2 * 34];
    assert!(refused("stranger", &good).contains("`stranger`: found no slot"));
    assert!(refused("guest", &good[1..]).contains("found 67 numbers, expected 68"));
    good[40] = f32::NAN;
    assert!(refused("guest", &good).contains("found NaN at place 40"));
    let noise = DropoutRng { seed: 0, step: 0, first_sample: 0 };
    let data = Table::new(&one_guest(sizes(), 2));
    for (samples, x) in [(2, &x[1..]), (1, &x[..])] {
        let batch = &data.steps[..samples];
        let error = train(&mut host, &data, batch, x, &Embeddings::new(), noise).err().unwrap();
        assert!(matches!(error, PassError::Length { .. }), "{error}");
    }
    assert_eq!(EmbeddingShape::PerLink(2).len(17), 34);
}
