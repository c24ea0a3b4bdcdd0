//! Whether one vehicle was in a guest's fleet, told from the fleet's totals.
//!
//! The adversary knows the totals of all other vehicles, and what this one would add. That is more than anyone
//! knows, and what differential privacy is promised against. In the modes without noise it has the totals as they
//! are, or, sealed, by [`least_squares`](super::products).

use std::path::Path;

use anyhow::{Context, Result};
use attacks::Mode;
use attacks::membership::lower_bound;
use estimator::Study;
use sealed::Randomness;
use sensing::{Dataset, FeatureExtractor, FeaturePlan, Features, Fleets, StepFeatures, draw};
use traffic::{LinkId, PositionSource, Seconds, Step, VehicleId, VehiclePosition};

use super::fleet_noise::FleetNoise;
use super::report::{Attack, MembershipOutcome};

/// Vehicles of the fleet that are looked at; the one that shows most is attacked.
const VEHICLES: usize = 40;
/// For how long they are followed.
const FOLLOWED: Seconds = Seconds::new(1800.0);
/// Probability that a bound is right.
const CONFIDENCE: f64 = 0.99;

/// What a vehicle adds to the totals of a link in a step, as shares.
#[derive(Clone, Copy)]
struct Share {
    step: Step,
    link: LinkId,
    added: [f64; 2],
}

/// Membership of a vehicle for one step, and for its whole trip.
pub(super) fn membership(
    folder: &Path,
    study: &Study,
    noise: &FleetNoise,
    trials: usize,
    seed: u64,
) -> Result<Attack> {
    let vehicles = followed(folder, study)?;
    let steps = |shares: &[Share]| {
        let mut steps: Vec<i64> = shares.iter().map(|share| share.step.0).collect();
        steps.dedup();
        steps
    };
    let trip = vehicles.iter().max_by_key(|shares| steps(shares).len());
    let trip =
        trip.context("trajectories: found no vehicle of the fleet in the first half hour")?;
    let of_steps = vehicles.iter().flat_map(|shares| {
        steps(shares).into_iter().map(move |step| -> Vec<Share> {
            shares.iter().filter(|share| share.step.0 == step).copied().collect()
        })
    });
    let size = |shares: &[Share]| -> f64 {
        shares.iter().flat_map(|share| share.added).map(|added| added * added).sum()
    };
    let one = of_steps.max_by(|a, b| size(a).total_cmp(&size(b))).context("a step of a vehicle")?;
    let mut memberships = Vec::new();
    let count = steps(trip).len();
    for (unit, shares, count) in
        [("vehicle-step".to_owned(), &one, 1), (format!("trip of {count} steps"), trip, count)]
    {
        let mut random = Randomness::insecure_from_seed(seed);
        let tried = Tried::new(study, shares);
        let without_noise = tried.scores(trials, |shares| Ok(shares.to_vec()))?;
        let with_noise =
            tried.scores(trials, |shares| Ok(noise.draw(shares, &mut random)?.values()))?;
        for mode in Mode::ALL {
            let accounted = if mode.has_noise() { Some(noise.epsilon(count)?) } else { None };
            let [with, without] = if mode.has_noise() { &with_noise } else { &without_noise };
            memberships.push(MembershipOutcome {
                mode,
                unit: unit.clone(),
                membership: lower_bound(with, without, noise.delta(), CONFIDENCE),
                epsilon_accounted: accounted,
            });
        }
    }
    Ok(Attack {
        name: "membership",
        adversary: "someone who knows all other vehicles",
        victim: "one vehicle of a guest's fleet",
        setting: format!(
            "totals of the fleet with and without a vehicle, {trials} trials each, half of them to choose the test; of {} vehicles the one that shows most",
            vehicles.len()
        ),
        noise: format!(
            "drawn once on time and distance of each link and step, σ = {:.2} vehicles; unit of privacy: a vehicle in a step",
            noise.sigma
        ),
        results: Vec::new(),
        memberships,
    })
}

/// The boxes that a vehicle was in: what others did there, and what it did itself.
struct Tried {
    others: Vec<f64>,
    own: Vec<f64>,
}

