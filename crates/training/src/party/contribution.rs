//! What a guest works with: its fleet and its measurements, as far as its policy allows, with noise if that says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use estimator::{FleetData, GuestFeatures, MeasurementTable, QueueKnowledge, QueueStates};
use protocol::MeasurementKind;

use super::noise::noised;
use super::policy::PrivacyContext;
use crate::error::{Result, bail, ensure};

pub(super) struct Contribution {
    pub fleets: Vec<FleetData>,
    /// All kinds but what is held out, which is made of the fleets.
    pub tables: BTreeMap<MeasurementKind, MeasurementTable>,
}

impl Contribution {
    pub(super) fn of(
        folder: &Path,
        mut fleets: Vec<FleetData>,
        features: GuestFeatures,
        kinds: &BTreeSet<MeasurementKind>,
        privacy: &PrivacyContext,
    ) -> Result<Self> {
        let policy = &privacy.policy;
        // Its own vehicles and no others: whatever its folds are called, those of all of them.
        let names: Vec<&str> = fleets.iter().map(FleetData::name).collect();
        let queues = match kinds.contains(&MeasurementKind::Queues) {
            true => Some(fleet_queues(folder, &names)?),
            false => None,
        };
        if policy.restricts() {
            fleets = fleets.iter().map(|fleet| policy.restricted(fleet)).collect::<Result<_>>()?;
        }
        let mut tables = BTreeMap::new();
        if let Some(terms) = &policy.noise {
            let [fleet] = &fleets[..] else {
                bail!("noise: found a fleet in {} folds, expected one fleet", fleets.len());
            };
            ensure!(
                features != GuestFeatures::TotalsAndCells,
                "noise: found features of cells, expected totals or speeds: cells have no noise of their own"
            );
            let noised = noised(fleet, queues.as_ref(), terms, &privacy.noise_folder)?;
            tracing::info!(
                fleet = fleet.name(), sigma = noised.sigma, epsilon = terms.epsilon, delta = terms.delta,
                unit = ?terms.unit, "noise in vehicles, drawn once"
            );
            tables.extend(noised.queues.map(|table| (MeasurementKind::Queues, table)));
            if kinds.contains(&MeasurementKind::Speeds) {
                tables.insert(MeasurementKind::Speeds, noised.speeds);
            }
            fleets = vec![noised.fleet];
        } else {
            if let Some(queues) = &queues {
                tables.insert(MeasurementKind::Queues, MeasurementTable::queue_densities(queues));
            }
            if kinds.contains(&MeasurementKind::Speeds) {
                let [fleet] = &fleets[..] else {
                    bail!("speeds: found a fleet in {} folds, expected one fleet", fleets.len());
                };
                tables.insert(MeasurementKind::Speeds, MeasurementTable::fleet_speeds(fleet));
            }
        }
        if policy.restricts() {
            let keep = policy.contributed(&fleets[0])?;
            tables = tables.into_iter().map(|(kind, t)| (kind, t.restricted(&keep))).collect();
        }
        Ok(Self { fleets, tables })
    }
}

/// States by the queue profiles of some fleets as one; says where its share of all vehicles is in doubt.
pub(crate) fn fleet_queues(folder: &Path, fleets: &[&str]) -> Result<QueueStates> {
    let queues = QueueStates::read_union(folder, fleets, QueueKnowledge::Fleet)?;
    let share = queues.report().share;
    if share.is_contradictory() {
        eprintln!("{}: {share}", fleets.first().copied().unwrap_or_default());
    }
    Ok(queues)
}
