use traffic::{LinkId, LoopCount, VehicleClass, VehicleId, VehiclePosition};

use super::*;
use crate::dataset::{DatasetWriter, Provenance, write_fleet_dataset};
use crate::fleet::Fleets;
use crate::recordings::RecordingWatch;
use crate::scale_up::scale_up_errors;
use crate::test_roads::corridor;
use crate::vehicles::VehicleTable;

type Moments = Vec<(f64, Vec<VehiclePosition>)>;

/// Vehicles enter E1 every 3 s and drive to E3 at speeds from 4 to 12 m/s; then all is dark for
/// five minutes, and it begins again.
fn traffic(network: &Network) -> (Moments, VehicleTable) {
    let route = ["E1", "E2", "E3"].map(|name| network.link_named(name).unwrap());
    let mut vehicles = VehicleTable::default();
    let mut moments = Vec::new();
    for second in (0..=300).chain(600..=900) {
        let t = f64::from(second);
        let mut samples = Vec::new();
        for number in 0..300u32 {
            let id = vehicles.number(&format!("v{number}"), VehicleClass::Car);
            let speed = 4.0 + f64::from(number % 9);
            let mut x = (t - 3.0 * f64::from(number)) * speed;
            for &link in &route {
                let length = network.link(link).length.get();
                if (0.0..length).contains(&x) {
                    samples.push(VehiclePosition {
                        time: t,
                        vehicle: id,
                        link,
                        position: x as f32,
                        lane: 0,
                        speed: speed as f32,
                    });
                }
                x -= length;
            }
        }
        moments.push((t, samples));
    }
    (moments, vehicles)
}

fn dataset(folder: &Path, loops: &[LoopCount]) -> (Dataset, Moments) {
    let network = corridor().unwrap();
    let (moments, vehicles) = traffic(&network);
    let gap = Seconds::new(60.0);
    let mut writer = DatasetWriter::create(folder, &network, Provenance::default(), gap).unwrap();
    for (time, samples) in &moments {
        writer.moment(Seconds::new(*time), samples).unwrap();
    }
    writer.finish(&vehicles, loops).unwrap();
    (Dataset::open(folder).unwrap(), moments)
}

fn plan() -> FeaturePlan {
    FeaturePlan::paper(Fleets::nested(&[0.2, 0.5, 0.8], 3).unwrap())
}

/// The claim of the whole crate: a file and a live stream give identical numbers.
#[test]
fn file_and_live_stream_give_identical_steps() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, moments) = dataset(folder.path(), &[]);
    let mut from_file = Vec::new();
    let report = extract_dataset(
        &dataset,
        plan(),
        Seconds::ZERO,
        |step| from_file.push(step.clone()),
        |_, _| {},
    )
    .unwrap();

    // Live: names are numbered as they come, in another order than in the file.
    let network = corridor().unwrap();
    let mut extractor = FeatureExtractor::new(&network, plan()).unwrap();
    let mut live_vehicles = VehicleTable::default();
    let mut watch = RecordingWatch::new(Seconds::new(60.0));
    let mut live = Vec::new();
    let mut on_step = |step: &StepFeatures| live.push(step.clone());
    for (time, samples) in &moments {
        let time = Seconds::new(*time);
        if watch.note(time) {
            extractor.begin(time, &mut on_step);
        }
        let renumbered: Vec<VehiclePosition> = samples
            .iter()
            .map(|sample| {
                let name = &dataset.vehicles().get(sample.vehicle).unwrap().name;
                VehiclePosition {
                    vehicle: live_vehicles.number(name, VehicleClass::Car),
                    ..*sample
                }
            })
            .collect();
        extractor.moment(time, &renumbered, &live_vehicles, &mut on_step).unwrap();
    }
    extractor.end(Seconds::new(moments.last().unwrap().0), &mut on_step);
    assert_eq!(live.len(), from_file.len());
    assert!(live.iter().filter(|step| step.complete).count() == 60);
    assert_eq!(live, from_file);
    // Rounding of sums over some hundred thousand pieces stays far below 1e-9.
    let (own, boxed) = (report.trajectory_time.get(), report.box_time.get());
    assert!(own > 10_000.0 && (own - boxed).abs() < 1e-9 * own);
}

