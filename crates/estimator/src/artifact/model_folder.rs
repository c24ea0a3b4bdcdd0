//! An estimator on disk.
//!
//! ```text
//! DIR/model.json            what it is, what it assumes of its data, how it was trained
//! DIR/weights.safetensors   of a neural model: its weights, and its read-out if it learned from labels
//! DIR/ridge.json            of a ridge regression: its coefficients
//! DIR/models/NUMBER/        of a combination: each of its models, a folder like this one
//! ```
//!
//! Each file is written whole or not at all, `model.json` last: where it is, the estimator is whole.

use std::path::{Path, PathBuf};

use neural::{Checkpoint, CheckpointError, Fusion, Layer, Learner};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::Network;

use crate::artifact::neural_estimator::{NeuralError, NeuralEstimator};
use crate::artifact::record::{DataSpec, Epoch, ModelRecord};
use crate::artifact::saved::{Combination, CombinedModel, SavedEstimator};
use crate::artifact::whole_file::{check_format, content, io, read_bounded, write_whole};
use crate::baseline::{CalibratedFilter, QueueKnowledge, Ridge};
use crate::data::fleet_sum::SumColumns;
use crate::data::joint::new_learner;
use crate::data::observed::Observed;
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::TargetKind;
use crate::data::timeline::Timeline;
use crate::loss::held_out::{
    FleetMeans, FoldRates, FollowedShares, FollowedWeights, HeldOutError, HeldOutEstimator,
    LocalShareModel, ModelAnswer,
};
use crate::model::read_out::ReadOut;

/// The format that this version writes and reads.
const MODEL_FORMAT: &str = "fedtse-model/5";
const MODEL_FILE: &str = "model.json";
const WEIGHTS: &str = "fedtse-model";
const WEIGHTS_FILE: &str = "weights.safetensors";
const RIDGE_FILE: &str = "ridge.json";
/// Longer than any of these files: a regression of a link takes some 100 kB.
const MOST_BYTES: u64 = 4 << 30;

/// `model.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// The format of the file.
    pub format: String,
    /// Of each guest: the fleets of a dataset that are its fleet together, one or its folds.
    pub fleets: Vec<Vec<String>>,
    /// Of a model of the sum over guests: which numbers of theirs are summed at use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<SumColumns>,
    /// What it estimates.
    pub target: TargetKind,
    /// Network and steps.
    pub common: DataSpec,
    /// What it is.
    pub estimator: EstimatorFile,
    /// The epochs of its training.
    pub history: Vec<Epoch>,
}

/// What an estimator is, and what stands in its `model.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum EstimatorFile {
    /// A neural model of whole fleets.
    Neural {
        /// What it assumes.
        record: Box<ModelRecord>,
    },
    /// A neural model of folds.
    HeldOut {
        /// What it assumes.
        record: Box<ModelRecord>,
        /// The shares of fleet and folds.
        rates: FoldRates,
        /// What the model tells.
        answer: ModelAnswer,
        /// How its share on each link and in each step is found; none where it is the same everywhere and always.
        local: Option<Box<LocalShareModel>>,
    },
    /// Means over time of what folds show.
    FleetMeans {
        /// Which, and the shares of fleet and folds.
        means: Box<FleetMeans>,
    },
    /// Models with their weights, of density and of flow; each has a folder.
    Combination {
        /// Names and weights.
        models: Vec<(String, [f64; 2])>,
        /// How the weights follow the traffic, where they do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        following: Option<Box<FollowedWeights>>,
    },
    /// Fleet totals over the penetration rate.
    ScaleUp,
    /// Ridge regression.
    Ridge,
    /// The unscented filter.
    Filter(Box<CalibratedFilter>),
    /// Queue profiles.
    QueueProfiles {
        /// Whose knowledge they are made of.
        knowledge: QueueKnowledge,
        /// Whether an estimate of a step may use what happened after it.
        hindsight: bool,
    },
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
    /// Model and folds.
    #[error(transparent)]
    Folds(#[from] HeldOutError),
}

