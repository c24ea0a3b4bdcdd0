//! Numerical regression: scores and weights of small runs, compared bit for bit with recorded digests.
//!
//! `regression/digests.json` holds, for each case below, the bits of its scores, its best epoch, its rounds, and
//! SHA-256 of the tensors that its parties kept. A change that is meant to leave all numbers alone must leave that
//! file alone. After a change that is meant to alter numbers:
//!
//! ```text
//! FEDTSE_RECORD_DIGESTS=1 cargo test -p fedtse --test regression
//! ```
//!
//! Bits depend on fused multiply-add and on the system's mathematical functions. The file says on which machine it was
//! recorded ([`machine`]); on another one, scores are compared within [`TOLERANCE`] and weights are not compared.

mod common;
mod parties;

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use common::{ok, ok_json, text};
use parties::{Gate, Party, finish, free_port, wait_for};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

// Names of the program's interface that this file relies on, besides the arguments in the tables of cases and the
// configurations in `Federation::configure`. If the program renames something, rename it here; digests do not hold
// names.

/// Keys of a report.
const SCORE: &str = "score";
const BEST_EPOCH: &str = "best_epoch";
const ROUNDS: &str = "rounds";
/// Of a report of parties: the key of an object with the best epoch and the rounds.
const SUMMARY: &str = "finished";
/// The same: the key of an object with the program's own digests of weights, by party.
const REPORTED_WEIGHTS: &str = "weights";
/// The extension of files with weights. Other files of a model are not part of a digest.
const WEIGHTS: &str = "safetensors";
/// How the names of checkpoints begin: what a central run keeps after each epoch, and a federated one from time to time.
const CENTRAL_CHECKPOINT: &str = "run.state";
const FEDERATED_CHECKPOINT: &str = "host/round-";
/// A model of all parties together, and the folder of one party's part of it.
const WHOLE_MODEL: &str = "model.json";
const PARTY_MODEL: &str = "model";
/// Checkpoints of a party begin like this.
const PARTY_CHECKPOINT: &str = "round-";
/// Files with noised numbers.
const NOISE: &str = "noise";
/// Where in a record of theirs the step, the grid's centre and step, and the levels stand, after whose count; and the
/// bytes of the record's check.
const NOISE_STEP: usize = 1;
const NOISE_GRID: usize = 1 + 8 + 16 + 4 + 8;
const NOISE_LEVELS: usize = NOISE_GRID + 2 * 8 + 2 * 4;
const NOISE_CHECK: usize = 8;
/// Where a guest keeps them.
const GUEST_NOISE: &str = "data/noise";

/// On another machine than that of the record: relative difference of a score, at most.
///
/// Without fused multiply-add in `neural` the scores of these cases change by 2e-5 at most, and by less than 1e-6 in all
/// but two (measured with its portable kernel on the machine of the record). This leaves room for other mathematical
/// functions, and is still far below the effect of a different algorithm.
const TOLERANCE: f64 = 1e-3;

/// With this variable, digests are recorded instead of compared.
const RECORD: &str = "FEDTSE_RECORD_DIGESTS";

/// Most time until a run has written its first checkpoint.
const PATIENCE: Duration = Duration::from_secs(300);

/// A case of `fedtse train`.
struct Case {
    name: &'static str,
    data: Data,
    /// Words after those that all cases have ([`Dataset::train`]).
    arguments: &'static str,
    with: With,
}

/// Which of two simulations.
#[derive(Clone, Copy, PartialEq)]
enum Data {
    Usual,
    /// Of a few minutes: commitments to each measurement take a while.
    Short,
}

