use neural::random::Draw;
use traffic::{VehPerKmLane, VehPerMinLane};

use super::*;

fn state(density: f64, flow: f64) -> LinkState {
    LinkState { density: VehPerKmLane::new(density), flow: VehPerMinLane::new(flow) }
}

/// Two links; errors grow with the estimate and are skewed, so that neither one width for all nor a
/// symmetric interval would do.
fn scene(windows: usize, seed: u64) -> (Vec<LinkState>, Vec<LinkState>) {
    let mut draw = Draw::new(seed);
    let mut uniform = || f64::from(draw.uniform(0.0, 1.0));
    let (mut estimates, mut truths) = (Vec::new(), Vec::new());
    for _ in 0..windows {
        for link in 0..2 {
            let size = 20.0 + 100.0 * uniform();
            let skewed = -(1.0 - uniform()).ln() * (1.0 + f64::from(link)) * size / 40.0;
            estimates.push(state(size, 10.0));
            truths.push(state(size + skewed, 10.0 + uniform()));
        }
    }
    (estimates, truths)
}

#[test]
fn coverage_is_nominal_for_exchangeable_errors() {
    let (estimates, truths) = scene(2000, 1);
    let intervals = Intervals::calibrate(&estimates, &truths, 2).unwrap();
    let (estimates, truths) = scene(20_000, 2);
    let coverage = Coverage::measure(&intervals, &[0, 1], &estimates, &truths).unwrap();
    for one in coverage {
        let nominal = f64::from(one.level) / 100.0;
        for within in one.within {
            // Each of two links has 2000 errors: its coverage has a standard deviation of at most √(¼/2000) = 0.011, the
            // mean of two 0.008; four of these. The 50 errors that stand for the other link, whose spread is half or
            // twice as large, move a rank by at most 50 of 2050.
            assert!((within - nominal).abs() < 0.032 + 50.0 / 2050.0, "{one:?}");
        }
    }
}

#[test]
fn ranks_are_those_of_the_theory() {
    // 39 errors: 95 % leaves ⌊40·0.025⌋ = 1 and ⌈40·0.975⌉ = 39; 50 % 10 and 30. Here 20 is the middle, 0.
    let shifted = |of: &[(f64, f64)]| of.iter().map(|&(v, w)| (v - 20.0, w)).collect::<Vec<_>>();
    let sorted: Vec<(f64, f64)> = (1..=39).map(|value| (f64::from(value), 1.0)).collect();
    assert_eq!(around_zero(&shifted(&sorted), 39, 95), [-19.0, 19.0]);
    assert_eq!(around_zero(&shifted(&sorted), 39, 50), [-10.0, 10.0]);
    // Two errors of weight a half are one.
    let halves: Vec<(f64, f64)> = sorted.iter().flat_map(|&(v, _)| [(v, 0.5); 2]).collect();
    assert_eq!(around_zero(&shifted(&halves), 39, 50), [-10.0, 10.0]);
    // Of errors of one sign, 50 % are the 20 that are nearest to 0.
    assert_eq!(around_zero(&sorted, 39, 50), [0.0, 20.0]);
    let negative: Vec<(f64, f64)> = sorted.iter().rev().map(|&(v, w)| (-v, w)).collect();
    assert_eq!(around_zero(&negative, 39, 50), [-20.0, 0.0]);
    assert_eq!(LEVELS.map(least), [3, 9, 19, 39]);
}

#[test]
fn fuller_roads_get_wider_intervals_and_none_is_negative() {
    let (estimates, truths) = scene(2000, 3);
    let intervals = Intervals::calibrate(&estimates, &truths, 2).unwrap();
    let level = Intervals::level(90).unwrap();
    let width = |size: f64| {
        let [low, high] = intervals.of(0, &state(size, 10.0), level).unwrap().density;
        high - low
    };
    assert!(width(110.0) > 1.5 * width(25.0), "{} {}", width(110.0), width(25.0));
    let below: Vec<LinkState> = truths.iter().map(|_| state(0.0, 0.0)).collect();
    let far = Intervals::calibrate(&truths, &below, 2).unwrap();
    let interval = far.of(1, &state(1.0, 1.0), level).unwrap();
    // All truths were below: the interval goes up to the estimate, and no further.
    assert_eq!((interval.density, interval.flow), ([0.0, 1.0], [0.0, 1.0]));
    assert_eq!(intervals.of(2, &state(1.0, 1.0), level), None);
}

#[test]
fn equal_estimates_share_a_bin() {
    let estimates = vec![state(5.0, 5.0); 200];
    let truths: Vec<LinkState> = (0..200).map(|i| state(f64::from(i), 5.0)).collect();
    let intervals = Intervals::calibrate(&estimates, &truths, 1).unwrap();
    assert_eq!(intervals.sizes[0].error.len(), 1);
    assert!(intervals.check().is_ok());
}

