//! Notes the commit that the program is built from, for the results that it makes.

use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    // What a result can depend on; a changed document does not make another program.
    let sources = ["crates", "networks", "Cargo.toml", "Cargo.lock"];
    let changes = git(&[&["status", "--porcelain", "--"][..], &sources[..]].concat());
    let commit = match (commit, changes) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}-changed"),
        (None, _) => "unknown".to_owned(),
    };
    println!("cargo::rustc-env=FEDTSE_COMMIT={commit}");
    for source in sources {
        println!("cargo::rerun-if-changed=../../{source}");
    }
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What git says of the checkout; none without git or outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg("../..").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
