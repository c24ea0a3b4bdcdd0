//! Stored estimates of a host: an embedded database by default, PostgreSQL by URL.
//!
//! ```text
//! "history"                     a folder: history.redb in it, for one process at a time
//! "postgres://user@host/city"   tables in a schema of their own, for any number of readers
//! ```

mod embedded;
mod postgres;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::warn;
use traffic::{
    LinkState, NetworkFileError, Step, VehPerKmLane, VehPerMinLane, network_hash, parse_network,
    write_network,
};
use utoipa::ToSchema;

pub use embedded::EmbeddedHistory;
pub use postgres::PostgresHistory;

use crate::estimate::{Estimate, LinkEstimate, Participants, Participation, SeriesInfo, Target};
use crate::feed::EstimateFeed;

/// The format that this version writes and reads.
const FORMAT: &str = "fedtse-history/1";
/// Most steps that become one: a day's of 10 s.
pub(crate) const MAX_COARSE_STEPS: i64 = 8640;
/// Groups of old steps that are downsampled at a time: new estimates wait that long.
const MAX_GROUPS: u64 = 64;

/// Why stored estimates cannot be read or written.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The folder cannot be made.
    #[error("{folder}: {error}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why.
        error: std::io::Error,
    },
    /// Another process holds the database.
    #[error(
        "{path}: is open in another process (a live host?); ask that one, or keep the history in PostgreSQL"
    )]
    InUse {
        /// The file.
        path: String,
    },
    /// The embedded database cannot be opened.
    #[error("{path}: {error}")]
    Open {
        /// The file.
        path: String,
        /// Why.
        error: Box<redb::DatabaseError>,
    },
    /// The embedded database failed.
    #[error("history: {0}")]
    Embedded(Box<redb::Error>),
    /// PostgreSQL failed.
    #[error("history: PostgreSQL: {}", error_chain(.0))]
    Postgres(::postgres::Error),
    /// The URL of PostgreSQL cannot be parsed. The URL itself may contain a password, so it is not shown.
    #[error("history: expected postgres://USER@HOST/DATABASE: {0}")]
    Url(::postgres::Error),
    /// The schema's name has other characters than it may.
    #[error("history: schema: found {0:?}, expected a to z, 0 to 9 and _")]
    Schema(String),
    /// Another version wrote it.
    #[error("history: format: found {0:?}, expected {FORMAT:?}")]
    Format(String),
    /// It belongs to another network or another step length.
    #[error(
        "{place}: history: found estimates of network {found_hash} in steps of {found_step_s} s, expected {hash} and {step_s} s; choose another `store`"
    )]
    OtherSeries {
        /// The folder or schema.
        place: String,
        /// Hash of the network that is stored.
        found_hash: String,
        /// Its step length.
        found_step_s: f64,
        /// Hash of the host's network.
        hash: String,
        /// Its step length.
        step_s: f64,
    },
    /// The stored network is not the one its hash names.
    #[error("history: network hash: found {found}, expected {expected}")]
    NetworkHash {
        /// Of the stored network.
        found: String,
        /// As stored.
        expected: String,
    },
    /// The stored network cannot be read.
    #[error("history: network: {0}")]
    Network(Box<NetworkFileError>),
    /// A stored document cannot be read, or an estimate cannot be written.
    #[error("history: {0}")]
    Json(serde_json::Error),
    /// A stored estimate is damaged, or an estimate does not fit.
    #[error("history: {0}")]
    Record(String),
}

impl From<::postgres::Error> for HistoryError {
    fn from(error: ::postgres::Error) -> Self {
        HistoryError::Postgres(error)
    }
}

impl From<serde_json::Error> for HistoryError {
    fn from(error: serde_json::Error) -> Self {
        HistoryError::Json(error)
    }
}

/// An error and its causes: PostgreSQL's own text has none of them.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Steps that are stored, both ends included, at equal distances: consecutive ones, or means of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Stretch)]
pub struct StepRange {
    /// The first step.
    #[schema(value_type = i64)]
    pub first: Step,
    /// The last step.
    #[schema(value_type = i64)]
    pub last: Step,
    /// From one step to the next: 1, or of old days how many steps each is the mean of.
    pub every: i64,
}

impl StepRange {
    /// How many steps there are from one to another, both included.
    pub(crate) fn count(&self, from: Step, to: Step) -> i64 {
        let (first, last) = (self.first.max(from).0, self.last.min(to).0);
        let to_grid = (first - self.first.0).rem_euclid(self.every);
        let first = if to_grid == 0 { first } else { first + self.every - to_grid };
        if last < first { 0 } else { (last - first) / self.every + 1 }
    }
}

/// One link at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStep {
    /// The step.
    pub step: Step,
    /// The link's estimate.
    pub link: LinkEstimate,
    /// Who took part.
    pub participants: Participants,
}

