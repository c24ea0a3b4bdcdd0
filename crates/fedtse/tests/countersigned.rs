//! Ledgers that host and guests countersign for each other: who rewrites its own is found, whichever side it is.

#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

mod common;
mod parties;

use std::fs;
use std::path::Path;

use common::{ok, refused, text};
use parties::{Choice, World, finish};
use protocol::ledger::LedgerEntry;
use sha2::{Digest, Sha256};

/// Writes a ledger anew from a line on, as if other bytes had left: its own chain is whole again.
fn rewrite(ledger: &Path, from: u64) {
    let lines = fs::read_to_string(ledger).unwrap();
    let (mut forged, mut head) = (String::new(), String::new());
    for line in lines.lines() {
        let mut entry: LedgerEntry = serde_json::from_str(line).unwrap();
        if entry.sequence == from {
            entry.bytes += 1;
        }
        if entry.sequence > from {
            entry.previous = head;
        }
        let text = serde_json::to_string(&entry).unwrap();
        head = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        forged.push_str(&text);
        forged.push('\n');
    }
    fs::write(ledger, forged).unwrap();
}

#[test]
fn a_ledger_that_one_side_rewrites_is_found_on_either_side() {
    for summed in [false, true] {
        let world = World::new(&Choice { epochs: 2, ..Choice::default() });
        if summed {
            world.change("city", "batch = 32", "privacy = \"aggregate\"");
            world.change("fleet-a", "fusion = \"concatenate\"", "fusion = \"sum\"");
            world.change("fleet-b", "[model]", "[model]\nfusion = \"sum\"");
        }
        world.gate.open();
        finish(world.start_all());
        let authority = world.path("certs/authority.pem");
        for (party, peer) in [("city", "fleet-a"), ("fleet-a", "city"), ("fleet-b", "city")] {
            let ledger = world.path(&format!("{party}/run/ledger.jsonl"));
            let heads = world.path(&format!("{party}/run/ledger.heads.jsonl"));
            let of_peer = world.path(&format!("{peer}/run/ledger.heads.jsonl"));
            let audit = ["audit", "ledger", text(&ledger), "--party", party];
            let checked = [&audit[..], &["--authority", text(&authority)]].concat();
            let said = ok(&checked);
            assert!(said.contains("signatures checked"), "{party}: {said}");
            assert!(ok(&audit).contains("signatures not checked: give --authority"));

            // A head that a peer has not signed.
            let kept = fs::read_to_string(&heads).unwrap();
            let own = kept.find(&format!("{{\"of\":\"{party}\"")).unwrap();
            let signature = own + kept[own..].find("\"signature\":\"").unwrap() + 40;
            let digit = if &kept[signature..=signature] == "0" { "1" } else { "0" };
            let mut forged = kept.clone();
            forged.replace_range(signature..=signature, digit);
            fs::write(&heads, forged).unwrap();
            let error = refused(&checked);
            assert!(error.contains("countersigned by"), "{party}: {error}");
            fs::write(&heads, &kept).unwrap();

            // The chain is whole, the heads are not.
            let whole = fs::read_to_string(&ledger).unwrap();
            rewrite(&ledger, 2);
            let error = refused(&checked);
            assert!(
                error.contains("as countersigned by `") && error.contains("a line from 1 to "),
                "{party}: {error}"
            );
            // Whoever removes what the peer has signed is found by what the peer has kept.
            fs::remove_file(&heads).unwrap();
            let said = ok(&checked);
            assert!(
                said.starts_with("whole: ") && said.contains("countersigned: nothing"),
                "{said}"
            );
            let error = refused(&[&checked[..], &["--heads", text(&of_peer)]].concat());
            assert!(error.contains("as countersigned by `"), "{party}: {error}");
            // So is a ledger that was cut off.
            let short: Vec<&str> = whole.lines().take(2).collect();
            fs::write(&ledger, short.join("\n") + "\n").unwrap();
            let error = refused(&[&checked[..], &["--heads", text(&of_peer)]].concat());
            assert!(error.contains("found no such line"), "{party}: {error}");
            fs::write(&heads, kept).unwrap();
            fs::write(&ledger, whole).unwrap();
        }
    }
}

/// What was sent, as values: those of the guest's own features, for the steps that were summed.
#[test]
fn a_guest_looks_at_what_it_has_sent() {
    let world = World::new(&Choice { epochs: 1, ..Choice::default() });
    world.change("city", "batch = 32", "privacy = \"aggregate\"");
    world.change("fleet-a", "fusion = \"concatenate\"", "fusion = \"sum\"");
    world.change("fleet-b", "[model]", "[model]\nfusion = \"sum\"");
    world.gate.open();
    finish(world.start_all());
    let [ledger, data, csv] =
        ["fleet-a/run/ledger.jsonl", "fleet-a/data", "sent.csv"].map(|at| world.path(at));
    let policy = world.path("fleet-a/run/model/policy.toml");
    let audit = ["audit", "ledger", text(&ledger), "--party", "fleet-a", "--show", text(&data)];
    let how = ["--fleet", "guest-1", "--policy", text(&policy), "--rows", "5", "--csv", text(&csv)];
    let said = ok(&[&audit[..], &how].concat());
    assert!(said.contains("its part of sums over guests, which left it masked"), "{said}");
    let rows = said.lines().filter(|line| line.ends_with("      2")).count();
    assert_eq!(rows, 5, "{said}");
    assert!(said.contains("rows more: --csv has all"), "{said}");
    // All of it: each link in each step that was summed, 28 minutes of 17 links.
    let table = fs::read_to_string(&csv).unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("step,link,density_veh_km_lane,flow_veh_min_lane,guests"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len() % 17, 0);
    assert!(lines.len() >= 17 * 6 * 27, "{}", lines.len());
    let some = lines.iter().filter(|line| !line.contains(",0.000000,0.000000,")).count();
    assert!(some > 100, "{some}");
    // Links that the policy leaves out have not left.
    let only = world.path("only.toml");
    fs::write(&only, "links = [\"E1\"]\n").unwrap();
    let how = ["--fleet", "guest-1", "--policy", text(&only), "--csv", text(&csv)];
    ok(&[&audit[..], &how].concat());
    let table = fs::read_to_string(&csv).unwrap();
    let others = table.lines().skip(1).filter(|line| !line.contains(",E1,"));
    assert!(others.into_iter().all(|line| line.contains(",0.000000,0.000000,")));
}
