//! What a guest works with: its fleet and its measurements, as far as its policy allows, with noise if that says so; in
//! training all steps at once, live each as it comes in.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use estimator::artifact::{GuestRecord, SummedGuest};
use estimator::data::StepSpec;
use estimator::{
    FleetData, GuestFeatures, MeasurementTable, PartyFile, QueueKnowledge, QueueStates,
    TrainedGuest,
};
use protocol::MeasurementKind;
use sensing::FleetFeatures;
use traffic::{LinkId, Network, Seconds, Step, Totals};

use super::noise::{Clipping, LiveNoise, noised};
use super::policy::{Policy, PrivacyContext};
use crate::error::{Context, Result, bail, ensure};

pub(crate) struct Contribution {
    pub fleets: Vec<FleetData>,
    /// Where noise was drawn: the fleet with noise whose mean is 0, to be summed; totals may be below 0.
    pub unclipped: Option<FleetData>,
    /// All kinds but what is held out, which is made of the fleets.
    pub tables: BTreeMap<MeasurementKind, MeasurementTable>,
}

impl Contribution {
    pub(crate) fn of(
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
        let (mut tables, mut unclipped) = (BTreeMap::new(), None);
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
                unit = %terms.unit, "noise in vehicles, drawn once"
            );
            tables.extend(noised.queues.map(|table| (MeasurementKind::Queues, table)));
            if kinds.contains(&MeasurementKind::Speeds) {
                tables.insert(MeasurementKind::Speeds, noised.speeds);
            }
            fleets = vec![noised.fleet];
            unclipped = Some(noised.unclipped);
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
            let timeline = fleets[0].timeline();
            let keep = policy.contributed(timeline.network(), timeline.step())?;
            tables = tables.into_iter().map(|(kind, t)| (kind, t.restricted(&keep))).collect();
        }
        Ok(Self { fleets, unclipped, tables })
    }
}

/// What a live guest works with: each step as far as its policy allows, with noise if that says so.
pub struct LiveContribution {
    contributed: Option<Box<dyn Fn(Step, LinkId) -> bool + Send>>,
    noise: Option<LiveNoise>,
}

impl LiveContribution {
    /// Under the policy that a guest was trained under, or a stricter one. Refuses a policy that cannot be kept.
    ///
    /// # Errors
    /// With what was found and expected.
    pub fn open(
        (file, network): (&PartyFile<TrainedGuest>, &Network),
        trained: &Policy,
        own: Option<Policy>,
        noise_folder: Option<&Path>,
    ) -> Result<Self> {
        let policy = own.unwrap_or_else(|| trained.clone());
        policy.check_width(file.part.width(network) as u32)?;
        let GuestRecord { fleets, common, features, .. } = &file.part.guest;
        let cells = *features == GuestFeatures::TotalsAndCells;
        let of = (&fleets[..], &*common.network_hash, cells);
        Self::under(
            (&policy, trained),
            of,
            (network, &file.steps),
            (noise_folder, Clipping::AtZero),
        )
    }

    /// The same of a guest that adds to sums.
    ///
    /// # Errors
    /// With what was found and expected.
    pub(super) fn of_sum(
        (file, network): (&PartyFile<SummedGuest>, &Network),
        (policy, trained): (&Policy, &Policy),
        noise_folder: Option<&Path>,
    ) -> Result<Self> {
        let SummedGuest { common, fleet, columns, .. } = &file.part;
        let of = (std::slice::from_ref(fleet), &*common.network_hash, columns.cells);
        let noise = (noise_folder, Clipping::InTheSum);
        Self::under((policy, trained), of, (network, &file.steps), noise)
    }

    fn under(
        (policy, trained): (&Policy, &Policy),
        (fleets, network_hash, cells): (&[String], &str, bool),
        (network, steps): (&Network, &StepSpec),
        (noise_folder, clipping): (Option<&Path>, Clipping),
    ) -> Result<Self> {
        let shown = |policy: &Policy| {
            policy.noise.as_ref().map_or_else(|| "no noise".to_owned(), ToString::to_string)
        };
        ensure!(
            policy.noise == trained.noise,
            "policy: found {}, expected {}, as in training",
            shown(policy),
            shown(trained)
        );
        ensure!(
            !(policy.restricts() || policy.noise.is_some()) || !cells,
            "policy: found links, hours or noise for features of cells, expected totals or speeds: a policy is not applied to cells"
        );
        let step = Seconds::new(steps.step_s);
        let contributed: Option<Box<dyn Fn(Step, LinkId) -> bool + Send>> = match policy.restricts()
        {
            true => Some(Box::new(policy.contributed(network, step)?)),
            false => None,
        };
        let noise = policy.noise.as_ref().map(|terms| {
            let [fleet] = fleets else {
                bail!("noise: found a fleet in {} folds, expected one fleet", fleets.len());
            };
            let folder = noise_folder.context(
                "noise: found no folder, expected the one in which the training kept its noise",
            )?;
            LiveNoise::open(folder, (fleet, network_hash), (network, step), (terms, clipping))
        });
        Ok(Self { contributed, noise: noise.transpose()? })
    }

    /// A step, as it may leave the guest.
    ///
    /// # Errors
    /// If its noise was drawn for other data, or cannot be kept.
    pub fn of_step<'f>(
        &mut self,
        step: Step,
        features: &'f FleetFeatures,
    ) -> Result<Cow<'f, FleetFeatures>> {
        let mut features = Cow::Borrowed(features);
        if let Some(contributed) = &self.contributed {
            let links = (0..features.vehicles.len() as u32).map(LinkId);
            let totals = links.map(|link| match contributed(step, link) {
                true => features.link_totals(link),
                false => Totals::default(),
            });
            features = Cow::Owned(features.with_totals(totals));
        }
        if let Some(noise) = &mut self.noise {
            features = Cow::Owned(noise.of_step(step, &features)?);
        }
        Ok(features)
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
