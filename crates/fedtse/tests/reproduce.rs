//! The paper's tables end to end, in the small version that simulates minutes and trains for two
//! epochs.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{ok, ok_json, refused, text};
use serde_json::Value;

/// A run in the built-in world that takes seconds.
struct Run<'a> {
    table: &'a str,
    out: &'a Path,
    data: &'a Path,
}

impl Run<'_> {
    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let folders = ["--out", text(self.out), "--data", text(self.data)];
        [&["reproduce", self.table, "--quick"][..], &folders[..], more].concat()
    }
}

/// All finished jobs of a folder, by name.
fn jobs(out: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(out.join("jobs")).expect("there is a folder of jobs");
    let files = entries.map(|entry| entry.expect("the folder can be read").path());
    let finished = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let named = finished.map(|path| {
        let name = path.file_stem().expect("files have names").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("jobs are text"))
    });
    named.collect()
}

/// A table without the day it was made on.
fn table(out: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(out.join(name)).expect("the table was written");
    let mut table: Value = serde_json::from_str(&text).expect("the table is JSON");
    assert!(table["made"]["date"].take().as_str().is_some_and(|date| date.len() == 10));
    table
}

#[test]
fn an_interrupted_run_ends_with_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let more = ["--only", "oracle,tse-n,ridge,scale-up", "--training-seeds", "1,2", "--jobs", "2"];
    let run = |out| Run { table: "table2", out, data: &data };

    let shown = ok_json(&run(&whole).arguments(&more));
    // 2 demand seeds, 2 targets, 2 rates; neural: 2 training seeds, 2 architectures and a wide one.
    assert_eq!(jobs(&whole).len(), 2 * 2 * (2 * (2 * (1 + 2) + 2) + 2 + 2));
    assert_eq!(shown["unfinished"], Value::Array(Vec::new()));
    assert_eq!(shown["quick"], true);

    let mut child = Command::new(env!("CARGO_BIN_EXE_fedtse"))
        .args(run(&parts).arguments(&more))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let none = || !parts.join("jobs").exists() || jobs(&parts).is_empty();
    while child.try_wait().unwrap().is_none() && none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // However far it came: one job is missing, and one was being written.
    let mut before = jobs(&parts);
    let (name, _) = before.pop_first().unwrap();
    let path = parts.join("jobs").join(format!("{name}.json"));
    std::fs::rename(&path, path.with_extension("json.unfinished")).unwrap();

    let report = [&more[..], &["--report"]].concat();
    if !before.is_empty() {
        let so_far = ok_json(&run(&parts).arguments(&report));
        let missing = so_far["unfinished"].as_array().unwrap();
        assert_eq!(missing.len(), jobs(&whole).len() - before.len());
        assert!(missing.contains(&Value::String(name)));
    }
    ok(&run(&parts).arguments(&more));
    assert_eq!(table(&parts, "table2.json"), table(&whole, "table2.json"));
    let read = |out: &Path| std::fs::read_to_string(out.join("table2.md")).unwrap();
    let without_day = |text: String| text.split_once(" by ").map(|(_, rest)| rest.to_owned());
    assert_eq!(without_day(read(&parts)), without_day(read(&whole)));
    // What was finished was not done again: even run times are the old ones.
    let after = jobs(&parts);
    assert!(before.iter().all(|(name, text)| after[name] == *text));
}

#[test]
fn the_numbers_are_those_of_train() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let more = ["--only", "oracle,ridge", "--seeds", "3", "--target", "raw"];
    let shown = ok_json(&Run { table: "table2", out: &out, data: &data }.arguments(&more));
    let dataset = data.join("builtin-45-seed-3");
    for (row, method, arch) in [(0, "ridge", "link"), (2, "oracle", "paper")] {
        let train = ["train", "--data", text(&dataset), "--method", method, "--arch", arch];
        let more = ["--rate", "80", "--target", "raw", "--epochs", "2"];
        let trained = ok_json(&[&train[..], &more[..]].concat());
        let cell = &shown["rows"][row]["cells"][0][1];
        for quantity in ["density", "flow"] {
            let expected = &trained[0]["score"][quantity]["rmse"];
            assert_eq!(cell[quantity]["rmse"]["mean"], *expected, "{method} {quantity}");
        }
        // One seed has no spread.
        assert_eq!(cell["density"]["rmse"]["deviation"], Value::Null);
    }
    assert_eq!(shown["paper"][2]["rmse"][0], serde_json::json!([6.75, 3.99]));
    assert_eq!(shown["datasets"][0]["source"]["seed"], "3");
}