/// How a case is run.
#[derive(Clone, Copy, PartialEq)]
enum With {
    /// The score alone: the method keeps no model.
    Score,
    /// The model is kept.
    Weights,
    /// The same, but the run is killed after a checkpoint and started again.
    Resumed(&'static str),
    /// The score, with noise that is the same each time ([`repeat_noise`]).
    Noise,
}

const fn case(name: &'static str, arguments: &'static str, with: With) -> Case {
    Case { name, data: Data::Usual, arguments, with }
}

const fn short(name: &'static str, arguments: &'static str, with: With) -> Case {
    Case { name, data: Data::Short, arguments, with }
}

/// References and central models.
const CENTRAL: &[Case] = &[
    case("scale-up", "--method scale-up --target raw,smooth", With::Score),
    case("ukf", "--method ukf --target raw,smooth", With::Score),
    case("qest", "--method qest --target raw,smooth", With::Score),
    case("qest-f", "--method qest-f --target raw,smooth", With::Score),
    case("qest-live", "--method qest-live --target raw", With::Score),
    case("qest-f-live", "--method qest-f-live --target raw", With::Score),
    case("ridge-n", "--method ridge-n --target raw,smooth", With::Score),
    case("ridge-p", "--method ridge-p --target raw,smooth", With::Score),
    case("ridge", "--method ridge --target raw,smooth", With::Score),
    case("tse-n link", "--method tse-n --target raw --epochs 2", With::Weights),
    case("tse-n paper", "--method tse-n --target smooth --epochs 2 --arch paper", With::Weights),
    case("tse-p link", "--method tse-p --target smooth --epochs 2", With::Weights),
    case("tse-p paper", "--method tse-p --target raw --epochs 2 --arch paper", With::Weights),
    case("oracle link", "--method oracle --target raw --epochs 2", With::Weights),
    case("oracle paper", "--method oracle --target raw --epochs 2 --arch paper", With::Weights),
    case("oracle smooth", "--method oracle --target smooth --epochs 2 --seed 7", With::Weights),
    case("oracle-cell link", "--method oracle-cell --target raw --epochs 2", With::Weights),
    case(
        "oracle-cell paper",
        "--method oracle-cell --target raw --epochs 1 --arch paper",
        With::Weights,
    ),
    case(
        "oracle dropout",
        "--method oracle --target raw --epochs 2 --party-dropout 0.3 --sub-model mlp --embedding-size 2",
        With::Weights,
    ),
    case("oracle long", "--method oracle --target raw --epochs 12", With::Weights),
    case(
        "oracle long, resumed",
        "--method oracle --target raw --epochs 12",
        With::Resumed(CENTRAL_CHECKPOINT),
    ),
    case("hf link", "--method hf --target raw --epochs 1", With::Score),
    case("hf paper smooth", "--method hf --target smooth --epochs 1 --arch paper", With::Score),
    case("hf-local", "--method hf-local --target raw --epochs 1", With::Score),
    case("hf-cell", "--method hf-cell --target raw --epochs 1", With::Score),
    case("tse-pi-p link", "--method tse-pi-p --epochs 1", With::Score),
    case(
        "tse-pi-p paper labels",
        "--method tse-pi-p --epochs 1 --arch paper --label-share 30",
        With::Score,
    ),
    case("oracle-pi link", "--method oracle-pi --epochs 2", With::Score),
    case("oracle-pi paper", "--method oracle-pi --epochs 1 --arch paper", With::Score),
    case(
        "oracle-pi labels",
        "--method oracle-pi --epochs 1 --label-share 20 --learn-physics",
        With::Score,
    ),
    case("oracle-pi-v", "--method oracle-pi-v --epochs 1 --segment 8", With::Score),
    case("oracle-pi-v learned", "--method oracle-pi-v --epochs 2 --learn-physics", With::Score),
    case("oracle-pi-k", "--method oracle-pi-k --epochs 1 --no-physics", With::Score),
    case("oracle-pi-hf", "--method oracle-pi-hf --epochs 1 --label-share 10", With::Score),
];

/// Host and guests in one process that learn from labels. The longest cases come first.
const LABELLED: &[Case] = &[
    case("fedtse long", "--method fedtse --target raw --epochs 60", With::Weights),
    case(
        "fedtse long, resumed",
        "--method fedtse --target raw --epochs 60",
        With::Resumed(FEDERATED_CHECKPOINT),
    ),
    case(
        "fedtse-cell g3 q2 long, resumed",
        "--method fedtse-cell --target raw --epochs 60 --guests 3 --q 2 --compression q8 --learning-rate 0.0003",
        With::Resumed(FEDERATED_CHECKPOINT),
    ),
    case("fedtse g1 q1 link", "--method fedtse --target raw --epochs 2", With::Weights),
    case("fedtse g1 q2 link", "--method fedtse --target smooth --epochs 2 --q 2", With::Weights),
    case(
        "fedtse g3 q1 link",
        "--method fedtse --target smooth --epochs 2 --guests 3",
        With::Weights,
    ),
    case(
        "fedtse g3 q2 link",
        "--method fedtse --target raw --epochs 2 --guests 3 --q 2",
        With::Weights,
    ),
    case(
        "fedtse g1 q1 paper",
        "--method fedtse --target smooth --epochs 2 --arch paper",
        With::Weights,
    ),
    case(
        "fedtse g1 q2 paper",
        "--method fedtse --target raw --epochs 2 --arch paper --q 2",
        With::Weights,
    ),
    case(
        "fedtse g3 q1 paper",
        "--method fedtse --target raw --epochs 2 --arch paper --guests 3",
        With::Weights,
    ),
    case(
        "fedtse g3 q2 paper",
        "--method fedtse --target raw --epochs 2 --arch paper --guests 3 --q 2",
        With::Weights,
    ),
    case(
        "fedtse-cell g1 link",
        "--method fedtse-cell --target raw --epochs 2 --q 2",
        With::Weights,
    ),
    case(
        "fedtse-cell g3 link",
        "--method fedtse-cell --target smooth --epochs 2 --guests 3",
        With::Weights,
    ),
    case(
        "fedtse-cell g3 paper",
        "--method fedtse-cell --target raw --epochs 1 --guests 3 --arch paper",
        With::Weights,
    ),
    case(
        "fedtse frozen",
        "--method fedtse --target raw --epochs 2 --guests 3 --q 3 --frozen",
        With::Weights,
    ),
    case(
        "fedtse frozen proximal paper",
        "--method fedtse --target raw --epochs 2 --q 2 --frozen --proximal 0.1 --arch paper",
        With::Weights,
    ),
    case(
        "fedtse proximal",
        "--method fedtse --target raw --epochs 2 --guests 3 --q 2 --proximal 0.01",
        With::Weights,
    ),
    case(
        "fedtse f16 g1",
        "--method fedtse --target raw --epochs 2 --compression f16",
        With::Weights,
    ),
    case(
        "fedtse f16 g3 paper",
        "--method fedtse --target raw --epochs 2 --compression f16 --guests 3 --arch paper --q 2",
        With::Weights,
    ),
    case(
        "fedtse q8 g3",
        "--method fedtse --target raw --epochs 2 --compression q8 --guests 3",
        With::Weights,
    ),
    case(
        "fedtse q8 g1 q2 frozen",
        "--method fedtse --target raw --epochs 2 --compression q8 --q 2 --frozen",
        With::Weights,
    ),
    case(
        "fedtse dropout",
        "--method fedtse --target raw --epochs 2 --guests 3 --party-dropout 0.3",
        With::Weights,
    ),
    case(
        "fedtse dropout paper q8",
        "--method fedtse --target raw --epochs 2 --q 2 --party-dropout 0.2 --arch paper --compression q8",
        With::Weights,
    ),
    case(
        "fedtse mlp",
        "--method fedtse --target raw --epochs 2 --guests 3 --sub-model mlp --embedding-size 2",
        With::Weights,
    ),
    case(
        "fedtse linear",
        "--method fedtse --target raw --epochs 2 --sub-model linear --head-units 8 --q 2",
        With::Weights,
    ),
    case(
        "fedtse stgcn",
        "--method fedtse --target raw --epochs 1 --sub-model stgcn",
        With::Weights,
    ),
];

/// Host and guests in one process that learn from measurements. The longest cases come first.
const MEASURED: &[Case] = &[
    short(
        "fedtse-pi-v sealed g3 commitments",
        "--method fedtse-pi-v --privacy sealed --epochs 1 --segment 2 --guests 3 --commitments",
        With::Score,
    ),
    short(
        "fedtse-pi-k sealed+noise commitments",
        "--method fedtse-pi-k --epochs 1 --segment 2 --q 2 --commitments",
        With::Noise,
    ),
    case("fedtse-hf g1", "--method fedtse-hf --epochs 1", With::Score),
    case("fedtse-hf g3 q2", "--method fedtse-hf --epochs 1 --guests 3 --q 2", With::Score),
    case("fedtse-hf g1 paper", "--method fedtse-hf --epochs 1 --arch paper", With::Score),
    case("fedtse-pi-hf g1 q2", "--method fedtse-pi-hf --epochs 1 --q 2", With::Score),
    case(
        "fedtse-pi-hf g3",
        "--method fedtse-pi-hf --epochs 1 --guests 3 --learn-physics --compression f16",
        With::Score,
    ),
    case("fedtse-pi clear g1 link", "--method fedtse-pi --privacy clear --epochs 2", With::Score),
    case(
        "fedtse-pi clear g3 q2 paper",
        "--method fedtse-pi --privacy clear --epochs 1 --guests 3 --q 2 --arch paper",
        With::Score,
    ),
    case(
        "fedtse-pi clear learned",
        "--method fedtse-pi --privacy clear --epochs 2 --learn-physics --proximal 0.01 --q 2",
        With::Score,
    ),
    case(
        "fedtse-pi noisy-clear g3 link",
        "--method fedtse-pi --privacy noisy-clear --epochs 2 --guests 3",
        With::Noise,
    ),
    case(
        "fedtse-pi noisy-clear g1 q2 paper",
        "--method fedtse-pi --privacy noisy-clear --epochs 1 --q 2 --arch paper",
        With::Noise,
    ),
    case("fedtse-pi sealed g1", "--method fedtse-pi --privacy sealed --epochs 1", With::Score),
    case(
        "fedtse-pi sealed g3 q2",
        "--method fedtse-pi --privacy sealed --epochs 1 --guests 3 --q 2",
        With::Score,
    ),
    case(
        "fedtse-pi sealed+noise g1 q2",
        "--method fedtse-pi --privacy sealed+noise --epochs 1 --q 2",
        With::Noise,
    ),
    case(
        "fedtse-pi sealed+noise g3",
        "--method fedtse-pi --privacy sealed+noise --epochs 1 --guests 3",
        With::Noise,
    ),
    case(
        "fedtse-pi-v clear g3",
        "--method fedtse-pi-v --privacy clear --epochs 2 --guests 3 --no-physics",
        With::Score,
    ),
    case(
        "fedtse-pi-v clear q8 dropout",
        "--method fedtse-pi-v --privacy clear --epochs 2 --compression q8 --party-dropout 0.3",
        With::Score,
    ),
    case(
        "fedtse-pi-v noisy-clear vehicle-step",
        "--method fedtse-pi-v --privacy noisy-clear --epochs 2 --unit vehicle-step --epsilon 4",
        With::Noise,
    ),
    case(
        "fedtse-pi-v sealed learned",
        "--method fedtse-pi-v --privacy sealed --epochs 1 --q 2 --frozen --learn-physics",
        With::Score,
    ),
    case("fedtse-pi-v sealed+noise", "--method fedtse-pi-v --epochs 1 --q 2", With::Noise),
    case(
        "fedtse-pi-k clear g1 q2 paper",
        "--method fedtse-pi-k --privacy clear --epochs 1 --q 2 --arch paper",
        With::Score,
    ),
    case(
        "fedtse-pi-k noisy-clear g3 q2",
        "--method fedtse-pi-k --privacy noisy-clear --epochs 2 --guests 3 --q 2 --frozen",
        With::Noise,
    ),
    case(
        "fedtse-pi-k sealed f16",
        "--method fedtse-pi-k --privacy sealed --epochs 1 --compression f16 --no-physics",
        With::Score,
    ),
    case("fedtse-pi-k sealed+noise g3", "--method fedtse-pi-k --epochs 1 --guests 3", With::Noise),
];

/// A federation of processes that speak gRPC over mutual TLS, and the same in one process.
struct Federation {
    name: &'static str,
    data: Data,
    guests: usize,
    /// Lines of the host's section on training.
    training: &'static str,
    /// Lines of each guest's section on its model.
    model: &'static str,
    /// What guests measure.
    measures: &'static str,
    /// Parts of each guest's fleet, one of which is held out at a time.
    folds: usize,
    /// The policy of all guests; without one, measurements are sealed and noised.
    policy: Option<&'static str>,
    /// Whether noise is to be made the same each time.
    noise: bool,
    /// Whether the host and a guest are killed after a checkpoint and started again: then `fleet-1` may send so many
    /// bytes at a time until then, far fewer than the run needs.
    resumed: Option<u64>,
}

/// The fewest bytes that the gate can let pass.
const A_PACKET: u64 = 4096;

const LABELS: Federation = Federation {
    name: "",
    data: Data::Usual,
    guests: 1,
    training: "",
    model: "",
    measures: "[]",
    folds: 1,
    policy: None,
    noise: false,
    resumed: None,
};

/// The longest case comes first.
const FEDERATIONS: &[Federation] = &[
    Federation {
        name: "grpc pi-k sealed g1 q2 link commitments, resumed",
        data: Data::Short,
        training: "epochs = 3\nmethod = \"pi-k\"\nsegment = 2\nlocal-updates = 2\ncommitments = \"physical\"",
        measures: "[\"queues\"]",
        policy: Some("noise = false\n"),
        resumed: Some(100_000),
        ..LABELS
    },
    Federation { name: "grpc labels g1 q1 link", training: "epochs = 3", ..LABELS },
    Federation {
        name: "grpc labels g1 q1 link, resumed",
        training: "epochs = 3",
        resumed: Some(A_PACKET),
        ..LABELS
    },
    Federation {
        name: "grpc labels g3 q2 link, resumed",
        guests: 3,
        training: "epochs = 3\nlocal-updates = 2\nparty-dropout = 0.2",
        resumed: Some(A_PACKET),
        ..LABELS
    },
    Federation {
        name: "grpc labels g1 q2 paper q8",
        training: "epochs = 2\nlocal-updates = 2\narch = \"paper\"\ncompression = \"q8\"",
        model: "arch = \"paper\"\ncompression = \"q8\"",
        ..LABELS
    },
    Federation {
        name: "grpc labels g3 q1 paper f16, resumed",
        guests: 3,
        training: "epochs = 12\narch = \"paper\"\ncompression = \"f16\"\nproximal = 0.01",
        model: "arch = \"paper\"\ncompression = \"f16\"",
        resumed: Some(A_PACKET),
        ..LABELS
    },
    Federation {
        name: "grpc hf g1 q2 link",
        training: "epochs = 1\nmethod = \"hf\"\nlocal-updates = 2\nvariant = \"frozen\"",
        measures: "[\"held-out\"]",
        folds: 8,
        ..LABELS
    },
    Federation {
        name: "grpc pi-hf g3 q1 link, resumed",
        guests: 3,
        training: "epochs = 1\nmethod = \"pi-hf\"",
        measures: "[\"held-out\", \"queues\"]",
        folds: 8,
        resumed: Some(A_PACKET),
        ..LABELS
    },
    Federation {
        name: "grpc pi clear g3 q2 paper",
        guests: 3,
        training: "epochs = 1\nmethod = \"pi\"\nlocal-updates = 2\narch = \"paper\"\nsealed = false",
        model: "arch = \"paper\"",
        measures: "[\"queues\", \"speeds\"]",
        policy: Some("sealed-only = false\nnoise = false\n"),
        ..LABELS
    },
    Federation {
        name: "grpc pi-v noisy-clear g1 q1 link, resumed",
        training: "epochs = 2\nmethod = \"pi-v\"\nsealed = false",
        measures: "[\"speeds\"]",
        policy: Some("sealed-only = false\n[noise]\nepsilon = 4.0\n"),
        noise: true,
        resumed: Some(A_PACKET),
        ..LABELS
    },
    Federation {
        name: "grpc pi sealed+noise g3 q1 link",
        guests: 3,
        training: "epochs = 1\nmethod = \"pi\"",
        measures: "[\"queues\", \"speeds\"]",
        noise: true,
        ..LABELS
    },
];

#[test]
fn central_models_and_references_are_as_recorded() {
    check_trained("central", CENTRAL);
}

#[test]
fn federations_with_labels_are_as_recorded() {
    check_trained("labelled", LABELLED);
}

#[test]
fn federations_without_labels_are_as_recorded() {
    check_trained("measured", MEASURED);
}

#[test]
fn processes_are_as_recorded() {
    let data = Dataset::shared();
    let cases = FEDERATIONS.iter().map(|case| (case.name, move |data: &Dataset| case.run(data)));
    check("processes", &data, cases.collect());
}

fn check_trained(section: &str, cases: &'static [Case]) {
    let data = Dataset::shared();
    let cases = cases.iter().map(|case| (case.name, move |data: &Dataset| case.run(data)));
    check(section, &data, cases.collect());
}

/// What is recorded of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Digest {
    /// Bits of each error, of each row in ascending order.
    score: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    best_epochs: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    rounds: Vec<u64>,
    /// By party, or of the one model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    weights: BTreeMap<String, String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    machine: String,
    sections: BTreeMap<String, BTreeMap<String, Digest>>,
}

