//! A trained party on disk: all that it needs to estimate live, and nothing of its training data.
//!
//! ```text
//! DIR/party.json            what its part assumes: network, steps, scales, sizes; which run
//! DIR/weights.safetensors   its best weights, and the read-out of a host that learned from labels
//! DIR/network.toml          the network, as it was trained on
//! ```
//!
//! Each party has one of its own; `party.json` is written last. Parties of a sum over guests have `sum.json` instead, which holds no
//! weights: a guest has none, and the host's model is a [`ModelFile`](crate::artifact::ModelFile) in the same folder.

use std::path::Path;
use std::sync::Arc;

use neural::Checkpoint;
use sensing::read_network;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use traffic::{Network, network_hash, write_network};

use crate::artifact::model_folder::ModelFolderError;
use crate::artifact::record::{DataSpec, GuestRecord, HostRecord};
use crate::artifact::whole_file::{check_format, content, io, read_bounded, write_whole};
use crate::data::fleet_sum::{SumColumns, WholeFleet};
use crate::data::inputs::Arrangement;
use crate::data::live::{LiveFleet, LiveLoops};
use crate::data::study::TargetKind;
use crate::data::timeline::StepSpec;
use crate::model::architecture::HostShape;
use crate::model::host_model::HostModel;
use crate::model::parts::GuestShape;
use crate::model::party_block::{PARTY_WEIGHTS, UpdateRule};
use crate::model::recipe::Recipe;
use crate::model::sub_model::LayerSubModel;

/// The format that this version writes and reads.
pub const PARTY_FORMAT: &str = "fedtse-party/4";
/// The file of a party of a sum.
const SUM_FILE: &str = "sum.json";
/// Longer than any `party.json`.
const MOST_BYTES: u64 = 16 << 20;

/// `party.json` of a party.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyFile<P> {
    /// [`PARTY_FORMAT`].
    pub format: String,
    /// The run that it was trained in: parties of different runs do not fit together.
    pub run: String,
    /// Its name.
    pub name: String,
    /// How its features are made.
    pub steps: StepSpec,
    /// What it is.
    pub part: P,
}

/// A guest's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedGuest {
    /// Its data.
    pub guest: GuestRecord,
    /// Its sub-model.
    pub shape: GuestShape,
}

/// The host's part and head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedHost {
    /// Its data.
    pub host: HostRecord,
    /// Its sizes and its guests' slots.
    pub shape: HostShape,
    /// What it estimates.
    pub target: TargetKind,
}

/// A guest that adds to sums: what it adds live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummedGuest {
    /// Its data.
    pub common: DataSpec,
    /// Its fleet.
    pub fleet: String,
    /// Its penetration rate.
    pub rate: f64,
    /// Its usual traffic: vehicles at a time, mean of the training part.
    pub usual: f64,
    /// What it adds besides totals of links.
    pub columns: SumColumns,
}

/// The host of a sum, beside its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummedHost {
    /// Its data.
    pub common: DataSpec,
    /// What all guests have together.
    pub whole: WholeFleet,
}

/// Any party's part.
pub trait Trained: Serialize + DeserializeOwned {
    /// The file that it is in.
    const FILE: &'static str = "party.json";
    /// Hash of the network that it belongs to.
    fn network_hash(&self) -> &str;
}

impl Trained for TrainedGuest {
    fn network_hash(&self) -> &str {
        &self.guest.common.network_hash
    }
}

impl Trained for TrainedHost {
    fn network_hash(&self) -> &str {
        &self.host.common.network_hash
    }
}

impl Trained for SummedGuest {
    const FILE: &'static str = SUM_FILE;
    fn network_hash(&self) -> &str {
        &self.common.network_hash
    }
}

impl Trained for SummedHost {
    const FILE: &'static str = SUM_FILE;
    fn network_hash(&self) -> &str {
        &self.common.network_hash
    }
}

