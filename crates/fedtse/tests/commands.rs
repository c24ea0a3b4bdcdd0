//! The commands end to end, on short simulations.

mod common;

use std::collections::HashMap;
use std::path::Path;

use common::{fedtse, ok, ok_json, refused, text};
use serde_json::Value;
use traffic::{PositionSource, VehiclePosition};

fn simulate(out: &Path, world: &str, minutes: &str) -> Value {
    ok_json(&[
        "simulate",
        "--world",
        world,
        "--minutes",
        minutes,
        "--warm-up",
        "2",
        "--seed",
        "5",
        "--out",
        text(out),
    ])
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// With `--json` what is wrong is told as JSON, too: an error of a command, of its words, and of a file.
#[test]
fn errors_are_json_where_results_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.toml");
    std::fs::write(&file, "data = \"d\"\nepoks = 1\n").unwrap();
    for (words, code, expected) in [
        (vec!["inspect", "nowhere"], 1, "nowhere"),
        (
            vec!["train", "--data", "d", "--epochs", "many"],
            2,
            "--epochs: found `many`, expected a whole number",
        ),
        (vec!["inspekt"], 2, "unrecognized subcommand 'inspekt'"),
        (vec!["train", "--config", text(&file)], 1, "line 2: epoks: unknown field"),
    ] {
        let output = fedtse(&[&words[..], &["--json"]].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
        let told: Value = serde_json::from_slice(&output.stderr).expect("JSON");
        assert!(told["error"].as_str().unwrap().contains(expected), "{told}");
    }
    // Help is no error.
    let help = fedtse(&["train", "--help", "--json"]);
    assert!(help.status.success() && help.stderr.is_empty());
}

#[test]
fn shells_complete_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = ok(&["completions", shell]);
        for word in ["simulate", "compare", "host-learning-rate"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

/// A port that someone has is told of before anything is simulated or trained.
#[test]
fn a_port_that_is_taken_is_refused_first() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("federation");
    let error = refused(&["up", "--folder", text(&out), "--http", &address]);
    assert!(error.contains(&format!("--http: {address}")), "{error}");
    assert!(!out.exists());
}

/// Total time and distance over all boxes equal the trajectories' own to 1e-9 relative.
fn nothing_was_lost(features: &Value) {
    let report = &features["features"]["report"];
    for (own, boxes) in
        [("trajectory_time_s", "box_time_s"), ("trajectory_distance_m", "box_distance_m")]
    {
        let (own, boxes) = (number(&report[own]), number(&report[boxes]));
        assert!(own > 1000.0 && (own - boxes).abs() <= 1e-9 * own, "{own} {boxes}");
    }
    assert_eq!(number(&report["jumps"]), 0.0);
}

/// Total time and distance of a dataset, added up from its samples vehicle by vehicle: from the
/// first sight to the last, along the links passed. Knows nothing of steps, cells or features.
fn own_totals(folder: &Path) -> (f64, f64) {
    let dataset = sensing::Dataset::open(folder).expect("a dataset");
    let network = dataset.network();
    let mut samples = dataset.samples().expect("samples");
    let mut moment = Vec::new();
    // Per vehicle: when it was first seen, and its last sample.
    let mut seen: HashMap<u32, (f64, VehiclePosition)> = HashMap::new();
    let mut metres = 0.0;
    while samples.next_moment(&mut moment).expect("a moment").is_some() {
        for sample in &moment {
            let entry = seen.entry(sample.vehicle.0).or_insert((sample.time, *sample));
            let before = std::mem::replace(&mut entry.1, *sample);
            if before.link != sample.link {
                metres += network.link(before.link).length.get();
            }
            metres += f64::from(sample.position) - f64::from(before.position);
        }
    }
    (seen.values().map(|(first, last)| last.time - first).sum(), metres)
}

/// The boxes hold what the samples say, to 1e-9: sums of some hundred thousand numbers, rounded.
fn boxes_hold_the_samples(folder: &Path, features: &Value) {
    let (seconds, metres) = own_totals(folder);
    let report = &features["features"]["report"];
    for (own, boxes) in [(seconds, "box_time_s"), (metres, "box_distance_m")] {
        let boxes = number(&report[boxes]);
        assert!(own > 1000.0 && (own - boxes).abs() <= 1e-9 * own, "{own} {boxes}");
    }
}

#[test]
fn from_the_built_in_world_to_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let made = simulate(&data, "builtin", "17");
    assert!(number(&made["dataset"]["vehicles"]) > 300.0);
    let recordings = &made["dataset"]["recordings"];
    assert_eq!(recordings[0]["begin"], 120.0);
    assert_eq!(recordings[0]["end"], 1020.0);

    let features = ok_json(&["features", text(&data), "--rates", "25,75", "--seed", "2"]);
    nothing_was_lost(&features);
    boxes_hold_the_samples(&data, &features);
    let held = &features["features"]["held"];
    assert_eq!((&held[0]["first"], &held[0]["last"]), (&12.into(), &101.into()));
    assert_eq!(features["scale_up"].as_array().unwrap().len(), 2);

    let pictures = folder.path().join("pictures");
    let shown = ok(&["inspect", text(&data), "--plot", text(&pictures)]);
    for expected in ["E7*", "off_R4", "fleet-25", "coverage", "scale-up"] {
        assert!(shown.contains(expected), "{expected} is not in:\n{shown}");
    }
    for picture in ["time-space.svg", "density.svg"] {
        let svg = std::fs::read_to_string(pictures.join(picture)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("E1"), "{picture} names its links");
    }
    let inspected = ok_json(&["inspect", text(&data)]);
    assert_eq!(inspected["links"].as_array().unwrap().len(), 17);
}

