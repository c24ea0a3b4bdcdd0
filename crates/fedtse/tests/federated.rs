//! Host and guests in one process, end to end, on a short simulation.

mod common;

use common::{ok, ok_json, refused, text};

#[test]
fn fedtse_is_the_oracle_without_shared_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let data = path("data");
    ok(&["simulate", "--minutes", "30", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
    ok(&["features", text(&data), "--rates", "50,100", "--providers", "2"]);
    let train = |method: &str, more: &[&str]| {
        let all = ["train", "--data", text(&data), "--method", method, "--rate", "50"];
        let few = ["--target", "raw", "--epochs", "2"];
        ok_json(&[&all[..], &few[..], more].concat())[0].clone()
    };

    // With one guest and Q = 1 the weights are the oracle's, so the errors are, to the last digit.
    let oracle = train("oracle", &[]);
    let out = path("run");
    let fedtse = train("fedtse", &["--out", text(&out)]);
    assert_eq!(fedtse["score"], oracle["score"]);
    assert_eq!(fedtse["best_epoch"], oracle["best_epoch"]);
    // A finished run is read again, not trained again.
    let before = std::fs::read(out.join("guest/ledger.jsonl")).unwrap();
    assert_eq!(train("fedtse", &["--out", text(&out)])["score"], oracle["score"]);
    let after = std::fs::read(out.join("guest/ledger.jsonl")).unwrap();
    assert!(after.starts_with(&before) && after.len() < before.len() + 2000);

    // The parts are put together in the folder: the oracle's model, for `fedtse estimate`.
    let central = path("central");
    train("oracle", &["--out", text(&central)]);
    let estimates = |model: &std::path::Path, name: &str| {
        let file = path(name);
        ok(&["estimate", "--model", text(model), "--data", text(&data), "--out", text(&file)]);
        std::fs::read(file).unwrap()
    };
    assert_eq!(estimates(&out, "fedtse.csv"), estimates(&central, "oracle.csv"));

    // A folder with another rate's or target's checkpoints does not pass for this one's.
    for (rate, target) in [("100", "raw"), ("50", "smooth")] {
        let data = ["train", "--data", text(&data), "--method", "fedtse", "--rate", rate];
        let more = ["--target", target, "--epochs", "2", "--out", text(&out)];
        let error = refused(&[&data[..], &more[..]].concat());
        assert!(error.contains("checkpoints in this folder: found those of other data"), "{error}");
        assert!(error.contains("choose another folder"), "{error}");
    }

    // Two guests and more local updates are another model.
    let two = path("two");
    let more = ["--guests", "2", "--q", "2", "--proximal", "0.01", "--out", text(&two)];
    let shared = train("fedtse-cell", &more);
    assert!(!estimates(&two, "two.csv").is_empty());
    assert_ne!(shared["score"], oracle["score"]);
    assert_eq!(shared["rounds"], fedtse["rounds"]);

    // Everything that left is in the ledgers.
    let ledger = out.join("guest/ledger.jsonl");
    let audit = ok_json(&["audit", "ledger", text(&ledger), "--party", "guest"]);
    let tallies = audit["tallies"].as_array().unwrap();
    let embeddings = tallies.iter().find(|tally| tally["kind"] == "embedding").unwrap();
    let rounds = fedtse["rounds"].as_u64().unwrap();
    assert_eq!(embeddings["messages"].as_u64().unwrap(), rounds);
    // Four numbers of four bytes for each of 17 links and sample, and what says which: under 2 %.
    let numbers = embeddings["numbers"].as_u64().unwrap();
    let bytes = embeddings["bytes"].as_u64().unwrap();
    assert_eq!(numbers % (4 * 17), 0);
    assert!((4 * numbers..4 * numbers * 102 / 100).contains(&bytes), "{bytes} of {numbers}");

    // A changed ledger is found, and so is someone else's.
    let head = audit["head"].as_str().unwrap();
    ok(&["audit", "ledger", text(&ledger), "--party", "guest", "--head", head]);
    assert!(refused(&["audit", "ledger", text(&ledger), "--party", "host"]).contains("line 1"));
    let changed =
        std::fs::read_to_string(&ledger).unwrap().replacen("\"bytes\":", "\"bytes\":1", 1);
    std::fs::write(&ledger, changed).unwrap();
    let error = refused(&["audit", "ledger", text(&ledger), "--party", "guest"]);
    assert!(error.contains("line 2: hash of the line before"), "{error}");
}