impl Tried {
    fn new(study: &Study, shares: &[Share]) -> Self {
        let fleet = &study.fleets()[0];
        let (mut others, mut own) = (Vec::new(), Vec::new());
        for share in shares {
            let all = FleetNoise::shares(fleet.totals(share.step, share.link), study.step());
            for (all, added) in all.iter().zip(share.added) {
                others.push((all - added).max(0.0));
                own.push(added);
            }
        }
        Self { others, own }
    }

    /// Scores of trials with the vehicle, and of as many without it: how far what is seen lies from what others did
    /// in the vehicle's own direction, as a share of it.
    fn scores(
        &self,
        trials: usize,
        mut seen: impl FnMut(&[f64]) -> Result<Vec<f64>>,
    ) -> Result<[Vec<f64>; 2]> {
        let all: Vec<f64> = self.others.iter().zip(&self.own).map(|(a, b)| a + b).collect();
        let square: f64 = self.own.iter().map(|own| own * own).sum();
        let mut score = |values: &[f64]| -> Result<f64> {
            let seen = seen(values)?;
            let along = seen.iter().zip(&self.others).zip(&self.own);
            Ok(along.map(|((seen, others), own)| (seen - others) * own).sum::<f64>() / square)
        };
        let with = (0..trials).map(|_| score(&all)).collect::<Result<_>>()?;
        let without = (0..trials).map(|_| score(&self.others)).collect::<Result<_>>()?;
        Ok([with, without])
    }
}

/// What the first vehicles of the fleet add in each step, vehicle by vehicle.
fn followed(folder: &Path, study: &Study) -> Result<Vec<Vec<Share>>> {
    let dataset = Dataset::open(folder)?;
    let features = Features::open(folder, dataset.network())?;
    let fleet = features.fleet_named(study.fleets()[0].name())?;
    let seed = features.manifest().fleet_seed;
    let belongs = |name: &str| (fleet.from..fleet.to).contains(&draw(seed, name));
    let first = study.train_span().start().0 as f64 * study.step().get();
    let mut plan = FeaturePlan::paper(Fleets::nested(&[1.0], 0)?);
    plan.clock.length = study.step();
    let mut ones: Vec<(VehicleId, FeatureExtractor<'_>)> = Vec::new();
    let mut shares: Vec<Vec<Share>> = Vec::new();
    let mut samples = dataset.samples()?;
    let mut moment = Vec::new();
    while let Some(time) = samples.next_moment(&mut moment)? {
        if time.get() < first {
            continue;
        }
        if time.get() > first + FOLLOWED.get() {
            break;
        }
        for sample in &moment {
            let known = ones.iter().any(|(vehicle, _)| *vehicle == sample.vehicle);
            let name = dataset.vehicles().get(sample.vehicle).map(|vehicle| &*vehicle.name);
            if ones.len() < VEHICLES && !known && name.is_some_and(belongs) {
                ones.push((
                    sample.vehicle,
                    FeatureExtractor::new(dataset.network(), plan.clone())?,
                ));
                shares.push(Vec::new());
            }
        }
        for ((vehicle, extractor), shares) in ones.iter_mut().zip(&mut shares) {
            let own: Vec<VehiclePosition> =
                moment.iter().filter(|sample| sample.vehicle == *vehicle).copied().collect();
            let mut on_step = |step: &StepFeatures| collect(step, study, shares);
            extractor.moment(time, &own, dataset.vehicles(), &mut on_step)?;
        }
    }
    shares.retain(|shares| !shares.is_empty());
    Ok(shares)
}

fn collect(features: &StepFeatures, study: &Study, shares: &mut Vec<Share>) {
    if !features.complete || !holds(study, features.step) {
        return;
    }
    for link in study.network().link_ids() {
        let totals = features.all.link_totals(link);
        if totals.time > Seconds::ZERO {
            let added = FleetNoise::shares(totals, study.step());
            shares.push(Share { step: features.step, link, added });
        }
    }
}

fn holds(study: &Study, step: Step) -> bool {
    let ranges = study.timeline().held().ranges();
    ranges.iter().any(|range| (range.first..=range.last).contains(&step))
}
