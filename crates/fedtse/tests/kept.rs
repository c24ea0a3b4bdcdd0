//! Every method's estimator can be kept, and estimates again what it estimated when it was fitted.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::{ok, ok_json, refused, text};
use serde_json::Value;
use tempfile::TempDir;

/// Numbers in `run.json` have two decimals, those in a CSV table four.
const ROUNDING: f64 = 5.1e-3;

/// An hour of the corridor, made once for all tests.
fn data() -> &'static Path {
    static DATA: OnceLock<TempDir> = OnceLock::new();
    let folder = DATA.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        ok(&["simulate", "--minutes", "66", "--warm-up", "6", "--seed", "5", "--out", text(&data)]);
        ok(&["features", text(&data), "--rates", "40"]);
        folder
    });
    Box::leak(folder.path().join("data").into_boxed_path())
}

/// Arguments of a short training.
fn train<'a>(method: &'a str, out: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let arguments = ["train", "--data", text(data()), "--method", method, "--rate", "40"];
    let short = ["--target", "raw", "--epochs", "2", "--privacy", "clear", "--out", text(out)];
    [&arguments[..], &short, more].concat()
}

/// Densities and flows by step and link.
type States = BTreeMap<(i64, String), [f64; 2]>;

/// What `fedtse estimate` makes of the whole recording.
fn estimated(from: &[&str], table: &Path) -> States {
    let to = ["--data", text(data()), "--out", text(table)];
    ok(&[&["estimate"], from, &to[..]].concat());
    let table = std::fs::read_to_string(table).expect("a table");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().expect("a number");
        ((number(0) as i64, cells[1].to_owned()), [number(2), number(3)])
    };
    table.lines().skip(1).map(row).collect()
}

/// What a training estimated of the test part, as its `run.json` has it.
fn of_run(folder: &Path) -> States {
    let run = std::fs::read_to_string(folder.join("run.json")).expect("run.json");
    let run: Value = serde_json::from_str(&run).expect("JSON");
    let minutes = run["estimated"]["minutes"].as_array().expect("minutes");
    let mut states = States::new();
    for link in run["estimated"]["links"].as_array().expect("links") {
        let values = |quantity: &str| link[quantity]["estimates"][0]["values"].clone();
        let (density, flow) = (values("density"), values("flow"));
        for (at, minute) in minutes.iter().enumerate() {
            let step = (minute.as_f64().expect("a number") * 6.0).round() as i64;
            let name = link["link"].as_str().expect("a name").to_owned();
            let number = |values: &Value| values[at].as_f64().expect("a number");
            states.insert((step, name), [number(&density), number(&flow)]);
        }
    }
    states
}

fn assert_same(method: &str, found: &States, expected: &States) {
    assert!(!expected.is_empty(), "{method}");
    for (place, expected) in expected {
        let found = found.get(place);
        assert!(found.is_some(), "{method}: no estimate of {place:?}");
        let found = found.expect("an estimate");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < ROUNDING, "{method} {place:?}: {found} {expected}");
        }
    }
}

fn keeps(method: &str, more: &[&str]) {
    keeps_windows(method, more, 9);
}

fn keeps_windows(method: &str, more: &[&str], window: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (out, table) = (folder.path().join("model"), folder.path().join("table.csv"));
    ok(&train(method, &out, more));
    let found = estimated(&["--model", text(&out)], &table);
    assert_same(method, &found, &of_run(&out));
    // All links, not only those that are scored, of each window.
    assert_eq!(found.len(), (60 * 6 + 1 - window) * 17, "{method}");
    assert!(!out.join("run.state").exists(), "{method}");
    ok(&["report", "--run", text(&out), "--out", text(&folder.path().join("report.html"))]);
}

#[test]
fn references_are_kept() {
    for method in [
        "scale-up",
        "ukf",
        "qest",
        "qest-f",
        "qest-live",
        "qest-f-live",
        "ridge-n",
        "ridge-p",
        "ridge",
    ] {
        keeps(method, &[]);
    }
}

#[test]
fn models_that_learn_from_labels_are_kept() {
    for method in ["tse-n", "tse-p", "oracle", "oracle-cell"] {
        keeps(method, &[]);
    }
}

#[test]
fn models_that_learn_without_labels_are_kept() {
    for method in [
        "hf",
        "hf-local",
        "hf-cell",
        "tse-pi-p",
        "oracle-pi",
        "oracle-pi-v",
        "oracle-pi-k",
        "oracle-pi-hf",
    ] {
        keeps(method, &[]);
    }
    keeps("oracle-pi", &["--learn-physics", "--label-share", "20"]);
}

