//! Where a live party's records come from, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use sensing::stream::{MAX_LINE, RecordError};
use serde::Deserialize;
use tracing::{info, warn};

use super::pace::Pace;

/// Bad lines that are each told in the log; of those after them only every thousandth.
const TOLD: u64 = 10;
/// A sender that is silent for so long is given up, and its place to the next.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RecordsSection {
    source: Source,
    speed_up: Option<f64>,
    #[serde(default)]
    bad_lines: BadLines,
    #[serde(rename = "gap_s")]
    pub gap_s: Option<f64>,
}

/// `stdin`, `tcp:ADDRESS` or `file:PATH`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
enum Source {
    Stdin,
    Tcp(SocketAddr),
    File(PathBuf),
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum BadLines {
    /// Counted and left out.
    #[default]
    Skip,
    /// The end.
    Stop,
}

impl TryFrom<String> for Source {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || {
            format!(
                "records.source: found {text:?}, expected stdin, tcp:127.0.0.1:9000 or file:records.csv"
            )
        };
        if text == "stdin" {
            return Ok(Source::Stdin);
        }
        if let Some(address) = text.strip_prefix("tcp:") {
            return address.parse().map(Source::Tcp).map_err(|_| wrong());
        }
        text.strip_prefix("file:").map(|path| Source::File(path.into())).ok_or_else(wrong)
    }
}

/// Takes lines.
pub(super) trait Taker {
    /// The first line of a stream, which names its columns.
    fn header(&mut self, line: &str) -> Result<(), RecordError>;
    /// The time of a record, as far as it has one.
    fn time(&self, line: &str) -> Option<f64>;
    /// The most that time may jump within a recording, in seconds.
    fn gap(&self) -> f64;
    /// Any other line. False if nobody listens any more.
    fn record(&mut self, line: &str) -> Result<bool, RecordError>;
    /// The records have ended.
    fn finish(&mut self) -> Result<(), RecordError>;
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub lines: AtomicU64,
    pub bad: AtomicU64,
}

impl RecordsSection {
    /// Refuses numbers that make no sense.
    pub(super) fn check(&self) -> Result<()> {
        for (field, found) in [("speed-up", self.speed_up), ("gap_s", self.gap_s)] {
            let found = found.unwrap_or(1.0);
            ensure!(
                found > 0.0 && found.is_finite(),
                "records.{field}: found {found}, expected a number above 0"
            );
        }
        let paced = matches!(self.source, Source::File(_));
        ensure!(
            paced || self.speed_up.is_none(),
            "records.speed-up: found a speed-up of records that come by themselves, expected one only with file:"
        );
        Ok(())
    }

    /// Reads until the records end, or nobody listens any more.
    pub(super) fn read(&self, folder: &Path, taker: &mut dyn Taker, counts: &Counts) -> Result<()> {
        match &self.source {
            Source::Stdin => {
                let stream = Stream::of("standard input");
                self.stream(&mut io::stdin().lock(), stream, taker, counts)?;
            }
            Source::File(path) => {
                let path = folder.join(path);
                let file = File::open(&path).with_context(|| path.display().to_string())?;
                let pace = Pace::new(self.speed_up.unwrap_or(1.0)).with_gap(taker.gap());
                let stream = Stream { pace: Some(pace), ..Stream::of(path.display()) };
                self.stream(&mut BufReader::new(file), stream, taker, counts)?;
            }
            Source::Tcp(address) => {
                let listener = TcpListener::bind(address)
                    .with_context(|| format!("records.source: tcp:{address}"))?;
                return self.serve(&listener, SILENCE, taker, counts);
            }
        }
        taker.finish().context("the end of the records")
    }

