//! What a guest contributes, link by link and step by step: for the people who answer for it.

use std::path::{Path, PathBuf};

use estimator::FleetData;
use traffic::{LinkState, Step};

use super::noise::LiveNoise;
use super::policy::{NOISE_FOLDER, Policy, PolicyFile};
use crate::error::Result;

/// The numbers of a guest's fleet that all it sends is made of: under its policy, with its noise as it was drawn.
pub struct Contributed {
    fleet: FleetData,
    policy: Policy,
    noise: Option<LiveNoise>,
}

/// A link in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct ContributedState {
    /// The step.
    pub step: Step,
    /// The link.
    pub link: String,
    /// Density and flow of the fleet alone; below 0 where noise made them so.
    pub state: LinkState,
}

impl Contributed {
    /// Reads the fleet of a dataset and the noise beside it, and draws none.
    ///
    /// # Errors
    /// If they cannot be read, or do not belong together.
    pub fn read(data: &Path, fleet: &str, policy: Option<&PolicyFile>) -> Result<Self> {
        let policy = policy.map(|file| file.over(&Policy::default())).unwrap_or_default();
        let mut fleet = FleetData::open(data, fleet)?;
        if policy.restricts() {
            fleet = policy.restricted(&fleet)?;
        }
        let folder: PathBuf = data.join(NOISE_FOLDER);
        let noise = policy.noise.as_ref();
        let noise = noise.map(|terms| LiveNoise::of_fleet(&folder, &fleet, terms)).transpose()?;
        Ok(Self { fleet, policy, noise })
    }

    /// The policy in a line.
    pub fn policy(&self) -> String {
        let noise = self.policy.noise.as_ref();
        let noise =
            noise.map_or_else(|| "without noise".to_owned(), |terms| format!("noise of {terms}"));
        let part =
            if self.policy.restricts() { "some links or hours" } else { "all links and hours" };
        format!("{part}, {noise}")
    }

    /// The steps that it holds.
    pub fn steps(&self) -> Vec<Step> {
        self.fleet.timeline().steps().collect()
    }

    /// All links in a step. Nothing of a step whose noise was never drawn: it has not left.
    ///
    /// # Errors
    /// If the noise cannot be read.
    pub fn of_step(&mut self, step: Step) -> Result<Vec<ContributedState>> {
        let timeline = self.fleet.timeline();
        let (network, length) = (timeline.network(), timeline.step());
        let totals = match &mut self.noise {
            Some(noise) => match noise.drawn_before(step)? {
                Some(totals) => totals,
                None => return Ok(Vec::new()),
            },
            None => network.link_ids().map(|link| self.fleet.totals(step, link)).collect(),
        };
        let states = network.links().iter().zip(totals).map(|(link, totals)| ContributedState {
            step,
            link: link.name.clone(),
            state: totals.state(link, length),
        });
        Ok(states.collect())
    }
}
