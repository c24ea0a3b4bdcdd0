//! The laws of the world over random networks, demands and seeds, and on the corridor.

use proptest::prelude::*;
use traffic::{GridPlan, corridor, grid};

use super::*;

/// Random trips over a network: a walk from an entry to an exit, or to `most` links.
fn trips(network: &Network, seed: u64, count: u32, headway: f64, most: usize) -> Vec<Departure> {
    let entries: Vec<LinkId> = network.entries().collect();
    let draw = |i: u32, what: u64, below: usize| (uniform(seed, i, what) * below as f64) as usize;
    (0..count)
        .map(|i| {
            let mut route = vec![entries[draw(i, 1, entries.len())]];
            while let Some(turns) = route.last().map(|&here| network.outgoing(here))
                && !turns.is_empty()
            {
                // Walks pass no link twice, so that a link tells where on its route a vehicle is.
                let fresh: Vec<LinkId> = turns
                    .iter()
                    .map(|&t| network.turn(t).to)
                    .filter(|to| !route.contains(to))
                    .collect();
                let exits: Vec<LinkId> =
                    fresh.iter().copied().filter(|&to| network.outgoing(to).is_empty()).collect();
                let options = if route.len() >= most && !exits.is_empty() { exits } else { fresh };
                if options.is_empty() {
                    break;
                }
                route.push(options[draw(i, 2 + route.len() as u64, options.len())]);
            }
            let class = [
                VehicleClass::Car,
                VehicleClass::Car,
                VehicleClass::Motorcycle,
                VehicleClass::Bus,
                VehicleClass::Medium,
                VehicleClass::Heavy,
            ][draw(i, 1000, 6)];
            let mut departure = departure(i, f64::from(i) * headway, []);
            if i % 25 == 24 {
                let link = route[draw(i, 1001, route.len())];
                let Link { lanes, length, .. } = network.link(link);
                let lane = draw(i, 1002, usize::from(*lanes)) as u8;
                departure.stop = stop(link.0, lane, 0.8 * length.get(), 60.0);
            }
            Departure { class, route: route.into(), ..departure }
        })
        .collect()
}

/// Layers of two links of random length and lanes, each joined to both of the next layer by random
/// lanes: short links, lanes that end, split and merge in all ways.
fn tangle(seed: u64, layers: u32, signals: bool) -> Network {
    let mut draws = 0;
    let mut draw = |from: f64, to: f64| {
        draws += 1;
        from + (to - from) * uniform(seed, 0, draws)
    };
    let links: Vec<(f64, u8, f64)> = (0..2 * layers)
        .map(|_| (draw(13.0, 90.0), draw(1.0, 4.0) as u8, draw(5.0, 20.0)))
        .collect();
    let mut parts = row(&links);
    parts.turns.clear();
    for (from, to) in (0..2 * layers - 2).flat_map(|from| {
        let next = 2 * (from / 2 + 1);
        [(from, next), (from, next + 1)]
    }) {
        let lanes = |link: u32| f64::from(links[link as usize].1);
        let pairs = (0..draw(1.0, 4.0) as usize).map(|_| LanePair {
            from: draw(0.0, lanes(from)) as u8,
            to: draw(0.0, lanes(to)) as u8,
        });
        parts.turns.push(Turn { from: LinkId(from), to: LinkId(to), lanes: pairs.collect() });
    }
    if signals {
        parts.signals = (0..2 * layers - 2)
            .map(|from| signal(from, Some(2 * (from / 2 + 1)), 20.0, 20.0))
            .collect();
    }
    Network::new(parts).unwrap()
}

