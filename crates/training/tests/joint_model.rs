//! The neural estimator on simulated traffic: it learns, is kept, and refuses what
//! does not fit.

#[path = "../../estimator/tests/simulated/mod.rs"]
mod simulated;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use estimator::artifact::{Epoch, KeptWith, ModelFile, ModelFolderError, NeuralError};
use estimator::data::InputsError;
use estimator::{
    Architecture, Asked, FeatureSet, FleetData, GuestFeatures, GuestPlan, HostStudy, LoopData,
    NeuralEstimator, NeuralPlan, NeuralStudy, SavedEstimator, Study, TargetKind, WindowSource,
    score,
};
use sensing::{Column, ColumnKind, TableWriter};
use traffic::{Step, Window};
use training::CentralRun;
use training::learner::HostLoss;

/// Two and a half hours, made once for all tests.
fn data() -> &'static Path {
    static DATA: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = DATA.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("data");
        simulated::simulated(&path, 150.0).expect("a simulation");
        (folder, path)
    });
    path
}

fn study() -> Study {
    Study::open(data(), "fleet-20").expect("a dataset with features")
}

fn plan(party: FeatureSet, epochs: usize) -> NeuralPlan {
    let mut plan = NeuralPlan::new(party, Architecture::Link, TargetKind::Raw, 5);
    plan.recipe.epochs = epochs;
    plan.sizes.units = 32;
    plan
}

/// A folder with the network, the manifest of the features, and some of the files.
fn copy_files(to: &Path, files: &[&str]) {
    std::fs::create_dir_all(to.join("features")).expect("a folder");
    for file in ["network.toml", "features/manifest.json"].iter().chain(files) {
        std::fs::copy(data().join(file), to.join(file)).expect("a copy");
    }
}

fn run(data: &NeuralStudy) -> CentralRun {
    let loss = HostLoss::of(data.objective());
    let mut run = CentralRun::new(data.data(), loss).expect("a model");
    while run.epoch().expect("a finite loss").is_some() {}
    run
}

fn test_error(study: &Study, plan: NeuralPlan) -> f64 {
    let data = NeuralStudy::new(study, plan).expect("sound features");
    let run = run(&data);
    let estimator = data.assemble(&run.best()).expect("weights of all parties");
    let test = &study.split().test;
    let kind = estimator.record().plan.target;
    let estimates = estimator.estimate(study, test).expect("the same data");
    score(study, kind, test, &estimates).density.rmse
}

/// Keeps a model of one guest.
fn keep(model: NeuralEstimator, folder: &Path, study: &Study, history: &[Epoch]) {
    let fleets = study.fleets().iter().map(|fleet| vec![fleet.name().to_owned()]).collect();
    let with = KeptWith { fleets, sum: None, history: history.to_vec() };
    let place = (&**study.timeline(), TargetKind::Raw);
    SavedEstimator::Neural(model).save(folder, place, with).expect("a folder to write to");
}

/// Reads a model for a study's data.
fn load(folder: &Path, study: &Study) -> Result<SavedEstimator, ModelFolderError> {
    ModelFile::read(folder)?.load(folder, &study.observed())
}

#[test]
fn who_sees_the_fleet_errs_less() {
    let study = study();
    let (host, both) = (
        test_error(&study, plan(FeatureSet::Host, 20)),
        test_error(&study, plan(FeatureSet::Both, 20)),
    );
    // On this corridor the fleet's totals save a third of the error and more; a model that cannot
    // use them saves nothing.
    assert!(both < 0.85 * host, "{both} {host}");
}

#[test]
fn the_papers_model_learns_too() {
    let study = study();
    let with = |epochs| {
        let mut plan =
            NeuralPlan::new(FeatureSet::Both, Architecture::Paper, TargetKind::Smooth, 5);
        plan.recipe.epochs = epochs;
        plan.recipe.rate = 3e-3; // ten times the paper's, for few epochs
        test_error(&study, plan)
    };
    let (little, more) = (with(1), with(8));
    assert!(more < 0.95 * little, "{more} {little}");
}

