//! What the host learns of a guest's measurements from the products that training needs.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use attacks::least_squares::{Collected, EACH, LastLayer, SealedBatch};
use attacks::{Mode, Recovery};
use estimator::{
    Architecture, HostStudy, Measured, NeuralPlan, Objective, Party, PhysicsInformed, Readings,
    Sample, TargetKind, calibrated_ctm, segments,
};
use sealed::noise::NoisedVector;
use sealed::noise::accounting::{Budget, least_ratio};
use sealed::{Agreement, Grid, Randomness};

use super::report::{Attack, Outcome};
use super::scene::{Batch, MOST, QUANTITIES, Scene};
use super::training::{GUEST, Parties};
use crate::party::learning::SEGMENT;

/// Levels of the grid that measurements are put on.
const LEVELS: i32 = 1 << 14;
/// Samples of a batch, as the paper trains.
const BATCH: usize = 128;

/// What is chosen of the attack.
pub struct Choices {
    pub seed: u64,
    /// Exchanges before the attack begins, and then between two looks.
    pub warm_up: usize,
    /// Exchanges in which the same steps are asked about.
    pub rounds: usize,
    pub budget: Budget,
    /// The most that one link and step changes by, as a share of the range.
    pub change: f64,
}

/// Measurements of a batch as they are in each mode.
struct Versions {
    truth: Batch,
    plain: NoisedVector,
    noised: NoisedVector,
    grids: [Grid; 2],
    sigma: f64,
}

impl Versions {
    fn of(truth: Batch, choices: &Choices) -> Result<Self> {
        // Density and speed of the link change together.
        let change = choices.change * f64::sqrt(EACH as f64);
        // Values are put on the grid first, which moves each by half a step at most; its range grows with σ.
        let ratio = least_ratio(choices.budget);
        let step = (1.0 + 12.0 * ratio * change) / f64::from(2 * LEVELS);
        let sigma = ratio * (change + 2.0 * f64::sqrt(EACH as f64) * step);
        let plain = Grid::new(0.0, 1.0, LEVELS)?;
        let wide = NoisedVector::grid(0.0, 1.0, sigma, LEVELS)?;
        let mut random = Randomness::from_seed_for_tests(choices.seed);
        Ok(Self {
            plain: NoisedVector::without_noise(&truth.values, plain)?,
            noised: NoisedVector::draw(&truth.values, (0.0, 1.0), wide, sigma, &mut random)?,
            grids: [plain, wide],
            truth,
            sigma,
        })
    }

    fn of_mode(&self, mode: Mode) -> (&NoisedVector, Grid) {
        if mode.has_noise() { (&self.noised, self.grids[1]) } else { (&self.plain, self.grids[0]) }
    }
}

/// Least squares on the products of the paper's head, in all modes.
pub fn least_squares(scene: &Scene, choices: &Choices) -> Result<Attack> {
    let study = &scene.study;
    let plan = NeuralPlan::new(Party::Both, Architecture::Paper, TargetKind::Raw, choices.seed);
    let host = HostStudy::without_truth(study.loops(), study.split(), &plan)?;
    let span = study.train_span();
    let (inputs, _) = plan.guests[0].read(&study.fleets()[0], &span)?;
    let shape = plan.guests[0].shape(&inputs, plan.sizes);
    let features = |step, to: &mut [f32]| inputs.write(step, to);
    let rounds = choices.warm_up + choices.rounds;
    let network = study.network();
    let mut parties = Parties::new(network, &host, &plan, &shape, &features, rounds)?;
    let physics = calibrated_ctm(study.timeline(), study.fleets(), &span, None)?;
    let entries = BTreeMap::from([(GUEST.to_owned(), scene.measured.entries().to_vec())]);
    let scales = &host.card().outputs;
    let mut objective = PhysicsInformed::new(Some(physics), scales.clone(), entries.clone())?;
    let train: Vec<Sample> = study.split().train.iter().map(|&last| Sample::whole(last)).collect();
    let train = segments(&train, SEGMENT.into());
    let mut learn = |parties: &mut Parties<'_>, batch: &[Sample]| {
        let gathered = scene.gather(batch);
        let measured = [(GUEST, gathered.readings())].into();
        parties.exchange(batch, &measured, &mut objective).map(|_| ())
    };
    let shape = (BATCH, usize::from(SEGMENT));
    parties.train(&train, shape, choices.warm_up, &mut learn)?;

    // The batch that the host is curious about: consecutive steps from the middle of the training part.
    let from = train.len() / 2 - BATCH / 2;
    let batch = train.get(from..from + BATCH).context("data: expected 128 training windows")?;
    let gathered = scene.gather(batch);
    let versions = Versions::of(scene.of_targets(&gathered.readings()), choices)?;
    let guess = trivial(scene, &train);
    let guess: Vec<f64> = guess.iter().copied().cycle().take(versions.truth.values.len()).collect();
    let mut measurements = PhysicsInformed::new(None, scales.clone(), entries)?;
    let width = study.targets().len() * EACH;
    let agreement = |grid| Agreement { width, grid, most_rows: 1 << 14, most_blocks: BATCH };

    let mut results: Vec<Outcome> = Vec::new();
    let mut host_sees = Vec::new();
    for mode in [Mode::Sealed, Mode::SealedNoise] {
        let (vector, grid) = versions.of_mode(mode);
        let sealed = SealedBatch::new(agreement(grid), vector.levels())?;
        let collected = Collected::nothing(BATCH, &guess, grid.centre(), 1e-3);
        host_sees.push((mode, sealed, collected));
    }
    for mode in [Mode::Clear, Mode::NoisyClear] {
        let seen = versions.of_mode(mode).0.values();
        results.extend(outcomes(mode, 1, &versions, &seen, &guess));
    }
    let mut products = 0;
    for round in 1..=choices.rounds {
        let z = parties.embeddings(batch)?;
        let y = parties.estimates(batch, &z)?;
        let slopes = slopes(scene, batch, &gathered.readings(), &y, &mut measurements)?;
        let (mut learner, x) = parties.host_view(batch, &z)?;
        let hidden = hidden_units(&mut learner, &x)?;
        let layer = LastLayer::new(BATCH, &hidden, slopes)?;
        products = layer.products();
        for (mode, sealed, collected) in &mut host_sees {
            collected.exchange(&layer, sealed)?;
            if round == 1 || round == choices.rounds {
                let found = outcomes(*mode, round, &versions, &collected.guess(), &guess);
                results.extend(found);
            }
        }
        parties.train(&train, shape, 1, &mut learn)?;
    }
    results.sort_by_key(|one| (one.mode, one.rounds));
    let values = versions.truth.values.len();
    let change = 100.0 * choices.change;
    Ok(Attack {
        name: "least-squares",
        adversary: "the host",
        victim: "a guest's measurements",
        setting: format!(
            "FedTSE-PI, the paper's head (last layer 272 → {width}), batch {BATCH}: {values} values, {products} products a round, after {} rounds of training",
            choices.warm_up
        ),
        noise: format!(
            "drawn once; unit of privacy: one link in one step, of which density and speed change by {change} % of {} and {} at most",
            MOST[0], MOST[1]
        ),
        results,
    })
}

