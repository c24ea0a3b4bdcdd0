//! The attacks end to end, on a short simulation.

mod common;

use common::{ok, ok_json, refused, text};
use serde_json::Value;

/// Attacks of a name.
fn named<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    let attacks = report["attacks"].as_array().expect("a list");
    attacks.iter().filter(|attack| attack["name"] == name).collect()
}

/// What an attack found in a mode, largest number of rounds last.
fn of_mode<'a>(attack: &'a Value, list: &str, mode: &str) -> Vec<&'a Value> {
    attack[list].as_array().expect("a list").iter().filter(|one| one["mode"] == mode).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn sealed_products_give_measurements_away_and_noise_bounds_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    ok(&["simulate", "--minutes", "40", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50"]);
    let page = folder.path().join("attacks.html");
    let short = ["--warm-up", "2", "--rounds", "2", "--trials", "2000"];
    let of = ["audit", "attacks", "--data", text(&data), "--rate", "50", "--html", text(&page)];
    let report = ok_json(&[&of[..], &short[..]].concat());
    assert_eq!(report["format"], "fedtse-attacks/1");

    let least_squares = named(&report, "least-squares");
    assert!(least_squares[0]["setting"].as_str().unwrap().contains("272 → 18), batch 128"));
    for attack in least_squares {
        for found in of_mode(attack, "results", "sealed") {
            // All but the grid's step, 1/32768 of the range.
            assert!(number(&found["explained"]) > 0.999_999, "{found}");
        }
        let clear = of_mode(attack, "results", "noisy-clear");
        for (at, found) in of_mode(attack, "results", "sealed+noise").into_iter().enumerate() {
            // No closer than the noised data are, after one round and after more: to the digits of a solution.
            let (error, noised) = (number(&found["rmse"]), number(&clear[at % 2]["rmse"]));
            assert!((error / noised - 1.0).abs() < 1e-6, "{found}");
            // 140 values or more: σ to √(1/280) = 6 %, five deviations.
            assert!((error / number(&found["noise"]) - 1.0).abs() < 0.3, "{found}");
        }
    }
    for found in of_mode(named(&report, "lattice")[0], "results", "sealed") {
        assert!(number(&found["explained"]) > 0.9, "{found}");
    }
    assert_eq!((named(&report, "embedding").len(), named(&report, "labels").len()), (2, 2));
    let membership = named(&report, "membership")[0];
    for mode in ["noisy-clear", "sealed+noise"] {
        for found in of_mode(membership, "memberships", mode) {
            let least = number(&found["epsilon_at_least"]);
            assert!(least <= number(&found["epsilon_accounted"]), "{found}");
        }
    }
    for found in of_mode(membership, "memberships", "sealed") {
        // ln of what 1000 trials without an error can tell at 99 %: 5.2.
        assert!(number(&found["epsilon_at_least"]) > 5.0, "{found}");
        assert!(found["epsilon_accounted"].is_null());
    }

    assert!(std::fs::read_to_string(&page).unwrap().contains("least-squares"));

    let other = ["audit", "attacks", "--data", text(&data), "--rate", "33"];
    assert!(refused(&other).contains("rate: found 33"));
}
