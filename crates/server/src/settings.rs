//! The sections of a host's configuration about readers and stored estimates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::HeaderValue;
use serde::Deserialize;
use thiserror::Error;

use crate::api::Site;
use crate::estimate::SeriesInfo;
use crate::feed::EstimateFeed;
use crate::history::{self, Downsampling, History, HistoryError, MAX_COARSE_STEPS};
use crate::http_server::ConnectionLimit;
use crate::publisher::{STORE_TIMEOUT, Storage};
use crate::tiles::Tiles;
use crate::token::{Token, TokenError};

/// Default of each address: a page that is dragged through the history requests often.
pub const REQUESTS_PER_S: f64 = 50.0;
const CONNECTIONS: usize = 512;
const PER_ADDRESS: usize = 64;
const MAX_CONNECTIONS: usize = 20_000;
const WEEK_H: f64 = 168.0;
const MAX_KEEP_H: f64 = 87_600.0;
const HOUR_S: f64 = 3600.0;
const MINUTE_S: f64 = 60.0;

/// What is wrong in a configuration.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// A number is out of its range.
    #[error("{field}: found {found}, expected {expected}")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        found: f64,
        /// Its range.
        expected: String,
    },
    /// The URL of the basemap.
    #[error(
        "readers.tiles: found {0:?}, expected https://HOST/{{z}}/{{x}}/{{y}}.png (or .mvt), https://HOST/FILE.pmtiles, or a PMTiles file"
    )]
    Tiles(String),
    /// The file of the basemap cannot be read.
    #[error("readers.tiles: {path}: {error}")]
    TilesFile {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The file of the basemap is another one.
    #[error("readers.tiles: {path}: found another file, expected a PMTiles file of version 3")]
    NoPmtiles {
        /// The file.
        path: String,
    },
    /// The name of a server.
    #[error("readers.{field}: found {found:?}, expected {expected}")]
    Name {
        /// The field.
        field: &'static str,
        /// What it has.
        found: String,
        /// What it should have.
        expected: &'static str,
    },
    /// The token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The history.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// Who may read, and how much: `[readers]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadersSection {
    /// Simultaneous connections.
    pub connections: usize,
    /// Simultaneous connections of one address.
    pub per_address: usize,
    /// Requests per second of one address.
    pub requests_per_s: f64,
    /// A file with the bearer token.
    pub token: Option<PathBuf>,
    /// A basemap: URL of tiles with `{z}`, `{x}` and `{y}`, or URL or file of a PMTiles archive.
    pub tiles: Option<String>,
    /// Attribution of the basemap.
    pub attribution: String,
    /// Names that readers know this server by, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Other sites whose pages may read, as `https://HOST`.
    pub origins: Vec<String>,
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
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }
}

impl ReadersSection {
    /// Checks the limits.
    pub fn connection_limit(&self) -> Result<ConnectionLimit, SettingsError> {
        let Self { connections, per_address, requests_per_s, .. } = *self;
        for (field, found) in
            [("readers.connections", connections), ("readers.per_address", per_address)]
        {
            if !(1..=MAX_CONNECTIONS).contains(&found) {
                let expected = format!("1 to {MAX_CONNECTIONS}");
                return Err(SettingsError::Range { field, found: found as f64, expected });
            }
        }
        if !(0.1..=1e6).contains(&requests_per_s) {
            return Err(SettingsError::Range {
                field: "readers.requests_per_s",
                found: requests_per_s,
                expected: "0.1 to 1000000".into(),
            });
        }
        Ok(ConnectionLimit { connections, per_address, requests_per_s })
    }

    /// The basemap, if there is one. Relative paths start at the folder.
    fn basemap(&self, folder: &Path) -> Result<Option<Tiles>, SettingsError> {
        let tiles = self.tiles.as_ref();
        tiles.map(|from| Tiles::new(from, folder, &self.attribution)).transpose()
    }

    /// Checks that the basemap can be served.
    pub fn check_basemap(&self, folder: &Path) -> Result<(), SettingsError> {
        self.basemap(folder).map(drop)
    }

