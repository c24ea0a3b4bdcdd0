//! A host and two guests as processes, each in a folder with its own data only.
#![allow(dead_code, reason = "each test file is a program of its own and uses what it needs")]

mod gate;
mod held_out;
mod sealed;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{ok, ok_json, text};
pub(crate) use gate::Gate;

const PATIENCE: Duration = Duration::from_secs(600);
pub(crate) const GUESTS: [&str; 2] = ["fleet-a", "fleet-b"];
/// Bytes from `fleet-b` to the host: a handshake and three rounds, in a run of sixteen rounds or more
/// that needs three times as many.
pub(crate) const A_FEW_ROUNDS: u64 = 20_000;
/// Bytes from `fleet-b` to the host: part of a round, or some signs of life.
pub(crate) const A_FEW_WORDS: u64 = 2_000;
/// One world at a time: each is three processes that compute.
static ALONE: Mutex<()> = Mutex::new(());

/// Settings of a rehearsed world that tests vary.
pub(crate) struct Choice {
    pub epochs: u32,
    /// Settings of the host's checkpoints.
    pub checkpoints: &'static str,
    pub local_updates: u32,
    pub party_dropout: f32,
    /// Of both guests.
    pub policy: Option<&'static str>,
}

impl Default for Choice {
    fn default() -> Self {
        let checkpoints = "checkpoint-rounds = 4";
        Choice { epochs: 3, checkpoints, local_updates: 1, party_dropout: 0.0, policy: None }
    }
}

/// Folders of all parties, with certificates and configurations.
pub(crate) struct World {
    pub folder: TempDir,
    /// On the way of `fleet-b`.
    pub gate: Gate,
    port: u16,
    http: u16,
    _alone: MutexGuard<'static, ()>,
}

/// What parties in one process ended with.
pub(crate) struct Rehearsed {
    pub weights: BTreeMap<String, String>,
    pub rounds: u64,
}

impl World {
    pub(crate) fn new(choice: &Choice) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        ok(&["simulate", "--minutes", "30", "--warm-up", "2", "--seed", "5", "--out", text(&data)]);
        ok(&["features", text(&data), "--guests", "30,20"]);
        let (port, http) = (free_port(), free_port());
        let world = World { folder, gate: Gate::before(port), port, http, _alone: alone };
        for (party, tables) in [
            ("city", &["loops.parquet", "all.parquet", "targets.parquet"][..]),
            ("fleet-a", &["guest-1.parquet"]),
            ("fleet-b", &["guest-2.parquet"]),
        ] {
            let to = world.path(party).join("data/features");
            fs::create_dir_all(&to).expect("a folder");
            fs::copy(data.join("network.toml"), world.path(party).join("data/network.toml"))
                .expect("a copy");
            for table in [&["manifest.json"][..], tables].concat() {
                fs::copy(data.join("features").join(table), to.join(table)).expect("a copy");
            }
        }
        let certs = world.path("certs");
        ok(&["certs", "init", "--out", text(&certs)]);
        world.certify("host", "city", &["--address", "localhost"]);
        for guest in GUESTS {
            world.certify("guest", guest, &[]);
        }
        world.accept(&GUESTS);
        world.configure(choice);
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes an identity and gives it to its party.
    pub(crate) fn certify(&self, role: &str, name: &str, more: &[&str]) {
        let (certs, out) = (self.path("certs"), self.path(name).join("certs"));
        let arguments = ["certs", role, "--authority", text(&certs), "--name", name];
        ok(&[&arguments[..], &["--out", text(&out)], more].concat());
        fs::copy(certs.join("authority.pem"), out.join("authority.pem")).expect("a copy");
    }

