//! Runs the program as a user would.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

pub(crate) fn fedtse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fedtse")).args(arguments).output().expect("the program starts")
}

/// Runs a command that must succeed, and returns what it printed.
#[allow(dead_code, reason = "each test file is a program of its own and uses what it needs")]
pub(crate) fn ok(arguments: &[&str]) -> String {
    let output = fedtse(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "fedtse {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// The same with `--json`.
#[allow(dead_code, reason = "each test file is a program of its own and uses what it needs")]
pub(crate) fn ok_json(arguments: &[&str]) -> Value {
    let text = ok(&[arguments, &["--json"]].concat());
    serde_json::from_str(&text).expect("the output is JSON")
}

/// Runs a command that must be refused: exit code 1, no panic, one clear line.
#[allow(dead_code, reason = "each test file is a program of its own and uses what it needs")]
pub(crate) fn refused(arguments: &[&str]) -> String {
    let output = fedtse(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // What the host would have seen is said before anything is trained.
    let error = said.lines().skip_while(|line| line.starts_with("privacy: "));
    let error: String = error.flat_map(|line| [line, "\n"]).collect();
    assert_eq!(output.status.code(), Some(1), "fedtse {arguments:?}: {error}");
    assert!(error.starts_with("error: ") && !error.contains("panicked"), "{error}");
    error
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}
