//! `fedtse rehearse`: host and guests in one process, with the configurations of the real ones.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use federation::{Event, Guest, Host, MemoryStore, memory};
use protocol::ledger::MemorySink;
use protocol::{Ledger, Now, PartyId};
use serde_json::{Value, json};

use super::{config, guest_config, host, host_config};

/// Train host and guests in one process, to try their configurations before the network
///
/// Reads all files that the configurations name, and writes none. The weights are, bit for bit,
/// those that the parties would get over the network.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse rehearse --host host.toml --guest fleet-a.toml --guest fleet-b.toml"
)]
pub(crate) struct RehearseArguments {
    /// The host's configuration
    #[arg(long)]
    host: PathBuf,
    /// A guest's configuration; may be repeated
    #[arg(long, required = true)]
    guest: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &RehearseArguments, json: bool) -> Result<()> {
    let (config, folder) = config::read::<host_config::HostConfig>(&arguments.host)?;
    let host_config::Prepared { name, part, seats, settings, .. } =
        config.prepare(&folder, None)?;
    let bar = progress::bar("epochs", settings.plan.epochs.into());
    let (store, ledger) = (MemoryStore::default(), ledger(&name)?);
    let mut host = Host::new(settings, part.maker(seats, None), store, ledger, Now::default())?;
    let mut guests = BTreeMap::new();
    for path in &arguments.guest {
        let (config, folder) = config::read::<guest_config::GuestConfig>(path)?;
        let guest_config::Prepared { part, settings, .. } = config.prepare(&folder, None)?;
        let (party, store) = (settings.party.clone(), MemoryStore::default());
        let ledger = self::ledger(&party)?;
        let guest = Guest::new(settings, part.maker(), store, ledger, Now::default())?;
        guests.insert(party, guest);
    }
    let began = Instant::now();
    let summary = memory::run(&mut host, &mut guests, |event| {
        if let Event::Epoch(epoch) = event {
            progress::after_epoch(&bar, epoch.number as usize, epoch.train, epoch.validation);
        }
    })?;
    let seconds = began.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let model = host.model().context("the model")?;
    let score = part.score(model);
    let mut weights = BTreeMap::from([(name.to_string(), model.digest())]);
    for (party, guest) in &guests {
        let model = guest.model().with_context(|| format!("the model of {party}"))?;
        weights.insert(party.to_string(), model.digest());
    }
    if json {
        let report: Value = json!({
            "finished": summary, "score": score, "weights": weights, "seconds": seconds,
        });
        println!("{report}");
        return Ok(());
    }
    println!("finished after {} rounds, {seconds:.1} s", summary.rounds);
    score.as_ref().map_or_else(|| println!("no ground truth to score by"), host::print_score);
    for (party, weights) in weights {
        println!("weights of {party}: {weights}");
    }
    Ok(())
}

fn ledger(party: &PartyId) -> Result<Ledger> {
    Ok(Ledger::in_memory(&MemorySink::default(), party)?)
}
