//! What the targets share: a network to read onto, files to read from, and what follows a read.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use protocol::ledger::{MemorySink, Recorded};
use protocol::{Ledger, Now, PartyId, Released};
use sensing::matching::MatchParameters;
use sensing::{
    Dataset, DatasetWriter, FeaturePlan, Features, FileKind, Fleets, Provenance, TrajectoryImport,
    VehicleTable, extract_dataset, make_features,
};
use tempfile::TempDir;
use traffic::{Network, PositionSource, Seconds, VehicleClass, VehicleId, VehiclePosition, parse_network};

/// The network that files are read onto.
pub fn network() -> &'static Network {
    static NETWORK: OnceLock<Network> = OnceLock::new();
    NETWORK.get_or_init(|| sound(parse_network(include_str!("../network.toml"))))
}

/// A path of this process's own, in the temporary folder.
pub fn path(name: &str) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder")).path().join(name)
}

/// A file with these bytes.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = path(name);
    std::fs::write(&path, bytes).expect("room in the temporary folder");
    path
}

/// The Parquet reader turns its decoder's panics into errors; libFuzzer would stop at them before
/// it can. A panic that gets out still ends the run.
pub fn let_panics_be_caught() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// Reads all moments.
pub fn drain<S: PositionSource>(mut source: S) {
    let mut samples = Vec::new();
    while let Ok(Some(_)) = source.next_moment(&mut samples) {}
}

/// Imports trajectories; if they can be read, all that is made of them must be as well.
pub fn import(name: &str, bytes: &[u8], kind: FileKind) {
    let source = file(name, bytes);
    let mut import = TrajectoryImport::new(network());
    if import.read(&source, kind, &mut |_| {}).is_err() {
        return;
    }
    let folder = path("imported");
    let _ = std::fs::remove_dir_all(&folder);
    let mut writer =
        sound(DatasetWriter::create(&folder, network(), Provenance::default(), Seconds::new(60.0)));
    let (vehicles, _) = sound(import.write(&mut writer, MatchParameters::default()));
    sound(writer.finish(&vehicles, &[]));
    sound(extract_dataset(
        &sound(Dataset::open(&folder)),
        plan(),
        Seconds::new(f64::NEG_INFINITY),
        |_| {},
        |_, _| {},
    ));
}

/// A small dataset with features, of which `replaced` has these bytes instead of its own.
pub fn dataset_with(replaced: &str, bytes: &[u8]) -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let folder = MADE.get_or_init(|| {
        let folder = path("dataset");
        make_dataset(&folder);
        folder
    });
    std::fs::write(folder.join(replaced), bytes).expect("room in the temporary folder");
    folder.clone()
}

fn make_dataset(folder: &Path) {
    let mut vehicles = VehicleTable::default();
    vehicles.number("0", VehicleClass::Car);
    vehicles.number("1", VehicleClass::Bus);
    let epoch = Provenance { epoch: "simulation start".into(), ..Provenance::default() };
    let mut writer = sound(DatasetWriter::create(folder, network(), epoch, Seconds::new(60.0)));
    let link = network().link_named("E1").expect("a link of the network");
    for second in 0..=30 {
        let sample = |vehicle: u32, position: f32| VehiclePosition {
            time: f64::from(second),
            vehicle: VehicleId(vehicle),
            link,
            position,
            lane: vehicle as u8,
            speed: 4.0,
        };
        let samples = [sample(0, 4.0 * second as f32), sample(1, 2.0 * second as f32)];
        sound(writer.moment(Seconds::new(f64::from(second)), &samples));
    }
    sound(writer.finish(&vehicles, &[]));
    sound(make_features(
        &sound(Dataset::open(folder)),
        plan(),
        Seconds::new(f64::NEG_INFINITY),
        |_, _| {},
    ));
}

/// Opens a dataset and makes its features in memory, as far as its content allows. Not of more than
/// a day: long recordings may take long.
pub fn open_and_extract(folder: &Path) {
    if let Ok(dataset) = Dataset::open(folder) {
        let _ = dataset.loops();
        let recordings = dataset.manifest().recordings.iter();
        let seconds: f64 = recordings.map(|span| (span.end - span.begin).get()).sum();
        if seconds < 86_400.0 {
            let from = Seconds::new(f64::NEG_INFINITY);
            let _ = extract_dataset(&dataset, plan(), from, |_| {}, |_, _| {});
        }
    }
}

/// Ends the run if the seeds of manifests are out of date, as they would find nothing: then run
/// `fuzz/make_seeds.sh`.
pub fn check_manifest_seeds() {
    let seed = include_bytes!("../seeds/dataset_manifest/manifest.json");
    sound(Dataset::open(&dataset_with("manifest.json", seed)));
    let seed = include_bytes!("../seeds/features_manifest/manifest.json");
    sound(Features::open(&dataset_with("features/manifest.json", seed), network()));
}

/// Reads stored features, as far as their content allows.
pub fn read_features(folder: &Path) {
    if let Ok(features) = Features::open(folder, network()) {
        let held = &features.manifest().held;
        let _ = (held.len(), held.windows(9).len());
        let _ = (features.all(), features.fleet("fleet-20"), features.loops(2));
    }
}

/// A message as a party's ledger lets it go.
pub fn released<M: Recorded>(message: M) -> Released<M> {
    let party = sound(PartyId::new("fuzz"));
    let mut ledger = sound(Ledger::in_memory(&MemorySink::default(), &party));
    sound(ledger.release(Now::default(), &party, message))
}

fn plan() -> FeaturePlan {
    FeaturePlan::paper(sound(Fleets::nested(&[0.2], 1)))
}

fn sound<T, E: Debug>(result: Result<T, E>) -> T {
    result.expect("what was read can be used")
}
