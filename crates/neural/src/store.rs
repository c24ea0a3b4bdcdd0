//! Checkpoints: weights, optimiser state, scalers and what belongs to them, in one safetensors file.
//!
//! Tensors are f32, little-endian, under dotted names. The file's metadata has one entry, `neural`:
//! a JSON object with `format`, `version`, `kind` and free entries. Files are written to a temporary
//! name, flushed to disk and renamed, so that a reader sees the old file or the new one.
//!
//! ```
//! use neural::{Checkpoint, Layer, Linear};
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("model.safetensors");
//! let layout = Linear::new(1, 2, 1).layout();
//! let mut checkpoint = Checkpoint::new("example");
//! checkpoint.set("links", 17);
//! checkpoint.put_parameters("model", &layout, &[1.0, 2.0, 3.0]);
//! checkpoint.save(&path).unwrap();
//! let read = Checkpoint::load(&path, "example").unwrap();
//! assert_eq!(read.get("links").unwrap(), 17);
//! assert_eq!(read.parameters("model", &layout).unwrap(), [1.0, 2.0, 3.0]);
//! ```

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Map, Value};

use crate::layout::Layout;
use crate::optimiser::Optimiser;

/// The name in a file's metadata.
const FORMAT: &str = "fedtse-checkpoint";
/// Version of the format that this code writes and reads.
const VERSION: u64 = 1;
/// The one key of the metadata. (Several keys would be written in random order.)
const KEY: &str = "neural";

/// What can be wrong with a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not a safetensors file, or one that was cut off.
    #[error("{path}: not a whole safetensors file: {reason}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// What the reader found.
        reason: String,
    },
    /// A safetensors file of something else.
    #[error("{path}: {field} is {found}, expected {expected}")]
    Other {
        /// The file.
        path: PathBuf,
        /// `format`, `version` or `kind`.
        field: &'static str,
        /// In the file.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A tensor is missing.
    #[error("{path}: no tensor {name}")]
    Missing {
        /// The file.
        path: PathBuf,
        /// Its name.
        name: String,
    },
    /// An entry of the metadata is missing or of another type.
    #[error("{path}: metadata entry {name} is {found}, expected {expected}")]
    Entry {
        /// The file.
        path: PathBuf,
        /// Its name.
        name: String,
        /// In the file.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A tensor that the model does not have.
    #[error("{path}: tensor {name} does not belong to this model")]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// Its name.
        name: String,
    },
    /// A tensor has another shape.
    #[error("{path}: tensor {name} has shape {found:?}, expected {expected:?}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// Its name.
        name: String,
        /// In the file.
        found: Vec<usize>,
        /// Of the model.
        expected: Vec<usize>,
    },
    /// A tensor holds NaN or infinity.
    #[error("{path}: tensor {name} holds a value that is not finite, at place {place}")]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Its name.
        name: String,
        /// Where.
        place: usize,
    },
}

