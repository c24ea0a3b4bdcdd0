//! Training and estimating end to end, on a short simulation.

mod common;

use common::{ok, ok_json, refused, text};

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
    assert!(rows[0]["score"]["density"]["rmse"].as_f64().unwrap() > 0.0);
    for file in ["model.json", "weights.safetensors", "curves.svg"] {
        assert!(model.join(file).is_file(), "{file}");
    }
    assert!(!model.join("run.safetensors").exists());
    // A finished model is not overwritten.
    assert!(refused(&arguments).contains("holds a model already"));
    // References are not models.
    let ridge = train("ridge", &path("other"));
    let ridge: Vec<&str> = ridge.iter().map(String::as_str).collect();
    assert!(refused(&ridge).contains("expected a neural method"));

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

    // Other features than the model was made for.
    ok(&["features", text(&data), "--rates", "50", "--cells", "3"]);
    let error = refused(&estimate);
    assert!(error.contains("cells and sub-steps: found Some([3, 2])"), "{error}");
    ok(&["features", text(&data), "--rates", "50", "--step", "5"]);
    assert!(refused(&estimate).contains("length of a step, s: found 5, expected 10"));
}
