//! A model on disk, and a training run that can be continued.
//!
//! ```text
//! DIR/model.json            what the model assumes, how it was trained
//! DIR/weights.safetensors   its weights
//! DIR/run.safetensors       while training: the run after its last whole epoch
//! ```
//!
//! Each file is written whole or not at all, `model.json` last: where it is, the model is whole. A
//! run that was killed continues from its last epoch and ends with the same weights, bit for bit.

use std::path::{Path, PathBuf};

use neural::{Average, Checkpoint, CheckpointError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::artifact::neural_estimator::{NeuralError, NeuralEstimator, NeuralStudy, new_learner};
use crate::artifact::record::ModelRecord;
use crate::artifact::whole_file::{content, io, write_whole};
use crate::data::sources::{FleetData, LoopData};
use crate::trainer::{Epoch, Trainer};

/// The format that this version writes and reads.
pub const MODEL_FORMAT: &str = "fedtse-model/2";
const WEIGHTS: &str = "fedtse-model";
const RUN: &str = "fedtse-run";

/// `model.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// [`MODEL_FORMAT`].
    pub format: String,
    /// What the model assumes.
    pub card: ModelRecord,
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
    /// A run of something else.
    #[error(
        "{}: found a training run on other data or with other settings, expected the same to continue; choose another folder or delete it",
        path.display()
    )]
    OtherRun {
        /// The file.
        path: PathBuf,
    },
}

/// Where a folder keeps the state of a run.
fn run_file(folder: &Path) -> PathBuf {
    folder.join("run.safetensors")
}

impl NeuralStudy {
    /// Continues the run that a folder holds; a new run if it holds none.
    pub fn resume(&self, folder: &Path) -> Result<Trainer, ModelFolderError> {
        let mut trainer = self.trainer()?;
        let path = run_file(folder);
        if !path.exists() {
            return Ok(trainer);
        }
        let checkpoint = Checkpoint::load(&path, RUN)?;
        if checkpoint.get("card") != Some(&card_text(self.card(), &path)?.into()) {
            return Err(ModelFolderError::OtherRun { path });
        }
        let layout = trainer.learner.layout().clone();
        let weights = checkpoint.parameters("weights", &layout)?;
        trainer.learner.set_parameters(&weights).map_err(|error| content(&path, error))?;
        trainer.best = checkpoint.parameters("best", &layout)?;
        checkpoint.restore_optimiser("adam", &mut trainer.adam)?;
        if let Some(decay) = self.card().plan.recipe.average {
            let average = checkpoint.parameters("average", &layout)?;
            let updates = checkpoint.count("average.updates")?;
            trainer.average = Some(Average::restore(&average, decay, updates));
        }
        let history = checkpoint.get("history").cloned().unwrap_or_default();
        let history: Vec<[u64; 2]> =
            serde_json::from_value(history).map_err(|error| content(&path, error))?;
        let epochs = history.iter().enumerate().map(|(i, [train, validation])| Epoch {
            number: i + 1,
            train: f64::from_bits(*train),
            validation: f64::from_bits(*validation),
        });
        trainer.history = epochs.collect();
        Ok(trainer)
    }

    /// Keeps a run as it stands after an epoch.
    pub fn keep(&self, trainer: &Trainer, folder: &Path) -> Result<(), ModelFolderError> {
        let path = run_file(folder);
        let layout = trainer.learner.layout();
        let mut checkpoint = Checkpoint::new(RUN);
        checkpoint.set("card", card_text(self.card(), &path)?);
        checkpoint.put_parameters("weights", layout, trainer.learner.parameters());
        checkpoint.put_parameters("best", layout, &trainer.best);
        checkpoint.put_optimiser("adam", &trainer.adam);
        if let Some(average) = &trainer.average {
            checkpoint.put_parameters("average", layout, average.weights());
            checkpoint.set("average.updates", average.updates());
        }
        // As bits: numbers in decimal might come back changed in the last one.
        let history = trainer.history.iter().map(|e| [e.train.to_bits(), e.validation.to_bits()]);
        let history: Vec<[u64; 2]> = history.collect();
        checkpoint.set("history", serde_json::json!(history));
        Ok(checkpoint.save(&path)?)
    }
}

impl NeuralEstimator {
    /// Writes the model into a folder, which is made if need be, and ends the run kept there.
    pub fn save(&self, folder: &Path, history: &[Epoch]) -> Result<(), ModelFolderError> {
        std::fs::create_dir_all(folder).map_err(|source| io(folder, source))?;
        let mut checkpoint = Checkpoint::new(WEIGHTS);
        let learner = self.learner();
        checkpoint.put_parameters("weights", learner.layout(), learner.parameters());
        checkpoint.save(&folder.join("weights.safetensors"))?;
        let path = folder.join("model.json");
        let file = ModelFile {
            format: MODEL_FORMAT.into(),
            card: self.card().clone(),
            history: history.to_vec(),
        };
        let text = serde_json::to_string_pretty(&file).map_err(|error| content(&path, error))?;
        write_whole(&path, &(text + "\n"))?;
        let run = run_file(folder);
        if run.exists() {
            std::fs::remove_file(&run).map_err(|source| io(&run, source))?;
        }
        Ok(())
    }

    /// Reads the model of a folder, to be used on some data.
    pub fn load(
        folder: &Path,
        loops: &LoopData,
        fleets: &[FleetData],
    ) -> Result<Self, ModelFolderError> {
        let file = ModelFile::read(folder)?;
        file.card.check(loops, fleets)?;
        let mut learner = new_learner(loops.timeline().network(), &file.card)?;
        let path = folder.join("weights.safetensors");
        let weights = Checkpoint::load(&path, WEIGHTS)?.parameters("weights", learner.layout())?;
        learner.set_parameters(&weights).map_err(|error| content(&path, error))?;
        Ok(Self::new(file.card, learner))
    }
}

impl ModelFile {
    /// Reads the `model.json` of a folder.
    pub fn read(folder: &Path) -> Result<Self, ModelFolderError> {
        let path = folder.join("model.json");
        let text = std::fs::read_to_string(&path).map_err(|source| io(&path, source))?;
        let file: Self = serde_json::from_str(&text).map_err(|error| content(&path, error))?;
        if file.format != MODEL_FORMAT {
            let problem = format!("format: found \"{}\", expected \"{MODEL_FORMAT}\"", file.format);
            return Err(ModelFolderError::Content { path, problem });
        }
        Ok(file)
    }
}

fn card_text(card: &ModelRecord, path: &Path) -> Result<String, ModelFolderError> {
    serde_json::to_string(card).map_err(|error| content(path, error))
}