proptest! {
    // Each case simulates up to half an hour of some dozens of vehicles.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn grids_obey_the_laws(
        rows in 1..4_usize,
        columns in 1..4_usize,
        lanes in 1..4_u8,
        block in 30.0..160.0_f64,
        signals in any::<bool>(),
        half_steps in any::<bool>(),
        limits in prop::collection::vec(6.0..20.0_f64, 8),
        headway in 0.7..6.0_f64,
        seed in any::<u64>(),
    ) {
        let block = Metres::new(block);
        let city = grid(GridPlan { rows, columns, lanes, block, loop_every: 0 }).unwrap();
        let mut parts = city.into_parts();
        for (index, link) in parts.links.iter_mut().enumerate() {
            link.speed = MetresPerSecond::new(limits[index % limits.len()]);
        }
        if !signals {
            // Every junction becomes a free-for-all of merges.
            parts.signals.clear();
        }
        let city = Network::new(parts).unwrap();
        let departures = trips(&city, seed, 200, headway, 6);
        let step = Seconds::new(if half_steps { 0.5 } else { 1.0 });
        // The inspector checks the laws at each moment.
        let record = run(&city, SimulationPlan { step, seed, ..plan(900.0) }, departures);
        let due = (0..200).filter(|&i| f64::from(i) * headway <= 900.0).count() as u64;
        let Counts { entered, left, present, waiting } = record.counts;
        prop_assert_eq!(entered + waiting as u64, due);
        prop_assert_eq!(left + present as u64, entered);
        // A city full of vehicles may lock up, but the first ones are through before it is full.
        prop_assert!(left > 0);
    }

    #[test]
    fn tangles_obey_the_laws(
        seed in any::<u64>(),
        layers in 2..6_u32,
        signals in any::<bool>(),
        half_steps in any::<bool>(),
        headway in 0.7..6.0_f64,
    ) {
        let network = tangle(seed, layers, signals);
        let departures = trips(&network, seed, 150, headway, 100);
        let step = Seconds::new(if half_steps { 0.5 } else { 1.0 });
        let record = run(&network, SimulationPlan { step, seed, ..plan(6000.0) }, departures);
        // Without circles nobody can block each other for ever.
        prop_assert_eq!(record.counts.left, 150, "{:?} {:?}", record.counts, record.incidents);
    }

    #[test]
    fn the_corridor_obeys_the_laws_and_empties(seed in any::<u64>(), headway in 0.9..4.0_f64) {
        let corridor = corridor().unwrap();
        let departures = trips(&corridor, seed, 300, headway, 100);
        let record = run(&corridor, SimulationPlan { seed, ..plan(3000.0) }, departures);
        // 300 vehicles and stops of a minute: all are out long before the end.
        prop_assert_eq!(record.counts.left, 300);
        prop_assert_eq!(record.counts.present + record.counts.waiting, 0);
    }
}

fn samples_of(
    network: &Network,
    departures: &[Departure],
    seed: u64,
    shared: bool,
) -> Vec<VehiclePosition> {
    let plan = SimulationPlan { seed, ..plan(300.0) };
    let mut world = Simulation::new(network, plan, departures.to_vec()).unwrap();
    world.worth_sharing = if shared { 0 } else { usize::MAX };
    let (mut all, mut samples) = (Vec::new(), Vec::new());
    while world.next_moment(&mut samples).unwrap().is_some() {
        all.extend_from_slice(&samples);
    }
    all
}

#[test]
fn threads_change_nothing_and_seeds_do() {
    // Over 64 lanes a thread, so that four threads have work: 2·(2·8·7 + 32) = 288 links.
    let city = grid(GridPlan { rows: 8, columns: 8, ..GridPlan::default() }).unwrap();
    let departures = trips(&city, 3, 1500, 0.15, 30);
    let alone = samples_of(&city, &departures, 1, false);
    assert!(alone.len() > 100_000, "{}", alone.len());
    for threads in [1, 4] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let together = pool.install(|| samples_of(&city, &departures, 1, true));
        assert!(alone == together, "{threads} threads gave other samples");
    }
    assert!(alone == samples_of(&city, &departures, 1, false), "a second run differs");
    // Another seed, other drivers: of the vehicles that both worlds have at the end, hardly one is at the same place.
    let other = samples_of(&city, &departures, 2, false);
    let at_end = |samples: &[VehiclePosition]| -> HashMap<u32, VehiclePosition> {
        let last = samples.last().unwrap().time;
        samples.iter().filter(|s| s.time == last).map(|s| (s.vehicle.0, *s)).collect()
    };
    let (mine, others) = (at_end(&alone), at_end(&other));
    // Those that move, in both: queues stand at the same places, and come to rest there.
    let both: Vec<(f32, f32)> = mine
        .iter()
        .filter_map(|(vehicle, mine)| Some((mine, others.get(vehicle)?)))
        .filter(|(mine, other)| mine.speed > 1.0 && other.speed > 1.0)
        .map(|(mine, other)| (mine.position, other.position))
        .collect();
    let same = both.iter().filter(|(mine, other)| mine == other).count();
    assert!(both.len() > 20 && same * 20 < both.len(), "{same} of {}", both.len());
}