impl Record {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regression/digests.json")
    }

    fn read() -> Self {
        let Ok(content) = fs::read(Self::path()) else { return Record::default() };
        serde_json::from_slice(&content).expect("a file of digests")
    }
}

/// Runs all cases, then compares them with what is recorded, or records them.
fn check<F>(section: &str, data: &Dataset, cases: Vec<(&'static str, F)>)
where
    F: Fn(&Dataset) -> Digest + Sync,
{
    static RECORDING: Mutex<()> = Mutex::new(());
    let found = run_all(data, &cases);
    let machine = machine();
    if std::env::var_os(RECORD).is_some() {
        let _alone = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = Record::read();
        record.machine = machine;
        record.sections.insert(section.to_owned(), found);
        let mut content = serde_json::to_string_pretty(&record).expect("JSON");
        content.push('\n');
        fs::write(Record::path(), content).expect("a file of digests");
        return;
    }
    let record = Record::read();
    let same_machine = record.machine == machine;
    if !same_machine {
        println!(
            "recorded on {}, this is {machine}: scores are compared within {TOLERANCE}, weights not at all",
            record.machine
        );
    }
    let expected = record.sections.get(section).cloned().unwrap_or_default();
    let mut differences = Vec::new();
    for (name, found) in &found {
        let Some(expected) = expected.get(name) else {
            differences.push(format!("{name}: not recorded; found {found:?}"));
            continue;
        };
        let same = if same_machine { found == expected } else { found.is_near(expected) };
        if !same {
            differences.push(format!("{name}:\n  found    {found:?}\n  expected {expected:?}"));
        }
    }
    let gone = expected.keys().filter(|name| !found.contains_key(*name));
    differences.extend(gone.map(|name| format!("{name}: recorded, but there is no such case")));
    assert!(
        differences.is_empty(),
        "{} of {} cases differ\n{}",
        differences.len(),
        found.len(),
        differences.join("\n")
    );
}

impl Digest {
    fn is_near(&self, other: &Digest) -> bool {
        let near = |(a, b): (&String, &String)| {
            let value = |bits| u64::from_str_radix(bits, 16).map(f64::from_bits).expect("bits");
            let (a, b) = (value(a), value(b));
            (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
        };
        self.score.len() == other.score.len()
            && self.score.iter().zip(&other.score).all(near)
            && self.rounds == other.rounds
    }
}

/// What bits depend on: the processor's family, whether products are fused, and mathematical functions of the system.
///
/// AVX-512 and AVX2 give the same bits, see `neural::kernel`.
fn machine() -> String {
    #[cfg(target_arch = "x86_64")]
    let fused = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let fused = false;
    let mut hash = Sha256::new();
    for i in 1..=4096_u16 {
        let x = black_box(f64::from(i) / 409.6);
        let wide =
            [x.exp(), x.ln(), x.sin(), x.cos(), x.tanh(), x.powf(1.7), x.exp_m1(), x.ln_1p()];
        wide.iter().for_each(|y| hash.update(y.to_le_bytes()));
        let x = black_box(f32::from(i) / 409.6);
        let narrow = [x.exp(), x.ln(), x.sin(), x.cos(), x.tanh(), x.powf(1.7)];
        narrow.iter().for_each(|y| hash.update(y.to_le_bytes()));
    }
    let functions = &hexadecimal(&hash.finalize())[..16];
    let products = if fused { "fused" } else { "plain" };
    format!("{}, {products} products, functions {functions}", std::env::consts::ARCH)
}

/// Runs the cases side by side, one on each core, whatever other tests run.
fn run_all<F>(data: &Dataset, cases: &[(&'static str, F)]) -> BTreeMap<String, Digest>
where
    F: Fn(&Dataset) -> Digest + Sync,
{
    static BUSY: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((name, run)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let busy = BUSY.0.lock().unwrap_or_else(PoisonError::into_inner);
            let free = BUSY.1.wait_while(busy, |busy| *busy >= cores);
            *free.unwrap_or_else(PoisonError::into_inner) += 1;
            let began = Instant::now();
            let digest = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(data)));
            *BUSY.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            BUSY.1.notify_all();
            println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
            let digest = digest.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
            let twice = found.lock().expect("no panic").insert((*name).to_owned(), digest);
            assert!(twice.is_none(), "two cases are called {name}");
        }
    };
    std::thread::scope(|scope| {
        (0..cores).for_each(|_| {
            scope.spawn(work);
        });
    });
    found.into_inner().expect("no panic")
}

/// Two simulations, each with a fleet of half of all vehicles, whole and in parts, and certificates for all parties.
struct Dataset {
    folder: TempDir,
    /// Names of folders that were given.
    given: AtomicUsize,
}

impl Dataset {
    /// The dataset of all tests that run now.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Dataset>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let made = Arc::new(Dataset::new());
            *shared = Arc::downgrade(&made);
            made
        })
    }

    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let this = Dataset { folder, given: AtomicUsize::new(0) };
        for (which, minutes, warm_up, providers) in
            [(Data::Usual, "24", "2", "3,4,8,24"), (Data::Short, "9", "3", "3")]
        {
            let data = this.of(which);
            let times = ["--minutes", minutes, "--warm-up", warm_up];
            ok(&[&["simulate", "--seed", "5", "--out", text(&data)], &times[..]].concat());
            ok(&["features", text(&data), "--rates", "50", "--providers", providers]);
        }
        let certs = this.path("certs");
        ok(&["certs", "init", "--out", text(&certs)]);
        let certs = ["--authority", text(&certs), "--name"];
        ok(&[&["certs", "host"], &certs[..], &["city", "--address", "localhost"]].concat());
        let mut list = "[guests]\n".to_owned();
        for guest in ["fleet-1", "fleet-2", "fleet-3"] {
            ok(&[&["certs", "guest"], &certs[..], &[guest]].concat());
            let shown =
                ok_json(&["certs", "show", text(&this.path(&format!("certs/{guest}.pem")))]);
            let fingerprint = shown[0]["fingerprint"].as_str().expect("a fingerprint");
            list += &format!("{guest} = [\"{fingerprint}\"]\n");
        }
        fs::write(this.path("certs/guests.toml"), list).expect("a list of guests");
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of a simulation.
    fn of(&self, data: Data) -> PathBuf {
        self.path(if data == Data::Usual { "usual" } else { "short" })
    }

    /// A folder that nobody else has.
    fn new_folder(&self) -> PathBuf {
        self.path(&format!("run-{}", self.given.fetch_add(1, Ordering::Relaxed)))
    }

    /// `fedtse train` on one of them.
    fn train(&self, data: Data, arguments: &str) -> Vec<String> {
        let data = self.of(data);
        let all = ["train", "--data", text(&data), "--rate", "50"];
        // Digests of exchanges stay what they are, whatever is usual with several guests.
        let says = ["--fusion", "aggregate"].iter().any(|option| arguments.contains(option));
        let exchanged: &[&str] = match arguments.contains("--guests") && !says {
            true => &["--fusion", "concatenate"],
            false => &[],
        };
        let words = arguments.split_whitespace().chain(exchanged.iter().copied());
        all.into_iter().chain(words).map(str::to_owned).collect()
    }
}