#[test]
fn stored_features_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, _) = dataset(folder.path(), &[]);
    let manifest = make_features(&dataset, plan(), Seconds::new(100.0), |_, _| {}).unwrap();
    let held: Vec<(i64, i64)> =
        manifest.held.ranges().iter().map(|r| (r.first.0, r.last.0)).collect();
    assert_eq!(held, [(10, 29), (60, 89)]);

    let mut steps = Vec::new();
    let from = Seconds::new(100.0);
    extract_dataset(&dataset, plan(), from, |s| steps.push(s.clone()), |_, _| {}).unwrap();
    steps.retain(|step| step.complete);
    let network = dataset.network();
    let features = Features::open(folder.path(), network).unwrap();
    assert_eq!(features.manifest(), &manifest);
    let (all, fleet) = (features.all().unwrap(), features.fleet("fleet-50").unwrap());
    for (at, step) in steps.iter().enumerate() {
        for link in network.link_ids() {
            let row = at * 17 + link.index();
            assert_eq!(all.totals[row], step.all.link_totals(link));
            assert_eq!(all.squares[row], step.squares[link.index()]);
            assert_eq!(fleet.totals[row], step.fleets[1].link_totals(link));
            let cells = &fleet.cells[row * 24..][..24];
            let boxes = &step.fleets[1].boxes[link.index() * 12..][..12];
            for at in 0..12 {
                assert_eq!(cells[at], boxes[at].time.get() as f32);
                assert_eq!(cells[12 + at], boxes[at].distance.get() as f32);
            }
        }
    }
    let loops = features.loops(2).unwrap();
    let counted: f64 = loops.counts.iter().flatten().sum();
    let expected: u32 = steps.iter().flat_map(|step| &step.loops).sum();
    assert_eq!(counted, f64::from(expected));
    assert!(expected > 50);
    let unknown = features.fleet("fleet-30").unwrap_err().to_string();
    assert!(unknown.contains("expected one of: fleet-20, fleet-50, fleet-80"), "{unknown}");
}

#[test]
fn a_row_off_the_road_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let network = corridor().unwrap();
    let gap = Seconds::new(60.0);
    let mut writer =
        DatasetWriter::create(folder.path(), &network, Provenance::default(), gap).unwrap();
    let mut vehicles = VehicleTable::default();
    for number in 0..3 {
        vehicles.number(&number.to_string(), VehicleClass::Car);
    }
    let link = network.link_named("E1").unwrap();
    for second in 0..=20 {
        let time = f64::from(second);
        let samples = [0, 1, 2].map(|number| VehiclePosition {
            time,
            vehicle: VehicleId(number),
            link,
            position: if (second, number) == (15, 1) { 200.0 } else { second as f32 },
            lane: 0,
            speed: 1.0,
        });
        writer.moment(Seconds::new(time), &samples).unwrap();
    }
    writer.finish(&vehicles, &[]).unwrap();
    let dataset = Dataset::open(folder.path()).unwrap();
    let error = make_features(&dataset, plan(), Seconds::ZERO, |_, _| {}).unwrap_err().to_string();
    // Fifteen moments of three vehicles come before it, and one vehicle of its own moment.
    let expected = "row 47: position: found 200 m, expected 0 to 150 m on link `E1`";
    assert!(error.contains("trajectories.parquet: ") && error.ends_with(expected), "{error}");
    assert!(!folder.path().join("features").exists());
    assert!(!folder.path().join("features.unfinished").exists());
}

