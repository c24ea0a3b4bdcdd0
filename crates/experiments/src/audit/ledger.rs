//! `fedtse audit ledger`: what has left a party.

mod heads;
mod show;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use protocol::PartyId;
use protocol::ledger::{Audit, UsedKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use training::party::noise::{self, NoiseTerms};

/// Verify a ledger and sum it up
///
/// Each line holds the hash of the one before: a line that was changed, removed or put in is
/// found. Heads that peers have countersigned stand beside the ledger: with --authority, a ledger that was
/// written anew or cut off is found, too, and the first line is named that differs from what a peer has signed.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields)]
#[command(after_help = "Example:\n  fedtse audit ledger state/ledger.jsonl --party fleet-a")]
pub struct LedgerArguments {
    /// The ledger
    #[serde(rename = "ledger")]
    file: PathBuf,
    /// The party whose ledger it is
    #[arg(long, value_parser = party)]
    party: PartyId,
    /// Fail unless the last line has this hash
    #[arg(long)]
    head: Option<String>,
    /// The authority's certificate, to check heads that peers have countersigned
    #[arg(long, value_name = "FILE")]
    #[serde(default)]
    authority: Option<PathBuf>,
    /// Heads that a peer has countersigned and keeps, besides those beside the ledger: its `ledger.heads.jsonl`
    #[arg(long, value_name = "FILE")]
    #[serde(default)]
    heads: Option<PathBuf>,
    /// Also show what was sent: values over links and time, from the party's own dataset
    #[arg(long, value_name = "DATASET", requires = "fleet")]
    #[serde(default)]
    show: Option<PathBuf>,
    /// The party's fleet in that dataset
    #[arg(long, value_name = "NAME", requires = "show")]
    #[serde(default)]
    fleet: Option<String>,
    /// The policy that it was sent under, as a file; everything as it is unless given. That of a trained guest is in `run/model`
    #[arg(long, value_name = "FILE", requires = "show")]
    #[serde(default)]
    policy: Option<PathBuf>,
    /// Rows to show; --csv has all
    #[arg(long, default_value_t = ROWS, requires = "show")]
    #[serde(default = "rows")]
    rows: usize,
    /// Write all of what was sent to this file
    #[arg(long, value_name = "FILE", requires = "show")]
    #[serde(default)]
    csv: Option<PathBuf>,
    /// The file with the noise that the party's data got, in the folder `noise` of these data: tells the ε spent
    #[arg(long)]
    noise: Option<PathBuf>,
}

/// Rows of values that are shown unless it is said otherwise.
const ROWS: usize = 20;

fn rows() -> usize {
    ROWS
}

/// What the ledger says of sealed measurements.
#[derive(Serialize)]
struct Sealed {
    /// Products answered, over all questions.
    products: u64,
    /// Products for other guests, which the host cannot read.
    relayed: u64,
    /// Numbers uploaded, each as often as it was.
    uploaded: u64,
    /// Products of either kind per uploaded number, in the mean.
    products_per_number: f64,
    /// The step that was asked about the most.
    most_asked: Option<MostAsked>,
    /// Times that a question was refused because the budget was spent.
    refusals: u64,
}

/// A step, and how many products were given of each of its numbers.
#[derive(Clone, Copy, Serialize)]
struct MostAsked {
    step: i64,
    products_per_number: f64,
}

impl Sealed {
    /// Nothing if nothing was uploaded.
    fn of(audit: &Audit) -> Option<Self> {
        let all = |kind: &str| {
            let own = audit.tallies.iter().filter(|((_, found), _)| found == kind);
            own.fold((0, 0), |(messages, numbers), (_, tally)| {
                (messages + tally.messages, numbers + tally.numbers)
            })
        };
        // A sum that was opened is a product, too.
        let products = all("products").1.saturating_add(all("commitment-openings").1);
        let (relayed, uploaded) = (all("masked-products").1, all("upload").1);
        let given = products.saturating_add(relayed);
        let products_per_number = given as f64 / uploaded.max(1) as f64;
        let most = audit.queries.most();
        let most_asked = most.map(|(step, each)| MostAsked { step, products_per_number: each });
        let refusals = all("budget-spent").0;
        let sealed =
            Self { products, relayed, uploaded, products_per_number, most_asked, refusals };
        (uploaded > 0).then_some(sealed)
    }
}

fn party(name: &str) -> Result<PartyId> {
    PartyId::new(name).map_err(|error| anyhow!(error))
}

pub(super) fn run(arguments: &LedgerArguments, json: bool) -> Result<()> {
    let audit = verified(arguments)?;
    let heads = heads::check(arguments)?;
    let sealed = Sealed::of(&audit);
    let noise = arguments.noise.as_deref().map(noise::terms_of).transpose()?;
    if json {
        let mut report = report(&audit);
        report["sealed"] = json!(sealed);
        report["noise"] = json!(noise);
        report["countersigned"] = json!(heads);
        report["shown"] = json!(show::show(arguments, &audit, true)?);
        println!("{report}");
    } else {
        print(&audit);
        println!("{heads}");
        if let Some(sealed) = sealed {
            let Sealed { products, relayed, uploaded, products_per_number, refusals, .. } = sealed;
            println!(
                "sealed: {products} products with single numbers, {relayed} for other guests, {uploaded} numbers uploaded: {products_per_number:.1} products each; {refusals} refusals"
            );
            if let Some(MostAsked { step, products_per_number }) = sealed.most_asked {
                println!(
                    "most asked about: step {step}, {products_per_number:.1} products of each of its numbers"
                );
            }
        }
        if let Some(terms) = noise {
            let NoiseTerms { epsilon, delta, unit, .. } = terms;
            println!("noise: everything together costs ε = {epsilon} at δ = {delta}, per {unit:?}");
        }
        show::show(arguments, &audit, false)?;
    }
    Ok(())
}

/// The same for machines.
pub fn make(arguments: &LedgerArguments) -> Result<Value> {
    let audit = verified(arguments)?;
    let mut report = report(&audit);
    report["countersigned"] = json!(heads::check(arguments)?);
    Ok(report)
}

fn verified(arguments: &LedgerArguments) -> Result<Audit> {
    let path = &arguments.file;
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let reader = BufReader::new(WhileAskedTo(file));
    let audit = protocol::ledger::audit(reader, path, &arguments.party)?;
    if let Some(expected) = arguments.head.as_ref().filter(|head| **head != audit.head) {
        return Err(anyhow!(
            "{}: hash of the last line: found {}, expected {expected}",
            arguments.file.display(),
            audit.head
        ));
    }
    Ok(audit)
}

/// A file that ends with an error once the work on this thread is to stop.
struct WhileAskedTo(File);

impl Read for WhileAskedTo {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        progress::check_stop().map_err(io::Error::other)?;
        self.0.read(to)
    }
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
        "keys": audit.keys, "committed": audit.committed,
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
    // For fleets to compare: the host hands keys on.
    let mut keys = BTreeMap::<_, Vec<&str>>::new();
    for UsedKey { of, fingerprint } in &audit.keys {
        keys.entry(of).or_default().push(fingerprint);
    }
    for (of, keys) in keys {
        let whose = of.as_ref().map_or("its own".to_owned(), |party| format!("of `{party}`"));
        match &keys[..] {
            [key] => println!("key {whose}: {key}"),
            keys => println!("keys {whose}: {}, listed by --json", keys.len()),
        }
    }
    // For guest and host to compare.
    for (party, digest) in &audit.committed {
        println!("commitments, as told to `{party}`: {digest}");
    }
}
