//! Worlds in which something is missing: a result with a warning, or an error that says what is missing.

#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

mod common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use common::{fedtse, ok, refused, text};

const LINKS: usize = 4;
const METRES: usize = 200;
/// Seconds of the recording.
const END: usize = 1200;
/// Seconds of a step.
const STEP: usize = 10;

/// A street of four links on which a car starts every 8 s at 10 m/s and is seen on the first links only, with loops on some links
/// that count what they are said to.
fn street(folder: &Path, seen: usize, loops: &[usize], count: usize) -> PathBuf {
    let mut network = String::from("format = \"fedtse-network/1\"\nname = \"street\"\n");
    for link in 0..LINKS {
        let (from, to) = (link * METRES, (link + 1) * METRES);
        writeln!(
            network,
            "[[link]]\nname = \"L{link}\"\nlength = {METRES}.0\njunction = 0.0\nlanes = 1\nspeed = 14.0\nshape = [[{from}, 0], [{to}, 0]]"
        )
        .unwrap();
    }
    for link in 1..LINKS {
        writeln!(network, "[[turn]]\nfrom = \"L{}\"\nto = \"L{link}\"", link - 1).unwrap();
    }
    let mut counts = String::from("loop,begin,end,count\n");
    for link in loops {
        writeln!(network, "[[loop]]\nname = \"P{link}\"\nlink = \"L{link}\"\nposition = 100.0")
            .unwrap();
        for begin in (0..END).step_by(STEP) {
            writeln!(counts, "P{link},{begin},{},{count}", begin + STEP).unwrap();
        }
    }
    let mut positions = String::from("time,vehicle,link,position\n");
    for time in 0..=END {
        for start in (0..=time).step_by(8).filter(|start| (time - start) * 10 < seen * METRES) {
            let metres = (time - start) * 10;
            writeln!(positions, "{time},v{start},L{},{}", metres / METRES, metres % METRES)
                .unwrap();
        }
    }
    let path = |name: &str| folder.join(name);
    std::fs::write(path("net.toml"), network).unwrap();
    std::fs::write(path("fleet.csv"), positions).unwrap();
    std::fs::write(path("loops.csv"), counts).unwrap();
    let (fleet, counts, net, data) =
        (path("fleet.csv"), path("loops.csv"), path("net.toml"), path("data"));
    let mut import = vec!["import", "csv", text(&fleet), "--network", text(&net)];
    if !loops.is_empty() {
        import.extend(["--loops", text(&counts)]);
    }
    ok(&[&import[..], &["--out", text(&data)]].concat());
    data
}

/// What a training that must succeed warns of.
fn warned(data: &Path, method: &str, rate: &str) -> String {
    ok(&["features", text(data), "--rates", rate]);
    let output = fedtse(&training(data, method, rate));
    let error = String::from_utf8(output.stderr).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !table.contains("NaN"), "{method}: {error}{table}");
    error
}

fn training<'a>(data: &'a Path, method: &'a str, rate: &'a str) -> Vec<&'a str> {
    let some = ["train", "--data", text(data), "--method", method, "--rate", rate];
    [&some[..], &["--target", "raw", "--epochs", "1"]].concat()
}

#[test]
fn a_stated_share_is_used_where_loops_tell_none_and_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    // Loops that count nothing although cars pass.
    let data = street(folder.path(), LINKS, &[1], 0);
    let warning = warned(&data, "hf", "40");
    assert!(
        warning.contains("40.0 % as stated") && warning.contains("loops do not tell it"),
        "{warning}"
    );

    // A loop where no car of the fleet is ever seen.
    let folder = tempfile::tempdir().unwrap();
    let data = street(folder.path(), 2, &[3], 1);
    let warning = warned(&data, "hf", "40");
    assert!(warning.contains("loops do not tell it"), "{warning}");
    assert!(warning.contains("fleet-40: found on 2 of 4 links"), "{warning}");
}

#[test]
fn a_fleet_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let data = street(folder.path(), LINKS, &[1], 1);
    let warning = warned(&data, "scale-up", "0.001");
    assert!(warning.contains("fleet-0.001: found no vehicle in the training part"), "{warning}");
    let none = fedtse(&training(&data, "hf", "0.001"));
    let error = String::from_utf8(none.stderr).unwrap();
    assert_eq!(none.status.code(), Some(1), "{error}");
    assert!(error.contains("error: fleet: found no vehicle in the training part"), "{error}");
}

#[test]
fn a_share_that_nobody_knows_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let data = street(folder.path(), LINKS, &[], 0);
    let warning = warned(&data, "hf", "100");
    assert!(warning.contains("the fleet is taken for all vehicles"), "{warning}");
}

#[test]
fn a_recording_without_a_step_is_refused_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let data = street(folder.path(), LINKS, &[], 0);
    let error = refused(&["features", text(&data), "--step", "3000"]);
    assert!(error.contains("no complete step of 3000 s; recordings: 0 s to 1200 s"), "{error}");
}

#[test]
fn a_recording_too_short_for_a_traffic_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = street(folder.path(), LINKS, &[], 0);
    ok(&["features", text(&data), "--rates", "40", "--step", "60"]);
    // Twenty steps have twelve windows, of which one is for validation.
    let error = refused(&training(&data, "oracle-pi", "40"));
    assert!(error.contains("validation part: found no segments of 4 steps"), "{error}");
}
