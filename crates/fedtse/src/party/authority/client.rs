//! The other side: how host and guests talk to a key authority.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use federation::grpc::dial::HostAddress;
use federation::grpc::{CertificateInfo, Identity, tls};
use protocol::PartyId;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::frames::{Request, read_reply, write_request};

/// How long an authority has to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a key authority. Calls wait for the answer.
pub struct KeyAuthority {
    runtime: Runtime,
    stream: TlsStream<TcpStream>,
}

impl KeyAuthority {
    /// Dials an authority that must have this name, with a guest's identity.
    pub fn dial(
        address: &HostAddress,
        name: &PartyId,
        identity: Identity,
        roots: &[CertificateDer<'static>],
    ) -> Result<Self> {
        let tls = TlsConnector::from(tls::guest_side(identity, roots)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stream = runtime.block_on(async {
            let dialled = async {
                let stream = TcpStream::connect(&address.address).await?;
                stream.set_nodelay(true)?;
                tls.connect(address.name.clone(), stream).await
            };
            timeout(PATIENCE, dialled)
                .await
                .context("key authority: no answer")?
                .map_err(|error| anyhow!("key authority at {}: {error}", address.address))
        })?;
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.and_then(|all| all.first()).context("no certificate")?;
        let found = CertificateInfo::of(certificate)?.name;
        ensure!(found == *name, "key authority: found `{found}`, expected `{name}`");
        Ok(Self { runtime, stream })
    }

    /// What guests encrypt to.
    pub fn public_key(&mut self) -> Result<Vec<u8>> {
        self.ask(&Request::PublicKey)
    }

    /// Keys for the rows of a question, for the host alone.
    pub fn keys(&mut self, question: Vec<u8>) -> Result<Vec<u8>> {
        self.ask(&Request::Keys(question))
    }

    fn ask(&mut self, request: &Request) -> Result<Vec<u8>> {
        let Self { runtime, stream } = self;
        let reply = runtime.block_on(async {
            let exchange = async {
                write_request(stream, request).await?;
                read_reply(stream).await
            };
            timeout(PATIENCE, exchange)
                .await
                .context("key authority: no answer in time")?
                .context("key authority")
        })?;
        reply.map_err(|problem| anyhow!("the key authority refuses: {problem}"))
    }
}
