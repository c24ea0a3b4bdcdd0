//! A model on disk.
//!
//! ```text
//! DIR/model.json            what the model assumes, how it was trained
//! DIR/weights.safetensors   its weights, and its read-out if it learned from labels
//! ```
//!
//! Each file is written whole or not at all, `model.json` last: where it is, the model is whole.

use std::path::{Path, PathBuf};

use neural::{Checkpoint, CheckpointError, Layer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::artifact::neural_estimator::{NeuralError, NeuralEstimator};
use crate::artifact::record::{Epoch, ModelRecord};
use crate::artifact::whole_file::{check_format, content, io, write_whole};
use crate::data::joint::new_learner;
use crate::data::sources::{FleetData, LoopData};
use crate::model::read_out::ReadOut;

/// The format that this version writes and reads.
const MODEL_FORMAT: &str = "fedtse-model/4";
const WEIGHTS: &str = "fedtse-model";

/// `model.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// The format of the file.
    pub format: String,
    /// What the model assumes.
    pub record: ModelRecord,
    /// The epochs of its training.
    pub history: Vec<Epoch>,
}

/// What can be wrong with a model folder.
#[derive(Debug, Error)]
pub enum ModelFolderError {
    /// Reading or writing.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not such a file.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The weights.
    #[error(transparent)]
    Weights(#[from] CheckpointError),
    /// Model and data.
    #[error(transparent)]
    Model(#[from] NeuralError),
}

impl NeuralEstimator {
    /// Writes the model into a folder, which is made if need be.
    pub fn save(&self, folder: &Path, history: &[Epoch]) -> Result<(), ModelFolderError> {
        std::fs::create_dir_all(folder).map_err(|source| io(folder, source))?;
        let mut checkpoint = Checkpoint::new(WEIGHTS);
        let learner = self.learner();
        checkpoint.put_parameters("weights", learner.layout(), learner.parameters());
        if let Some(read_out) = self.read_out() {
            read_out.save(&mut checkpoint);
        }
        checkpoint.save(&folder.join("weights.safetensors"))?;
        let path = folder.join("model.json");
        let file = ModelFile {
            format: MODEL_FORMAT.into(),
            record: self.record().clone(),
            history: history.to_vec(),
        };
        let text = serde_json::to_string_pretty(&file).map_err(|error| content(&path, error))?;
        write_whole(&path, &(text + "\n"))
    }

    /// Reads the model of a folder, to be used on some data.
    pub fn load(
        folder: &Path,
        loops: &LoopData,
        fleets: &[FleetData],
    ) -> Result<Self, ModelFolderError> {
        let file = ModelFile::read(folder)?;
        file.record.check(loops, fleets)?;
        let mut learner = new_learner(loops.timeline().network(), &file.record)?;
        let path = folder.join("weights.safetensors");
        let checkpoint = Checkpoint::load(&path, WEIGHTS)?;
        let weights = checkpoint.parameters("weights", learner.layout())?;
        learner.set_parameters(&weights).map_err(|error| content(&path, error))?;
        let host = file.record.shape.host.build(loops.timeline().network());
        let host = host.map_err(NeuralError::from)?;
        let read_out =
            ReadOut::load(&checkpoint, file.record.host.outputs.len(), host.input_len())?;
        Ok(Self::new(file.record, learner).with_read_out(read_out))
    }
}

impl ModelFile {
    /// Reads the `model.json` of a folder.
    pub fn read(folder: &Path) -> Result<Self, ModelFolderError> {
        let path = folder.join("model.json");
        let text = std::fs::read_to_string(&path).map_err(|source| io(&path, source))?;
        check_format(&path, &text, MODEL_FORMAT)?;
        serde_json::from_str(&text).map_err(|error| content(&path, error))
    }
}
