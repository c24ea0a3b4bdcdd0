//! A server over the corridor with a made-up history, and a client that can misbehave.

#![allow(clippy::panic, reason = "a test's helper fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use server::{
    AlarmsSection, Estimate, EstimateFeed, History, HistoryError, HttpServer, LinkEstimate,
    LinkInterval, LinkStep, Participation, ReadersSection, SeriesInfo, StepRange, Target,
};
use tempfile::TempDir;
use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane, network_hash};

pub(crate) const TOKEN: &str = "a-token-for-this-test";
/// Longer than a busy machine needs for anything here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Server {
    // Dropped first: its threads use the rest.
    pub http: HttpServer,
    pub info: Arc<SeriesInfo>,
    pub feed: Arc<EstimateFeed>,
    pub history: Option<Arc<MadeUpHistory>>,
    _folder: TempDir,
}

/// What a test changes.
pub(crate) struct Options {
    pub readers: ReadersSection,
    pub token: bool,
    /// Stored steps; none without a history.
    pub steps: Option<i64>,
    pub origin: bool,
    /// Rules of alarms.
    pub alarms: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let readers = ReadersSection { requests_per_s: 100_000.0, ..ReadersSection::default() };
        Options { readers, token: true, steps: Some(20), origin: true, alarms: Vec::new() }
    }
}

/// A response: status, headers with names in small letters, and the body without chunks.
#[derive(Debug)]
pub(crate) struct Response {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().expect("an error").to_owned()
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers["content-type"].split(';').next().expect("a type")
    }
}

impl Server {
    pub(crate) fn start(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut network = traffic::corridor().expect("the corridor");
        if !options.origin {
            let mut parts = network.parts().clone();
            parts.origin = None;
            network = traffic::Network::new(parts).expect("a network");
        }
        let info = Arc::new(SeriesInfo {
            network_hash: network_hash(&network),
            network: Arc::new(network),
            step_s: 10.0,
            target: Target::Smooth,
            guests: vec!["fleet-a".into(), "fleet-b".into()],
            interval: Some(90),
        });
        let history = options.steps.map(|steps| {
            let all = (steps > 0).then_some(StepRange {
                first: Step(0),
                last: Step(steps - 1),
                every: 1,
            });
            let ranges = Mutex::new(all.into_iter().collect());
            Arc::new(MadeUpHistory { info: Arc::clone(&info), ranges, visited: 0.into() })
        });
        let mut readers = options.readers;
        if options.token {
            fs::write(folder.path().join("token"), TOKEN).expect("a file");
            readers.token = Some(folder.path().join("token"));
        }
        let alarms = AlarmsSection { rules: options.alarms, webhook: None };
        let feed = EstimateFeed::with_alarms(&alarms, &info).expect("alarms");
        let feed = Arc::new(feed);
        let stored = history.clone().map(|history| (history as Arc<dyn History>, Some(3600.0)));
        let site = readers.site(Path::new(""), &info, &feed, stored, true).expect("a site");
        let limit = readers.connection_limit().expect("limits");
        let http = HttpServer::start(([127, 0, 0, 1], 0).into(), limit, site).expect("a server");
        Server { http, info, feed, history, _folder: folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.http.address()
    }

    pub(crate) fn publish(&self, step: i64) {
        self.feed.publish(&self.info, &estimate(&self.info, step), Some(Instant::now()), true);
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Sends a request and reads the whole response.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str) -> Response {
        let mut stream = self.connect();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        )
        .expect("a request");
        read_response(&mut BufReader::new(stream), method == "HEAD")
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, "")
    }

    /// Sends bytes and reads until the connection ends, which may be while bytes are still sent.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    }

    /// Opens the event stream and reads the headers.
    pub(crate) fn events(&self, last: Option<i64>) -> Events {
        self.events_of("/v1/estimates/stream", last)
    }

    pub(crate) fn events_of(&self, path: &str, last: Option<i64>) -> Events {
        let mut stream = self.connect();
        let last = last.map_or(String::new(), |last| format!("Last-Event-ID: {last}\r\n"));
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n").expect("a request");
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader);
        assert_eq!((status, headers["content-type"].as_str()), (200, "text/event-stream"));
        Events(reader)
    }
}

/// Has the estimates that [`estimate`] makes, and counts those that are read.
pub(crate) struct MadeUpHistory {
    info: Arc<SeriesInfo>,
    ranges: Mutex<Vec<StepRange>>,
    visited: AtomicUsize,
}

impl MadeUpHistory {
    pub(crate) fn visited(&self) -> usize {
        self.visited.load(Ordering::Relaxed)
    }

    fn steps(&self, from: Step, to: Step) -> Vec<i64> {
        let ranges = self.ranges.lock().expect("a lock");
        let inside = |range: &StepRange| range.first.max(from).0..=range.last.min(to).0;
        ranges.iter().flat_map(inside).collect()
    }
}