#[test]
fn a_kept_model_estimates_the_same_and_only_what_it_was_made_for() {
    let study = study();
    let data = NeuralStudy::new(&study, plan(FeatureSet::Both, 1)).unwrap();
    let run = run(&data);
    let history = run.history();
    let estimator = data.assemble(&run.best()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (windows, links) = (&study.windows()[..50], study.network().link_ids().collect::<Vec<_>>());
    let expected = estimator.estimate_all(study.loops(), study.fleets(), windows).unwrap();
    let error = estimator.estimate(&Study::open(crate::data(), "fleet-100").unwrap(), windows);
    let error = error.err().unwrap();
    assert!(matches!(error, NeuralError::Mismatch { .. }), "{error}");
    keep(estimator, folder.path(), &study, &history);
    let file = ModelFile::read(folder.path()).unwrap();
    let read = load(folder.path(), &study).unwrap();
    let asked = Asked { target: file.target, links: &links, windows };
    let (found, _) = read.estimate(&study.observed(), &file.fleets, &asked).unwrap();
    assert_eq!(found, expected);
    assert_eq!(file.history, history);

    let everyone = Study::open(crate::data(), "fleet-100").unwrap();
    let error = load(folder.path(), &everyone).err().unwrap().to_string();
    assert!(error.contains("penetration rate: found 1, expected 0.2"), "{error}");

    let weights = folder.path().join("weights.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    let error = load(folder.path(), &study).err().unwrap().to_string();
    assert!(error.contains("weights.safetensors"), "{error}");
    let nowhere = load(&folder.path().join("none"), &study).err().unwrap();
    assert!(matches!(nowhere, ModelFolderError::Io { .. }), "{nowhere}");
}

#[test]
fn counts_that_are_no_numbers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("data");
    copy_files(&copy, &["features/loops.parquet", "features/all.parquet"]);
    copy_files(&copy, &["features/fleet-20.parquet"]);
    let study = study();
    let (steps, loops) = (study.steps().count(), study.network().loops().len());
    let columns =
        [("step", ColumnKind::I64), ("loop", ColumnKind::I32), ("count", ColumnKind::OptionalF64)];
    let with = |count: fn(usize) -> Option<f64>| {
        let path = copy.join("features").join("loops.parquet");
        let mut table = TableWriter::create(&path, &columns).unwrap();
        let rows = steps * loops;
        let numbers = [
            Column::I64((0..rows).map(|row| (row / loops) as i64).collect()),
            Column::I32((0..rows).map(|row| (row % loops) as i32).collect()),
            Column::OptionalF64((0..rows).map(count).collect()),
        ];
        table.write(&numbers).unwrap();
        table.finish().unwrap();
        let study = Study::open(&copy, "fleet-20").unwrap();
        NeuralStudy::new(&study, plan(FeatureSet::Host, 1)).err().unwrap().to_string()
    };
    let error = with(|row| Some(if row == 7 { f64::NAN } else { 1.0 }));
    assert!(error.contains("loop counts: found NaN, expected a finite number"), "{error}");
    let error = with(|_| None);
    assert!(error.contains("found no count in the training part"), "{error}");
}

/// Each party has the network, the manifest and its own tables, and reads from them what the
/// joint model reads from the whole.
#[test]
fn no_party_needs_a_file_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (host, guest) = (folder.path().join("host"), folder.path().join("guest"));
    copy_files(&host, &["features/loops.parquet", "features/all.parquet"]);
    copy_files(&guest, &["features/fleet-20.parquet"]);

    let whole = study();
    let plan = plan(FeatureSet::Both, 1);
    let joint = NeuralStudy::new(&whole, plan.clone()).unwrap();
    let city = Study::open_fleets(&host, &[]).unwrap();
    let city = HostStudy::new(&city, &plan).unwrap();
    let fleet = FleetData::open(&guest, "fleet-20").unwrap();
    assert_eq!(fleet.timeline().windows(), city.timeline().windows());
    let (inputs, record) = plan.guests[0].read(&fleet, &whole.train_span()).unwrap();
    assert_eq!(city.record(), &joint.data().record.host);
    assert_eq!(record, joint.data().record.guests[0]);
    assert_eq!(plan.guests[0].shape(&inputs, plan.sizes), joint.data().record.shape.guests[0]);

    let last = whole.split().validation[3];
    let window = Window::whole(last);
    let (mut host_row, mut guest_row) = (vec![0.0; city.inputs().len()], vec![0.0; inputs.len()]);
    joint.data().host.write_row(window, &mut host_row);
    joint.data().guests[0].write_row(window, &mut guest_row);
    let (mut own, mut guests) = (vec![0.0; city.inputs().len()], vec![0.0; inputs.len()]);
    city.inputs().write(last, &mut own);
    inputs.write(last, &mut guests);
    assert_eq!([own, guests], [host_row, guest_row]);

    // And neither can look into the other's.
    assert!(FleetData::open(&host, "fleet-20").is_err());
    assert!(LoopData::open(&guest).is_err());
    assert!(Study::open_fleets(&guest, &[]).is_err());
    // What a host asks for may not be there.
    assert!(fleet.timeline().has_window(last));
    let first = whole.steps().next().unwrap();
    assert!(!fleet.timeline().has_window(first) && !fleet.timeline().has_window(Step(i64::MAX)));
}

