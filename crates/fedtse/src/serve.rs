//! `fedtse serve`: the map and the API of a stored history, without a host.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use server::{
    AlarmsSection, EstimateFeed, HistoryFollower, HttpServer, ReadersSection, history, settings,
};

use crate::party::config::{LogLevel, ObserveSection};
use crate::party::{logs, stopping};

/// How often a history that another process writes is read.
const POLL: Duration = Duration::from_secs(1);

/// Serve the stored estimates of a host: a map and an HTTP API
///
/// A live host serves the same map at its own address (`publish.http`). This command serves a history without a host,
/// or relieves it of readers: from PostgreSQL it follows what a running host writes there.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fedtse serve --history city/run/history\n  fedtse serve --history postgres://reader@localhost/city --http 0.0.0.0:8080"
)]
pub(crate) struct ServeArguments {
    /// Folder of an embedded history, or postgres://USER@HOST/DATABASE
    #[arg(long)]
    history: String,
    /// Address to listen at
    #[arg(long, default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// File with the bearer token for deleting estimates; without one, nothing can be deleted
    #[arg(long)]
    token: Option<PathBuf>,
    /// Requests per second of each address
    #[arg(long, default_value_t = settings::REQUESTS_PER_S)]
    requests_per_s: f64,
    /// Name that readers know this server by, as behind a proxy; besides addresses and localhost
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Another site whose pages may read: https://HOST
    #[arg(long = "origin", value_name = "URL")]
    origins: Vec<String>,
    #[command(flatten)]
    page: PageArguments,
}

/// The basemap and the alarms of a page.
#[derive(Args)]
pub(crate) struct PageArguments {
    /// Basemap: a PMTiles file, its URL, or tiles as https://HOST/{z}/{x}/{y}.png (or .mvt); without one the page loads
    /// nothing from other servers
    #[arg(long, value_name = "FILE|URL")]
    pub tiles: Option<String>,
    /// Attribution of the basemap, as its licence requires
    #[arg(long, requires = "tiles")]
    pub attribution: Option<String>,
    /// Alarm of links beyond a threshold, as "density > 70 for 3 steps" or "speed < 10 on E1, E2"; may be given again
    #[arg(long = "alarm", value_name = "RULE")]
    pub alarms: Vec<String>,
    /// Post alarms as JSON to http://HOST:PORT/PATH
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
}

impl PageArguments {
    pub(crate) fn check(&self) -> Result<()> {
        let elsewhere = self.tiles.as_ref().filter(|tiles| tiles.contains("://"));
        if let Some(tiles) = elsewhere.filter(|_| self.attribution.is_none()) {
            bail!("--tiles {tiles}: found no --attribution, expected that of the tiles' makers");
        }
        let readers = ReadersSection { tiles: self.tiles.clone(), ..ReadersSection::default() };
        Ok(readers.check_basemap(Path::new(""))?)
    }

    pub(crate) fn alarms(&self) -> AlarmsSection {
        AlarmsSection { rules: self.alarms.clone(), webhook: self.webhook.clone() }
    }
}

pub(crate) fn run(arguments: &ServeArguments, json: bool) -> Result<()> {
    arguments.page.check()?;
    // Warnings only: the output is one line for people.
    logs::start(&ObserveSection { log: LogLevel::Warn, ..ObserveSection::default() })?;
    let readers = ReadersSection {
        requests_per_s: arguments.requests_per_s,
        token: arguments.token.clone(),
        hosts: arguments.hosts.clone(),
        origins: arguments.origins.clone(),
        tiles: arguments.page.tiles.clone(),
        attribution: arguments.page.attribution.clone().unwrap_or_default(),
        ..ReadersSection::default()
    };
    let limit = readers.connection_limit()?;
    let (history, info) = history::open_existing(&arguments.history)?;
    let feed = Arc::new(EstimateFeed::with_alarms(&arguments.page.alarms(), &info)?);
    let info = Arc::new(info);
    let (of_follower, of_feed) = (Arc::clone(&history), Arc::clone(&feed));
    let mut follower = HistoryFollower::new(of_follower, Arc::clone(&info), of_feed);
    follower.poll();
    let live = history::is_postgres(&arguments.history);
    let site = readers.site(Path::new(""), &info, &feed, Some((history, None)), live)?;
    let server = HttpServer::start(arguments.http, limit, site)?;
    let address = server.address();
    if json {
        println!("{}", json!({"url": format!("http://{address}/")}));
    } else {
        println!("map at http://{address}/ (Ctrl-C ends it)");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("threads")?;
    let stopped = runtime.block_on(async {
        let mut stop = stopping::on_signal().await?;
        loop {
            tokio::select! {
                _ = stop.changed() => return Ok(()),
                () = tokio::time::sleep(POLL) => {}
            }
            if live {
                // The PostgreSQL client runs a runtime of its own, which must not be entered from this one.
                std::thread::scope(|scope| {
                    scope.spawn(|| follower.poll());
                });
            }
        }
    });
    // Its threads end before the connection to PostgreSQL, which they must not close, is closed by the follower.
    drop(server);
    stopped
}
