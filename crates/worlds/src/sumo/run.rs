//! Running `netconvert` and `sumo` as programs of their own.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use sensing::sumo::{EdgeMap, FcdReader, LoopMap, LoopReader};
use sensing::{VehicleTable, Verdict};
use traffic::{Network, Seconds};

use super::plain::plain_xml;
use super::statistics::{SumoStatistics, read_statistics};
use super::tools::SumoTools;
use super::trips::{write_loops, write_trips};
use super::{SumoError, SumoOptions};
use crate::departure::Departure;

/// A finished run: its files, and how it went.
#[derive(Clone, Debug)]
pub struct SumoRun {
    /// The network as SUMO drove it.
    pub net: PathBuf,
    /// Where every vehicle was at every step.
    pub fcd: PathBuf,
    /// What the loops counted; empty if the network has none.
    pub loops: PathBuf,
    /// Vehicles, teleports, collisions.
    pub statistics: SumoStatistics,
    step: Seconds,
    /// The vehicles by departure, so that reading gives each its departure's number.
    vehicles: VehicleTable,
}

impl SumoRun {
    /// The vehicles' positions on the links of the network.
    pub fn samples(&self, network: &Network) -> Result<FcdReader, SumoError> {
        let edges = EdgeMap::read(network, &self.net)?;
        // What SUMO labels t is where vehicles are after the step from t on; its loops and signals
        // have the step's own times.
        Ok(FcdReader::open(&self.fcd, edges)?
            .with_vehicles(self.vehicles.clone())
            .shifted(self.step))
    }

    /// What the loops of the network counted.
    pub fn loop_counts(&self, network: &Network) -> Result<LoopReader, SumoError> {
        Ok(LoopReader::open(&self.loops, LoopMap::of(network))?)
    }

    /// The vehicles, indexed by departure.
    pub fn vehicles(&self) -> &VehicleTable {
        &self.vehicles
    }
}

/// Drives the departures through the network with SUMO.
///
/// Writes all files into `folder`, which is made if it is not there. `progress` is called now and
/// then with the simulated time; SUMO is ended once it says not to go on.
pub fn simulate_sumo<V: Verdict>(
    tools: &SumoTools,
    network: &Network,
    departures: impl Iterator<Item = Departure>,
    folder: &Path,
    options: &SumoOptions,
    progress: impl FnMut(Seconds) -> V,
) -> Result<SumoRun, SumoError> {
    // The programs run inside the folder, so that its files have short names without surprises.
    fs::create_dir_all(folder).map_err(|error| file_error(folder, error))?;
    let folder = &folder.canonicalize().map_err(|error| file_error(folder, error))?;
    let net = convert(tools, network, folder)?;
    let mut vehicles = VehicleTable::default();
    let departures = departures.inspect(|departure| {
        vehicles.number(&departure.vehicle.0.to_string(), departure.class);
    });
    write_file(folder, "trips.rou.xml", |out| write_trips(network, departures, out))?;
    write_file(folder, "loops.add.xml", |out| {
        write_loops(network, options.loop_interval, "loops.xml", out)
    })?;
    // An old result must never be taken for that of this run.
    let fcd_name = options.fcd.file_name();
    for name in [fcd_name, "loops.xml", "statistics.xml"] {
        let path = folder.join(name);
        if path.exists() {
            fs::remove_file(&path).map_err(|error| file_error(&path, error))?;
        }
    }

    let mut command = Command::new(tools.sumo());
    command
        .current_dir(folder)
        .args(["--net-file", "net.xml", "--route-files", "trips.rou.xml"])
        .args(["--additional-files", "loops.add.xml", "--statistic-output", "statistics.xml"])
        .args(["--fcd-output", fcd_name, "--fcd-output.attributes", "id,lane,pos,speed"])
        .args(["--begin", "0", "--end", &options.until.get().to_string()])
        .args(["--step-length", &options.step.get().to_string()])
        .args(["--seed", &options.seed.to_string()])
        .args(["--time-to-teleport", &options.time_to_teleport.get().to_string()])
        .args(["--step-log.period", "200", "--no-warnings", "true", "--xml-validation", "never"]);
    run(command, progress)?;
    let statistics = read_statistics(&folder.join("statistics.xml"))?;
    let loops = folder.join("loops.xml");
    Ok(SumoRun { net, fcd: folder.join(fcd_name), loops, statistics, vehicles, step: options.step })
}

