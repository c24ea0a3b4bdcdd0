//! `fedtse audit`: what has left a party, and what others can make of it.

use anyhow::Result;
use clap::{Args, Subcommand};

mod attacks;
mod ledger;

pub use ledger::{LedgerArguments, make as ledger_report};

/// See what has left a party, and what others can make of it
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse audit ledger state/ledger.jsonl --party fleet-a\n  fedtse audit attacks --data data/corridor --rate 20"
)]
pub struct AuditArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Ledger(ledger::LedgerArguments),
    Attacks(attacks::AttacksArguments),
}

pub fn run(arguments: &AuditArguments, json: bool) -> Result<()> {
    match &arguments.what {
        What::Ledger(arguments) => ledger::run(arguments, json),
        What::Attacks(arguments) => attacks::run(arguments, json),
    }
}
