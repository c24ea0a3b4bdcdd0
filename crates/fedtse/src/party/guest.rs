//! `fedtse guest`: takes part in a training over the network.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use federation::grpc::dial::dial;
use federation::grpc::drive::{Clock, Inputs, WatchGuest, drive};
use federation::grpc::{Limits, Traffic};
use federation::guest::GuestEnd;
use federation::{FolderStore, Guest, GuestEvent, PartyError};
use protocol::message::parts::Text;
use protocol::wire::message_limit;
use protocol::{Ledger, Round, Summary};
use serde_json::{Value, json};
use server::monitoring;
use tokio::sync::mpsc;
use tracing::info;

use super::CustomSubModelSpec;
use super::arguments::ConfigArguments;
use super::gauges::Gauges;
use super::guest_config::{self, GuestConfig, Prepared};
use super::policy;
use super::{config, log_begun, logs, network_threads, print_stopped, stopping, sum_guest};

/// How often it logs where it stands.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(10);

/// Take part in a federation as a guest (a fleet), dialling the host
///
/// Runs until the training has come to its end, and continues a run that was interrupted. On
/// SIGTERM or Ctrl-C it tells the other parties and
/// exits; a later start resumes from the last checkpoint.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse guest --example > guest.toml\n  fedtse guest --config guest.toml"
)]
pub(crate) struct GuestArguments {
    #[command(flatten)]
    file: ConfigArguments,
    /// Print a policy with all fields explained
    #[arg(long, exclusive = true)]
    example_policy: bool,
}

pub(crate) fn run(arguments: &GuestArguments, json: bool) -> Result<()> {
    if arguments.example_policy {
        print!("{}", policy::EXAMPLE);
        return Ok(());
    }
    let Some((config, folder)) = arguments.file.read::<GuestConfig>(guest_config::EXAMPLE)? else {
        return Ok(());
    };
    logs::start(&config.observe)?;
    if config.is_summed(None) {
        return sum_guest::run(&config, &folder, json);
    }
    let ended = take_part(&config, &folder, None)?;
    match &ended.end {
        End::Stopped(reason) => print_stopped(reason, ended.round, json),
        End::Finished(_) if json => println!("{}", ended.json()),
        End::Finished(summary) => {
            println!("finished after {} rounds", summary.rounds);
            println!("weights {}", ended.weights);
        }
    }
    Ok(())
}

/// Takes part for a front end, with a sub-model of the guest's own if there is one, and tells how it went.
pub fn join(config: &Path, own: Option<&CustomSubModelSpec>) -> Result<Value> {
    let (config, folder) = config::read::<GuestConfig>(config)?;
    logs::start_if_none(&config.observe);
    if config.is_summed(own) {
        ensure!(
            own.is_none(),
            "fusion: found a sum over guests and a custom sub-model, expected one of the two"
        );
        return Ok(sum_guest::take_part(&config, &folder)?.json());
    }
    Ok(take_part(&config, &folder, own)?.json())
}

/// How taking part ended.
struct RunEnd {
    end: End,
    round: Round,
    traffic: Arc<Traffic>,
    /// Tells the weights that were kept.
    weights: String,
}

enum End {
    Finished(Summary),
    Stopped(Text),
}

impl RunEnd {
    fn json(&self) -> Value {
        match &self.end {
            End::Stopped(reason) => json!({"stopped": reason.as_str(), "round": self.round}),
            End::Finished(summary) => {
                let bytes = json!({
                    "sent": self.traffic.sent(), "received": self.traffic.received(),
                });
                json!({"finished": summary, "bytes": bytes, "weights": self.weights})
            }
        }
    }
}

fn take_part(
    config: &GuestConfig,
    folder: &Path,
    own: Option<&CustomSubModelSpec>,
) -> Result<RunEnd> {
    let clock = Clock::start();
    let Prepared { tls, heads, address, part, settings, queries, keys } =
        config.prepare(folder, own)?;
    let widest = settings.width.max(2 * settings.measures.layout.len() as u32);
    // Questions about sealed measurements may be as large as any message.
    let message = match settings.measures.layout.is_empty() {
        true => message_limit(widest),
        false => Limits::default().message,
    };
    let limits = Limits { message, ..Limits::default() };
    let (name, run) = (settings.party.clone(), folder.join(&config.run.folder));
    let store = FolderStore::open(&run)?;
    let ledger_file = run.join("ledger.jsonl");
    let ledger = Ledger::open(&ledger_file, &name)?.counting_in(&queries)?;
    store.remove_unfinished()?;
    let mut heads = heads.open(&ledger_file, &name, Some(&settings.host))?;
    let trained = part.trained(&name);
    let mut guest = Guest::new(settings, part.maker(), store, ledger, clock.now())?;
    if let Some(keys) = keys {
        guest = guest.with_key_authority(Box::new(keys));
    }

    let runtime = network_threads()?;
    let gauges = Arc::new(Gauges::default());
    let (sender, arrivals) = mpsc::channel(64);
    let (line, stop) = runtime.block_on(async {
        let stop = stopping::asked().await?;
        if let Some(address) = config.observe.http {
            monitoring::serve(address, gauges.clone()).await?;
        }
        Ok::<_, anyhow::Error>((dial(address, tls, limits, sender), stop))
    })?;
    info!("privacy: the host sees this guest's embeddings, as far as its policy allows");
    info!(guest = %name, host = %config.host.address, "dialling");
    let traffic = line.traffic();
    let rounds = progress::observer().map(|_| progress::spinner("rounds"));
    let mut shown_round = Instant::now();
    let mut watch = WatchGuest::new(|guest: &mut Guest<_, _>, connected| {
        for event in guest.take_events() {
            match event {
                GuestEvent::Begun { attempt, round, furthest } => {
                    log_begun(attempt, round, furthest);
                }
                GuestEvent::Checkpointed(round) => info!(round = round.0, "checkpoint"),
            }
        }
        if shown_round.elapsed() >= BETWEEN_ROUNDS {
            shown_round = Instant::now();
            info!(round = guest.round().0, connected, "taking part");
        }
        gauges.traffic(&traffic);
        let mut shown = gauges.shown();
        shown.connected.insert(config.host.name.clone(), connected);
        (shown.round, shown.released) = (guest.round().0, guest.ledger().len());
        if let Some(rounds) = &rounds {
            rounds.set_position(guest.round().0);
        }
        stop.look();
    });
    let mut inputs = Inputs::new(arrivals, stop.reason.clone());
    let party = (&mut guest, &mut heads);
    let let_in = drive(runtime.handle(), &clock, party, &line, &mut inputs, &mut watch);
    runtime.block_on(line.close());
    runtime.shutdown_background();
    let_in?;
    let end = match guest.ended() {
        Some(GuestEnd::Finished(summary)) => End::Finished(summary.clone()),
        Some(GuestEnd::Stopped(PartyError::Stopped { reason })) => End::Stopped(reason.clone()),
        Some(GuestEnd::Stopped(error)) => bail!("guest `{name}` has stopped: {error}"),
        None => bail!("the guest has stopped before its end"),
    };
    let (round, id) = (guest.round(), guest.run());
    let mut weights = String::new();
    if let (End::Finished(_), Some(model)) = (&end, guest.model_mut()) {
        weights = model.digest();
        let (best, own) = model.save_best()?;
        trained.write(&run, id, &best, own)?;
        model.settle()?;
    }
    Ok(RunEnd { end, round, traffic, weights })
}
