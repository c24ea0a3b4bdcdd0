use proptest::prelude::*;
use traffic::{Boxes, LinkId, Motion, VehicleClass, VehicleId, cut};

use super::*;
use crate::fleet::Fleets;
use crate::journey::MAX_SPEED;
use crate::test_roads::corridor;

fn plan(rates: &[f64]) -> FeaturePlan {
    FeaturePlan::paper(Fleets::nested(rates, 1).unwrap())
}

fn sample(time: f64, vehicle: u32, link: LinkId, position: f32) -> VehiclePosition {
    VehiclePosition { time, vehicle: VehicleId(vehicle), link, position, lane: 0, speed: 1.0 }
}

fn named(count: u32) -> VehicleTable {
    let mut vehicles = VehicleTable::default();
    for vehicle in 0..count {
        vehicles.number(&vehicle.to_string(), VehicleClass::Car);
    }
    vehicles
}

/// Feeds moments of one recording and returns all steps and the report.
fn extract(
    network: &Network,
    plan: FeaturePlan,
    moments: &[(f64, Vec<VehiclePosition>)],
    end: f64,
) -> (Vec<StepFeatures>, ExtractReport) {
    let vehicles = named(100);
    let mut extractor = FeatureExtractor::new(network, plan).unwrap();
    let mut steps = Vec::new();
    let mut on_step = |step: &StepFeatures| steps.push(step.clone());
    for (time, samples) in moments {
        extractor.moment(Seconds::new(*time), samples, &vehicles, &mut on_step).unwrap();
    }
    extractor.end(Seconds::new(end), &mut on_step);
    let report = *extractor.report();
    (steps, report)
}

/// One vehicle at 10 m/s from the start of E1 over E2 (110 m) into E3, seen each second.
fn drive_through() -> (Network, Vec<(f64, Vec<VehiclePosition>)>) {
    let network = corridor().unwrap();
    let links = ["E1", "E2", "E3"].map(|name| network.link_named(name).unwrap());
    let moments = (0..=40).map(|second| {
        let t = f64::from(second);
        let x = 10.0 * t - 50.0;
        let at = match x {
            x if x < 0.0 => vec![],
            x if x <= 150.0 => vec![sample(t, 3, links[0], x as f32)],
            x if x <= 260.0 => vec![sample(t, 3, links[1], (x - 150.0) as f32)],
            x if x <= 300.0 => vec![sample(t, 3, links[2], (x - 260.0) as f32)],
            _ => vec![],
        };
        (t, at)
    });
    let moments = moments.collect();
    (network, moments)
}

#[test]
fn one_vehicle_leaves_its_time_and_distance_in_each_box() {
    let (network, moments) = drive_through();
    let (steps, report) = extract(&network, plan(&[]), &moments, 50.0);
    assert_eq!(steps.len(), 5);
    assert!(steps.iter().all(|step| step.complete));
    let on = |step: usize, name: &str| {
        let totals = steps[step].all.link_totals(network.link_named(name).unwrap());
        (totals.time.get(), totals.distance.get())
    };
    // It sets out at t = 5, reaches E2 at t = 20 and E3 at t = 31, and is last seen at t = 35.
    let close = |(a, b): (f64, f64), (c, d): (f64, f64)| {
        // Rounding of sums of a few pieces.
        assert!((a - c).abs() < 1e-9 && (b - d).abs() < 1e-9, "{a} {b} is not {c} {d}");
    };
    close(on(0, "E1"), (5.0, 50.0));
    close(on(1, "E1"), (10.0, 100.0));
    close(on(2, "E2"), (10.0, 100.0));
    close(on(3, "E2"), (1.0, 10.0));
    close(on(3, "E3"), (4.0, 40.0));
    close(on(4, "E3"), (0.0, 0.0));
    assert_eq!((report.trajectory_time.get(), report.trajectory_distance.get()), (30.0, 300.0));

    // Squares: one vehicle, so the square of its own totals.
    let e2 = network.link_named("E2").unwrap();
    assert!((steps[2].squares[e2.index()][1] - 100.0 * 100.0).abs() < 1e-6);
    assert_eq!(steps[2].all.vehicles[e2.index()], 1);

    // The loop on E1 at 130 m is crossed at t = 18, and each turn is counted when it is made.
    assert_eq!(steps.iter().map(|step| step.loops[0]).collect::<Vec<_>>(), [0, 1, 0, 0, 0]);
    let turn = network.turn_between(network.link_named("E1").unwrap(), e2).unwrap();
    let turns: Vec<u32> = steps.iter().map(|step| step.all.turns[turn.index()]).collect();
    assert_eq!(turns.iter().sum::<u32>(), 1);
    assert_eq!(turns[2], 1);

    // The trip from E1 to E3 ends in the step of the last sighting.
    let (e1, e3) = (network.link_named("E1").unwrap(), network.link_named("E3").unwrap());
    assert_eq!(steps[3].all.trips, [(e1, e3, 1)]);
    assert!(steps.iter().enumerate().all(|(index, step)| index == 3 || step.all.trips.is_empty()));
}