#[test]
fn smooth_targets_are_trailing_means_that_grow_at_the_start_of_a_range() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, _) = dataset(folder.path(), &[]);
    make_features(&dataset, plan(), Seconds::ZERO, |_, _| {}).unwrap();
    let features = Features::open(folder.path(), dataset.network()).unwrap();
    let all = features.all().unwrap();
    let step = Seconds::new(10.0);
    let (raw, smooth) =
        (all.states(dataset.network(), step), all.smooth_states(dataset.network(), step));
    let mean = |from: usize, to: usize| {
        let sum: f64 = (from..=to).map(|at| raw[at * 17].density.get()).sum();
        sum / (to - from + 1) as f64
    };
    for (at, from) in [(0, 0), (3, 0), (5, 0), (6, 1), (29, 24), (30, 30), (32, 30), (40, 35)] {
        // The two sums are over the same numbers in the same order.
        assert_eq!(smooth[at * 17].density.get(), mean(from, at), "step {at}");
    }
}

#[test]
fn a_step_longer_than_the_smoothing_is_its_own_mean() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, _) = dataset(folder.path(), &[]);
    let step = Seconds::new(90.0);
    let plan = FeaturePlan { clock: traffic::StepClock { length: step }, ..plan() };
    make_features(&dataset, plan, Seconds::ZERO, |_, _| {}).unwrap();
    let all = Features::open(folder.path(), dataset.network()).unwrap().all().unwrap();
    let raw = all.states(dataset.network(), step);
    assert_eq!(all.smooth_states(dataset.network(), step), raw);
    let mut targets =
        crate::TableReader::open(&folder.path().join("features/targets.parquet")).unwrap();
    for column in ["density", "density_smooth"] {
        targets.want(column, crate::ColumnKind::F64).unwrap();
    }
    let mut columns = Vec::new();
    targets.next_batch(1 << 16, &mut columns).unwrap();
    let expected: Vec<f64> = raw.iter().map(|state| state.density.get()).collect();
    assert!(expected.iter().any(|&density| density > 1.0));
    assert_eq!(columns[0], crate::Column::F64(expected.clone()));
    assert_eq!(columns[1], crate::Column::F64(expected));
}

#[test]
fn features_that_fail_leave_the_old_ones_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, _) = dataset(folder.path(), &[]);
    let manifest = make_features(&dataset, plan(), Seconds::ZERO, |_, _| {}).unwrap();
    let too_late = make_features(&dataset, plan(), Seconds::new(1e9), |_, _| {});
    let text = too_late.unwrap_err().to_string();
    assert!(text.contains("no complete step of 10 s from 1000000000 s on; recordings"), "{text}");
    let impatient = FeaturePlan { patience: Seconds::new(0.5), ..plan() };
    let error = make_features(&dataset, impatient, Seconds::ZERO, |_, _| {}).unwrap_err();
    assert!(matches!(error, FeaturesError::NoMotion { .. }), "{error}");
    let features = Features::open(folder.path(), dataset.network()).unwrap();
    assert_eq!(features.manifest(), &manifest);
    let all = features.all().unwrap();
    assert_eq!((all.held.len(), all.links), (manifest.held.len(), dataset.network().links().len()));
    assert_eq!(all.totals.len(), all.held.len() * all.links);
    assert!(!folder.path().join("features.unfinished").exists());
}

#[test]
fn sensors_count_where_there_are_sensors_and_missing_is_not_zero() {
    let folder = tempfile::tempdir().unwrap();
    let count = |detector, begin: f64, end: f64, count| LoopCount {
        detector,
        begin: Seconds::new(begin),
        end: Seconds::new(end),
        count,
    };
    // Loop 0 reports steps 0 (in halves) and 2; loop 1 half of step 1 only.
    let counts = [
        count(0, 0.0, 5.0, 2),
        count(0, 5.0, 10.0, 3),
        count(0, 20.0, 30.0, 0),
        count(1, 10.0, 15.0, 9),
    ];
    let (dataset, _) = dataset(folder.path(), &counts);
    let manifest = make_features(&dataset, plan(), Seconds::ZERO, |_, _| {}).unwrap();
    assert_eq!(manifest.loops, "sensors");
    let features = Features::open(folder.path(), dataset.network()).unwrap();
    let table = features.loops(2).unwrap();
    assert_eq!(table.counts[..6], [Some(5.0), None, None, None, Some(0.0), None]);
}

