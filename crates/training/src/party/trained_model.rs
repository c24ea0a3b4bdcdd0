//! The sub-model of a trained party: of built-in layers, or a custom one that the party supplies again.
//!
//! Beside `party.json` the folder of such a party holds `custom-sub-model.bin`, the best state of its sub-model.

use std::collections::BTreeMap;
use std::path::Path;

use estimator::{
    Arrangement, LayerSubModel, PartyWeights, SubModel, SubModelKind, TrainedGuest, TrainedHost,
};
use traffic::Network;

use super::guest_party::CustomSubModelSpec;
use super::host_party::HOST_SUB_MODEL;
use crate::error::{Context, Result, TrainingError, bail, ensure};
use crate::learner::CustomSubModel;

/// The state of a custom sub-model.
const STATE: &str = "custom-sub-model.bin";

/// Custom sub-models by the parties' names.
pub type CustomSubModelSpecs = BTreeMap<String, CustomSubModelSpec>;

/// A trained party, as its folder has it.
pub enum TrainedModel {
    /// Of built-in layers.
    Layers(Box<LayerSubModel>),
    /// A custom sub-model.
    Custom(TrainedCustomSubModel),
}

/// A custom sub-model with its best state.
pub struct TrainedCustomSubModel {
    model: Box<dyn CustomSubModel>,
    /// Numbers that it gives for a sample.
    width: usize,
}

impl TrainedModel {
    /// That of a guest in a folder.
    pub fn of_guest(
        folder: &Path,
        name: &str,
        part: &TrainedGuest,
        (network, weights): (&Network, &PartyWeights),
        own: Option<&CustomSubModelSpec>,
    ) -> Result<Self> {
        let is_custom =
            matches!(part.shape.sub_model, SubModelKind::Custom | SubModelKind::CustomByStep);
        match (is_custom, own) {
            (false, None) => Ok(TrainedModel::Layers(Box::new(part.model(network, weights)?))),
            (true, Some(own)) => {
                ensure!(
                    own.kind == part.shape.sub_model,
                    "sub-model of `{name}`: found {:?}, expected {:?}, as it was trained",
                    own.kind,
                    part.shape.sub_model
                );
                let links = network.links().len();
                let sample = match part.arrangement() {
                    Arrangement::ByLink => vec![links, part.shape.channels],
                    Arrangement::ByStep => {
                        vec![part.guest.common.window, links, part.shape.channels]
                    }
                };
                let width = part.width(network);
                Ok(TrainedModel::Custom(TrainedCustomSubModel::read(
                    folder, name, own, &sample, width,
                )?))
            }
            (true, None) => bail!(
                "sub-model of `{name}`: found none, expected the one that it was trained with: it is no built-in one"
            ),
            (false, Some(_)) => bail!(
                "sub-model of `{name}`: found a custom one, expected none: it was trained with a built-in one"
            ),
        }
    }

    /// Outputs of some samples.
    pub fn infer(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>> {
        match self {
            TrainedModel::Custom(own) => own.infer(x, samples),
            TrainedModel::Layers(model) => {
                let mut z = vec![0.0; samples * model.output_len()];
                model.infer_best(x, &mut z)?;
                Ok(z)
            }
        }
    }
}

impl TrainedCustomSubModel {
    /// That of a host in a folder, if it was trained with one; `inputs` are the numbers of a sample.
    pub fn of_host(
        folder: &Path,
        name: &str,
        part: &TrainedHost,
        (network, inputs): (&Network, usize),
        own: Option<&CustomSubModelSpec>,
    ) -> Result<Option<Self>> {
        let slot = part.shape.slots.iter().find(|slot| slot.name == HOST_SUB_MODEL);
        let (slot, own) = match (slot, own) {
            (None, None) => return Ok(None),
            (Some(slot), Some(own)) => (slot, own),
            (Some(_), None) => bail!(
                "sub-model of `{name}`: found none, expected the one that the host was trained with"
            ),
            (None, Some(_)) => bail!(
                "sub-model of `{name}`: found a custom one, expected none: the host was trained without"
            ),
        };
        let links = network.links().len();
        let sample = match part.arrangement() {
            Arrangement::ByLink => vec![inputs],
            Arrangement::ByStep => {
                let window = part.host.common.window.max(1);
                vec![window, links, inputs / (window * links)]
            }
        };
        Self::read(folder, name, own, &sample, slot.embedding.len(links)).map(Some)
    }

    fn read(
        folder: &Path,
        name: &str,
        own: &CustomSubModelSpec,
        sample: &[usize],
        width: usize,
    ) -> Result<Self> {
        let path = folder.join(STATE);
        let state = std::fs::read(&path).map_err(|error| TrainingError::file(&path, error))?;
        let of_party = || format!("sub-model of `{name}`");
        let mut model = (own.make)(sample).with_context(of_party)?;
        model.load(&state).with_context(of_party)?;
        Ok(Self { model, width })
    }

    /// Outputs of some samples.
    pub fn infer(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>> {
        let z = self.model.infer(x, samples)?;
        let (found, expected) = (z.len(), samples * self.width);
        ensure!(found == expected, "outputs of a sub-model: found {found}, expected {expected}");
        ensure!(
            z.iter().all(|value| value.is_finite()),
            "outputs of a sub-model: found one that is not finite, expected finite numbers"
        );
        Ok(z)
    }
}

/// Keeps the best state of a custom sub-model, or removes that of an earlier one.
pub(super) fn keep_state(folder: &Path, state: Option<&[u8]>) -> Result<()> {
    let path = folder.join(STATE);
    match state {
        Some(state) => durable::write(&path, state)?,
        None if path.exists() => {
            std::fs::remove_file(&path).map_err(|error| TrainingError::file(&path, error))?;
        }
        None => {}
    }
    Ok(())
}