/// A store of estimates by step.
pub trait History: Send + Sync {
    /// Stores an estimate, replacing an earlier one of its step. It is on disk when this returns.
    fn store(&self, estimate: &Estimate) -> Result<(), HistoryError>;
    /// Stores an estimate in the place of all from one step to another, both included, at once.
    fn replace(&self, from: Step, to: Step, by: &Estimate) -> Result<(), HistoryError>;
    /// Which steps are stored, in order.
    fn ranges(&self) -> Result<Vec<StepRange>, HistoryError>;
    /// The estimate of a step.
    fn get(&self, step: Step) -> Result<Option<Estimate>, HistoryError>;
    /// Visits the estimates from one step to another, both included, in order, until the visitor returns `false`.
    fn for_each(
        &self,
        from: Step,
        to: Step,
        visit: &mut dyn FnMut(Estimate) -> bool,
    ) -> Result<(), HistoryError>;
    /// One link, by its number in the network, from one step to another.
    fn link_series(&self, link: usize, from: Step, to: Step)
    -> Result<Vec<LinkStep>, HistoryError>;
    /// Some links, by their numbers in the network, from one step to another; of each step one estimate for each of them.
    fn route_series(
        &self,
        links: &[usize],
        from: Step,
        to: Step,
    ) -> Result<Vec<(Step, Vec<LinkEstimate>)>, HistoryError>;
    /// Deletes all before a step; how many steps that were.
    fn delete_before(&self, step: Step) -> Result<u64, HistoryError>;
}

/// Whether a name means PostgreSQL.
pub fn is_postgres(name: &str) -> bool {
    name.starts_with("postgres://") || name.starts_with("postgresql://")
}

/// Opens the history of a host, and creates it where there is none.
pub fn open(
    name: &str,
    folder: &Path,
    info: &SeriesInfo,
) -> Result<Arc<dyn History>, HistoryError> {
    if is_postgres(name) {
        return Ok(Arc::new(PostgresHistory::open(name, info)?));
    }
    Ok(Arc::new(EmbeddedHistory::open(&folder.join(name), info)?))
}

/// Opens a history that a host wrote, without the host: the network and the rest are stored in it.
pub fn open_existing(name: &str) -> Result<(Arc<dyn History>, SeriesInfo), HistoryError> {
    if is_postgres(name) {
        let (history, info) = PostgresHistory::open_existing(name)?;
        return Ok((Arc::new(history), info));
    }
    let (history, info) = EmbeddedHistory::open_existing(Path::new(name))?;
    Ok((Arc::new(history), info))
}

/// Publishes what another process stores.
pub struct HistoryFollower {
    history: Arc<dyn History>,
    info: Arc<SeriesInfo>,
    feed: Arc<EstimateFeed>,
    newest: Option<Step>,
}

impl HistoryFollower {
    /// Follows a history; nothing is published before the first poll.
    pub fn new(history: Arc<dyn History>, info: Arc<SeriesInfo>, feed: Arc<EstimateFeed>) -> Self {
        HistoryFollower { history, info, feed, newest: None }
    }

    /// Publishes what is new since the last poll; at the first, the newest estimate only. A failure is logged.
    pub fn poll(&mut self) {
        if let Err(error) = self.publish_new() {
            warn!("the history cannot be read: {error}");
        }
    }

    fn publish_new(&mut self) -> Result<(), HistoryError> {
        let ranges = self.history.ranges()?;
        let Some(last) = ranges.last().map(|range| range.last) else { return Ok(()) };
        let from = self.newest.map_or(last, |newest| Step(newest.0 + 1));
        let Self { info, feed, newest, .. } = self;
        self.history.for_each(from, last, &mut |estimate| {
            *newest = Some(estimate.step);
            feed.publish(info, &estimate, None, true);
            true
        })
    }
}

/// What a history is of, as it is stored in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredInfo {
    format: String,
    network_hash: String,
    network: String,
    step_s: f64,
    target: Target,
    guests: Vec<String>,
    interval: Option<u8>,
}

impl StoredInfo {
    fn new(info: &SeriesInfo) -> Self {
        StoredInfo {
            format: FORMAT.into(),
            network_hash: info.network_hash.clone(),
            network: write_network(&info.network),
            step_s: info.step_s,
            target: info.target,
            guests: info.guests.clone(),
            interval: info.interval,
        }
    }

    fn parse(text: &str) -> Result<Self, HistoryError> {
        let stored: Self = serde_json::from_str(text)?;
        if stored.format != FORMAT {
            return Err(HistoryError::Format(stored.format));
        }
        Ok(stored)
    }

    /// Estimates of another network do not fit.
    fn check(&self, place: &str, info: &SeriesInfo) -> Result<(), HistoryError> {
        if self.network_hash == info.network_hash && self.step_s == info.step_s {
            return Ok(());
        }
        Err(HistoryError::OtherSeries {
            place: place.to_owned(),
            found_hash: self.network_hash.clone(),
            found_step_s: self.step_s,
            hash: info.network_hash.clone(),
            step_s: info.step_s,
        })
    }