#[test]
fn the_federation_loses_only_what_a_narrow_embedding_cannot_carry() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let more = ["--only", "oracle,fedtse", "--seeds", "1", "--target", "raw", "--rates", "20"];
    let shown = ok_json(&Run { table: "table2", out: &out, data: &data }.arguments(&more));
    let rows: BTreeMap<&str, &Value> = shown["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["label"].as_str().unwrap(), row))
        .collect();
    // The same network, trained by host and guest: the same errors to the last digit.
    assert_eq!(rows["FedTSE, `link`"]["cells"], rows["Oracle, `link`"]["cells"]);
    assert_eq!(rows["FedTSE, `paper`"]["cells"], rows["Oracle, `paper`"]["cells"]);
    for other in ["FedTSE, `link`, d = 1", "FedTSE, `link`, d = 2", "Oracle, `link`, wide"] {
        assert_ne!(rows[other]["cells"], rows["Oracle, `link`"]["cells"], "{other}");
    }
    // d is chosen on the validation part, which is not the test part.
    let chosen = rows["FedTSE, `link`"];
    assert!(chosen["validation"][0][0]["density"]["rmse"]["mean"].is_number());
    assert_ne!(chosen["validation"], chosen["cells"]);
    // What left the parties: four numbers of four bytes for each of 17 links, to and fro.
    let bytes = |name: &str| {
        let job: Value = serde_json::from_str(&jobs(&out)[name]).unwrap();
        job["bytes"].as_f64().unwrap()
    };
    let (four, one) = ("seed-1.fedtse.link.fleet-20.raw.training-1", ".embedding-1");
    let ratio = bytes(four) / bytes(&format!("{four}{one}"));
    assert!((3.0..4.0).contains(&ratio), "{ratio}");

    // A job as programs before the federation wrote it.
    let path = out.join("jobs").join("seed-1.oracle.link.fleet-20.raw.training-1.json");
    let mut old: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(old["format"], "fedtse-job/1");
    assert_eq!(old["job"].get("variant"), None);
    old.as_object_mut().unwrap().remove("validation").unwrap();
    std::fs::write(&path, old.to_string()).unwrap();
    let more = [&more[..], &["--report"]].concat();
    let again = ok_json(&Run { table: "table2", out: &out, data: &data }.arguments(&more));
    assert_eq!(again["rows"], shown["rows"]);
}

