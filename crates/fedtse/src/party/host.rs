//! `fedtse host`: trains with guests over the network.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use estimator::Score;
use estimator::artifact::IntervalsError;
use federation::grpc::drive::{Clock, Inputs, Watch, drive};
use federation::grpc::listen::{GrpcListener, listen};
use federation::grpc::{Arrival, Limits, Traffic, accepted};
use federation::host::HostEnd;
use federation::{Event, FolderStore, Host, PartyError};
use indicatif::ProgressBar;
use protocol::message::parts::Text;
use protocol::wire::message_limit;
use protocol::{Ledger, Round, Summary};
use serde_json::{Value, json};
use server::monitoring;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::CustomSubModelSpec;
use super::HostPart;
use super::HostParty;
use super::arguments::ConfigArguments;
use super::gauges::Gauges;
use super::host_config::{self, HostConfig, Prepared};
use super::stopping::StopRequest;
use super::{
    config, departure, log_begun, logs, network_threads, print_stopped, stopping, sum_host,
};

/// Train as the host (the city) of a federation, with guests that dial in
///
/// Runs until the training has come to its end, and continues a run that was interrupted. On
/// SIGTERM or Ctrl-C it tells the other parties and
/// exits; a later start resumes from the last checkpoint.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse host --example > host.toml\n  fedtse host --config host.toml"
)]
pub(crate) struct HostArguments {
    #[command(flatten)]
    file: ConfigArguments,
}

pub(crate) fn run(arguments: &HostArguments, json: bool) -> Result<()> {
    let Some((config, folder)) = arguments.file.read::<HostConfig>(host_config::EXAMPLE)? else {
        return Ok(());
    };
    logs::start(&config.observe)?;
    if config.is_summed(None) {
        return sum_host::run(&config, &folder, json);
    }
    let ended = lead_run(&config, &folder, None)?;
    match &ended.end {
        End::Stopped(reason) => print_stopped(reason, ended.round, json),
        End::Finished(_) if json => println!("{}", ended.json()),
        End::Finished(finished) => {
            println!("finished after {} rounds, {:.1} s", finished.summary.rounds, ended.seconds);
            match &finished.score {
                Some(score) => print_score(score),
                None => println!("no ground truth to score by"),
            }
            println!("weights {}", finished.weights);
        }
    }
    Ok(())
}

/// Leads a run for a front end, with a sub-model of the host's own if there is one, and tells how it went.
pub fn lead(config: &Path, own: Option<&CustomSubModelSpec>) -> Result<Value> {
    let (config, folder) = config::read::<HostConfig>(config)?;
    logs::start_if_none(&config.observe);
    if config.is_summed(own) {
        ensure!(
            own.is_none(),
            "fusion: found a sum over guests and a custom sub-model, expected one of the two"
        );
        return Ok(sum_host::lead(&config, &folder)?.json());
    }
    Ok(lead_run(&config, &folder, own)?.json())
}

/// How a run ended.
struct RunEnd {
    end: End,
    round: Round,
    traffic: Arc<Traffic>,
    /// Connections that were refused.
    refused: u64,
    /// Without the time in which guests were still to come.
    seconds: f64,
}

enum End {
    Finished(Finished),
    Stopped(Text),
}

struct Finished {
    summary: Summary,
    score: Option<Score>,
    /// Tells the weights that were kept.
    weights: String,
}

impl RunEnd {
    fn json(&self) -> Value {
        match &self.end {
            End::Stopped(reason) => json!({"stopped": reason.as_str(), "round": self.round}),
            End::Finished(Finished { summary, score, weights }) => json!({
                "finished": summary, "score": score, "refused": self.refused,
                "bytes": {"sent": self.traffic.sent(), "received": self.traffic.received()},
                "weights": weights, "seconds": self.seconds,
            }),
        }
    }
}

fn lead_run(
    config: &HostConfig,
    folder: &Path,
    own: Option<&CustomSubModelSpec>,
) -> Result<RunEnd> {
    let clock = Clock::start();
    let Prepared { name, tls, heads, part, slots, settings, keys } = config.prepare(folder, own)?;
    let mut widest = settings.guests.values().copied().max().unwrap_or(1);
    if !settings.plan.measured.is_empty() {
        // Values and weights of four quantities a link, at most.
        widest = widest.max(8 * settings.measurement_bounds.links);
    }
    // Products of sealed measurements may be as large as any message.
    let message = match settings.plan.sealing {
        None => message_limit(widest),
        Some(_) => Limits::default().message,
    };
    let limits = Limits { message, ..Limits::default() };
    let run = folder.join(&config.run.folder);
    let store = FolderStore::open(&run)?;
    let ledger_file = run.join("ledger.jsonl");
    let ledger = Ledger::open(&ledger_file, &name)?;
    store.remove_unfinished()?;
    let mut heads = heads.open(&ledger_file, &name, None)?;
    let trained = part.trained(&name, &slots, own);
    let mut host = Host::new(settings, part.maker(slots, own), store, ledger, clock.now())?;
    if let Some(keys) = keys {
        host = host.with_key_authority(Box::new(keys));
    }

    let runtime = network_threads()?;
    let gauges = Arc::new(Gauges::default());
    let (sender, arrivals) = mpsc::channel(64);
    let (listener, stop) = runtime.block_on(async {
        let stop = stopping::asked().await?;
        let accepted = accepted::follow(folder.join(&config.network.accepted))?;
        let address = config.network.listen;
        let listener = listen(address, tls, accepted, limits, sender)
            .await
            .with_context(|| format!("network.listen: {address}"))?;
        if let Some(address) = config.observe.http {
            monitoring::serve(address, gauges.clone()).await?;
        }
        Ok::<_, anyhow::Error>((listener, stop))
    })?;
    info!("{}", config.what_it_sees(own));
    info!(host = %name, address = %listener.address(), "waiting for guests");
    let guests = config.guests.keys().map(|guest| (guest.clone(), false));
    gauges.shown().connected = guests.collect();
    let rounds = progress::observer().map(|_| progress::spinner("rounds"));
    let mut board = Board {
        gauges: &gauges,
        listener: &listener,
        begun: None,
        told: Instant::now(),
        stop: &stop,
        rounds,
    };
    let mut inputs = Inputs::new(arrivals, stop.reason.clone());
    let party = (&mut host, &mut heads);
    drive(runtime.handle(), &clock, party, &listener, &mut inputs, &mut board)?;
    let seconds = board.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
    let (traffic, refused) = (listener.traffic(), listener.refused());
    runtime.block_on(listener.close());
    runtime.shutdown_background();
    let (round, id) = (host.round(), host.run());
    let end = match host.ended() {
        Some(HostEnd::Finished(summary)) => {
            let summary = summary.clone();
            let mut model = host.into_model().context("the model")?;
            part.fit_read_out(&mut model)?;
            keep_intervals(&part, &model, &run.join("model"))?;
            trained.write(&run, id, &model.host_model().save_best(), model.custom_best()?)?;
            model.settle()?;
            let (score, weights) = (part.score(&model), model.digest());
            End::Finished(Finished { summary, score, weights })
        }
        Some(HostEnd::Stopped(PartyError::Stopped { reason })) => End::Stopped(reason.clone()),
        Some(HostEnd::Stopped(error)) => bail!("{error}"),
        None => bail!("the host has stopped before its end"),
    };
    Ok(RunEnd { end, round, traffic, refused, seconds })
}

