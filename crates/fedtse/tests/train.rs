//! Training and estimating end to end, on a short simulation.

mod common;

use std::cell::Cell;
use std::sync::Arc;

use anyhow::Result;
use common::{ok, ok_json, refused, text};
use fedtse::{CustomSubModelSpecs, Observer};
use serde_json::{from_value, json};

#[test]
fn a_model_is_trained_kept_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let data = path("data");
    ok(&["simulate", "--minutes", "40", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);

    let model = path("model");
    let train = |method: &str, out: &std::path::Path| {
        let arguments = ["train", "--data", text(&data), "--method", method, "--rate", "50"];
        let more = ["--target", "raw", "--epochs", "2", "--out", text(out)];
        [&arguments[..], &more[..]].concat().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let arguments = train("oracle-cell", &model);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rows = ok_json(&arguments);
    assert_eq!(rows[0]["architecture"], "link");
    for file in ["model.json", "weights.safetensors", "curves.svg"] {
        assert!(model.join(file).is_file(), "{file}");
    }
    assert!(!model.join("run.state").exists());
    // A finished model is not overwritten.
    assert!(refused(&arguments).contains("holds a model already"));

    let table = path("estimates.csv");
    let estimate =
        ["estimate", "--model", text(&model), "--data", text(&data), "--out", text(&table)];
    let made = ok_json(&estimate);
    let rows = std::fs::read_to_string(&table).unwrap();
    // A header, and all links of each step that has a window of nine.
    let steps = made["steps"].as_u64().unwrap();
    assert_eq!((steps, made["links"].as_u64().unwrap()), ((40 - 2) * 6 - 8, 17));
    assert_eq!(rows.lines().count() as u64, 1 + steps * 17);
    assert!(rows.starts_with("step,link,density_veh_km_lane,flow_veh_min_lane\n20,E1,"), "{rows}");
    let parquet = path("estimates.parquet");
    ok(&["estimate", "--model", text(&model), "--data", text(&data), "--out", text(&parquet)]);
    assert!(std::fs::read(&parquet).unwrap().starts_with(b"PAR1"));
    let nowhere = path("estimates.txt");
    let odd = ["estimate", "--model", text(&model), "--data", text(&data), "--out", text(&nowhere)];
    assert!(refused(&odd).contains("expected .parquet or .csv"));

    // Estimating needs no truth: what a city does every day.
    std::fs::remove_file(data.join("features/all.parquet")).unwrap();
    ok(&estimate);
    assert_eq!(std::fs::read_to_string(&table).unwrap(), rows);

    // Other features than the model was made for.
    ok(&["features", text(&data), "--rates", "50", "--cells", "3", "--replace"]);
    let error = refused(&estimate);
    assert!(error.contains("cells and sub-steps: found Some([3, 2])"), "{error}");
    ok(&["features", text(&data), "--rates", "50", "--step", "5", "--replace"]);
    assert!(refused(&estimate).contains("length of a step, s: found 5, expected 10"));
}

#[test]
fn estimates_carry_intervals_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (data, model, table) = (path("data"), path("model"), path("estimates.csv"));
    // A tenth of an hour has 35 windows: alone too few for 95 %, for which links help each other.
    ok(&["simulate", "--minutes", "62", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let train = ["train", "--data", text(&data), "--method", "oracle", "--rate", "50"];
    let train = [&train[..], &["--target", "raw", "--epochs", "2"]].concat();
    let rows = ok_json(&[&train[..], &["--out", text(&model)]].concat());
    let levels = rows[0]["intervals"].as_array().unwrap();
    let widths: Vec<f64> = levels.iter().map(|one| one["width"][0].as_f64().unwrap()).collect();
    assert_eq!(levels.len(), 4);
    assert!(widths.is_sorted() && widths[0] > 0.0, "{widths:?}");
    // On the part that they come from they hold by construction: nothing is told.
    let other = path("other");
    let rows = ok_json(&[&train[..], &["--part", "validation", "--out", text(&other)]].concat());
    assert!(rows[0].get("intervals").is_none() && other.join("intervals.json").is_file());

    let estimate =
        ["estimate", "--model", text(&model), "--data", text(&data), "--out", text(&table)];
    ok(&[&estimate[..], &["--interval", "90"]].concat());
    let table = std::fs::read_to_string(&table).unwrap();
    let mut lines = table.lines();
    let header = "step,link,density_veh_km_lane,flow_veh_min_lane,density_low,density_high,flow_low,flow_high";
    assert_eq!(lines.next(), Some(header));
    for line in lines {
        let numbers: Vec<f64> = line.split(',').skip(2).map(|x| x.parse().unwrap()).collect();
        // Each estimate is within its own interval.
        let [density, flow] = [numbers[0], numbers[1]];
        assert!(numbers[2] <= density && density <= numbers[3], "{line}");
        assert!(numbers[4] <= flow && flow <= numbers[5], "{line}");
    }
    let error = refused(&[&estimate[..], &["--interval", "42"]].concat());
    assert!(error.contains("found 42 %, expected one of 50, 80, 90, 95"), "{error}");
    std::fs::remove_file(model.join("intervals.json")).unwrap();
    let error = refused(&[&estimate[..], &["--interval", "90"]].concat());
    assert!(error.contains("intervals.json"), "{error}");
}

/// A short recording with two fleets, for tests that compare trainings.
fn compared_data(folder: &std::path::Path) -> std::path::PathBuf {
    let data = folder.join("data");
    ok(&["simulate", "--minutes", "40", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "20,50"]);
    data
}

/// Several methods, rates and seeds are one table; what it sums up is kept, read again and compared.
#[test]
fn methods_rates_and_seeds_make_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (data, out, metrics) = (compared_data(folder.path()), path("models"), path("metrics.csv"));
    let train = ["train", "--data", text(&data), "--method", "scale-up,oracle", "--rate", "20,50"];
    let train = [&train[..], &["--seed", "1,2,3", "--target", "raw", "--epochs", "2"]].concat();
    let train = [&train[..], &["--out", text(&out), "--metrics", text(&metrics)]].concat();
    let rows = ok_json(&train);
    let rows = rows.as_array().unwrap();
    let named = |row: &serde_json::Value| (row["method"].clone(), row["rate"].as_f64().unwrap());
    let expected = [("scale-up", 20.0), ("scale-up", 50.0), ("oracle", 20.0), ("oracle", 50.0)];
    assert_eq!(
        rows.iter().map(named).collect::<Vec<_>>(),
        expected.map(|(method, rate)| (json!(method), rate))
    );
    for row in &rows[..2] {
        // A reference is the same with any seed.
        assert_eq!(row["seeds"], json!([1]));
        assert!(row.get("deviation").is_none() && row.get("runs").is_none());
    }
    for row in &rows[2..] {
        assert_eq!(row["seeds"], json!([1, 2, 3]));
        let rmse = |row: &serde_json::Value| row["score"]["density"]["rmse"].as_f64().unwrap();
        let each: Vec<f64> = row["runs"].as_array().unwrap().iter().map(rmse).collect();
        let mean = each.iter().sum::<f64>() / 3.0;
        let squares = each.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
        let deviation = row["deviation"]["density"]["rmse"].as_f64().unwrap();
        assert!((rmse(row) - mean).abs() < 1e-12);
        assert!((deviation - (squares / 2.0).sqrt()).abs() < 1e-12);
        assert!(deviation > 0.0);
    }
    // A line for each epoch of each neural fit; each has its own file, too.
    let lines = std::fs::read_to_string(&metrics).unwrap();
    assert!(lines.starts_with("method,rate,target,seed,epoch,train,validation,best\n"), "{lines}");
    assert_eq!(lines.lines().count(), 1 + 2 * 3 * 2);
    let one = out.join("oracle-50-raw-seed-3");
    let own = std::fs::read_to_string(one.join("metrics.csv")).unwrap();
    assert!(own.lines().skip(1).all(|line| lines.contains(line)), "{own}");
    // What is there already is read, and nothing is fitted again.
    let model = std::fs::metadata(one.join("weights.safetensors")).unwrap().modified().unwrap();
    let again = ok_json(&train);
    for (again, row) in again.as_array().unwrap().iter().zip(rows) {
        assert_eq!((&again["score"], &again["deviation"]), (&row["score"], &row["deviation"]));
    }
    let after = std::fs::metadata(one.join("weights.safetensors")).unwrap().modified().unwrap();
    assert_eq!(after, model);
    // But not what was made with other options.
    let error = refused(&[&train[..], &["--batch", "64"]].concat());
    assert!(error.contains("found a model of other data or options"), "{error}");

    let folders: Vec<_> = std::fs::read_dir(&out).unwrap().map(|one| one.unwrap().path()).collect();
    assert_eq!(folders.len(), 2 + 2 * 3);
    let runs: Vec<&str> = folders.iter().map(|one| text(one)).collect();
    let compared = ok_json(&[&["compare"], &runs[..]].concat());
    let tables = compared.as_array().unwrap();
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0]["rows"].as_array().unwrap().len(), 4);
    for row in tables[0]["rows"].as_array().unwrap() {
        let same = |other: &&serde_json::Value| {
            (&other["method"], &other["rate"]) == (&row["method"], &row["rate"])
        };
        let trained = rows.iter().find(same).unwrap();
        let of = |row: &serde_json::Value| row["score"]["flow"]["rmse"].as_f64().unwrap();
        assert!((of(row) - of(trained)).abs() < 1e-12);
        if row["method"] == "oracle" {
            assert_eq!(row["fits"], 3);
            let baseline = rows.iter().find(|other| {
                (&other["method"], &other["rate"]) == (&json!("scale-up"), &row["rate"])
            });
            let below = 100.0 * (1.0 - of(row) / of(baseline.unwrap()));
            assert!((row["below_baseline"][1].as_f64().unwrap() - below).abs() < 1e-9);
        }
    }
    let table = ok(&[&["compare"], &runs[..]].concat());
    assert!(table.contains(" ± ") && table.contains("vs scale-up"), "{table}");
    let page = path("report.html");
    let shown: Vec<&str> = runs.iter().flat_map(|run| ["--run", *run]).collect();
    ok(&[&["report"], &shown[..], &["--out", text(&page)]].concat());
    assert!(std::fs::read_to_string(&page).unwrap().contains("Runs side by side"));
}

