//! Fusion by sum: the sum over guests is the joined fleet, however it is divided, and a model of it is the model of all data in
//! one place.

#[path = "../../estimator/tests/simulated/mod.rs"]
mod simulated;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use estimator::artifact::ModelFile;
use estimator::data::{
    FleetRows, FleetSum, FleetSumError, SumColumns, SumLayout, SummedFleets, WholeFleet,
};
use estimator::{
    Asked, Estimates, FleetData, MeasurementSource, MeasurementTable, Observed, Study,
};
use indicatif::ProgressBar;
use sensing::{Dataset, FeaturePlan, Fleets, add_fleets, make_features};
use traffic::{LinkId, Metres, Seconds, Step, Totals, Window};
use training::party::privacy::{Mode, PrivacyOptions};
use training::{FederationOptions, Fusion, Method, TrainOptions, Watch};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Guests of unequal size, and the fleet that they are together.
const GUESTS: [f64; 3] = [0.25, 0.125, 0.125];
const JOINED: &str = "fleet-50";
const FOLDS: usize = 4;

/// An hour and a half of the corridor, made once for all tests.
fn data() -> &'static Path {
    static DATA: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = DATA.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("data");
        simulated::simulated(&path, 90.0).expect("a simulation");
        make_fleets(&path).expect("features");
        (folder, path)
    });
    path
}

fn make_fleets(path: &Path) -> Outcome {
    let (dataset, from) = (Dataset::open(path)?, Seconds::new(600.0));
    let joined = FeaturePlan::paper(Fleets::nested(&[0.5], 1)?.divided(&[FOLDS])?);
    make_features(&dataset, joined, from, |_, _| {})?;
    let guests = Fleets::partition(&GUESTS, 1)?.divided(&[FOLDS])?;
    add_fleets(&dataset, &FeaturePlan::paper(guests), from, |_, _| {})?;
    Ok(())
}

fn study(fleets: &[String]) -> Result<Study, estimator::data::StudyError> {
    Study::open_fleets(data(), &fleets.iter().map(String::as_str).collect::<Vec<_>>())
}

fn of_guests() -> Vec<String> {
    (1..=GUESTS.len()).map(|number| format!("guest-{number}")).collect()
}

fn options(method: Method, guests: usize, mode: Mode) -> TrainOptions {
    let privacy = PrivacyOptions { privacy: Some(mode), ..PrivacyOptions::default() };
    let (guests, fusion) = (guests as u16, Some(Fusion::Sum));
    let federation = FederationOptions { guests, fusion, privacy, ..FederationOptions::default() };
    TrainOptions { method, epochs: Some(1), federation, ..TrainOptions::default() }
}

fn with_fleets(study: &Study, fleets: Vec<FleetData>) -> Study {
    let whole = WholeFleet { rate: 1.0, usual: 0.0 };
    study.with_fleets(SummedFleets { fleets, queues: None, whole })
}

fn test_part(options: &TrainOptions, study: &Study) -> Estimates {
    let fitted = options.fit(study, &study.split().test, Watch::default(), None, &bar());
    fitted.expect("a fit").estimates
}

fn bar() -> ProgressBar {
    ProgressBar::hidden()
}

/// Totals on a grid of 2^-10, on which sums of fixed point and of floats are exact.
fn on_grid(fleet: &FleetData) -> FleetData {
    let round = |number: f64| (number * 1024.0).round() / 1024.0;
    let totals = fleet.all_totals().iter().map(|totals| Totals {
        time: Seconds::new(round(totals.time.get())),
        distance: Metres::new(round(totals.distance.get())),
    });
    fleet.with_totals(totals.collect())
}

/// The same fleet with the totals of parts.
fn joined(fleet: &FleetData, parts: &[&FleetData]) -> FleetData {
    let mut sums = vec![Totals::default(); fleet.all_totals().len()];
    for part in parts {
        sums.iter_mut().zip(part.all_totals()).for_each(|(sum, own)| *sum += *own);
    }
    fleet.with_totals(sums)
}

