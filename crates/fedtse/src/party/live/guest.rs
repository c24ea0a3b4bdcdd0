//! `fedtse live guest`: embeds each step of its fleet and sends it to the host.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Args;
use estimator::{PartyFile, TrainedGuest};
use federation::PartyError;
use federation::grpc::dial::dial;
use federation::grpc::drive::{Clock, Inputs, WatchGuest, drive};
use federation::grpc::{Limits, tls};
use federation::live::{GuestCounts, LiveGuest, LiveGuestSettings};
use protocol::message::parts::Text;
use protocol::{Ledger, PartyId};
use sensing::stream::FleetFeed;
use sensing::{FeaturePlan, Fleets};
use serde_json::{Value, json};
use server::monitoring::{self, Monitored};
use tokio::sync::mpsc;
use tracing::info;
use traffic::{Seconds, StepClock};

use super::feed::Feed;
use super::guest_config::{self, LiveGuestConfig};
use super::guest_feed::{Embedder, FleetTaker};
use super::terms;
use crate::party::arguments::ConfigArguments;
use crate::party::metrics::MetricsText;
use crate::party::policy::{Policy, PolicyFile};
use crate::party::{
    CustomSubModelSpec, LiveContribution, TrainedModel, config, logs, network_threads, own_name,
    random_session_id, software, stopping,
};

/// A longer jump of time begins a new recording, unless the configuration says otherwise.
pub(super) const GAP_S: f64 = 10.0;
/// Bytes of the longest message from a live host: handshakes and short texts.
const MOST_MESSAGE: usize = 1 << 16;

/// Embed each step of a fleet's records and send it to the host, which estimates
///
/// Runs until the records end or the host stops. On SIGTERM or Ctrl-C it tells the other parties and exits.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse live guest --example > live.toml\n  fedtse replay --data data/corridor --fleet fleet-20 | fedtse live guest --config live.toml"
)]
pub(super) struct LiveGuestArguments {
    #[command(flatten)]
    file: ConfigArguments,
}

pub(super) fn run(arguments: &LiveGuestArguments, json: bool) -> Result<()> {
    let Some((config, folder)) = arguments.file.read::<LiveGuestConfig>(guest_config::EXAMPLE)?
    else {
        return Ok(());
    };
    logs::start(&config.observe)?;
    let ended = embed_steps(config, folder, None)?;
    if json {
        println!("{}", ended.json());
    } else {
        let GuestCounts { sent, taken, missed, unsent } = ended.counts;
        println!(
            "stopped: {}; {sent} embeddings sent, {taken} in time, {missed} not; {unsent} not sent; {} bad lines",
            ended.reason, ended.bad_lines
        );
    }
    Ok(())
}

/// Takes part for a front end, with a sub-model of the guest's own if there is one, and tells how it went.
pub fn join_live(config: &Path, own: Option<&CustomSubModelSpec>) -> Result<Value> {
    let (config, folder) = config::read::<LiveGuestConfig>(config)?;
    logs::start_if_none(&config.observe);
    Ok(embed_steps(config, folder, own)?.json())
}

/// How it ended.
struct RunEnd {
    reason: Text,
    counts: GuestCounts,
    bad_lines: u64,
}

impl RunEnd {
    fn json(&self) -> Value {
        json!({"stopped": self.reason.as_str(), "steps": self.counts, "bad_lines": self.bad_lines})
    }
}

