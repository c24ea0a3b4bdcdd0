//! The private certificate authority of a federation, and the identities it signs.
//!
//! ```text
//! authority ──signs──► host   usable as server, for the host's addresses;  URI fedtse:host:NAME
//!     └───────signs──► guest  usable as client;                            URI fedtse:guest:NAME
//! ```
//!
//! Keys are P-256, drawn by the operating system. Nothing here touches files: a caller that writes
//! keys chooses where, and with which permissions.
//!
//! ```
//! use federation::certificates::{Authority, Validity};
//! let authority = Authority::create(Validity::days(3650)).unwrap();
//! let city = authority.host("city", &["city.example".into()], Validity::days(365)).unwrap();
//! assert!(city.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
//! ```

use std::net::IpAddr;

use protocol::party::{NameError, PartyId};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use thiserror::Error;
use time::{Duration, OffsetDateTime};

/// The subject of every authority. That it is constant lets an authority be read back from its key
/// alone; authorities of different federations differ by their keys.
const AUTHORITY: &str = "fedtse private authority";

/// Clocks of parties differ: a certificate is valid from an hour before it was made.
const CLOCK_DIFFERENCE: Duration = Duration::hours(1);

/// Why a certificate cannot be made.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// Not usable as the name of a party.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Neither a DNS name nor an IP address.
    #[error("address {found:?}: expected a DNS name or an IP address, without port")]
    Address {
        /// What was given.
        found: String,
    },
    /// A host needs at least one address.
    #[error("found no address of the host, expected at least one that guests dial")]
    NoAddress,
    /// More days than a certificate can be valid.
    #[error("validity: found {found} days, expected 1 to 36500")]
    Validity {
        /// What was given.
        found: u32,
    },
    /// The key of the authority cannot be read.
    #[error("key of the authority: {0}")]
    Key(String),
    /// The certificate could not be signed.
    #[error("certificate: {0}")]
    Signing(String),
}

/// From when to when a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    start: OffsetDateTime,
    days: u32,
}

impl Validity {
    /// So many days from now.
    pub fn days(days: u32) -> Self {
        Validity { start: OffsetDateTime::now_utc(), days }
    }

    /// So many days from a time in seconds since the epoch; for tests of expired certificates.
    ///
    /// Times outside years 1 to 9999 count as the epoch.
    pub fn days_from(epoch_seconds: i64, days: u32) -> Self {
        let start = OffsetDateTime::from_unix_timestamp(epoch_seconds)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Validity { start, days }
    }

    fn set(self, parameters: &mut CertificateParams) -> Result<(), CertificateError> {
        if !(1..=36_500).contains(&self.days) {
            return Err(CertificateError::Validity { found: self.days });
        }
        parameters.not_before = self.start - CLOCK_DIFFERENCE;
        parameters.not_after = self.start + Duration::days(self.days.into());
        Ok(())
    }
}

/// A certificate and its key, both as PEM text.
pub struct Issued {
    /// The certificate; public.
    pub certificate: String,
    /// The key; secret.
    pub key: String,
}

/// Redacted: the key is secret.
impl std::fmt::Debug for Issued {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Issued").field("certificate", &self.certificate).finish()
    }
}

/// Signs the certificates of one federation.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one; [`NewAuthority::issued`] is its own certificate and key.
    pub fn create(validity: Validity) -> Result<NewAuthority, CertificateError> {
        let key = KeyPair::generate().map_err(signing)?;
        let mut parameters = authority_parameters();
        validity.set(&mut parameters)?;
        let certificate = parameters.self_signed(&key).map_err(signing)?;
        let issued = Issued { certificate: certificate.pem(), key: key.serialize_pem() };
        Ok(NewAuthority { authority: Authority { issuer: Issuer::new(parameters, key) }, issued })
    }

    /// An authority made earlier, from its key as PEM.
    pub fn from_key(key: &str) -> Result<Self, CertificateError> {
        let key =
            KeyPair::from_pem(key).map_err(|error| CertificateError::Key(error.to_string()))?;
        Ok(Authority { issuer: Issuer::new(authority_parameters(), key) })
    }

    /// Signs an identity of a host that guests dial at these addresses (DNS names, IP addresses).
    pub fn host(
        &self,
        name: &str,
        addresses: &[String],
        validity: Validity,
    ) -> Result<Issued, CertificateError> {
        if addresses.is_empty() {
            return Err(CertificateError::NoAddress);
        }
        let mut names = vec![uri("host", name)?];
        for address in addresses {
            let unusable = || CertificateError::Address { found: address.clone() };
            names.push(match address.parse::<IpAddr>() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) if is_dns_name(address) => {
                    SanType::DnsName(address.as_str().try_into().map_err(|_| unusable())?)
                }
                Err(_) => return Err(unusable()),
            });
        }
        self.sign(name, names, ExtendedKeyUsagePurpose::ServerAuth, validity)
    }

    /// Signs an identity of a guest.
    pub fn guest(&self, name: &str, validity: Validity) -> Result<Issued, CertificateError> {
        self.sign(name, vec![uri("guest", name)?], ExtendedKeyUsagePurpose::ClientAuth, validity)
    }

    fn sign(
        &self,
        name: &str,
        names: Vec<SanType>,
        usage: ExtendedKeyUsagePurpose,
        validity: Validity,
    ) -> Result<Issued, CertificateError> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.subject_alt_names = names;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![usage];
        parameters.use_authority_key_identifier_extension = true;
        validity.set(&mut parameters)?;
        let key = KeyPair::generate().map_err(signing)?;
        let certificate = parameters.signed_by(&key, &self.issuer).map_err(signing)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// An authority that has just been made, with what to keep of it.
pub struct NewAuthority {
    authority: Authority,
    /// Its certificate, which every party trusts, and its key, which signs further parties.
    pub issued: Issued,
}

impl std::ops::Deref for NewAuthority {
    type Target = Authority;
    fn deref(&self) -> &Authority {
        &self.authority
    }
}

fn authority_parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, AUTHORITY);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters
}

fn uri(role: &str, name: &str) -> Result<SanType, CertificateError> {
    let name = PartyId::new(name)?;
    let uri = format!("fedtse:{role}:{name}");
    Ok(SanType::URI(uri.try_into().map_err(|error: rcgen::Error| signing(error))?))
}

fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

fn signing(error: rcgen::Error) -> CertificateError {
    CertificateError::Signing(error.to_string())
}
