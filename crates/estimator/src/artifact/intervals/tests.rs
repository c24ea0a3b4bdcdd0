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
            // Each of 6 bins has about 667 errors: its coverage has a standard deviation of at most
            // √(¼/667) = 0.019, the mean of six 0.008; four of these.
            assert!((within - nominal).abs() < 0.032, "{one:?}");
        }
    }
}

#[test]
fn ranks_are_those_of_the_theory() {
    // 39 errors: 95 % leaves ⌊40·0.025⌋ = 1 and ⌈40·0.975⌉ = 39; 50 % 10 and 30.
    let sorted: Vec<f64> = (1..=39).map(f64::from).collect();
    assert_eq!(quantiles(&sorted, 95), [1.0, 39.0]);
    assert_eq!(quantiles(&sorted, 50), [10.0, 30.0]);
    assert_eq!(LEAST, 39);
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
    assert_eq!((interval.density, interval.flow), ([0.0; 2], [0.0; 2]));
    assert_eq!(intervals.of(2, &state(1.0, 1.0), level), None);
}

#[test]
fn equal_estimates_share_a_bin() {
    let estimates = vec![state(5.0, 5.0); 200];
    let truths: Vec<LinkState> = (0..200).map(|i| state(f64::from(i), 5.0)).collect();
    let intervals = Intervals::calibrate(&estimates, &truths, 1).unwrap();
    assert_eq!(intervals.links[0][0].errors.len(), 1);
    assert!(intervals.check().is_ok());
}

#[test]
fn what_cannot_be_is_refused() {
    let (estimates, truths) = scene(38, 4);
    let error = Intervals::calibrate(&estimates, &truths, 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "intervals: found 38 windows with known truth, expected 39 or more"
    );
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
    intervals.links[1][0].errors[0][0] = [1.0, -1.0];
    assert_eq!(intervals.check(), Err(IntervalsError::Broken { link: 1 }));
}
