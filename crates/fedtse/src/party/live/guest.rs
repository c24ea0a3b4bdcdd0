//! `fedtse live guest`: embeds each step of its fleet and sends it to the host, or adds its masked totals to a sum.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use estimator::artifact::SummedGuest;
use estimator::data::StepSpec;
use estimator::{PartyFile, TrainedGuest};
use federation::PartyError;
use federation::grpc::dial::{Dialled, dial};
use federation::grpc::drive::{Clock, Inputs, Party, WatchGuest, drive};
use federation::grpc::{GuestCertificates, Heads, Limits, SigningKey, tls};
use federation::live::{
    GuestCounts, LiveGuest, LiveGuestSettings, LiveSumGuest, LiveSumGuestSettings,
};
use federation::sums::SumTrust;
use protocol::ledger::SumRecords;
use protocol::message::parts::Text;
use protocol::{Ledger, PartyId, ToHost};
use sensing::stream::FleetFeed;
use sensing::{FeaturePlan, Fleets};
use serde_json::{Value, json};
use server::monitoring::{self, Monitored};
use tokio::sync::mpsc;
use tokio_rustls::rustls::ClientConfig;
use tracing::info;
use traffic::{Network, Seconds, Step, StepClock};

use super::feed::Feed;
use super::guest_config::{self, LiveGuestConfig};
use super::guest_feed::{Embedder, FleetTaker, OfFleet};
use super::terms;
use crate::party::arguments::ConfigArguments;
use crate::party::guest_config::{pinned, records_of};
use crate::party::metrics::MetricsText;
use crate::party::policy::{Policy, PolicyFile};
use crate::party::{
    CustomSubModelSpec, HeadKeys, LiveContribution, LiveSumGuestPart, TrainedModel, config, logs,
    network_threads, own_name, random_session_id, software, stopping,
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
            "stopped: {}; {sent} steps sent, {taken} in time, {missed} not; {unsent} not sent; {} bad lines",
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
    let credentials = SigningKey::of(&identity)?;
    let heads = HeadKeys::of_guest(&identity, &authority)?;
    let tls = tls::guest_side(identity, &authority)?;
    let model_folder = folder.join(&config.model.folder);
    let policy = config.model.policy.as_ref().map(|path| PolicyFile::read(&folder.join(path)));
    let own_policy = policy.transpose()?;
    let noise = config.model.noise.as_ref().map(|path| folder.join(path));
    let (host, timing) = (PartyId::new(&config.host.name)?, config.patience.timing()?);
    let run = folder.join(&config.run.folder);
    std::fs::create_dir_all(&run).with_context(|| run.display().to_string())?;
    let ledger_file = run.join("ledger.jsonl");
    let ledger = || Ledger::open(&ledger_file, &party);
    let heads = heads.open(&ledger_file, &party, Some(&host))?;
    let named = |name: &str| {
        ensure!(
            name == party.as_str(),
            "model.folder: found the model of `{name}`, expected that of `{party}`"
        );
        Ok(())
    };
    if PartyFile::<SummedGuest>::is_in(&model_folder) {
        ensure!(
            own_model.is_none(),
            "model.folder: found a guest of sums and a custom sub-model, expected one of the two"
        );
        let (file, network) = PartyFile::<SummedGuest>::read_without_weights(&model_folder)?;
        named(&file.name)?;
        let sums = config.model.sums.as_ref().context(
            "model.sums: found none, expected the folder in which the training kept the participants of its sums",
        )?;
        let of = (&*model_folder, &file, &network);
        let part = LiveSumGuestPart::open(of, own_policy, noise.as_deref()).context("model")?;
        let records = records_of(&folder.join(sums), &file.part.fleet);
        let settings = LiveSumGuestSettings {
            party: party.clone(),
            host,
            software: software(),
            session: random_session_id(),
            plan: part.plan().clone(),
            least: part.least(),
            timing,
        };
        let trust = SumTrust {
            credentials: Box::new(credentials),
            verifier: Box::new(GuestCertificates::new(
                &authority,
                pinned(config.participants.as_ref())?,
            )?),
            records: SumRecords::open(&records)?,
        };
        let guest = LiveSumGuest::new(settings, trust, ledger()?, clock.now())?;
        let place = Place { network, steps: file.steps, limits: Limits::default() };
        return take_part(config, folder, (&party, tls, clock), place, (guest, heads, part));
    }
    let (file, network, weights) = PartyFile::<TrainedGuest>::read(&model_folder)?;
    named(&file.name)?;
    let trained = Policy::of_trained(&model_folder)?;
    let own_policy = own_policy.map(|file| file.over(&trained));
    let contribution =
        LiveContribution::open((&file, &network), &trained, own_policy, noise.as_deref())
            .context("model")?;
    let record = &file.part.guest;
    let settings = LiveGuestSettings {
        party: party.clone(),
        host,
        software: software(),
        session: random_session_id(),
        terms: terms(&file, &record.common.network_hash, record.common.window)?,
        width: file.part.width(&network) as u32,
        timing,
    };
    let guest = LiveGuest::new(settings, ledger()?, clock.now());
    let (weights, window) = ((&*network, &weights), file.part.live(&network, &file.steps));
    let model = TrainedModel::of_guest(&model_folder, &file.name, &file.part, weights, own_model)?;
    let limits = Limits { message: MOST_MESSAGE, ..Limits::default() };
    let place = Place { network, steps: file.steps, limits };
    let embedder = Embedder { contribution, window, model };
    take_part(config, folder, (&party, tls, clock), place, (guest, heads, embedder))
}

