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

/// Products in the clear, of rows as they are.
struct Plain(Vec<f64>);

impl Products for Plain {
    fn ask(&mut self, rows: &[f64], count: usize) -> Result<Answered, LeastSquaresError> {
        assert_eq!(rows.len(), count * self.0.len());
        let dot = |row: &[f64]| row.iter().zip(&self.0).map(|(a, u)| a * u).sum();
        let products = rows.chunks_exact(self.0.len()).map(dot).collect();
        Ok(Answered { applied: rows.to_vec(), products })
    }
}

/// Rows of A by hand: two samples, two links, one unit and the bias.
#[test]
fn rows_are_units_times_coefficients_at_their_own_link() {
    // Coefficients 1, 2, 3, … of [sample, link, measurement, output].
    let slopes: Vec<f64> = (1..=16).map(f64::from).collect();
    let layer = LastLayer::new(2, &[10.0, 20.0], slopes).unwrap();
    assert_eq!(layer.products(), 2 * EACH * 2);
    // Link 0, output 0: coefficients 1 and 3 of the first sample, 9 and 11 of the second.
    assert_eq!(
        layer.rows(0, 0),
        [[10.0, 30.0, 0.0, 0.0, 180.0, 220.0, 0.0, 0.0], [1.0, 3.0, 0.0, 0.0, 9.0, 11.0, 0.0, 0.0]]
            .concat()
    );
    assert_eq!(
        layer.rows(1, 1),
        [
            [0.0, 0.0, 60.0, 80.0, 0.0, 0.0, 280.0, 320.0],
            [0.0, 0.0, 6.0, 8.0, 0.0, 0.0, 14.0, 16.0]
        ]
        .concat()
    );
}

#[test]
fn a_layer_of_biases_alone_tells_one_sum_a_link() {
    // No unit: each output of a link has one product, with its coefficients over both samples.
    let layer = LastLayer::new(2, &[], vec![1.0; 8]).unwrap();
    assert_eq!(layer.products(), EACH);
    let u = [1.0, 2.0, 3.0, 6.0];
    let mut collected = Collected::nothing(2, &[0.0; 4], 0.0, 1.0);
    collected.exchange(&layer, &mut Plain(u.to_vec())).unwrap();
    assert_eq!(collected.products(), EACH);
    // All that is told is the sum, 12: the nearest point to the guess of zeros has a quarter of it each.
    // The guess counts 1e-11 of an equation: rounding at 1e-16 leaves it five digits.
    for found in collected.guess() {
        assert!((found - 3.0).abs() < 1e-4, "{found}");
    }
}

#[test]
fn the_centre_is_taken_off_and_put_back() {
    // Two units and the bias: three equations an output for the two samples' measurements.
    let layer = |round: u64| {
        let hidden: Vec<f64> = (0..4).map(|i| number(30 + round, i)).collect();
        let slopes = (0..16).map(|i| 1.0 + number(40 + round, i)).collect();
        LastLayer::new(2, &hidden, slopes).unwrap()
    };
    let (centre, u) = (0.5, [0.1, 0.9, 0.4, 0.6, 0.7, 0.2, 0.8, 0.3]);
    let shifted: Vec<f64> = u.iter().map(|u| u - centre).collect();
    let mut collected = Collected::nothing(2, &[0.4; 8], centre, 1.0);
    assert_eq!(collected.guess(), [0.4; 8], "nothing told, nothing learned");
    for round in 0..3 {
        collected.exchange(&layer(round), &mut Plain(shifted.clone())).unwrap();
    }
    assert_eq!(collected.products(), 3 * 2 * EACH * 3);
    // 18 equations of 4 unknowns a link; rounding times a condition of some hundreds.
    for (found, u) in collected.guess().iter().zip(u) {
        assert!((found - u).abs() < 1e-10, "{found} {u}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let shape = |error: ShapeError| (error.what, error.found, error.expected);
    let error = LastLayer::new(3, &[0.0; 7], vec![0.0; 12]).err().unwrap();
    assert_eq!(shape(error), ("hidden units", 7, 6));
    let error = LastLayer::new(3, &[0.0; 6], vec![0.0; 13]).err().unwrap();
    assert_eq!(shape(error), ("coefficients", 13, 12));
    let error = LastLayer::new(0, &[0.0; 2], Vec::new()).err().unwrap();
    assert_eq!(shape(error), ("hidden units", 2, 0));
    // A batch of three samples, asked of a host that collects two.
    let layer = LastLayer::new(3, &[0.0; 3], vec![0.0; 12]).unwrap();
    let mut collected = Collected::nothing(2, &[0.0; 4], 0.0, 1.0);
    let error = collected.exchange(&layer, &mut Plain(vec![0.0; 6])).unwrap_err().to_string();
    assert_eq!(error, "batch: found 6 numbers, expected 4");
}

#[test]
fn whole_products_are_those_of_levels_and_weights() {
    let grid = Grid::new(0.0, 1.0, 1 << 10).unwrap();
    let agreement = Agreement { width: 3, grid, most_rows: 10, most_blocks: 2 };
    let levels = [-1024, 17, 1024, 5, -6, 0];
    let mut sealed = SealedBatch::new(agreement, &levels).unwrap();
    let rows = vec![
        vec![1.0, -0.5, 0.25, 2.0, 0.0, 1e-3],
        vec![0.0; 6],
        vec![0.0, 0.0, 0.0, 0.0, -1e9, 0.0],
    ];
    let (weights, products) = sealed.whole(0..2, &rows).unwrap();
    for ((row, weights), product) in rows.iter().zip(&weights).zip(products) {
        let expected: i64 =
            weights.iter().zip(levels).map(|(weight, level)| weight * i64::from(level)).sum();
        assert_eq!(product, expected);
        // Weights have the signs of the row, and nothing where it has nothing.
        for (a, weight) in row.iter().zip(weights) {
            let sign = if *a == 0.0 { 0 } else { a.signum() as i64 };
            assert!(weight.signum() == sign || *weight == 0, "{a} {weight}");
        }
    }
    assert_eq!(weights[1], [0; 6]);
    // A part of the batch, and more than there is.
    let (weights, products) = sealed.whole(1..2, &[vec![1.0, 1.0, 1.0]]).unwrap();
    assert_eq!(products, [-weights[0][0]], "5 − 6 + 0 times one weight");
    assert!(sealed.whole(1..3, &[vec![1.0; 6]]).is_err());
}
