//! The live map: a page and an HTTP API with the estimates of now and of the stored past.
//!
//! ```text
//! fedtse live host ──► publisher ──► history (embedded, or PostgreSQL)
//!                          └──────► feed ──► site ──► door: readers, on threads of their own
//! fedtse serve ────────────────────────────► site     the same, of a past that is stored already
//! ```

mod body;
pub mod door;
mod exports;
pub mod feed;
pub mod history;
mod map;
mod pages;
mod past;
pub mod publisher;
mod query;
mod rates;
pub mod record;
pub mod settings;
pub mod site;
mod token;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use tracing::warn;
use traffic::Step;

use self::door::Door;
use self::feed::Feed;
use self::history::History;
use self::record::About;
use self::settings::{LogsOfServe, ReadersSection};
use self::site::{Parts, Site};
use crate::party::{logs, stopping};

/// Describes the API to machines; a test compares it with real answers.
pub const OPENAPI: &str = include_str!("serve/openapi.json");
/// How often a past that others write is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Show the stored past of a host on a map, and answer questions about it over HTTP
///
/// A live host has the same map at its own address (`publish.http`). This command shows a past without a host, or
/// takes readers off it: from PostgreSQL it follows what a running host writes there.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse serve --history city/run/history\n  fedtse serve --history postgres://reader@localhost/city --http 0.0.0.0:8080"
)]
pub struct ServeArguments {
    /// The folder of an embedded past, or postgres://USER@HOST/DATABASE
    #[arg(long)]
    history: String,
    /// Where to answer
    #[arg(long, default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// A file with the token for whoever may cut the past; without one nobody can
    #[arg(long)]
    token: Option<PathBuf>,
    /// Requests a second that each address may make
    #[arg(long, default_value_t = settings::REQUESTS_PER_S)]
    requests_per_s: f64,
    /// A basemap: https://HOST/{z}/{x}/{y}.png; without one the page asks nobody else for anything
    #[arg(long, requires = "attribution")]
    tiles: Option<String>,
    /// Who made the basemap, as its licence wants it shown
    #[arg(long)]
    attribution: Option<String>,
}

pub fn run(arguments: &ServeArguments, json: bool) -> Result<()> {
    logs::start(&LogsOfServe::default().0)?;
    let readers = ReadersSection::of_arguments(arguments);
    let places = readers.places()?;
    let (history, about) = history::open_alone(&arguments.history)?;
    let (about, feed) = (Arc::new(about), Arc::<Feed>::default());
    let mut newest = None;
    look(&history, &about, &feed, &mut newest);
    let live = history::is_postgres(&arguments.history);
    let site =
        readers.site(Path::new(""), &about, &feed, Some((Arc::clone(&history), None)), live)?;
    let door = Door::open(arguments.http, places, Arc::new(Site::new(site)))?;
    let address = door.address;
    if json {
        println!("{}", json!({"url": format!("http://{address}/")}));
    } else {
        println!("map at http://{address}/ (Ctrl-C ends it)");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("threads")?;
    runtime.block_on(async {
        let mut stop = stopping::on_signal().await?;
        loop {
            tokio::select! {
                _ = stop.changed() => return Ok(()),
                () = tokio::time::sleep(LOOK) => {}
            }
            if live {
                // Its own runtime would be entered twice: the store waits for answers by itself.
                std::thread::scope(|scope| {
                    scope.spawn(|| look(&history, &about, &feed, &mut newest));
                });
            }
        }
    })
}

/// Publishes what is new since the last look.
fn look(history: &Arc<dyn History>, about: &About, feed: &Feed, newest: &mut Option<Step>) {
    let found = history.stretches().and_then(|all| {
        let Some(last) = all.last().map(|stretch| stretch.last) else { return Ok(()) };
        // Of what was there before, only the last.
        let from = newest.map_or(last, |newest| Step(newest.0 + 1));
        history.each(from, last, &mut |record| {
            *newest = Some(record.step);
            feed.publish(about, &record, None, true);
            true
        })
    });
    if let Err(error) = found {
        warn!("the past cannot be read: {error:#}");
    }
}

impl Parts {
    fn of(about: &Arc<About>, feed: &Arc<Feed>) -> Self {
        Parts {
            about: Arc::clone(about),
            feed: Arc::clone(feed),
            history: None,
            keep_s: None,
            live: true,
            token: None,
            tiles: None,
        }
    }
}
