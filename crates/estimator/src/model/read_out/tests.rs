use neural::Draw;

use super::*;

const LINKS: usize = 3;
/// Numbers of the host's input, of which links look at some.
const WIDTH: usize = 8;

/// Links look at two numbers each.
fn places() -> Vec<Vec<usize>> {
    (0..LINKS).map(|link| vec![2 * link, 2 * link + 1]).collect()
}

/// Samples with targets that are linear in the numbers of each link, and estimates of a network that is off by `offset`,
/// each with noise of so much.
fn scene(samples: usize, offset: f32, noise: [f32; 2], seed: u64) -> (KnownSamples, Vec<f32>) {
    let mut draw = Draw::new(seed);
    let mut known = KnownSamples::default();
    let mut whole = Vec::new();
    for _ in 0..samples {
        let row: Vec<f32> = (0..WIDTH).map(|_| draw.uniform(-1.0, 1.0)).collect();
        for link in 0..LINKS {
            let [a, b] = [row[2 * link], row[2 * link + 1]];
            for truth in [1.0 + a - 0.5 * b, 0.3 * b] {
                known.targets.push(truth + noise[0] * draw.uniform(-1.0, 1.0));
                known.estimates.push(truth + offset + noise[1] * draw.uniform(-1.0, 1.0));
            }
        }
        known.rows.extend(&row[..2 * LINKS]);
        whole.extend(row);
    }
    (known, whole)
}

fn fit(train: &KnownSamples, validation: &KnownSamples) -> ReadOut {
    let kept: Vec<usize> = (0..2 * LINKS).collect();
    ReadOut::fit(places(), &kept, train, validation)
}

fn squares(y: &[f32], targets: &[f32]) -> f64 {
    y.iter().zip(targets).map(|(y, t)| f64::from(y - t).powi(2)).sum()
}

/// Where links have levels of their own that the network misses, the regression takes over.
#[test]
fn what_is_linear_is_found() {
    let (train, validation) = (scene(400, 0.5, [0.0; 2], 1).0, scene(100, 0.5, [0.0; 2], 2).0);
    let read_out = fit(&train, &validation);
    let (test, rows) = scene(100, 0.5, [0.0; 2], 3);
    let mut y = test.estimates.clone();
    read_out.apply(&rows, WIDTH, &mut y);
    // The network errs by 0.5 everywhere. Of a slope that is exact, the least strength takes λ/(λ + var) = 0.3 % for
    // numbers in ±1, so that errors are below 1 % of the targets' range of 2.
    let root = (squares(&y, &test.targets) / y.len() as f64).sqrt();
    assert!(root < 0.02, "{root}");
}

/// Where the network is right, nothing moves.
#[test]
fn a_network_that_is_right_is_left_alone() {
    let (train, validation) = (scene(400, 0.0, [0.5, 0.0], 1).0, scene(100, 0.0, [0.5, 0.0], 2).0);
    let read_out = fit(&train, &validation);
    let (test, rows) = scene(200, 0.0, [0.0; 2], 3);
    let mut y = test.estimates.clone();
    read_out.apply(&rows, WIDTH, &mut y);
    // The noise of the labels has a standard deviation of 0.29. A regression of two numbers on 400 of them errs by
    // √(3/400) of it, 0.025; what is moved is a share of that.
    let root = (squares(&y, &test.targets) / y.len() as f64).sqrt();
    assert!(root < 0.025, "{root}");
}

/// On the validation part itself, the squared error of each link and quantity does not grow: a share between 0 and the
/// best one is taken, and the pooled one moves it by no more than the others gain.
#[test]
fn all_links_together_gain_on_the_validation_part() {
    for seed in 0..20 {
        let (train, _) = scene(60, 0.1, [0.6, 0.6], 10 + seed);
        let (validation, _) = scene(30, 0.1, [0.6, 0.6], 100 + seed);
        let read_out = fit(&train, &validation);
        let mut y = validation.estimates.clone();
        read_out.apply(&validation.rows, 2 * LINKS, &mut y);
        let (before, after) =
            (squares(&validation.estimates, &validation.targets), squares(&y, &validation.targets));
        assert!(after <= before, "seed {seed}: {after} {before}");
    }
}

/// Evidence is that of the definition; what differs from block to block is doubted.
#[test]
fn a_share_that_one_part_of_the_time_asks_for_is_doubted() {
    let steady = Evidence::of(&[[1.0, 1.0]; 50]);
    assert_eq!((steady.gain, steady.room, steady.error), (50.0, 50.0, 0.0));
    // All of the gain in one of five blocks: gains 50, 0, 0, 0, 0 against a share of 1 × 10 each where d = 1.
    let mut pairs = [[0.0, 1.0]; 50];
    pairs[..10].fill([5.0, 1.0]);
    let lucky = Evidence::of(&pairs);
    // Deviations 40, −10, −10, −10, −10: √(2000 · 5/4) = 50.
    assert_eq!((lucky.gain, lucky.room, lucky.error), (50.0, 50.0, 50.0));
    assert_eq!(Evidence::of(&[[1.0, 1.0]]).room, 0.0);
}

#[test]
fn links_that_look_at_nothing_go_to_their_mean() {
    let links = 1;
    let samples = |targets: &[f32]| KnownSamples {
        rows: Vec::new(),
        estimates: vec![0.0; targets.len()],
        targets: targets.to_vec(),
    };
    let train = samples(&[2.0, 1.0, 4.0, 1.0]);
    let validation = samples(&[3.0, 1.0].repeat(10));
    let read_out = ReadOut::fit(vec![Vec::new(); links], &[], &train, &validation);
    let mut y = [0.0; 2];
    read_out.apply(&[7.0], 1, &mut y);
    assert_eq!(y, [3.0, 1.0]);
}

#[test]
fn what_is_saved_is_read_and_what_cannot_be_refused() {
    let (train, validation) = (scene(50, 0.5, [0.1; 2], 1).0, scene(20, 0.5, [0.1; 2], 2).0);
    let read_out = fit(&train, &validation);
    let mut saved = Checkpoint::new("test");
    assert_eq!(ReadOut::load(&saved, LINKS, WIDTH).unwrap(), None);
    read_out.save(&mut saved);
    assert_eq!(ReadOut::load(&saved, LINKS, WIDTH).unwrap(), Some(read_out));
    assert!(ReadOut::load(&saved, LINKS + 1, WIDTH).is_err());
    let error = ReadOut::load(&saved, LINKS, 5).unwrap_err().to_string();
    assert!(error.contains("found column 5, expected less than 5"), "{error}");
    saved.put("read-out.lengths", &[LINKS], &[2.0, 2.0, 3.0]);
    assert!(ReadOut::load(&saved, LINKS, WIDTH).is_err());
    // Lengths that do not fit any memory.
    saved.put("read-out.lengths", &[LINKS], &[f32::MAX; LINKS]);
    assert!(ReadOut::load(&saved, LINKS, WIDTH).is_err());
}
