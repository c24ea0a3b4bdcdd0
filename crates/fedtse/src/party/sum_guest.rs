//! `fedtse guest` that adds its masked totals to sums over guests.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use federation::PartyError;
use federation::grpc::dial::dial;
use federation::grpc::drive::{Clock, Inputs, WatchGuest, drive};
use federation::grpc::{Limits, Traffic};
use federation::sums::{SumGuest, SumTrust};
use protocol::ledger::SumRecords;
use protocol::message::parts::Text;
use protocol::{Ledger, Round};
use serde_json::{Value, json};
use server::monitoring;
use tokio::sync::mpsc;
use tracing::info;

use super::gauges::Gauges;
use super::guest_config::{GuestConfig, PreparedSum};
use super::{network_threads, print_stopped, stopping};

/// How taking part ended.
pub(super) struct RunEnd {
    end: End,
    blocks: u64,
    traffic: Arc<Traffic>,
}

enum End {
    Finished,
    Stopped(Text),
}

impl RunEnd {
    pub(super) fn json(&self) -> Value {
        match &self.end {
            End::Stopped(reason) => json!({"stopped": reason.as_str(), "round": self.blocks}),
            End::Finished => json!({
                "finished": {"blocks": self.blocks},
                "bytes": {"sent": self.traffic.sent(), "received": self.traffic.received()},
            }),
        }
    }
}

pub(super) fn run(config: &GuestConfig, folder: &Path, json: bool) -> Result<()> {
    let ended = take_part(config, folder)?;
    match &ended.end {
        End::Stopped(reason) => print_stopped(reason, Round(ended.blocks), json),
        End::Finished if json => println!("{}", ended.json()),
        End::Finished => println!("finished: added to {} sums", ended.blocks),
    }
    Ok(())
}

/// Adds to sums until the host has all.
pub(super) fn take_part(config: &GuestConfig, folder: &Path) -> Result<RunEnd> {
    let clock = Clock::start();
    let PreparedSum { tls, heads, address, part, settings, credentials, verifier, records } =
        config.prepare_sum(folder)?;
    let (name, run) = (settings.party.clone(), folder.join(&config.run.folder));
    std::fs::create_dir_all(&run)?;
    let ledger_file = run.join("ledger.jsonl");
    let ledger = Ledger::open(&ledger_file, &name)?;
    let mut heads = heads.open(&ledger_file, &name, Some(&settings.host))?;
    let trust = SumTrust { credentials, verifier, records: SumRecords::open(&records)? };
    let part = Box::new(part.keeping(&run, &name));
    let mut guest = SumGuest::new(settings, trust, part, ledger, clock.now())?;

    let runtime = network_threads()?;
    let gauges = Arc::new(Gauges::default());
    let (sender, arrivals) = mpsc::channel(64);
    let (line, stop) = runtime.block_on(async {
        let stop = stopping::asked().await?;
        if let Some(address) = config.observe.http {
            monitoring::serve(address, gauges.clone()).await?;
        }
        Ok::<_, anyhow::Error>((dial(address, tls, Limits::default(), sender), stop))
    })?;
    info!(guest = %name, host = %config.host.address, "dialling");
    let traffic = line.traffic();
    let mut members = 0;
    let mut watch = WatchGuest::new(|guest: &mut SumGuest, connected| {
        gauges.traffic(&traffic);
        let mut shown = gauges.shown();
        shown.connected.insert(config.host.name.clone(), connected);
        (shown.round, shown.released) = (guest.summed(), guest.ledger().len());
        drop(shown);
        let now = guest.group().map_or(0, |group| group.members.as_slice().len());
        if now != std::mem::replace(&mut members, now) {
            match now {
                1 => info!(
                    "aggregate: the sum over one guest is its own data: the host sees this fleet's totals"
                ),
                _ => info!(members = now, "the host sees the sum over these members"),
            }
        }
        stop.look();
    });
    let mut inputs = Inputs::new(arrivals, stop.reason.clone());
    let party = (&mut guest, &mut heads);
    let let_in = drive(runtime.handle(), &clock, party, &line, &mut inputs, &mut watch);
    runtime.block_on(line.close());
    runtime.shutdown_background();
    let_in?;
    let end = match guest.stopped() {
        Some(PartyError::Stopped { reason }) => End::Stopped(reason.clone()),
        Some(error) => bail!("guest `{name}` has stopped: {error}"),
        None => End::Finished,
    };
    Ok(RunEnd { end, blocks: guest.summed(), traffic })
}