/// What a folder holds besides its estimator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptWith {
    /// Of each guest: the fleets of a dataset that are its fleet together, one or its folds.
    pub fleets: Vec<Vec<String>>,
    /// Of a model of the sum over guests: which numbers of theirs are summed at use.
    pub sum: Option<SumColumns>,
    /// The epochs of its training.
    pub history: Vec<Epoch>,
}

impl SavedEstimator {
    /// Writes the estimator, made on data of this time line, into a folder, which is made if need be.
    pub fn save(
        &self,
        folder: &Path,
        (timeline, target): (&Timeline, TargetKind),
        with: KeptWith,
    ) -> Result<(), ModelFolderError> {
        std::fs::create_dir_all(folder).map_err(|source| io(folder, source))?;
        let estimator = self.write_parts(folder, (timeline, target), &with)?;
        let common = DataSpec::of(timeline);
        let KeptWith { fleets, sum, history } = with;
        let format = MODEL_FORMAT.into();
        let file = ModelFile { format, fleets, sum, target, common, estimator, history };
        write_json(&folder.join(MODEL_FILE), &file)
    }

    /// Writes all but `model.json`, and gives what stands there.
    fn write_parts(
        &self,
        folder: &Path,
        place: (&Timeline, TargetKind),
        with: &KeptWith,
    ) -> Result<EstimatorFile, ModelFolderError> {
        let weights = |learner: &Learner<Fusion>, read_out: Option<&ReadOut>| {
            let mut checkpoint = Checkpoint::new(WEIGHTS);
            checkpoint.put_parameters("weights", learner.layout(), learner.parameters());
            if let Some(read_out) = read_out {
                read_out.save(&mut checkpoint);
            }
            checkpoint.save(&folder.join(WEIGHTS_FILE))
        };
        Ok(match self {
            SavedEstimator::Neural(model) => {
                weights(model.learner(), model.read_out())?;
                EstimatorFile::Neural { record: Box::new(model.record().clone()) }
            }
            SavedEstimator::HeldOut(model) => {
                weights(model.learner(), None)?;
                let (rates, answer) = model.rates();
                let record = Box::new(model.record().clone());
                let local = model.local_model().cloned().map(Box::new);
                EstimatorFile::HeldOut { record, rates, answer, local }
            }
            SavedEstimator::FleetMeans(means) => {
                EstimatorFile::FleetMeans { means: Box::new(means.clone()) }
            }
            SavedEstimator::Combination(Combination { models, following }) => {
                for (number, model) in models.iter().enumerate() {
                    let KeptWith { fleets, sum, .. } = with.clone();
                    let with = KeptWith { fleets, sum, ..KeptWith::default() };
                    model.estimator.save(&model_folder(folder, number), place, with)?;
                }
                let named = models.iter().map(|model| (model.name.clone(), model.weights));
                let following = following.clone().map(Box::new);
                EstimatorFile::Combination { models: named.collect(), following }
            }
            SavedEstimator::ScaleUp => EstimatorFile::ScaleUp,
            SavedEstimator::Ridge(ridge) => {
                write_json(&folder.join(RIDGE_FILE), ridge)?;
                EstimatorFile::Ridge
            }
            SavedEstimator::Filter(filter) => EstimatorFile::Filter(filter.clone()),
            &SavedEstimator::QueueProfiles { knowledge, hindsight } => {
                EstimatorFile::QueueProfiles { knowledge, hindsight }
            }
        })
    }
}