#[test]
fn counts_across_a_step_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let across =
        LoopCount { detector: 1, begin: Seconds::new(5.0), end: Seconds::new(15.0), count: 1 };
    let (dataset, _) = dataset(folder.path(), &[across]);
    let error = make_features(&dataset, plan(), Seconds::ZERO, |_, _| {}).unwrap_err().to_string();
    assert!(
        error.contains(
            "loop `L5`: found a count for 5 s to 15 s, expected intervals that fit steps of 10 s; make features with longer steps"
        ),
        "{error}"
    );
}

#[test]
fn a_recording_without_end_is_refused() {
    // Found by fuzzing: a manifest that claims ages of recording kept `features` busy for ever.
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path(), &[]);
    let path = folder.path().join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    for (end, expected) in [("1e10", "found 999999970 steps of 10"), ("1e18", "from 0 to 1e11 s")] {
        std::fs::write(&path, text.replace("\"end\": 900.0", &format!("\"end\": {end}"))).unwrap();
        let made = Dataset::open(folder.path()).map_err(FeaturesError::from).and_then(|dataset| {
            extract_dataset(&dataset, plan(), Seconds::ZERO, |_| {}, |_, _| {})
        });
        let error = made.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn features_with_too_many_cells_are_refused() {
    // Found with the help of fuzzing: names of columns were made for as many cells as were claimed.
    let folder = tempfile::tempdir().unwrap();
    let (dataset, _) = dataset(folder.path(), &[]);
    make_features(&dataset, plan(), Seconds::ZERO, |_, _| {}).unwrap();
    let path = folder.path().join("features/manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"cells\": 6", "\"cells\": 18446744073709551615")).unwrap();
    let error = Features::open(folder.path(), dataset.network()).unwrap_err().to_string();
    assert!(
        error.contains("manifest.json: cells, sub_steps: found 18446744073709551615, 2"),
        "{error}"
    );
}

/// The error of scale-up, averaged over many draws of the fleet, is the binomial closed form.
#[test]
fn scale_up_errs_as_binomial_sampling_says() {
    let network = corridor().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (dataset, _) = dataset(folder.path(), &[]);
    let targets: Vec<LinkId> =
        ["E1", "E2", "E3"].map(|name| network.link_named(name).unwrap()).to_vec();
    let step = Seconds::new(10.0);
    for rate in [0.2, 0.8] {
        let draws = 150;
        // Of each draw: measured over expected mean square error, of density and of flow.
        let mut ratios = [Vec::new(), Vec::new()];
        for seed in 0..draws {
            let plan = FeaturePlan {
                cells: 1,
                sub_steps: 1,
                ..FeaturePlan::paper(Fleets::nested(&[rate], seed).unwrap())
            };
            make_features(&dataset, plan, Seconds::ZERO, |_, _| {}).unwrap();
            let features = Features::open(folder.path(), &network).unwrap();
            let fleet = features.fleet(&features.manifest().fleets[0].name).unwrap();
            let truth = features.all().unwrap();
            let errors = scale_up_errors(&network, step, &truth, &fleet, rate, &targets);
            ratios[0].push((errors.density_rmse / errors.density_expected).powi(2));
            ratios[1].push((errors.flow_rmse / errors.flow_expected).powi(2));
        }
        for ratios in ratios {
            let n = draws as f64;
            let mean = ratios.iter().sum::<f64>() / n;
            let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let standard_error = (variance / n).sqrt();
            // Four standard errors of the mean, and those small enough to see a wrong formula
            // (without the factor 1 − p the ratio would be off by 20 % at least).
            assert!(standard_error < 0.03, "{standard_error}");
            assert!(
                (mean - 1.0).abs() < 4.0 * standard_error,
                "at {rate}: {mean} ± {standard_error}"
            );
        }
    }
}

