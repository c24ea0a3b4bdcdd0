//! The stored past of a host: an embedded database by default, PostgreSQL by URL.
//!
//! ```text
//! "history"                     a folder: history.redb in it, for one process at a time
//! "postgres://user@host/city"   tables in a schema of their own, for any number of readers
//! ```

mod codec;
mod embedded;
mod postgres;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use estimator::TargetKind;
use serde::{Deserialize, Serialize};
use traffic::{Step, network_hash, parse_network, write_network};

pub use embedded::Embedded;
pub use postgres::Postgres;

use super::record::{About, LinkRecord, Record};

/// The format that this version writes and reads.
const FORMAT: &str = "fedtse-history/1";

/// Consecutive steps that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    pub first: Step,
    pub last: Step,
}

/// A link at one step of the past.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkMoment {
    pub step: Step,
    pub link: LinkRecord,
    pub participants: std::collections::BTreeMap<String, federation::live::Participation>,
}

/// Where estimates are kept, by step.
pub trait History: Send + Sync {
    /// Keeps an estimate, in the place of an earlier one of its step. It is on disk when this returns.
    fn keep(&self, record: &Record) -> Result<()>;
    /// The steps that are there, in order.
    fn stretches(&self) -> Result<Vec<Stretch>>;
    /// The estimate of a step.
    fn at(&self, step: Step) -> Result<Option<Record>>;
    /// The estimates from one step to another, both included, in order, until told to stop by `false`.
    fn each(&self, from: Step, to: Step, visit: &mut dyn FnMut(Record) -> bool) -> Result<()>;
    /// One link, by its number in the network, from one step to another.
    fn link(&self, link: usize, from: Step, to: Step) -> Result<Vec<LinkMoment>>;
    /// Forgets all before a step; how many steps that were.
    fn forget(&self, before: Step) -> Result<u64>;
}

/// Whether a name means PostgreSQL.
pub fn is_postgres(name: &str) -> bool {
    name.starts_with("postgres://") || name.starts_with("postgresql://")
}

/// Opens the past of a host, and begins it where there is none.
pub fn open(name: &str, folder: &Path, about: &About) -> Result<Arc<dyn History>> {
    if is_postgres(name) {
        return Ok(Arc::new(Postgres::open(name, about)?));
    }
    Ok(Arc::new(Embedded::open(&folder.join(name), about)?))
}

/// Opens a past by itself: what it is of stands in it.
pub fn open_alone(name: &str) -> Result<(Arc<dyn History>, About)> {
    if is_postgres(name) {
        let (history, about) = Postgres::open_alone(name)?;
        return Ok((Arc::new(history), about));
    }
    let (history, about) = Embedded::open_alone(Path::new(name))?;
    Ok((Arc::new(history), about))
}

/// What a past is of, as it stands in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AboutFile {
    format: String,
    network_hash: String,
    network: String,
    step_s: f64,
    target: TargetKind,
    guests: Vec<String>,
    interval: Option<u8>,
}

impl AboutFile {
    fn of(about: &About) -> Self {
        AboutFile {
            format: FORMAT.into(),
            network_hash: about.network_hash.clone(),
            network: write_network(&about.network),
            step_s: about.step_s,
            target: about.target,
            guests: about.guests.clone(),
            interval: about.interval,
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let file: Self = serde_json::from_str(text)?;
        ensure!(
            file.format == FORMAT,
            "history: format: found {:?}, expected {FORMAT:?}",
            file.format
        );
        Ok(file)
    }

    /// Estimates of another network cannot stand beside these.
    fn check(&self, about: &About) -> Result<()> {
        ensure!(
            self.network_hash == about.network_hash && self.step_s == about.step_s,
            "history: found estimates of network {} in steps of {} s, expected {} and {} s; choose another `store`",
            self.network_hash,
            self.step_s,
            about.network_hash,
            about.step_s
        );
        Ok(())
    }

    fn about(self) -> Result<About> {
        let network = parse_network(&self.network)?;
        let found = network_hash(&network);
        ensure!(
            found == self.network_hash,
            "history: network hash: found {found}, expected {}",
            self.network_hash
        );
        Ok(About {
            network: Arc::new(network),
            network_hash: self.network_hash,
            step_s: self.step_s,
            target: self.target,
            guests: self.guests,
            interval: self.interval,
        })
    }
}

/// Joins steps in order to stretches.
fn stretches(steps: impl Iterator<Item = Step>) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for step in steps {
        match all.last_mut() {
            Some(stretch) if stretch.last.0 + 1 == step.0 => stretch.last = step,
            _ => all.push(Stretch { first: step, last: step }),
        }
    }
    all
}