    fn info(self) -> Result<SeriesInfo, HistoryError> {
        let network =
            parse_network(&self.network).map_err(|error| HistoryError::Network(Box::new(error)))?;
        let found = network_hash(&network);
        if found != self.network_hash {
            return Err(HistoryError::NetworkHash { found, expected: self.network_hash });
        }
        Ok(SeriesInfo {
            network: Arc::new(network),
            network_hash: self.network_hash,
            step_s: self.step_s,
            target: self.target,
            guests: self.guests,
            interval: self.interval,
        })
    }
}

/// Joins consecutive steps, which are in order, to ranges.
fn join_steps(steps: impl Iterator<Item = Step>) -> Vec<StepRange> {
    let mut all: Vec<StepRange> = Vec::new();
    for step in steps {
        match all.last_mut() {
            Some(range) if range.last.0 + 1 == step.0 => range.last = step,
            _ => all.push(StepRange { first: step, last: step, every: 1 }),
        }
    }
    join_ranges(all)
}

/// Joins single steps at equal distances, as downsampling leaves them.
fn join_ranges(ranges: Vec<StepRange>) -> Vec<StepRange> {
    let mut all: Vec<StepRange> = Vec::new();
    for range in ranges {
        let single = range.first == range.last;
        match all.last_mut() {
            Some(last) if last.every > 1 && last.last.0 + last.every == range.first.0 => {
                last.last = range.first;
                if !single {
                    all.push(StepRange { first: Step(range.first.0 + 1), ..range });
                }
            }
            Some(last)
                if single
                    && last.first == last.last
                    && range.first.0 - last.last.0 <= MAX_COARSE_STEPS =>
            {
                last.every = range.first.0 - last.last.0;
                last.last = range.last;
            }
            _ => all.push(range),
        }
    }
    all
}

/// How old steps are downsampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Downsampling {
    /// Steps that stay as they are, counted back from the newest.
    pub full_steps: i64,
    /// How many older steps become one.
    pub every: i64,
}

impl Downsampling {
    /// Replaces groups of old steps by their means, a bounded number of groups at a time; how many were replaced.
    ///
    /// A group is the steps that share `floor(step / every)`; its mean stands at its last step. Density and flow are means over
    /// time, which those of equal steps add up to; speed follows from them. Intervals of single steps are not those of a mean:
    /// a mean has none. A guest counts as in if it was in all steps.
    pub(crate) fn apply(self, history: &dyn History, newest: Step) -> Result<u64, HistoryError> {
        let before = (newest.0 - self.full_steps).div_euclid(self.every) * self.every;
        let mut groups = 0;
        for range in history.ranges()? {
            if range.every >= self.every && range.first != range.last {
                continue;
            }
            let mut begin = range.first.0.div_euclid(self.every) * self.every;
            while begin <= range.last.0 && begin + self.every <= before {
                if groups == MAX_GROUPS {
                    return Ok(groups);
                }
                groups += u64::from(self.replace_group(history, begin)?);
                begin += self.every;
            }
        }
        Ok(groups)
    }

    fn replace_group(self, history: &dyn History, begin: i64) -> Result<bool, HistoryError> {
        let (from, to) = (Step(begin), Step(begin + self.every - 1));
        let mut mean: Option<Mean> = None;
        history.for_each(from, to, &mut |estimate| {
            match &mut mean {
                Some(mean) => mean.add(&estimate),
                None => mean = Some(Mean::new(estimate)),
            }
            true
        })?;
        // Nothing, or done already.
        let Some(mean) = mean.filter(|mean| mean.steps > 1 || mean.sum.step != to) else {
            return Ok(false);
        };
        history.replace(from, to, &mean.finish(to))?;
        Ok(true)
    }
}

/// The mean of estimates.
struct Mean {
    sum: Estimate,
    steps: u32,
}

impl Mean {
    fn new(first: Estimate) -> Self {
        Mean { sum: first, steps: 1 }
    }

    fn add(&mut self, estimate: &Estimate) {
        self.steps += 1;
        for (sum, state) in self.sum.states.iter_mut().zip(&estimate.states) {
            sum.density = VehPerKmLane::new(sum.density.get() + state.density.get());
            sum.flow = VehPerMinLane::new(sum.flow.get() + state.flow.get());
        }
        for (guest, how) in &estimate.participants {
            let worst = self.sum.participants.entry(guest.clone()).or_insert(*how);
            if *worst == Participation::In {
                *worst = *how;
            }
        }
        (self.sum.made_s, self.sum.latency_s) = (estimate.made_s, estimate.latency_s);
    }

    fn finish(self, step: Step) -> Estimate {
        let share = 1.0 / f64::from(self.steps);
        let states = self.sum.states.iter().map(|sum| LinkState {
            density: VehPerKmLane::new(sum.density.get() * share),
            flow: VehPerMinLane::new(sum.flow.get() * share),
        });
        Estimate { step, states: states.collect(), intervals: None, ..self.sum }
    }
}