#[test]
fn the_same_seed_gives_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| {
        let data = folder.path().join(name);
        simulate(&data, "builtin", "5");
        std::fs::read(data.join("trajectories.parquet")).unwrap()
    };
    assert_eq!(read("a"), read("b"));
}

#[test]
fn a_film_of_a_simulation_is_matched_back_onto_its_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    simulate(&path("data"), "builtin", "6");
    for (film, extra) in [("20181024_d1_0830_0900.csv", None), ("old.csv", Some("--milliseconds"))]
    {
        let (film, truth) = (path(film), path("truth.csv"));
        let mut export = vec![
            "export",
            text(&path("data")),
            "--minutes",
            "2",
            "--out",
            text(&film),
            "--truth",
            text(&truth),
        ]
        .into_iter()
        .map(String::from)
        .collect::<Vec<_>>();
        export.extend(extra.map(String::from));
        ok(&export.iter().map(String::as_str).collect::<Vec<_>>());
        let out = film.with_extension("matched");
        let imported = ok_json(&["import", "pneuma", text(&film), "--out", text(&out)]);
        let matching = &imported["matching"];
        let share = number(&matching["matched"]["metres"]) / number(&matching["total"]["metres"]);
        // Noise of 1 m against streets tens of metres apart: only stubs of tracks at the film's
        // ends are too short to be matched.
        assert!(share > 0.98, "{share}: {matching}");
        let features = ok_json(&["features", text(&out)]);
        nothing_was_lost(&features);
    }
}

#[test]
fn the_shipped_film_is_matched_as_its_truth_says() {
    let folder = tempfile::tempdir().unwrap();
    let film =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/pneuma/20181024_d1_0830_0900.csv.gz");
    let truth = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/pneuma/truth.csv");
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/pneuma/network.toml");
    let out = folder.path().join("matched");
    let imported = ok_json(&[
        "import",
        "pneuma",
        film,
        "--network",
        network,
        "--truth",
        truth,
        "--out",
        text(&out),
    ]);
    let accuracy = &imported["accuracy"];
    assert_eq!(number(&accuracy["points"]), 2226.0);
    // Wrong are the stubs at the film's ends (1.4 % of the time) and positions within the noise of
    // a stop line, about a tenth of the links' length times the chance to be on the other side.
    assert!(number(&accuracy["right_link"]) > 0.93, "{accuracy}");
    // The noise is 1 m white plus about 1 m of bias in each direction: along the road its median
    // is 0.67·√2 m, and 95 % lie within 2·√2 m.
    assert!(number(&accuracy["median_error"]) < 1.2, "{accuracy}");
    assert!(number(&accuracy["error_95"]) < 4.0, "{accuracy}");
}