#[test]
fn federations_in_one_process_are_kept() {
    for method in ["fedtse", "fedtse-cell", "fedtse-pi-v", "fedtse-pi-k"] {
        keeps(method, &[]);
    }
    keeps("fedtse-pi", &["--guests", "3", "--fusion", "concatenate"]);
    keeps("fedtse-hf", &["--guests", "2", "--fusion", "concatenate"]);
    keeps("fedtse-pi-hf", &["--guests", "2", "--fusion", "concatenate"]);
    // By sums.
    keeps("fedtse-pi", &["--guests", "2"]);
}

#[test]
fn combinations_are_kept() {
    keeps("label-free", &[]);
    keeps("fedtse-label-free", &["--guests", "2", "--fusion", "concatenate"]);
}

/// What is kept knows its window length; `estimate`, `report` and a second start follow it.
#[test]
fn models_of_other_windows_are_kept() {
    for method in ["scale-up", "ridge", "ukf", "oracle", "oracle-cell", "fedtse", "fedtse-pi-v"] {
        keeps_windows(method, &["--window", "5"], 5);
    }
    for method in ["tse-p", "fedtse-hf", "oracle-pi-hf"] {
        keeps_windows(method, &["--window", "12"], 12);
    }
    keeps_windows("fedtse", &["--window", "11", "--arch", "paper"], 11);
    keeps_windows("label-free", &["--window", "6"], 6);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [out, other] = ["model", "other"].map(|name| folder.path().join(name));
    for (value, more, expected) in [
        ("2", &[][..], "--window: found 2, expected 3 to 120"),
        ("121", &[], "--window: found 121, expected 3 to 120"),
        ("8", &["--arch", "paper"], "--window: found 8, expected 9 or more with --arch paper"),
    ] {
        let window = ["--window", value];
        let error = refused(&train("fedtse", &other, &[&window[..], more].concat()));
        assert!(error.contains(expected), "{value}: {error}");
    }
    // A run is not continued with other windows, and is read again with its own.
    let five = train("fedtse", &out, &["--window", "5"]);
    let first = ok_json(&five);
    assert_eq!(ok_json(&five)[0]["score"], first[0]["score"]);
    let error = refused(&train("fedtse", &out, &["--window", "7"]));
    assert!(error.contains("checkpoints in this folder: found those of other data"), "{error}");
    let nine = ok_json(&train("fedtse", &other, &[]));
    assert_ne!(nine[0]["score"], first[0]["score"]);
}

/// Each party of a federation keeps its own part; together they estimate what the whole model does.
#[test]
fn the_parts_of_parties_estimate_as_the_whole_model() {
    for (method, guests, window) in
        [("fedtse-pi", "2", "9"), ("fedtse-hf", "2", "9"), ("fedtse", "2", "6")]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (out, table) = (folder.path().join("model"), folder.path().join("table.csv"));
        let options = ["--guests", guests, "--window", window, "--fusion", "concatenate"];
        ok(&train(method, &out, &options));
        let whole = estimated(&["--model", text(&out)], &table);
        let parts = ["host", "guest-1", "guest-2"].map(|party| out.join(party).join("model"));
        let from = parts.iter().flat_map(|part| ["--party", text(part)]).collect::<Vec<_>>();
        assert_same(method, &estimated(&from, &table), &whole);
    }
}

/// Without ground truth there are intervals where part of the fleet is held out: around their own estimates.
#[test]
fn a_held_out_fleet_makes_intervals() {
    let concatenated = ["--guests", "2", "--fusion", "concatenate"];
    for (method, more) in [("hf", &[][..]), ("fedtse-hf", &concatenated), ("label-free", &[])] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (out, table) = (folder.path().join("model"), folder.path().join("table.csv"));
        let rows = ok_json(&train(method, &out, more));
        assert_eq!(rows[0]["intervals"].as_array().map(Vec::len), Some(4), "{method}");
        let from = ["estimate", "--model", text(&out), "--data", text(data()), "--interval", "90"];
        ok(&[&from[..], &["--out", text(&table)]].concat());
        for line in std::fs::read_to_string(&table).expect("a table").lines().skip(1) {
            let numbers: Vec<f64> =
                line.split(',').skip(2).map(|cell| cell.parse().expect("a number")).collect();
            let [density, flow] = [numbers[0], numbers[1]];
            assert!(numbers[2] <= density && density <= numbers[3], "{method}: {line}");
            assert!(numbers[4] <= flow && flow <= numbers[5], "{method}: {line}");
        }
    }
    // Nothing tells of the errors of a model that holds nothing out.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (out, table) = (folder.path().join("model"), folder.path().join("table.csv"));
    ok(&train("oracle-pi", &out, &[]));
    let from = ["estimate", "--model", text(&out), "--data", text(data()), "--interval", "90"];
    assert!(refused(&[&from[..], &["--out", text(&table)]].concat()).contains("intervals.json"));
}

