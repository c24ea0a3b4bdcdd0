//! Lane changes, double parking, merging, errors.

use traffic::corridor;

use super::*;

#[test]
fn a_double_parked_vehicle_is_passed_and_leaves() {
    let network = Network::new(row(&[(200.0, 2, 12.5), (200.0, 2, 12.5)])).unwrap();
    let mut departures: Vec<Departure> =
        (0..200).map(|i| departure(i, 4.0 * f64::from(i), [0, 1])).collect();
    departures[10].stop = stop(1, 0, 120.0, 300.0);
    let record = run(&network, plan(1200.0), departures);
    assert_eq!(record.counts.left, 200);
    let parked: Vec<&VehiclePosition> =
        record.track(10).iter().filter(|s| s.speed == 0.0 && s.link.0 == 1).collect();
    // It comes to rest within the last metre before its place, and stands for 300 steps.
    assert!((300..=303).contains(&parked.len()), "{}", parked.len());
    assert!(parked.iter().all(|s| s.lane == 0 && (119.0..=120.0).contains(&s.position)));
    let (begin, end) = (parked[0].time, parked.last().unwrap().time);
    let overtakers = (11..200).filter(|&i| {
        let last = record.track(i).last().unwrap();
        last.time > begin && last.time < end
    });
    // 300 s at a vehicle each 4 s are 75; some are on their way at either end.
    assert!(overtakers.count() > 60);
    assert_eq!(record.incidents, Incidents::default());
}

#[test]
fn a_blocked_single_lane_waits() {
    let network = Network::new(row(&[(300.0, 1, 12.5)])).unwrap();
    let mut departures: Vec<Departure> =
        (0..20).map(|i| departure(i, 5.0 * f64::from(i), [0])).collect();
    departures[3].stop = stop(0, 0, 200.0, 200.0);
    let record = run(&network, plan(600.0), departures);
    assert_eq!(record.counts.left, 20);
    let end_of = |i: u32| record.track(i).last().unwrap().time;
    assert!((4..20).all(|i| end_of(i) > end_of(3)));
}

/// Three lanes; the right one turns off to link 1, the others go on to link 2.
fn fork() -> NetworkParts {
    let mut parts = row(&[(250.0, 3, 12.5), (150.0, 1, 12.5)]);
    parts.turns[0].lanes = vec![LanePair { from: 0, to: 0 }];
    let mut straight = parts.links[1].clone();
    straight.name = "straight".into();
    straight.lanes = 2;
    parts.links.push(straight);
    parts.turns.push(Turn {
        from: LinkId(0),
        to: LinkId(2),
        lanes: vec![LanePair { from: 1, to: 0 }, LanePair { from: 2, to: 1 }],
    });
    parts
}

/// The fork behind an entry (link 3) that crosses the lanes over, so that all have to change back.
fn crossed_fork() -> NetworkParts {
    let mut parts = fork();
    let mut entry = parts.links[0].clone();
    entry.name = "entry".into();
    entry.length = Metres::new(60.0);
    entry.junction = Metres::ZERO;
    parts.links.push(entry);
    parts.turns.push(Turn {
        from: LinkId(3),
        to: LinkId(0),
        lanes: (0..3).map(|l| LanePair { from: l, to: 2 - l }).collect(),
    });
    parts
}

/// A third turns off, two thirds go straight on.
fn crossing_trips(count: u32, headway: f64) -> Vec<Departure> {
    (0..count).map(|i| departure(i, headway * f64::from(i), [3, 0, 1 + (i % 3).min(1)])).collect()
}

#[test]
fn everyone_gets_into_the_lane_of_its_turn() {
    let mut parts = crossed_fork();
    parts.signals = vec![signal(0, Some(2), 30.0, 30.0)];
    let network = Network::new(parts).unwrap();
    let record = run(&network, plan(2400.0), crossing_trips(600, 2.4));
    assert_eq!(record.counts.left, 600);
    // The last resort is for emergencies, not for one in a hundred.
    assert!(record.incidents.turns_from_wrong_lane <= 6, "{:?}", record.incidents);
}