/// Leaves intervals for live estimates beside the model, or none of an earlier one.
fn keep_intervals(part: &HostPart, model: &HostParty, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    match part.intervals(model) {
        Some(Ok(intervals)) => return Ok(intervals.save(folder)?),
        Some(Err(IntervalsError::TooFew { found })) => {
            warn!(found, "too few known errors: the model has no intervals");
        }
        Some(Err(error)) => return Err(error.into()),
        None => {}
    }
    match std::fs::remove_file(folder.join("intervals.json")) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

pub(crate) fn print_score(score: &Score) {
    println!("errors on the test part (last 20 % of the time), target links");
    for (what, errors) in
        [("density veh/km/lane", &score.density), ("flow veh/min/lane", &score.flow)]
    {
        println!("{what:<20} RMSE {:>7.2}  MAE {:>7.2}", errors.rmse, errors.mae);
    }
}

/// How often it says for whom it waits.
const BETWEEN_REMINDERS: Duration = Duration::from_secs(10);

/// Shows what happens.
struct Board<'a> {
    gauges: &'a Gauges,
    listener: &'a GrpcListener,
    begun: Option<Instant>,
    /// When it last said for whom it waits.
    told: Instant,
    stop: &'a StopRequest,
    /// For a front end that watches.
    rounds: Option<ProgressBar>,
}

impl Board<'_> {
    fn event(&mut self, host: &Host<HostParty, FolderStore>, event: &Event) {
        match event {
            Event::Joined(guest) => info!(%guest, "joined"),
            Event::Refused(guest, reason) => warn!(%guest, "refused: {reason}"),
            Event::Missed(guest) => warn!(%guest, "missed"),
            Event::Left(guest, why) => info!(%guest, "left: {}", departure(why)),
            Event::Begun { attempt, round, furthest } => {
                log_begun(*attempt, *round, *furthest);
                self.begun.get_or_insert_with(Instant::now);
            }
            Event::Restarted(lost) => {
                warn!(lost = lost.0, "no checkpoint is there at all parties");
            }
            Event::Committed(guest, samples, all) => info!(%guest, samples, all, "committed"),
            Event::Checkpointed(round) => info!(round = round.0, "checkpoint"),
            Event::Round(round) => {
                self.gauges.shown().round = round.0;
                if let Some(rounds) = &self.rounds {
                    rounds.set_position(round.0);
                }
            }
            Event::Epoch(epoch) => {
                let (train, validation) = (epoch.train, epoch.validation);
                info!(epoch = epoch.number, train, validation, "epoch done");
                if epoch.partial {
                    let epoch = epoch.number;
                    warn!(epoch, "judged without what an absent guest measures: does not count");
                }
                let mut shown = self.gauges.shown();
                shown.epoch = epoch.number.into();
                (shown.train_loss, shown.validation_loss) = (Some(train), Some(validation));
            }
        }
        self.gauges.traffic(&self.listener.traffic());
        let mut shown = self.gauges.shown();
        (shown.released, shown.refused) = (host.ledger().len(), self.listener.refused());
    }
}

impl Watch<Host<HostParty, FolderStore>> for Board<'_> {
    fn arrival(&mut self, arrival: &Arrival) {
        if let Some((guest, connected)) = arrival.connection()
            && let Some(shown) = self.gauges.shown().connected.get_mut(guest.as_str())
        {
            *shown = connected;
        }
    }

    fn look(&mut self, host: &mut Host<HostParty, FolderStore>) {
        for event in host.take_events() {
            self.event(host, &event);
        }
        if self.begun.is_none() && self.told.elapsed() >= BETWEEN_REMINDERS {
            self.told = Instant::now();
            let shown = self.gauges.shown();
            let is_here = |name: &str| host.present().any(|party| party.as_str() == name);
            let missing: Vec<&str> =
                shown.connected.keys().map(String::as_str).filter(|name| !is_here(name)).collect();
            info!("still waiting for {}", missing.join(", "));
        }
        self.stop.look();
    }
}