/// Estimates of a method on sums of guests are, to the last bit, those of its centralised counterpart on the joined fleet:
/// folds are summed fold by fold, the order of guests does not matter, and masks cancel.
fn check_sum_is_joined(method: Method, folds: usize) -> Outcome {
    let names = options(method, GUESTS.len(), Mode::Clear).parts_of(&of_guests());
    assert_eq!(names.len(), folds * GUESTS.len());
    let study_of_guests = study(&names)?;
    let parts: Vec<FleetData> = study_of_guests.fleets().iter().map(on_grid).collect();
    let whole = match folds {
        1 => vec![JOINED.to_owned()],
        _ => (1..=folds).map(|fold| sensing::part_name(JOINED, fold, folds)).collect(),
    };
    let study_of_joined = study(&whole)?;
    let fleets = study_of_joined.fleets().iter().enumerate().map(|(fold, fleet)| {
        joined(fleet, &parts.iter().skip(fold).step_by(folds).collect::<Vec<_>>())
    });
    let in_one_place = with_fleets(&study_of_joined, fleets.collect());
    let centralised = TrainOptions {
        method: method.centralised().expect("a centralised method"),
        epochs: Some(1),
        ..TrainOptions::default()
    };
    let expected = test_part(&centralised, &in_one_place);
    let reversed: Vec<FleetData> = parts.chunks(folds).rev().flatten().cloned().collect();
    for (guests, mode) in [(parts, Mode::Clear), (reversed, Mode::Aggregate)] {
        let guests = with_fleets(&study_of_guests, guests);
        assert_eq!(test_part(&options(method, GUESTS.len(), mode), &guests), expected, "{mode:?}");
    }
    // One guest is the joined fleet.
    assert_eq!(test_part(&options(method, 1, Mode::Aggregate), &in_one_place), expected);
    Ok(())
}

#[test]
fn with_labels_the_model_of_the_sum_is_that_of_the_joined_fleet() -> Outcome {
    check_sum_is_joined(Method::FedTse, 1)
}

#[test]
fn with_a_held_out_fold_the_model_of_the_sum_is_that_of_the_joined_fleet() -> Outcome {
    check_sum_is_joined(Method::FedTseHf, FOLDS)
}

fn summed(guests: &[FleetData], columns: SumColumns, absent: Option<usize>) -> SummedFleets {
    let timeline = Arc::clone(guests[0].timeline());
    let layout = SumLayout::new(&timeline, 1, columns);
    let all = Step(i64::MIN)..=Step(i64::MAX);
    let rows: Vec<FleetRows> = guests
        .iter()
        .map(|guest| {
            let queues = columns.queues.then(|| queues_of(guest));
            FleetRows::new(layout, vec![guest.clone()], queues, &all).expect("rows")
        })
        .collect();
    let sum = |absent: Option<usize>, whole: Option<WholeFleet>| {
        let mut sum = FleetSum::new(layout, &timeline);
        for step in timeline.steps() {
            let mut total = vec![0.0; layout.width()];
            for (_, guest) in rows.iter().enumerate().filter(|(at, _)| Some(*at) != absent) {
                let mut row = Vec::new();
                guest.write(step, &mut row);
                total.iter_mut().zip(row).for_each(|(sum, own)| *sum += own);
            }
            sum.push(&total).expect("a row");
        }
        sum.finish("joined", whole).expect("fleets")
    };
    let all = sum(None, None);
    match absent {
        None => all,
        Some(_) => sum(absent, Some(all.whole)),
    }
}

/// Densities that tell guests and links apart, surer of larger fleets.
fn queues_of(guest: &FleetData) -> MeasurementTable {
    let rate = guest.rate();
    let density = |step: Step, link: LinkId| 40.0 * rate + f64::from(link.0) + (step.0 % 7) as f64;
    MeasurementTable::densities(guest.timeline(), |_| 1.0 / rate, density)
}

