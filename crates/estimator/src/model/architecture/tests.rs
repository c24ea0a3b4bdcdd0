//! The whole model: its gradient against differences, and what it must not depend on.

use neural::{DropoutRng, Squared};
use traffic::corridor;

use super::*;
use crate::data::study::WINDOW;
use crate::model::parts::has_cycle;
use crate::model::test_models::{guest, guests_of, joint, some};

fn shape(guests: usize) -> ModelShape {
    let sizes = Sizes {
        units: 6,
        embedding: 2,
        guest_rounds: 2,
        head_rounds: 1,
        dropout: 0.2,
        one_map: false,
        context: None,
    };
    let mut shape = guests_of(sizes, guests);
    shape.host.party_dropout = 0.3;
    shape
}

/// The slope of the loss along a random direction within each parameter, one after the other.
#[test]
fn the_gradient_of_the_whole_model_is_the_slope_of_its_loss() {
    let network = corridor().unwrap();
    for guests in 0..=2 {
        let mut learner = shape(guests).learner(&network, 3).unwrap();
        let samples = 5;
        let x = some(samples * learner.model().input_len(), 1);
        let y = some(samples * learner.model().output_len(), 2);
        let weights = vec![1.0 / 17.0; learner.model().output_len()];
        let noise = Some(DropoutRng { seed: 1, step: 2, first_sample: 0 });
        // Away from the start, where direct paths are zero and would hide others.
        let start: Vec<f32> = learner.parameters().to_vec();
        let start: Vec<f32> =
            start.iter().zip(some(start.len(), 3)).map(|(p, r)| p + 0.2 * r).collect();
        learner.set_parameters(&start).unwrap();
        let loss = Squared::new(&y, &weights);
        learner.train(&x, &loss, noise);
        let gradient = learner.gradient().to_vec();
        let layout = learner.layout().clone();
        for parameter in layout.parameters() {
            let range = parameter.range.clone();
            let direction = some(range.len(), 4);
            let step = 0.01;
            let mut at = |by: f32| {
                let mut moved = start.clone();
                for (value, d) in moved[range.clone()].iter_mut().zip(&direction) {
                    *value += by * d;
                }
                learner.set_parameters(&moved).unwrap();
                learner.train(&x, &loss, noise)
            };
            let expected = (at(step) - at(-step)) / f64::from(2.0 * step);
            let slope = gradient[range.clone()].iter().zip(&direction);
            let found: f64 = slope.map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
            // f32 outputs round at 1e-7 of a loss near 1: 1e-5 after division by the step; the
            // step's square as truncation: 1e-4 of the slope's scale.
            let scale = gradient[range].iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            let error = (found - expected).abs();
            assert!(
                error < 2e-4 + 5e-3 * scale,
                "{}: found {found}, expected {expected}, scale {scale}",
                parameter.name
            );
        }
    }
}

/// Nothing before training tells links with equal windows apart but their place in the network,
/// and a guest's link is heard two rounds away plus one in the head, no farther.
#[test]
fn a_window_is_heard_three_turns_away_and_no_farther() {
    let network = corridor().unwrap();
    let learner = shape(1).learner(&network, 3).unwrap();
    let links = network.links().len();
    let mut x = vec![0.0; learner.model().input_len()];
    let mut before = vec![0.0; 2 * links];
    learner.infer(&x, &mut before);
    let source = network.link_named("E1").unwrap();
    let guest = x.len() - links * 3 * WINDOW;
    x[guest + source.index() * 3 * WINDOW] = 5.0;
    let mut after = vec![0.0; 2 * links];
    learner.infer(&x, &mut after);
    for link in network.link_ids() {
        let changed = before[2 * link.index()] != after[2 * link.index()];
        let near = turns_between(&network, source, link) <= 3;
        assert_eq!(changed, near, "{}", network.link(link).name);
    }
}

/// Turns from one link to another, driven forwards or backwards.
fn turns_between(network: &Network, from: traffic::LinkId, to: traffic::LinkId) -> usize {
    let mut distance = vec![usize::MAX; network.links().len()];
    distance[from.index()] = 0;
    for _ in 0..network.links().len() {
        for turn in network.turns() {
            let (a, b) = (turn.from.index(), turn.to.index());
            distance[a] = distance[a].min(distance[b].saturating_add(1));
            distance[b] = distance[b].min(distance[a].saturating_add(1));
        }
    }
    distance[to.index()]
}

#[test]
fn the_paper_has_its_parameters() {
    let network = corridor().unwrap();
    let count = |guests: usize| {
        let guest = GuestShape {
            sub_model: SubModelKind::Stgcn,
            channels: 2,
            embedding: Architecture::Paper.embedding(),
            ..guest("guest", Sizes::default(), 0)
        };
        let mut shape = joint(Sizes::default(), vec![guest; guests]);
        shape.host.architecture = Architecture::Paper;
        shape.host.channels = 1;
        shape.build(&network).unwrap().layout().len()
    };
    // STGCN with one and with two channels, head of 18 → 272 → 34; ours, not the paper's: what
    // stands for an absent guest.
    assert_eq!(count(1), 35_181 + 35_277 + 14_450 + 9);
    // Without a guest the head takes 9 numbers fewer.
    assert_eq!(count(0), 35_181 + 14_450 - 9 * 272);
    assert!(!has_cycle(&network));
}

#[test]
fn shapes_that_make_no_model_are_refused() {
    let network = corridor().unwrap();
    let refused = |change: fn(&mut ModelShape)| {
        let mut shape = shape(2);
        change(&mut shape);
        shape.host.slots = shape.guests.iter().map(GuestSlot::of).collect();
        shape.build(&network).err().unwrap().to_string()
    };
    for (change, expected) in [
        (
            (|shape| shape.guests[0].embedding = EmbeddingShape::PerLink(0)) as fn(&mut ModelShape),
            "guest `totals`: numbers that cross: found 0, expected 1 to 256",
        ),
        (
            |shape| shape.guests[1].embedding = EmbeddingShape::Whole(9),
            "guest `speeds`: found numbers for the whole network",
        ),
        (|shape| shape.guests[1].channels = 0, "guest `speeds`: found no features"),
        (
            |shape| shape.guests[1].name = "totals".into(),
            "guest `totals`: expected names that differ",
        ),
        (|shape| shape.guests[1].name = "host".into(), "guest `host`: expected names that differ"),
        (|shape| shape.host.party_dropout = 1.0, "party_dropout: found 1, expected"),
        (|shape| shape.host.sizes.units = 0, "units: found 0, expected 2 to 4096"),
    ] {
        let found = refused(change);
        assert!(found.contains(expected), "{found}");
    }
    let mut slots = shape(2);
    slots.host.slots.swap(0, 1);
    let error = slots.build(&network).err();
    assert_eq!(error, Some(ModelError::GuestSlots { guest: "totals".into() }));
}