#[test]
fn fewer_samples_are_the_last_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let only = ["--only", "ridge", "--seeds", "1", "--target", "raw", "--sizes"];
    let run = Run { table: "table4", out: &out, data: &data };
    let with = |sizes| run.arguments(&[&only[..], &[sizes]].concat());
    // 35 minutes are 210 steps, 202 windows, 161 of them before the test part.
    let shown = ok_json(&with("40,161"));
    let rmse =
        |column: usize| shown["rows"][0]["cells"][0][column]["density"]["rmse"]["mean"].clone();
    assert_ne!(rmse(0), rmse(1));
    for sizes in ["7", "162"] {
        let error = refused(&with(sizes));
        assert!(error.contains(&format!("samples: found {sizes}, expected 8 to 161")), "{error}");
    }
    assert!(refused(&run.arguments(&["--rates", "20"])).contains("--rates: table4 has sizes"));
    assert!(refused(&with("40,40")).contains("--sizes: found 40 twice"));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let few = ["--only", "scale-up", "--target", "raw", "--rates", "20"];
    let run = Run { table: "table2", out: &out, data: &data };
    let refused = |more: &[&str]| refused(&run.arguments(&[&few[..], more].concat()));
    let ok = |more: &[&str]| ok(&run.arguments(&[&few[..], more].concat()));
    assert!(refused(&["--report"]).contains("no job of table2 is finished"));
    ok(&[]);
    let error = refused(&["--epochs", "3"]);
    assert!(
        error.contains("settings: found") && error.contains("choose another folder"),
        "{error}"
    );
    assert!(refused(&["--publish", text(folder.path())]).contains("--publish: expected"));
    assert!(refused(&["--sizes", "10"]).contains("--sizes: table2 has rates"));

    // A job of another program.
    let job = out.join("jobs").join("seed-1.scale-up.fleet-20.raw.json");
    let whole = std::fs::read_to_string(&job).unwrap();
    let mut other: Value = serde_json::from_str(&whole).unwrap();
    other["program"]["commit"] = "0123456789ab".into();
    std::fs::write(&job, other.to_string()).unwrap();
    assert!(refused(&[]).contains("jobs of more than one program"));
    assert!(ok(&["--accept-other-programs"]).contains("0123456789ab"));
    // Half a job, a job with the name of another, a score that is none.
    std::fs::write(&job, &whole[..whole.len() / 2]).unwrap();
    assert!(refused(&[]).contains("delete it to run it again"));
    std::fs::write(&job, whole.replace("\"demand_seed\": 1", "\"demand_seed\": 2")).unwrap();
    assert!(refused(&[]).contains("holds another job"));
    other["score"]["density"]["rmse"] = (-1).into();
    std::fs::write(&job, other.to_string()).unwrap();
    assert!(refused(&[]).contains("score: expected finite"));
    std::fs::write(&job, &whole).unwrap();

    // A dataset with the name of another.
    let (first, second) = (data.join("builtin-45-seed-1"), data.join("builtin-45-seed-2"));
    std::fs::remove_dir_all(&second).unwrap();
    std::fs::rename(&first, &second).unwrap();
    assert!(refused(&["--seeds", "2"]).contains("seed: found 1, expected 2"));
    // A folder that is none.
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::write(&out, "").unwrap();
    assert!(refused(&[]).contains("out"));
}

#[test]
fn without_its_peer_boosting_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |only: &str| {
        Command::new(env!("CARGO_BIN_EXE_fedtse"))
            .args(["reproduce", "table2", "--quick", "--target", "raw", "--only", only])
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let output = run("boosting");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("make peers") && error.contains("no job"), "{error}");
    let output = run("boosting,scale-up");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(shown.contains("| scale-up") && !shown.contains("gradient boosting"), "{shown}");
    let names = run("nonsense");
    assert!(String::from_utf8_lossy(&names.stderr).contains("expected one of scale-up"));
}

#[test]
fn tables_without_ground_truth_know_scenes_and_draw_figures() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (folder.path().join("data"), folder.path().join("out"));
    let run = |table| Run { table, out: &out, data: &data };
    let one = ["--seeds", "1", "--rates", "80"];
    let methods = ["--only", "scale-up,ukf,hf,fedtse-hf"];
    let shown = ok_json(&run("table5").arguments(&[&one[..], &methods[..]].concat()));
    assert_eq!(shown["unfinished"], Value::Array(Vec::new()));
    // Scale-up, the filter, three held-out fleets that are no fair sample besides the two that are.
    assert_eq!(jobs(&out).len(), 2 + 2 + 3);
    assert_eq!(shown["datasets"].as_array().unwrap().len(), 4);
    let names: Vec<String> = jobs(&out).into_keys().collect();
    assert!(names.iter().any(|name| name.ends_with(".by-hour")), "{names:?}");

    // The picture of the same jobs runs nothing again.
    let before = jobs(&out);
    ok(&run("fig-pi-rate").arguments(&[&one[..], &methods[..]].concat()));
    assert_eq!(jobs(&out), before);
    let svg = std::fs::read_to_string(out.join("fig-pi-rate.svg")).unwrap();
    assert!(svg.contains("FedTSE-HF") && svg.contains("penetration rate"), "{svg}");

    ok(&run("fig-pi-estimates").arguments(&["--seeds", "1", "--only", "fedtse-pi-hf"]));
    let drawn = table(&out, "fig-pi-estimates.json");
    let links = drawn["series"][0]["series"].as_array().unwrap();
    assert_eq!([&links[0]["has_loop"], &links[1]["has_loop"]], [false, true]);
    let lengths = ["minutes", "density", "flow"].map(|what| match what {
        "minutes" => links[0][what].as_array().unwrap().len(),
        _ => links[0][what][1].as_array().unwrap().len(),
    });
    assert!(lengths[0] > 10 && lengths == [lengths[0]; 3], "{lengths:?}");

    ok(&run("table6").arguments(&["--seeds", "1", "--rates", "80"]));
    let table = table(&out, "table6.json");
    assert_eq!(table["datasets"].as_array().unwrap().len(), 3);
}