#[test]
fn what_cannot_be_is_refused() {
    let (estimates, truths) = scene(1, 4);
    let error = Intervals::calibrate(&estimates, &truths, 2).unwrap_err();
    assert_eq!(error.to_string(), "intervals: found 2 known errors of a link, expected 3 or more");
    let (estimates, truths) = scene(38, 4);
    let error = Intervals::calibrate(&estimates, &truths[1..], 2).unwrap_err();
    assert_eq!(error.to_string(), "intervals: found 75 truths, expected 76");
    assert!(Intervals::calibrate(&estimates, &truths, 0).is_err());
    let (mut estimates, truths) = scene(50, 5);
    estimates[7] = state(f64::NAN, 1.0);
    let error = Intervals::calibrate(&estimates, &truths, 2).unwrap_err();
    assert_eq!(error, IntervalsError::NotANumber { window: 3, link: 1 });
    let error = Intervals::level(42).unwrap_err();
    assert_eq!(error.to_string(), "interval: found 42 %, expected one of 50, 80, 90, 95");
    let (estimates, truths) = scene(200, 6);
    let mut intervals = Intervals::calibrate(&estimates, &truths, 2).unwrap();
    intervals.links[1][0][0] = [1.0, -1.0];
    assert_eq!(intervals.check(), Err(IntervalsError::Broken { link: 1 }));
    intervals.links[1][0].pop();
    assert_eq!(intervals.check(), Err(IntervalsError::Broken { link: 1 }));
    intervals.sizes[1].error.pop();
    assert_eq!(intervals.check(), Err(IntervalsError::BrokenSizes));
}

/// 35 windows of one link allow 90 % and not 95 %; with another link beside it, all.
#[test]
fn levels_are_there_as_far_as_the_errors_allow() {
    let (estimates, truths) = scene(35, 7);
    let whole = Intervals::calibrate(&estimates, &truths, 2).unwrap();
    assert_eq!(whole.levels().map(Level::percent).collect::<Vec<_>>(), LEVELS);
    let first = |of: &[LinkState]| of.iter().step_by(2).copied().collect::<Vec<_>>();
    let (estimates, truths) = (first(&estimates), first(&truths));
    let alone = Intervals::calibrate(&estimates, &truths, 1).unwrap();
    assert_eq!(alone.levels().map(Level::percent).collect::<Vec<_>>(), [50, 80, 90]);
    assert!(alone.known_level(90).is_ok());
    let error = alone.known_level(95).unwrap_err().to_string();
    assert_eq!(error, "interval: found 95 %, expected one that the model has: 50, 80, 90");
    assert_eq!(alone.of(0, &estimates[0], Intervals::level(95).unwrap()), None);
    assert_eq!(Coverage::measure(&alone, &[0], &estimates, &truths).unwrap().len(), 3);
}

/// Noise of the truth widens no interval: as wide as without it, as far as its variance is known.
#[test]
fn known_noise_is_taken_off() {
    let mut draw = Draw::new(8);
    let mut uniform = || f64::from(draw.uniform(-1.0, 1.0));
    let pairs: Vec<[f64; 2]> = (0..4000).map(|_| [3.0 * uniform(), 4.0 * uniform()]).collect();
    let width = |error: &dyn Fn(&[f64; 2]) -> f64, noise: f64| {
        let known = |pair| KnownError { estimate: 20.0, error: error(pair), noise };
        let errors: Vec<KnownError> = pairs.iter().map(known).collect();
        let intervals = Intervals::of_errors(&[[errors.clone(), errors]]).unwrap();
        let level = Intervals::level(80).unwrap();
        let [low, high] = intervals.of(0, &state(20.0, 20.0), level).unwrap().density;
        high - low
    };
    let clean = width(&|[error, _]| *error, 0.0);
    // A number in ±4 has a variance of 16/3.
    let [seen, cleaned] = [0.0, 16.0 / 3.0].map(|noise| width(&|[e, n]| e + n, noise));
    // 80 % of a number in ±3 lie within ±2.4, 1.39 of its deviation. Of the sum's mean square 64 % are noise: the quantile is 36 % of
    // the sum's, 1.31 of its deviation, and 64 % of the logistic one's, 1.211; some 3 % of chance.
    assert!((clean - 4.8).abs() < 0.2, "{clean}");
    let expected = (0.36 * 1.31 + 0.64 * 1.211) / 1.39;
    assert!(
        (cleaned / clean - expected).abs() < 0.04 && seen > 1.5 * clean,
        "{clean} {cleaned} {seen}"
    );
}

proptest::proptest! {
    /// Whatever the errors, an interval contains its own estimate and those of lower levels.
    #[test]
    fn intervals_contain_their_estimate_and_each_other(
        errors in proptest::collection::vec((0.0..200.0f64, -100.0..100.0f64), 3..120),
        others in proptest::collection::vec((0.0..200.0f64, -100.0..100.0f64), 3..120),
        asked in 0.0..300.0f64,
    ) {
        let known = |of: &[(f64, f64)]| -> Vec<KnownError> {
            of.iter().map(|&(estimate, error)| KnownError { estimate, error, noise: 1.0 }).collect()
        };
        let links = [[known(&errors), known(&others)], [known(&others), known(&errors)]];
        let intervals = Intervals::of_errors(&links).unwrap();
        proptest::prop_assert!(intervals.check().is_ok());
        for link in 0..2 {
            let mut inner = LinkInterval { density: [asked; 2], flow: [asked; 2] };
            for level in intervals.levels() {
                let outer = intervals.of(link, &state(asked, asked), level).unwrap();
                for (inner, outer) in [(inner.density, outer.density), (inner.flow, outer.flow)] {
                    proptest::prop_assert!(outer[0] <= inner[0] && inner[1] <= outer[1]);
                }
                inner = outer;
            }
        }
    }
}
