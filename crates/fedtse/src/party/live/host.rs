//! `fedtse live host`: estimates each step and publishes it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use estimator::artifact::HostRecord;
use estimator::data::StepSpec;
use estimator::{HostModel, LinkInterval, PartyFile, TargetKind, TrainedHost};
use federation::grpc::drive::{Clock, Inputs, Party, Watch, drive};
use federation::grpc::listen::{GrpcListener, listen};
use federation::grpc::{Arrival, GuestCertificates, Heads, Limits, accepted, tls};
use federation::live::{
    LiveEvent, LiveGuestCounts, LiveHost, LiveHostSettings, LiveModel, LiveSumHost,
    LiveSumHostSettings, LiveSumModel, Participation, SumEstimate,
};
use federation::model::Embeddings;
use federation::{ModelFailure, PartyError};
use indicatif::ProgressBar;
use protocol::message::parts::Text;
use protocol::wire::message_limit;
use protocol::{Ledger, Now, PartyId, ToGuest};
use sensing::stream::LoopFeed;
use serde_json::{Value, json};
use server::{Estimate, EstimateFeed, HttpServer, Publisher, SeriesInfo, monitoring};
use tokio::sync::mpsc;
use tokio_rustls::rustls::ServerConfig;
use tracing::{info, warn};
use traffic::{LinkState, Network, Seconds, Step, StepClock};

use super::board::{Board, Published, Shown};
use super::borders::Borders;
use super::feed::Feed;
use super::host_config::{self, LiveHostConfig};
use super::host_feed::{AsCounted, Ends, LoopTaker, OfLoops, Own};
use super::terms;
use crate::party::arguments::ConfigArguments;
use crate::party::stopping::StopRequest;
use crate::party::{
    self, HOST_SUB_MODEL, HeadKeys, LiveSumHostPart, TrainedCustomSubModel, config, departure,
    logs, network_threads, own_name, software, stopping,
};

/// A longer jump of time begins a new recording, unless the configuration says otherwise.
pub(super) const GAP_S: f64 = 300.0;

/// Estimate each step from loop counts and the guests' embeddings, and publish it over HTTP
///
/// Runs until its records end. On SIGTERM or Ctrl-C it tells the other parties and exits.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse live host --example > live.toml\n  fedtse replay --data data/corridor --loops | fedtse live host --config live.toml\n  curl http://127.0.0.1:8080/v1/estimates"
)]
pub(super) struct LiveHostArguments {
    #[command(flatten)]
    file: ConfigArguments,
}

pub(super) fn run(arguments: &LiveHostArguments, json: bool) -> Result<()> {
    let Some((config, folder)) = arguments.file.read::<LiveHostConfig>(host_config::EXAMPLE)?
    else {
        return Ok(());
    };
    logs::start(&config.observe)?;
    let ended = estimate_steps(config, folder, None)?;
    if json {
        println!("{}", ended.json());
    } else {
        let Shown { estimates, complete, missed, .. } = &ended.shown;
        println!(
            "stopped: {}; {estimates} estimates, {complete} with all guests, {missed} steps missed",
            ended.reason
        );
    }
    Ok(())
}

/// Estimates for a front end, with a sub-model of the host's own if there is one, and tells how it went.
pub fn lead_live(config: &Path, own: Option<&party::CustomSubModelSpec>) -> Result<Value> {
    let (config, folder) = config::read::<LiveHostConfig>(config)?;
    logs::start_if_none(&config.observe);
    Ok(estimate_steps(config, folder, own)?.json())
}

/// How it ended.
struct RunEnd {
    reason: Text,
    shown: Shown,
}

impl RunEnd {
    fn json(&self) -> Value {
        let shown = &self.shown;
        json!({
            "stopped": self.reason.as_str(), "estimates": shown.estimates,
            "complete": shown.complete, "missed": shown.missed,
            "latency_s": shown.latencies.quantiles(), "guests": shown.guests,
            "bad_lines": shown.bad_lines,
        })
    }
}