#[test]
fn cells_and_sub_steps_hold_the_parts() {
    let (network, moments) = drive_through();
    let (steps, _) = extract(&network, plan(&[]), &moments, 50.0);
    // Step 1 on E1 (cells of 25 m): x goes from 50 to 150; 5–10 s of it from 100 on.
    let boxes = &steps[1].all.boxes[..12];
    let metres: Vec<f64> = boxes.iter().map(|b| b.distance.get().round()).collect();
    assert_eq!(metres, [0., 0., 25., 25., 0., 0., 0., 0., 0., 0., 25., 25.]);
}

#[test]
fn a_fleet_sees_its_own_vehicles_only() {
    let network = corridor().unwrap();
    let e1 = network.link_named("E1").unwrap();
    let moments: Vec<_> = (0..=20)
        .map(|t| (f64::from(t), (0..100).map(|v| sample(f64::from(t), v, e1, t as f32)).collect()))
        .collect();
    let (steps, _) = extract(&network, plan(&[0.2, 0.8]), &moments, 20.0);
    for (fleet, rate) in [(0, 0.2), (1, 0.8)] {
        let members = (0..100).filter(|v| crate::draw(1, &v.to_string()) < rate).count();
        let totals = steps[0].fleets[fleet].link_totals(e1);
        assert!((totals.time.get() - 10.0 * members as f64).abs() < 1e-9);
        assert_eq!(steps[0].fleets[fleet].vehicles[e1.index()] as usize, members);
    }
}

#[test]
fn steps_cut_by_the_recording_are_incomplete() {
    let (network, moments) = drive_through();
    let (steps, report) = extract(&network, plan(&[]), &moments[3..38], 37.0);
    let complete: Vec<bool> = steps.iter().map(|step| step.complete).collect();
    assert_eq!(complete, [false, true, true, false]);
    // 1e-9: the sums differ only by rounding of a few hundred terms.
    assert!((report.box_time - report.trajectory_time).get().abs() < 1e-9 * 30.0);
}

#[test]
fn a_gap_breaks_the_track_and_is_counted() {
    let (network, mut moments) = drive_through();
    for (_, samples) in &mut moments[10..17] {
        samples.clear();
    }
    let (_, report) = extract(&network, plan(&[]), &moments, 50.0);
    assert_eq!(report.breaks, Breaks { gaps: 1, ..Breaks::default() });
    assert!((report.trajectory_time.get() - 22.0).abs() < 1e-9);
}