/// A file has all options; the command line comes first; what is wrong is told with file and line.
#[test]
fn options_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let data = compared_data(folder.path());
    let file = path("run.toml");
    let good = "# Two references\ndata = \"data\"\nmethod = [\"scale-up\", \"oracle\"]\nrate = [20, 50]\ntarget = \"raw\"\nepochs = 1\nfrozen = false\n";
    std::fs::write(&file, good).unwrap();
    let rows = ok_json(&["train", "--config", text(&file)]);
    assert_eq!(rows.as_array().unwrap().len(), 4);
    let typed = ["--data", text(&data), "--method", "scale-up,oracle", "--rate", "20,50"];
    let typed = [&["train"], &typed[..], &["--target", "raw", "--epochs", "1"]].concat();
    assert_eq!(ok_json(&typed), rows);
    // What is typed takes the place of the file's whole list.
    let rows = ok_json(&["train", "--config", text(&file), "--method", "scale-up", "--rate", "20"]);
    let row = &rows.as_array().unwrap()[..];
    assert_eq!(
        (row.len(), &row[0]["method"], &row[0]["rate"]),
        (1, &json!("scale-up"), &json!(20.0))
    );
    // Also of an option that goes with one of the file's as little.
    let rows = ok_json(&[
        "train",
        "--config",
        text(&file),
        "--fleets",
        "fleet-50",
        "--method",
        "scale-up",
    ]);
    assert_eq!(rows[0]["rate"], 50.0);
    for (from, to, expected) in [
        (
            "epochs = 1",
            "epoks = 1",
            "run.toml, line 6: epoks: unknown field, expected one of data, method",
        ),
        (
            "epochs = 1",
            "epochs = \"many\"",
            "run.toml, line 6: epochs: found `many`, expected a whole number",
        ),
        (
            "frozen = false",
            "frozen = 3",
            "run.toml, line 7: frozen: found 3, expected true or false",
        ),
        ("\"oracle\"", "\"best\"", "run.toml, line 3: method: invalid value 'best'"),
        (
            "rate = [20, 50]",
            "rate = [[20]]",
            "line 4: rate: found [20], expected a text or a number",
        ),
        ("data = \"data\"", "", "run.toml: data: found none, expected the folder of a dataset"),
        ("frozen = false", "config = \"other.toml\"", "line 7: config: unknown field"),
        ("epochs = 1", "epochs = 0", "--epochs: found 0, expected 1 to 100000"),
        ("epochs = 1", "epochs = = 1", "line 6"),
    ] {
        let wrong = good.replacen(from, to, 1);
        assert_ne!(wrong, good, "{from}");
        std::fs::write(&file, wrong).unwrap();
        let error = refused(&["train", "--config", text(&file)]);
        assert!(error.contains(expected), "{to}: {error}");
    }
    // The example names all options, with the defaults of the command line.
    let example = ok(&["train", "--example"]);
    let help = ok(&["train", "--help"]);
    let options = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    let own = ["config", "example", "help", "version", "json", "verbose", "quiet"];
    for option in options.filter(|one| one.chars().all(|c| c.is_ascii_lowercase() || c == '-')) {
        let line = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{option} = "));
        assert!(own.contains(&option) || example.lines().any(line), "{option}");
    }
    std::fs::write(&file, example.replace("data/corridor", "data")).unwrap();
    let defaults =
        ok_json(&["train", "--config", text(&file), "--rate", "20", "--method", "scale-up"]);
    let typed = ["train", "--data", text(&data), "--rate", "20", "--method", "scale-up"];
    assert_eq!(ok_json(&typed), defaults);
}