/// The trivial guess: what is measured of each link on average.
fn trivial(scene: &Scene, train: &[Sample]) -> Vec<f64> {
    let gathered = scene.gather(train);
    let all = scene.of_targets(&gathered.readings());
    let each = scene.study.targets().len() * EACH;
    let mut sums = vec![(0.0, 0.0); each];
    for (i, (value, known)) in all.values.iter().zip(&all.known).enumerate() {
        if *known {
            sums[i % each].0 += value;
            sums[i % each].1 += 1.0;
        }
    }
    sums.into_iter().map(|(sum, count): (f64, f64)| sum / count.max(1.0)).collect()
}

/// How the gradient of the estimates depends on what is measured, `[sample, scored link, measurement, output]`:
/// it is linear in it, so differences tell.
fn slopes(
    scene: &Scene,
    batch: &[Sample],
    readings: &Readings<'_>,
    y: &[f32],
    measurements: &mut PhysicsInformed,
) -> Result<Vec<f64>> {
    let links = scene.study.network().links().len();
    let each = scene.measured.entries().len();
    let mut gradient = |ones: Option<usize>| -> Result<Vec<f32>> {
        let is_one = |i: usize| ones == Some(i % each / links);
        let values: Vec<f32> =
            (0..readings.values.len()).map(|i| f32::from(u8::from(is_one(i)))).collect();
        let given = Readings { values: &values, weights: readings.weights };
        let mut dy = vec![0.0; y.len()];
        measurements.train(batch, &[(GUEST, given)].into(), y, &mut dy)?;
        Ok(dy)
    };
    let none = gradient(None)?;
    let by = [gradient(Some(0))?, gradient(Some(1))?];
    let mut slopes = Vec::new();
    for sample in 0..batch.len() {
        for link in scene.study.targets() {
            for (by, most) in by.iter().zip(MOST) {
                for output in 0..EACH {
                    let at = (sample * links + link.index()) * EACH + output;
                    slopes.push(f64::from(by[at] - none[at]) * most);
                }
            }
        }
    }
    Ok(slopes)
}

/// The units of the head's hidden layer, `[sample, unit]`: the gradient of the last layer's weights of an output
/// by that output.
fn hidden_units(host: &mut neural::Learner<neural::Fusion>, x: &[f32]) -> Result<Vec<f64>> {
    use neural::Layer;
    let (inputs, outputs) = (host.model().input_len(), host.model().output_len());
    let weights = host.layout().parameters().iter().find(|one| one.name == "head.out.weight");
    let range = weights.context("the head's last layer")?.range.clone();
    let mut dy = vec![0.0; outputs];
    dy[0] = 1.0;
    let mut y = vec![0.0; outputs];
    let mut hidden = Vec::new();
    for x in x.chunks_exact(inputs) {
        host.forward(x, &mut y, None);
        host.backward(x, &dy, None, None);
        let of_first = host.gradient()[range.clone()].iter().step_by(outputs);
        hidden.extend(of_first.map(|&unit| f64::from(unit)));
    }
    Ok(hidden)
}

/// How close a guess of the batch is, for each quantity.
fn outcomes(
    mode: Mode,
    rounds: usize,
    versions: &Versions,
    guess: &[f64],
    trivial: &[f64],
) -> Vec<Outcome> {
    let each = QUANTITIES.iter().zip(MOST).enumerate();
    let each = each.map(|(kind, ((quantity, unit), most))| {
        let of = |values: &[f64]| -> Vec<f64> {
            let known = values.iter().zip(&versions.truth.known).skip(kind).step_by(EACH);
            known.filter(|(_, known)| **known).map(|(value, _)| value * most).collect()
        };
        let recovery = Recovery::of(&of(&versions.truth.values), &of(guess), &of(trivial));
        Outcome {
            mode,
            quantity: (*quantity).to_owned(),
            unit,
            rounds: Some(rounds),
            recovery,
            noise: mode.has_noise().then_some(versions.sigma * most),
            note: String::new(),
        }
    });
    each.collect()
}