    /// Writes the host's list of guests.
    pub(crate) fn accept(&self, guests: &[&str]) {
        let mut list = "[guests]\n".to_owned();
        for guest in guests {
            let file = self.path(guest).join(format!("certs/{guest}.pem"));
            let shown = ok_json(&["certs", "show", text(&file)]);
            let fingerprint = shown[0]["fingerprint"].as_str().expect("a fingerprint");
            list += &format!("{guest} = [\"{fingerprint}\"]\n");
        }
        let file = self.path("city").join("guests.toml");
        fs::write(file.with_extension("new"), list).expect("a file");
        fs::rename(file.with_extension("new"), file).expect("a list");
    }

    fn configure(&self, choice: &Choice) {
        let Choice { epochs, checkpoints, local_updates, party_dropout, policy } = choice;
        let patience =
            "[patience]\nresend_s = 0.3\nheartbeat_s = 0.2\nsilence_s = 3\nlimit_s = 300\n";
        let identity = |name: &str| {
            format!(
                "[identity]\ncertificate = \"certs/{name}.pem\"\nkey = \"certs/{name}.key\"\nauthority = \"certs/authority.pem\"\n"
            )
        };
        let host = format!(
            "{}{patience}
            [network]
            listen = \"127.0.0.1:{}\"
            accepted = \"guests.toml\"
            [data]
            folder = \"data\"
            target = \"raw\"
            [guests.fleet-a]
            [guests.fleet-b]
            numbers = {{ per-link = 2 }}
            starts-as-state = false
            [training]
            epochs = {epochs}
            batch = 32
            {checkpoints}
            local-updates = {local_updates}
            party-dropout = {party_dropout:?}
            [run]
            folder = \"run\"
            [observe]
            http = \"127.0.0.1:{}\"
            ",
            identity("city"),
            self.port,
            self.http
        );
        fs::write(self.path("city").join("config.toml"), host).expect("a file");
        for (guest, port, fleet, model) in [
            ("fleet-a", self.port, "guest-1", "[model]\nfusion = \"concatenate\"\n"),
            (
                "fleet-b",
                self.gate.port(),
                "guest-2",
                "[model]\nsub-model = \"mlp\"\nnumbers = { per-link = 2 }\n",
            ),
        ] {
            let own = policy.map_or("", |policy| {
                fs::write(self.path(guest).join("policy.toml"), policy).expect("a file");
                "policy = \"policy.toml\""
            });
            let config = format!(
                "{}{patience}{model}
                [host]
                name = \"city\"
                address = \"localhost:{port}\"
                [data]
                folder = \"data\"
                fleet = \"{fleet}\"
                {own}
                [run]
                folder = \"run\"
                ",
                identity(guest)
            );
            fs::write(self.path(guest).join("config.toml"), config).expect("a file");
        }
    }

    pub(crate) fn config(&self, party: &str) -> PathBuf {
        self.path(party).join("config.toml")
    }

    /// Runs all parties in one process.
    pub(crate) fn rehearse(&self) -> Rehearsed {
        let paths = ["city", "fleet-a", "fleet-b"].map(|party| self.config(party));
        let [host, a, b] = paths.each_ref().map(|path| text(path));
        let report = ok_json(&["rehearse", "--host", host, "--guest", a, "--guest", b]);
        let weights = report["weights"].as_object().expect("weights").iter();
        Rehearsed {
            weights: weights.map(|(party, found)| (party.clone(), found.to_string())).collect(),
            rounds: report["finished"]["rounds"].as_u64().expect("rounds"),
        }
    }

    /// Starts a party.
    pub(crate) fn start(&self, party: &str) -> Party {
        Party::start(party, &self.config(party), &self.path(&format!("{party}.log")))
    }

    pub(crate) fn start_all(&self) -> Vec<Party> {
        ["city", "fleet-a", "fleet-b"].map(|party| self.start(party)).into()
    }