#[test]
fn impossible_samples_are_refused_by_name() {
    let network = corridor().unwrap();
    let e1 = network.link_named("E1").unwrap();
    let refuse = |samples: &[VehiclePosition]| {
        let mut extractor = FeatureExtractor::new(&network, plan(&[])).unwrap();
        let moment = Seconds::new(0.0);
        let error = extractor.moment(moment, samples, &named(3), &mut |_| {}).unwrap_err();
        error.to_string()
    };
    let bad = |change: &dyn Fn(&mut VehiclePosition)| {
        let mut bad = sample(0.0, 2, e1, 5.0);
        change(&mut bad);
        refuse(&[bad])
    };
    assert_eq!(
        bad(&|s| s.position = f32::NAN),
        "vehicle `2` at 0 s: position: found NaN m, expected 0 to 150 m on link `E1`"
    );
    assert_eq!(
        bad(&|s| s.speed = -1.0),
        "vehicle `2` at 0 s: speed: found -1 m/s, expected 0 or more"
    );
    assert_eq!(
        bad(&|s| s.link = LinkId(99)),
        "vehicle `2` at 0 s: link: found number 99, expected less than 17"
    );
    assert_eq!(
        bad(&|s| s.vehicle = VehicleId(3)),
        "vehicle `number 3` at 0 s: vehicle: found number 3, expected less than 3"
    );
    assert_eq!(
        refuse(&[sample(0.0, 1, e1, 0.0), sample(0.0, 1, e1, 1.0)]),
        "vehicle `1` at 0 s: found twice at time 0, expected once"
    );
    let mut extractor = FeatureExtractor::new(&network, plan(&[])).unwrap();
    let vehicles = named(1);
    extractor.moment(Seconds::new(5.0), &[], &vehicles, &mut |_| {}).unwrap();
    let back = extractor.moment(Seconds::new(4.0), &[], &vehicles, &mut |_| {}).unwrap_err();
    assert_eq!(back.to_string(), "moment: time: found 4, expected 5 or later");
}

#[test]
fn a_vehicle_twice_at_one_moment_is_refused_wherever_it_is() {
    let network = corridor().unwrap();
    let e1 = network.link_named("E1").unwrap();
    // It goes on in its cell (of 25 m), it goes on to the next one, or it stays behind.
    for twice in [[11.0, 12.0], [11.0, 40.0], [40.0, 11.0], [8.0, 11.0], [11.0, 8.0]] {
        let mut extractor = FeatureExtractor::new(&network, plan(&[])).unwrap();
        let mut feed = |t: f64, places: &[f32]| {
            let samples: Vec<_> = places.iter().map(|&x| sample(t, 0, e1, x)).collect();
            extractor.moment(Seconds::new(t), &samples, &named(1), &mut |_| {})
        };
        feed(0.0, &[9.0]).unwrap();
        feed(1.0, &[10.0]).unwrap();
        let error = feed(2.0, &twice).unwrap_err().to_string();
        assert_eq!(error, "vehicle `0` at 2 s: found twice at time 2, expected once", "{twice:?}");
    }
}