fn estimate_steps(
    config: LiveHostConfig,
    folder: PathBuf,
    own_model: Option<&party::CustomSubModelSpec>,
) -> Result<RunEnd> {
    let clock = Clock::start();
    config.records.check()?;
    let (identity, authority) = config.identity.read(&folder)?;
    let name = own_name(identity.certificate_info())?;
    let heads = HeadKeys::of_host(&identity, &authority)?;
    let tls = tls::host_side(identity, &authority)?;
    let model_folder = folder.join(&config.model.folder);
    let run = folder.join(&config.run.folder);
    std::fs::create_dir_all(&run).with_context(|| run.display().to_string())?;
    let ledger_file = run.join("ledger.jsonl");
    let ledger = Ledger::open(&ledger_file, &name)?;
    let heads = heads.open(&ledger_file, &name, None)?;
    let (deadline, timing) = (config.live.deadline()?, config.patience.timing()?);
    if LiveSumHostPart::is_in(&model_folder) {
        ensure!(
            own_model.is_none(),
            "model.folder: found the model of a sum and a custom sub-model, expected one of the two"
        );
        let part = LiveSumHostPart::read(&model_folder).context("model")?;
        let guests = part.guests().iter().map(|name| PartyId::new(name));
        let guests: BTreeSet<PartyId> = guests.collect::<Result<_, _>>()?;
        let plan = part.plan().clone();
        let place = Place {
            network: Arc::clone(part.network()),
            network_hash: plan.terms.network_hash.to_string(),
            steps: part.steps(),
            target: part.target(),
            guests: guests.iter().cloned().collect(),
            limits: Limits::default(),
        };
        if let [guest] = &place.guests[..] {
            warn!(
                "aggregate: the sum over one guest is its own data: the host sees the totals of `{guest}`"
            );
        }
        let settings = LiveSumHostSettings {
            party: name.clone(),
            guests,
            software: software(),
            run: plan.terms.run.context("sum.json: run")?,
            plan,
            deadline,
            timing,
            verifier: Box::new(GuestCertificates::new(&authority, None)?),
        };
        let host = LiveSumHost::new(settings, SumEstimator(part), ledger, clock.now());
        return publish(config, folder, (&name, tls, clock), place, (host, heads, AsCounted));
    }
    let (file, network, weights) = PartyFile::<TrainedHost>::read(&model_folder)?;
    let record = file.part.host.clone();
    let model = file.part.model(&network, &weights)?;
    let place = (&*network, model.input_len());
    let part =
        TrainedCustomSubModel::of_host(&model_folder, &file.name, &file.part, place, own_model)?;
    let guests = model.guests().filter(|(name, _)| part.is_none() || *name != HOST_SUB_MODEL);
    let guests = guests.map(|(name, width)| Ok((PartyId::new(name)?, width as u32)));
    let guests: BTreeMap<PartyId, u32> = guests.collect::<Result<_>>()?;
    let widest = guests.values().copied().max().unwrap_or(1);
    let settings = LiveHostSettings {
        party: name.clone(),
        guests: guests.clone(),
        software: software(),
        terms: terms(&file, &record.common.network_hash, record.common.window)?,
        deadline,
        timing,
    };
    let window = file.part.live(&network, &file.steps);
    let place = Place {
        network,
        network_hash: record.common.network_hash.clone(),
        steps: file.steps,
        target: file.part.target,
        guests: guests.into_keys().collect(),
        limits: Limits { message: message_limit(widest), ..Limits::default() },
    };
    let host = LiveHost::new(settings, Estimator { model, record, part }, ledger, clock.now());
    publish(config, folder, (&name, tls, clock), place, (host, heads, window))
}

/// What is estimated, and from whose messages.
struct Place {
    network: Arc<Network>,
    network_hash: String,
    steps: StepSpec,
    target: TargetKind,
    guests: Vec<PartyId>,
    limits: Limits,
}

/// States of all links, and when the step had ended.
type States = (Vec<LinkState>, Instant);

/// A host that estimates live, with embeddings or sums.
trait Estimating: Party<Arrival = Arrival, Message = ToGuest> {
    fn events(&mut self) -> Vec<LiveEvent<States>>;
    fn guests_at(&self, now: Now) -> Vec<(PartyId, bool, LiveGuestCounts)>;
    fn released(&self) -> u64;
    fn why_ended(&self) -> Option<&PartyError>;
}