#[test]
fn datasets_of_fleets_hold_every_position_once() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, moments) = dataset(&folder.path().join("all"), &[]);
    let fleets = Fleets::partition(&[0.5, 0.5], 3).unwrap();
    let mut found = 0;
    for (number, fleet) in fleets.all().iter().enumerate() {
        let to = folder.path().join(number.to_string());
        let manifest = write_fleet_dataset(&dataset, (fleet, 3), &to).unwrap();
        assert_eq!(manifest.recordings, dataset.manifest().recordings);
        found += manifest.samples;
        for vehicle in Dataset::open(&to).unwrap().vehicles().all() {
            let drawn = crate::draw(3, &vehicle.name);
            assert!(fleet.from <= drawn && drawn < fleet.to, "{}", vehicle.name);
        }
    }
    let expected: usize = moments.iter().map(|(_, positions)| positions.len()).sum();
    assert_eq!(found as usize, expected);
}

/// Fleets are added; what is there stays, and a name always means the same vehicles.
#[test]
fn fleets_are_added_and_never_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, _) = dataset(folder.path(), &[]);
    let from = Seconds::new(f64::NEG_INFINITY);
    let plan = |fleets: Fleets| FeaturePlan::paper(fleets);
    let nested = |rates: &[f64]| Fleets::nested(rates, 3).unwrap();
    make_features(&dataset, plan(nested(&[0.2])), from, |_, _| {}).unwrap();
    let table = |name: &str| std::fs::read(folder.path().join("features").join(name)).unwrap();
    let before = table("fleet-20.parquet");
    let added = add_fleets(&dataset, &plan(nested(&[0.2, 0.5])), from, |_, _| {}).unwrap();
    let names = |of: &FeaturesManifest| -> Vec<String> {
        of.fleets.iter().map(|fleet| fleet.name.clone()).collect()
    };
    assert_eq!(names(&added), ["fleet-20", "fleet-50"]);
    assert_eq!(table("fleet-20.parquet"), before);
    // As if both had been made at once, up to the rounding of sums over other bands of vehicles.
    let features = Features::open(folder.path(), dataset.network()).unwrap();
    let later = features.fleet("fleet-50").unwrap();
    let guests = Fleets::partition(&[0.3, 0.2], 3).unwrap();
    let added = add_fleets(&dataset, &plan(guests), from, |_, _| {}).unwrap();
    assert_eq!(names(&added), ["fleet-20", "fleet-50", "guest-1", "guest-2"]);
    add_parts(&dataset, "guest-2", 2, |_, _| {}).unwrap();
    let features = Features::open(folder.path(), dataset.network()).unwrap();
    let fleet = features.fleet_named("guest-2-2of2").unwrap();
    assert!((fleet.from - 0.4).abs() < 1e-12 && (fleet.to - 0.5).abs() < 1e-12, "{fleet:?}");
    make_features(&dataset, plan(nested(&[0.2, 0.5])), from, |_, _| {}).unwrap();
    let at_once = Features::open(folder.path(), dataset.network()).unwrap();
    let at_once = at_once.fleet("fleet-50").unwrap();
    for (one, other) in later.totals.iter().zip(&at_once.totals) {
        assert!((one.time.get() - other.time.get()).abs() < 1e-9);
        assert!((one.distance.get() - other.distance.get()).abs() < 1e-9);
    }
    // Another meaning of a name, or features made otherwise.
    let guests = |shares: &[f64]| plan(Fleets::partition(shares, 3).unwrap());
    add_fleets(&dataset, &guests(&[0.3]), from, |_, _| {}).unwrap();
    let error = add_fleets(&dataset, &guests(&[0.1]), from, |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("fleet `guest-1`: found 10 %"), "{error}");
    let other = FeaturePlan { cells: 3, ..plan(nested(&[0.8])) };
    let error = add_fleets(&dataset, &other, from, |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("cells: found another"), "{error}");
}
