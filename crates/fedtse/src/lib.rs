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
mod run_config;
mod serve;
mod simulate;
mod up;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use experiments::{audit, compare, estimate, report, reproduce, train};
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
use party::logs;
use serde_json::json;
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
    /// Print results, and errors, as JSON, for machines
    #[arg(long, global = true)]
    json: bool,
    /// Log more: details of parties and of training
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// No progress, and of logs warnings and errors alone
    #[arg(short, long, global = true)]
    quiet: bool,
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
    Train(Box<train::TrainArguments>),
    Compare(compare::CompareArguments),
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
    Completions(CompletionsArguments),
}

/// Print completions of commands and options for a shell
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse completions bash > ~/.local/share/bash-completion/completions/fedtse"
)]
struct CompletionsArguments {
    /// Which shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
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
    let words: Vec<OsString> = words.into_iter().collect();
    // Known before anything is parsed: what is wrong with the words is told in the same form.
    let json = words.iter().any(|word| word == "--json");
    let words = match run_config::with_file(&Arguments::command(), words) {
        Ok(words) => words,
        Err(error) => return failed(&error, json),
    };
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) if json && error.use_stderr() => {
            eprintln!("{}", json!({ "error": usage::told(&error) }));
            return ExitCode::from(error.exit_code() as u8);
        }
        Err(error) if usage::not_a_number(&error).is_some() => {
            eprintln!("error: {}\n\nFor more information, try '--help'.", usage::told(&error));
            return ExitCode::from(error.exit_code() as u8);
        }
        Err(error) => error.exit(),
    };
    if arguments.quiet {
        ::progress::hide();
    }
    logs::choose(arguments.verbose, arguments.quiet);

    let result = match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments, json),
        Command::Network(arguments) => network::run(&arguments, json),
        Command::Simulate(arguments) => simulate::run(&arguments, json),
        Command::Import(arguments) => import::run(&arguments, json),
        Command::Export(arguments) => export::run(&arguments, json),
        Command::Features(arguments) => features::run(&arguments, json),
        Command::Inspect(arguments) => inspect::run(&arguments, json),
        Command::Train(arguments) if arguments.example => print_example(),
        Command::Train(arguments) => train::run(&arguments, json),
        Command::Compare(arguments) => compare::run(&arguments, json),
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
        Command::Completions(arguments) => {
            let mut script = Vec::new();
            let mut command = Arguments::command();
            clap_complete::generate(arguments.shell, &mut command, "fedtse", &mut script);
            print!("{}", String::from_utf8_lossy(&script));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error, json),
    }
}

fn failed(error: &anyhow::Error, json: bool) -> ExitCode {
    let text = error_chain(error);
    if json {
        eprintln!("{}", json!({ "error": text }));
    } else {
        eprintln!("error: {text}");
    }
    ExitCode::FAILURE
}

/// `fedtse train --example`.
fn print_example() -> anyhow::Result<()> {
    print!("{}", run_config::example(&Arguments::command())?);
    Ok(())
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
