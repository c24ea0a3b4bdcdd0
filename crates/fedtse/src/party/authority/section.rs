//! How host and guests name the key authority in their files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use federation::grpc::Identity;
use federation::grpc::dial::HostAddress;
use federation::grpc::identity::read_certificates;
use protocol::PartyId;
use serde::Deserialize;

use super::client::RemoteAuthority;
use crate::party::config::IdentitySection;

/// The key authority, where measurements are sealed by functional encryption.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct KeyAuthoritySection {
    name: String,
    address: String,
    certificate_name: Option<String>,
    /// By which it is dialled; a guest's own unless given.
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl KeyAuthoritySection {
    /// The authority, dialled with its own certificate or that of the party.
    pub(crate) fn remote(&self, folder: &Path, own: &IdentitySection) -> Result<RemoteAuthority> {
        let (identity, roots) = match (&self.certificate, &self.key) {
            (None, None) => own.read(folder)?,
            (Some(certificate), Some(key)) => {
                let identity = Identity::read(&folder.join(certificate), &folder.join(key))?;
                (identity, read_certificates(&folder.join(&own.authority))?)
            }
            _ => bail!(
                "key-authority: found one of certificate and key, expected both, or neither: then it is dialled with this party's own"
            ),
        };
        let address = HostAddress::new(&self.address, self.certificate_name.as_deref())
            .map_err(|problem| anyhow!("key-authority.address: {problem}"))?;
        let name = PartyId::new(&self.name).context("key-authority.name")?;
        RemoteAuthority::new(address, name, identity, &roots).context("key-authority")
    }
}