/// What a guest is a guest of.
struct Place {
    network: Arc<Network>,
    steps: StepSpec,
    limits: Limits,
}

/// A guest that is live, with embeddings or totals.
trait Contributing: Party<Arrival = Dialled, Message = ToHost> {
    fn shown(&self) -> (bool, GuestCounts, u64);
    fn why_ended(&self) -> Option<&PartyError>;
}

macro_rules! contributing {
    ($($guest:ty),+) => {
        $(impl Contributing for $guest {
            fn shown(&self) -> (bool, GuestCounts, u64) {
                (self.is_live(), self.counts(), self.ledger().len())
            }
            fn why_ended(&self) -> Option<&PartyError> {
                self.ended()
            }
        })+
    };
}
contributing!(LiveGuest, LiveSumGuest);

/// Runs a guest with its records until it ends.
fn take_part<F: OfFleet, G: Contributing<Own = (Step, F::Out)>>(
    config: LiveGuestConfig,
    folder: PathBuf,
    (party, tls, clock): (&PartyId, Arc<ClientConfig>, Clock),
    Place { network, steps: spec, limits }: Place,
    (mut guest, mut heads, fleet): (G, Heads, F),
) -> Result<RunEnd> {
    let address = config.host.dialled()?;
    let (to, own) = mpsc::channel(16);
    let gap = Seconds::new(config.records.gap_s.unwrap_or(GAP_S));
    let plan = FeaturePlan {
        clock: StepClock { length: Seconds::new(spec.step_s) },
        cells: spec.cells,
        sub_steps: spec.sub_steps,
        patience: Seconds::new(spec.patience_s),
        // All that comes in is this fleet's.
        fleets: Fleets::nested(&[], 0)?,
    };
    let (host_name, http) = (config.host.address.clone(), config.observe.http);
    let feed = Feed::start(config.records, folder, move |fill| {
        let feed = FleetFeed::new(&network, plan, gap)?;
        let (columns, ready) = (None, Vec::new());
        fill(&mut FleetTaker { network: &network, columns, feed, fleet, to, ready })
    })?;

    let runtime = network_threads()?;
    let view = Arc::new(FleetView::default());
    let (sender, arrivals) = mpsc::channel(64);
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
    let mut watch = WatchGuest::new(|guest: &mut G, connected| {
        let (live, counts, released) = guest.shown();
        *view.0.lock().unwrap_or_else(PoisonError::into_inner) = Shown {
            connected,
            live,
            counts,
            bad_lines: feed.counts.bad.load(Ordering::Relaxed),
            released,
            bytes: [traffic.sent(), traffic.received()],
        };
        if let Some(steps) = &steps {
            steps.set_position(counts.sent);
        }
        stop.look();
    });
    let party_and_heads = (&mut guest, &mut heads);
    let let_in = drive(runtime.handle(), &clock, party_and_heads, &line, &mut inputs, &mut watch);
    runtime.block_on(line.close());
    runtime.shutdown_background();
    let_in?;
    let bad_lines = feed.counts.bad.load(Ordering::Relaxed);
    drop(inputs);
    feed.ended()?;
    let (_, counts, _) = guest.shown();
    match guest.why_ended() {
        Some(PartyError::Stopped { reason }) => {
            info!("stopped: {reason}");
            Ok(RunEnd { reason: reason.clone(), counts, bad_lines })
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
            ("live_sent_total", "Steps whose embedding or masked totals were sent", counts.sent),
            ("live_unsent_total", "Steps of which nobody could use them", counts.unsent),
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
