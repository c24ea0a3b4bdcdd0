//! `fedtse replay`: a recorded dataset as if it happened now.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use estimator::LoopData;
use sensing::stream::{FleetColumns, LoopColumns, name_field};
use sensing::{Dataset, Features, Fleet};
use serde_json::json;
use traffic::{PositionSource, StepClock};

use crate::party::live::pace::Pace;

/// How long a receiver over TCP may take to be there.
const CONNECTING: Duration = Duration::from_secs(30);

/// Write the records of a recorded dataset at the moments they were made, as a fleet or a city would
///
/// One line per vehicle and moment, `time,vehicle,link,position`, or per loop and step,
/// `loop,begin,end,count`, with a line that holds only the time after each moment. Live parties read
/// them: see `fedtse live guest --example`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse replay --data data/corridor --fleet fleet-20 --speed-up 10 | fedtse live guest --config live.toml\n  fedtse replay --data data/corridor --loops --out tcp:127.0.0.1:9000"
)]
pub(crate) struct ReplayArguments {
    /// The dataset, with features
    #[arg(long)]
    data: PathBuf,
    /// The fleet whose vehicles are seen, as `fedtse features` has named it
    #[arg(long, required_unless_present = "loops", conflicts_with = "loops")]
    fleet: Option<String>,
    /// Instead of a fleet: the counts of the city's loops
    #[arg(long)]
    loops: bool,
    /// How many times as fast as recorded; 0 for as fast as it can be read
    #[arg(long, default_value_t = 1.0)]
    speed_up: f64,
    /// Where to begin, in seconds
    #[arg(long, default_value_t = 0.0)]
    from: f64,
    /// Where to end, in seconds
    #[arg(long, default_value_t = f64::INFINITY, hide_default_value = true)]
    to: f64,
    /// The moment at which the beginning is due, in seconds since 1970, so that several replays go
    /// together; default: now
    #[arg(long, value_name = "UNIX_SECONDS")]
    at: Option<f64>,
    /// Where to write: - for the standard output, or tcp:HOST:PORT
    #[arg(long, default_value = "-")]
    out: String,
}

pub(crate) fn run(arguments: &ReplayArguments, json: bool) -> Result<()> {
    let ReplayArguments { speed_up, from, to, .. } = *arguments;
    ensure!(
        speed_up >= 0.0 && speed_up.is_finite(),
        "--speed-up: found {speed_up}, expected 0 or more"
    );
    ensure!(from < to, "--from, --to: found {from} and {to}, expected the first to be smaller");
    let mut out = Output::open(&arguments.out)?;
    let mut clock = Moments::new(arguments)?;
    let played = match &arguments.fleet {
        Some(fleet) => play_fleet(&arguments.data, fleet, &mut clock, &mut out),
        None => play_loops(&arguments.data, &mut clock, &mut out),
    };
    let lines = match played {
        Ok(lines) => lines,
        // Whoever reads has heard enough.
        Err(error) if hung_up(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    if json && arguments.out != "-" {
        println!("{}", json!({ "lines": lines }));
    }
    Ok(())
}

fn hung_up(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(ErrorKind::BrokenPipe | ErrorKind::ConnectionReset))
}

/// Which moments are played, and when.
struct Moments {
    from: f64,
    to: f64,
    pace: Option<Pace>,
}

impl Moments {
    fn new(arguments: &ReplayArguments) -> Result<Self> {
        let mut pace = (arguments.speed_up > 0.0).then(|| Pace::new(arguments.speed_up));
        if let Some((pace, at)) = pace.as_mut().zip(arguments.at) {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
            let wait = at - now.as_secs_f64();
            ensure!(wait.abs() < 1e6, "--at: found {at}, expected a time about now");
            let start = if wait >= 0.0 {
                Instant::now() + Duration::from_secs_f64(wait)
            } else {
                Instant::now().checked_sub(Duration::from_secs_f64(-wait)).context("--at")?
            };
            pace.begin(start, arguments.from);
        }
        Ok(Moments { from: arguments.from, to: arguments.to, pace })
    }

    fn contains(&self, time: f64) -> bool {
        (self.from..=self.to).contains(&time)
    }

    fn wait(&mut self, time: f64) {
        if let Some(pace) = &mut self.pace {
            pace.wait(time);
        }
    }
}

enum Output {
    Standard(BufWriter<io::Stdout>),
    Tcp(BufWriter<TcpStream>),
}

impl Output {
    fn open(name: &str) -> Result<Self> {
        if name == "-" {
            return Ok(Output::Standard(BufWriter::new(io::stdout())));
        }
        let Some(address) = name.strip_prefix("tcp:") else {
            bail!("--out: found {name:?}, expected - or tcp:HOST:PORT");
        };
        let (began, mut told) = (Instant::now(), false);
        loop {
            match TcpStream::connect(address) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Output::Tcp(BufWriter::new(stream)));
                }
                Err(error) if began.elapsed() < CONNECTING => {
                    if !told {
                        let seconds = CONNECTING.as_secs();
                        eprintln!("--out: {name}: {error}; trying for {seconds} s");
                        told = true;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(error) => return Err(error).with_context(|| format!("--out: {name}")),
            }
        }
    }

    fn write(&mut self) -> &mut dyn Write {
        match self {
            Output::Standard(out) => out,
            Output::Tcp(out) => out,
        }
    }
}

