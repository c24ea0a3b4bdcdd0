//! SUMO scenarios that others made: their own net, demand, signals and detectors.
//!
//! SUMO writes the vehicles' positions to its standard output, from which they are read as it drives:
//! no file lies between. What else a scenario writes goes to a temporary folder, not to the scenario's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use sensing::VehicleTable;
use sensing::sumo::{EdgeMap, FcdReader, SkippedRows, SumoConfig};
use traffic::{PositionSource, Seconds, VehiclePosition};

use super::SumoError;
use super::run::file_error;
use super::statistics::{SumoStatistics, read_statistics};
use super::tools::SumoTools;

/// A scenario that SUMO is driving. It is a source of positions; [`Self::finish`] tells how it went.
pub struct ScenarioRun {
    program: PathBuf,
    child: Child,
    positions: FcdReader,
    messages: JoinHandle<Messages>,
    statistics: PathBuf,
}

/// How a scenario went.
#[derive(Debug)]
pub struct ScenarioOutcome {
    /// All vehicles seen.
    pub vehicles: VehicleTable,
    /// Positions on no link of the network.
    pub skipped: SkippedRows,
    /// Vehicles, teleports, collisions.
    pub statistics: SumoStatistics,
    /// SUMO's warnings in one line, if there were some.
    pub warnings: Option<String>,
}

impl ScenarioRun {
    /// Starts SUMO on a scenario, until an end of its own if none is given. `folder` is for files of its own.
    pub fn start(
        tools: &SumoTools,
        config: &SumoConfig,
        edges: EdgeMap,
        seed: u32,
        end: Option<Seconds>,
        folder: &Path,
    ) -> Result<Self, SumoError> {
        let statistics = folder.join("statistics.xml");
        let program = tools.sumo().to_owned();
        let shown = without_display(config, folder)?;
        let mut command = Command::new(&program);
        command
            .arg("--configuration-file")
            .arg(shown.as_deref().unwrap_or(&config.path))
            .args(["--fcd-output", "stdout", "--fcd-output.attributes", "id,lane,pos,speed,type"])
            .args(["--fcd-output.geo", "false", "--human-readable-time", "false"])
            .args(["--statistic-output", "statistics.xml"])
            .arg("--output-prefix")
            .arg(prefix_into(folder))
            .args(["--seed", &seed.to_string(), "--random", "false"])
            // Nothing but positions may come from the standard output.
            .args(["--no-step-log", "true", "--verbose", "false"])
            .args(["--duration-log.disable", "true", "--duration-log.statistics", "false"])
            .args(["--no-warnings", "false", "--xml-validation", "never"]);
        if let Some(end) = end {
            command.args(["--end", &end.get().to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| SumoError::Start { program: program.clone(), error })?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            unreachable!("both were asked for")
        };
        let messages = thread::spawn(move || Messages::read(BufReader::new(errors)));
        let positions = FcdReader::from_reader(&config.path, Box::new(output), edges);
        let positions = match positions {
            Ok(positions) => positions.shifted(config.step),
            // SUMO says better than its missing output why there is none.
            Err(error) => {
                let failed = ended(&mut child, &program, messages);
                return Err(failed.err().unwrap_or_else(|| error.into()));
            }
        };
        Ok(Self { program, child, positions, messages, statistics })
    }

    /// Waits for SUMO's end.
    pub fn finish(mut self) -> Result<ScenarioOutcome, SumoError> {
        let messages = ended(&mut self.child, &self.program, self.messages)?;
        if !self.statistics.exists() {
            let missing = std::io::ErrorKind::NotFound.into();
            return Err(file_error(&self.statistics, missing));
        }
        Ok(ScenarioOutcome {
            skipped: self.positions.skipped(),
            vehicles: self.positions.into_vehicles(),
            statistics: read_statistics(&self.statistics)?,
            warnings: messages.summary(),
        })
    }

    /// Ends SUMO and says what it said, in place of an error that its broken output led to.
    pub fn stop(mut self) -> Option<SumoError> {
        // It may have ended by itself already.
        let _ = self.child.kill();
        let messages = self.messages.join().unwrap_or_default();
        let _ = self.child.wait();
        let message = messages.error?;
        Some(SumoError::Failed { program: self.program, message })
    }
}

impl PositionSource for ScenarioRun {
    type Error = sensing::sumo::SumoFileError;

