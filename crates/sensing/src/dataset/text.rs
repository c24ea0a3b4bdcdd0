//! Small text files: written whole or not at all, read with their name in every error.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::DatasetError;

pub(crate) fn software() -> String {
    concat!("fedtse ", env!("CARGO_PKG_VERSION")).into()
}

pub(crate) fn read_text(path: &Path) -> Result<String, DatasetError> {
    std::fs::read_to_string(path)
        .map_err(|source| DatasetError::Io { path: path.to_owned(), source })
}

pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), DatasetError> {
    Ok(durable::write(path, text)?)
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), DatasetError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| DatasetError::Manifest {
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    write_text(path, &(text + "\n"))
}

pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, DatasetError> {
    if !path.exists() {
        return Err(DatasetError::NoManifest(path.to_owned()));
    }
    serde_json::from_str(&read_text(path)?).map_err(|error| DatasetError::Manifest {
        path: path.to_owned(),
        problem: error.to_string(),
    })
}
