//! TLS between parties: version 1.3 only, both sides show a certificate of the same authority.
//!
//! No session is ever resumed, so every connection proves its certificate anew.

use std::sync::Arc;

use thiserror::Error;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::identity::{Identity, Role};

const HTTP2: &[u8] = b"h2";

/// Why a party cannot speak TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A certificate for the other side.
    #[error("certificate of `{name}`: found one of a {found:?}, expected one of a {expected:?}")]
    Role {
        /// Whose.
        name: String,
        /// What it is for.
        found: Role,
        /// What it is used for.
        expected: Role,
    },
    /// The authority's certificate, the party's or its key cannot be used.
    #[error("TLS: {0}")]
    Unusable(String),
}

/// How a host answers: only those with a certificate of the authority get through.
pub fn host_side(
    identity: Identity,
    authority: &[CertificateDer<'static>],
) -> Result<Arc<ServerConfig>, TlsError> {
    check_role(&identity, Role::Host)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(authority)?, provider())
        .build()
        .map_err(unusable)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain, identity.key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// How a guest dials: only a host with a certificate of the authority gets an answer.
pub fn guest_side(
    identity: Identity,
    authority: &[CertificateDer<'static>],
) -> Result<Arc<ClientConfig>, TlsError> {
    check_role(&identity, Role::Guest)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots(authority)?)
        .with_client_auth_cert(identity.chain, identity.key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn check_role(identity: &Identity, expected: Role) -> Result<(), TlsError> {
    let info = identity.certificate_info();
    if info.role == expected {
        return Ok(());
    }
    Err(TlsError::Role { name: info.name.to_string(), found: info.role, expected })
}

fn roots(authority: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in authority {
        roots.add(certificate.clone()).map_err(unusable)?;
    }
    Ok(Arc::new(roots))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn unusable(error: impl std::fmt::Display) -> TlsError {
    TlsError::Unusable(error.to_string())
}
