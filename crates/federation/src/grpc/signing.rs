//! Signatures with the keys of certificates: a guest signs, and everyone checks against the authority.

use std::collections::BTreeMap;

use protocol::message::sums::{CertificateBytes, Signature};
use protocol::party::PartyId;
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use tokio_rustls::rustls::sign;
use webpki::{EndEntityCert, KeyUsage};

use super::identity::{CertificateInfo, Fingerprint, Identity, Role};
use super::tls::TlsError;
use crate::sums::{Credentials, Verifier};

/// What keys of certificates may sign with.
const SCHEMES: [SignatureScheme; 3] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
];

/// The key of a guest's certificate.
pub struct SigningKey {
    certificate: CertificateBytes,
    key: std::sync::Arc<dyn sign::SigningKey>,
}

impl SigningKey {
    /// That of an identity.
    ///
    /// # Errors
    /// If it cannot sign.
    pub fn of(identity: &Identity) -> Result<Self, TlsError> {
        let unusable = |problem: String| TlsError::Unusable(problem);
        let certificate = identity.chain.first().map_or(&[][..], |certificate| certificate);
        let certificate = CertificateBytes::new(certificate.to_vec());
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        let provider = provider();
        let key = provider.key_provider.load_private_key(identity.key.clone_key());
        let key = key.map_err(|error| unusable(error.to_string()))?;
        if key.choose_scheme(&SCHEMES).is_none() {
            let problem = "key: found one of another kind, expected P-256, P-384 or Ed25519";
            return Err(unusable(problem.to_owned()));
        }
        Ok(Self { certificate, key })
    }
}

impl Credentials for SigningKey {
    fn certificate(&self) -> &CertificateBytes {
        &self.certificate
    }

    fn sign(&self, statement: &[u8]) -> Result<Signature, String> {
        let signer = self.key.choose_scheme(&SCHEMES).ok_or("found a key that cannot sign")?;
        let bytes = signer.sign(statement).map_err(|error| error.to_string())?;
        Signature::new(bytes).map_err(|error| error.to_string())
    }
}

/// The certificates of guests, or of hosts, that a party trusts: those of the authority, or of these those that are pinned.
pub struct GuestCertificates {
    authority: Vec<TrustAnchor<'static>>,
    /// By name; all of the authority if none.
    pinned: Option<BTreeMap<PartyId, Vec<Fingerprint>>>,
    /// Whose they are.
    role: Role,
}

impl GuestCertificates {
    /// Of an authority.
    ///
    /// # Errors
    /// If its certificate cannot be used.
    pub fn new(
        authority: &[CertificateDer<'static>],
        pinned: Option<BTreeMap<PartyId, Vec<Fingerprint>>>,
    ) -> Result<Self, TlsError> {
        let anchor = |certificate: &CertificateDer<'static>| {
            let anchor = webpki::anchor_from_trusted_cert(certificate);
            Ok(anchor.map_err(|error| TlsError::Unusable(error.to_string()))?.to_owned())
        };
        let authority = authority.iter().map(anchor).collect::<Result<_, TlsError>>()?;
        Ok(Self { authority, pinned, role: Role::Guest })
    }

    /// The same of hosts.
    ///
    /// # Errors
    /// If the authority's certificate cannot be used.
    pub fn of_hosts(authority: &[CertificateDer<'static>]) -> Result<Self, TlsError> {
        Ok(Self { role: Role::Host, ..Self::new(authority, None)? })
    }
}

impl Verifier for GuestCertificates {
    fn verify(
        &self,
        party: &PartyId,
        certificate: &CertificateBytes,
        statement: &[u8],
        signature: &Signature,
    ) -> Result<(), String> {
        let der = CertificateDer::from(certificate.as_slice());
        let info = CertificateInfo::of(&der).map_err(|error| error.to_string())?;
        if info.role != self.role || info.name != *party {
            let found = format!("one of {:?} `{}`", info.role, info.name);
            let role = if self.role == Role::Guest { "guest" } else { "host" };
            return Err(format!(
                "certificate: found {found}, expected one of the {role} `{party}`"
            ));
        }
        if let Some(pinned) = &self.pinned {
            let expected = pinned.get(party).map_or(&[][..], |all| &all[..]);
            if !expected.contains(&info.fingerprint) {
                let found = info.fingerprint;
                return Err(format!(
                    "certificate: found {found}, expected one of {} under participants",
                    expected.len()
                ));
            }
        }
        let entity = EndEntityCert::try_from(&der).map_err(|error| error.to_string())?;
        let algorithms = provider().signature_verification_algorithms;
        let usage = match self.role {
            Role::Host => KeyUsage::server_auth(),
            _ => KeyUsage::client_auth(),
        };
        entity
            .verify_for_usage(
                algorithms.all,
                &self.authority,
                &[],
                UnixTime::now(),
                usage,
                None,
                None,
            )
            .map_err(|error| format!("certificate: {error}"))?;
        let mut usable = algorithms.mapping.iter().filter(|(scheme, _)| SCHEMES.contains(scheme));
        let signed = usable.any(|(_, all)| {
            let verify = |algorithm| {
                entity.verify_signature(algorithm, statement, signature.as_slice()).is_ok()
            };
            all.iter().any(|algorithm| verify(*algorithm))
        });
        if signed {
            return Ok(());
        }
        Err("signature: found one of another key or statement".to_owned())
    }
}

fn provider() -> CryptoProvider {
    ring::default_provider()
}

#[cfg(test)]
mod tests;
