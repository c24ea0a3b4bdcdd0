//! Which program made a result.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A build of fedtse.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub version: String,
    /// The commit it was built from; ends in `-changed` if sources differed from it.
    pub commit: String,
    /// Hash of the executable, where the commit alone does not say what it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub executable: Option<String>,
}

impl Program {
    /// The one that is running.
    pub(crate) fn this() -> Result<Self> {
        let commit = env!("FEDTSE_COMMIT").to_owned();
        let is_commit = commit.chars().all(|c| c.is_ascii_hexdigit());
        let executable = if is_commit { None } else { Some(own_hash()?) };
        Ok(Self { version: env!("CARGO_PKG_VERSION").to_owned(), commit, executable })
    }

    /// Whether anyone can build it again from the commit alone.
    pub(crate) fn is_known(&self) -> bool {
        self.executable.is_none()
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "fedtse {} at {}", self.version, self.commit)?;
        match &self.executable {
            Some(hash) => write!(out, " (executable {})", &hash[..hash.len().min(19)]),
            None => Ok(()),
        }
    }
}

fn own_hash() -> Result<String> {
    let path = std::env::current_exe().context("the running program")?;
    let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(sha256(&[&bytes]))
}

/// `sha256:` and the digest of the parts, one after the other.
pub(super) fn sha256(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    format!("sha256:{}", data_encoding::HEXLOWER.encode(&hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&[b"a", b"bc"]), expected);
    }
}
