//! `fedtse audit ledger`: what has left a party.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use federation::PartyId;
use federation::ledger::{Audit, audit_file};
use serde_json::{Value, json};

/// Verify a ledger and sum it up
///
/// Each line holds the hash of the one before: a line that was changed, removed or put in is
/// found. Lines cut off the end are not; compare the head with one noted earlier.
#[derive(Args)]
#[command(after_help = "Example:\n  fedtse audit ledger state/ledger.jsonl --party fleet-a")]
pub struct LedgerArguments {
    /// The ledger
    file: PathBuf,
    /// The party whose ledger it is
    #[arg(long, value_parser = party)]
    party: PartyId,
    /// Fail unless the last line has this hash
    #[arg(long)]
    head: Option<String>,
}

fn party(name: &str) -> Result<PartyId> {
    PartyId::new(name).map_err(|error| anyhow!(error))
}

pub fn run(arguments: &LedgerArguments, json: bool) -> Result<()> {
    let audit = verified(arguments)?;
    if json {
        println!("{}", report(&audit));
    } else {
        print(&audit);
    }
    Ok(())
}

/// The same for machines.
pub fn make(arguments: &LedgerArguments) -> Result<Value> {
    Ok(report(&verified(arguments)?))
}

fn verified(arguments: &LedgerArguments) -> Result<Audit> {
    let audit = audit_file(&arguments.file, &arguments.party)?;
    if let Some(expected) = arguments.head.as_ref().filter(|head| **head != audit.head) {
        return Err(anyhow!(
            "{}: hash of the last line: found {}, expected {expected}",
            arguments.file.display(),
            audit.head
        ));
    }
    Ok(audit)
}

fn report(audit: &Audit) -> Value {
    let tallies = audit.tallies.iter().map(|((to, kind), tally)| {
        json!({
            "to": to, "kind": kind, "messages": tally.messages, "bytes": tally.bytes,
            "numbers": tally.numbers,
        })
    });
    json!({
        "messages": audit.messages, "bytes": audit.bytes, "rounds": audit.rounds,
        "torn": audit.torn, "head": audit.head, "tallies": tallies.collect::<Vec<_>>(),
    })
}

fn print(audit: &Audit) {
    println!("whole: {} messages, {} bytes left this party", audit.messages, audit.bytes);
    if let Some((first, last)) = audit.rounds {
        println!("rounds {first} to {last}");
    }
    if audit.torn > 0 {
        println!("the last line was torn apart ({} bytes); its message did not leave", audit.torn);
    }
    println!("head {}", audit.head);
    println!("{:<16} {:<14} {:>9} {:>14} {:>12}", "to", "kind", "messages", "bytes", "numbers");
    for ((to, kind), tally) in &audit.tallies {
        let (messages, bytes, numbers) = (tally.messages, tally.bytes, tally.numbers);
        println!("{:<16} {kind:<14} {messages:>9} {bytes:>14} {numbers:>12}", to.as_str());
    }
}
