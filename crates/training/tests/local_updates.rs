//! Two updates per exchange (Q = 2) against Algorithm 1 written out in one place.
//!
//! ```text
//! exchange:  z^k = f^k(θ^k)          δ^k = ∂L/∂z^k        at the weights of its beginning
//! update 1:  host ∂L/∂θ (θ, z)       guest k  (∂f^k/∂θ^k)ᵀ δ^k
//! update 2:  host ∂L/∂θ (θ′, z)      guest k  (∂f^k/∂θ^k at θ^k′)ᵀ δ^k        z and δ^k are stale
//! ```
//!
//! With guests that are linear, ∂f^k/∂θ^k does not depend on θ^k: their second gradient is the first one
//! again. What is left is the joint model with the guests' weights held at those of the beginning.

mod corridor;

use std::collections::BTreeMap;
use std::ops::Range;

use corridor::{SEED, TRAIN, Targets, parties, plan, recipe, shape, steps, table};
use estimator::{GuestSlot, ModelShape, SubModel, SubModelKind, WindowSource};
use federation::memory;
use neural::random::shuffle;
use neural::{Adam, Decay, Layer, Learner, Optimiser, Squared, hash};
use protocol::{HostUpdates, LocalUpdates, LocalVariant, OptimiserSettings, Plan};
use traffic::Window;

const RATE: f32 = 1e-2;

/// Two linear guests, and nothing drawn at random in training.
fn linear() -> ModelShape {
    let mut shape = shape(2);
    for guest in &mut shape.guests {
        guest.sub_model = SubModelKind::Linear;
        guest.sizes.dropout = 0.0;
    }
    shape.host.slots = shape.guests.iter().map(GuestSlot::of).collect();
    shape.host.sizes.dropout = 0.0;
    shape.host.party_dropout = 0.0;
    shape
}

fn one_epoch(local: LocalUpdates) -> Plan {
    let recipe =
        OptimiserSettings { rate: RATE, one_cycle: false, decay: 0.0, clip: None, average: None };
    Plan { epochs: 1, optimiser: recipe, ..plan(local) }
}

/// The weights of each party after one epoch of the federation.
fn federated(local: LocalUpdates) -> BTreeMap<String, Vec<f32>> {
    let (mut host, mut guests) = parties(&linear(), &one_epoch(local));
    memory::run(&mut host, &mut guests, |_| {}).expect("a whole run");
    let host = host.into_model().expect("a model");
    let mut weights = BTreeMap::from([("city".to_owned(), host.host_model().best().to_vec())]);
    for (party, guest) in guests {
        let guest = guest.into_model().expect("a model");
        weights.insert(party.to_string(), guest.sub_model().best().to_vec());
    }
    weights
}

/// Some of the joint model's weights, and how they move.
struct Block {
    name: String,
    ranges: Vec<Range<usize>>,
    adam: Adam,
}

impl Block {
    fn of(&self, all: &[f32]) -> Vec<f32> {
        self.ranges.iter().flat_map(|range| all[range.clone()].to_vec()).collect()
    }

    fn put(&self, own: &[f32], all: &mut [f32]) {
        let mut own = own;
        for range in &self.ranges {
            let (part, rest) = own.split_at(range.len());
            all[range.clone()].copy_from_slice(part);
            own = rest;
        }
    }

    fn descend(&mut self, all: &mut [f32], gradient: &[f32]) {
        let mut own = self.of(all);
        self.adam.update(RATE, &mut own, &self.of(gradient));
        self.put(&own, all);
    }
}

