//! In what a dataset differs from the usual one of its demand seed. Traffic is the same but for another [world](super::worlds).

use anyhow::{Context, Result, bail};
use sensing::{Concentration, Trait};
use serde::{Deserialize, Serialize};
use traffic::{LinkId, LoopDetector, Network};

use super::worlds::WorldName;

/// How much more or less often than on average the vehicles of a fleet that is no fair sample belong
/// to it.
const STRENGTH: f64 = 0.5;

/// See the [module](self). What is not given is as usual, and is not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Scene {
    /// The host's loops: one, two (the usual) or three.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loops: Option<u8>,
    /// What decides how often a vehicle belongs to a fleet; mere chance as usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleets: Option<Skew>,
    /// Other roads and other traffic than the corridor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world: Option<WorldName>,
}

/// What vehicles have in common that belong to fleets more or less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Skew {
    Entry,
    Hour,
    Class,
}

impl Scene {
    pub(super) const USUAL: Scene = Scene { loops: None, fleets: None, world: None };

    pub(super) fn is_usual(&self) -> bool {
        *self == Self::USUAL
    }

    /// For names of files and folders: nothing if all is as usual.
    pub(super) fn suffix(&self, separator: &str) -> String {
        let loops = self.loops.map(|loops| format!("{separator}loops-{loops}"));
        let fleets = self.fleets.map(|skew| {
            let by = match skew {
                Skew::Entry => "entry",
                Skew::Hour => "hour",
                Skew::Class => "class",
            };
            format!("{separator}by-{by}")
        });
        let world = self.world.map(|world| format!("{separator}world-{world}"));
        [loops, fleets, world].into_iter().flatten().collect()
    }

    /// How its fleets differ from a fair sample.
    pub(super) fn concentration(&self) -> Option<Concentration> {
        let by = match self.fleets? {
            Skew::Entry => Trait::Entry,
            Skew::Hour => Trait::Hour,
            Skew::Class => Trait::Class,
        };
        Some(Concentration { by, strength: STRENGTH })
    }

    /// The corridor with its loops: on E5; on E1 and E5 as usual; on E1, E3 and E5.
    pub(super) fn network(&self) -> Result<Network> {
        let mut parts = traffic::corridor()?.into_parts();
        match self.loops {
            None | Some(2) => {}
            Some(1) => parts.loops.retain(|detector| detector.name == "L5"),
            Some(3) => {
                let place = parts.links.iter().position(|link| link.name == "E3");
                let place = place.context("link E3")?;
                parts.loops.push(LoopDetector {
                    name: "L3".to_owned(),
                    link: LinkId(place as u32),
                    // Towards the stop line, as the others are.
                    position: parts.links[place].length * (2.0 / 3.0),
                });
            }
            Some(loops) => bail!("loops: found {loops}, expected 1, 2 or 3"),
        }
        Ok(Network::new(parts)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_differ_in_their_loops_and_names() {
        for (loops, expected) in [(Some(1), 1), (None, 2), (Some(2), 2), (Some(3), 3)] {
            let scene = Scene { loops, ..Scene::USUAL };
            assert_eq!(scene.network().unwrap().loops().len(), expected);
        }
        assert!(Scene { loops: Some(4), ..Scene::USUAL }.network().is_err());
        let scene = Scene { loops: Some(3), fleets: Some(Skew::Hour), world: None };
        assert_eq!(scene.suffix("."), ".loops-3.by-hour");
        assert_eq!(Scene::USUAL.suffix("-"), "");
        assert_eq!(serde_json::to_string(&Scene::USUAL).unwrap(), "{}");
    }
}