/// Each option of the recipe changes what is trained, and is refused outside its range.
#[test]
fn the_recipe_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let data = compared_data(folder.path());
    let train = ["train", "--data", text(&data), "--method", "fedtse", "--rate", "50"];
    let how = ["--target", "raw", "--epochs", "1", "--guests", "2", "--fusion", "concatenate"];
    let train = [&train[..], &how].concat();
    let score = |more: &[&str]| ok_json(&[&train[..], more].concat())[0]["score"].clone();
    let usual = score(&[]);
    // The defaults by name change nothing.
    let named = ["--batch", "128", "--learning-rate", "0.003", "--host-learning-rate", "0.003"];
    let more = ["--weight-decay", "0.01", "--flow-weight", "1", "--window", "9"];
    let named = [&named[..], &more].concat();
    assert_eq!(score(&named), usual);
    for other in [
        ["--batch", "32"],
        ["--learning-rate", "0.001"],
        ["--host-learning-rate", "0.001"],
        ["--weight-decay", "0.5"],
        ["--flow-weight", "5"],
        ["--window", "5"],
    ] {
        assert_ne!(score(&other), usual, "{other:?}");
    }
    for (option, value, expected) in [
        ("--batch", "0", "--batch: found 0, expected 1 to 4096"),
        ("--host-learning-rate", "0", "--host-learning-rate: found 0, expected"),
        ("--weight-decay", "-1", "--weight-decay: found -1, expected 0 to 1"),
        ("--flow-weight", "nan", "--flow-weight: found NaN, expected 0 to 1000000"),
        ("--checkpoint-s", "0", "--checkpoint-s: found 0, expected 0.01 to 1000000"),
    ] {
        let value = format!("{option}={value}");
        let error = refused(&[&train[..], &[value.as_str()]].concat());
        assert!(error.contains(expected), "{error}");
    }
}

