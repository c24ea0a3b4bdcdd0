//! `fedtse host` that learns sums over guests alone: it adds up what they send, masked, and trains by itself.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use estimator::{Score, score};
use experiments::train::keep_intervals_of_sum;
use federation::grpc::drive::{Clock, Inputs, Watch, drive};
use federation::grpc::listen::{GrpcListener, listen};
use federation::grpc::{Arrival, Limits, Traffic, accepted};
use federation::sums::{SumEvent, SumHost};
use federation::{FolderStore, PartyError};
use protocol::message::parts::Text;
use protocol::{Ledger, Round};
use serde_json::{Value, json};
use server::monitoring;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::gauges::Gauges;
use super::host::print_score;
use super::host_config::{HostConfig, PreparedSum};
use super::stopping::StopRequest;
use super::{network_threads, print_stopped, stopping};

/// How a run ended.
pub(super) struct RunEnd {
    end: End,
    traffic: Arc<Traffic>,
    refused: u64,
}

enum End {
    Finished(Finished),
    Stopped(Text, Round),
}

struct Finished {
    blocks: usize,
    score: Option<Score>,
    weights: String,
}

impl RunEnd {
    pub(super) fn json(&self) -> Value {
        match &self.end {
            End::Stopped(reason, round) => json!({"stopped": reason.as_str(), "round": round}),
            End::Finished(Finished { blocks, score, weights }) => json!({
                "finished": {"blocks": blocks}, "score": score, "refused": self.refused,
                "bytes": {"sent": self.traffic.sent(), "received": self.traffic.received()},
                "weights": weights,
            }),
        }
    }
}

pub(super) fn run(config: &HostConfig, folder: &Path, json: bool) -> Result<()> {
    let ended = lead(config, folder)?;
    match &ended.end {
        End::Stopped(reason, round) => print_stopped(reason, *round, json),
        End::Finished(_) if json => println!("{}", ended.json()),
        End::Finished(finished) => {
            println!("finished: trained on {} sums", finished.blocks);
            match &finished.score {
                Some(score) => print_score(score),
                None => println!("no ground truth to score by"),
            }
            println!("weights {}", finished.weights);
        }
    }
    Ok(())
}

/// Adds up what the guests send, and trains.
pub(super) fn lead(config: &HostConfig, folder: &Path) -> Result<RunEnd> {
    let clock = Clock::start();
    let PreparedSum { name, tls, heads, part, guests, settings } = config.prepare_sum(folder)?;
    if let [guest] = &guests[..] {
        warn!(
            "aggregate: the sum over one guest is its own data: the host sees the totals of `{guest}`"
        );
    }
    let run = folder.join(&config.run.folder);
    let store = FolderStore::open(&run)?;
    let ledger_file = run.join("ledger.jsonl");
    let ledger = Ledger::open(&ledger_file, &name)?;
    store.remove_unfinished()?;
    let mut heads = heads.open(&ledger_file, &name, None)?;
    let mut host = SumHost::new(settings, store, ledger, clock.now())?;

    let runtime = network_threads()?;
    let gauges = Arc::new(Gauges::default());
    let (sender, arrivals) = mpsc::channel(64);
    let (listener, stop) = runtime.block_on(async {
        let stop = stopping::asked().await?;
        let accepted = accepted::follow(folder.join(&config.network.accepted))?;
        let address = config.network.listen;
        let listener = listen(address, tls, accepted, Limits::default(), sender)
            .await
            .with_context(|| format!("network.listen: {address}"))?;
        if let Some(address) = config.observe.http {
            monitoring::serve(address, gauges.clone()).await?;
        }
        Ok::<_, anyhow::Error>((listener, stop))
    })?;
    info!("{}", config.what_it_sees(None));
    info!(host = %name, address = %listener.address(), "waiting for guests");
    gauges.shown().connected = guests.iter().map(|guest| (guest.clone(), false)).collect();
    let mut board = Board { gauges: &gauges, listener: &listener, stop: &stop };
    let mut inputs = Inputs::new(arrivals, stop.reason.clone());
    let party = (&mut host, &mut heads);
    drive(runtime.handle(), &clock, party, &listener, &mut inputs, &mut board)?;
    let (traffic, refused) = (listener.traffic(), listener.refused());
    runtime.block_on(listener.close());
    runtime.shutdown_background();
    let round = Round(host.progress().map_or(0, |(done, _)| done as u64));
    let end = match host.stopped() {
        Some(PartyError::Stopped { reason }) => End::Stopped(reason.clone(), round),
        Some(error) => bail!("{error}"),
        None => {
            let (id, sums) = host.into_sums().context("the host has stopped before its end")?;
            let model = run.join("model");
            std::fs::create_dir_all(&model).with_context(|| model.display().to_string())?;
            let epochs = part.options().most_epochs().unwrap_or(1);
            let bar = progress::bar("training", epochs as u64);
            info!(blocks = sums.len(), "summed: training");
            let (study, task, fitted) =
                part.fit(&sums, &guests, Some((&model, &name, id)), &bar)?;
            bar.finish_and_clear();
            let windows = &study.split().test;
            keep_intervals_of_sum(&model, &study, &task, &fitted)?;
            let scored = study.has_truth();
            let score = scored.then(|| score(&study, task.target, windows, &fitted.estimates));
            let weights = digest_of(&model.join("weights.safetensors"))?;
            End::Finished(Finished { blocks: sums.len(), score, weights })
        }
    };
    Ok(RunEnd { end, traffic, refused })
}

/// Tells weights that were kept.
fn digest_of(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Shows what happens.
struct Board<'a> {
    gauges: &'a Gauges,
    listener: &'a GrpcListener,
    stop: &'a StopRequest,
}

impl Watch<SumHost<FolderStore>> for Board<'_> {
    fn arrival(&mut self, arrival: &Arrival) {
        if let Some((guest, connected)) = arrival.connection()
            && let Some(shown) = self.gauges.shown().connected.get_mut(guest.as_str())
        {
            *shown = connected;
        }
    }

    fn look(&mut self, host: &mut SumHost<FolderStore>) {
        for event in host.take_events() {
            match event {
                SumEvent::Joined(guest) => info!(%guest, "joined"),
                SumEvent::Refused(guest, reason) => warn!(%guest, "refused: {reason}"),
                SumEvent::Missed(guest) => warn!(%guest, "missed"),
                SumEvent::Left(guest, why) => info!(%guest, "left: {why:?}"),
                SumEvent::Grouped(members) => info!(members = members.len(), "they add up"),
                SumEvent::Summed(done, all) => {
                    info!(done, all, "summed");
                    self.gauges.shown().round = done as u64;
                }
                SumEvent::Without(block, guests) => {
                    let (first, last) = (block.first().0, block.last().0);
                    let without: Vec<&str> = guests.iter().map(|guest| guest.as_str()).collect();
                    warn!(first, last, without = without.join(" "), "summed without guests");
                }
            }
        }
        self.gauges.traffic(&self.listener.traffic());
        let mut shown = self.gauges.shown();
        (shown.released, shown.refused) = (host.ledger().len(), self.listener.refused());
        drop(shown);
        self.stop.look();
    }
}
