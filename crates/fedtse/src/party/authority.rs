//! `fedtse authority`: the key authority of functional encryption, as a process of its own.
//!
//! ```text
//! guest       ──► a new public key?      ◄── the public key, once its master key is on the disk
//! host alone  ──► rows of A, of a guest? ◄── their keys, once the count of rows is on the disk
//! ```
//!
//! Over TLS 1.3 with certificates of the federation on both sides. Who sees what is in docs/sealed.md.

pub mod client;
mod frames;
pub(crate) mod section;
mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use federation::KeyDesk;
use federation::grpc::{CertificateInfo, tls};
use protocol::PartyId;
use protocol::message::key_authority::ToAuthority;
use protocol::message::sealed::MAX_SEALED;
use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use super::arguments::ConfigArguments;
use super::config::{IdentitySection, ObserveSection};
use super::{logs, network_threads, own_name, stopping};
use frames::{read_request, write_reply};
use store::KeyStore;

/// How long a connection may take to say who it is, and then be silent.
const HANDSHAKE: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(300);
/// Connections at once.
const CONNECTIONS: usize = 64;

/// Issue keys of functional encryption, as a party that is neither host nor guest
///
/// The authority sees every row of the host's matrix, and with a ciphertext it could read all of it. It issues keys for at most
/// half as many rows as a batch has values, also after a restart, and none for public keys that others have taken the place of.
/// Runs until SIGTERM or Ctrl-C.
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
#[serde(deny_unknown_fields)]
struct KeysSection {
    folder: PathBuf,
}

/// The authority as it was left, or a new one.
fn open(folder: &Path, host: PartyId) -> Result<(KeyDesk, KeyStore)> {
    let store = KeyStore::open(folder)?;
    let mut desk = KeyDesk::new(host);
    for guest in store.guests()? {
        let state = store.read(&guest)?;
        desk.restore(&guest, &state)
            .with_context(|| format!("{}", store.path(&guest).display()))?;
    }
    Ok((desk, store))
}

/// What all connections share.
struct Office {
    desk: Mutex<(KeyDesk, KeyStore)>,
}

pub(crate) fn run(arguments: &AuthorityArguments, json: bool) -> Result<()> {
    let example = include_str!("authority.toml");
    let Some((config, folder)) = arguments.file.read::<AuthorityConfig>(example)? else {
        return Ok(());
    };
    logs::start(&config.observe)?;
    let (identity, roots) = config.identity.read(&folder)?;
    let name = own_name(identity.certificate_info())?;
    let tls = tls::host_side(identity, &roots)?;
    let host = PartyId::new(&config.network.host).context("network.host")?;
    let (desk, store) = open(&folder.join(&config.keys.folder), host)?;
    let guests = store.guests()?.len();
    let office = Arc::new(Office { desk: Mutex::new((desk, store)) });
    let runtime = network_threads()?;
    runtime.block_on(async {
        let mut stop = stopping::on_signal().await?;
        let address = config.network.listen;
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("network.listen: {address}"))?;
        let address = listener.local_addr()?;
        info!(authority = %name, %address, guests, "waiting for questions");
        if json {
            println!("{}", json!({"listening": address, "guests": guests}));
        } else {
            println!("listening on {address}, {guests} guests have public keys");
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
    while let Some(request) = timeout(SILENCE, read_request(&mut stream, MAX_SEALED)).await?? {
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
    fn reply(&self, name: &PartyId, request: &[u8]) -> Result<Vec<u8>, String> {
        let message = ToAuthority::decode(request).map_err(|error| error.to_string())?;
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let (desk, store) = &mut *desk;
        let answer = desk.answer(name, &message).map_err(|error| error.to_string())?;
        let guest = match &message {
            ToAuthority::PublicKey { .. } => name,
            ToAuthority::Keys { guest, .. } => guest,
        };
        // Nothing leaves before it is stored for good, also not what was counted before and could not be stored.
        let state = desk.authorities().state(guest.as_str()).unwrap_or_default();
        store.write(guest, &state).map_err(|error| {
            warn!("state not stored: {error:#}");
            "the authority cannot store what it has issued".to_owned()
        })?;
        let rows = desk.authorities().issued(guest.as_str());
        debug!(party = %name, %guest, rows, "answered");
        Ok(answer)
    }
}