    fn next_moment(
        &mut self,
        out: &mut Vec<VehiclePosition>,
    ) -> Result<Option<Seconds>, Self::Error> {
        self.positions.next_moment(out)
    }
}

/// SUMO's prefix of all files that it writes, by which they come to lie in a folder: up to the root
/// from wherever they were to lie, and down again.
fn prefix_into(folder: &Path) -> OsString {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let up = (0..DEEPEST).map(|_| Component::ParentDir);
    let down = folder.components().filter(|part| matches!(part, Component::Normal(_)));
    // An empty part at the end for the separator.
    up.chain(down).collect::<PathBuf>().join("").into_os_string()
}

/// Folders within each other; the root's parent is the root.
const DEEPEST: usize = 64;

/// Options of `sumo-gui` that `sumo` does not know in every build; it ignores its other ones.
const DISPLAY: [&str; 1] = ["osg-view"];

/// A copy of the configuration without such options, if it has some.
fn without_display(config: &SumoConfig, folder: &Path) -> Result<Option<PathBuf>, SumoError> {
    if !config.options.iter().any(|(name, _)| DISPLAY.contains(&name.as_str())) {
        return Ok(None);
    }
    let path = folder.join("scenario.sumocfg");
    let copy = config.without(&DISPLAY);
    fs::write(&path, copy).map_err(|error| file_error(&path, error))?;
    Ok(Some(path))
}

fn ended(
    child: &mut Child,
    program: &Path,
    messages: JoinHandle<Messages>,
) -> Result<Messages, SumoError> {
    let messages = messages.join().unwrap_or_default();
    let status = child.wait();
    let status = status.map_err(|error| SumoError::Start { program: program.into(), error })?;
    if status.success() {
        return Ok(messages);
    }
    let message = messages.error.unwrap_or_else(|| status.to_string());
    Err(SumoError::Failed { program: program.into(), message })
}

/// Different warnings that are counted; SUMO has some hundred.
const MOST_KINDS: usize = 1000;

/// What SUMO wrote to its standard error.
#[derive(Debug, Default)]
struct Messages {
    /// Warnings by their text without names and numbers.
    warnings: BTreeMap<String, u64>,
    /// The first error with what follows it.
    error: Option<String>,
}

impl Messages {
    fn read(lines: impl BufRead) -> Self {
        let mut messages = Self::default();
        for line in lines.split(b'\n').map_while(Result::ok) {
            messages.take(&String::from_utf8_lossy(&line));
        }
        messages
    }

    fn take(&mut self, line: &str) {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("Warning: ") {
            let kind = kind_of(text);
            if self.warnings.len() < MOST_KINDS || self.warnings.contains_key(&kind) {
                *self.warnings.entry(kind).or_default() += 1;
            }
        } else if let Some(text) = line.strip_prefix("Error: ") {
            match &mut self.error {
                Some(before) if before.len() < 2000 => {
                    before.push_str("; ");
                    before.push_str(text);
                }
                Some(_) => {}
                None => self.error = Some(text.to_owned()),
            }
        }
    }

    fn summary(&self) -> Option<String> {
        let (kind, most) = self.warnings.iter().max_by_key(|(_, count)| **count)?;
        let all: u64 = self.warnings.values().sum();
        let kinds = self.warnings.len();
        Some(format!("{all} warnings of {kinds} kinds, most often ({most}): {kind}"))
    }
}

/// A warning without what differs from one to the next: quoted names and numbers.
fn kind_of(text: &str) -> String {
    let mut kind = String::new();
    let mut quoted = false;
    for character in text.chars() {
        match character {
            '\'' => {
                if quoted {
                    kind.push('…');
                }
                kind.push('\'');
                quoted = !quoted;
            }
            _ if quoted => {}
            '0'..='9' | '.' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            other => kind.push(other),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_counted_by_kind() {
        let text =
            b"Warning: Teleporting vehicle 'a.1'; waited too long, lane='E1_0', time=312.00.\n\
            Warning: Teleporting vehicle 'b'; waited too long, lane='E2_0', time=9.00.\n\
            Warning: No connection between edge 'x' and edge 'y' found.\nQuitting (on error).\n";
        let messages = Messages::read(&text[..]);
        let expected = "3 warnings of 2 kinds, most often (2): \
            Teleporting vehicle '…'; waited too long, lane='…', time=#";
        assert_eq!(messages.summary().as_deref(), Some(expected));
        assert_eq!(messages.error, None);
        assert_eq!(Messages::read(&b""[..]).summary(), None);
        let messages = Messages::read(&b"Error: File 'a' is not\nError: known.\n"[..]);
        assert_eq!(messages.error.as_deref(), Some("File 'a' is not; known."));
    }
}
