//! Files and folders that are replaced atomically and survive a power failure.
//!
//! Every file that this project replaces is written in the same way:
//!
//! 1. A temporary file, `NAME.RANDOM.unfinished`, is made in the folder of the file: only within one file system is a
//!    rename atomic.
//! 2. The content is written and flushed.
//! 3. The temporary file is synced to disk.
//! 4. It is renamed to the file's name. Until here readers see the old content, from here on the new one.
//! 5. On Unix the folder is synced, so that the rename, too, survives a power failure.
//!
//! An error before step 4 leaves the old file and removes the temporary one; so does a [`PendingFile`] that is dropped
//! before [`PendingFile::commit`]. Only a process that is killed leaves its temporary file behind; nothing reads it.
//! Errors name the file.
//!
//! New files are readable as the umask permits; those of the `_private` functions only by their owner, from the first
//! byte on. A symbolic link stays, and the file that it points to is replaced. What is not a regular file (a terminal, a
//! pipe, `/dev/null`) has no content to keep, and is written to directly.
//!
//! Built on `tempfile`, which tests and the sorting of records need anyway: it makes files exclusively, with permissions
//! of our choice. The crate `atomic-write-file` was compared: it brings two more dependencies and copies the permissions
//! of the old file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use thiserror::Error;

/// Why a file or folder was not replaced.
#[derive(Debug, Error)]
#[error("{}: {source}", path.display())]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Replaces a file, see the [crate](self).
///
/// ```
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("manifest.json");
/// durable::write(&path, "{}").unwrap();
/// assert_eq!(std::fs::read(&path).unwrap(), b"{}");
/// ```
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), WriteError> {
    PendingFile::create(path)?.written(content.as_ref())
}

/// Replaces a file that only its owner may read, see the [crate](self).
pub fn write_private(path: &Path, content: impl AsRef<[u8]>) -> Result<(), WriteError> {
    PendingFile::create_private(path)?.written(content.as_ref())
}

/// Makes sure that the entry of a file in its folder is on disk.
pub fn sync_folder_of(path: &Path) -> Result<(), WriteError> {
    #[cfg(unix)]
    File::open(folder_of(path)).and_then(|folder| folder.sync_all()).map_err(named(path))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// A file that takes the place of another when it is committed, see the [crate](self). Dropped before, it leaves nothing.
///
/// Writes are buffered. Their errors do not name the file; those of the other functions do.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    output: BufWriter<Output>,
}

#[derive(Debug)]
enum Output {
    Temporary { file: NamedTempFile, target: PathBuf },
    Direct(File),
}

impl PendingFile {
    /// Starts a file, readable as the umask permits.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        Self::with_mode(path, 0o666)
    }

    /// Starts a file that only its owner may read.
    pub(crate) fn create_private(path: &Path) -> Result<Self, WriteError> {
        Self::with_mode(path, 0o600)
    }

    fn with_mode(path: &Path, mode: u32) -> Result<Self, WriteError> {
        let output = Output::create(path, mode).map_err(named(path))?;
        Ok(Self { path: path.to_owned(), output: BufWriter::new(output) })
    }

    /// Puts the file in its place.
    pub fn commit(self) -> Result<(), WriteError> {
        let Self { path, output } = self;
        let output =
            output.into_inner().map_err(IntoInnerError::into_error).map_err(named(&path))?;
        match output {
            Output::Direct(_) => Ok(()),
            Output::Temporary { file, target } => {
                file.as_file().sync_all().map_err(named(&path))?;
                file.persist(&target).map_err(|refused| named(&path)(refused.error))?;
                sync_folder_of(&target)
            }
        }
    }

    fn written(mut self, content: &[u8]) -> Result<(), WriteError> {
        self.write_all(content).map_err(named(&self.path))?;
        self.commit()
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl Output {
    fn create(path: &Path, mode: u32) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Ok(Self::Direct(File::options().write(true).open(path)?));
        }
        let linked = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        let target = if linked { fs::canonicalize(path).ok() } else { None };
        let target = target.unwrap_or_else(|| path.to_owned());
        let Some(name) = target.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected the name of a file"));
        };
        let prefix = with_suffix(name.to_owned(), ".");
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        #[cfg(not(unix))]
        let _ = mode;
        // Opened here, since `tempfile` itself would put the temporary name into errors.
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".unfinished");
        let file = builder.make_in(folder_of(&target), |path| options.open(path))?;
        Ok(Self::Temporary { file, target })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Temporary { file, .. } => file.as_file_mut().write(bytes),
            Self::Direct(file) => file.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Temporary { file, .. } => file.as_file_mut().flush(),
            Self::Direct(file) => file.flush(),
        }
    }
}

/// A folder that takes the place of another when it is committed: `NAME.unfinished` until then. Dropped before, it is
/// removed with all that is in it; what a killed process has left is removed by the next one.
///
/// The files in it are synced by whoever writes them. Folders, unlike files, cannot be exchanged by one rename: a process
/// that is killed within [`PendingFolder::commit`] can leave neither the old one nor the new one under its name.
#[derive(Debug)]
pub struct PendingFolder {
    target: PathBuf,
    unfinished: PathBuf,
}

impl PendingFolder {
    /// Starts an empty folder, and its parents where they are missing.
    pub fn create(target: &Path) -> Result<Self, WriteError> {
        let unfinished = PathBuf::from(with_suffix(target.as_os_str().to_owned(), ".unfinished"));
        remove_folder(&unfinished).map_err(named(&unfinished))?;
        fs::create_dir_all(&unfinished).map_err(named(&unfinished))?;
        Ok(Self { target: target.to_owned(), unfinished })
    }

    /// Where it is until it is committed.
    pub fn path(&self) -> &Path {
        &self.unfinished
    }

    /// Puts the folder in its place.
    pub fn commit(self) -> Result<(), WriteError> {
        remove_folder(&self.target).map_err(named(&self.target))?;
        fs::rename(&self.unfinished, &self.target).map_err(named(&self.target))?;
        sync_folder_of(&self.target)
    }
}

impl Drop for PendingFolder {
    fn drop(&mut self) {
        // Committed, it is not there any more; if it cannot be removed now, the next one removes it.
        let _ = fs::remove_dir_all(&self.unfinished);
    }
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn with_suffix(mut name: OsString, suffix: &str) -> OsString {
    name.push(suffix);
    name
}

fn named(path: &Path) -> impl Fn(io::Error) -> WriteError {
    move |source| WriteError { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