fn embed_steps(
    config: LiveGuestConfig,
    folder: PathBuf,
    own_model: Option<&CustomSubModelSpec>,
) -> Result<RunEnd> {
    let clock = Clock::start();
    config.records.check()?;
    let (identity, authority) = config.identity.read(&folder)?;
    let party = own_name(identity.certificate_info())?;
    let tls = tls::guest_side(identity, &authority)?;
    let host = &config.host;
    let address = host.dialled()?;
    let model_folder = folder.join(&config.model.folder);
    let (file, network, weights) = PartyFile::<TrainedGuest>::read(&model_folder)?;
    if file.name != party.as_str() {
        bail!("model.folder: found the model of `{}`, expected that of `{party}`", file.name);
    }
    let trained = Policy::of_trained(&model_folder)?;
    let own_policy = config.model.policy.as_ref().map(|path| PolicyFile::read(&folder.join(path)));
    let own_policy = own_policy.transpose()?.map(|file| file.over(&trained));
    let noise = config.model.noise.as_ref().map(|path| folder.join(path));
    let contribution =
        LiveContribution::open((&file, &network), &trained, own_policy, noise.as_deref())
            .context("model")?;
    let record = &file.part.guest;
    let settings = LiveGuestSettings {
        party: party.clone(),
        host: PartyId::new(&host.name)?,
        software: software(),
        session: random_session_id(),
        terms: terms(&file, &record.common.network_hash, record.common.window)?,
        width: file.part.width(&network) as u32,
        timing: config.patience.timing()?,
    };
    let run = folder.join(&config.run.folder);
    std::fs::create_dir_all(&run).with_context(|| run.display().to_string())?;
    let ledger = Ledger::open(&run.join("ledger.jsonl"), &party)?;
    let mut guest = LiveGuest::new(settings, ledger, clock.now());

    let (to, own) = mpsc::channel(16);
    let gap = Seconds::new(config.records.gap_s.unwrap_or(GAP_S));
    let (weights, window) = ((&*network, &weights), file.part.live(&network, &file.steps));
    let model = TrainedModel::of_guest(&model_folder, &file.name, &file.part, weights, own_model)?;
    let plan = FeaturePlan {
        clock: StepClock { length: Seconds::new(file.steps.step_s) },
        cells: file.steps.cells,
        sub_steps: file.steps.sub_steps,
        patience: Seconds::new(file.steps.patience_s),
        // All that comes in is this fleet's.
        fleets: Fleets::nested(&[], 0)?,
    };
    let (host_name, http) = (config.host.address.clone(), config.observe.http);
    let feed = Feed::start(config.records, folder, move |fill| {
        let feed = FleetFeed::new(&network, plan, gap)?;
        let (columns, ready) = (None, Vec::new());
        let embedder = Embedder { contribution, window, model };
        fill(&mut FleetTaker { network: &network, columns, feed, embedder, to, ready })
    })?;

    let runtime = network_threads()?;
    let view = Arc::new(FleetView::default());
    let (sender, arrivals) = mpsc::channel(64);
    let limits = Limits { message: MOST_MESSAGE, ..Limits::default() };
    let (line, stop) = runtime.block_on(async {
        let stop = stopping::asked().await?;
        if let Some(address) = http {
            monitoring::serve(address, Arc::clone(&view)).await?;
        }
        Ok::<_, anyhow::Error>((dial(address, tls, limits, sender), stop))
    })?;
    info!(guest = %party, host = %host_name, "dialling");
    let traffic = line.traffic();
    let mut inputs = Inputs::live(arrivals, own, stop.reason.clone());
    let steps = progress::observer().map(|_| progress::spinner("steps"));
    let mut watch = WatchGuest::new(|guest: &mut LiveGuest, connected| {
        *view.0.lock().unwrap_or_else(PoisonError::into_inner) = Shown {
            connected,
            live: guest.is_live(),
            counts: guest.counts(),
            bad_lines: feed.counts.bad.load(Ordering::Relaxed),
            released: guest.ledger().len(),
            bytes: [traffic.sent(), traffic.received()],
        };
        if let Some(steps) = &steps {
            steps.set_position(guest.counts().sent);
        }
        stop.look();
    });
    let let_in = drive(runtime.handle(), &clock, &mut guest, &line, &mut inputs, &mut watch);
    runtime.block_on(line.close());
    runtime.shutdown_background();
    let_in?;
    let bad_lines = feed.counts.bad.load(Ordering::Relaxed);
    drop(inputs);
    feed.ended()?;
    match guest.ended() {
        Some(PartyError::Stopped { reason }) => {
            info!("stopped: {reason}");
            Ok(RunEnd { reason: reason.clone(), counts: guest.counts(), bad_lines })
        }
        Some(error) => bail!("{error}"),
        None => bail!("the guest has stopped before its end"),
    }
}

/// What monitoring sees of a guest.
#[derive(Default)]
struct FleetView(Mutex<Shown>);

#[derive(Default)]
struct Shown {
    connected: bool,
    live: bool,
    counts: GuestCounts,
    bad_lines: u64,
    released: u64,
    bytes: [u64; 2],
}

impl Monitored for FleetView {
    fn trouble(&self) -> Option<String> {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!(shown.connected && shown.live)).then(|| "waiting for the host".into())
    }

    fn prometheus(&self) -> String {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = &shown.counts;
        let mut text = MetricsText::default();
        text.counters(&[
            ("live_sent_total", "Embeddings sent", counts.sent),
            ("live_unsent_total", "Embeddings that nobody could use", counts.unsent),
            ("live_taken_total", "Steps estimated with this guest", counts.taken),
            ("live_missed_total", "Steps estimated without it", counts.missed),
            ("live_bad_lines_total", "Records left out", shown.bad_lines),
            ("released_messages_total", "Messages in the ledger", shown.released),
            ("sent_bytes_total", "Bytes sent to the host", shown.bytes[0]),
            ("received_bytes_total", "Bytes received from the host", shown.bytes[1]),
        ]);
        text.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::board::Board;
    use super::*;

    /// Every metric that the dashboard asks for is one that a host or a guest has.
    #[test]
    fn the_dashboard_shows_metrics_that_are_there() {
        let board = Board::new(Duration::from_secs(60));
        board.note(super::super::board::Published {
            step: traffic::Step(1),
            guests: Default::default(),
            ended: std::time::Instant::now(),
            latency: Duration::ZERO,
        });
        let there = board.prometheus() + &FleetView::default().prometheus();
        let dashboard = include_str!("../../../../../docs/grafana.json");
        let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let mut asked = 0;
        for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
            let expression = target["expr"].as_str().unwrap();
            let name = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = name.into_iter().find(|word| word.starts_with("fedtse_")).unwrap();
            assert!(there.contains(&format!("# TYPE {name} ")), "{name}: not in\n{there}");
            asked += 1;
        }
        assert!(asked >= panels.len());
    }
}
