//! The SUMO world end to end. Needs SUMO: with `FEDTSE_REQUIRE_SUMO=1` its absence is a failure,
//! else these tests say so and pass.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for tests here"
)]

use std::collections::HashMap;
use std::path::Path;

use sensing::sumo::{ImportOptions, import_net};
use traffic::{
    GridPlan, Network, PositionSource, Seconds, VehPerHour, VehicleId, VehiclePosition, grid,
};
use worlds::{
    Demand, Departure, FcdFormat, SumoError, SumoOptions, SumoRun, SumoTools, corridor_demand,
    simulate_sumo,
};

fn tools() -> Option<SumoTools> {
    match SumoTools::find(None) {
        Ok(tools) => Some(tools),
        Err(error) if std::env::var_os("FEDTSE_REQUIRE_SUMO").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn drive(
    tools: &SumoTools,
    network: &Network,
    departures: &[Departure],
    folder: &Path,
    options: &SumoOptions,
) -> SumoRun {
    let mut told = Seconds::ZERO;
    let run = simulate_sumo(tools, network, departures.iter().cloned(), folder, options, |time| {
        assert!(time >= told);
        told = time;
    })
    .unwrap();
    assert!(told > Seconds::ZERO, "no progress was told");
    run
}

fn moments(run: &SumoRun, network: &Network) -> Vec<(Seconds, Vec<VehiclePosition>)> {
    let mut samples = run.samples(network).unwrap();
    let (mut out, mut moments) = (Vec::new(), Vec::new());
    while let Some(time) = samples.next_moment(&mut out).unwrap() {
        moments.push((time, out.clone()));
    }
    moments
}

/// Quarter of an hour in which the corridor fills.
fn options() -> SumoOptions {
    SumoOptions { until: Seconds::new(900.0), ..SumoOptions::default() }
}

#[test]
fn sumo_is_ended_when_it_is_not_to_go_on() {
    let Some(tools) = tools() else { return };
    let corridor = traffic::corridor().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let stopped = |_| false;
    let run =
        simulate_sumo(&tools, &corridor, std::iter::empty(), folder.path(), &options(), stopped);
    assert!(matches!(run, Err(SumoError::Stopped { .. })), "{:?}", run.err());
}

#[test]
fn vehicles_drive_their_routes_on_our_links() {
    let Some(tools) = tools() else { return };
    let corridor = traffic::corridor().unwrap();
    let demand = corridor_demand(&corridor).unwrap();
    let departures: Vec<Departure> = demand.departures(&corridor, 1, Seconds::new(900.0)).collect();
    let folder = tempfile::tempdir().unwrap();
    let run = drive(&tools, &corridor, &departures, folder.path(), &options());
    assert_eq!(run.statistics.teleports, 0);
    assert_eq!(run.statistics.collisions, 0);

    let moments = moments(&run, &corridor);
    let times: Vec<f64> = moments.iter().map(|(time, _)| time.get()).collect();
    let expected: Vec<f64> = (1..=900).map(f64::from).collect();
    assert_eq!(times, expected);

    let mut last: HashMap<VehicleId, VehiclePosition> = HashMap::new();
    let mut crossings = vec![0_i64; corridor.loops().len()];
    for (_, samples) in &moments {
        for sample in samples {
            let route = &departures[sample.vehicle.index()].route;
            let leg = route.iter().position(|&link| link == sample.link);
            let leg = leg.unwrap_or_else(|| panic!("{sample:?} is off its route {route:?}"));
            let before = last.insert(sample.vehicle, *sample);
            for (index, detector) in corridor.loops().iter().enumerate() {
                let at = detector.position.get() as f32;
                let passed = sample.link == detector.link && sample.position > at;
                let before_it = before.is_none_or(|b| b.link != detector.link || b.position <= at);
                let after = before.is_some_and(|b| {
                    b.link == detector.link && b.position <= at && sample.link != detector.link
                });
                crossings[index] += i64::from((passed && before_it) || after);
            }
            let Some(before) = before else { continue };
            // From stop line to stop line: distance driven is the change of place along the route.
            let from = route.iter().position(|&link| link == before.link).unwrap();
            assert!(leg >= from, "{sample:?} went back");
            let between: f64 =
                route[from..leg].iter().map(|&l| corridor.link(l).length.get()).sum();
            let driven = between + f64::from(sample.position) - f64::from(before.position);
            // SUMO moves a vehicle by its new speed times the step; it writes two decimals, so
            // speed, both positions and lengths are each off by at most half of 0.01. Lane changes
            // and lanes' ends add rounding of the same size.
            assert!((driven - f64::from(sample.speed)).abs() < 0.05, "{before:?} {sample:?}");
        }
    }
    assert_eq!(run.statistics.loaded, departures.len() as u64);
    assert_eq!(run.statistics.inserted, last.len() as u64);

    // Loops count vehicles when their rears pass, so those on a loop at the end are not counted.
    let mut counted = vec![0_i64; corridor.loops().len()];
    for count in run.loop_counts(&corridor).unwrap() {
        let count = count.unwrap();
        counted[count.detector] += i64::from(count.count);
    }
    for (index, detector) in corridor.loops().iter().enumerate() {
        let lanes = i64::from(corridor.link(detector.link).lanes);
        let missing = crossings[index] - counted[index];
        assert!(crossings[index] > 100 && (0..=lanes).contains(&missing), "{missing}");
    }
}

#[test]
fn the_same_seed_gives_the_same_traffic_in_every_form() {
    let Some(tools) = tools() else { return };
    let corridor = traffic::corridor().unwrap();
    let demand = corridor_demand(&corridor).unwrap();
    let until = Seconds::new(300.0);
    let departures: Vec<Departure> = demand.departures(&corridor, 2, until).collect();
    let run = |fcd, seed| {
        let folder = tempfile::tempdir().unwrap();
        let options = SumoOptions { until, fcd, seed, ..SumoOptions::default() };
        moments(&drive(&tools, &corridor, &departures, folder.path(), &options), &corridor)
    };
    let csv = run(FcdFormat::Csv, 5);
    assert_eq!(csv, run(FcdFormat::Xml, 5));
    assert_eq!(csv, run(FcdFormat::CsvGz, 5));
    assert_ne!(csv, run(FcdFormat::Csv, 6));
}

#[test]
fn the_net_that_was_written_is_imported_again() {
    let Some(tools) = tools() else { return };
    let city = grid(GridPlan { rows: 2, columns: 2, ..GridPlan::default() }).unwrap();
    let demand = Demand::uniform(&city, VehPerHour::new(200.0));
    let departures: Vec<Departure> = demand.departures(&city, 1, Seconds::new(300.0)).collect();
    let folder = tempfile::tempdir().unwrap();
    let options = SumoOptions { until: Seconds::new(300.0), ..SumoOptions::default() };
    let run = drive(&tools, &city, &departures, folder.path(), &options);
    let imported = import_net(&run.net, &ImportOptions::default()).unwrap().network;
    assert_eq!(imported.links().len(), city.links().len());
    for link in city.links() {
        let twin = imported.link(imported.link_named(&link.name).unwrap());
        // SUMO writes centimetres.
        assert!((twin.length - link.length).get().abs() < 0.011, "{}", link.name);
        assert_eq!(twin.lanes, link.lanes);
    }
    assert_eq!(imported.turns().len(), city.turns().len());
    assert_eq!(imported.signals().len(), city.signals().len());
    let seen = moments(&run, &city).iter().map(|(_, samples)| samples.len()).sum::<usize>();
    assert!(seen > 1000, "{seen}");
}

#[test]
fn a_failing_program_says_why() {
    let Some(tools) = tools() else { return };
    let corridor = traffic::corridor().unwrap();
    let demand = corridor_demand(&corridor).unwrap();
    let departures = demand.departures(&corridor, 1, Seconds::new(60.0));
    let folder = tempfile::tempdir().unwrap();
    let options = SumoOptions { step: Seconds::new(-1.0), ..options() };
    let error = simulate_sumo(&tools, &corridor, departures, folder.path(), &options, |_| {});
    let error = error.unwrap_err().to_string();
    assert!(error.contains("sumo: failed: ") && error.len() > 30, "{error}");
}