/// By Edie, totals, turns and ends of trips add up: what three guests saw is what their joined fleet saw.
#[test]
fn sums_of_guests_are_what_the_joined_fleet_saw() -> Outcome {
    let guests = study(&of_guests())?;
    let whole = study(&[JOINED.to_owned()])?;
    let columns = SumColumns { cells: true, movements: true, queues: true };
    let SummedFleets { fleets, queues, whole: all } = summed(guests.fleets(), columns, None);
    let (found, expected) = (&fleets[0], &whole.fleets()[0]);
    assert_eq!((all.rate, found.rate()), (0.5, 0.5));
    // Floats of up to 10^4 s or m, added in another order, differ by some 10^-12.
    for (found, expected) in found.all_totals().iter().zip(expected.all_totals()) {
        assert!((found.time - expected.time).get().abs() < 1e-9);
        assert!((found.distance - expected.distance).get().abs() < 1e-9);
    }
    // Numbers of windows hold cells, too, which are stored with 24 bits: three roundings of up to 10^3.
    let window = |study: &Study| {
        let mut numbers = Vec::new();
        let last = study.split().test[0];
        study.window(estimator::FeatureSet::BothAndCells, last, &mut numbers);
        numbers
    };
    let joined =
        guests.with_fleets(SummedFleets { fleets: fleets.clone(), queues: None, whole: all });
    for (found, expected) in window(&joined).iter().zip(window(&whole)) {
        assert!((found - expected).abs() < 1e-3, "{found} {expected}");
    }
    let counts = |fleet: &FleetData| {
        let all = Step(i64::MIN)..=Step(i64::MAX);
        let network = fleet.timeline().network();
        estimator::loss::movement_counts(network, std::slice::from_ref(fleet), &all)
    };
    let turned = counts(found);
    assert!(turned.turned.iter().sum::<u64>() > 100);
    assert_eq!(turned, counts(expected));
    // Densities are combined by their precisions.
    let (table, step) = (queues.expect("queues"), guests.split().test[0]);
    let read = |table: &MeasurementTable| {
        let (mut values, mut weights) = (vec![0.0; 17], vec![0.0; 17]);
        table.write(Window::whole(step), &mut values, &mut weights);
        (values, weights)
    };
    let each: Vec<_> = guests.fleets().iter().map(|guest| read(&queues_of(guest))).collect();
    let (values, weights) = read(&table);
    for link in 0..17 {
        let weight: f32 = each.iter().map(|(_, weights)| weights[link]).sum();
        let mean: f32 = each.iter().map(|(values, weights)| weights[link] * values[link]).sum();
        // Numbers of 24 bits.
        assert!((weights[link] - weight).abs() < 1e-5);
        assert!((values[link] - mean / weight).abs() < 1e-3);
    }
    Ok(())
}

/// Of guests that see the same, an absent one costs nothing: the others are scaled up to it, here by 2 and so exactly.
#[test]
fn an_absent_guest_costs_no_more_than_its_data() -> Outcome {
    let one = study(&["guest-1".to_owned()])?;
    let twins = with_fleets(&one, vec![one.fleets()[0].clone(), one.fleets()[0].clone()]);
    let watch = Watch { each_absent: true, ..Watch::default() };
    let windows = &one.split().test;
    let fitted =
        options(Method::FedTse, 2, Mode::Aggregate).fit(&twins, windows, watch, None, &bar())?;
    let names: Vec<&str> = fitted.absent.iter().map(|(guest, _)| guest.as_str()).collect();
    assert_eq!(names, ["guest-1", "guest-2"]);
    assert!(fitted.absent.iter().all(|(_, without)| *without == fitted.estimates));

    // Unequal guests: what is left of the joined fleet's time is all of it in the mean of the part that usual traffic is of.
    let guests = study(&of_guests())?;
    let time = |fleets: &SummedFleets| -> f64 {
        fleets.fleets[0].all_totals().iter().map(|totals| totals.time.get()).sum()
    };
    let all = time(&summed(guests.fleets(), SumColumns::default(), None));
    for absent in 0..GUESTS.len() {
        let without = time(&summed(guests.fleets(), SumColumns::default(), Some(absent)));
        assert!((without / all - 1.0).abs() < 1e-9, "{absent}: {without} {all}");
    }
    Ok(())
}

/// What is kept reads the guests' fleets again and estimates the same.
#[test]
fn a_kept_model_of_a_sum_estimates_the_same() -> Outcome {
    let study = study(&of_guests())?;
    let folder = tempfile::tempdir()?;
    let windows = &study.split().test;
    let options = options(Method::FedTse, GUESTS.len(), Mode::Aggregate);
    let fitted = options.fit(&study, windows, Watch::default(), Some(folder.path()), &bar())?;
    let file = ModelFile::read(folder.path())?;
    assert_eq!(file.fleets, of_guests().into_iter().map(|name| vec![name]).collect::<Vec<_>>());
    let (fleets, names) = training::fleets_at_use(&file, study.fleets())?;
    let observed = Observed { fleets: &fleets, ..study.observed() };
    let model = file.load(folder.path(), &observed)?;
    let asked = Asked { target: options.target, links: study.targets(), windows };
    assert_eq!(model.estimate(&observed, &names, &asked)?.0, fitted.estimates);
    // 8 bytes a number, once: time and distance of 17 links, share and usual traffic, of 3 guests.
    let expected = study.steps().count() as u64 * 8 * (2 * 17 + 2) * 3;
    assert_eq!(fitted.training.and_then(|training| training.bytes), Some(expected));
    Ok(())
}

