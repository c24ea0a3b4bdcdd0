//! The other side: how host and guests talk to a key authority.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use federation::grpc::dial::HostAddress;
use federation::grpc::{CertificateInfo, Identity, tls};
use federation::{KeyAuthority, KeyFailure};
use protocol::PartyId;
use protocol::ledger::Released;
use protocol::message::key_authority::ToAuthority;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::warn;

use super::frames::{read_reply, write_request};

/// How long an authority has to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pauses between attempts: twice as long each time, from the first to the last of these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A key authority over the network, dialled when it is asked, and again where the connection breaks. Calls wait for the answer.
pub struct RemoteAuthority {
    runtime: Runtime,
    tls: TlsConnector,
    address: HostAddress,
    name: PartyId,
    stream: Option<TlsStream<TcpStream>>,
}

/// Why there is no answer.
enum Trouble {
    /// The connection: another attempt may do.
    Connection(String),
    /// The authority refuses, or is another one.
    Final(String),
}

impl RemoteAuthority {
    /// An authority that must have this name, dialled with a guest's identity.
    pub fn new(
        address: HostAddress,
        name: PartyId,
        identity: Identity,
        roots: &[CertificateDer<'static>],
    ) -> Result<Self> {
        let tls = TlsConnector::from(tls::guest_side(identity, roots)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, tls, address, name, stream: None })
    }

    fn attempt(&mut self, request: &[u8], left: Duration) -> Result<Vec<u8>, Trouble> {
        let Self { runtime, tls, address, name, stream } = self;
        runtime.block_on(async {
            let exchange = async {
                let open = match stream.take() {
                    Some(open) => open,
                    None => dial(tls, address, name).await?,
                };
                let open = stream.insert(open);
                let broken = |error: std::io::Error| Trouble::Connection(error.to_string());
                write_request(open, request).await.map_err(broken)?;
                read_reply(open).await.map_err(broken)?.map_err(Trouble::Final)
            };
            let late = |_| Trouble::Connection("no answer in time".to_owned());
            timeout(left, exchange).await.map_err(late)?
        })
    }
}

async fn dial(
    tls: &TlsConnector,
    address: &HostAddress,
    name: &PartyId,
) -> Result<TlsStream<TcpStream>, Trouble> {
    let broken = |error: std::io::Error| Trouble::Connection(error.to_string());
    let stream = TcpStream::connect(&address.address).await.map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    let stream = tls.connect(address.name.clone(), stream).await.map_err(broken)?;
    let certificates = stream.get_ref().1.peer_certificates();
    let certified = || {
        let certificate = certificates.and_then(|all| all.first());
        let certificate = certificate.ok_or_else(|| anyhow::anyhow!("no certificate"))?;
        let found = CertificateInfo::of(certificate)?.name;
        ensure!(found == *name, "found `{found}`, expected `{name}`");
        Ok(())
    };
    certified().map_err(|error| Trouble::Final(format!("{error:#}")))?;
    Ok(stream)
}

impl KeyAuthority for RemoteAuthority {
    fn name(&self) -> &PartyId {
        &self.name
    }

    fn ask(&mut self, message: &Released<ToAuthority>) -> Result<Vec<u8>, KeyFailure> {
        let (began, mut pause) = (Instant::now(), PAUSES.0);
        loop {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let problem = match self.attempt(message.bytes(), left) {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Final(problem)) => {
                    return Err(KeyFailure(format!("`{}` refuses: {problem}", self.name)));
                }
                Err(Trouble::Connection(problem)) => problem,
            };
            self.stream = None;
            let address = &self.address.address;
            if began.elapsed() + pause >= PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(KeyFailure(format!(
                    "{address}: {problem}; given up after {seconds} s"
                )));
            }
            warn!("key authority at {address}: {problem}; trying again");
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSES.1);
        }
    }
}