#[test]
fn two_guests_may_see_different_things() {
    let study = Study::open_fleets(data(), &["fleet-20", "fleet-100"]).unwrap();
    let guests = vec![
        GuestPlan::new("speeds", GuestFeatures::Speeds, Architecture::Link),
        GuestPlan::new("totals", GuestFeatures::Totals, Architecture::Link),
    ];
    let plan = plan(FeatureSet::Host, 8);
    let alone = test_error(&study, plan.clone());
    let both = test_error(&study, plan.clone().with_guests(guests.clone()));
    // The second sees every vehicle: little is left to guess.
    assert!(both < 0.5 * alone, "{both} {alone}");
    let error = NeuralStudy::new(&study, plan.with_guests(guests[..1].to_vec())).err().unwrap();
    assert!(error.to_string().contains("fleets: found 2, expected 1"), "{error}");
}

/// A model that was made for something else, told by its record.
#[test]
fn a_model_for_other_data_is_refused() {
    let study = study();
    let data = NeuralStudy::new(&study, plan(FeatureSet::Both, 1)).unwrap();
    let untrained = CentralRun::new(data.data(), HostLoss::of(data.objective())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    keep(data.assemble(&untrained.best()).unwrap(), folder.path(), &study, &[]);
    let path = folder.path().join("model.json");
    let sound = std::fs::read_to_string(&path).unwrap();
    for (from, to, expected) in [
        ("sha256:", "sha256:0", "network hash: found sha256:"),
        ("\"window\": 9", "\"window\": 8", "steps of a window: found 9, expected 8"),
        ("\"step_s\": 10.0", "\"step_s\": 20.0", "length of a step, s: found 10, expected 20"),
        ("\"loops\": [\n          \"", "\"loops\": [\n          \"x", "loops: found "),
        ("fedtse-model/5", "fedtse-model/4", "format: found \"fedtse-model/4\""),
    ] {
        let other = sound.replace(from, to);
        assert_ne!(other, sound, "{from}");
        std::fs::write(&path, other).unwrap();
        let error = load(folder.path(), &study).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::write(&path, &sound).unwrap();
    load(folder.path(), &study).unwrap();
    let alone = Study::open_fleets(crate::data(), &[]).unwrap();
    let none = load(folder.path(), &alone).err().unwrap().to_string();
    assert!(none.contains("fleets: found 0, expected 1"), "{none}");
}

#[test]
fn cells_that_were_not_made_are_missed() {
    let study = study();
    let error = NeuralStudy::new(&study, plan(FeatureSet::BothAndCells, 1)).err().unwrap();
    assert_eq!(error, NeuralError::Inputs(InputsError::NoCells));
}
