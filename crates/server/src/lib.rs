//! Live estimates over HTTP: a map, an API, and the stored history.
//!
//! 1. [`Publisher`] takes each [`Estimate`] from the host, on threads of its own.
//! 2. [`history`] stores it: in an embedded database, or in PostgreSQL.
//! 3. [`EstimateFeed`] holds the latest estimate and the stream of new ones, once they are stored.
//! 4. The API (`/v1`, described by [`openapi_json`]) and the page answer from the feed and the history.
//! 5. [`HttpServer`] limits connections, requests and slow clients.
//!
//! ```text
//! live host ──► Publisher ──► history ──► EstimateFeed ──► API ──► HttpServer: readers
//! fedtse serve ─────────────► history ──► EstimateFeed ──► …       the same, without a host
//! ```
//!
//! The crate knows neither models nor the protocol: an estimate is density and flow of every link.

mod alarms;
mod api;
mod assets;
mod datex;
mod estimate;
mod feed;
pub mod history;
mod http_server;
pub mod monitoring;
mod packed;
mod publisher;
mod rate_limit;
pub mod settings;
mod tiles;
mod token;
mod webhook;

pub use alarms::{AlarmError, AlarmsSection};
pub use api::{Site, openapi_json};
pub use estimate::{
    Estimate, LinkEstimate, LinkInterval, Participants, Participation, SeriesInfo, Target, Totals,
};
pub use feed::EstimateFeed;
pub use history::{Downsampling, History, HistoryError, HistoryFollower, LinkStep, StepRange};
pub use http_server::{ConnectionLimit, HttpServer, ServerError};
pub use publisher::{Publisher, PublisherError, Storage, StoreCounts};
pub use settings::{HistorySection, ReadersSection, SettingsError};
pub use token::{Token, TokenError};
pub use webhook::WebhookError;
