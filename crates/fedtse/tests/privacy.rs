//! What guests of a whole training keep to: policies, budgets and commitments, as a user runs them.

mod common;

use std::path::PathBuf;

use common::{ok, ok_json, refused, text};
use serde_json::Value;

/// A quarter of an hour of the corridor and half of its vehicles.
struct Corridor {
    folder: tempfile::TempDir,
}

impl Corridor {
    fn new() -> Self {
        let corridor = Self { folder: tempfile::tempdir().expect("a folder") };
        let data = corridor.path("data");
        ok(&["simulate", "--minutes", "16", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
        ok(&["features", text(&data), "--rates", "50"]);
        corridor
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn policy(&self, content: &str) -> PathBuf {
        let path = self.path("policy.toml");
        std::fs::write(&path, content).expect("a file");
        path
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let data = self.path("data");
        let usual = ["train", "--data", text(&data), "--method", "fedtse-pi", "--rate", "50"];
        let all = [&usual[..], &["--target", "raw", "--epochs", "1"], more].concat();
        all.iter().map(ToString::to_string).collect()
    }

    fn trained(&self, more: &[&str]) -> Value {
        let arguments = self.arguments(more);
        ok_json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())[0].take()
    }

    fn refused(&self, more: &[&str]) -> String {
        let arguments = self.arguments(more);
        refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

#[test]
fn a_policy_rules_a_whole_training() {
    let corridor = Corridor::new();
    let whole = corridor.trained(&["--privacy", "sealed"]);

    // Sealed and exact, as `--privacy sealed` is; and what is left out is missed.
    let policy = corridor.policy("noise = false\n");
    let same = corridor.trained(&["--policy", text(&policy)]);
    assert_eq!(same["score"], whole["score"]);
    let policy = corridor.policy("noise = false\nlinks = [\"E1\", \"E2\"]\n");
    let part = corridor.trained(&["--policy", text(&policy)]);
    assert_ne!(part["score"], whole["score"]);

    // Noise of the policy is drawn once and kept.
    let noise = corridor.path("noise");
    let policy = corridor.policy("[noise]\nepsilon = 2.0\n");
    let with_noise = ["--policy", text(&policy), "--noise-folder", text(&noise)];
    let first = corridor.trained(&with_noise);
    assert_ne!(first["score"], whole["score"]);
    assert!(std::fs::read_dir(&noise).unwrap().count() > 0);
    assert_eq!(corridor.trained(&with_noise)["score"], first["score"]);

    let policy = corridor.policy("noise = false\nmost-products = 3.0\n");
    let error = corridor.refused(&["--policy", text(&policy)]);
    assert!(error.contains("expected at most 3: the budget is spent"), "{error}");
    let policy = corridor.policy("links = [\"E1\", \"nowhere\"]\n");
    let error = corridor.refused(&["--policy", text(&policy)]);
    assert!(error.contains("links of the policy: found `nowhere`"), "{error}");
    let policy = corridor.policy("commitments = false\n");
    let error = corridor.refused(&["--policy", text(&policy), "--commitments"]);
    assert!(error.contains("commitments, which this guest's policy refuses"), "{error}");
}

#[test]
fn guests_that_commit_to_their_data_train_the_same_model() {
    let corridor = Corridor::new();
    let free = corridor.trained(&["--privacy", "sealed"]);
    let held = corridor.trained(&["--privacy", "sealed", "--commitments"]);
    assert_eq!(held["score"], free["score"]);
    // Commitments and proofs have crossed.
    assert!(held["bytes"].as_u64() > free["bytes"].as_u64());
    let error = corridor.refused(&["--privacy", "clear", "--commitments"]);
    assert!(error.contains("--commitments: found measurements in the clear"), "{error}");
}
