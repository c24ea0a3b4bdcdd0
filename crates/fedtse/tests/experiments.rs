//! The experiments of the federation end to end, in small versions that train for two epochs.

mod common;

use std::path::Path;

use common::{fedtse, ok, ok_json, refused, text};
use serde_json::Value;

fn reproduce<'a>(what: &'a str, out: &'a Path, data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let folders = ["--out", text(out), "--data", text(data)];
    [&["reproduce", what, "--quick", "--jobs", "2"][..], &folders[..], more].concat()
}

fn numbers(value: &Value) -> Vec<f64> {
    let all = value.as_array().expect("a list");
    all.iter().map(|number| number.as_f64().expect("a number")).collect()
}

#[test]
fn rounds_and_figures_are_drawn_from_the_same_trainings() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let few = ["--arch", "link", "--seeds", "1"];
    let table = ok_json(&reproduce("table3", &out, &data, &few));
    let rows = table["rounds"].as_array().unwrap();
    let qs = rows.iter().map(|row| row["q"].as_u64().unwrap());
    // Q = 2 and 3 twice: with as many updates of the host, and with one.
    assert_eq!(qs.collect::<Vec<_>>(), [1, 2, 3, 2, 3, 1, 1]);
    let runs = |at: usize| &table["curves"][at]["runs"];
    assert!(runs(1) != runs(3) && runs(2) != runs(4));
    for curve in table["curves"].as_array().unwrap() {
        // 141 windows to learn from: two exchanges of at most 128, and two epochs.
        assert_eq!(curve["exchanges"], 2);
        let course = &curve["runs"][0];
        let (density, end) =
            (numbers(&course["density"]), course["end"]["density"]["rmse"].clone());
        assert_eq!(density.len(), 2);
        // What was kept is one of the epochs, with a read-out fitted to its network: of so little data it moves estimates by less
        // than a tenth.
        let end = end.as_f64().unwrap();
        assert!(density.iter().any(|own| (own - end).abs() < 0.1 * own), "{density:?} {end}");
    }
    // The same jobs again, as a picture.
    let jobs = || std::fs::read_dir(out.join("jobs")).unwrap().count();
    let before = jobs();
    let figure = ok_json(&reproduce("fig-q", &out, &data, &few));
    assert_eq!(jobs(), before);
    assert_eq!(figure["curves"], table["curves"]);
    let picture = std::fs::read_to_string(out.join("fig-q.svg")).unwrap();
    assert!(picture.contains("FedTSE, link, Q = 3") && picture.contains("communication round"));
    let shown = std::fs::read_to_string(out.join("table3.md")).unwrap();
    assert!(shown.contains("*paper: FedTSE, Q = 2*") && shown.contains("420 (52 %)"), "{shown}");

    // A course that is watched is the course of a training that is not.
    let dataset = data.join("builtin-45-seed-1");
    let train = ["train", "--data", text(&dataset), "--method", "fedtse", "--rate", "20"];
    let more = ["--target", "raw", "--epochs", "2", "--q", "2"];
    let trained = ok_json(&[&train[..], &more[..]].concat());
    let course = &table["curves"][1]["runs"][0];
    assert_eq!(course["end"], trained[0]["score"]);
}

#[test]
fn a_federated_course_is_that_of_central_training() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let few = ["--arch", "paper", "--seeds", "1"];
    let figure = ok_json(&reproduce("fig-loss", &out, &data, &few));
    let curves = figure["curves"].as_array().unwrap();
    let labels = curves.iter().map(|curve| curve["label"].as_str().unwrap());
    assert_eq!(labels.collect::<Vec<_>>(), ["Oracle-cell, `paper`", "FedTSE-cell, `paper`"]);
    assert_eq!(curves[0]["runs"], curves[1]["runs"]);
    assert!(out.join("fig-loss.svg").exists());
    let error = refused(&reproduce("fig-loss", &out, &data, &["--target", "raw,smooth"]));
    assert!(error.contains("--target: found 2, expected one"), "{error}");
}

