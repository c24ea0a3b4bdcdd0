//! Sources, free speeds and models from aggregates, in closed form.

use neural::hash;
use physics::Inputs;
use traffic::{GridPlan, grid};

use super::*;

const STEP: Seconds = Seconds::new(10.0);

/// A number below a limit, the same for the same keys.
fn below(limit: usize, keys: [u64; 3]) -> usize {
    (hash(keys) % limit.max(1) as u64) as usize
}

/// Trips that begin and end anywhere: what is counted of them, and how many began on each link.
fn trips(network: &Network, count: u64) -> (FleetAggregates, Vec<u64>) {
    let links = network.links().len();
    let mut counts = FleetAggregates {
        turned: vec![0; network.turns().len()],
        left: vec![0; links],
        ..FleetAggregates::default()
    };
    let mut began = vec![0; links];
    for trip in 0..count {
        let mut link = LinkId(below(links, [1, trip, 0]) as u32);
        began[link.index()] += 1;
        for leg in 0..1 + below(6, [2, trip, 0]) as u64 {
            let turns = network.outgoing(link);
            if turns.is_empty() {
                break;
            }
            let turn = turns[below(turns.len(), [3, trip, leg])];
            counts.turned[turn.index()] += 1;
            link = network.turn(turn).to;
        }
        counts.left[link.index()] += 1;
    }
    (counts, began)
}

/// Vehicles in = out: what counts tell of sources is what began, whichever way trips go.
#[test]
fn sources_are_the_trips_that_began() {
    let network = grid(GridPlan::default()).expect("a grid");
    let (counts, began) = trips(&network, 20_000);
    let (share, steps) = (0.25, 720.0);
    let sources = Sources::of(&network, &counts, Some(share), STEP, steps);
    for (link, began) in began.iter().enumerate() {
        let vehicles = *began as f64 / share / steps;
        // Rounding of a few operations.
        assert!((sources.demand[link] - 6.0 * vehicles).abs() < 1e-9, "{link}");
        let variance = vehicles + 0.25 * vehicles * vehicles;
        assert!((sources.variance[link] - variance).abs() < 1e-9, "{link}");
    }
    // All that begins ends somewhere.
    assert_eq!(began.iter().sum::<u64>(), counts.left.iter().sum::<u64>());
    // Without a share their number is not known, and links that live of them tell nothing.
    let unknown = Sources::of(&network, &counts, None, STEP, steps);
    assert!(unknown.demand.iter().all(|demand| *demand == 0.0));
    assert!(unknown.variance.iter().any(|variance| variance.is_infinite()));
}

/// Vehicles that were there when counting began are no source.
#[test]
fn a_few_starts_are_none() {
    let network = traffic::corridor().expect("the corridor");
    let mut counts = FleetAggregates {
        turned: vec![0; network.turns().len()],
        left: vec![1000; network.links().len()],
        ..FleetAggregates::default()
    };
    counts.left[3] = 4;
    let sources = Sources::of(&network, &counts, Some(0.5), STEP, 100.0);
    assert_eq!((sources.demand[3], sources.variance[3]), (0.0, 0.0));
    // 1,000 of half of the traffic in 100 steps: 20 a step, 120 a minute.
    assert!((sources.demand[4] - 120.0).abs() < 1e-9);
}

#[test]
fn free_speeds_are_told_by_link_then_class_then_limit() {
    let network = traffic::corridor().expect("the corridor");
    let links = network.links().len();
    let limit = network.links()[0].speed.get();
    let class = |link: &traffic::Link| (link.speed, link.lanes);
    let same = |n: &usize| class(&network.links()[*n]) == class(&network.links()[0]);
    let alike: Vec<usize> = (1..links).filter(same).collect();
    let other = (0..links).find(|n| !same(n)).expect("another class");
    let mut counts = FleetAggregates {
        free_metres: vec![0; links],
        free_seconds: vec![0; links],
        ..FleetAggregates::default()
    };
    (counts.free_metres[0], counts.free_seconds[0]) = ((80.0 * limit) as u64, 100);
    let free = free_speeds(&network, &counts);
    let own = (80.0 * limit).floor() / 100.0;
    assert!((free[0].get() - own).abs() < 1e-12);
    for &n in &alike {
        assert!((free[n].get() - own).abs() < 1e-12, "{n} is of the same class");
    }
    assert_eq!(free[other], network.links()[other].speed);
    // A queue that never ended is no free speed, and neither is a minute of driving that nobody saw.
    counts.free_seconds[0] = 1000;
    assert_eq!(free_speeds(&network, &counts)[0].get(), limit);
    (counts.free_metres[0], counts.free_seconds[0]) = (400, 50);
    assert_eq!(free_speeds(&network, &counts)[0].get(), limit);
}

