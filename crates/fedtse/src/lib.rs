//! The command line as a library: one module for each command. `main.rs` is its program; other front ends
//! (the Python wheel) call the same modules.

mod certs;
mod demo;
mod export;
mod features;
mod import;
mod inspect;
mod network;
mod party;
mod replay;
mod serve;
mod simulate;
mod up;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use experiments::{audit, estimate, report, reproduce, train};
pub use experiments::{error_chain, error_chain_by_keyword};

pub use ::progress::{Counting, Observer, Progress, Stopped};
pub use experiments::audit::{LedgerArguments, ledger_report as audit};
pub use experiments::data::features::{FeatureOptions, Featured, make_stored as features};
pub use experiments::data::simulate::{SimulateOptions, Simulated, simulate};
pub use experiments::estimate::{EstimateRequest, Estimated, make as estimate};
pub use experiments::reproduce::{ReproduceArguments, make as reproduce};
pub use experiments::train::{Row as TrainedRow, TrainArguments, make as train};
pub use party::authority::client as key_authority;
pub use party::guest::join;
pub use party::host::lead;
pub use party::live::{join_live, lead_live};
pub use training::party::{
    CustomSubModelSpec, CustomSubModelSpecs, CustomSubModels, MakeCustomSubModel,
};

/// Cities and fleets estimate the traffic on every street together, without showing each other
/// their data.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Print results as JSON, for machines
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::DemoArguments),
    Network(network::NetworkArguments),
    Simulate(simulate::SimulateArguments),
    Import(import::ImportArguments),
    Export(export::ExportArguments),
    Features(features::FeaturesArguments),
    Inspect(inspect::InspectArguments),
    Train(train::TrainArguments),
    Estimate(estimate::EstimateArguments),
    Certs(certs::CertsArguments),
    Host(party::host::HostArguments),
    Guest(party::guest::GuestArguments),
    Authority(party::authority::AuthorityArguments),
    Rehearse(party::rehearse::RehearseArguments),
    Live(party::live::LiveArguments),
    Replay(replay::ReplayArguments),
    Serve(serve::ServeArguments),
    Up(up::UpArguments),
    Reproduce(reproduce::ReproduceArguments),
    Report(report::ReportArguments),
    Audit(audit::AuditArguments),
}

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    run_with(std::env::args_os())
}

/// Runs a command line, beginning with the program's name.
#[must_use]
pub fn run_with(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    end_quietly_with_the_reader();
    let arguments = Arguments::parse_from(words);
    let json = arguments.json;
    let result = match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments, json),
        Command::Network(arguments) => network::run(&arguments, json),
        Command::Simulate(arguments) => simulate::run(&arguments, json),
        Command::Import(arguments) => import::run(&arguments, json),
        Command::Export(arguments) => export::run(&arguments, json),
        Command::Features(arguments) => features::run(&arguments, json),
        Command::Inspect(arguments) => inspect::run(&arguments, json),
        Command::Train(arguments) => train::run(&arguments, json),
        Command::Estimate(arguments) => estimate::run(&arguments, json),
        Command::Certs(arguments) => certs::run(&arguments, json),
        Command::Host(arguments) => party::host::run(&arguments, json),
        Command::Guest(arguments) => party::guest::run(&arguments, json),
        Command::Authority(arguments) => party::authority::run(&arguments, json),
        Command::Rehearse(arguments) => party::rehearse::run(&arguments, json),
        Command::Live(arguments) => party::live::run(&arguments, json),
        Command::Replay(arguments) => replay::run(&arguments, json),
        Command::Serve(arguments) => serve::run(&arguments, json),
        Command::Up(arguments) => up::run(&arguments, json),
        Command::Reproduce(arguments) => reproduce::run(&arguments, json),
        Command::Report(arguments) => report::run(&arguments, json),
        Command::Audit(arguments) => audit::run(&arguments, json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// `fedtse inspect DIR | head` closes our output early: that is no reason to panic.
fn end_quietly_with_the_reader() {
    let otherwise = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        if text.is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(0);
        }
        otherwise(panic);
    }));
}