macro_rules! estimating {
    ($($host:ty),+) => {
        $(impl Estimating for $host {
            fn events(&mut self) -> Vec<LiveEvent<States>> {
                self.take_events()
            }
            fn guests_at(&self, now: Now) -> Vec<(PartyId, bool, LiveGuestCounts)> {
                let sessions = self.sessions(now);
                sessions.map(|(party, waited_for, counts)| (party.clone(), waited_for, counts)).collect()
            }
            fn released(&self) -> u64 {
                self.ledger().len()
            }
            fn why_ended(&self) -> Option<&PartyError> {
                self.ended()
            }
        })+
    };
}
estimating!(LiveHost<Estimator>, LiveSumHost<SumEstimator>);

/// Runs a host with its records, its guests and its readers until it ends.
fn publish<W: OfLoops, H: Estimating<Own = (Step, Own<W::Own>)>>(
    config: LiveHostConfig,
    folder: PathBuf,
    (name, tls, clock): (&PartyId, Arc<ServerConfig>, Clock),
    place: Place,
    (mut host, mut heads, window): (H, Heads, W),
) -> Result<RunEnd> {
    let Place { network, network_hash, steps, target: kind, guests, limits } = place;
    let run = folder.join(&config.run.folder);
    let model_folder = folder.join(&config.model.folder);
    let borders = Borders::of(&model_folder, &network, config.publish.interval)?;
    let info = Arc::new(SeriesInfo {
        network: Arc::clone(&network),
        network_hash,
        step_s: steps.step_s,
        target: target(kind),
        guests: guests.iter().map(ToString::to_string).collect(),
        interval: borders.percent(),
    });
    let (storage, keep_s) = (config.history.open(&run, &info)?, config.history.keep_s()?);
    let history = storage.as_ref().map(|storage| (Arc::clone(&storage.history), Some(keep_s)));
    let estimates = Arc::new(EstimateFeed::with_alarms(&config.alarms, &info)?);
    let limit = config.readers.connection_limit()?;
    // The last reference to a PostgreSQL store must not be dropped by a thread of the HTTP server, which cannot wait
    // for its connection to close.
    let store = storage.as_ref().map(|storage| Arc::clone(&storage.history));
    let site = config.readers.site(&folder, &info, &estimates, history, true)?;
    let publisher = Publisher::start(Arc::clone(&info), Arc::clone(&estimates), storage)?;
    let board = Arc::new(Board::new(config.publish.stale()?));
    board.shown().connected = guests.iter().map(|guest| (guest.to_string(), false)).collect();

    let (to, own) = mpsc::channel(16);
    let gap = Seconds::new(config.records.gap_s.unwrap_or(GAP_S));
    let lag = Seconds::new(config.live.lag_s(steps.patience_s)?);
    let steps = StepClock { length: Seconds::new(steps.step_s) };
    let LiveHostConfig { records, network: listener, publish, observe, .. } = config;
    let accepted_file = folder.join(&listener.accepted);
    let feed = Feed::start(records, folder, move |fill| {
        let feed = LoopFeed::new(&network, steps, lag, gap);
        let (columns, ends, ready) = (None, Ends::new(steps), Vec::new());
        fill(&mut LoopTaker { network: &network, columns, feed, window, ends, to, ready })
    })?;

    let runtime = network_threads()?;
    let (sender, arrivals) = mpsc::channel(64);
    let (listener, stop) = runtime.block_on(async {
        let stop = stopping::asked().await?;
        let accepted = accepted::follow(accepted_file)?;
        let address = listener.listen;
        let listener = listen(address, tls, accepted, limits, sender)
            .await
            .with_context(|| format!("network.listen: {address}"))?;
        if let Some(address) = observe.http {
            monitoring::serve(address, Arc::clone(&board)).await?;
        }
        Ok::<_, anyhow::Error>((listener, stop))
    })?;
    let http_server = HttpServer::start(publish.http, limit, site)?;
    info!(host = %name, address = %listener.address(), "waiting for guests and records");
    let mut watch = LiveBoard {
        board: &board,
        listener: &listener,
        feed: &feed,
        clock: &clock,
        publisher: &publisher,
        borders: &borders,
        info: &info,
        estimates: &estimates,
        stop: &stop,
        steps: progress::observer().map(|_| progress::spinner("steps")),
    };
    let mut inputs = Inputs::live(arrivals, own, stop.reason.clone());
    let party = (&mut host, &mut heads);
    drive(runtime.handle(), &clock, party, &listener, &mut inputs, &mut watch)?;
    // What was estimated is stored, and published to whoever is still connected.
    publisher.finish();
    drop(http_server);
    runtime.block_on(listener.close());
    runtime.shutdown_background();
    drop(store);
    drop(inputs);
    let counts = Arc::clone(&feed.counts);
    feed.ended()?;
    board.shown().bad_lines = counts.bad.load(Ordering::Relaxed);
    match host.why_ended() {
        Some(PartyError::Stopped { reason }) => {
            info!("stopped: {reason}");
            Ok(RunEnd { reason: reason.clone(), shown: board.shown().clone() })
        }
        Some(error) => bail!("{error}"),
        None => bail!("the host has stopped before its end"),
    }
}

