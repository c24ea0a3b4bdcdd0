//! What the features' folder says of itself.

use serde::{Deserialize, Serialize};
use traffic::Seconds;

use crate::concentration::Concentration;
use crate::extract::ExtractReport;
use crate::fleet::{FleetError, Fleets};
use crate::recordings::HeldSteps;

/// `features/manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeaturesManifest {
    /// `FEATURES_FORMAT`.
    pub format: String,
    /// The version of fedtse that wrote it.
    pub software: String,
    /// Hash of the network.
    pub network_hash: String,
    /// What time zero, the start of step 0, means.
    pub epoch: String,
    /// Length of a step.
    pub step_s: Seconds,
    /// Cells of a link.
    pub cells: usize,
    /// Sub-steps of a step.
    pub sub_steps: usize,
    /// How long a vehicle may go unseen.
    pub patience_s: Seconds,
    /// The time before which everything was left out; absent if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_s: Option<Seconds>,
    /// Length of the trailing mean of the smooth targets.
    pub smooth_s: Seconds,
    /// Seed that dealt vehicles to fleets.
    pub fleet_seed: u64,
    /// How fleets differ from fair samples; absent if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concentration: Option<Concentration>,
    /// The fleets.
    pub fleets: Vec<FleetEntry>,
    /// Who counted at the loops: `sensors`, or `trajectories` (virtual loops).
    pub loops: String,
    /// The steps that are stored.
    pub held: HeldSteps,
    /// Totals and oddities.
    pub report: ReportEntry,
}

impl FeaturesManifest {
    /// The fleets that it names, as they were made.
    pub(crate) fn fleets_of(&self) -> Result<Fleets, FleetError> {
        let entries: Vec<(&str, f64)> =
            self.fleets.iter().map(|entry| (entry.name.as_str(), entry.rate)).collect();
        Fleets::of_entries(&entries, self.fleet_seed, self.concentration)
    }
}

/// A fleet in the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetEntry {
    /// Its name, as in its files' names.
    pub name: String,
    /// Its expected share of all vehicles.
    pub rate: f64,
}

/// [`ExtractReport`] as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportEntry {
    /// Samples read.
    pub samples: u64,
    /// Time of the trajectories themselves.
    pub trajectory_time_s: f64,
    /// Distance of the trajectories themselves.
    pub trajectory_distance_m: f64,
    /// Time over all boxes.
    pub box_time_s: f64,
    /// Distance over all boxes.
    pub box_distance_m: f64,
    /// Tracks broken: unseen too long.
    pub gaps: u64,
    /// Tracks broken: no way between two samples, too fast, or backwards.
    pub jumps: u64,
}

impl From<&ExtractReport> for ReportEntry {
    fn from(report: &ExtractReport) -> Self {
        let breaks = report.breaks;
        Self {
            samples: report.samples,
            trajectory_time_s: report.trajectory_time.get(),
            trajectory_distance_m: report.trajectory_distance.get(),
            box_time_s: report.box_time.get(),
            box_distance_m: report.box_distance.get(),
            gaps: breaks.gaps,
            jumps: breaks.unreachable + breaks.too_fast + breaks.backwards,
        }
    }
}
