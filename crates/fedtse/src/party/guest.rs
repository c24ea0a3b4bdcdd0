//! `fedtse guest`: takes part in a training over the network.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use estimator::SubModel;
use federation::grpc::Limits;
use federation::grpc::dial::dial;
use federation::grpc::drive::{Clock, run_guest};
use federation::guest::GuestEnd;
use federation::wire::message_limit;
use federation::{FolderStore, Guest, Ledger, PartyError};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::info;

use super::arguments::ConfigArguments;
use super::gauges::Gauges;
use super::guest_config::{self, Config, Prepared};
use super::guest_part::GuestOf;
use super::{endpoints, logs, network_threads, print_stopped, stopping};

/// Take part in a federation as a guest (a fleet), dialling the host
///
/// Runs until the training has come to its end, and continues a run that was interrupted. On
/// SIGTERM or Ctrl-C it says goodbye and ends; a later start goes on from the last checkpoint.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse guest --example > guest.toml\n  fedtse guest --config guest.toml"
)]
pub struct GuestArguments {
    #[command(flatten)]
    file: ConfigArguments,
}

pub fn run(arguments: &GuestArguments, json: bool) -> Result<()> {
    let Some((config, folder)) = arguments.file.read::<Config>(guest_config::EXAMPLE)? else {
        return Ok(());
    };
    logs::start(&config.observe)?;
    let clock = Clock::start();
    let Prepared { tls, address, part, settings } = config.prepare(&folder)?;
    let widest = settings.width.max(2 * settings.measures.layout.len() as u32);
    let limits = Limits { message: message_limit(widest), ..Limits::default() };
    let (name, run) = (settings.party.clone(), folder.join(&config.run.folder));
    let store = FolderStore::open(&run)?;
    let ledger = Ledger::open(&run.join("ledger.jsonl"), &name)?;
    let trained = part.trained(&name);
    let mut guest = Guest::new(settings, part.maker(), store, ledger, clock.now())?;

    let runtime = network_threads()?;
    let gauges = Arc::new(Gauges::default());
    let (sender, mut arrivals) = mpsc::channel(64);
    let (line, stop) = runtime.block_on(async {
        let stop = stopping::on_signal().await?;
        if let Some(address) = config.observe.http {
            endpoints::open(address, gauges.clone()).await?;
        }
        Ok::<_, anyhow::Error>((dial(address, tls, limits, sender), stop))
    })?;
    info!(guest = %name, host = %config.host.address, "dialling");
    let traffic = line.traffic();
    let let_in = run_guest(
        runtime.handle(),
        &clock,
        &mut guest,
        &line,
        &mut arrivals,
        &stop,
        |guest, connected| {
            gauges.traffic(&traffic);
            let mut shown = gauges.shown();
            shown.connected.insert(config.host.name.clone(), connected);
            (shown.round, shown.released) = (guest.round().0, guest.ledger().len());
        },
    );
    runtime.block_on(line.close());
    runtime.shutdown_background();
    let_in?;
    match guest.ended() {
        Some(GuestEnd::Finished(summary)) => {
            let model = guest.model().context("the model")?;
            trained.write(&run, guest.run(), &model.sub_model().save_best())?;
            let weights = weights(model);
            let bytes = json!({"sent": traffic.sent(), "received": traffic.received()});
            if json {
                println!("{}", json!({"finished": summary, "bytes": bytes, "weights": weights}));
            } else {
                println!("finished after {} rounds", summary.rounds);
                println!("weights {weights}");
            }
            Ok(())
        }
        Some(GuestEnd::Stopped(PartyError::Stopped { reason })) => {
            print_stopped(reason, guest.round(), json);
            Ok(())
        }
        Some(GuestEnd::Stopped(error)) => bail!("{error}"),
        None => bail!("the guest has stopped before its end"),
    }
}

/// Tells the weights that were kept.
pub fn weights(model: &GuestOf) -> String {
    super::digest(model.sub_model().best())
}