/// The host's trained model.
struct Estimator {
    model: HostModel,
    record: HostRecord,
    /// A sub-model of its own, in the place of the built-in part.
    part: Option<TrainedCustomSubModel>,
}

impl LiveModel for Estimator {
    type Own = Own<Vec<f32>>;
    type Estimate = States;

    fn estimate(
        &mut self,
        own: &Own<Vec<f32>>,
        embeddings: &Embeddings,
    ) -> Result<Option<Self::Estimate>, ModelFailure> {
        let there = embeddings.iter().filter_map(|(party, embedding)| {
            Some((party.as_str(), embedding.as_ref()?.0.as_slice()))
        });
        let (mut x, z);
        let mut there: BTreeMap<&str, &[f32]> = there.collect();
        x = Cow::from(&own.x);
        if let Some(part) = &mut self.part {
            z = part.infer(&x, 1).map_err(|error| ModelFailure(format!("{error:#}")))?;
            // The built-in part sees nothing, as in training.
            x.to_mut().fill(0.0);
            there.insert(HOST_SUB_MODEL, &z);
        }
        let mut y = vec![0.0; self.model.output_len()];
        self.model
            .infer_best(&x, &there, &mut y)
            .map_err(|error| ModelFailure(error.to_string()))?;
        let numbers = y.iter().all(|y| y.is_finite());
        Ok(numbers.then(|| (self.record.states(&y).collect(), own.ended)))
    }
}

/// The host's model of the sum over guests.
struct SumEstimator(LiveSumHostPart);

impl LiveSumModel for SumEstimator {
    type Own = Own<Vec<Option<u32>>>;
    type Estimate = States;

    fn estimate(
        &mut self,
        step: Step,
        own: Self::Own,
        sum: Option<(usize, &[u64])>,
    ) -> Result<SumEstimate<States>, ModelFailure> {
        let made = self.0.estimate(step, &own.x, sum);
        let made = made.map_err(|error| ModelFailure(error.to_string()))?;
        Ok(match made {
            SumEstimate::Estimate(states) => SumEstimate::Estimate((states, own.ended)),
            SumEstimate::NoWindow => SumEstimate::NoWindow,
            SumEstimate::NotFinite => SumEstimate::NotFinite,
        })
    }
}

fn target(target: TargetKind) -> server::Target {
    match target {
        TargetKind::Raw => server::Target::Raw,
        TargetKind::Smooth => server::Target::Smooth,
    }
}

fn participation(participation: Participation) -> server::Participation {
    match participation {
        Participation::In => server::Participation::In,
        Participation::Late => server::Participation::Late,
        Participation::Absent => server::Participation::Absent,
        Participation::Unusable => server::Participation::Unusable,
    }
}