    /// The port that guests dial.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A number of the host's metrics.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let text = http_get(self.http, "/metrics")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok())
    }

    pub(crate) fn health(&self) -> Option<String> {
        http_get(self.http, "/healthz")
    }

    /// The last round that the host has finished, as far as it tells.
    pub(crate) fn round(&self) -> Option<u64> {
        self.metric("fedtse_round").map(|round| round as u64)
    }

    /// Starts all parties and waits until they are at it, but cannot end before the gate is opened.
    pub(crate) fn start_and_hold(&self) -> Vec<Party> {
        self.gate.allow(A_FEW_ROUNDS);
        let mut parties = self.start_all();
        self.wait_until_held(&mut parties);
        // On a slow machine all of it may be words said twice before the first round.
        while self.round().is_none_or(|round| round < 1) {
            self.gate.allow(A_FEW_ROUNDS);
            self.wait_until_held(&mut parties);
        }
        parties
    }

    pub(crate) fn wait_until_held(&self, parties: &mut [Party]) {
        wait_for(parties, || self.gate.holds());
    }
}

/// A running party.
pub(crate) struct Party {
    pub name: String,
    child: Child,
    log: PathBuf,
}

impl Party {
    pub(crate) fn start(name: &str, config: &Path, log: &Path) -> Self {
        let role = if name == "city" { "host" } else { "guest" };
        Self::run(name, &[role, "--config", text(config), "--json"], log)
    }

    pub(crate) fn run(name: &str, arguments: &[&str], log: &Path) -> Self {
        let file = fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_fedtse"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .expect("the program starts");
        Party { name: name.into(), child, log: log.into() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it as the system would when it needs memory.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("its end");
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Stops it where it is.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().expect("kill");
        assert!(sent.success());
    }

    pub(crate) fn running(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_none()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for(&mut [], || !self.running());
        self.child.wait().expect("its end")
    }

    /// What it reported at its end, which must be a good one.
    pub(crate) fn report(mut self) -> Value {
        let status = self.wait();
        assert!(status.success(), "{} has ended, {status}: {}", self.name, self.log_tail());
        let mut output = String::new();
        let mut stdout = self.child.stdout.take().expect("its output");
        std::io::Read::read_to_string(&mut stdout, &mut output).expect("its output");
        serde_json::from_str(&output).expect("JSON")
    }

    fn failed(&mut self) -> bool {
        let status = self.child.try_wait().expect("its status");
        status.is_some_and(|status| !status.success())
    }

    /// The last lines of its log.
    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for all parties to finish, and returns their weights.
pub(crate) fn finish(mut parties: Vec<Party>) -> BTreeMap<String, String> {
    // The others would wait long for one that has failed.
    wait_for(&mut [], || {
        for party in &mut parties {
            assert!(!party.failed(), "{} has failed: {}", party.name, party.log_tail());
        }
        !parties.iter_mut().any(Party::running)
    });
    let weights = |party: Party| {
        let name = party.name.clone();
        let report = party.report();
        assert!(report["finished"].is_object(), "{name}: {report}");
        (name, report["weights"].to_string())
    };
    parties.into_iter().map(weights).collect()
}

/// Waits for something that happens while all these parties run.
pub(crate) fn wait_for(parties: &mut [Party], mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    loop {
        // Looked at first: it may have happened just before a party ended.
        let ended = parties.iter_mut().position(|party| !party.running());
        if condition() {
            return;
        }
        let early = |ended: usize| (&parties[ended].name, parties[ended].log_tail());
        assert!(ended.is_none(), "a party has ended before its time: {:?}", ended.map(early));
        assert!(began.elapsed() < PATIENCE, "nothing happened in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn http_get(port: u16, path: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// A port that is free, and below those that systems give to outgoing connections: nobody takes it
/// by chance before the host does.
pub(crate) fn free_port() -> u16 {
    const PORTS: std::ops::Range<u32> = 10_000..32_000;
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    // Programs that run at the same time begin far from each other.
    let first = std::process::id().wrapping_mul(64);
    let draw = |_| {
        let drawn = first.wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed));
        (PORTS.start + drawn % (PORTS.end - PORTS.start)) as u16
    };
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    PORTS.map(draw).find(free).expect("a free port")
}
