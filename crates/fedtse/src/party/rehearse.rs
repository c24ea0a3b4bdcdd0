//! `fedtse rehearse`: host and guests in one process, with the configurations of the real ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use federation::sums::{SumGuest, SumHost, SumTrust};
use federation::{Event, Guest, Host, KeyDesk, LocalAuthority, MemoryStore, memory};
use protocol::ledger::{MemorySink, SumRecords};
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
    if config.is_summed(None) {
        return sum(arguments, (&config, &folder), json);
    }
    let host_config::Prepared { name, part, slots, settings, .. } =
        config.prepare(&folder, None)?;
    let bar = progress::bar("epochs", settings.plan.epochs.into());
    let (store, ledger) = (MemoryStore::default(), ledger(&name)?);
    let keyed = settings.plan.sealing.is_some_and(|sealing| sealing.is_keyed());
    // Nothing leaves this process: the authority is in it, too.
    let desk = keyed.then(|| Arc::new(Mutex::new(KeyDesk::new(name.clone()))));
    let authority = PartyId::new("keys")?;
    let local = |desk: &Arc<Mutex<KeyDesk>>, party: &PartyId| {
        Box::new(LocalAuthority::new(authority.clone(), party.clone(), Arc::clone(desk)))
    };
    let mut host = Host::new(settings, part.maker(slots, None), store, ledger, Now::default())?;
    if let Some(desk) = &desk {
        host = host.with_key_authority(local(desk, &name));
    }
    let mut guests = BTreeMap::new();
    for path in &arguments.guest {
        let (config, folder) = config::read::<guest_config::GuestConfig>(path)?;
        let guest_config::Prepared { part, settings, .. } = config.prepare(&folder, None)?;
        let (party, store) = (settings.party.clone(), MemoryStore::default());
        let ledger = self::ledger(&party)?;
        let mut guest = Guest::new(settings, part.maker(), store, ledger, Now::default())?;
        if let Some(desk) = &desk {
            guest = guest.with_key_authority(local(desk, &party));
        }
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

/// The same where the host learns sums over guests alone.
fn sum(
    arguments: &RehearseArguments,
    (config, folder): (&host_config::HostConfig, &Path),
    json: bool,
) -> Result<()> {
    let host_config::PreparedSum { name, part, guests: names, settings, .. } =
        config.prepare_sum(folder)?;
    let (store, now) = (MemoryStore::default(), Now::default());
    let mut host = SumHost::new(settings, store, ledger(&name)?, now)?;
    let mut guests = BTreeMap::new();
    for path in &arguments.guest {
        let (config, folder) = config::read::<guest_config::GuestConfig>(path)?;
        ensure!(
            config.is_summed(None),
            "{}: model.fusion: found concatenate, the host expects sum",
            path.display()
        );
        let guest_config::PreparedSum { part, settings, credentials, verifier, .. } =
            config.prepare_sum(&folder)?;
        let party = settings.party.clone();
        // Nothing leaves this process: what is rehearsed binds no later run.
        let trust = SumTrust { credentials, verifier, records: SumRecords::default() };
        let guest = SumGuest::new(settings, trust, Box::new(part), ledger(&party)?, now)?;
        guests.insert(party, guest);
    }
    let began = Instant::now();
    federation::sums::memory::run(&mut host, &mut guests)
        .map_err(|(party, error)| anyhow!("guest `{party}` has stopped: {error}"))?;
    if let Some(error) = host.stopped() {
        bail!("{error}");
    }
    let (_, sums) = host.into_sums().context("guests: not all that the host waits for are here")?;
    let bar = progress::bar("training", part.options().most_epochs().unwrap_or(1) as u64);
    let (study, task, fitted) = part.fit(&sums, &names, None, &bar)?;
    bar.finish_and_clear();
    let (windows, seconds) = (&study.split().test, began.elapsed().as_secs_f64());
    let score = study.has_truth();
    let score = score.then(|| estimator::score(&study, task.target, windows, &fitted.estimates));
    if json {
        let finished = json!({"blocks": sums.len()});
        println!("{}", json!({"finished": finished, "score": score, "seconds": seconds}));
        return Ok(());
    }
    println!("finished: trained on {} sums, {seconds:.1} s", sums.len());
    score.as_ref().map_or_else(|| println!("no ground truth to score by"), host::print_score);
    Ok(())
}

fn ledger(party: &PartyId) -> Result<Ledger> {
    Ok(Ledger::in_memory(&MemorySink::default(), party)?)
}