fn interval(LinkInterval { density, flow }: LinkInterval) -> server::LinkInterval {
    server::LinkInterval { density, flow }
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Publishes estimates and shows what happens.
struct LiveBoard<'a> {
    board: &'a Board,
    listener: &'a GrpcListener,
    feed: &'a Feed,
    clock: &'a Clock,
    publisher: &'a Publisher,
    borders: &'a Borders,
    info: &'a SeriesInfo,
    estimates: &'a EstimateFeed,
    stop: &'a StopRequest,
    /// For a front end that watches.
    steps: Option<ProgressBar>,
}

impl<H: Estimating> Watch<H> for LiveBoard<'_> {
    fn look(&mut self, host: &mut H) {
        for event in host.events() {
            match event {
                LiveEvent::Estimated(estimated) => {
                    let (states, ended) = estimated.estimate;
                    let (step, latency) = (estimated.step, ended.elapsed());
                    let without: Vec<&str> = estimated
                        .guests
                        .iter()
                        .filter(|(_, guest)| **guest != Participation::In)
                        .map(|(party, _)| party.as_str())
                        .collect();
                    if estimated.guests.values().any(|guest| *guest == Participation::Unusable) {
                        warn!(
                            step = step.0,
                            "estimated without guests: with them the model output is not finite"
                        );
                    }
                    let (ms, without) = (latency.as_millis() as u64, without.join(" "));
                    tracing::debug!(step = step.0, ms, without, "estimated");
                    let guests = estimated.guests;
                    self.board.note(Published { step, guests: guests.clone(), ended, latency });
                    let complete = without.is_empty();
                    let intervals = complete.then(|| self.borders.around(&states)).flatten();
                    let intervals = intervals.map(|all| all.into_iter().map(interval).collect());
                    let participants = guests.into_iter();
                    let estimate = Estimate {
                        step,
                        made_s: unix_s(),
                        latency_s: latency.as_secs_f64(),
                        participants: participants
                            .map(|(guest, how)| (guest.to_string(), participation(how)))
                            .collect(),
                        states,
                        intervals,
                    };
                    let totals = estimate.totals(self.info);
                    let alarms = self.estimates.active_alarms();
                    let mut shown = self.board.shown();
                    (shown.vehicles, shown.delay_h) = (totals.vehicles, totals.delay_h);
                    shown.alarms = alarms;
                    drop(shown);
                    self.publisher.publish(estimate, ended);
                }
                LiveEvent::Unestimated(step) => {
                    warn!(step = step.0, "no estimate: model output is not finite");
                }
                LiveEvent::Unsummed(step) => {
                    warn!(step = step.0, "no sum over guests: too few of them take part");
                }
                LiveEvent::WentBack { step, newest } => {
                    let (step, newest) = (step.0, newest.0);
                    warn!(
                        step,
                        newest,
                        "its records have gone back: no estimate until they are past the newest step"
                    );
                }
                LiveEvent::Joined(guest) => info!(%guest, "joined"),
                LiveEvent::Refused(guest, reason) => warn!(%guest, "refused: {reason}"),
                LiveEvent::Left(guest, why) => info!(%guest, "left: {}", departure(&why)),
            }
        }
        let traffic = self.listener.traffic();
        let mut shown = self.board.shown();
        for (party, waited_for, counts) in host.guests_at(self.clock.now()) {
            shown.guests.insert(party.clone(), counts);
            shown.waited_for.insert(party, waited_for);
        }
        shown.bad_lines = self.feed.counts.bad.load(Ordering::Relaxed);
        let counts = self.publisher.counts();
        let [stored, unstored, lost] = [&counts.stored, &counts.published_unstored, &counts.lost]
            .map(|count| count.load(Ordering::Relaxed));
        (shown.stored, shown.unstored, shown.lost) = (stored, unstored, lost);
        (shown.released, shown.refused) = (host.released(), self.listener.refused());
        (shown.sent_bytes, shown.received_bytes) = (traffic.sent(), traffic.received());
        if let Some(steps) = &self.steps {
            steps.set_position(shown.estimates);
        }
        self.stop.look();
    }

    fn arrival(&mut self, arrival: &Arrival) {
        if let Some((guest, connected)) = arrival.connection()
            && let Some(shown) = self.board.shown().connected.get_mut(guest.as_str())
        {
            *shown = connected;
        }
    }
}