    /// What is served, from which history. Relative paths start at the folder.
    pub fn site(
        &self,
        folder: &Path,
        info: &Arc<SeriesInfo>,
        feed: &Arc<EstimateFeed>,
        history: Option<(Arc<dyn History>, Option<f64>)>,
        live: bool,
    ) -> Result<Site, SettingsError> {
        let token = self.token.as_ref().map(|file| Token::read(&folder.join(file))).transpose()?;
        let tiles = self.basemap(folder)?;
        let (history, keep_s) = match history {
            Some((history, keep_s)) => (Some(history), keep_s),
            None => (None, None),
        };
        let (info, feed) = (Arc::clone(info), Arc::clone(feed));
        let hosts = self.hosts.clone();
        if let Some(name) = hosts.iter().find(|name| !is_host(name) || name.contains(':')) {
            let expected = "a name without scheme and port";
            return Err(SettingsError::Name { field: "hosts", found: name.clone(), expected });
        }
        let origin = |origin: &String| {
            let host = ["https://", "http://"].iter().find_map(|s| origin.strip_prefix(s));
            let header = HeaderValue::try_from(origin).ok().filter(|_| host.is_some_and(is_host));
            let (found, expected) = (origin.clone(), "https://HOST or http://HOST");
            header.ok_or(SettingsError::Name { field: "origins", found, expected })
        };
        let origins = self.origins.iter().map(origin).collect::<Result<_, _>>()?;
        Ok(Site { info, feed, history, keep_s, live, token, tiles, hosts, origins })
    }
}

/// Whether this may be the host of a URL, with its port.
pub(crate) fn is_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

/// Where and how long estimates are stored: `[history]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistorySection {
    store: String,
    keep_hours: f64,
    full_hours: Option<f64>,
    coarse_s: f64,
}

impl Default for HistorySection {
    fn default() -> Self {
        HistorySection {
            store: "history".into(),
            keep_hours: WEEK_H,
            full_hours: None,
            coarse_s: MINUTE_S,
        }
    }
}

impl HistorySection {
    /// Opens the history; none if nothing is to be stored.
    pub fn open(&self, folder: &Path, info: &SeriesInfo) -> Result<Option<Storage>, SettingsError> {
        if self.store == "none" {
            return Ok(None);
        }
        let steps = (self.keep_s()? / info.step_s).ceil() as i64;
        let downsampling = self.downsampling(info.step_s)?;
        let history = history::open(&self.store, folder, info)?;
        Ok(Some(Storage { history, steps, downsampling, timeout: STORE_TIMEOUT }))
    }

    /// How estimates older than `full_hours` become fewer; not at all without it.
    fn downsampling(&self, step_s: f64) -> Result<Option<Downsampling>, SettingsError> {
        let Some(found) = self.full_hours else { return Ok(None) };
        if !(found > 0.0 && found <= self.keep_hours) {
            let expected = format!("more than 0 and at most keep_hours, {}", self.keep_hours);
            return Err(SettingsError::Range { field: "history.full_hours", found, expected });
        }
        let every = (self.coarse_s / step_s).round();
        let max = MAX_COARSE_STEPS as f64;
        if !((2.0..=max).contains(&every) && (every * step_s - self.coarse_s).abs() < 1e-6) {
            let expected = format!("2 to {max} times the step of {step_s} s");
            let found = self.coarse_s;
            return Err(SettingsError::Range { field: "history.coarse_s", found, expected });
        }
        let full_steps = (found * HOUR_S / step_s).ceil() as i64;
        Ok(Some(Downsampling { full_steps, every: every as i64 }))
    }

    /// How long estimates are kept, in seconds.
    pub fn keep_s(&self) -> Result<f64, SettingsError> {
        let found = self.keep_hours;
        if !(found > 0.0 && found <= MAX_KEEP_H) {
            let expected = format!("more than 0 and at most {MAX_KEEP_H}");
            return Err(SettingsError::Range { field: "history.keep_hours", found, expected });
        }
        Ok(found * HOUR_S)
    }
}