/// Every model of a network where trips begin and end anywhere: it loses no vehicle.
#[test]
fn every_model_keeps_vehicles_with_sources_and_sinks_inside() {
    let network = grid(GridPlan::default()).expect("a grid");
    let (counts, _) = trips(&network, 5_000);
    let parameters = counted_parameters(&network, &counts).expect("parameters");
    let sources = Sources::of(&network, &counts, Some(0.5), STEP, 360.0);
    for kind in [
        TrafficModelKind::Ctm,
        TrafficModelKind::StoreAndForward,
        TrafficModelKind::Metanet,
        TrafficModelKind::Regions,
    ] {
        let plan = PhysicsPlan { model: kind, learning_rate: Some(1e-3) };
        let signals = GreenPlan::of(&network);
        let (model, signals) =
            model_of(&network, STEP, &parameters, &counts, (plan, signals)).expect("a model");
        let mut inputs = Inputs::free(&*model);
        inputs.demand.clone_from(&sources.demand);
        let (mut state, mut memory) = (vec![0.0; model.state_len()], model.memory());
        let (mut next, mut flows) = (state.clone(), vec![0.0; model.links()]);
        let (mut came, mut left) = (0.0, 0.0);
        for step in 0..200 {
            inputs.signals_from(&signals, &*model, STEP * f64::from(step)).expect("greens");
            let through =
                model.step(&state, &inputs, &mut memory, &mut next, &mut flows).expect("a step");
            (came, left) = (came + through.arrived, left + through.left);
            std::mem::swap(&mut state, &mut next);
        }
        // Of thousands of additions, each rounds at 1e-16 of all vehicles.
        let stored = model.vehicles(&state);
        assert!(left > 0.0 && (came - left - stored).abs() < 1e-9 * came, "{kind:?}");
    }
}

/// The faster half of a link on which half of the distance is driven at 10 m/s and half at 2 m/s.
#[test]
fn the_faster_half_is_half_of_the_distance() {
    let driven = [(100.0, 50.0), (0.0, 10.0), (50.0, 5.0), (50.0, 5.0)];
    assert_eq!(faster_half(&driven), (100.0, 10.0));
    assert_eq!(faster_half(&[]), (0.0, 0.0));
}

/// A junction that passes 3 vehicles a minute of a link that stands in a queue all the time, of which half are seen.
#[test]
fn junctions_pass_what_passed_in_queues_that_did_not_clear() {
    let network = traffic::corridor().expect("the corridor");
    let (links, turns) = (network.links().len(), network.turns().len());
    let parameters = Parameters::typical(&network).expect("parameters");
    let greens = GreenPlan::of(&network).means();
    let (n, steps) = (1, 360.0);
    let vehicles = 3.0 * 0.5 * steps / 6.0;
    let length = network.links()[n].length.get();
    let turn = network.outgoing(LinkId(n as u32))[0].index();
    let mut counts = FleetAggregates {
        turned: vec![0; turns],
        left: vec![0; links],
        queued_metres: vec![0; links],
        queued_steps: vec![0; links],
        fleets: 1,
        ..FleetAggregates::default()
    };
    counts.turned[turn] = vehicles as u64;
    counts.queued_metres[n] = (vehicles * length) as u64;
    counts.queued_steps[n] = steps as u64;
    let known = (Some(0.5), steps, 1.0 / 6.0);
    let passing = passing_shares(&network, &counts, &parameters, &greens, known).expect("shares");
    let diagram = parameters.fundamental_diagram(n).expect("a diagram");
    let lanes = f64::from(network.links()[n].lanes);
    let green: f64 = network
        .outgoing(LinkId(n as u32))
        .iter()
        .map(|turn| parameters.ratios()[turn.index()] * greens[turn.index()])
        .sum();
    let expected = 3.0 / (lanes * diagram.capacity().get() * green);
    // Metres are whole.
    assert!((passing[turn] / expected - 1.0).abs() < 1e-3, "{} {expected}", passing[turn]);
    // All others pass everything, and so does this one if it stood for minutes only, or where the share is unknown.
    let others = passing.iter().filter(|share| **share < 1.0).count();
    assert_eq!(others, 1 + network.outgoing(LinkId(n as u32)).len());
    counts.queued_steps[n] = 29;
    let few = passing_shares(&network, &counts, &parameters, &greens, known).expect("shares");
    assert!(few.iter().all(|share| *share == 1.0));
    let unknown = passing_shares(&network, &counts, &parameters, &greens, (None, steps, 1.0));
    assert!(unknown.expect("shares").iter().all(|share| *share == 1.0));
}

/// A queue is one that hardly moves for two minutes; a red light is none.
#[test]
fn reds_are_no_queues_that_do_not_clear() {
    let red: Vec<(f64, f64)> =
        (0..90).map(|step| if step % 9 < 4 { (2.0, 40.0) } else { (100.0, 20.0) }).collect();
    assert_eq!(queued(&red, 10.0), (0.0, 0));
    let stands = vec![(1.0, 50.0); 30];
    assert_eq!(queued(&stands, 10.0), (19.0, 19));
}
