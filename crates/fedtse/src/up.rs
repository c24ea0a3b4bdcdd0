//! `fedtse up`: a whole federation on one machine, live, with its map.
//!
//! 1. data: a dataset of yours, or two days in the built-in world, one to learn from and one to live through
//! 2. a folder for each party with its own data only, its certificate and its configurations
//! 3. training, each party a process, over mutual TLS
//! 4. the same parties live, each fed its own records by `fedtse replay`; the host's map at a printed address
//!
//! Everything is an ordinary command with an ordinary configuration, which stays in the folder to look at.

mod folders;
mod processes;
mod recordings;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use clap::Args;
use estimator::TrainingSignal;
use serde_json::json;
use training::signal::signal_named;

use self::folders::{Folders, HOST, Live};
use self::processes::Processes;
use self::recordings::Recordings;
use crate::party::stopping;
use crate::serve::PageArguments;

/// How long parties may take to be there.
const STARTING: Duration = Duration::from_secs(60);
/// Between the start of the replays and their first record.
const LEAD_S: f64 = 4.0;
const LOOK: Duration = Duration::from_millis(300);

/// Run a whole federation on this machine, live, with its map
///
/// Trains a host and its guests as processes with certificates of their own, unless the folder holds them trained
/// already; then replays a recording to them as if it happened now. Ctrl-C ends it all.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse up\n  fedtse up --method hf\n  fedtse up --folder city --speed-up 1\n  fedtse up --data data/corridor --history postgres://fedtse@localhost/city"
)]
pub(crate) struct UpArguments {
    /// A dataset, as imported: its last fifth is replayed. Without features of guests (`fedtse features DIR --guests 30,20`)
    /// those of two guests with 30 and 20 % of its vehicles are made. Without a dataset, two days of the corridor are simulated
    #[arg(long)]
    data: Option<PathBuf>,
    /// Keep everything in this folder, and use what is trained there; default: a temporary one
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Where the map is; port 0 for any that is free
    #[arg(long, default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// How many times as fast as recorded
    #[arg(long, default_value_t = 10.0)]
    speed_up: f64,
    /// What the host learns from, as `training.method` of its file: labels, or without ground truth pi, pi-v, pi-k, hf, pi-hf
    #[arg(long, default_value = "labels", value_parser = Method::parse)]
    method: Method,
    /// Epochs of training
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,
    /// Minutes of each simulated day, 10 of them warm-up
    #[arg(long, default_value_t = 300.0)]
    minutes: f64,
    /// Seed of demand, drivers, fleets and training
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where estimates are kept: a folder, or postgres://USER@HOST/DATABASE
    #[arg(long, default_value = "history")]
    history: String,
    /// Requests a second that each reader's address may make
    #[arg(long, default_value_t = server::settings::REQUESTS_PER_S)]
    requests_per_s: f64,
    /// Connections at a time from each reader's address
    #[arg(long, default_value_t = 64)]
    connections: usize,
    #[command(flatten)]
    page: PageArguments,
}

/// A training signal with its name in a host's file.
#[derive(Clone)]
struct Method {
    name: String,
    signal: TrainingSignal,
}

impl Method {
    fn parse(name: &str) -> Result<Self, String> {
        Ok(Method { name: name.to_owned(), signal: signal_named(name)? })
    }
}

pub(crate) fn run(arguments: &UpArguments, json: bool) -> Result<()> {
    let speed_up = arguments.speed_up;
    ensure!(
        speed_up > 0.0 && speed_up.is_finite(),
        "--speed-up: found {speed_up}, expected a number above 0"
    );
    // Before minutes of training, not after them.
    arguments.page.check()?;
    TcpListener::bind(arguments.http).with_context(|| format!("--http: {}", arguments.http))?;
    let temporary = tempfile::tempdir().context("temporary folder")?;
    let folder = arguments.folder.clone().unwrap_or_else(|| temporary.path().join("federation"));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
    let recordings = Recordings::get(arguments, &folder, json)?;
    arguments.page.alarms().check(&recordings.network).context("--alarm, --webhook")?;
    // A guest that is all vehicles of its own dataset knows its share of the traffic from loops alone.
    let needs_loops = !arguments.method.signal.has_labels();
    ensure!(
        !needs_loops || !recordings.network.loops().is_empty(),
        "--method {}: {}: found no loops in the network, expected some: without ground truth they tell how much of the traffic each guest sees",
        arguments.method.name,
        recordings.train.display()
    );
    let folders = Folders::make(&folder, &recordings, &arguments.method)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("threads")?;
    let stop = runtime.block_on(stopping::on_signal())?;
    let stopped = || {
        // Lets the runtime look for signals.
        runtime.block_on(async { tokio::time::sleep(LOOK).await });
        stop.borrow().is_some()
    };
    if folders.trained() {
        print_status(json, &format!("trained already, in {}", folder.display()));
    } else if !train(arguments, &folders, json, &stopped)? {
        return Ok(());
    }
    live(arguments, &folders, &recordings, json, &stopped)
}

