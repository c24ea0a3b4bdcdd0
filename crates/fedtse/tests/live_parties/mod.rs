//! Two guests and a host that have been trained, and senders of their records that wait for events
//! instead of clocks.

#![allow(dead_code, reason = "each test file is a program of its own and uses what it needs")]

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;

use crate::common::{ok, text};
use crate::parties::{Choice, Party, World, finish, free_port, http_get, wait_for};

/// The recording is told from here on, in seconds: a whole number of steps.
const BEGIN: f64 = 1200.0;
const STEP: f64 = 10.0;

/// Trained parties with configurations to go live.
pub(crate) struct LiveWorld {
    world: World,
    ports: [u16; 3],
    observe: u16,
    publish: u16,
}

impl LiveWorld {
    pub(crate) fn new() -> Self {
        Self::with(None)
    }

    /// With guests under a policy, whose noise is kept with their data.
    pub(crate) fn with(policy: Option<&'static str>) -> Self {
        let choice = Choice { epochs: 2, party_dropout: 0.2, policy, ..Choice::default() };
        Self::trained(World::new(&choice))
    }

    /// With a host that has learned from sums over its guests alone.
    pub(crate) fn of_sums(policy: Option<&'static str>) -> Self {
        let world = World::new(&Choice { epochs: 2, policy, ..Choice::default() });
        let mode = if policy.is_some() { "aggregate+noise" } else { "aggregate" };
        world.change("city", "batch = 32", &format!("privacy = \"{mode}\""));
        world.change("fleet-a", "fusion = \"concatenate\"", "fusion = \"sum\"");
        world.change("fleet-b", "[model]", "[model]\nfusion = \"sum\"");
        world.gate.open();
        Self::trained(world)
    }

