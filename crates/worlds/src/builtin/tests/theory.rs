//! Against closed forms of the car-following model.

use super::*;
use crate::driving::Driving;

const SPEED: f64 = 12.5;

/// A queue of `count` cars that starts at the red signal of a 1 km road, and what became of it.
fn discharge(count: u32, step: f64) -> Record {
    let mut parts = row(&[(1000.0, 1, SPEED), (1000.0, 1, SPEED)]);
    parts.signals = vec![signal(0, Some(1), 300.0, 600.0)];
    let network = Network::new(parts).unwrap();
    let departures = (0..count).map(|i| departure(i, 3.0 * f64::from(i), [0, 1])).collect();
    let plan = SimulationPlan { step: Seconds::new(step), ..exact(600.0) };
    run(&network, plan, departures)
}

#[test]
fn saturation_headway_is_reaction_time_plus_length_over_speed() {
    let car = Driving::of(VehicleClass::Car);
    let expected = REACTION_TIME + (car.length + car.min_gap) / SPEED;
    for step in [1.0, 0.5] {
        let record = discharge(60, step);
        let passed: Vec<f64> = (0..60).filter_map(|i| record.passed(i, 0, 1000.0)).collect();
        assert_eq!(passed.len(), 60);
        // From the 20th car on all pass at full speed: 12.5²/(2·2.6) = 30 m, or 5 cars, would do
        // for unhindered ones. Then gaps approach equilibrium geometrically; 2 % is left for that.
        let headway = (passed[59] - passed[20]) / 39.0;
        assert!((headway / expected - 1.0).abs() < 0.02, "{headway}, expected {expected}");
    }
}

#[test]
fn a_starting_queue_dissolves_backwards_at_jam_spacing_over_reaction_time() {
    let car = Driving::of(VehicleClass::Car);
    let expected = (car.length + car.min_gap) / REACTION_TIME;
    let record = discharge(60, 1.0);
    // Where and when a car reaches 2 m/s, interpolated within the step.
    let starts = |i: u32| {
        let moving = |s: &VehiclePosition| s.speed >= 2.0;
        let track = record.track(i);
        let pair = track
            .windows(2)
            .find(|w| w[0].time > 299.0 && !moving(&w[0]) && moving(&w[1]))
            .unwrap();
        let share = f64::from((2.0 - pair[0].speed) / (pair[1].speed - pair[0].speed));
        let x = |s: &VehiclePosition| f64::from(s.position) + 1000.0 * f64::from(s.link.0);
        (
            pair[0].time + share * (pair[1].time - pair[0].time),
            x(&pair[0]) + share * (x(&pair[1]) - x(&pair[0])),
        )
    };
    let ((t0, x0), (t1, x1)) = (starts(10), starts(50));
    let wave = (x0 - x1) / (t1 - t0);
    // The start softens from car to car: its beginning runs ahead of its middle, which is what the
    // theory follows, by a distance that grows like the root of the cars: some per cent over 40.
    assert!((wave / expected - 1.0).abs() < 0.05, "{wave} m/s, expected {expected}");
}

#[test]
fn a_free_vehicle_travels_at_the_limits() {
    let network =
        Network::new(row(&[(200.0, 2, 10.0), (300.0, 2, 15.0), (100.0, 1, 5.0)])).unwrap();
    let record = run(&network, exact(200.0), vec![departure(0, 0.0, [0, 1, 2])]);
    let track = record.track(0);
    let duration = track.last().unwrap().time - track[0].time;
    // Each link at its limit, plus speeding up from 10 to 15 at 2.6 m/s² and down to 5 at 4.5 m/s²:
    // (15-10)²/2/2.6/15 = 0.3 s and (15-5)²/2/4.5/15 = 0.7 s. Up to one step to see the end, and
    // one before each change of speed, which happens in whole steps.
    let free = 200.0 / 10.0 + 300.0 / 15.0 + 100.0 / 5.0 + 1.0;
    assert!((free..=free + 3.0).contains(&duration), "{duration} s, expected {free}");
    assert_eq!(track[0].position, 0.0);
    assert_eq!((track.last().unwrap().link.0, track.last().unwrap().position), (2, 100.0));
}

#[test]
fn a_platoon_in_equilibrium_keeps_its_time_gap() {
    // Demand of 1 veh/s on one lane: more than fits, so vehicles enter as close as is safe.
    let network = Network::new(row(&[(2000.0, 1, SPEED)])).unwrap();
    let departures = (0..600).map(|i| departure(i, f64::from(i), [0])).collect();
    let record = run(&network, exact(600.0), departures);
    let car = Driving::of(VehicleClass::Car);
    let capacity = 1.0 / (REACTION_TIME + (car.length + car.min_gap) / SPEED);
    let inflow = record.counts.entered as f64 / 600.0;
    // Entering happens at whole steps: a vehicle may wait up to one step longer than needed, but
    // then enters with a larger gap, which costs at most one in (1 + 1.62)/1.62.
    assert!(inflow <= capacity * 1.01 && inflow >= 0.6 * capacity, "{inflow} of {capacity}");
    assert_eq!(record.counts.entered + record.counts.waiting as u64, 600);
}

#[test]
fn a_red_light_fills_the_link_and_then_the_one_before() {
    let mut parts = row(&[(300.0, 1, SPEED), (100.0, 1, SPEED)]);
    parts.signals = vec![signal(1, None, 900.0, 10.0)];
    let network = Network::new(parts).unwrap();
    let departures = (0..100).map(|i| departure(i, 4.0 * f64::from(i), [0, 1])).collect();
    let record = run(&network, exact(800.0), departures);
    let at_end = |link: u32| {
        let last = record.tracks.values().filter_map(|t| t.last().copied());
        let mut here: Vec<VehiclePosition> = last.filter(|s| s.link.0 == link).collect();
        here.sort_by(|a, b| b.position.total_cmp(&a.position));
        here
    };
    // 1 m before the line stands the first, 6.5 m behind each other the rest; who enters must have
    // its tail clear of the 10 m of junction: 99 − 6.5·n − 4.5 ≥ 10 for n = 0 … 13.
    let jammed = at_end(1);
    assert_eq!(jammed.len(), 14, "{jammed:?}");
    // One car's length, its gap and the rounding of its stop: the last may stand a little short.
    assert!(jammed.windows(2).all(|w| (w[0].position - w[1].position - 6.5).abs() < 0.1));
    // 300 m hold 299/6.5 = 46 cars, standing up to the entry: the rest waits outside.
    let upstream = at_end(0);
    assert!((45..=47).contains(&upstream.len()), "{}", upstream.len());
    assert_eq!(record.counts.waiting, 100 - upstream.len() - 14);
    assert!(upstream.iter().chain(&jammed).all(|s| s.speed == 0.0));
}
