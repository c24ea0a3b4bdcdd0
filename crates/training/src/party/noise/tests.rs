use super::*;

/// σ is the ratio for (ε, δ) times what a unit changes; by hand for vehicle-step: √2 and the rounding of 2·links
/// numbers by one step of the grid.
#[test]
fn noise_is_what_the_unit_needs() {
    let terms = |unit| NoiseTerms { unit, epsilon: 4.0, ..NoiseTerms::default() };
    let ratio = least_ratio(Budget::new(4.0, 1e-6).unwrap());
    for (unit, squared, changed) in [
        (Unit::VehicleStep, 2.0, 2.0 * 5.0),
        (Unit::VehicleTrip, 2.0 * 60.0, 2.0 * 5.0 * 60.0),
        (Unit::Cell, 3.0, 3.0),
    ] {
        let (grid, sigma) = grid_and_sigma(&terms(unit), [3, 5], 100.0).unwrap();
        let needed = ratio * (f64::sqrt(squared) + f64::sqrt(changed) * grid.step());
        // A hundredth of the step more, so that it is enough whatever the step turns out to be.
        assert!(sigma >= needed && sigma < 1.01 * needed, "{unit:?}: {sigma} {needed}");
        // Six σ fit on either side.
        assert!(grid.value(-grid.levels()) <= -6.0 * sigma + 1e-9);
    }
    let wrong = NoiseTerms { epsilon: 0.0, ..NoiseTerms::default() };
    assert!(wrong.check().is_err());
}

/// A file is read again, to the last bit, and refused when terms or data are others.
#[test]
fn noise_is_drawn_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.noise");
    let values: Vec<f64> = (0..200).map(|i| f64::from(i % 7)).collect();
    let terms = NoiseTerms::default();
    let (grid, sigma) = grid_and_sigma(&terms, [2, 3], 50.0).unwrap();
    let header = |terms, values: &[f64]| Header {
        format: FORMAT,
        fingerprint: fingerprint("fleet", values),
        terms,
        numbers: 2,
        count: values.len(),
    };
    let ours = header(terms, &values);
    assert!(read(&path, &ours, grid, sigma).unwrap().is_none());
    let mut random = Randomness::insecure_from_seed(1);
    let drawn = NoisedVector::draw(&values, (0.0, 50.0), grid, sigma, &mut random).unwrap();
    keep(&path, &ours, &drawn).unwrap();
    assert!(read(&path, &ours, grid, sigma).unwrap() == Some(drawn.clone()));
    // Never written over.
    assert!(keep(&path, &ours, &drawn).is_err());
    let other = NoiseTerms { epsilon: 1.0, ..terms };
    let error = read(&path, &header(other, &values), grid, sigma).unwrap_err().to_string();
    assert!(error.contains("a second release"), "{error}");
    let older = Header { format: 1, ..header(terms, &values) };
    let error = read(&path, &older, grid, sigma).unwrap_err().to_string();
    assert!(error.contains("format 2, expected 1"), "{error}");
    let changed: Vec<f64> = values.iter().map(|value| value + 1.0).collect();
    let error = read(&path, &header(terms, &changed), grid, sigma).unwrap_err().to_string();
    assert!(error.contains("other data"), "{error}");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 3);
    std::fs::write(&path, bytes).unwrap();
    assert!(read(&path, &ours, grid, sigma).is_err());
}

/// On one link a vehicle drives no farther than the link; on all of them together as far as it can in a step.
#[test]
fn a_vehicle_drives_no_farther_than_it_can() {
    let network = traffic::corridor().unwrap();
    let step = Seconds::new(10.0);
    let cell = MaxDistance::of(Unit::Cell, &network, step);
    let vehicle = MaxDistance::of(Unit::VehicleStep, &network, step);
    for link in network.link_ids() {
        // All links of the corridor are shorter than 400 m.
        assert_eq!(cell.on(link), network.link(link).length);
        assert_eq!(vehicle.on(link), Metres::new(400.0));
    }
    // A step in which not even the fastest gets to the end.
    assert_eq!(MaxDistance::of(Unit::Cell, &network, Seconds::new(1.0)).on(LinkId(0)).get(), 40.0);
}