fn play_fleet(data: &Path, fleet: &str, clock: &mut Moments, out: &mut Output) -> Result<u64> {
    let dataset = Dataset::open(data)?;
    let network = dataset.network();
    let features = Features::open(data, network)?;
    let fleet = features.fleet_named(fleet)?;
    let seed = features.manifest().fleet_seed;
    let mine: Vec<bool> = dataset
        .vehicles()
        .all()
        .iter()
        .map(|vehicle| in_fleet(&fleet, seed, &vehicle.name))
        .collect();
    writeln!(out.write(), "{}", FleetColumns::HEADER)?;
    let (mut samples, mut moment, mut lines) = (dataset.samples()?, Vec::new(), 1);
    while let Some(time) = samples.next_moment(&mut moment)? {
        let time = time.get();
        if time > clock.to {
            break;
        }
        if !clock.contains(time) {
            continue;
        }
        clock.wait(time);
        for sample in moment.iter().filter(|sample| mine[sample.vehicle.index()]) {
            let vehicle =
                dataset.vehicles().get(sample.vehicle).map_or("", |vehicle| &*vehicle.name);
            let (vehicle, link) =
                (name_field(vehicle), name_field(&network.link(sample.link).name));
            writeln!(out.write(), "{time},{vehicle},{link},{}", sample.position)?;
            lines += 1;
        }
        writeln!(out.write(), "{time},,,")?;
        lines += 1;
        out.write().flush()?;
    }
    Ok(lines)
}

fn in_fleet(fleet: &Fleet, seed: u64, vehicle: &str) -> bool {
    (fleet.from..fleet.to).contains(&sensing::draw(seed, vehicle))
}

/// Counts of whole steps, as the features hold them, and the time once a second.
fn play_loops(data: &Path, clock: &mut Moments, out: &mut Output) -> Result<u64> {
    let loops = LoopData::open(data)?;
    let timeline = loops.timeline();
    let steps = StepClock { length: timeline.step() };
    writeln!(out.write(), "{}", LoopColumns::HEADER)?;
    let (names, mut lines) = (loops.names(), 1);
    // The time is told once a second.
    let mut told = f64::NEG_INFINITY;
    for step in timeline.steps() {
        let begin = steps.start_of(step).get();
        let end = begin + timeline.step().get();
        if !(clock.contains(begin) && clock.contains(end)) {
            continue;
        }
        let mut time = begin.max(told + 1.0);
        while time < end {
            clock.wait(time);
            writeln!(out.write(), ",,{time},")?;
            out.write().flush()?;
            (told, lines) = (time, lines + 1);
            time += 1.0;
        }
        clock.wait(end);
        for (name, count) in names.iter().zip(loops.counts(step)) {
            // A loop that did not report does not report.
            if let Some(count) = count {
                writeln!(out.write(), "{},{begin},{end},{count}", name_field(name))?;
                lines += 1;
            }
        }
        out.write().flush()?;
    }
    Ok(lines)
}