/// A training that was killed goes on, and ends with the same files as one that was not.
#[test]
fn a_killed_training_ends_with_the_same_model() {
    for (method, state, window) in [
        ("hf", "run.state", "9"),
        ("oracle-pi", "run.state", "7"),
        ("label-free", "training/2/run.state", "9"),
        ("fedtse-hf", "host/round-", "12"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [whole, broken] = ["whole", "broken"].map(|name| folder.path().join(name));
        let epochs = if method == "fedtse-hf" { "40" } else { "12" };
        let arguments = |out| {
            let mut arguments = train(method, out, &[]);
            let at = arguments.iter().position(|one| *one == "--epochs").expect("--epochs");
            arguments[at + 1] = epochs;
            // Checkpoints come by time: some of these before the end of a short training.
            arguments.extend(["--checkpoint-s", "0.1", "--window", window]);
            arguments
        };
        ok(&arguments(&whole));
        let program = env!("CARGO_BIN_EXE_fedtse");
        let mut running = Command::new(program)
            .args(arguments(&broken))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let begun = Instant::now();
        while !is_stored(&broken.join(state)) && running.try_wait().expect("a process").is_none() {
            assert!(begun.elapsed() < Duration::from_secs(300), "{method}: no {state}");
            std::thread::sleep(Duration::from_millis(5));
        }
        running.kill().expect("it is killed");
        running.wait().expect("it ends");
        assert!(!broken.join("model.json").exists(), "{method}: it ended before it was killed");
        // As if it had been killed while it wrote.
        let state = if state == "host/round-" { "host/round-00000001.state" } else { state };
        let half = broken.join(format!("{state}.a1B2c3.unfinished"));
        std::fs::write(&half, b"half").expect("a file");
        ok(&arguments(&broken));
        for file in weights_of(&whole) {
            let read = |folder: &Path| std::fs::read(folder.join(&file)).expect("weights");
            assert!(read(&whole) == read(&broken), "{method}: {file}");
        }
        assert_eq!(of_run(&whole), of_run(&broken), "{method}");
        assert!(!half.exists(), "{method}: {}", half.display());
    }
}

/// Whether there is a file of this name, or one that begins with it.
fn is_stored(state: &Path) -> bool {
    let (Some(folder), Some(name)) = (state.parent(), state.file_name()) else { return false };
    let begins = |entry: std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(&*name.to_string_lossy())
            && entry.path().extension().is_some_and(|end| end == "state")
    };
    std::fs::read_dir(folder).is_ok_and(|mut all| all.any(|entry| entry.is_ok_and(begins)))
}

/// Names of the files with a model's weights.
fn weights_of(folder: &Path) -> Vec<String> {
    let one = "weights.safetensors".to_owned();
    if folder.join(&one).exists() {
        return vec![one];
    }
    let each = (1..=5).map(|number| format!("models/{number}/{one}"));
    let each: Vec<String> = each.filter(|name| folder.join(name).exists()).collect();
    assert!(!each.is_empty(), "{}: no weights", folder.display());
    each
}

/// A model is not used on data that it was not made for, and a folder that is spoiled is refused.
#[test]
fn estimators_are_refused_other_data_and_spoiled_folders() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let (out, table, grid) = (path("model"), path("table.csv"), path("grid"));
    ok(&train("ridge", &out, &[]));
    let network = path("grid.toml");
    ok(&["network", "grid", "--rows", "2", "--columns", "2", "--out", text(&network)]);
    let simulate = ["simulate", "--network", text(&network), "--flow", "300", "--minutes", "20"];
    ok(&[&simulate[..], &["--out", text(&grid)]].concat());
    ok(&["features", text(&grid), "--rates", "40"]);
    let estimate = |data: &Path| {
        let from = ["estimate", "--model", text(&out), "--data", text(data)];
        refused(&[&from[..], &["--out", text(&table)]].concat())
    };
    assert!(estimate(&grid).contains("network hash: found"), "{}", estimate(&grid));
    let coefficients = out.join("ridge.json");
    let sound = std::fs::read_to_string(&coefficients).expect("coefficients");
    std::fs::write(&coefficients, sound.replacen("\"link\": 0", "\"link\": 17", 1)).unwrap();
    let error = estimate(data());
    assert!(error.contains("ridge.json") && error.contains("another network"), "{error}");
    std::fs::write(&coefficients, &sound[..sound.len() / 2]).unwrap();
    assert!(estimate(data()).contains("ridge.json"), "{}", estimate(data()));
    let file = out.join("model.json");
    let sound = std::fs::read_to_string(&file).expect("model.json");
    std::fs::write(&file, sound.replace("fedtse-model/5", "fedtse-model/4")).unwrap();
    assert!(estimate(data()).contains("format: found \"fedtse-model/4\""), "{}", estimate(data()));
}
