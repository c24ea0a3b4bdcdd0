//! `fedtse audit`: what has left a party, and what others can make of it.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::Value;

mod attacks;
mod ledger;

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

/// The report of an audit, for machines.
pub fn make(arguments: &AuditArguments) -> Result<Value> {
    match &arguments.what {
        What::Ledger(arguments) => ledger::make(arguments),
        What::Attacks(arguments) => Ok(serde_json::to_value(attacks::make(arguments)?)?),
    }
}