#[test]
fn sealed_rows_of_table_5_are_those_of_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let run = Run { table: "table5-sealed", out: &out, data: &data };
    let shown = ok_json(&run.arguments(&["--seeds", "1", "--only", "fedtse-pi"]));
    let names: Vec<String> = jobs(&out).into_keys().collect();
    let ends = [".head-4", ".head-4.privacy-sealed"];
    assert!(names.len() == 2 && ends.iter().all(|end| names.iter().any(|n| n.ends_with(end))));
    let rmse = |row: usize, of: &str| {
        shown["rows"][row]["cells"][0][0][of]["rmse"]["mean"].as_f64().unwrap()
    };
    for of in ["density", "flow"] {
        let [clear, sealed] = [rmse(0, of), rmse(1, of)];
        // Values are put on a grid of a ten-thousandth of what they can be: not bit for bit, but to three digits.
        assert!((sealed - clear).abs() < 1e-3 * clear && sealed != clear, "{of}: {clear} {sealed}");
    }
}

#[test]
fn labels_of_a_share_stand_beside_what_needs_none() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let run = Run { table: "label-share", out: &out, data: &data };
    let shown = ok_json(&run.arguments(&["--seeds", "1", "--only", "ridge,oracle-pi"]));
    assert_eq!(shown["columns"], serde_json::json!(["0 %", "10 %", "100 %"]));
    let rmse = |row: usize, column: usize| {
        let cell = &shown["rows"][row]["cells"][0][column];
        cell["density"]["rmse"]["mean"].as_f64()
    };
    // Without labels only what needs none is there; with all of them a regression is that of `train`, with some it is another.
    assert_eq!(rmse(0, 0), None);
    let dataset = data.join("builtin-45-seed-1");
    let train = ["train", "--data", text(&dataset), "--method", "ridge", "--target", "raw"];
    let trained = ok_json(&[&train[..], &["--rate", "20"]].concat());
    assert_eq!(rmse(0, 2), trained[0]["score"]["density"]["rmse"].as_f64(), "{shown}");
    assert_ne!(rmse(0, 1), rmse(0, 2));
    let informed = [rmse(1, 0), rmse(1, 1), rmse(1, 2)].map(Option::unwrap);
    assert!(informed[0] != informed[1] && informed[1] != informed[2], "{informed:?}");
    let names: Vec<String> = jobs(&out).into_keys().collect();
    assert_eq!(names.len(), 2 + 3, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.ends_with(".labels-10")).count(), 2, "{names:?}");
    let svg = std::fs::read_to_string(out.join("label-share.svg")).unwrap();
    assert!(svg.contains("steps with ground truth"), "{svg}");

    let train = ["train", "--data", "nowhere", "--method", "fedtse-pi", "--label-share", "5"];
    assert!(refused(&train).contains("--label-share: found fedtse-pi, expected tse-pi-p"));
}

#[test]
fn all_results_end_in_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let run = Run { table: "all", out: &out, data: &data };
    let made = ok_json(&run.arguments(&["--only", "scale-up,ridge", "--seeds", "1"]));
    // Those that have such rows.
    assert_eq!(
        made["results"],
        serde_json::json!(["table2", "table5", "table4", "fig-pi-rate", "label-share"])
    );
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Table 2: all estimators by penetration rate"));
    // Again, it runs nothing.
    let before = jobs(&out);
    ok(&run.arguments(&["--only", "scale-up,ridge", "--seeds", "1"]));
    assert_eq!(jobs(&out), before);
    let error = refused(&run.arguments(&["--rates", "20"]));
    assert!(error.contains("--rates: not with all"), "{error}");
}

