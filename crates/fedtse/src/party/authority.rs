//! `fedtse authority`: the key authority of functional encryption, as a process of its own.
//!
//! ```text
//! guest, host ──► public key?      ◄── the public key
//! host alone  ──► rows of A?       ◄── their keys, once the count of rows is on the disk
//! ```
//!
//! Over TLS 1.3 with certificates of the federation on both sides. Who sees what is in docs/sealed.md.

pub mod client;
mod frames;
mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use federation::grpc::{CertificateInfo, tls};
use protocol::PartyId;
use sealed::ipfe::Authority;
use sealed::{Agreement, Answerer, Grid};
use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use super::arguments::ConfigArguments;
use super::config::{IdentitySection, ObserveSection};
use super::{logs, network_threads, own_name, stopping};
use frames::{Request, read_request, write_reply};
use store::KeyStore;

/// How long a connection may take to say who it is, and then be silent.
const HANDSHAKE: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(300);
/// Connections at once.
const CONNECTIONS: usize = 64;

/// Issue keys of functional encryption, as a party that is neither host nor guest
///
/// The authority sees every row of the host's matrix, and with a ciphertext it could read all of it. It counts the rows that
/// have keys and refuses more than a limit, also after a restart. Runs until SIGTERM or Ctrl-C.
#[derive(Args)]
#[command(
    after_help = "Example:\n  fedtse authority --example > authority.toml\n  fedtse authority --config authority.toml"
)]
pub(crate) struct AuthorityArguments {
    #[command(flatten)]
    file: ConfigArguments,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorityConfig {
    identity: IdentitySection,
    network: NetworkSection,
    keys: KeysSection,
    #[serde(default)]
    observe: ObserveSection,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkSection {
    listen: SocketAddr,
    host: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct KeysSection {
    folder: PathBuf,
    width: usize,
    low: f64,
    high: f64,
    levels: i32,
    most_rows: usize,
    most_keys: Option<usize>,
}

impl KeysSection {
    fn agreement(&self) -> Result<Agreement> {
        let Self { width, low, high, levels, most_rows, .. } = *self;
        let grid = Grid::new(low, high, levels).context("keys")?;
        // It keeps no blocks.
        Agreement { width, grid, most_rows, most_blocks: 1 }.checked().context("keys")
    }

    /// The authority as it was left, or a new one.
    fn open(&self, folder: &Path) -> Result<(Authority, KeyStore)> {
        let agreement = self.agreement()?;
        let store = KeyStore::open(&folder.join(&self.folder))?;
        let authority = match store.read()? {
            Some(state) => Authority::restore(agreement, &state)
                .with_context(|| format!("{}", store.path().display()))?,
            None => Authority::new(agreement)?,
        };
        let authority = match self.most_keys {
            Some(most) => authority.with_most_keys(most).context("keys.most-keys")?,
            None => authority,
        };
        store.write(&authority.state())?;
        Ok((authority, store))
    }
}

/// What all connections share.
struct Office {
    /// And how many rows are counted on the disk.
    keys: Mutex<(Authority, KeyStore, usize)>,
    host: PartyId,
    /// The longest question.
    longest: usize,
}

pub(crate) fn run(arguments: &AuthorityArguments, json: bool) -> Result<()> {
    let example = include_str!("authority.toml");
    let Some((config, folder)) = arguments.file.read::<AuthorityConfig>(example)? else {
        return Ok(());
    };
    logs::start(&config.observe)?;
    let (identity, roots) = config.identity.read(&folder)?;
    let name = own_name(identity.card())?;
    let tls = tls::host_side(identity, &roots)?;
    let (authority, store) = config.keys.open(&folder)?;
    let (issued, rows) = (authority.issued(), config.keys.most_rows);
    let office = Arc::new(Office {
        keys: Mutex::new((authority, store, issued)),
        host: PartyId::new(&config.network.host).context("network.host")?,
        longest: frames::question_limit(config.keys.width, rows),
    });
    let runtime = network_threads()?;
    runtime.block_on(async {
        let mut stop = stopping::on_signal().await?;
        let address = config.network.listen;
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("network.listen: {address}"))?;
        let address = listener.local_addr()?;
        info!(authority = %name, %address, issued, "waiting for questions");
        if json {
            println!("{}", json!({"listening": address, "issued": issued}));
        } else {
            println!("listening on {address}, {issued} rows have keys");
        }
        tokio::select! {
            () = accept(listener, TlsAcceptor::from(tls), office) => {}
            _ = stop.changed() => {}
        }
        Ok(())
    })
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, office: Arc<Office>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!("accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            warn!(%peer, "refused: {CONNECTIONS} connections are open");
            continue;
        };
        let (tls, office) = (tls.clone(), Arc::clone(&office));
        tokio::spawn(async move {
            if let Err(error) = serve(stream, tls, &office).await {
                warn!(%peer, "connection ended: {error:#}");
            }
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, office: &Office) -> Result<()> {
    let mut stream = timeout(HANDSHAKE, tls.accept(stream)).await.context("TLS handshake")??;
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates.and_then(|all| all.first()).context("no certificate")?;
    let name = CertificateInfo::of(certificate)?.name;
    while let Some(request) = timeout(SILENCE, read_request(&mut stream, office.longest)).await?? {
        let reply = office.reply(&name, &request);
        if let Err(problem) = &reply {
            warn!(party = %name, "refused: {problem}");
        }
        timeout(HANDSHAKE, write_reply(&mut stream, &reply)).await??;
    }
    Ok(())
}

impl Office {
    /// The answer, or why there is none, which the asker is told.
    fn reply(&self, name: &PartyId, request: &Request) -> Result<Vec<u8>, String> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let (authority, store, stored) = &mut *keys;
        let Request::Keys(question) = request else { return Ok(authority.public_key()) };
        if *name != self.host {
            return Err(format!("found a question of `{name}`, expected one of the host alone"));
        }
        let answer = authority.answer(question).map_err(|error| error.to_string())?;
        if authority.issued() != *stored {
            // Nothing leaves before it is counted for good, also not when a count that failed is asked for again.
            store.write(&authority.state()).map_err(|error| {
                warn!("state not stored: {error:#}");
                "the authority cannot store what it has issued".to_owned()
            })?;
            *stored = authority.issued();
            info!(rows = *stored, "keys issued");
        }
        Ok(answer)
    }
}
