//! A centralised run that is not finished, kept after each epoch and twice a minute.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::engine::CentralRun;
use crate::error::{Context, Result, TrainingError, bail};
use crate::run_fingerprint;

/// Its state, in its model's folder.
const RUN_FILE: &str = "run.state";
/// That of runs of earlier versions.
const OLD_RUN_FILE: &str = "run.safetensors";

/// Where an unfinished run is kept, so that it can go on and end with the same weights.
pub(crate) struct KeptRun {
    folder: PathBuf,
    fingerprint: String,
}

impl KeptRun {
    /// In a folder, of a run that is made with this.
    pub(crate) fn open(folder: &Path, made_with: &impl Serialize) -> Result<Self> {
        let old = folder.join(OLD_RUN_FILE);
        if old.exists() {
            bail!(
                "{}: found an unfinished run of an earlier version, expected {RUN_FILE}; choose another folder or delete it",
                old.display()
            );
        }
        if folder.exists() {
            durable::remove_unfinished(folder, |name| name == RUN_FILE)?;
        }
        let fingerprint = run_fingerprint(made_with)?.as_str().to_owned();
        Ok(Self { folder: folder.to_owned(), fingerprint })
    }

    fn path(&self) -> PathBuf {
        self.folder.join(RUN_FILE)
    }

    /// Goes to where it stood, if there is such a run.
    pub(crate) fn resume(&self, run: &mut CentralRun) -> Result<()> {
        let path = self.path();
        let saved = match std::fs::read(&path) {
            Ok(saved) => saved,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(TrainingError::file(&path, error)),
        };
        run.restore(&saved, &self.fingerprint).with_context(|| path.display().to_string())
    }

    /// Keeps a run between two exchanges.
    pub(crate) fn write(&self, run: &CentralRun) -> Result<()> {
        Ok(durable::write(&self.path(), run.save(&self.fingerprint)?)?)
    }

    /// When its model is kept.
    pub(crate) fn remove(self) -> Result<()> {
        let path = self.path();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(TrainingError::file(&path, error))
            }
            _ => Ok(()),
        }
    }
}