/// Two small worlds, one of SUMO's; needs SUMO (`make sumo`).
#[test]
fn worlds_are_made_by_recipes_and_compared() {
    if worlds::SumoTools::find(None).is_err() {
        assert!(
            std::env::var_os("FEDTSE_REQUIRE_SUMO").is_none(),
            "SUMO is required and was not found: run `make sumo`"
        );
        eprintln!("skipped: SUMO was not found; `make sumo` installs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let run = Run { table: "worlds", out: &out, data: &data };
    // Datasets alone, as they are made where SUMO is and carried elsewhere.
    let made = ok_json(&run.arguments(&["--seeds", "1", "--datasets-only"]));
    let folders: Vec<&str> =
        made.as_array().unwrap().iter().map(|one| one["folder"].as_str().unwrap()).collect();
    assert_eq!(folders.len(), 2, "{folders:?}");
    assert!(jobs(&out).is_empty());

    let more = ["--seeds", "1", "--only", "scale-up,ridge,oracle", "--jobs", "2"];
    let shown = ok_json(&run.arguments(&more));
    let names: Vec<&str> = shown["worlds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ramp", "town"]);
    for world in shown["worlds"].as_array().unwrap() {
        let number = |what: &str| world[what].as_str().unwrap().parse::<usize>().unwrap();
        assert!(number("loops") >= 2 && number("targets") <= number("links"), "{world}");
        assert!(world["vehicles"].as_u64().unwrap() > 50, "{world}");
    }
    // Every job has ended in a number or in an error that is shown.
    let failed = shown["failed"].as_object().unwrap().len();
    assert_eq!(jobs(&out).len() + failed, 2 * 3, "{}", shown["failed"]);
    assert_eq!(shown["unfinished"].as_array().unwrap().len(), failed);
    for verdict in shown["verdicts"].as_array().unwrap() {
        assert!(verdict["worst"].as_f64() >= verdict["median"].as_f64(), "{verdict}");
    }

    // What cannot be done is told in the table and does not end the command.
    let job = "seed-1.ridge.fleet-20.raw.world-ramp";
    let features = data.join("ramp-10-seed-1").join("features").join("fleet-20.parquet");
    std::fs::remove_file(out.join("jobs").join(format!("{job}.json"))).unwrap();
    let whole = std::fs::read(&features).unwrap();
    std::fs::write(&features, "broken").unwrap();
    let broken = ok_json(&run.arguments(&more));
    let error = broken["failed"][job].as_str().unwrap();
    assert!(error.contains("fleet-20.parquet"), "{error}");
    let page = std::fs::read_to_string(out.join("worlds.md")).unwrap();
    assert!(page.contains("✗") && page.contains(job), "{page}");
    // Run again, it is as before.
    std::fs::write(&features, whole).unwrap();
    let again = ok_json(&run.arguments(&more));
    for what in ["rows", "verdicts", "failed"] {
        assert_eq!(again[what], shown[what], "{what}");
    }

    // Another recipe is another world.
    let recipe = data.join("town-10-seed-1").join("world.json");
    let text = std::fs::read_to_string(&recipe).unwrap();
    std::fs::write(&recipe, text.replace("town.osm", "city.osm")).unwrap();
    let error = refused(&run.arguments(&more));
    assert!(error.contains("world.json: recipe: found"), "{error}");
    let unknown = Command::new(env!("CARGO_BIN_EXE_fedtse"))
        .args(run.arguments(&["--worlds", "atlantis"]))
        .output()
        .unwrap();
    let unknown = String::from_utf8(unknown.stderr).unwrap();
    assert!(unknown.contains("found `atlantis`, expected one of corridor, ramp"), "{unknown}");
    let error = refused(&["reproduce", "table2", "--worlds", "ramp"]);
    assert!(error.contains("--worlds: table2 has one world"), "{error}");
}
