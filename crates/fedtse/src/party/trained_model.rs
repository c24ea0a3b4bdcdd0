//! The sub-model of a party that was trained: of our layers, or one that the party brings along again.
//!
//! Beside `party.json` the folder of such a party holds `own-sub-model.bin`, the best state of what it brought.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use estimator::{
    Arrangement, LayerSubModel, PartyWeights, SubModel, SubModelKind, TrainedGuest, TrainedHost,
    WINDOW,
};
use federation::fedbcd::OwnSubModel;
use traffic::Network;

use super::any_guest::Own;
use super::any_host::OWN_PART;

/// The state of a sub-model that was brought along.
const STATE: &str = "own-sub-model.bin";

/// Sub-models that parties bring along again, by the parties' names.
pub type OwnModels = BTreeMap<String, Own>;

/// See the [module](self).
pub enum TrainedModel {
    /// Of our layers.
    Layers(Box<LayerSubModel>),
    /// Its own.
    Own(OwnModel),
}

/// A sub-model that was brought along again, with its best state.
pub struct OwnModel {
    model: Box<dyn OwnSubModel>,
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
        own: Option<&Own>,
    ) -> Result<Self> {
        let brought = matches!(part.shape.sub_model, SubModelKind::Own | SubModelKind::OwnByStep);
        match (brought, own) {
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
                    Arrangement::ByStep => vec![WINDOW, links, part.shape.channels],
                };
                let width = part.width(network);
                Ok(TrainedModel::Own(OwnModel::read(folder, name, own, &sample, width)?))
            }
            (true, None) => bail!(
                "sub-model of `{name}`: found none, expected the one that it was trained with: it is no built-in one"
            ),
            (false, Some(_)) => bail!(
                "sub-model of `{name}`: found one of its own, expected none: it was trained with a built-in one"
            ),
        }
    }

    /// Outputs of some samples.
    pub fn infer(&mut self, x: &[f32], samples: usize) -> Result<Vec<f32>> {
        match self {
            TrainedModel::Own(own) => own.infer(x, samples),
            TrainedModel::Layers(model) => {
                let mut z = vec![0.0; samples * model.output_len()];
                model.infer_best(x, &mut z)?;
                Ok(z)
            }
        }
    }
}

impl OwnModel {
    /// That of a host in a folder, if it was trained with one; `inputs` are the numbers of a sample.
    pub fn of_host(
        folder: &Path,
        name: &str,
        part: &TrainedHost,
        (network, inputs): (&Network, usize),
        own: Option<&Own>,
    ) -> Result<Option<Self>> {
        let slot = part.shape.slots.iter().find(|slot| slot.name == OWN_PART);
        let (slot, own) = match (slot, own) {
            (None, None) => return Ok(None),
            (Some(slot), Some(own)) => (slot, own),
            (Some(_), None) => bail!(
                "sub-model of `{name}`: found none, expected the one that the host was trained with"
            ),
            (None, Some(_)) => bail!(
                "sub-model of `{name}`: found one of its own, expected none: the host was trained without"
            ),
        };
        let links = network.links().len();
        let sample = match part.arrangement() {
            Arrangement::ByLink => vec![inputs],
            Arrangement::ByStep => vec![WINDOW, links, inputs / (WINDOW * links)],
        };
        Self::read(folder, name, own, &sample, slot.crossing.len(links)).map(Some)
    }

    fn read(folder: &Path, name: &str, own: &Own, sample: &[usize], width: usize) -> Result<Self> {
        let path = folder.join(STATE);
        let state = std::fs::read(&path).with_context(|| path.display().to_string())?;
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
            "outputs of a sub-model: found one that is no number, expected finite ones"
        );
        Ok(z)
    }
}

/// Keeps the best state of what a party brought along, or removes that of an earlier one.
pub fn keep_state(folder: &Path, state: Option<&[u8]>) -> Result<()> {
    let path = folder.join(STATE);
    match state {
        Some(state) => durable::write(&path, state)?,
        None if path.exists() => {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
        None => {}
    }
    Ok(())
}
