use traffic::{LinkId, PositionSource, VehicleClass, VehicleId};

use super::*;
use crate::test_roads::corridor;

fn sample(time: f64, vehicle: u32, position: f32) -> VehiclePosition {
    VehiclePosition {
        time,
        vehicle: VehicleId(vehicle),
        link: LinkId(0),
        position,
        lane: 1,
        speed: 2.5,
    }
}

fn vehicles() -> VehicleTable {
    let mut vehicles = VehicleTable::default();
    vehicles.number("taxi 7", VehicleClass::Taxi);
    vehicles.number("bus", VehicleClass::Bus);
    vehicles
}

fn written(folder: &Path, moments: &[(f64, Vec<VehiclePosition>)]) -> DatasetManifest {
    let provenance = Provenance { epoch: "simulation start".into(), ..Provenance::default() };
    let network = corridor().unwrap();
    let mut writer =
        DatasetWriter::create(folder, &network, provenance, Seconds::new(60.0)).unwrap();
    for (time, samples) in moments {
        writer.moment(Seconds::new(*time), samples).unwrap();
    }
    let count =
        LoopCount { detector: 1, begin: Seconds::new(0.0), end: Seconds::new(10.0), count: 4 };
    writer.finish(&vehicles(), &[count]).unwrap()
}

fn moments() -> Vec<(f64, Vec<VehiclePosition>)> {
    vec![
        (0.0, vec![sample(0.0, 0, 1.0), sample(0.0, 1, 50.25)]),
        (1.0, vec![]),
        (2.0, vec![sample(2.0, 1, 60.0)]),
        (100.0, vec![sample(100.0, 1, 70.0)]),
    ]
}

#[test]
fn a_dataset_reads_back_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = written(folder.path(), &moments());
    assert_eq!(manifest.recordings.len(), 2);
    let dataset = Dataset::open(folder.path()).unwrap();
    assert_eq!(dataset.manifest(), &manifest);
    assert_eq!(dataset.vehicles().all(), vehicles().all());
    assert_eq!(dataset.loops().unwrap().unwrap()[0].count, 4);
    let mut samples = dataset.samples().unwrap();
    let (mut read, mut out) = (Vec::new(), Vec::new());
    while let Some(time) = samples.next_moment(&mut out).unwrap() {
        read.push((time.get(), out.clone()));
    }
    // Moments without vehicles leave no rows; that they were watched is in the recordings.
    let expected: Vec<_> = moments().into_iter().filter(|(_, s)| !s.is_empty()).collect();
    assert_eq!(read, expected);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let network = corridor().unwrap();
    let gap = Seconds::new(60.0);
    let mut writer = DatasetWriter::create(&data, &network, Provenance::default(), gap).unwrap();
    writer.moment(Seconds::ZERO, &[sample(0.0, 0, 1.0)]).unwrap();
    assert!(data.join("network.toml").exists());
    drop(writer);
    assert!(!data.exists());
}

#[test]
fn a_folder_in_use_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), &moments());
    let error = DatasetWriter::create(
        folder.path(),
        &corridor().unwrap(),
        Provenance::default(),
        Seconds::new(60.0),
    );
    assert!(matches!(error, Err(DatasetError::NotEmpty(_))));
}

#[test]
fn a_dataset_of_another_network_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), &moments());
    let path = folder.path().join("network.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("length = 150.0", "length = 151.0", 1)).unwrap();
    let error = Dataset::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("network.toml: network hash: found sha256:"), "{error}");
}

#[test]
fn an_unfinished_or_newer_dataset_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Dataset::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("manifest.json: not found; is it a finished dataset?"), "{error}");
    written(folder.path(), &moments());
    let path = folder.path().join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("dataset/1", "dataset/2")).unwrap();
    let error = Dataset::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("expected \"fedtse-dataset/1\""), "{error}");
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    let error = Dataset::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("manifest.json: EOF while parsing"), "{error}");
}

#[test]
fn rows_that_cannot_be_true_are_named() {
    for (bad, problem) in [
        (vec![(1.0, vec![sample(1.0, 9, 0.0)])], "row 1: vehicle: found number 9, expected 0 to 1"),
        (
            vec![(1.0, vec![sample(1.0, 0, -3.0)])],
            "row 1: position: found -3 m, expected 0 to 150 m",
        ),
        (
            vec![(1.0, vec![sample(1.0, 0, 0.0), sample(1.0, 0, 1.0)])],
            "row 2: vehicle: found number 0 after 0 at the same time",
        ),
        (
            vec![(2.0, vec![sample(2.0, 0, 0.0), sample(1.0, 0, 1.0)])],
            "row 2: time: found 1, expected later than 2",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), &bad);
        let dataset = Dataset::open(folder.path()).unwrap();
        let (mut samples, mut out) = (dataset.samples().unwrap(), Vec::new());
        let error = loop {
            match samples.next_moment(&mut out) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no error: expected {problem}"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains(problem), "{error}");
    }
}