impl Case {
    fn run(&self, data: &Dataset) -> Digest {
        let mut arguments = data.train(self.data, self.arguments);
        let folder = data.new_folder();
        match self.with {
            With::Score => {}
            With::Weights | With::Resumed(_) => {
                arguments.extend(["--out".to_owned(), text(&folder).to_owned()]);
                // Such short runs end before the usual time of a checkpoint.
                if arguments.iter().any(|word| word.starts_with("fedtse")) {
                    arguments.extend(["--checkpoint-s", "0.2"].map(str::to_owned));
                }
            }
            With::Noise => {
                arguments.extend(["--noise-folder".to_owned(), text(&folder).to_owned()]);
            }
        }
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match self.with {
            With::Score | With::Weights => {}
            With::Resumed(checkpoint) => interrupt(&words, &folder.join(checkpoint)),
            With::Noise => {
                ok_json(&words);
                repeat_noise(&folder);
            }
        }
        let report = ok_json(&words);
        let rows = report.as_array().expect("rows");
        let weights = match self.with {
            With::Weights | With::Resumed(_) => [("all".to_owned(), weights(&folder))].into(),
            With::Score | With::Noise => BTreeMap::new(),
        };
        Digest {
            score: rows.iter().flat_map(|row| bits(&row[SCORE])).collect(),
            best_epochs: rows.iter().filter_map(|row| row[BEST_EPOCH].as_u64()).collect(),
            rounds: rows.iter().filter_map(|row| row[ROUNDS].as_u64()).collect(),
            weights,
        }
    }
}

