//! What the host learns of a guest's measurements from the products that training needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use traffic::Window;

use anyhow::{Context, Result};
use attacks::least_squares::{EACH, LastLayer};
use attacks::{Mode, SealedBatch};
use estimator::loss::{PhysicsPlan, calibrated_physics};
use estimator::{
    Architecture, FeatureSet, HostStudy, MeasurementSource, NeuralPlan, PhysicsInformed,
    TargetKind, segments,
};
use sealed::Agreement;
use sealed::noise::accounting::Budget;

use super::gradients::{host_jacobian, last_layer_inputs, slopes, to_embedding};
use super::report::{Attack, AttackResult};
use super::scene::{MOST, Scene};
use super::sums::{Layer, small_batch};
use super::training::{Features, GUEST, Parties};
use super::versions::{Versions, outcomes};
use super::{reduction, sums};
use training::learner::{HostLoss, Sources};
use training::signal::SEGMENT;

/// Samples of a batch, as the paper trains.
const BATCH: usize = 128;

/// What is chosen of the attacks.
pub(super) struct Choices {
    pub seed: u64,
    /// Exchanges before the attack begins.
    pub warm_up: usize,
    /// Exchanges in which the same steps are asked about.
    pub rounds: usize,
    pub budget: Budget,
    /// The most that one link and step changes by, as a share of the range.
    pub change: f64,
}

/// Attacks on products, for one architecture: of `paper` the last layer of its head, and the gradient of its
/// embedding by lattice reduction; of `link` all weights of the host.
pub(super) fn attacks(
    scene: &Scene,
    architecture: Architecture,
    choices: &Choices,
) -> Result<Vec<Attack>> {
    let study = &scene.study;
    let plan = NeuralPlan::new(FeatureSet::Both, architecture, TargetKind::Raw, choices.seed);
    let host = Arc::new(HostStudy::without_truth(study.loops(), study.split(), &plan)?);
    let span = study.train_span();
    let (inputs, _) = plan.guests[0].read(&study.fleets()[0], &span)?;
    let shape = plan.guests[0].shape(&inputs, plan.sizes);
    let rounds = choices.warm_up + choices.rounds;
    let physics = calibrated_physics(study.loops(), study.fleets(), &span, PhysicsPlan::default())?;
    let entries = BTreeMap::from([(GUEST.to_owned(), scene.measured.entries().to_vec())]);
    let scales = &host.record().outputs;
    let objective = PhysicsInformed::new(Some(physics), scales.clone(), entries.clone())?;
    let measured: Arc<dyn MeasurementSource> = Arc::new(scene.measured.clone());
    let sources = Sources { own: [(GUEST.to_owned(), measured)].into(), ..Sources::default() };
    let loss = HostLoss { objective: Box::new(objective), sources };
    let numbers = inputs.len();
    let features: Features = Box::new(move |step, to: &mut [f32]| inputs.write(step, to));
    let guest = (features, numbers);
    let mut parties = Parties::new(study.network(), &host, &plan, &shape, guest, loss, rounds)?;
    let train: Vec<Window> = study.split().train.iter().map(|&last| Window::whole(last)).collect();
    let train = segments(&train, SEGMENT.into());
    let sizes = (BATCH, usize::from(SEGMENT));
    parties.train(&train, sizes, choices.warm_up)?;

    // The steps that the host is curious about: consecutive ones, from the middle of the training part.
    let count = if architecture == Architecture::Paper { BATCH } else { small_batch() };
    let from = (train.len() / 2).saturating_sub(count / 2);
    let batch = train.get(from..from + count);
    let batch =
        batch.with_context(|| format!("data: expected {count} training windows or more"))?;
    let gathered = scene.gather(batch);
    let truth = scene.of_targets(&gathered.readings());
    let versions = Versions::of(truth, scene.trivial(&train), choices)?;
    let mut measurements = PhysicsInformed::new(None, scales.clone(), entries)?;
    let width = study.targets().len() * EACH;

    let mut results: Vec<AttackResult> = Vec::new();
    for mode in [Mode::Clear, Mode::NoisyClear] {
        results.extend(outcomes(mode, 1, &versions, &versions.of_mode(mode).0.values(), ""));
    }
    let mut host_sees = Vec::new();
    for mode in [Mode::Sealed, Mode::SealedNoise] {
        let (vector, grid) = versions.of_mode(mode);
        let agreement = Agreement { width, grid, most_rows: 1 << 14, most_blocks: count };
        let sealed = SealedBatch::new(agreement, vector.levels())?;
        host_sees.push((mode, sealed, Layer::new(architecture, count, &versions.trivial, grid)));
    }
    let mut products = 0;
    let mut reduced = None;
    for round in 1..=choices.rounds {
        let z = parties.embeddings(batch)?;
        let y = parties.estimates(batch, &z)?;
        let readings = gathered.readings();
        let slopes = slopes(scene, batch, &readings, &y, &mut measurements)?;
        let (mut learner, x) = parties.host_view(batch, &z)?;
        if architecture == Architecture::Paper && round == 1 {
            let rows = to_embedding(scene, &mut learner, &x, &slopes, z.len() / count)?;
            reduced = Some(reduction::attack(&rows, &versions, width, choices)?);
        }
        let asked = match architecture {
            Architecture::Paper => {
                let hidden = last_layer_inputs(&mut learner, &x)?;
                sums::QueriedSums::LastLayer(LastLayer::new(count, &hidden, slopes)?)
            }
            Architecture::Link => {
                sums::QueriedSums::All(host_jacobian(scene, &mut learner, &x, &slopes))
            }
        };
        products = asked.products();
        for (mode, sealed, layer) in &mut host_sees {
            layer.exchange(&asked, sealed)?;
            if round == 1 || round == choices.rounds {
                results.extend(outcomes(*mode, round, &versions, &layer.guess(), ""));
            }
        }
        parties.train(&train, sizes, 1)?;
    }
    results.sort_by_key(|one| (one.mode, one.rounds));
    let values = versions.truth.values.len();
    let what = match architecture {
        Architecture::Paper => format!("the paper's head (last layer 272 → {width})"),
        Architecture::Link => "all weights of a host with the `link` model".to_owned(),
    };
    let attack = Attack {
        name: "least-squares",
        adversary: "the host",
        victim: "a guest's measurements",
        setting: format!(
            "FedTSE-PI, {what}, batch {count}: {values} values, {products} products a round, after {} rounds of training",
            choices.warm_up
        ),
        noise: noise(choices),
        results,
        memberships: Vec::new(),
    };
    Ok([attack].into_iter().chain(reduced).collect())
}

/// What the noise on measurements promises.
pub(super) fn noise(choices: &Choices) -> String {
    format!(
        "drawn once; unit of privacy: one link in one step, of which density and speed change by {} % of {} and {} at most",
        100.0 * choices.change,
        MOST[0],
        MOST[1]
    )
}
