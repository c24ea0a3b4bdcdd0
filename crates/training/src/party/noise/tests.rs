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

/// On one link a vehicle drives no farther than the link; on all of them together as far as it can in a step.
#[test]
fn a_vehicle_drives_no_farther_than_it_can() {
    let network = traffic::corridor().unwrap();
    let step = Seconds::new(10.0);
    let cell = MaxDistance::of(Unit::Cell, &network, step);
    let vehicle = MaxDistance::of(Unit::VehicleStep, &network, step);
    for link in network.link_ids() {
        // All links of the corridor are shorter than the 700 m that features count of a vehicle at most.
        assert_eq!(cell.on(link), network.link(link).length);
        assert_eq!(vehicle.on(link), Metres::new(10.0 * MAX_SPEED.get()));
    }
    // A step in which not even the fastest gets to the end.
    assert_eq!(MaxDistance::of(Unit::Cell, &network, Seconds::new(1.0)).on(LinkId(0)).get(), 70.0);
}