impl<P: Trained> PartyFile<P> {
    /// Whether a folder holds one.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(P::FILE).exists()
    }

    /// Writes a folder, in place of what was there.
    pub fn write(
        &self,
        folder: &Path,
        network: &Network,
        weights: &Checkpoint,
    ) -> Result<(), ModelFolderError> {
        std::fs::create_dir_all(folder).map_err(|source| io(folder, source))?;
        weights.save(&folder.join("weights.safetensors"))?;
        self.write_without_weights(folder, network)
    }

    /// The same of a party that has no weights.
    pub fn write_without_weights(
        &self,
        folder: &Path,
        network: &Network,
    ) -> Result<(), ModelFolderError> {
        std::fs::create_dir_all(folder).map_err(|source| io(folder, source))?;
        write_whole(&folder.join("network.toml"), &write_network(network))?;
        let path = folder.join(P::FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| content(&path, error))?;
        write_whole(&path, &text)?;
        // What an earlier training has left there is of another party.
        for other in [TrainedHost::FILE, SUM_FILE].into_iter().filter(|file| *file != P::FILE) {
            let path = folder.join(other);
            if let Err(error) = std::fs::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(io(&path, error));
            }
        }
        Ok(())
    }

    /// Reads a folder: the party, its network and its weights.
    pub fn read(folder: &Path) -> Result<(Self, Arc<Network>, Checkpoint), ModelFolderError> {
        let (file, network) = Self::read_without_weights(folder)?;
        let weights = Checkpoint::load(&folder.join("weights.safetensors"), PARTY_WEIGHTS)?;
        Ok((file, network, weights))
    }

    /// The same of a party that has no weights.
    pub fn read_without_weights(folder: &Path) -> Result<(Self, Arc<Network>), ModelFolderError> {
        let path = folder.join(P::FILE);
        let text = read_bounded(&path, MOST_BYTES)?;
        check_format(&path, &text, PARTY_FORMAT)?;
        let file: Self = serde_json::from_str(&text).map_err(|error| content(&path, error))?;
        let path = folder.join("network.toml");
        let network = read_network(&path).map_err(|error| content(&path, error))?;
        let (found, expected) = (network_hash(&network), file.part.network_hash());
        if found != expected {
            let problem = format!("network hash: found {found}, expected {expected}");
            return Err(content(&path, problem));
        }
        Ok((file, Arc::new(network)))
    }
}

/// The weights of a party whose sub-model nobody else can build: none that we know of.
pub fn no_weights() -> Checkpoint {
    Checkpoint::new(PARTY_WEIGHTS)
}

/// Weights that are never updated need no rule, but there must be one.
fn rule() -> UpdateRule {
    UpdateRule::of(&Recipe::of(crate::Architecture::Link))
}

impl TrainedGuest {
    /// How its features are arranged.
    pub fn arrangement(&self) -> Arrangement {
        self.shape.sub_model.arrangement()
    }

    /// Numbers of an embedding, per sample.
    pub fn width(&self, network: &Network) -> usize {
        self.shape.embedding.len(network.links().len())
    }

    /// Its sub-model with its weights.
    pub fn model(
        &self,
        network: &Network,
        weights: &Checkpoint,
    ) -> Result<LayerSubModel, ModelFolderError> {
        let model = LayerSubModel::of(&self.shape, network, 0, rule());
        let mut model = model.map_err(crate::artifact::NeuralError::from)?;
        model.load_best(weights)?;
        Ok(model)
    }

    /// Its features, live.
    pub fn live(&self, network: &Arc<Network>, steps: &StepSpec) -> LiveFleet {
        LiveFleet::new(Arc::clone(network), self.guest.clone(), steps, self.arrangement())
    }
}

impl TrainedHost {
    /// How its features are arranged.
    pub fn arrangement(&self) -> Arrangement {
        self.shape.architecture.sub_model().arrangement()
    }

    /// Its model with its weights.
    pub fn model(
        &self,
        network: &Network,
        weights: &Checkpoint,
    ) -> Result<HostModel, ModelFolderError> {
        let model = HostModel::new(&self.shape, network, 0, rule());
        let mut model = model.map_err(crate::artifact::NeuralError::from)?;
        model.load_best(weights)?;
        Ok(model)
    }

    /// Its features, live.
    pub fn live(&self, network: &Arc<Network>, steps: &StepSpec) -> LiveLoops {
        LiveLoops::new(Arc::clone(network), self.host.clone(), steps, self.arrangement())
    }
}