#[test]
fn double_parking_among_crossing_turns_blocks_one_lane_only() {
    let network = Network::new(crossed_fork()).unwrap();
    let left = |parked: bool| {
        let mut departures = crossing_trips(1000, 0.9);
        departures[31].stop = stop(0, 1, 150.0, 600.0).filter(|_| parked);
        run(&network, plan(600.0), departures).counts.left as f64
    };
    let (free, blocked) = (left(false), left(true));
    // One of three lanes is closed, and all who weave must pass one place: half is left at least.
    assert!(blocked > 0.5 * free && blocked < free, "{blocked} of {free}");
}

#[test]
fn two_streets_share_a_lane_fairly() {
    // Links 0 and 2 both lead into the only lane of link 1, without a signal.
    let mut parts = row(&[(200.0, 1, 12.5), (200.0, 1, 12.5)]);
    let mut other = parts.links[0].clone();
    other.name = "other".into();
    parts.links.push(other);
    parts.turns.push(Turn {
        from: LinkId(2),
        to: LinkId(1),
        lanes: vec![LanePair { from: 0, to: 0 }],
    });
    let network = Network::new(parts).unwrap();
    // Twice the capacity, half from each side.
    let departures: Vec<Departure> =
        (0..900).map(|i| departure(i, f64::from(i), [2 * (i % 2), 1])).collect();
    let record = run(&network, plan(900.0), departures);
    let through = |side: u32| {
        record
            .tracks
            .iter()
            .filter(|(i, t)| **i % 2 == side && t.last().unwrap().link.0 == 1)
            .count()
    };
    let (a, b) = (through(0) as f64, through(1) as f64);
    // Taking turns gives equal shares; a tenth is left for randomness of driving.
    assert!((a / b - 1.0).abs() < 0.1, "{a} and {b}");
    // A merge from standstill passes less than the saturation flow of 900/1.62 = 555; half at least.
    assert!(a + b > 0.5 * 555.0, "{a} + {b}");
}

#[test]
fn vehicles_side_by_side_that_need_each_others_lane_both_get_through() {
    // Two lanes that must swap within 30 m: no room to change lanes on the way.
    let mut parts = row(&[(30.0, 2, 12.5), (100.0, 1, 12.5)]);
    parts.turns[0].lanes = vec![LanePair { from: 0, to: 0 }];
    let mut left = parts.links[1].clone();
    left.name = "left".into();
    let mut right_in = parts.links[0].clone();
    right_in.name = "right in".into();
    right_in.lanes = 1;
    let mut left_in = right_in.clone();
    left_in.name = "left in".into();
    parts.links.extend([left, right_in, left_in]);
    let turn = |from, to, pair: [u8; 2]| Turn {
        from: LinkId(from),
        to: LinkId(to),
        lanes: vec![pair.into()],
    };
    parts.turns.extend([turn(0, 2, [1, 0]), turn(3, 0, [0, 0]), turn(4, 0, [0, 1])]);
    let network = Network::new(parts).unwrap();
    let departures: Vec<Departure> = (0..60)
        .map(|i| departure(i, f64::from(i / 2), if i % 2 == 0 { [3, 0, 2] } else { [4, 0, 1] }))
        .collect();
    let record = run(&network, plan(2000.0), departures);
    assert_eq!(record.counts.left, 60, "{:?}", record.incidents);
}