#[test]
fn a_guest_that_is_absent_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let table = ok_json(&reproduce("guests", &out, &data, &["--seeds", "1", "--epochs", "30"]));
    assert_eq!(table["columns"], serde_json::json!(["1 guest", "2 guests"]));
    let rmse = |label: &str, column: usize| {
        let mut rows = table["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["label"] == label).expect(label);
        row["cells"][0][column]["density"]["rmse"]["mean"].as_f64().unwrap()
    };
    let (mean, worst) = ("one guest absent, mean", "one guest absent, worst");
    for column in [0, 1] {
        assert!(rmse("FedTSE, trained for absence", column) < rmse(mean, column));
        assert!(rmse(mean, column) <= rmse(worst, column));
    }
    // The only guest is missed more than one of two.
    assert!(rmse(mean, 1) < rmse(mean, 0));
    // The sum does not depend on how the fleet is divided, but for the rounding of each guest's totals, which 30 epochs
    // of training carry to the fourth digit.
    let sums = [rmse("FedTSE, sum", 0), rmse("FedTSE, sum", 1)];
    assert!((sums[1] / sums[0] - 1.0).abs() < 1e-3, "{sums:?}");
    assert!(sums[1] < rmse("sum, one guest absent, mean", 1));
    assert!(refused(&reproduce("guests", &out, &data, &["--rates", "20"])).contains("one rate"));
    assert!(refused(&["reproduce", "table2", "--guests", "2"]).contains("--guests: table2"));
}

#[test]
fn table1_is_made_of_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (traffic, films) = (path("traffic"), path("films"));
    ok(&["simulate", "--minutes", "40", "--warm-up", "5", "--seed", "3", "--out", text(&traffic)]);
    std::fs::create_dir(&films).unwrap();
    // Four recordings of four minutes on two days, with blind gaps, in the form of the real ones.
    let sessions = [
        ("0", "20181024_d1_0830_0900"),
        ("8", "20181024_d1_0900_0930"),
        ("16", "20181029_d1_0830_0900"),
    ];
    for (from, name) in sessions.into_iter().chain([("24", "20181029_d1_0900_0930")]) {
        let film = films.join(format!("{name}.csv"));
        let span = ["--from-minute", from, "--minutes", "4"];
        ok(&[&["export", text(&traffic), "--out", text(&film)][..], &span[..]].concat());
    }
    std::fs::write(films.join("readme.txt"), "not a recording").unwrap();
    let (out, data) = (path("out"), path("data"));
    let more = ["--pneuma", text(&films), "--seeds", "1,2"];
    let few = [&more[..], &["--only", "ridge,scale-up,oracle,fedtse,tse-n"]].concat();
    let table = ok_json(&reproduce("table1", &out, &data, &few));
    assert_eq!(table["unfinished"], Value::Array(Vec::new()));
    assert_eq!(table["settings"]["world"], "pneuma");
    assert_eq!(table["datasets"].as_array().unwrap().len(), 2);
    // 4 minutes are 24 steps of which the first and the last may not be whole.
    let steps = table["datasets"][0]["steps"].as_u64().unwrap();
    assert!((4 * 22..=4 * 25).contains(&steps), "{steps}");
    let row = |label: &str| {
        let rows = table["rows"].as_array().unwrap();
        rows.iter().find(|row| row["label"] == label).unwrap().clone()
    };
    assert_eq!(row("FedTSE, `paper`")["cells"], row("Oracle, `paper`")["cells"]);
    // Scale-up needs no training: with 80 % of the vehicles it is near the truth, with 20 % it is not.
    let rmse = |column: usize| {
        row("scale-up")["cells"][0][column]["density"]["rmse"]["mean"].as_f64().unwrap()
    };
    assert!(rmse(1) < 0.5 * rmse(0), "{} {}", rmse(1), rmse(0));
    // Fleet seeds deal out other vehicles.
    let seeds = &row("scale-up")["cells"][0][0]["density"]["rmse"]["by_seed"];
    assert_ne!(seeds[0], seeds[1]);
    assert_eq!(table["paper"][3]["rmse"][0], serde_json::json!([9.56, 6.02]));

    // What is missing or does not belong together is named.
    assert!(refused(&reproduce("table1", &out, &data, &[])).contains("--pneuma: found none"));
    assert!(refused(&reproduce("table2", &out, &data, &more)).contains("--pneuma: table2"));
    let nothing = ["--pneuma", text(&out)];
    let error = refused(&reproduce("table1", &out, &data, &nothing));
    assert!(error.contains("found no file named like"), "{error}");
    std::fs::remove_file(films.join("20181029_d1_0900_0930.csv")).unwrap();
    let error = refused(&reproduce("table1", &out, &data, &few));
    assert!(error.contains("files: found") && error.contains("choose another folder"), "{error}");
    // Two recordings cannot be split.
    std::fs::remove_file(films.join("20181029_d1_0830_0900.csv")).unwrap();
    let (out, data) = (path("out2"), path("data2"));
    let output = fedtse(&reproduce("table1", &out, &data, &few));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    // The import says how well the tracks could be matched; then there is nothing to split.
    assert!(error.contains("matched"), "{error}");
    assert!(error.contains("found 2, expected 3 or more"), "{error}");
}