    /// One sender after the other.
    fn serve(
        &self,
        listener: &TcpListener,
        silence: Duration,
        taker: &mut dyn Taker,
        counts: &Counts,
    ) -> Result<()> {
        loop {
            let (stream, peer) = match accept(listener, silence) {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!("records: {error}");
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            info!(%peer, "records come in");
            let from = Stream { may_be_cut: true, ..Stream::of(peer) };
            match self.stream(&mut BufReader::new(stream), from, taker, counts) {
                Ok(true) => info!(%peer, "records have ended; waiting for another sender"),
                Ok(false) => return Ok(()),
                Err(error) if silent(&error) => {
                    warn!(%peer, "no records for {silence:?}; waiting for another sender");
                }
                Err(error) if self.bad_lines == BadLines::Stop => return Err(error),
                Err(error) => warn!("{error:#}; waiting for another sender"),
            }
        }
    }

    /// Reads one stream; false if nobody listens any more.
    fn stream(
        &self,
        reader: &mut impl BufRead,
        Stream { name, mut pace, may_be_cut }: Stream,
        taker: &mut dyn Taker,
        counts: &Counts,
    ) -> Result<bool> {
        let mut buffer = Vec::new();
        for number in 1_u64.. {
            match next_line(reader, &mut buffer).with_context(|| name.clone())? {
                ParsedLine::None => break,
                ParsedLine::Cut if may_be_cut => {
                    warn!("{name}, line {number}: left out, for it has no end");
                    break;
                }
                ParsedLine::Cut | ParsedLine::Whole => {}
            }
            counts.lines.fetch_add(1, Ordering::Relaxed);
            let taken = text(&buffer).and_then(|line| {
                if number == 1 {
                    return taker.header(line).map(|()| true).map_err(anyhow::Error::from);
                }
                if line.is_empty() {
                    return Ok(true);
                }
                if let Some((pace, time)) = pace.as_mut().zip(taker.time(line)) {
                    pace.wait(time);
                }
                Ok(taker.record(line)?)
            });
            let error = match taken {
                Ok(true) => continue,
                Ok(false) => return Ok(false),
                Err(error) => error.context(format!("{name}, line {number}")),
            };
            let bad = counts.bad.fetch_add(1, Ordering::Relaxed) + 1;
            if number == 1 || self.bad_lines == BadLines::Stop {
                return Err(error);
            }
            if bad <= TOLD || bad.is_multiple_of(1000) {
                warn!(bad, "left out: {error:#}");
            }
        }
        Ok(true)
    }
}

/// What lines come from.
struct Stream {
    name: String,
    pace: Option<Pace>,
    /// Whether a last line without an end may be a piece of one.
    may_be_cut: bool,
}

impl Stream {
    fn of(name: impl ToString) -> Self {
        Stream { name: name.to_string(), pace: None, may_be_cut: false }
    }
}

fn accept(listener: &TcpListener, silence: Duration) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept()?;
    stream.set_read_timeout(Some(silence))?;
    Ok((stream, peer))
}

fn silent(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// What was found of a line.
enum ParsedLine {
    Whole,
    /// It has no end.
    Cut,
    None,
}

/// The next line without its end; a too long one is cut off, and refused by [`text`].
fn next_line(reader: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<ParsedLine> {
    buffer.clear();
    let most = MAX_LINE as u64 + 2;
    if reader.by_ref().take(most).read_until(b'\n', buffer)? == 0 {
        return Ok(ParsedLine::None);
    }
    let whole = buffer.last() == Some(&b'\n') || buffer.len() as u64 == most;
    if buffer.last() != Some(&b'\n') && buffer.len() as u64 == most {
        // The rest of the line, in pieces.
        let mut rest = Vec::new();
        while rest.last() != Some(&b'\n') {
            rest.clear();
            if reader.by_ref().take(most).read_until(b'\n', &mut rest)? == 0 {
                break;
            }
        }
    }
    while buffer.last().is_some_and(|end| matches!(end, b'\n' | b'\r')) {
        buffer.pop();
    }
    Ok(if whole { ParsedLine::Whole } else { ParsedLine::Cut })
}

fn text(line: &[u8]) -> Result<&str> {
    ensure!(line.len() <= MAX_LINE, "found a line of more than {MAX_LINE} bytes, expected fewer");
    std::str::from_utf8(line).map_err(|_| anyhow!("found bytes that are not UTF-8, expected text"))
}

#[cfg(test)]
mod tests;
