//! A folder for each party: its own data, its certificate, its configurations.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use experiments::data::features;
use sensing::{Dataset, FeaturePlan, Features, Fleets, part_name, write_fleet_dataset};
use serde_json::Value;
use traffic::{Seconds, StepClock};
use training::party::privacy::Mode;
use training::signal::measured_kinds;

use super::recordings::Recordings;
use super::{Method, UpArguments, text};
use crate::serve::PageArguments;

/// The host's name.
pub(super) const HOST: &str = "city";
/// What a guest calls the fleet of all vehicles of its own dataset.
const OWN_FLEET: &str = "guest-1";
/// What a trained party of a sum has in the folder of its model.
const SUM_FILE: &str = "sum.json";
/// How long parties wait for each other on one machine, in seconds.
const PATIENCE: &str =
    "[patience]\nresend_s = 1.0\nheartbeat_s = 1.0\nsilence_s = 5.0\nlimit_s = 600.0\n";

/// The folders of all parties.
pub(super) struct Folders {
    root: PathBuf,
    guests: Vec<(String, String)>,
}

/// What live parties are told.
pub(super) struct Live<'a> {
    /// Where guests dial.
    pub port: u16,
    pub http: SocketAddr,
    pub deadline_s: f64,
    pub history: String,
    pub requests_per_s: f64,
    pub connections: usize,
    pub page: &'a PageArguments,
}

