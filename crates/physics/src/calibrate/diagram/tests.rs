//! Diagrams are found again in data made from them.

use super::*;
use crate::test_networks::Draw;

fn truth() -> FundamentalDiagram {
    FundamentalDiagram::new(
        MetresPerSecond::new(13.0),
        MetresPerSecond::new(4.5),
        VehPerKmLane::new(128.0),
        VehPerMinLane::new(24.0),
    )
    .unwrap()
}

fn prior() -> FundamentalDiagram {
    FundamentalDiagram::triangular(
        MetresPerSecond::new(10.0),
        MetresPerSecond::new(6.0),
        VehPerKmLane::new(150.0),
    )
    .unwrap()
}

/// Samples up to a density; `bend` turns the flow of the diagram into the measured one.
fn samples(seed: u64, up_to: f64, bend: impl Fn(f64, &mut Draw) -> f64) -> Vec<DiagramSample> {
    let draw = &mut Draw::new(seed);
    (0..2000)
        .map(|_| {
            let density = draw.between(0.0, up_to);
            let flow = truth().flow(VehPerKmLane::new(density)).get();
            DiagramSample { density, flow: bend(flow, draw).max(0.0) }
        })
        .collect()
}

fn assert_near(what: &str, found: f64, expected: f64, error: f64) {
    // Four standard errors: once in 16,000 by chance; and one in a hundred of the value for the
    // search, which ends near the minimum.
    let allowed = 4.0 * error + 0.01 * expected;
    assert!((found - expected).abs() < allowed, "{what}: {found} ± {error}, expected {expected}");
}

fn assert_truth(fit: &DiagramFit) {
    let (found, truth) = (fit.diagram, truth());
    assert_eq!(fit.fitted, Fitted::Both);
    let of = |error: Option<MetresPerSecond>| error.unwrap().get();
    assert_near(
        "free speed",
        found.free_speed().get(),
        truth.free_speed().get(),
        fit.free_speed_error.get(),
    );
    assert_near(
        "wave speed",
        found.wave_speed().get(),
        truth.wave_speed().get(),
        of(fit.wave_speed_error),
    );
    let jam_error = fit.jam_density_error.unwrap().get();
    assert_near("jam density", found.jam_density().get(), truth.jam_density().get(), jam_error);
    assert_near(
        "capacity",
        found.capacity().get(),
        truth.capacity().get(),
        fit.capacity_error.get(),
    );
    // Uncertainty of a fit to 2,000 samples with noise of a tenth of capacity: a few percent.
    assert!(fit.free_speed_error.get() < 0.5 && jam_error < 6.0, "{fit:?}");
}

#[test]
fn an_open_road_is_the_middle_of_its_samples() {
    for seed in 1..=5 {
        // Noise, and one sample in twenty that is nonsense.
        let noisy = samples(seed, 126.0, |flow, draw| {
            if draw.next() < 0.05 { draw.between(0.0, 60.0) } else { flow + 2.0 * draw.normal() }
        });
        let options = DiagramOptions { quantile: 0.5, prior: prior() };
        assert_truth(&fit_diagram("A", &noisy, options).unwrap());
    }
}

#[test]
fn a_signalled_link_is_the_upper_edge_of_its_samples() {
    for seed in 1..=5 {
        // Half of the time some of the step is red: flow is cut by any share.
        let cut = samples(seed, 126.0, |flow, draw| {
            let noise = 1.0 + 0.02 * draw.normal();
            if draw.next() < 0.5 { flow * draw.next() } else { flow * noise }
        });
        // Half of the samples lie about the edge, so that the edge is their three-quarter point.
        let options = DiagramOptions { quantile: 0.75, prior: prior() };
        assert_truth(&fit_diagram("A", &cut, options).unwrap());
    }
}

#[test]
fn without_congestion_the_rest_is_the_priors_and_said() {
    let light = samples(3, 25.0, |flow, draw| flow + 0.5 * draw.normal());
    let options = DiagramOptions { quantile: 0.5, prior: prior() };
    let fit = fit_diagram("A", &light, options).unwrap();
    assert_eq!(fit.fitted, Fitted::FreeOnly);
    assert_near("free speed", fit.diagram.free_speed().get(), 13.0, fit.free_speed_error.get());
    assert!((fit.diagram.jam_density().get() - 150.0).abs() < 1e-9);
    assert!((fit.diagram.wave_speed().get() - 6.0).abs() < 1e-9);
    assert_eq!((fit.wave_speed_error, fit.jam_density_error), (None, None));
}

#[test]
fn too_little_and_nonsense_are_refused() {
    let options = DiagramOptions { quantile: 0.5, prior: prior() };
    let few = vec![DiagramSample { density: 10.0, flow: 7.0 }; 12];
    assert_eq!(
        fit_diagram("E1", &few, options).unwrap_err().to_string(),
        "calibration: diagram of link `E1`, samples: found 12, expected at least 50"
    );
    let bad = vec![DiagramSample { density: -1.0, flow: 7.0 }; 100];
    assert!(fit_diagram("E1", &bad, options).unwrap_err().to_string().contains("found -1"));
    let still = vec![DiagramSample { density: 10.0, flow: 0.0 }; 100];
    assert!(fit_diagram("E1", &still, options).unwrap_err().to_string().contains("no flow"));
    for quantile in [0.0, 1.0, -0.5, f64::NAN] {
        let options = DiagramOptions { quantile, prior: prior() };
        let many = vec![DiagramSample { density: 10.0, flow: 7.0 }; 100];
        let error = fit_diagram("E1", &many, options).unwrap_err().to_string();
        assert!(
            error.contains("quantile") && error.contains(&format!("found {quantile}")),
            "{error}"
        );
    }
}

#[test]
fn occupancy_is_density_times_length() {
    let density = density_of_occupancy(0.12, Metres::new(4.5), Metres::new(1.5)).unwrap();
    assert!((density.get() - 20.0).abs() < 1e-12);
    // Nobody there, and one vehicle all the time: 1000 m over vehicle and loop.
    let density = |occupancy| density_of_occupancy(occupancy, Metres::new(4.5), Metres::new(1.5));
    assert_eq!(density(0.0).unwrap(), VehPerKmLane::ZERO);
    assert!((density(1.0).unwrap().get() - 1000.0 / 6.0).abs() < 1e-12);
    for occupancy in [-0.1, 1.2, f64::NAN] {
        let error = density(occupancy).unwrap_err().to_string();
        assert!(error.contains(&format!("found {occupancy}")), "{error}");
    }
}