#[test]
fn an_undrivable_departure_is_an_error_that_names_it() {
    let corridor = corridor().unwrap();
    let link = |name: &str| corridor.link_named(name).unwrap().0;
    let fails = |departures: Vec<Departure>| {
        let mut world = Simulation::new(&corridor, plan(10.0), departures).unwrap();
        let mut samples = Vec::new();
        loop {
            match world.next_moment(&mut samples) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("ran to the end"),
                Err(error) => break error.to_string(),
            }
        }
    };
    let no_turn = departure(7, 2.0, [link("E1"), link("E3")]);
    assert_eq!(fails(vec![no_turn]), "vehicle 7: route: there is no turn from `E1` to `E3`");
    let unknown = departure(8, 2.0, [99]);
    assert_eq!(
        fails(vec![unknown]),
        "vehicle 8: route: found link number 99, expected less than 17"
    );
    let nowhere = departure(9, 2.0, []);
    assert_eq!(fails(vec![nowhere]), "vehicle 9: route: found no links, expected at least one");
    let mut off_route = departure(5, 1.0, [link("E1"), link("E2")]);
    off_route.stop = stop(link("E3"), 0, 50.0, 10.0);
    assert_eq!(fails(vec![off_route]), "vehicle 5: stop: link `E3` is not on the route");
    let mut too_far = departure(5, 1.0, [link("E1"), link("E2")]);
    too_far.stop = stop(link("E2"), 5, 50.0, 10.0);
    assert_eq!(
        fails(vec![too_far]),
        "vehicle 5: stop: found lane 5 at 50 m for 10 s, expected a lane below 5 at most 90 m along `E2` for 0 s or more"
    );
    let unordered = vec![departure(0, 3.0, [link("E7")]), departure(1, 2.0, [link("E7")])];
    assert_eq!(
        fails(unordered),
        "vehicle 1: departs at 2 s after vehicle 0 at 3 s, expected departures in order of time and number"
    );
}

#[test]
fn a_step_longer_than_the_reaction_time_is_refused() {
    let corridor = corridor().unwrap();
    let new = |plan| Simulation::new(&corridor, plan, Vec::new()).err().map(|e| e.to_string());
    let step = |step: f64| SimulationPlan { step: Seconds::new(step), ..plan(10.0) };
    assert_eq!(
        new(step(1.2)).unwrap(),
        "step: found 1.2 s, expected more than 0 s and at most the reaction time of 1.1 s"
    );
    for bad in [0.0, -0.5, f64::NAN, f64::INFINITY] {
        let expected = format!(
            "step: found {bad} s, expected more than 0 s and at most the reaction time of 1.1 s"
        );
        assert_eq!(new(step(bad)), Some(expected));
    }
    for (changed, expected) in [
        (SimulationPlan { noise: -1.0, ..plan(10.0) }, "noise: found -1, expected 0 to 1"),
        (SimulationPlan { noise: 1.5, ..plan(10.0) }, "noise: found 1.5, expected 0 to 1"),
        (SimulationPlan { noise: f64::NAN, ..plan(10.0) }, "noise: found NaN, expected 0 to 1"),
        (
            SimulationPlan { begin: Seconds::new(f64::INFINITY), ..plan(10.0) },
            "begin: found inf, expected a number of seconds",
        ),
        (
            SimulationPlan { until: Seconds::new(f64::NAN), ..plan(10.0) },
            "until: found NaN, expected a number of seconds",
        ),
    ] {
        assert_eq!(new(changed).as_deref(), Some(expected));
    }
    assert_eq!(new(step(1.1)), None);
    // For ever is long enough; it need not end.
    assert_eq!(new(plan(f64::INFINITY)), None);
}

#[test]
fn a_world_without_vehicles_has_empty_moments_from_begin_to_end() {
    let corridor = corridor().unwrap();
    let moments = |begin: f64, until: f64, step: f64| {
        let plan =
            SimulationPlan { begin: Seconds::new(begin), step: Seconds::new(step), ..plan(until) };
        let mut world = Simulation::new(&corridor, plan, Vec::new()).unwrap();
        let mut samples = vec![];
        let mut times = Vec::new();
        while let Some(time) = world.next_moment(&mut samples).unwrap() {
            assert_eq!(samples, []);
            times.push(time.get());
        }
        assert_eq!(world.counts(), Counts::default());
        times
    };
    assert_eq!(moments(0.0, 3.0, 1.0), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(moments(100.0, 101.0, 0.5), [100.0, 100.5, 101.0]);
    // No moment is later than the end, and one that lies before the begin leaves none.
    assert_eq!(moments(0.0, 2.4, 1.0), [0.0, 1.0, 2.0]);
    assert_eq!(moments(0.0, -1.0, 1.0), [] as [f64; 0]);
}