#[test]
fn what_is_no_sum_is_refused() -> Outcome {
    let study = study(&of_guests())?;
    let fit = |options: &TrainOptions| {
        let fitted = options.fit(&study, &study.split().test, Watch::default(), None, &bar());
        fitted.err().map(|error| error.to_string())
    };
    let error = fit(&options(Method::FedTse, 2, Mode::Aggregate));
    assert_eq!(error.as_deref(), Some("fleets: found 3, expected 2, 1 for each guest"));
    let timeline = study.timeline();
    let layout = SumLayout::new(timeline, 1, SumColumns::default());
    let mut sum = FleetSum::new(layout, timeline);
    let first = timeline.steps().next().expect("a step").0;
    let width = FleetSumError::Width { step: first, found: 3, expected: 36 };
    assert_eq!(sum.push(&[0.0; 3]), Err(width));
    let mut row = [1.0; 36];
    row[5] = -1.0;
    let value = FleetSumError::Value { step: first, place: 5, found: -1.0 };
    assert_eq!(sum.push(&row), Err(value));
    let steps = FleetSumError::Steps { found: 0, expected: timeline.held().len() };
    assert_eq!(sum.finish("none", None).err(), Some(steps));
    let options = |fusion, mode| FederationOptions {
        fusion,
        privacy: PrivacyOptions { privacy: Some(mode), ..PrivacyOptions::default() },
        ..FederationOptions::default()
    };
    let error = |options: FederationOptions| options.check().err().map(|error| error.to_string());
    let sealed =
        "--privacy: found sealed with --fusion sum, expected aggregate, aggregate+noise or clear";
    assert_eq!(error(options(Some(Fusion::Sum), Mode::Sealed)).as_deref(), Some(sealed));
    let side_by_side = "--fusion: found concatenate with --privacy aggregate, expected sum";
    let concatenated = options(Some(Fusion::Concatenate), Mode::Aggregate);
    assert_eq!(error(concatenated).as_deref(), Some(side_by_side));
    let local = FederationOptions { q: 4, ..options(None, Mode::Aggregate) };
    assert!(error(local).is_some_and(|error| error.starts_with("--q: found with a sum")));
    assert_eq!(error(options(None, Mode::Aggregate)), None);
    Ok(())
}

/// Each guest draws noise for its totals once: masked or not, twice or once, the sum is the same; and it is not the exact one.
#[test]
fn noise_in_a_sum_is_drawn_once_and_hidden_by_masks_as_totals_are() -> Outcome {
    let noise = tempfile::tempdir()?;
    let study = study(&of_guests())?;
    let fit = |mode: Mode| {
        let mut options = options(Method::FedTse, GUESTS.len(), mode);
        options.federation.privacy.noise_folder = Some(noise.path().to_owned());
        options.fit(&study, &study.split().test, Watch::default(), None, &bar())
    };
    let exact = fit(Mode::Aggregate)?.estimates;
    assert!(noise.path().read_dir()?.next().is_none());
    let noised = fit(Mode::AggregateNoise)?.estimates;
    assert_ne!(noised, exact);
    assert_eq!(
        noise
            .path()
            .read_dir()?
            .filter(|file| {
                file.as_ref()
                    .is_ok_and(|file| file.path().extension().is_some_and(|end| end == "noise"))
            })
            .count(),
        GUESTS.len()
    );
    assert_eq!(fit(Mode::AggregateNoise)?.estimates, noised);
    // Other numbers than totals of links have no noise: methods that sum them are refused.
    let names = options(Method::FedTseHf, GUESTS.len(), Mode::Clear).parts_of(&of_guests());
    let in_folds = self::study(&names)?;
    let options = options(Method::FedTseHf, GUESTS.len(), Mode::AggregateNoise);
    let error = options.fit(&in_folds, &[], Watch::default(), None, &bar());
    let error = error.err().expect("a refusal").to_string();
    assert!(error.contains("noise is drawn of totals of links"), "{error}");
    Ok(())
}