#[test]
fn a_grid_city_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let (city, data) = (folder.path().join("city.toml"), folder.path().join("data"));
    let made = ok_json(&["network", "grid", "--rows", "3", "--columns", "4", "--out", text(&city)]);
    assert_eq!(made["links"], 62);
    let simulated = ok_json(&[
        "simulate",
        "--network",
        text(&city),
        "--flow",
        "200",
        "--minutes",
        "12",
        "--out",
        text(&data),
    ]);
    assert!(number(&simulated["dataset"]["vehicles"]) > 100.0);
    nothing_was_lost(&ok_json(&["features", text(&data), "--guests", "30,30"]));
    let shown = ok(&["inspect", text(&data)]);
    assert!(shown.contains("guest-2"), "{shown}");
}

#[test]
fn a_dataset_goes_through_csv_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("rows.csv");
    let mut rows = String::from("vehicle,time,link,position\n");
    for second in 0..40 {
        rows += &format!("a,{second},E1,{}\n", 2 * second);
        rows += &format!("b,{second},E5,{second}\n");
    }
    std::fs::write(&csv, rows).unwrap();
    let loops = folder.path().join("loops.csv");
    std::fs::write(&loops, "loop,begin,end,count\nL1,0,10,3\nL5,0,10,1\n").unwrap();
    let out = folder.path().join("data");
    ok(&["import", "csv", text(&csv), "--loops", text(&loops), "--out", text(&out)]);
    let features = ok_json(&["features", text(&out)]);
    assert_eq!(features["features"]["loops"], "sensors");
    // 39 s each, the last step (30 to 40 s) cut off by the end of the recording.
    assert_eq!(number(&features["features"]["report"]["trajectory_time_s"]), 78.0);
    assert_eq!(features["features"]["held"][0]["last"], 2);
    assert_eq!(number(&features["features"]["report"]["trajectory_distance_m"]), 39.0 * 3.0);
}

/// Both worlds drive the same vehicles; needs SUMO (`make sumo`).
#[test]
fn both_worlds_side_by_side() {
    if worlds::SumoTools::find(None).is_err() {
        assert!(
            std::env::var_os("FEDTSE_REQUIRE_SUMO").is_none(),
            "SUMO is required and was not found: run `make sumo`"
        );
        eprintln!("skipped: SUMO was not found; `make sumo` installs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (builtin, sumo) = (folder.path().join("builtin"), folder.path().join("sumo"));
    let a = simulate(&builtin, "builtin", "32");
    let b = simulate(&sumo, "sumo", "32");
    assert_eq!(a["dataset"]["vehicles"], b["dataset"]["vehicles"]);
    assert_eq!(a["dataset"]["recordings"], b["dataset"]["recordings"]);
    for data in [&builtin, &sumo] {
        let features = ok_json(&["features", text(data)]);
        nothing_was_lost(&features);
        boxes_hold_the_samples(data, &features);
    }
    let rows = ok_json(&["inspect", text(&builtin), "--beside", text(&sumo)]);
    let flow = |world: &str| -> f64 {
        rows[world].as_array().unwrap().iter().map(|row| number(&row["flow"]["mean"])).sum()
    };
    // The same vehicles on the same routes: flows differ only by who is still under way at the
    // ends of the half hour, a few per cent of all.
    assert!((flow("first") / flow("second") - 1.0).abs() < 0.08);
    let table = ok(&["inspect", text(&builtin), "--beside", text(&sumo)]);
    assert!(table.contains("builtin") && table.contains("sumo"), "{table}");
}
