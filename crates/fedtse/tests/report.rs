//! The demo and the report end to end, on minutes of traffic.

mod common;

use std::path::Path;

use common::{ok, ok_json, refused, text};
use serde_json::Value;

/// The data of a page.
fn data(page: &Path) -> Value {
    let html = std::fs::read_to_string(page).expect("a page was written");
    let (_, data) =
        html.split_once("<script id=\"data\" type=\"application/json\">").expect("data");
    let (data, _) = data.split_once("</script>").expect("the end of the data");
    serde_json::from_str(data).expect("the data are JSON")
}

#[test]
fn the_demo_scores_everyone_and_tells_what_left_whom() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("demo");
    let short = ["--minutes", "60", "--epochs", "2", "--epochs-without-truth", "1"];
    let short = [&short[..], &["--epochs-protected", "1"][..]].concat();
    let run = ok_json(&[&["demo", "--out", text(&out)][..], &short[..]].concat());
    let methods = run["methods"].as_array().unwrap();
    let labels: Vec<&str> = methods.iter().map(|one| one["label"].as_str().unwrap()).collect();
    let federated = ["FedTSE", "FedTSE-PI, clear", "FedTSE-PI"];
    let others = ["no fusion (TSE-n)", "scale-up", "ridge", "oracle"];
    assert_eq!(labels, [&others[..], &federated[..]].concat());
    // What is measured crosses as it is where it is said so.
    let of = |label: &str| methods.iter().find(|one| one["label"] == label).unwrap();
    assert_eq!(of("FedTSE-PI, clear")["privacy"], "clear");
    for guest in ["guest-1", "guest-2"] {
        let party = of("FedTSE-PI, clear")["releases"].as_array().unwrap();
        let party = party.iter().find(|one| one["party"] == guest).unwrap();
        let sent = party["sent"].as_array().unwrap();
        let sent = |kind: &str| sent.iter().any(|one| one["kind"] == kind);
        assert_eq!(["measurements", "products"].map(sent), [true, false]);
    }
    // A sum that is made in one place has no messages.
    assert_eq!(of("FedTSE-PI")["privacy"], "aggregate");
    for method in methods {
        let releases = method["releases"].as_array().map_or(&[][..], Vec::as_slice);
        let exchanges = ["FedTSE", "FedTSE-PI, clear"].map(|label| method["label"] == label);
        assert_eq!(releases.len(), if exchanges.contains(&true) { 3 } else { 0 });
        for party in releases {
            // The sums of a ledger are those of its lines.
            let sent = party["sent"].as_array().unwrap();
            let bytes: u64 = sent.iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
            assert_eq!(party["bytes"].as_u64(), Some(bytes));
            // Guests speak with the host alone.
            let host = party["party"] == "host";
            assert!(host || sent.iter().all(|one| one["to"] == "host"), "{party}");
        }
    }
    // The page holds what the run says, and a page of the run again is the same.
    let page = out.join("report.html");
    assert_eq!(data(&page)["runs"][0]["methods"], run["methods"]);
    let again = folder.path().join("again.html");
    ok(&["report", "--run", text(&out), "--out", text(&again)]);
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&page), read(&again));
    // Truth and estimates of every target link for every window of the test part.
    let estimated = &run["estimated"];
    let windows = estimated["minutes"].as_array().unwrap().len();
    assert_eq!(run["data"]["test"], windows);
    let links = estimated["links"].as_array().unwrap();
    assert_eq!(run["data"]["target_links"], links.len());
    for link in links {
        assert_eq!(link["density"]["truth"].as_array().unwrap().len(), windows);
        assert_eq!(link["flow"]["estimates"][1]["values"].as_array().unwrap().len(), windows);
    }
}

#[test]
fn published_results_become_sections() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results");
    let made = ok_json(&["report", "--results", results, "--out", text(&page)]);
    let data = data(&page);
    let sections = data["results"].as_array().unwrap();
    // Besides them who can learn what.
    assert_eq!(made["results"], sections.len() - 1);
    let section = |id: &str| sections.iter().find(|one| one["id"] == id).unwrap();
    assert_eq!(section("modes")["grids"][0]["columns"].as_array().unwrap().len(), 4);
    // Ours and the paper's side by side, and the same as lines over penetration.
    let table2 = section("table2");
    let grid = &table2["grids"][0];
    let labels: Vec<&str> =
        grid["rows"].as_array().unwrap().iter().map(|row| row["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"FedTSE, link") && labels.contains(&"FedTSE (Q = 1)"), "{labels:?}");
    assert_eq!(grid["columns"], serde_json::json!(["20 %", "40 %", "60 %", "80 %"]));
    assert_eq!(table2["charts"][0]["x"], "penetration rate, %");
    assert!(section("table3")["grids"][0]["caption"].as_str().unwrap().contains("rounds"));
    assert_eq!(section("fig-q")["charts"][0]["x"], "communication round");
}

#[test]
fn there_must_be_something_to_report() {
    let folder = tempfile::tempdir().unwrap();
    let empty = text(folder.path());
    assert!(refused(&["report"]).contains("expected --run, --results or --attacks"));
    assert!(refused(&["report", "--results", empty]).contains("found no results"));
    assert!(refused(&["report", "--run", empty]).contains("run.json"));
    std::fs::write(folder.path().join("run.json"), "{\"format\": \"other\"}").unwrap();
    assert!(refused(&["report", "--run", empty]).contains("run.json"));
}