/// Starts a run and kills it when it has written a checkpoint.
fn interrupt(arguments: &[&str], checkpoint: &Path) {
    let program = Command::new(env!("CARGO_BIN_EXE_fedtse"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut program = Running(program.expect("the program starts"));
    let began = Instant::now();
    let folder = checkpoint.parent().expect("a folder");
    let begin = checkpoint.file_name().expect("a name");
    let is_checkpoint = |name: &str| {
        // Round 0 is where a run begins.
        name.starts_with(text(Path::new(begin)))
            && name.ends_with(".state")
            && !name.contains("-00000000.")
    };
    let stored = || {
        let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| is_checkpoint(&entry.file_name().to_string_lossy()))
    };
    while !stored() {
        assert!(began.elapsed() < PATIENCE, "{}: not written", checkpoint.display());
        std::thread::sleep(Duration::from_millis(1));
        let ended = program.0.try_wait().expect("its status");
        assert!(ended.is_none(), "{arguments:?} has ended before it was interrupted");
    }
    drop(program);
}

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Federation {
    fn run(&self, data: &Dataset) -> Digest {
        let folder = data.new_folder();
        let gate = self.configure(data, &folder);
        let config = |party: &str| folder.join(party).join("config.toml");
        let (host, guests) = (config("city"), self.parties().skip(1).map(|guest| config(&guest)));
        let guests: Vec<PathBuf> = guests.collect();
        let mut rehearse = vec!["rehearse", "--host", text(&host)];
        guests.iter().for_each(|guest| rehearse.extend(["--guest", text(guest)]));
        if self.noise {
            ok_json(&rehearse);
            for party in self.parties().skip(1) {
                repeat_noise(&folder.join(party).join(GUEST_NOISE));
            }
        }
        let report = ok_json(&rehearse);

        let start =
            |party: &str| Party::start(party, &config(party), &folder.join(format!("{party}.log")));
        if let Some(bytes) = self.resumed {
            gate.allow(bytes);
        }
        let mut running: Vec<Party> = self.parties().map(|party| start(&party)).collect();
        if let Some(bytes) = self.resumed {
            let checkpoints = || {
                let files = fs::read_dir(folder.join("city/run")).into_iter().flatten().flatten();
                let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
                names.filter(|name| name.starts_with(PARTY_CHECKPOINT)).count()
            };
            // Two are kept, and one of them is of a round that was done.
            wait_for(&mut running, || {
                if checkpoints() < 2 && gate.holds() {
                    gate.allow(bytes);
                }
                checkpoints() >= 2
            });
            for place in [0, self.guests] {
                running[place].kill();
                let name = running[place].name.clone();
                running[place] = start(&name);
            }
            gate.open();
        }
        let finished = finish(running);
        for (party, digest) in &finished {
            // In one process and over the network alike, whatever is recorded.
            let rehearsed = report[REPORTED_WEIGHTS][party].to_string();
            assert_eq!(*digest, rehearsed, "{}: weights of {party}", self.name);
        }
        let of = |party: String| {
            let digest = weights(&folder.join(&party).join("run"));
            (party, digest)
        };
        Digest {
            score: bits(&report[SCORE]),
            best_epochs: report[SUMMARY][BEST_EPOCH].as_u64().into_iter().collect(),
            rounds: report[SUMMARY][ROUNDS].as_u64().into_iter().collect(),
            weights: self.parties().map(of).collect(),
        }
    }

    /// Names of the host and its guests.
    fn parties(&self) -> impl Iterator<Item = String> {
        let guests = (1..=self.guests).map(|number| format!("fleet-{number}"));
        std::iter::once("city".to_owned()).chain(guests)
    }

    /// Writes folders of all parties, each with a configuration and data. Returns the gate on the way of `fleet-1`.
    fn configure(&self, data: &Dataset, folder: &Path) -> Gate {
        let port = free_port();
        let gate = Gate::before(port);
        let certs = data.path("certs");
        let certs = text(&certs);
        for (number, party) in self.parties().enumerate() {
            let own = folder.join(&party);
            link_dataset(&data.of(self.data), &own.join("data"));
            let common = format!(
                "[identity]
                certificate = \"{certs}/{party}.pem\"
                key = \"{certs}/{party}.key\"
                authority = \"{certs}/authority.pem\"
                [run]
                folder = \"run\"
                [patience]
                resend_s = 1.0
                heartbeat_s = 0.5
                silence_s = 60
                limit_s = 300
                "
            );
            let special = if number == 0 {
                let guests = self.parties().skip(1).map(|guest| format!("[guests.{guest}]\n"));
                format!(
                    "[network]
                    listen = \"127.0.0.1:{port}\"
                    accepted = \"{certs}/guests.toml\"
                    [data]
                    folder = \"data\"
                    target = \"raw\"
                    {}
                    [training]
                    fusion = \"concatenate\"
                    batch = 32
                    checkpoint-rounds = 2
                    {}
                    ",
                    guests.collect::<String>(),
                    self.training
                )
            } else {
                let port = if number == 1 { gate.port() } else { port };
                let policy = self.policy.map(|policy| {
                    fs::write(own.join("policy.toml"), policy).expect("a policy");
                    "policy = \"policy.toml\""
                });
                format!(
                    "[host]
                    name = \"city\"
                    address = \"localhost:{port}\"
                    [data]
                    folder = \"data\"
                    fleet = {}
                    measures = {}
                    {}
                    [model]
                    fusion = \"concatenate\"
                    {}
                    ",
                    self.fleet(number),
                    self.measures,
                    policy.unwrap_or_default(),
                    self.model
                )
            };
            fs::write(own.join("config.toml"), common + &special).expect("a configuration");
        }
        gate
    }

    /// The fleet of a guest, or the folds of it, as in a configuration.
    fn fleet(&self, guest: usize) -> String {
        let parts = self.guests * self.folds;
        let own = (guest - 1) * self.folds + 1..=guest * self.folds;
        let names: Vec<String> = own.map(|part| format!("fleet-50-{part}of{parts}")).collect();
        match (&names[..], parts) {
            (_, 1) => "\"fleet-50\"".to_owned(),
            ([one], _) => format!("{one:?}"),
            (folds, _) => format!("{folds:?}"),
        }
    }
}

/// Gives a party a dataset, in which it can keep noise of its own.
fn link_dataset(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a dataset").flatten() {
        let own = to.join(entry.file_name());
        if entry.path().is_dir() {
            link_dataset(&entry.path(), &own);
        } else {
            fs::hard_link(entry.path(), own).expect("a link");
        }
    }
}

