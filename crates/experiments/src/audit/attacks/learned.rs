//! Attacks that learn from examples: the host decodes embeddings, a guest the gradients that come back.

use std::sync::Arc;

use anyhow::Result;
use attacks::decoder::{Examples, decode};
use attacks::{Mode, Recovery};
use estimator::data::HostTargets;
use estimator::{Architecture, FeatureSet, HostStudy, NeuralPlan, TargetKind};
use sealed::Randomness;
use traffic::{LinkState, Step, Window};
use training::learner::HostLoss;

use super::fleet_noise::{FleetNoise, NoisedInputs};
use super::report::{Attack, AttackResult};
use super::scene::Scene;
use super::training::{Features, Parties};

/// Samples of an exchange.
const BATCH: usize = 128;
/// Training steps of a decoder.
const STEPS: u64 = 600;
/// What a link is known by.
const QUANTITIES: [(&str, &str); 2] = [("density", "veh/km/lane"), ("flow", "veh/min/lane")];

/// What crosses in one mode, for the windows of the training part in order.
struct Crossed {
    windows: Vec<Step>,
    embeddings: Vec<f64>,
    gradients: Vec<f64>,
}

/// Both attacks on one architecture.
pub(super) fn attacks(
    scene: &Scene,
    architecture: Architecture,
    noise: &FleetNoise,
    warm_up: usize,
    seed: u64,
) -> Result<Vec<Attack>> {
    let mut random = Randomness::insecure_from_seed(seed);
    let mut embedding = Vec::new();
    let mut labels = Vec::new();
    for noisy in [false, true] {
        let crossed =
            trained(scene, architecture, noisy.then_some((noise, &mut random)), warm_up, seed)?;
        let modes = Mode::ALL.into_iter().filter(|mode| mode.has_noise() == noisy);
        let (of_features, of_labels) =
            (features(scene, &crossed, seed)?, truths(scene, &crossed, seed)?);
        for mode in modes {
            let outcome =
                |(quantity, unit, recovery): &(String, &'static str, Recovery)| AttackResult {
                    mode,
                    quantity: quantity.clone(),
                    unit,
                    rounds: warm_up,
                    recovery: *recovery,
                    noise: None,
                    note: String::new(),
                };
            embedding.extend(of_features.iter().map(outcome));
            labels.extend(of_labels.iter().map(outcome));
        }
    }
    for results in [&mut embedding, &mut labels] {
        results.sort_by_key(|one| one.mode);
    }
    let name = match architecture {
        Architecture::Link => "`link`, four numbers for each link",
        Architecture::Paper => "`paper`, nine numbers in all",
    };
    let noise = format!(
        "drawn once on time and distance of each link and step, σ = {:.2} vehicles; unit of privacy: a vehicle in a step",
        noise.sigma
    );
    Ok(vec![
        Attack {
            name: "embedding",
            adversary: "the host, which knows the fleet in half of the steps from elsewhere",
            victim: "a guest's fleet",
            setting: format!(
                "FedTSE, {name}: from embeddings to the fleet's density and flow of each link, by a trained decoder. Encryption does not change what embeddings tell"
            ),
            noise: noise.clone(),
            results: embedding,
            memberships: Vec::new(),
        },
        Attack {
            name: "labels",
            adversary: "a guest, which knows the truth in half of the steps from elsewhere",
            victim: "the host's ground truth",
            setting: format!(
                "FedTSE, {name}: from its own data alone, and with the gradients of its embeddings, to the true density and flow. A guest's noise does not protect the host"
            ),
            noise,
            results: labels,
            memberships: Vec::new(),
        },
    ])
}