impl ModelFile {
    /// Whether a folder holds a whole estimator.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(MODEL_FILE).exists()
    }

    /// Reads the `model.json` of a folder.
    pub fn read(folder: &Path) -> Result<Self, ModelFolderError> {
        let path = folder.join(MODEL_FILE);
        let text = read_bounded(&path, MOST_BYTES)?;
        check_format(&path, &text, MODEL_FORMAT)?;
        serde_json::from_str(&text).map_err(|error| content(&path, error))
    }

    /// Reads the rest of the folder: the estimator, for data that were opened as `fleets` says; of a sum for its own fleets.
    pub fn load(
        &self,
        folder: &Path,
        observed: &Observed<'_>,
    ) -> Result<SavedEstimator, ModelFolderError> {
        let &Observed { loops, fleets, .. } = observed;
        self.common.check(loops.timeline())?;
        Ok(match &self.estimator {
            EstimatorFile::Neural { record } => {
                let whole = match self.sum {
                    // What it names are those of the guests.
                    Some(_) => FleetData::union(fleets).into_iter().collect(),
                    None => crate::artifact::saved::whole_fleets(&self.fleets, fleets)?,
                };
                SavedEstimator::Neural(neural(folder, record, loops, &whole)?)
            }
            EstimatorFile::HeldOut { record, rates, answer, local } => {
                record.host.check(loops)?;
                let (learner, _) = learner(folder, record, loops.timeline().network())?;
                let follow =
                    |model: &LocalShareModel| FollowedShares::of(model.clone(), loops, fleets);
                let local = local.as_deref().map(follow).transpose()?;
                let record = (**record).clone();
                let kept = HeldOutEstimator::kept((record, *rates, *answer), learner, local);
                SavedEstimator::HeldOut(kept)
            }
            EstimatorFile::FleetMeans { means } => {
                means.check(loops.timeline().network().links().len())?;
                SavedEstimator::FleetMeans((**means).clone())
            }
            EstimatorFile::Combination { models, following } => {
                if let Some(following) = following {
                    following.check(models.len())?;
                }
                let one = |(number, (name, weights)): (usize, &(String, [f64; 2]))| {
                    let folder = model_folder(folder, number);
                    let estimator = ModelFile::read(&folder)?.load(&folder, observed)?;
                    Ok(CombinedModel { name: name.clone(), weights: *weights, estimator })
                };
                let models = models.iter().enumerate().map(one);
                SavedEstimator::Combination(Combination {
                    models: models.collect::<Result<_, ModelFolderError>>()?,
                    following: following.as_deref().cloned(),
                })
            }
            EstimatorFile::ScaleUp => SavedEstimator::ScaleUp,
            EstimatorFile::Ridge => {
                let path = folder.join(RIDGE_FILE);
                let ridge: Ridge = read_json(&path)?;
                let network = loops.timeline().network();
                ridge.check(network).map_err(|error| content(&path, error))?;
                SavedEstimator::Ridge(ridge)
            }
            EstimatorFile::Filter(filter) => {
                filter.check(loops).map_err(|error| content(&folder.join(MODEL_FILE), error))?;
                SavedEstimator::Filter(filter.clone())
            }
            &EstimatorFile::QueueProfiles { knowledge, hindsight } => {
                SavedEstimator::QueueProfiles { knowledge, hindsight }
            }
        })
    }
}

fn model_folder(folder: &Path, number: usize) -> PathBuf {
    folder.join("models").join(format!("{}", number + 1))
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ModelFolderError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| content(path, error))?;
    write_whole(path, &(text + "\n"))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ModelFolderError> {
    let text = read_bounded(path, MOST_BYTES)?;
    serde_json::from_str(&text).map_err(|error| content(path, error))
}

fn learner(
    folder: &Path,
    record: &ModelRecord,
    network: &Network,
) -> Result<(Learner<Fusion>, Checkpoint), ModelFolderError> {
    let mut learner = new_learner(network, record)?;
    let path = folder.join(WEIGHTS_FILE);
    let checkpoint = Checkpoint::load(&path, WEIGHTS)?;
    let weights = checkpoint.parameters("weights", learner.layout())?;
    learner.set_parameters(&weights).map_err(|error| content(&path, error))?;
    Ok((learner, checkpoint))
}

fn neural(
    folder: &Path,
    record: &ModelRecord,
    loops: &LoopData,
    fleets: &[FleetData],
) -> Result<NeuralEstimator, ModelFolderError> {
    record.check(loops, fleets)?;
    let network = loops.timeline().network();
    let (learner, checkpoint) = learner(folder, record, network)?;
    let host = record.shape.host.build(network).map_err(NeuralError::from)?;
    let read_out = ReadOut::load(&checkpoint, record.host.outputs.len(), host.input_len())?;
    Ok(NeuralEstimator::new(record.clone(), learner).with_read_out(read_out))
}