/// With Q = 1 a federation ends with the weights of centralised training, and so with its read-out.
#[test]
fn a_federation_estimates_what_centralised_training_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let data = path("data");
    ok(&["simulate", "--minutes", "42", "--warm-up", "2", "--seed", "6", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let tables = ["oracle", "fedtse"].map(|method| {
        let (model, table) = (path(method), path(&format!("{method}.csv")));
        let train = ["train", "--data", text(&data), "--method", method, "--rate", "50"];
        let train = [&train[..], &["--target", "raw", "--epochs", "2"]].concat();
        ok(&[&train[..], &["--out", text(&model)]].concat());
        let weights = std::fs::read(model.join("weights.safetensors")).unwrap();
        assert!(weights.windows(17).any(|name| name == b"read-out.lengths\""), "a read-out");
        ok(&["estimate", "--model", text(&model), "--data", text(&data), "--out", text(&table)]);
        std::fs::read_to_string(table).unwrap()
    });
    assert!(tables[0] == tables[1], "other estimates");
}

#[test]
fn a_guest_may_have_another_sub_model_and_give_fewer_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    ok(&["simulate", "--minutes", "30", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let train =
        ["train", "--data", text(&data), "--rate", "50", "--target", "raw", "--epochs", "1"];
    let with = |more: &[&'static str]| [&train[..], more].concat();
    let scores: Vec<f64> = ["link", "stgcn", "mlp", "linear"]
        .into_iter()
        .map(|kind| ok_json(&with(&["--sub-model", kind, "--embedding-size", "1"])))
        .map(|rows| rows[0]["score"]["density"]["rmse"].as_f64().unwrap())
        .collect();
    // Four models, four errors.
    for (i, score) in scores.iter().enumerate() {
        assert!(score.is_finite() && !scores[..i].contains(score), "{scores:?}");
    }
    ok(&with(&["--arch", "paper", "--sub-model", "mlp", "--party-dropout", "0.2"]));
    let error = refused(&with(&["--arch", "paper", "--sub-model", "link"]));
    assert!(error.contains("expected some for each link"), "{error}");
    assert!(refused(&with(&["--party-dropout", "1.5"])).contains("party_dropout: found 1.5"));
}

#[test]
fn queue_profiles_are_better_than_scale_up() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    ok(&["simulate", "--minutes", "40", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let density = |method: &'static str| {
        let train = ["train", "--data", text(&data), "--method", method, "--rate", "50"];
        let rows = ok_json(&train);
        assert_eq!(rows[0]["method"], method);
        rows[0]["score"]["density"]["rmse"].as_f64().unwrap()
    };
    let [scaled, qest, with_host] = ["scale-up", "qest", "qest-f"].map(density);
    assert!(qest.is_finite() && with_host.is_finite() && qest != with_host);
    // Found: 5.7 against 4.4 and 4.0 veh/km/lane; the simulation is the same on every machine.
    assert!(qest < scaled && with_host < scaled, "{scaled} {qest} {with_host}");

    // What learns from measurements of single steps tells single steps, and only them.
    let train = ["train", "--data", text(&data), "--method", "tse-pi-p", "--rate", "50"];
    let rows = ok_json(&[&train[..], &["--epochs", "1"]].concat());
    let rows = rows.as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["target"]), (1, &"raw".into()));
}

#[test]
fn means_over_a_minute_are_refused_where_they_are_not_learned() {
    let methods = [
        "fedtse-pi",
        "fedtse-pi-v",
        "fedtse-pi-k",
        "fedtse-hf",
        "fedtse-pi-hf",
        "oracle-pi",
        "oracle-pi-v",
        "oracle-pi-k",
        "oracle-pi-hf",
        "tse-pi-p",
    ];
    let train = |method| {
        let target = ["--target", "raw,smooth"];
        refused(&[&["train", "--data", "nowhere", "--method", method][..], &target].concat())
    };
    for method in methods {
        let error = train(method);
        let expected = format!("--target: found smooth, expected raw: {method} learns");
        assert!(error.contains(&expected), "{error}");
    }
    // The others are stopped by the data that is not there.
    for method in ["hf", "hf-cell", "qest", "qest-f", "ukf", "scale-up", "ridge", "fedtse"] {
        let error = train(method);
        assert!(error.contains("nowhere") && !error.contains("--target"), "{error}");
    }
    for what in ["table5", "table6", "fig-pi-rate", "fig-pi-estimates"] {
        let error = refused(&["reproduce", what, "--target", "smooth"]);
        assert!(error.contains("--target: found smooth, expected raw"), "{what}: {error}");
    }
}

#[test]
fn part_of_the_fleet_is_held_out_instead_of_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    ok(&["simulate", "--minutes", "40", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let train = ["train", "--data", text(&data), "--method", "hf", "--rate", "50", "--epochs", "1"];
    // The parts that it needs are made, and what was there stays.
    let stored = |name: &str| std::fs::read(data.join("features").join(name)).unwrap();
    let (all, fleet) = (stored("all.parquet"), stored("fleet-50.parquet"));
    let rows = ok_json(&train);
    assert_eq!((stored("all.parquet"), stored("fleet-50.parquet")), (all, fleet));
    assert_eq!(rows[0]["method"], "hf");
    let part = stored("fleet-50-1of4.parquet");
    let features = ["features", text(&data), "--rates", "50", "--providers", "4"];
    ok(&features);
    assert_eq!(stored("fleet-50-1of4.parquet"), part);
    // A fleet that is not there yet is drawn as `features` would draw it, and so are its parts.
    ok(&["train", "--data", text(&data), "--method", "hf", "--rate", "30", "--epochs", "1"]);
    let drawn = (stored("fleet-30.parquet"), stored("fleet-30-4of4.parquet"));
    let other = folder.path().join("other");
    ok(&["simulate", "--minutes", "40", "--warm-up", "2", "--seed", "5", "--out", text(&other)]);
    // In the same steps: the last bits of sums depend on which fleets are summed together.
    for more in [&["50"][..], &["30"], &["30", "--providers", "4"]] {
        ok(&[&["features", text(&other), "--rates"], more].concat());
    }
    let made = |name: &str| std::fs::read(other.join("features").join(name)).unwrap();
    assert!(drawn == (made("fleet-30.parquet"), made("fleet-30-4of4.parquet")));
    assert_eq!(rows[1]["target"], "smooth");
    let fair = rows[0]["score"]["density"]["rmse"].as_f64().unwrap();

    // A fleet that is no fair sample is another fleet, and no addition to fair ones.
    let concentrated = [&features[..], &["--concentrate", "entry", "--strength", "0.9"]].concat();
    assert!(refused(&concentrated).contains("--replace"));
    ok(&[&concentrated[..], &["--replace"]].concat());
    let rows = ok_json(&train);
    assert!(rows[0]["score"]["density"]["rmse"].as_f64().unwrap() != fair);
    let strong = [&features[..], &["--concentrate", "hour", "--strength", "1.5"]].concat();
    assert!(refused(&strong).contains("found 1.5, expected 0 or more and less than 1"));
    let replay = ["replay", "--data", text(&data), "--fleet", "fleet-50"];
    assert!(refused(&replay).contains("found a concentrated fleet"));
}

/// The default without ground truth weighs its models by the held-out fleet and tells its own error, in one place and in a federation.
#[test]
fn models_without_truth_are_weighted_and_tell_their_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    ok(&["simulate", "--minutes", "50", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let train = |method: &str| {
        let all = ["train", "--data", text(&data), "--method", method, "--rate", "50"];
        ok_json(&[&all[..], &["--epochs", "2", "--privacy", "clear"]].concat())
    };
    for (method, models) in [("label-free", 8), ("fedtse-label-free", 5)] {
        let rows = train(method);
        assert_eq!(rows.as_array().unwrap().len(), 1, "raw targets alone");
        let weights = rows[0]["models"].as_array().unwrap();
        assert_eq!(weights.len(), models, "{weights:?}");
        for quantity in 0..2 {
            let of = |one: &serde_json::Value| one[1][quantity].as_f64().unwrap();
            let weights: Vec<f64> = weights.iter().map(of).collect();
            // In a federation half, in equal parts, for the three plain models.
            let plain = if models == 5 { 0.1666 } else { 0.0 };
            assert!(weights[..3].iter().all(|weight| *weight >= plain), "{weights:?}");
            assert!(weights.iter().all(|weight| *weight >= 0.0), "{weights:?}");
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{weights:?}");
        }
        assert_eq!(rows[0]["estimated_errors"].as_array().unwrap().len(), 2);
    }
    // Every method that holds part of the fleet out tells its error; one that does not has none to tell.
    assert!(train("fedtse-hf")[0].get("estimated_errors").is_some());
    assert!(train("fedtse-pi")[0].get("estimated_errors").is_none());
}

/// What a front end's Ctrl-C does: the work ends where it next looks, and leaves nothing half done.
#[test]
fn work_that_is_told_to_stop_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (data, model) = (path("data"), path("model"));
    ok(&["simulate", "--minutes", "20", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let train = ["train", "--data", text(&data), "--method", "fedtse", "--rate", "50"];
    ok(&[&train[..], &["--target", "raw", "--epochs", "1", "--out", text(&model)]].concat());

    let told = |work: &dyn Fn() -> Result<()>| {
        work().expect("unwatched, it comes to its end");
        let watched = Arc::new(Observer::default());
        watched.stop();
        let error = watched.work(work).expect_err("it was told to stop");
        assert!(fedtse::error_chain(&error).contains("stopped before the end"), "{error:#}");
    };
    let estimate = from_value(json!({ "model": model, "data": data })).unwrap();
    told(&|| fedtse::estimate(&estimate, &CustomSubModelSpecs::new()).map(drop));
    let ledger = model.join("guest/ledger.jsonl");
    let audit = from_value(json!({ "ledger": ledger, "party": "guest" })).unwrap();
    told(&|| fedtse::audit(&audit).map(drop));
    // Of those that are there already there is nothing to make: each call adds one.
    let rate = Cell::new(30);
    let features = || {
        rate.set(rate.get() + 1);
        from_value(json!({ "rates": [rate.get()] })).unwrap()
    };
    told(&|| fedtse::features(&data, &features()).map(drop));
    let simulate = |out: &str| {
        let options = json!({ "minutes": 5, "warm_up": 1, "out": path(out) });
        fedtse::simulate(&from_value(options)?, None).map(drop)
    };
    simulate("made").expect("unwatched, it comes to its end");
    let watched = Arc::new(Observer::default());
    watched.stop();
    assert!(watched.work(|| simulate("unmade")).is_err());
    assert!(!path("unmade").join("manifest.json").exists());
}

/// Three providers of unequal size: the host trains on their sum, keeps the model and estimates with it; masked or not, it is
/// the same to the last bit. Without ground truth, folds and queue densities are summed, too.
#[test]
fn a_model_of_a_sum_over_guests_is_trained_kept_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let data = path("data");
    ok(&["simulate", "--minutes", "40", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--guests", "30,15,5"]);
    let train = |method: &str, more: &[&str], out: &std::path::Path| {
        let fixed = ["train", "--data", text(&data), "--method", method, "--target", "raw"];
        let fleets = ["--fleets", "guest-1,guest-2,guest-3", "--epochs", "2", "--out", text(out)];
        ok_json(&[&fixed[..], &fleets, more].concat())
    };
    let (masked, clear) = (path("masked"), path("clear"));
    let rows = train("fedtse", &["--privacy", "aggregate"], &masked);
    assert_eq!(rows[0]["rate"], 50.0);
    // Each guest sends 36 numbers of 8 bytes for each of 38 minutes' steps.
    assert_eq!(rows[0]["bytes"], 3 * 36 * 8 * 38 * 6);
    train("fedtse", &["--fusion", "sum", "--privacy", "clear"], &clear);
    let weights =
        |model: &std::path::Path| std::fs::read(model.join("weights.safetensors")).unwrap();
    assert_eq!(weights(&masked), weights(&clear));
    let run: serde_json::Value =
        serde_json::from_slice(&std::fs::read(masked.join("run.json")).unwrap()).unwrap();
    assert_eq!(
        (&run["methods"][0]["privacy"], &run["data"]["guests"]),
        (&json!("aggregate"), &json!(3))
    );

    let held_out = path("held-out");
    train("fedtse-pi-hf", &["--privacy", "aggregate"], &held_out);
    for model in [&masked, &held_out] {
        let table = path("estimates.csv");
        let estimate = ["estimate", "--model", text(model), "--data", text(&data)];
        let made = ok_json(&[&estimate[..], &["--interval", "80", "--out", text(&table)]].concat());
        assert_eq!(made["steps"], 38 * 6 - 8);
        let rows = std::fs::read_to_string(&table).unwrap();
        let numbers = rows.lines().skip(1).flat_map(|row| row.split(',').skip(2));
        assert!(numbers.map(|number| number.parse::<f64>().unwrap()).all(f64::is_finite));
    }
    ok(&["report", "--run", text(&held_out), "--out", text(&path("report.html"))]);

    let refused_with = |more: &[&str]| {
        let fixed = ["train", "--data", text(&data), "--method", "fedtse"];
        refused(&[&fixed[..], more].concat())
    };
    let error = refused_with(&["--privacy", "aggregate", "--fusion", "concatenate"]);
    assert!(error.contains("--fusion: found concatenate with --privacy aggregate"), "{error}");
    let two = ["train", "--data", text(&data), "--method", "oracle", "--fleets", "guest-1,guest-2"];
    let error = refused(&two);
    assert!(error.contains("--fleets: found 2, expected 1 to 1"), "{error}");
}

/// Two or more guests show the host their sum alone unless something else is asked for; what it sees stands on one line.
#[test]
fn several_guests_are_summed_unless_something_else_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let data = compared_data(folder.path());
    let train = |more: &[&str]| {
        let train = ["train", "--data", text(&data), "--method", "fedtse", "--rate", "50"];
        let how = ["--target", "raw", "--epochs", "1", "--json"];
        let output = common::fedtse(&[&train[..], &how, more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let said: Vec<String> =
            said.lines().filter(|line| line.starts_with("privacy: ")).map(str::to_owned).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        (said.concat(), rows[0]["score"].clone())
    };
    let (said, score) = train(&["--guests", "2"]);
    assert_eq!(
        said,
        "privacy: aggregate (of 2 guests, unless something else is asked for): the host sees the sum over the guests and nothing else of one of them"
    );
    assert_eq!(score, train(&["--guests", "2", "--privacy", "aggregate"]).1);
    // What only exchanges have, leaves them as they were.
    let (said, exchanged) = train(&["--guests", "2", "--q", "2"]);
    assert_eq!(
        said,
        "privacy: clear (as q says): the host sees each guest's embeddings and, without labels, its measurements"
    );
    assert_ne!(exchanged, score);
    let (said, _) = train(&["--guests", "2", "--fusion", "concatenate"]);
    assert!(said.starts_with("privacy: clear (as fusion says)"), "{said}");
    let (said, _) = train(&["--guests", "1"]);
    assert!(said.starts_with("privacy: clear (of one guest): the host sees each guest"), "{said}");
}
