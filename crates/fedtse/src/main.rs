//! fedtse: cities and fleets estimate the traffic on every street together.

use std::process::ExitCode;

fn main() -> ExitCode {
    fedtse::run()
}
