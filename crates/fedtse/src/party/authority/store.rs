//! The authority's state on the disk: for its owner alone, written whole or not at all, used by one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use protocol::PartyId;
use zeroize::Zeroizing;

/// Longer than any state: a key, and a digest for every other one, of 65,536 values.
const MOST_BYTES: u64 = 65_536 * (64 + 32) + 1024;

/// The end of the names of states; before it stands the guest's name.
const END: &str = ".state";

/// A folder with a state for each guest.
pub(super) struct KeyStore {
    folder: PathBuf,
    /// Held for as long as the process lives.
    _lock: File,
}

impl KeyStore {
    /// Opens a folder, made if there is none.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let shown = folder.display();
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).with_context(|| format!("{shown}"))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let lock = options.open(folder.join("lock")).with_context(|| format!("{shown}"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("{shown}: another authority is using it"),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("{shown}"));
            }
        }
        durable::remove_unfinished(folder, |name| name.ends_with(END))?;
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    /// The file of a guest.
    pub(super) fn path(&self, guest: &PartyId) -> PathBuf {
        self.folder.join(format!("{}{END}", guest.as_str()))
    }

    /// The guests that something is stored of.
    pub(super) fn guests(&self) -> Result<Vec<PartyId>> {
        let shown = self.folder.display();
        let mut guests = Vec::new();
        for entry in std::fs::read_dir(&self.folder).with_context(|| format!("{shown}"))? {
            let name = entry.with_context(|| format!("{shown}"))?.file_name();
            if let Some(guest) = name.to_str().and_then(|name| name.strip_suffix(END)) {
                guests.push(PartyId::new(guest).with_context(|| format!("{shown}"))?);
            }
        }
        Ok(guests)
    }

    /// What was stored of a guest.
    pub(super) fn read(&self, guest: &PartyId) -> Result<Zeroizing<Vec<u8>>> {
        let path = self.path(guest);
        let shown = path.display();
        let file = File::open(&path).with_context(|| format!("{shown}"))?;
        let metadata = file.metadata().with_context(|| format!("{shown}"))?;
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
            ensure!(
                mode & 0o077 == 0,
                "{shown}: found mode {mode:o}, expected a master key that only its owner can read (chmod 600)"
            );
        }
        let length = metadata.len();
        ensure!(
            length <= MOST_BYTES,
            "{shown}: found {length} bytes, expected {MOST_BYTES} at most"
        );
        let mut bytes = Zeroizing::new(Vec::with_capacity(length as usize + 1));
        file.take(MOST_BYTES).read_to_end(&mut bytes).with_context(|| format!("{shown}"))?;
        Ok(bytes)
    }

    /// Stores a state for good, in the place of the last one.
    pub(super) fn write(&self, guest: &PartyId, state: &[u8]) -> Result<()> {
        Ok(durable::write_private(&self.path(guest), state)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_kept_for_its_owner_and_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        let store = KeyStore::open(&keys).unwrap();
        assert!(store.guests().unwrap().is_empty());
        let guest = PartyId::new("fleet-a").unwrap();
        for state in [&b"first"[..], b"2"] {
            store.write(&guest, state).unwrap();
            assert_eq!(store.read(&guest).unwrap().as_slice(), state);
        }
        assert_eq!(store.guests().unwrap(), std::slice::from_ref(&guest));
        assert!(store.read(&PartyId::new("fleet-b").unwrap()).is_err());
        let second = KeyStore::open(&keys).err().unwrap().to_string();
        assert!(second.contains("another authority"), "{second}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let path = store.path(&guest);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            let error = store.read(&guest).unwrap_err().to_string();
            assert!(error.contains("found mode 640"), "{error}");
        }
    }
}
