//! The paper's head and batch: 18 → 272 → 18, 128 samples, 18 measurements each.

use neural::{Draw, Layer, Learner, Plan, hash, head, unit};
use sealed::noise::NoisedVector;
use sealed::noise::accounting::{Budget, least_ratio};
use sealed::{Agreement, Grid, Randomness};

use super::*;
use crate::SealedBatch;

const SAMPLES: usize = 128;
const EMBEDDINGS: usize = 18;
const UNITS: usize = 272;
const LINKS: usize = 9;
const VALUES: usize = SAMPLES * LINKS * EACH;

fn number(key: u64, i: usize) -> f64 {
    f64::from(unit(hash([key, i as u64])))
}

/// Measurements between 0 and 1 that change slowly, as traffic does.
fn measurements() -> Vec<f64> {
    let value = |sample: usize, at: usize| {
        let wave = (sample as f64 / 9.0 + at as f64).sin();
        0.3 + 0.25 * wave + 0.2 * number(1, sample * 18 + at)
    };
    (0..SAMPLES).flat_map(|sample| (0..18).map(move |at| value(sample, at))).collect()
}

/// The last layer of the paper's head on random embeddings, as its weights stand in a round.
fn last_layer(round: u64) -> LastLayer {
    let model = head(EMBEDDINGS, UNITS, 2 * LINKS);
    let mut parameters = vec![0.0f32; model.layout().len()];
    model.initialise(&mut Draw::new(5), &mut parameters);
    // Between rounds weights move by about the learning rate.
    for (i, weight) in parameters.iter_mut().enumerate() {
        *weight += round as f32 * 3e-4 * (2.0 * number(7 + round, i) as f32 - 1.0);
    }
    let z: Vec<f32> = (0..SAMPLES * EMBEDDINGS).map(|i| number(2, i) as f32).collect();
    let layout = model.layout();
    let of = |name: &str| {
        let found = layout.parameters().iter().find(|one| one.name == name).expect("a parameter");
        parameters[found.range.clone()].to_vec()
    };
    let mut hidden = Learner::new(head_hidden(), 1, Plan::default());
    hidden.set_parameters(&[of("hidden.weight"), of("hidden.bias")].concat()).expect("weights");
    let mut h = vec![0.0; SAMPLES * UNITS];
    hidden.infer(&z, &mut h);
    let hidden: Vec<f64> = h.into_iter().map(f64::from).collect();
    let slopes = (0..SAMPLES * LINKS).flat_map(|at| {
        // Density is measured as it is; speed is flow over density.
        let (weight, by_density, by_flow) =
            (0.5 + number(3, at), -number(4, at), 1.0 + number(5, at));
        [weight, 0.0, weight * by_density, weight * by_flow]
    });
    LastLayer::new(SAMPLES, &hidden, slopes.collect()).expect("a layer")
}

fn head_hidden() -> impl Layer {
    neural::Linear::new(1, EMBEDDINGS, UNITS).then(neural::Activation::Relu)
}

fn agreement(grid: Grid) -> Agreement {
    Agreement { width: LINKS * EACH, grid, most_rows: 1000, most_blocks: SAMPLES }
}

fn rmse(a: &[f64], b: &[f64]) -> f64 {
    let squares: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    (squares / a.len() as f64).sqrt()
}

#[test]
fn one_sealed_exchange_of_the_papers_head_gives_the_batch_away() {
    let u = measurements();
    let grid = Grid::new(0.0, 1.0, 1 << 14).unwrap();
    let stored = NoisedVector::without_noise(&u, grid).unwrap();
    let mut sealed = SealedBatch::new(agreement(grid), stored.levels()).unwrap();
    let mut collected = Collected::nothing(SAMPLES, &vec![0.4; VALUES], grid.centre(), 1.0);
    let layer = last_layer(0);
    collected.exchange(&layer, &mut sealed).unwrap();
    assert_eq!(collected.products(), 18 * 273);
    let guess = collected.guess();
    // Products are exact: what is left is rounding of 1e-16 times a condition of a few thousand, far below the
    // step of the grid (6e-5). So every value is found to the last level.
    let error = rmse(&guess, &stored.values()) / rmse(&u, &vec![0.0; VALUES]);
    assert!(error < 1e-9, "{error}");
    let levels: Vec<i32> = guess.iter().map(|&value| grid.level(value).unwrap()).collect();
    assert_eq!(levels, stored.levels());
}

#[test]
fn noise_drawn_once_is_what_the_attack_is_left_with_after_any_number_of_rounds() {
    let u = measurements();
    // A link in a step, whose value changes by a tenth of the range at most.
    let sigma = 0.1 * least_ratio(Budget::new(4.0, 1e-6).unwrap());
    let grid = NoisedVector::grid(0.0, 1.0, sigma, 1 << 14).unwrap();
    let mut random = Randomness::insecure_from_seed(1);
    let stored = NoisedVector::draw(&u, (0.0, 1.0), grid, sigma, &mut random).unwrap();
    let mut sealed = SealedBatch::new(agreement(grid), stored.levels()).unwrap();
    let mut collected = Collected::nothing(SAMPLES, &vec![0.4; VALUES], grid.centre(), 1.0);
    for round in 0..4 {
        collected.exchange(&last_layer(round), &mut sealed).unwrap();
        let guess = collected.guess();
        // The attack works as well as before, on the noised data …
        assert!(rmse(&guess, &stored.values()) < 1e-9, "round {round}");
        // … and is no closer to the data than these are: the noise of 2304 values, whose mean square has a
        // relative deviation of √(2/2304) = 3 %, so σ one of 1.5 %; five of these.
        let error = rmse(&guess, &u);
        assert!((error / sigma - 1.0).abs() < 0.075, "round {round}: {error} of {sigma}");
        assert!((error - rmse(&stored.values(), &u)).abs() < 1e-9);
    }
}
