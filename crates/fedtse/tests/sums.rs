//! Host and guests as processes that learn from sums over guests alone: the model of one process, whatever happens to them.

#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

mod common;
mod parties;

use std::path::PathBuf;

use common::{ok, ok_json, text};
use parties::{A_FEW_WORDS, Choice, GUESTS, Party, World, finish, wait_for};

const EPOCHS: u32 = 2;

/// A world whose parties learn from sums alone.
fn world() -> World {
    let world = World::new(&Choice { epochs: EPOCHS, ..Choice::default() });
    world.change("city", "batch = 32", "privacy = \"aggregate\"");
    world.change("fleet-a", "fusion = \"concatenate\"", "fusion = \"sum\"");
    world.change("fleet-b", "[model]", "[model]\nfusion = \"sum\"");
    world
}

/// The weights that the host has kept.
fn weights(world: &World) -> Vec<u8> {
    std::fs::read(world.path("city/run/model/weights.safetensors")).unwrap()
}

/// Those of one process with the data of all parties.
fn of_one_process(world: &World) -> Vec<u8> {
    let (data, out): (PathBuf, PathBuf) = (world.path("data"), world.path("one-process"));
    let epochs = EPOCHS.to_string();
    ok(&[
        "train",
        "--data",
        text(&data),
        "--method",
        "fedtse",
        "--fleets",
        "guest-1,guest-2",
        "--privacy",
        "aggregate",
        "--target",
        "raw",
        "--epochs",
        &epochs,
        "--out",
        text(&out),
    ]);
    std::fs::read(out.join("weights.safetensors")).unwrap()
}

/// Kinds of messages that have left a party, by its ledger.
fn released(world: &World, party: &str) -> Vec<String> {
    let ledger = std::fs::read_to_string(world.path(party).join("run/ledger.jsonl")).unwrap();
    let kind = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["kind"].as_str().unwrap().to_owned()
    };
    ledger.lines().map(kind).collect()
}

#[test]
fn the_model_of_a_sum_over_the_network_is_that_of_one_process() {
    let world = world();
    let expected = of_one_process(&world);
    let paths = ["city", "fleet-a", "fleet-b"].map(|party| world.config(party));
    let [host, a, b] = paths.each_ref().map(|path| text(path));
    let rehearsed = ok_json(&["rehearse", "--host", host, "--guest", a, "--guest", b]);
    world.gate.open();
    let mut parties = world.start_all();
    let city = parties.remove(0);
    finish(parties);
    let report = city.report();
    assert_eq!(weights(&world), expected);
    assert_eq!(report["score"], rehearsed["score"]);
    // What leaves a guest is masked; the seeds are of its own mask alone, since nobody dropped out.
    for guest in GUESTS {
        let mut kinds = released(&world, guest);
        // Ledgers are countersigned on the way.
        let others = ["heartbeat", "ledger-head", "countersigned"];
        kinds.retain(|kind| !others.contains(&kind.as_str()));
        kinds.dedup();
        assert_eq!(
            kinds,
            ["sum-hello", "masked-totals", "sum-agreed", "mask-seeds", "leave"],
            "{guest}"
        );
    }
}

#[test]
fn parties_that_are_killed_end_with_the_same_model() {
    let world = world();
    let expected = of_one_process(&world);
    world.gate.allow(A_FEW_WORDS);
    let mut parties = world.start_all();
    world.wait_until_held(&mut parties);
    // Nobody has all totals yet. A guest is killed, and the host.
    let (mut b, a, mut city) =
        (parties.pop().unwrap(), parties.pop().unwrap(), parties.pop().unwrap());
    b.kill();
    city.kill();
    let mut again: Vec<Party> = vec![world.start("city"), a, world.start("fleet-b")];
    let joined = |log: &str| log.matches("joined").count();
    wait_for(&mut again, || joined(&std::fs::read_to_string(world.path("city.log")).unwrap()) > 0);
    world.gate.open();
    finish(again);
    assert_eq!(weights(&world), expected);
}

/// Over a single guest the sum is its own data: it does not give that unless it says so.
#[test]
fn a_guest_alone_adds_to_no_sum_unless_its_policy_says_so() {
    let world = world();
    world.change("city", "[guests.fleet-b]\n            numbers = { per-link = 2 }\n            starts-as-state = false", "");
    let mut city = world.start("city");
    let mut alone = world.start("fleet-a");
    assert!(!alone.wait().success());
    let log = alone.log();
    assert!(log.contains("participants of a sum: found 1, expected 2 or more"), "{log}");
    assert!(!released(&world, "fleet-a").contains(&"masked-totals".to_owned()));
    city.kill();
    std::fs::write(world.path("fleet-a/policy.toml"), "fewest-participants = 1\n").unwrap();
    world.change("fleet-a", "fleet = \"guest-1\"", "fleet = \"guest-1\"\npolicy = \"policy.toml\"");
    let parties = vec![world.start("city"), world.start("fleet-a")];
    finish(parties);
    for (party, sees) in [
        ("city", "the host sees the totals of `fleet-a`"),
        ("fleet-a", "the host sees this fleet's totals"),
    ] {
        let log = std::fs::read_to_string(world.path(&format!("{party}.log"))).unwrap();
        assert!(log.contains(sees), "{party}: {log}");
    }
}