/// The contents of a checkpoint file, see the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    path: PathBuf,
    entries: Map<String, Value>,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Checkpoint {
    /// An empty checkpoint. `kind` says of what, and is checked when it is loaded.
    pub fn new(kind: &str) -> Self {
        let mut checkpoint = Checkpoint::default();
        checkpoint.set("format", FORMAT);
        checkpoint.set("version", VERSION);
        checkpoint.set("kind", kind);
        checkpoint
    }

    /// Sets an entry of the metadata.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.entries.insert(name.to_owned(), value.into());
    }

    /// An entry of the metadata.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entries.get(name)
    }

    /// Adds a tensor.
    pub fn put(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        self.tensors.insert(name.to_owned(), (shape.to_vec(), values.to_vec()));
    }

    /// The error of whoever finds that its content cannot be.
    pub fn broken(&self, reason: &dyn std::fmt::Display) -> CheckpointError {
        CheckpointError::Broken { path: self.path.clone(), reason: reason.to_string() }
    }

    /// A tensor of this shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<&[f32], CheckpointError> {
        let Some((found, values)) = self.tensors.get(name) else {
            return Err(CheckpointError::Missing {
                path: self.path.clone(),
                name: name.to_owned(),
            });
        };
        if found != shape {
            return Err(CheckpointError::Shape {
                path: self.path.clone(),
                name: name.to_owned(),
                found: found.clone(),
                expected: shape.to_vec(),
            });
        }
        Ok(values)
    }

    /// Adds a flat vector as the named parameters of its layout, under a prefix.
    ///
    /// # Panics
    /// If the vector has not the layout's length.
    pub fn put_parameters(&mut self, prefix: &str, layout: &Layout, flat: &[f32]) {
        assert_eq!(flat.len(), layout.len(), "flat vector of {prefix}");
        for parameter in layout.parameters() {
            let name = format!("{prefix}.{}", parameter.name);
            self.put(&name, &parameter.shape, &flat[parameter.range.clone()]);
        }
    }

    /// The opposite: checks that exactly these parameters are there.
    pub fn parameters(&self, prefix: &str, layout: &Layout) -> Result<Vec<f32>, CheckpointError> {
        let mut flat = Vec::with_capacity(layout.len());
        for parameter in layout.parameters() {
            let name = format!("{prefix}.{}", parameter.name);
            flat.extend_from_slice(self.tensor(&name, &parameter.shape)?);
        }
        let dotted = format!("{prefix}.");
        let unknown = self.tensors.keys().find(|name| {
            name.strip_prefix(&dotted).is_some_and(|name| layout.find(name).is_none())
        });
        match unknown {
            None => Ok(flat),
            Some(name) => {
                Err(CheckpointError::Unexpected { path: self.path.clone(), name: name.clone() })
            }
        }
    }

    /// Adds the state of an optimiser.
    pub fn put_optimiser(&mut self, prefix: &str, optimiser: &dyn Optimiser) {
        self.set(&format!("{prefix}.steps"), optimiser.steps());
        for (name, values) in optimiser.state() {
            self.put(&format!("{prefix}.{name}"), &[values.len()], values);
        }
    }

    /// Restores the state of an optimiser of the same sort and size.
    pub fn restore_optimiser(
        &self,
        prefix: &str,
        optimiser: &mut dyn Optimiser,
    ) -> Result<(), CheckpointError> {
        let saved_steps = self.count(&format!("{prefix}.steps"))?;
        let (steps, state) = optimiser.state_mut();
        // All are looked up before any is changed.
        let found: Vec<&[f32]> = state
            .iter()
            .map(|(name, values)| self.tensor(&format!("{prefix}.{name}"), &[values.len()]))
            .collect::<Result<_, _>>()?;
        for ((_, to), from) in state.into_iter().zip(found) {
            to.copy_from_slice(from);
        }
        *steps = saved_steps;
        Ok(())
    }

    /// A whole number among the entries.
    pub fn count(&self, name: &str) -> Result<u64, CheckpointError> {
        let found = self.entries.get(name);
        found.and_then(Value::as_u64).ok_or_else(|| CheckpointError::Entry {
            path: self.path.clone(),
            name: name.to_owned(),
            found: found.map_or("missing".to_owned(), Value::to_string),
            expected: "a whole number",
        })
    }

    /// The bytes of its file, as [`parse`](Self::parse) reads them; `path` is for messages.
    pub fn to_bytes(&self, path: &Path) -> Result<Vec<u8>, CheckpointError> {
        self.check_finite(path)?;
        let bytes: Vec<(&str, &[usize], Vec<u8>)> = self
            .tensors
            .iter()
            .map(|(name, (shape, values))| {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                (name.as_str(), shape.as_slice(), bytes)
            })
            .collect();
        let broken = |error: safetensors::SafeTensorError| CheckpointError::Broken {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let views = bytes
            .iter()
            .map(|(name, shape, bytes)| {
                Ok((*name, TensorView::new(Dtype::F32, shape.to_vec(), bytes)?))
            })
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(broken)?;
        let entries = Value::Object(self.entries.clone()).to_string();
        let metadata = HashMap::from([(KEY.to_owned(), entries)]);
        safetensors::serialize(views, Some(metadata)).map_err(broken)
    }

    /// Writes the file, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        let io = |source| CheckpointError::Io { path: path.to_owned(), source };
        durable::write_private(path, self.to_bytes(path)?).map_err(|error| io(error.source))
    }

    /// Reads a file of this kind.
    pub fn load(path: &Path, kind: &str) -> Result<Self, CheckpointError> {
        let bytes = std::fs::read(path)
            .map_err(|source| CheckpointError::Io { path: path.to_owned(), source })?;
        Self::parse(&bytes, path, kind)
    }

    /// Reads the bytes of a file of this kind; `path` is for messages.
    pub fn parse(bytes: &[u8], path: &Path, kind: &str) -> Result<Self, CheckpointError> {
        let path = path.to_owned();
        let broken = |reason: String| CheckpointError::Broken { path: path.clone(), reason };
        let file = SafeTensors::deserialize(bytes).map_err(|error| broken(error.to_string()))?;
        let (_, header) =
            SafeTensors::read_metadata(bytes).map_err(|error| broken(error.to_string()))?;
        let entries = header.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let entries: Map<String, Value> = match entries {
            Some(entries) => serde_json::from_str(entries)
                .map_err(|error| broken(format!("metadata {KEY}: {error}")))?,
            None => Map::new(),
        };
        let expectations =
            [("format", Value::from(FORMAT)), ("version", VERSION.into()), ("kind", kind.into())];
        for (field, expected) in expectations {
            let found = entries.get(field);
            if found != Some(&expected) {
                return Err(CheckpointError::Other {
                    path,
                    field,
                    found: found.map_or("missing".to_owned(), Value::to_string),
                    expected: expected.to_string(),
                });
            }
        }
        let mut tensors = BTreeMap::new();
        for (name, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                return Err(broken(format!("tensor {name} is {:?}, expected F32", view.dtype())));
            }
            let (words, _) = view.data().as_chunks::<4>();
            let values: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
            tensors.insert(name.to_owned(), (view.shape().to_vec(), values));
        }
        let checkpoint = Checkpoint { path: path.clone(), entries, tensors };
        checkpoint.check_finite(&path)?;
        Ok(checkpoint)
    }

    fn check_finite(&self, path: &Path) -> Result<(), CheckpointError> {
        for (name, (_, values)) in &self.tensors {
            if let Some(place) = values.iter().position(|value| !value.is_finite()) {
                let (path, name) = (path.to_owned(), name.clone());
                return Err(CheckpointError::NotFinite { path, name, place });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
