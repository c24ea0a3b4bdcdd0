//! Who a party is: its certificate, and what the certificate says.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use protocol::party::PartyId;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use webpki::EndEntityCert;
use yasna::models::ObjectIdentifier;

/// No certificate or key of ours is near this.
const MOST_BYTES: u64 = 64 * 1024;

/// Why an identity cannot be read.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Too long for a certificate or key.
    #[error("{}: found {found} bytes, expected at most {MOST_BYTES}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
    },
    /// Others on the machine can read the key.
    #[error("{}: found mode {found:o}, expected a key that only its owner can read (chmod 600)", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        found: u32,
    },
    /// Not PEM, or not with what was expected in it.
    #[error("{}: {problem}, expected {expected} as PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What should be in it.
        expected: &'static str,
    },
    /// The certificate is not one of a party.
    #[error(transparent)]
    Certificate(#[from] NotAParty),
}

/// Why a certificate does not name a party.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("certificate: {0}")]
pub struct NotAParty(String);

/// Host or guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs the rounds and answers guests.
    Host,
    /// Dials the host.
    Guest,
}

/// The SHA-256 of a certificate, as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a certificate as DER.
    pub fn of(certificate: &[u8]) -> Self {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Not the text of a fingerprint.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("fingerprint: found {0:?}, expected sha256: and 64 hexadecimal digits")]
pub struct NotAFingerprint(String);

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;
    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let bad = || NotAFingerprint(text.chars().take(100).collect());
        let digits = text.strip_prefix("sha256:").ok_or_else(bad)?;
        // People type fingerprints, in upper case too.
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|_| bad())?;
        bytes.try_into().map(Fingerprint).map_err(|_| bad())
    }
}

/// What a certificate says of a party. Says nothing of whether the certificate is to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Host or guest.
    pub role: Role,
    /// The name of the party.
    pub name: PartyId,
    /// Of the whole certificate.
    pub fingerprint: Fingerprint,
    /// First second of validity, since the epoch.
    pub valid_from: i64,
    /// Last second of validity, since the epoch.
    pub valid_until: i64,
}

impl CertificateInfo {
    /// Reads a certificate as DER.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, NotAParty> {
        let unusable = |error: &dyn fmt::Display| NotAParty(error.to_string());
        let parsed = EndEntityCert::try_from(certificate).map_err(|error| unusable(&error))?;
        let mut parties = parsed.valid_uri_names().filter_map(|uri| uri.strip_prefix("fedtse:"));
        let (party, second) = (parties.next(), parties.next());
        let (role, name) = match (party.and_then(|party| party.split_once(':')), second) {
            (Some(("host", name)), None) => (Role::Host, name),
            (Some(("guest", name)), None) => (Role::Guest, name),
            _ => {
                return Err(NotAParty(
                    "found no name of a party, expected one URI fedtse:guest:NAME or fedtse:host:NAME"
                        .into(),
                ));
            }
        };
        let (valid_from, valid_until) =
            validity(certificate).map_err(|error| unusable(&format!("validity: {error}")))?;
        Ok(CertificateInfo {
            role,
            name: PartyId::new(name).map_err(|error| unusable(&error))?,
            fingerprint: Fingerprint::of(certificate),
            valid_from,
            valid_until,
        })
    }
}

/// First and last second of validity (RFC 5280, section 4.1).
fn validity(certificate: &[u8]) -> Result<(i64, i64), yasna::ASN1Error> {
    yasna::parse_der(certificate, |reader| {
        reader.read_sequence(|reader| {
            let validity = reader.next().read_sequence(|reader| {
                reader.next().read_tagged(yasna::Tag::context(0), |version| version.read_u8())?;
                reader.next().read_bigint_bytes()?; // serial number
                reader.next().read_sequence(|algorithm| {
                    let _: ObjectIdentifier = algorithm.next().read_oid()?;
                    algorithm.read_optional(|parameters| parameters.read_der())
                })?;
                reader.next().read_der()?; // issuer
                let validity = reader.next().read_sequence(|reader| {
                    let mut seconds = || {
                        let time = reader.next();
                        Ok(match time.lookahead_tag()? {
                            yasna::tags::TAG_GENERALIZEDTIME => {
                                time.read_generalized_time()?.datetime().unix_timestamp()
                            }
                            _ => time.read_utctime()?.datetime().unix_timestamp(),
                        })
                    };
                    Ok((seconds()?, seconds()?))
                })?;
                while reader.read_optional(|rest| rest.read_der())?.is_some() {}
                Ok(validity)
            })?;
            reader.next().read_der()?; // signature algorithm
            reader.next().read_der()?; // signature
            Ok(validity)
        })
    })
}

/// The certificate and key of a party.
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    info: CertificateInfo,
}

/// Redacted: the key is secret.
impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("info", &self.info).finish()
    }
}

impl Identity {
    /// Reads certificate and key; the key must be readable by its owner only.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let chain = read_certificates(certificate)?;
        refuse_exposed(key)?;
        let text = read_bounded(key)?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| IdentityError::Pem {
            path: key.into(),
            problem: error.to_string(),
            expected: "a private key",
        })?;
        let info = CertificateInfo::of(&chain[0])?;
        Ok(Identity { chain, key, info })
    }

    /// What the certificate says.
    pub fn certificate_info(&self) -> &CertificateInfo {
        &self.info
    }
}

/// Reads at least one certificate.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let text = read_bounded(path)?;
    let bad = |problem: String| IdentityError::Pem {
        path: path.into(),
        problem,
        expected: "a certificate",
    };
    let chain = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad(error.to_string()))?;
    if chain.is_empty() { Err(bad("found none".into())) } else { Ok(chain) }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, IdentityError> {
    let file = |source| IdentityError::File { path: path.into(), source };
    let found = std::fs::metadata(path).map_err(file)?.len();
    if found > MOST_BYTES {
        return Err(IdentityError::TooLong { path: path.into(), found });
    }
    std::fs::read(path).map_err(file)
}

#[cfg(unix)]
fn refuse_exposed(path: &Path) -> Result<(), IdentityError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path)
        .map_err(|source| IdentityError::File { path: path.into(), source })?;
    let found = metadata.permissions().mode() & 0o777;
    if found & 0o077 == 0 {
        Ok(())
    } else {
        Err(IdentityError::Exposed { path: path.into(), found })
    }
}

#[cfg(not(unix))]
fn refuse_exposed(_path: &Path) -> Result<(), IdentityError> {
    Ok(())
}