/// Trains with labels, then lets every training window cross once more.
fn trained(
    scene: &Scene,
    architecture: Architecture,
    noise: Option<(&FleetNoise, &mut Randomness)>,
    warm_up: usize,
    seed: u64,
) -> Result<Crossed> {
    let study = &scene.study;
    let plan = NeuralPlan::new(FeatureSet::Both, architecture, TargetKind::Raw, seed);
    let host = Arc::new(HostStudy::new(study, &plan)?);
    let fleet = &study.fleets()[0];
    let (inputs, record) = plan.guests[0].read(fleet, &study.train_span())?;
    let shape = plan.guests[0].shape(&inputs, plan.sizes);
    let arrangement = plan.guests[0].sub_model.arrangement();
    let numbers = inputs.len();
    let write: Features = match noise {
        None => Box::new(move |step, to| inputs.write(step, to)),
        Some((noise, random)) => {
            let noised =
                NoisedInputs::new(inputs, arrangement, fleet, &record.inputs, noise, random)?;
            Box::new(move |step, to| noised.write(step, to))
        }
    };
    let train: Vec<Window> = study.split().train.iter().map(|&last| Window::whole(last)).collect();
    let rounds = warm_up + train.len().div_ceil(BATCH);
    let loss = HostLoss::labelled(HostTargets(Arc::clone(&host)), host.loss_weights().clone());
    let guest = (write, numbers);
    let mut parties = Parties::new(study.network(), &host, &plan, &shape, guest, loss, rounds)?;
    parties.train(&train, (BATCH, 1), warm_up)?;
    let (mut embeddings, mut gradients) = (Vec::new(), Vec::new());
    for batch in train.chunks(BATCH) {
        let crossed = parties.exchange(batch)?;
        embeddings.extend(crossed.embeddings.iter().flatten().map(|&x| f64::from(x)));
        // A gradient is a mean over the batch: the last one is smaller.
        let share = batch.len() as f64 / BATCH as f64;
        let gradient = crossed.gradients.iter().flat_map(|(_, gradient)| gradient);
        gradients.extend(gradient.map(|&x| share * f64::from(x)));
    }
    Ok(Crossed { windows: study.split().train.clone(), embeddings, gradients })
}

/// From embeddings to the fleet's own density and flow in the last step.
fn features(
    scene: &Scene,
    crossed: &Crossed,
    seed: u64,
) -> Result<Vec<(String, &'static str, Recovery)>> {
    let fleet = &scene.study.fleets()[0];
    let own = states(scene, &crossed.windows, |step, link| fleet.scaled_up(step, link));
    recovered("", &crossed.embeddings, &own, crossed.windows.len(), seed)
}

/// To the truth, from what a guest has: without and with gradients.
fn truths(
    scene: &Scene,
    crossed: &Crossed,
    seed: u64,
) -> Result<Vec<(String, &'static str, Recovery)>> {
    let (study, count) = (&scene.study, crossed.windows.len());
    let fleet = &study.fleets()[0];
    let own = states(scene, &crossed.windows, |step, link| fleet.scaled_up(step, link));
    let truth =
        states(scene, &crossed.windows, |step, link| study.target(TargetKind::Raw, step, link));
    let beside = |a: &[f64], b: &[f64]| -> Vec<f64> {
        let rows = a.chunks(a.len() / count).zip(b.chunks(b.len() / count));
        rows.flat_map(|(a, b)| [a, b].concat()).collect()
    };
    let alone = beside(&own, &crossed.embeddings);
    let with = beside(&alone, &crossed.gradients);
    let mut found = recovered(", own data", &alone, &truth, count, seed)?;
    found.extend(recovered(", gradients", &with, &truth, count, seed)?);
    Ok(found)
}

fn states(
    scene: &Scene,
    windows: &[Step],
    state: impl Fn(Step, traffic::LinkId) -> LinkState,
) -> Vec<f64> {
    let mut states = Vec::new();
    for &step in windows {
        for &link in scene.study.targets() {
            let LinkState { density, flow } = state(step, link);
            states.extend([density.get(), flow.get()]);
        }
    }
    states
}

/// The first half of the windows are the examples, the second half is decoded.
fn recovered(
    how: &str,
    seen: &[f64],
    hidden: &[f64],
    count: usize,
    seed: u64,
) -> Result<Vec<(String, &'static str, Recovery)>> {
    let half = count / 2;
    let (each_seen, each) = (seen.len() / count, hidden.len() / count);
    let (known, others) = seen.split_at(half * each_seen);
    let (examples, truth) = hidden.split_at(half * each);
    let guess =
        decode(Examples { count: half, seen: known, hidden: examples }, others, STEPS, seed)?;
    let mean = |i: usize| examples.iter().skip(i).step_by(each).sum::<f64>() / half as f64;
    let trivial: Vec<f64> = (0..each).map(mean).collect();
    let trivial: Vec<f64> = trivial.iter().copied().cycle().take(truth.len()).collect();
    let of = |values: &[f64], kind: usize| -> Vec<f64> {
        values.iter().skip(kind).step_by(QUANTITIES.len()).copied().collect()
    };
    let each = QUANTITIES.iter().enumerate().map(|(kind, (quantity, unit))| {
        let recovery = Recovery::of(&of(truth, kind), &of(&guess, kind), &of(&trivial, kind));
        (format!("{quantity}{how}"), *unit, recovery)
    });
    Ok(each.collect())
}
