//! What a configuration says of readers and of the past.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::ServeArguments;
use super::door::Places;
use super::feed::Feed;
use super::history::{self, History};
use super::map::Tiles;
use super::publisher::{Keeping, PATIENCE};
use super::record::About;
use super::site::Parts;
use super::token::Token;
use crate::party::config::{LogLevel, ObserveSection};

/// Of each address, unless told otherwise: a page that is dragged through the past asks often.
pub const REQUESTS_PER_S: f64 = 50.0;
const CONNECTIONS: usize = 512;
const PER_ADDRESS: usize = 64;
const MOST_CONNECTIONS: usize = 20_000;
const WEEK_H: f64 = 168.0;
const YEARS_H: f64 = 87_600.0;
const HOUR_S: f64 = 3600.0;

/// Who may read, and how much: `[readers]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadersSection {
    connections: usize,
    per_address: usize,
    requests_per_s: f64,
    token: Option<PathBuf>,
    tiles: Option<String>,
    attribution: String,
}

impl Default for ReadersSection {
    fn default() -> Self {
        ReadersSection {
            connections: CONNECTIONS,
            per_address: PER_ADDRESS,
            requests_per_s: REQUESTS_PER_S,
            token: None,
            tiles: None,
            attribution: String::new(),
        }
    }
}

impl ReadersSection {
    pub(super) fn of_arguments(arguments: &ServeArguments) -> Self {
        ReadersSection {
            requests_per_s: arguments.requests_per_s,
            token: arguments.token.clone(),
            tiles: arguments.tiles.clone(),
            attribution: arguments.attribution.clone().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Checked.
    pub fn places(&self) -> Result<Places> {
        for (field, found) in [("connections", self.connections), ("per_address", self.per_address)]
        {
            ensure!(
                (1..=MOST_CONNECTIONS).contains(&found),
                "readers.{field}: found {found}, expected 1 to {MOST_CONNECTIONS}"
            );
        }
        let requests_per_s = self.requests_per_s;
        ensure!(
            (0.1..=1e6).contains(&requests_per_s),
            "readers.requests_per_s: found {requests_per_s}, expected 0.1 to 1000000"
        );
        let Self { connections, per_address, .. } = *self;
        Ok(Places { connections, per_address, requests_per_s })
    }

    /// What is shown, of which past.
    pub fn site(
        &self,
        folder: &Path,
        about: &Arc<About>,
        feed: &Arc<Feed>,
        history: Option<(Arc<dyn History>, Option<f64>)>,
        live: bool,
    ) -> Result<Parts> {
        let token = self.token.as_ref().map(|file| Token::read(&folder.join(file))).transpose()?;
        let tiles =
            self.tiles.as_ref().map(|url| Tiles::new(url, &self.attribution)).transpose()?;
        let (history, keep_s) = match history {
            Some((history, keep_s)) => (Some(history), keep_s),
            None => (None, None),
        };
        Ok(Parts { history, keep_s, live, token, tiles, ..Parts::of(about, feed) })
    }
}

/// Where and how long estimates are kept: `[history]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistorySection {
    store: String,
    keep_hours: f64,
}

impl Default for HistorySection {
    fn default() -> Self {
        HistorySection { store: "history".into(), keep_hours: WEEK_H }
    }
}

impl HistorySection {
    /// Opens the past; none if nothing is to be kept.
    pub fn open(&self, folder: &Path, about: &About) -> Result<Option<Keeping>> {
        if self.store == "none" {
            return Ok(None);
        }
        let history = history::open(&self.store, folder, about)?;
        let steps = (self.keep_s()? / about.step_s).ceil() as i64;
        Ok(Some(Keeping { history, steps, patience: PATIENCE }))
    }

    pub fn keep_s(&self) -> Result<f64> {
        let found = self.keep_hours;
        ensure!(
            found > 0.0 && found <= YEARS_H,
            "history.keep_hours: found {found}, expected more than 0 and at most {YEARS_H}"
        );
        Ok(found * HOUR_S)
    }
}

/// The logs of `fedtse serve`: warnings only, for its output is a line for people.
pub(super) struct LogsOfServe(pub ObserveSection);

impl Default for LogsOfServe {
    fn default() -> Self {
        LogsOfServe(ObserveSection { log: LogLevel::Warn, ..ObserveSection::default() })
    }
}