/// The same, written out, with so many updates of the host. With `anew`, gradients after the first one are computed
/// anew; without, the first ones are used again, as the authors' code does.
fn written_out(updates: u32, of_host: u32, anew: bool) -> BTreeMap<String, Vec<f32>> {
    let shape = linear();
    let data = table(&shape);
    let (targets, weights) = (Targets(data.clone()), data.loss_weights().training);
    let mut learner =
        shape.learner(&traffic::corridor().expect("corridor"), SEED).expect("a model");
    let names = ["city".to_owned()].into_iter().chain(shape.guests.iter().map(|g| g.name.clone()));
    let blocks = names.zip(shape.blocks(learner.model())).map(|(name, ranges)| {
        let length = ranges.iter().map(Range::len).sum();
        Block { name, ranges, adam: Adam::new(length, Decay::Decoupled(0.0)) }
    });
    let mut blocks: Vec<Block> = blocks.collect();
    let mut order = steps(TRAIN);
    shuffle(&mut order, hash([SEED, 1]));
    for batch in order.chunks(recipe().batch) {
        let (inputs, outputs) = (learner.model().input_len(), learner.model().output_len());
        let mut x = vec![0.0; batch.len() * inputs];
        let mut y = vec![0.0; batch.len() * outputs];
        for (row, step) in batch.iter().enumerate() {
            data.write_row(Window::whole(*step), &mut x[row * inputs..][..inputs]);
            targets.write_row(Window::whole(*step), &mut y[row * outputs..][..outputs]);
        }
        let loss = Squared::new(&y, &weights);
        let gradient_at = |learner: &mut Learner<_>, weights: &[f32]| {
            learner.set_parameters(weights).expect("as many weights");
            learner.train(&x, &loss, None);
            learner.gradient().to_vec()
        };
        let beginning = learner.parameters().to_vec();
        let first = gradient_at(&mut learner, &beginning);
        let mut weights = beginning.clone();
        for update in 0..updates {
            // The host's own weights as they are, those of the guests as they were.
            let mut stale = beginning.clone();
            blocks[0].put(&blocks[0].of(&weights), &mut stale);
            let again = update > 0 && anew;
            let gradient = if again { gradient_at(&mut learner, &stale) } else { first.clone() };
            if update < of_host {
                blocks[0].descend(&mut weights, &gradient);
            }
            for guest in &mut blocks[1..] {
                guest.descend(&mut weights, &first);
            }
        }
        learner.set_parameters(&weights).expect("as many weights");
    }
    let weights = learner.parameters();
    blocks.iter().map(|block| (block.name.clone(), block.of(weights))).collect()
}

/// Both compute the same numbers in 32 bits, in another order at most: rounding of some ten updates of
/// 1e-2 each, where one part in 2^24 is lost each time.
fn alike(found: &BTreeMap<String, Vec<f32>>, expected: &BTreeMap<String, Vec<f32>>) -> bool {
    assert!(found.keys().eq(expected.keys()), "{:?}", found.keys());
    let far = |party: &String| {
        let pairs = found[party].iter().zip(&expected[party]);
        assert_eq!(found[party].len(), expected[party].len(), "{party}");
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max)
    };
    found.keys().all(|party| far(party) <= 1e-6)
}

#[test]
fn two_updates_are_those_of_the_algorithm() {
    let local = |count, variant| LocalUpdates { count, variant, ..LocalUpdates::default() };
    let recomputed = federated(local(2, LocalVariant::Recompute));
    assert!(alike(&recomputed, &written_out(2, 2, true)));
    let frozen = federated(local(2, LocalVariant::Frozen));
    assert!(alike(&frozen, &written_out(2, 2, false)));
    let three = federated(local(3, LocalVariant::Recompute));
    assert!(alike(&three, &written_out(3, 3, true)));
    // The comparison tells them apart.
    assert!(!alike(&recomputed, &written_out(2, 2, false)));
    assert!(!alike(&recomputed, &written_out(1, 1, true)));
    assert!(!alike(&three, &written_out(2, 2, true)));
}

/// Algorithm 1 as the paper has it: the host updates once in an exchange, and guests Q times.
#[test]
fn a_host_that_updates_once_is_that_of_the_papers_algorithm() {
    for variant in [LocalVariant::Recompute, LocalVariant::Frozen] {
        let local = |host| LocalUpdates { count: 3, variant, host, ..LocalUpdates::default() };
        let once = federated(local(HostUpdates::Once));
        assert!(alike(&once, &written_out(3, 1, true)));
        // The comparison tells them apart.
        assert!(!alike(&once, &federated(local(HostUpdates::Each))));
    }
}