impl Folders {
    /// Makes what is not there yet.
    pub(super) fn make(root: &Path, recordings: &Recordings, method: &Method) -> Result<Self> {
        let guests = recordings.guests().map(|guest| {
            let fleet = recordings.fleet_of(guest).context("a fleet")?;
            Ok((guest.to_owned(), fleet.to_owned()))
        });
        let folders = Folders { root: root.to_owned(), guests: guests.collect::<Result<_>>()? };
        match method.signal.has_labels() {
            true => folders.share(&recordings.train)?,
            false => folders.share_without_truth(&recordings.train, method)?,
        }
        folders.certify()?;
        Ok(folders)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn of(&self, party: &str) -> PathBuf {
        self.root.join(party)
    }

    pub(super) fn guests(&self) -> Vec<&str> {
        self.guests.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The host first.
    pub(super) fn parties(&self) -> impl Iterator<Item = &str> {
        std::iter::once(HOST).chain(self.guests.iter().map(|(name, _)| name.as_str()))
    }

    /// Whether all parties have finished a training.
    pub(super) fn trained(&self) -> bool {
        self.parties().all(|party| {
            let model = self.of(party).join("run/model");
            model.join("party.json").exists() || model.join(SUM_FILE).exists()
        })
    }

    /// Gives each party the network and its own tables, and no others.
    fn share(&self, data: &Path) -> Result<()> {
        let host = ["loops", "all", "targets"].map(str::to_owned).to_vec();
        let tables = std::iter::once((HOST, host));
        let of_guests =
            self.guests.iter().map(|(name, fleet)| (name.as_str(), vec![fleet.clone()]));
        for (party, tables) in tables.chain(of_guests) {
            let to = self.of(party).join("data");
            std::fs::create_dir_all(to.join("features"))
                .with_context(|| to.display().to_string())?;
            copy(&data.join("network.toml"), &to.join("network.toml"))?;
            let manifest = "features/manifest.json";
            copy(&data.join(manifest), &to.join(manifest))?;
            for table in tables {
                let name = format!("features/{table}.parquet");
                copy(&data.join(&name), &to.join(&name))?;
            }
        }
        Ok(())
    }

    /// Gives the host its loops, and each guest a dataset of its own vehicles, from which it makes its features itself.
    fn share_without_truth(&self, data: &Path, method: &Method) -> Result<()> {
        let dataset = Dataset::open(data)?;
        let features = Features::open(data, dataset.network())?;
        let manifest = features.manifest();
        let of_host = self.of(HOST).join("data");
        std::fs::create_dir_all(of_host.join("features"))
            .with_context(|| of_host.display().to_string())?;
        for file in ["network.toml", "features/manifest.json", "features/loops.parquet"] {
            copy(&data.join(file), &of_host.join(file))?;
        }
        for (guest, fleet) in &self.guests {
            let to = self.of(guest).join("data");
            if to.join("features/manifest.json").exists() {
                continue;
            }
            let _ = std::fs::remove_dir_all(&to);
            let fleet = (&features.fleet_named(fleet)?, manifest.fleet_seed);
            write_fleet_dataset(&dataset, fleet, &to)?;
            let all = Fleets::partition(&[1.0], manifest.fleet_seed)?;
            let folds: Vec<usize> = method.signal.folds().into_iter().collect();
            let plan = FeaturePlan {
                clock: StepClock { length: manifest.step_s },
                cells: manifest.cells,
                sub_steps: manifest.sub_steps,
                patience: manifest.patience_s,
                fleets: all.divided(&folds)?,
            };
            let from = manifest.from_s.unwrap_or(Seconds::new(f64::NEG_INFINITY));
            features::make(&Dataset::open(&to)?, plan, from)?;
        }
        Ok(())
    }

    fn certify(&self) -> Result<()> {
        let authority = self.root.join("authority");
        let authority = text(&authority)?;
        if !Path::new(authority).join("authority.key").exists() {
            own(&["certs", "init", "--out", authority])?;
        }
        let mut accepted = "[guests]\n".to_owned();
        for party in self.parties() {
            let folder = self.of(party).join("certs");
            let certificate = folder.join(format!("{party}.pem"));
            if !certificate.exists() {
                let role = if party == HOST { "host" } else { "guest" };
                let mut arguments = vec!["certs", role, "--authority", authority, "--name", party];
                arguments.extend(["--out", text(&folder)?]);
                if party == HOST {
                    arguments.extend(["--address", "localhost"]);
                }
                own(&arguments)?;
            }
            copy(&Path::new(authority).join("authority.pem"), &folder.join("authority.pem"))?;
            if party != HOST {
                let shown: Value =
                    serde_json::from_str(&own(&["certs", "show", text(&certificate)?, "--json"])?)?;
                let fingerprint = shown[0]["fingerprint"].as_str().context("a fingerprint")?;
                let _ = writeln!(accepted, "{party} = [\"{fingerprint}\"]");
            }
        }
        write(&self.of(HOST).join("guests.toml"), &accepted)
    }

    /// How what guests send is protected: where no fleet is held out, the host sees their sum alone.
    pub(super) fn mode(&self, method: &Method) -> Mode {
        match self.guests.len() > 1 && method.signal.folds().is_none() {
            true => Mode::Aggregate,
            false => Mode::usual(&method.signal),
        }
    }

    pub(super) fn configure_training(&self, port: u16, arguments: &UpArguments) -> Result<()> {
        let UpArguments { method: Method { name, signal }, epochs, seed, .. } = arguments;
        let (fusion, dropout) = match self.mode(&arguments.method).is_aggregate() {
            true => ("sum", 0.0),
            false => ("concatenate", 0.2),
        };
        // Without ground truth what is measured is of single steps.
        let target = if signal.has_labels() { "smooth" } else { "raw" };
        let measures: Vec<String> = measured_kinds(signal)
            .into_iter()
            .map(|kind| Ok(serde_json::to_string(&kind)?))
            .collect::<Result<_>>()?;
        let measures = measures.join(", ");
        let guests: String =
            self.guests.iter().map(|(guest, _)| format!("[guests.{guest}]\n")).collect();
        let host = format!(
            "{}{}{PATIENCE}[data]\nfolder = \"data\"\ntarget = \"{target}\"\n{guests}\
             [training]\nmethod = \"{name}\"\nepochs = {epochs}\nseed = {seed}\nfusion = \"{fusion}\"\nparty-dropout = {dropout:?}\n",
            identity(HOST),
            listen_section(port)
        );
        write(&self.of(HOST).join("train.toml"), &host)?;
        for (guest, fleet) in &self.guests {
            let config = format!(
                "{}{}{PATIENCE}[data]\nfolder = \"data\"\nfleet = {}\nmeasures = [{measures}]\n\
                 [model]\nfusion = \"{fusion}\"\n",
                identity(guest),
                dialled(port),
                match (signal.has_labels(), signal.folds()) {
                    (true, _) => format!("{fleet:?}"),
                    (false, None) => format!("{OWN_FLEET:?}"),
                    (false, Some(folds)) => {
                        let parts = (1..=folds).map(|part| part_name(OWN_FLEET, part, folds));
                        format!("{:?}", parts.collect::<Vec<_>>())
                    }
                }
            );
            write(&self.of(guest).join("train.toml"), &config)?;
        }
        Ok(())
    }

    pub(super) fn configure_live(&self, party: &str, records: u16, live: &Live<'_>) -> Result<()> {
        let own = if party == HOST {
            format!(
                "{}[publish]\nhttp = \"{}\"\n[live]\ndeadline_s = {:?}\n\
                 [history]\nstore = \"{}\"\n[readers]\nrequests_per_s = {:?}\nper_address = {}\nconnections = {}\n{}",
                listen_section(live.port),
                live.http,
                live.deadline_s,
                live.history,
                live.requests_per_s,
                live.connections,
                live.connections.max(512),
                page_settings(live.page)?
            )
        } else {
            dialled(live.port)
        };
        let of_sum = party != HOST && self.of(party).join("run/model").join(SUM_FILE).exists();
        let sums = if of_sum { "sums = \"data/sums\"\n" } else { "" };
        let config = format!(
            "{}{own}{PATIENCE}[model]\nfolder = \"run/model\"\n{sums}\
             [records]\nsource = \"tcp:127.0.0.1:{records}\"\n",
            identity(party)
        );
        write(&self.of(party).join("live.toml"), &config)
    }
}

/// The rest of `[readers]`, and `[alarms]`.
fn page_settings(page: &PageArguments) -> Result<String> {
    let mut text = String::new();
    if let Some(tiles) = &page.tiles {
        // The host runs in its own folder.
        let file = || {
            let path =
                Path::new(tiles).canonicalize().with_context(|| format!("--tiles {tiles}"))?;
            Ok::<_, anyhow::Error>(self::text(&path)?.to_owned())
        };
        let tiles = if tiles.contains("://") { tiles.clone() } else { file()? };
        let attribution = page.attribution.clone().unwrap_or_default();
        let _ = writeln!(text, "tiles = {}", quoted(&tiles));
        let _ = writeln!(text, "attribution = {}", quoted(&attribution));
    }
    let rules: Vec<String> = page.alarms.iter().map(|rule| quoted(rule)).collect();
    let _ = writeln!(text, "[alarms]\nrules = [{}]", rules.join(", "));
    if let Some(webhook) = &page.webhook {
        let _ = writeln!(text, "webhook = {}", quoted(webhook));
    }
    Ok(text)
}

/// As a string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn identity(name: &str) -> String {
    format!(
        "[identity]\ncertificate = \"certs/{name}.pem\"\nkey = \"certs/{name}.key\"\n\
         authority = \"certs/authority.pem\"\n[run]\nfolder = \"run\"\n"
    )
}

fn listen_section(port: u16) -> String {
    format!("[network]\nlisten = \"127.0.0.1:{port}\"\naccepted = \"guests.toml\"\n")
}

fn dialled(port: u16) -> String {
    format!("[host]\nname = \"{HOST}\"\naddress = \"localhost:{port}\"\n")
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}

/// What this program prints when it is called so.
fn own(arguments: &[&str]) -> Result<String> {
    let program = std::env::current_exe().context("this program")?;
    let done = Command::new(program).args(arguments).output().context("this program")?;
    let error = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "fedtse {}: {}", arguments.join(" "), error.trim());
    Ok(String::from_utf8(done.stdout)?)
}