    fn trained(world: World) -> Self {
        finish(world.start_all());
        let [observe, publish] = [(); 2].map(|()| free_port());
        let live = LiveWorld { ports: [(); 3].map(|()| free_port()), world, observe, publish };
        live.configure();
        live
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    fn configure(&self) {
        // A guest is missed after a while for which the test waits once; and it is neither late nor
        // silent by chance, because the machine has others to run.
        let patience =
            "[patience]\nresend_s = 0.3\nheartbeat_s = 0.2\nsilence_s = 30\nlimit_s = 600\n";
        for (name, port) in ["city", "fleet-a", "fleet-b"].iter().zip(self.ports) {
            let noise = match self.path(name).join("data/noise").exists() {
                true => "noise = \"data/noise\"\n",
                false => "",
            };
            let sums = match self.path(name).join("data/sums").exists() {
                true => "sums = \"data/sums\"\n",
                false => "",
            };
            let own = match *name {
                "city" => format!(
                    "[network]\nlisten = \"127.0.0.1:{}\"\naccepted = \"guests.toml\"\n\
                     [live]\ndeadline_s = 120\n\
                     [publish]\nhttp = \"127.0.0.1:{}\"\n\
                     [observe]\nhttp = \"127.0.0.1:{}\"\n",
                    self.world.port(),
                    self.publish,
                    self.observe
                ),
                _ => format!(
                    "[observe]\nlog = \"debug\"\n[host]\nname = \"city\"\naddress = \"localhost:{}\"\n",
                    self.world.port()
                ),
            };
            let config = format!(
                "{own}{patience}[identity]\ncertificate = \"certs/{name}.pem\"\nkey = \"certs/{name}.key\"\n\
                 authority = \"certs/authority.pem\"\n[model]\nfolder = \"run/model\"\n{noise}{sums}\
                 [records]\nsource = \"tcp:127.0.0.1:{port}\"\n[run]\nfolder = \"run\"\n"
            );
            fs::write(self.path(name).join("live.toml"), config).expect("a file");
        }
    }

    pub(crate) fn start(&self, name: &str) -> Party {
        let role = if name == "city" { "host" } else { "guest" };
        let config = self.path(name).join("live.toml");
        Party::run(name, &["live", role, "--config", text(&config), "--json"], &self.log(name))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.live.log"))
    }

    /// All records of a party, from the beginning.
    pub(crate) fn sender(&self, name: &str) -> Sender {
        self.sender_from(name, BEGIN)
    }

    pub(crate) fn sender_from(&self, name: &str, from: f64) -> Sender {
        let port = self.ports[["city", "fleet-a", "fleet-b"]
            .iter()
            .position(|party| *party == name)
            .expect("a party")];
        let what: &[&str] = match name {
            "city" => &["--loops"],
            "fleet-a" => &["--fleet", "guest-1"],
            _ => &["--fleet", "guest-2"],
        };
        let (data, from_text) = (self.path("data"), from.to_string());
        let arguments = ["replay", "--data", text(&data), "--speed-up", "0", "--from", &from_text];
        let lines = ok(&[&arguments[..], what].concat());
        let mut lines: VecDeque<String> = lines.lines().map(str::to_owned).collect();
        let mut stream = None;
        wait_for(&mut [], || {
            stream = TcpStream::connect(("127.0.0.1", port)).ok();
            stream.is_some()
        });
        let mut stream = stream.expect("a connection");
        let header = lines.pop_front().expect("a header");
        writeln!(stream, "{header}").expect("a line");
        let time = if name == "city" { 2 } else { 0 };
        let stream = Arc::new(Mutex::new(stream));
        keep_alive(Arc::downgrade(&stream));
        Sender { stream, lines, time, reached: from }
    }

    pub(crate) fn events(&self) -> Events {
        let mut stream = None;
        wait_for(&mut [], || {
            stream = TcpStream::connect(("127.0.0.1", self.publish)).ok();
            stream.is_some()
        });
        let mut stream = stream.expect("a connection");
        stream
            .write_all(b"GET /v1/estimates/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("a request");
        let all = Arc::<Mutex<Vec<Value>>>::default();
        let of_thread = Arc::clone(&all);
        // Ends with the host.
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if let Some(data) = line.strip_prefix("data: ") {
                    let estimate = serde_json::from_str(data).expect("JSON");
                    of_thread.lock().unwrap_or_else(PoisonError::into_inner).push(estimate);
                }
            }
        });
        Events(all)
    }

    /// The port of the map.
    pub(crate) fn publish_port(&self) -> u16 {
        self.publish
    }

    /// The latest estimate.
    pub(crate) fn estimates(&self) -> Option<String> {
        http_get(self.publish, "/v1/estimates")
    }

    /// A number of the host's metrics.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let text = http_get(self.observe, "/metrics")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok())
    }

    /// Whether the host's steps wait for a guest: it has joined, and sends.
    pub(crate) fn waited_for(&self, guest: &str) -> bool {
        self.metric(&format!("fedtse_live_waited_for{{party=\"{guest}\"}}")) == Some(1.0)
    }

    /// How often the host has welcomed a guest so far.
    pub(crate) fn welcomes(&self, guest: &str) -> usize {
        let log = fs::read_to_string(self.log("city")).unwrap_or_default();
        let joined = |line: &&str| line.contains(" joined") && line.contains(guest);
        log.lines().filter(joined).count()
    }

    /// Waits until the host has estimated all steps that it can have heard of, from its first window.
    pub(crate) fn wait_for_settled(&self, city: &Sender, events: &Events) {
        // A step opens 5 s after its end, so the last one that was told is still open.
        let last = (city.reached() / STEP) as i64 - 2;
        let first = (BEGIN / STEP) as i64 + 8;
        wait_for(&mut [], || {
            let newest = events.all().last().and_then(|estimate| estimate["step"].as_i64());
            last < first || newest.is_some_and(|newest| newest >= last)
        });
    }
}

/// A sender that says nothing is given up by its party after a while: it says empty lines.
fn keep_alive(stream: Weak<Mutex<TcpStream>>) {
    std::thread::spawn(move || {
        while let Some(stream) = stream.upgrade() {
            let said = writeln!(stream.lock().unwrap_or_else(PoisonError::into_inner));
            if said.is_err() {
                return;
            }
            drop(stream);
            std::thread::sleep(Duration::from_secs(1));
        }
    });
}

/// Tells a party its records, a step at a time.
pub(crate) struct Sender {
    stream: Arc<Mutex<TcpStream>>,
    lines: VecDeque<String>,
    /// The column of the time.
    time: usize,
    reached: f64,
}

impl Sender {
    /// The time that was told last.
    pub(crate) fn reached(&self) -> f64 {
        self.reached
    }

    /// Tells the next step.
    pub(crate) fn step(&mut self) {
        self.to(self.reached + STEP);
    }

    /// Tells all up to a time.
    pub(crate) fn to(&mut self, time: f64) {
        while let Some(line) = self.lines.front() {
            let next = line.split(',').nth(self.time).and_then(|time| time.parse::<f64>().ok());
            if next.is_some_and(|next| next > time) {
                break;
            }
            let line = self.lines.pop_front().expect("a line");
            self.say(&line);
        }
        self.reached = time;
    }

    pub(crate) fn say(&mut self, line: &str) {
        // A party that was killed does not listen.
        let _ = writeln!(self.stream.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
    }
}

/// Estimates as the host sends them.
pub(crate) struct Events(Arc<Mutex<Vec<Value>>>);

impl Events {
    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