fn print_status(json: bool, text: &str) {
    if !json {
        println!("{text}");
    }
}

/// Trains all parties; false if someone has stopped it.
fn train(
    arguments: &UpArguments,
    folders: &Folders,
    json: bool,
    stopped: &dyn Fn() -> bool,
) -> Result<bool> {
    let guests = folders.guests().len();
    print_status(
        json,
        &format!("training a host and {guests} guests, each a process, over mutual TLS"),
    );
    let mode = folders.mode(&arguments.method);
    print_status(json, &format!("privacy: {}: the host sees {}", mode.name(), mode.shown()));
    folders.configure_training(free_port()?, arguments)?;
    let bar = progress::bar("training", arguments.epochs.into());
    let began = Instant::now();
    let mut parties = Processes::default();
    for name in folders.parties() {
        let role = if name == HOST { "host" } else { "guest" };
        parties.start(name, &[role, "--config", "train.toml"], &folders.of(name))?;
    }
    while !parties.all_ended()? {
        let log = std::fs::read_to_string(folders.of(HOST).join("log.txt")).unwrap_or_default();
        bar.set_position(log.matches("epoch done").count() as u64);
        if stopped() {
            return Ok(false);
        }
    }
    bar.finish_and_clear();
    print_status(json, &format!("trained in {:.0} s", began.elapsed().as_secs_f64()));
    Ok(true)
}

/// Runs all parties live until someone stops it.
fn live(
    arguments: &UpArguments,
    folders: &Folders,
    recordings: &Recordings,
    json: bool,
    stopped: &dyn Fn() -> bool,
) -> Result<()> {
    let mut http = arguments.http;
    if http.port() == 0 {
        http.set_port(free_port()?);
    }
    let live = Live {
        port: free_port()?,
        http,
        // Half of a step on the wall, but a second at least: a busy machine is not an absent guest.
        deadline_s: (recordings.step_s / arguments.speed_up / 2.0).clamp(1.0, 2.0),
        history: arguments.history.clone(),
        requests_per_s: arguments.requests_per_s,
        connections: arguments.connections,
        page: &arguments.page,
    };
    let ports: Vec<u16> = folders.parties().map(|_| free_port()).collect::<Result<_>>()?;
    let mut parties = Processes::default();
    for (name, port) in folders.parties().zip(&ports) {
        folders.configure_live(name, *port, &live)?;
        let role = if name == HOST { "host" } else { "guest" };
        parties.start(name, &["live", role, "--config", "live.toml"], &folders.of(name))?;
    }
    wait_until_open(http, &mut parties, stopped)?;
    let mut replays = Processes::default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
    let [at, from, speed_up] =
        [now + LEAD_S, recordings.replay_from, arguments.speed_up].map(|number| number.to_string());
    for (name, port) in folders.parties().zip(&ports) {
        let (data, out) = (text(&recordings.live)?, format!("tcp:127.0.0.1:{port}"));
        let mut replay = vec!["replay", "--data", data, "--out", &out];
        replay.extend(["--from", &from, "--at", &at, "--speed-up", &speed_up]);
        match recordings.fleet_of(name) {
            Some(fleet) => replay.extend(["--fleet", fleet]),
            None => replay.push("--loops"),
        }
        replays.start(&format!("replay of {name}"), &replay, &folders.of(name))?;
    }
    let url = if http.ip().is_unspecified() {
        format!("http://localhost:{}/", http.port())
    } else {
        format!("http://{http}/")
    };
    if json {
        let report = json!({"url": url, "folder": folders.root(), "processes": parties.ids()});
        println!("{report}");
    } else {
        println!("\nmap at {url}  (Ctrl-C ends it; logs in {})", folders.root().display());
    }
    let mut playing = true;
    loop {
        if stopped() {
            return Ok(());
        }
        parties.check()?;
        if playing && replays.all_ended()? {
            playing = false;
            print_status(json, "the recording has ended; the map stays until Ctrl-C");
        }
    }
}

fn wait_until_open(
    http: SocketAddr,
    parties: &mut Processes,
    stopped: &dyn Fn() -> bool,
) -> Result<()> {
    let began = Instant::now();
    while TcpStream::connect(http).is_err() {
        parties.check()?;
        ensure!(began.elapsed() < STARTING, "http://{http}/: no answer in {STARTING:?}");
        if stopped() {
            break;
        }
    }
    Ok(())
}

/// A port that nobody has at the moment.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("a free port")?;
    Ok(listener.local_addr().context("a free port")?.port())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{}: expected a name in UTF-8", path.display()))
}