impl History for MadeUpHistory {
    fn store(&self, _: &Estimate) -> Result<(), HistoryError> {
        Ok(())
    }
    fn replace(&self, _: Step, _: Step, _: &Estimate) -> Result<(), HistoryError> {
        Ok(())
    }
    fn ranges(&self) -> Result<Vec<StepRange>, HistoryError> {
        Ok(self.ranges.lock().expect("a lock").clone())
    }
    fn get(&self, step: Step) -> Result<Option<Estimate>, HistoryError> {
        Ok(self.steps(step, step).first().map(|&step| estimate(&self.info, step)))
    }
    fn for_each(
        &self,
        from: Step,
        to: Step,
        visit: &mut dyn FnMut(Estimate) -> bool,
    ) -> Result<(), HistoryError> {
        for step in self.steps(from, to) {
            self.visited.fetch_add(1, Ordering::Relaxed);
            if !visit(estimate(&self.info, step)) {
                break;
            }
        }
        Ok(())
    }
    fn link_series(
        &self,
        link: usize,
        from: Step,
        to: Step,
    ) -> Result<Vec<LinkStep>, HistoryError> {
        let at = |step| {
            let estimate = estimate(&self.info, step);
            let link = estimate.links().nth(link).expect("a link");
            LinkStep { step: Step(step), link, participants: estimate.participants }
        };
        Ok(self.steps(from, to).into_iter().map(at).collect())
    }
    fn route_series(
        &self,
        links: &[usize],
        from: Step,
        to: Step,
    ) -> Result<Vec<(Step, Vec<LinkEstimate>)>, HistoryError> {
        let at = |step| {
            let all: Vec<LinkEstimate> = estimate(&self.info, step).links().collect();
            (Step(step), links.iter().map(|&link| all[link]).collect())
        };
        Ok(self.steps(from, to).into_iter().map(at).collect())
    }
    fn delete_before(&self, step: Step) -> Result<u64, HistoryError> {
        let mut ranges = self.ranges.lock().expect("a lock");
        let count = |ranges: &[StepRange]| -> i64 {
            ranges.iter().map(|range| range.last.0 - range.first.0 + 1).sum()
        };
        let before = count(&ranges);
        ranges.retain(|range| range.last >= step);
        ranges.iter_mut().for_each(|range| range.first = range.first.max(step));
        Ok((before - count(&ranges)) as u64)
    }
}

/// The numbers of a packed estimate, as a page reads them: its base has as many, or none.
pub(crate) fn unpack(document: &Value, base: &[u16]) -> Vec<u16> {
    let text = document["numbers"].as_str().expect("numbers");
    let packed = data_encoding::BASE64.decode(text.as_bytes()).expect("base64");
    let mut bytes = Vec::new();
    flate2::read::DeflateDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("deflate");
    let links = bytes.len() / 6;
    let number = |at: usize| {
        let (quantity, link) = (at / links, at % links);
        let [low, high] = [0, 1].map(|half| bytes[(2 * quantity + half) * links + link]);
        let coded = u16::from_le_bytes([low, high]);
        let difference = (coded >> 1) ^ (coded & 1).wrapping_neg();
        base.get(at).copied().unwrap_or(0).wrapping_add(difference)
    };
    (0..3 * links).map(number).collect()
}

/// Distinct numbers for each step and link; every fourth step without a guest.
pub(crate) fn estimate(info: &SeriesInfo, step: i64) -> Estimate {
    let complete = step % 4 != 3;
    let states = (0..info.network.links().len()).map(|link| LinkState {
        density: VehPerKmLane::new((step as f64 + 1.0) * (link as f64 + 1.0) / 3.0),
        flow: VehPerMinLane::new(link as f64 / 7.0),
    });
    let states: Vec<LinkState> = states.collect();
    let interval = |state: &LinkState| LinkInterval {
        density: [state.density.get() / 2.0, state.density.get() * 2.0],
        flow: [0.0, state.flow.get() + 1.0],
    };
    let second = if complete { Participation::In } else { Participation::Late };
    Estimate {
        step: Step(step),
        made_s: 1.7e9 + step as f64,
        latency_s: 5.25,
        participants: BTreeMap::from([
            ("fleet-a".to_owned(), Participation::In),
            ("fleet-b".to_owned(), second),
        ]),
        intervals: complete.then(|| states.iter().map(interval).collect()),
        states,
    }
}

fn read_head(reader: &mut impl BufRead) -> (u16, BTreeMap<String, String>) {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status line");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.expect("a status");
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            return (status, headers);
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
}

fn read_response(reader: &mut impl BufRead, head_only: bool) -> Response {
    let (status, headers) = read_head(reader);
    let mut body = Vec::new();
    if head_only {
        return Response { status, headers, body };
    }
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        while let Some(chunk) = read_chunk(reader) {
            body.extend(chunk);
        }
    } else {
        reader.read_to_end(&mut body).expect("a body");
    }
    Response { status, headers, body }
}

/// None for the last chunk, and at the end of a connection that was cut.
fn read_chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    (length > 0).then_some(chunk)
}

/// An event stream.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    /// The next event: its id and its data. None at the end.
    pub(crate) fn next(&mut self) -> Option<(i64, Value)> {
        let text = loop {
            let text = String::from_utf8(read_chunk(&mut self.0)?).expect("text");
            assert!(text.ends_with("\n\n"), "a chunk is a whole event: {text:?}");
            if text != ":\n\n" {
                break text;
            }
        };
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        assert!(["estimate", "alarm"].contains(&field("event: ").expect("a kind")), "{text}");
        let id = field("id: ").and_then(|id| id.parse().ok()).expect("an id");
        let data = serde_json::from_str(field("data: ").expect("data")).expect("JSON");
        Some((id, data))
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<i64> {
        (0..count).map(|_| self.next().expect("an event").0).collect()
    }
}