/// Replaces the numbers in files of noise by others that are the same each time.
///
/// Noise comes from the operating system, is drawn once and kept in a file, which is read by all later runs of the same
/// data and terms. What it says of data and terms stays as the program wrote it; the numbers are drawn anew here, −½ to
/// 4 vehicles, as if that were the sum of data and noise.
fn repeat_noise(folder: &Path) {
    let files = fs::read_dir(folder).expect("a folder with noise").flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == NOISE));
    assert!(!files.is_empty(), "{}: no noise", folder.display());
    files.sort();
    let mut state = 1_u64;
    for file in files {
        let mut content = fs::read(&file).expect("noise");
        let mut steps: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        let mut at = 1 + content.iter().position(|byte| *byte == b'\n').expect("a header");
        while at < content.len() {
            let step = i64::from_le_bytes(bytes_at(&content, at + NOISE_STEP));
            steps.entry(step).or_default().push(at);
            at += NOISE_LEVELS + 4 * level_count(&content, at) + NOISE_CHECK;
        }
        for records in steps.into_values() {
            // Time and distance of each link, and its density by queue profiles where there is a second record.
            let links = level_count(&content, records[0]) / 2;
            for link in 0..links {
                for (record, numbers) in records.iter().zip([2, 1]) {
                    let number = |at| f64::from_le_bytes(bytes_at(&content, record + at));
                    let (centre, step) = (number(NOISE_GRID), number(NOISE_GRID + 8));
                    for at in (0..numbers).map(|number| 4 * (link * numbers + number)) {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let vehicles = 4.5 * ((state >> 11) as f64 / (1_u64 << 53) as f64) - 0.5;
                        let drawn = ((vehicles - centre) / step).round() as i32;
                        let level = record + NOISE_LEVELS + at;
                        content[level..level + 4].copy_from_slice(&drawn.to_le_bytes());
                    }
                }
            }
            for record in records {
                let end = record + NOISE_LEVELS + 4 * level_count(&content, record);
                let check = Sha256::digest(&content[record..end]);
                content[end..end + NOISE_CHECK].copy_from_slice(&check[..NOISE_CHECK]);
            }
        }
        fs::write(&file, content).expect("noise");
    }
}

