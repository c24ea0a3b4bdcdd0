//! Small text files of a model's folder: written whole or not at all, and read up to a bound.

use std::path::Path;

use crate::artifact::model_folder::ModelFolderError;

/// Writes a file, in place of what was there.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), ModelFolderError> {
    durable::write(path, text).map_err(|error| io(path, error.source))
}

/// Reads a file that is not longer than any good one.
pub(crate) fn read_bounded(path: &Path, most: u64) -> Result<String, ModelFolderError> {
    let length = std::fs::metadata(path).map_err(|source| io(path, source))?.len();
    if length > most {
        return Err(content(path, format!("found {length} bytes, expected at most {most}")));
    }
    std::fs::read_to_string(path).map_err(|source| io(path, source))
}

pub(crate) fn io(path: &Path, source: std::io::Error) -> ModelFolderError {
    ModelFolderError::Io { path: path.to_owned(), source }
}

pub(crate) fn content(path: &Path, problem: impl ToString) -> ModelFolderError {
    ModelFolderError::Content { path: path.to_owned(), problem: problem.to_string() }
}

/// Refuses a JSON file of another format, before anything else of it is read.
pub(crate) fn check_format(
    path: &Path,
    text: &str,
    expected: &str,
) -> Result<(), ModelFolderError> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: String,
    }
    let Format { format } = serde_json::from_str(text).map_err(|error| content(path, error))?;
    if format == expected {
        return Ok(());
    }
    Err(content(path, format!("format: found \"{format}\", expected \"{expected}\"")))
}
