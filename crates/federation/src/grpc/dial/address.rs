//! Whom a guest dials.

use super::super::identity::Fingerprint;
use protocol::party::PartyId;
use tokio_rustls::rustls::pki_types::ServerName;

/// Whom to dial.
#[derive(Clone, Debug)]
pub struct HostAddress {
    /// Name or IP address, and port, as `city.example:7443`.
    pub address: String,
    /// The name or IP address that the host's certificate must be for.
    pub name: ServerName<'static>,
    /// The party that it must be of, if that is known.
    pub party: Option<PartyId>,
    /// Its certificate, if that is known.
    pub certificate: Option<Fingerprint>,
}

impl HostAddress {
    /// From `NAME:PORT`, with the name as the certificate's unless another is given.
    pub fn new(address: &str, name: Option<&str>) -> Result<Self, String> {
        let wrong = |found: &str| {
            format!(
                "address of the host: found {found:?}, expected NAME:PORT, as city.example:7443"
            )
        };
        let (dialled, port) = address.rsplit_once(':').ok_or_else(|| wrong(address))?;
        port.parse::<u16>().map_err(|_| wrong(address))?;
        let dialled = dialled.trim_start_matches('[').trim_end_matches(']');
        let name = name.unwrap_or(dialled);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| wrong(name))?;
        Ok(HostAddress { address: address.to_owned(), name, party: None, certificate: None })
    }

    /// The same, where only this party is listened to: another one of the same authority is not.
    #[must_use]
    pub fn of(self, party: PartyId) -> Self {
        HostAddress { party: Some(party), ..self }
    }

    /// The same, where only this certificate is accepted: an authority that was misled has signed another.
    #[must_use]
    pub fn with_certificate(self, certificate: Option<Fingerprint>) -> Self {
        HostAddress { certificate, ..self }
    }
}