fn bytes_at<const N: usize>(content: &[u8], at: usize) -> [u8; N] {
    *content[at..].first_chunk().expect("a whole record")
}

/// Levels of the vector in a record.
fn level_count(content: &[u8], record: usize) -> usize {
    u32::from_le_bytes(bytes_at(content, record + NOISE_LEVELS - 4)) as usize
}

/// The bits of all numbers of a score, in ascending order.
fn bits(score: &Value) -> Vec<String> {
    fn collect(value: &Value, numbers: &mut Vec<f64>) {
        match value {
            Value::Number(number) => numbers.extend(number.as_f64()),
            Value::Array(values) => values.iter().for_each(|value| collect(value, numbers)),
            Value::Object(values) => values.values().for_each(|value| collect(value, numbers)),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    let mut numbers = Vec::new();
    collect(score, &mut numbers);
    assert!(!numbers.is_empty(), "{score}: no numbers");
    numbers.sort_by(f64::total_cmp);
    numbers.into_iter().map(|number| format!("{:016x}", number.to_bits())).collect()
}

/// SHA-256 of all tensors in a folder, whatever they and their files are called.
fn weights(folder: &Path) -> String {
    let mut tensors = Vec::new();
    collect_tensors(folder, &mut tensors);
    assert!(!tensors.is_empty(), "{}: no weights", folder.display());
    tensors.sort();
    let mut hash = Sha256::new();
    for (length, bytes) in tensors {
        hash.update((length as u64).to_le_bytes());
        hash.update(bytes);
    }
    hexadecimal(&hash.finalize())
}

/// Lengths and bytes.
fn collect_tensors(folder: &Path, tensors: &mut Vec<(usize, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        // The same weights again, as each party of a run in one process keeps them for live use.
        let again = path.ends_with(PARTY_MODEL)
            && folder.parent().is_some_and(|run| run.join(WHOLE_MODEL).exists());
        if path.is_dir() && !again {
            collect_tensors(&path, tensors);
        } else if path.extension().is_some_and(|extension| extension == WEIGHTS) {
            let content = fs::read(&path).expect("weights");
            // The length of a header in JSON, the header, then the data of all tensors.
            let (length, rest) = content.split_first_chunk::<8>().expect("a length");
            let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
            let header: BTreeMap<String, Value> = serde_json::from_slice(header).expect("a header");
            for tensor in header.values() {
                let place = |end: usize| tensor["data_offsets"][end].as_u64();
                if let (Some(from), Some(to)) = (place(0), place(1)) {
                    let bytes = &data[from as usize..to as usize];
                    tensors.push((bytes.len(), bytes.to_vec()));
                }
            }
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