proptest! {
    /// Most motion is added up without being cut. The sums are those of cutting all of it.
    #[test]
    fn boxes_and_loops_are_those_of_cutting_each_motion(
        // Steps of eighths of a metre: borders of cells (25 m) and the loop are hit.
        strides in prop::collection::vec(prop::collection::vec(0..48u32, 30), 1..8),
        begin in 0..20u32,
        interval in prop::sample::select(vec![0.4, 1.0, 2.5]),
    ) {
        let network = corridor().unwrap();
        let e1 = network.link_named("E1").unwrap();
        let time = |tick: usize| f64::from(begin) + tick as f64 * interval;
        let place = |stride: &[u32], tick: usize| {
            (f64::from(stride[..tick].iter().sum::<u32>()) / 8.0).min(150.0)
        };
        let moments: Vec<_> = (0..=30).map(|tick| {
            let seen = strides.iter().enumerate();
            let samples = seen.map(|(v, s)| sample(time(tick), v as u32, e1, place(s, tick) as f32));
            (time(tick), samples.collect())
        }).collect();
        let (steps, report) = extract(&network, plan(&[0.5]), &moments, time(30));

        let boxes = Boxes { cell: 25.0, cells: 6, sub_step: 5.0 };
        let mut expected = vec![Totals::default(); steps.len() * 12];
        let (detector, mut crossed) = (network.loops()[0].position.get(), 0);
        let first = steps[0].step.0 * 2;
        for stride in &strides {
            for tick in 0..30 {
                let (t0, t1) = (time(tick), time(tick + 1));
                let (x0, x1) = (place(stride, tick), place(stride, tick + 1));
                cut(Motion { t0, x0, t1, x1 }, boxes, |sub_step, cell, seconds, metres| {
                    let (time, distance) = (Seconds::new(seconds), Metres::new(metres));
                    expected[(sub_step - first) as usize * 6 + cell] += Totals { time, distance };
                });
                crossed += u32::from(x0 < detector && detector <= x1);
            }
        }
        for (at, step) in steps.iter().enumerate() {
            for (found, expected) in step.all.boxes[..12].iter().zip(&expected[at * 12..]) {
                // The same pieces are added up in another order: rounding of some hundred terms.
                prop_assert!((found.time - expected.time).get().abs() < 1e-10);
                prop_assert!((found.distance - expected.distance).get().abs() < 1e-10);
            }
        }
        prop_assert_eq!(steps.iter().map(|step| step.loops[0]).sum::<u32>(), crossed);
        let seen: f64 = strides.iter().map(|stride| place(stride, 30)).sum();
        prop_assert!((report.trajectory_distance.get() - seen).abs() < 1e-9);
    }

    /// What noise hides of a vehicle in a step: it adds no more than the step's time, and what the fastest drives in that,
    /// however its positions jump.
    #[test]
    fn a_vehicle_adds_no_more_than_the_fastest_could(
        places in prop::collection::vec(prop::option::of((0..4usize, 0.0..1.0f64)), 60),
        interval in prop::sample::select(vec![0.3, 1.0, 4.0]),
    ) {
        let network = corridor().unwrap();
        let links = ["E1", "E2", "E3", "E1"].map(|name| network.link_named(name).unwrap());
        let moments: Vec<_> = places.iter().enumerate().map(|(tick, place)| {
            let time = tick as f64 * interval;
            let seen = place.iter().map(|&(link, share)| {
                let metres = share * network.link(links[link]).length.get();
                sample(time, 0, links[link], metres as f32)
            });
            (time, seen.collect())
        }).collect();
        let (steps, _) = extract(&network, plan(&[]), &moments, 60.0 * interval);
        for step in &steps {
            let all = network.link_ids().map(|link| step.all.link_totals(link));
            let all = all.fold(Totals::default(), |mut sum, one| { sum += one; sum });
            // Rounding of sums of some hundred pieces.
            prop_assert!(all.time.get() < 10.0 + 1e-9, "{:?}", all);
            prop_assert!(all.distance.get() < MAX_SPEED.get() * all.time.get() + 1e-6, "{:?}", all);
        }
    }

    /// Whatever vehicles do, no time or distance is lost between trajectories and boxes, and a
    /// fleet of everyone equals the truth.
    #[test]
    fn nothing_is_lost(
        speeds in prop::collection::vec(0.0..20.0f64, 1..20),
        begin in 0.0..30.0f64,
        stride in 0.3..4.0f64,
    ) {
        let network = corridor().unwrap();
        let route = ["E1", "E2", "E3", "E4"].map(|name| network.link_named(name).unwrap());
        let place = |mut x: f64| {
            for &link in &route {
                let length = network.link(link).length.get();
                if x <= length {
                    return Some((link, x as f32));
                }
                x -= length;
            }
            None
        };
        let moments: Vec<_> = (0..60).map(|tick| {
            let t = begin + f64::from(tick) * stride;
            let samples = speeds.iter().enumerate().filter_map(|(v, speed)| {
                let (link, x) = place(speed * (t - begin))?;
                Some(sample(t, v as u32, link, x))
            });
            (t, samples.collect())
        }).collect();
        let end = moments.last().map_or(0.0, |m: &(f64, Vec<_>)| m.0);
        let (steps, report) = extract(&network, plan(&[1.0]), &moments, end);
        // 1e-9 relative is what the rounding of some ten thousand sums allows with room.
        let (own, boxed) = (report.trajectory_time.get(), report.box_time.get());
        prop_assert!((own - boxed).abs() <= 1e-9 * own.max(1.0), "{own} {boxed}");
        let (own, boxed) = (report.trajectory_distance.get(), report.box_distance.get());
        prop_assert!((own - boxed).abs() <= 1e-9 * own.max(1.0), "{own} {boxed}");
        for step in &steps {
            prop_assert_eq!(&step.fleets[0].boxes, &step.all.boxes);
        }
    }
}