fn convert(tools: &SumoTools, network: &Network, folder: &Path) -> Result<PathBuf, SumoError> {
    let plain = plain_xml(network)?;
    for (name, text) in [
        ("plain.nod.xml", &plain.nodes),
        ("plain.edg.xml", &plain.edges),
        ("plain.con.xml", &plain.connections),
        ("plain.tll.xml", &plain.signals),
    ] {
        write_file(folder, name, |out| out.write_all(text.as_bytes()))?;
    }
    let mut command = Command::new(tools.netconvert());
    command
        .current_dir(folder)
        .args(["--node-files", "plain.nod.xml", "--edge-files", "plain.edg.xml"])
        .args(["--connection-files", "plain.con.xml", "--tllogic-files", "plain.tll.xml"])
        .args(["--output-file", "net.xml", "--no-turnarounds", "true", "--no-warnings", "true"])
        .args([
            "--junctions.join",
            "false",
            "--tls.join",
            "false",
            "--offset.disable-normalization",
        ])
        .args(["--xml-validation", "never"]);
    run(command, |_| {})?;
    Ok(folder.join("net.xml"))
}

fn write_file(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), SumoError> {
    let path = folder.join(name);
    let written = File::create(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    written.map_err(|error| file_error(&path, error))
}

pub(super) fn file_error(path: &Path, error: io::Error) -> SumoError {
    SumoError::File { path: path.to_owned(), error }
}

/// Runs a program to its end, telling the progress that it prints.
fn run<V: Verdict>(
    mut command: Command,
    mut progress: impl FnMut(Seconds) -> V,
) -> Result<(), SumoError> {
    let program = PathBuf::from(command.get_program());
    let started =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child =
        started.map_err(|error| SumoError::Start { program: program.clone(), error })?;
    // Both pipes must be emptied at once, or a full one stops the program.
    let errors = child.stderr.take().map(|pipe| thread::spawn(move || tail(pipe)));
    let mut last_words = String::new();
    if let Some(pipe) = child.stdout.take() {
        match follow_steps(pipe, &mut progress) {
            Some(words) => last_words = words,
            None => {
                // It may have ended by itself just now, which is as good.
                let _ = child.kill();
                wait(&mut child, &program)?;
                return Err(SumoError::Stopped { program });
            }
        }
    }
    let status = wait(&mut child, &program)?;
    let mut message = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if message.trim().is_empty() {
        message = last_words;
    }
    if status { Ok(()) } else { Err(SumoError::Failed { program, message: message.trim().into() }) }
}

fn wait(child: &mut Child, program: &Path) -> Result<bool, SumoError> {
    let status = child.wait();
    let status = status.map_err(|error| SumoError::Start { program: program.into(), error })?;
    Ok(status.success())
}

/// How much of a program's messages is kept: the end, where it says why it stopped.
const KEPT: usize = 4096;

fn tail(mut pipe: impl Read) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..count]);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Reads lines such as `Step #200.00 (1ms …)`, each ended by a carriage return, to the end;
/// none if it is not to go on.
fn follow_steps<V: Verdict>(
    mut pipe: impl Read,
    progress: &mut impl FnMut(Seconds) -> V,
) -> Option<String> {
    let mut line = Vec::new();
    let mut last = String::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut chunk) {
        for &byte in &chunk[..count] {
            if !matches!(byte, b'\r' | b'\n') && line.len() < KEPT {
                line.push(byte);
                continue;
            }
            if let Some(time) = step_time(&line) {
                if !progress(time).should_continue() {
                    return None;
                }
            } else if !line.is_empty() {
                last = String::from_utf8_lossy(&line).into_owned();
            }
            line.clear();
        }
    }
    Some(last)
}

fn step_time(line: &[u8]) -> Option<Seconds> {
    let text = std::str::from_utf8(line).ok()?.trim_start().strip_prefix("Step #")?;
    let number = text.split([' ', '(']).next()?;
    number.parse().ok().map(Seconds::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_as_they_come() {
        let text = "Loading done.\nStep #0.00 (0ms ?*RT)\rStep #200.00(1ms ~= 9*RT)\r\nbye\n";
        let mut told = Vec::new();
        let last = follow_steps(text.as_bytes(), &mut |time| told.push(time.get()));
        assert_eq!(told, [0.0, 200.0]);
        assert_eq!(last.as_deref(), Some("bye"));
        assert_eq!(follow_steps(text.as_bytes(), &mut |time| time.get() < 200.0), None);
    }

    #[test]
    fn the_end_of_long_messages_is_kept() {
        let text = format!("{}the reason", "x".repeat(100_000));
        let kept = tail(text.as_bytes());
        assert!(kept.len() == KEPT && kept.ends_with("the reason"));
    }
}
