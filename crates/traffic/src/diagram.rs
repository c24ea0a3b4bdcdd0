//! The fundamental diagram: flow as a function of density on one lane.
//!
//! ```text
//!  flow
//!  q_c │    ┌────┐            q(k) = min( v_f·k, q_c, w·(k_jam − k) )
//!      │   ╱      ╲
//!      │  ╱ v_f    ╲ w
//!      └─┴──────────┴── density
//!        0          k_jam
//! ```

use thiserror::Error;

use crate::units::{MetresPerSecond, VehPerKmLane, VehPerMinLane};

/// A triangular diagram, or a trapezoidal one where capacity cuts the triangle's top.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FundamentalDiagram {
    free_speed: MetresPerSecond,
    wave_speed: MetresPerSecond,
    jam_density: VehPerKmLane,
    capacity: VehPerMinLane,
}

/// A diagram with a parameter that is not positive, or capacity above the triangle.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("fundamental diagram: {field}: found {found}, expected more than 0{limit}")]
pub struct DiagramError {
    field: &'static str,
    found: String,
    limit: String,
}

impl FundamentalDiagram {
    /// The triangle: capacity is where the two branches meet.
    pub fn triangular(
        free_speed: MetresPerSecond,
        wave_speed: MetresPerSecond,
        jam_density: VehPerKmLane,
    ) -> Result<Self, DiagramError> {
        let capacity = triangle_top(free_speed, wave_speed, jam_density);
        Self::new(free_speed, wave_speed, jam_density, capacity)
    }

    /// A trapezoid with its own capacity, at most the triangle's top.
    pub fn new(
        free_speed: MetresPerSecond,
        wave_speed: MetresPerSecond,
        jam_density: VehPerKmLane,
        capacity: VehPerMinLane,
    ) -> Result<Self, DiagramError> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let fail = |field, found: String, limit: String| Err(DiagramError { field, found, limit });
        if !positive(free_speed.get()) {
            return fail("free speed", free_speed.to_string(), String::new());
        }
        if !positive(wave_speed.get()) {
            return fail("wave speed", wave_speed.to_string(), String::new());
        }
        if !positive(jam_density.get()) {
            return fail("jam density", jam_density.to_string(), String::new());
        }
        let top = triangle_top(free_speed, wave_speed, jam_density);
        if !(positive(capacity.get()) && capacity <= top) {
            return fail("capacity", capacity.to_string(), format!(" and at most {top}"));
        }
        Ok(Self { free_speed, wave_speed, jam_density, capacity })
    }

    /// Speed of a lone vehicle.
    pub fn free_speed(&self) -> MetresPerSecond {
        self.free_speed
    }

    /// Speed at which a queue's discharge runs upstream (positive).
    pub fn wave_speed(&self) -> MetresPerSecond {
        self.wave_speed
    }

    /// Density of a standing queue.
    pub fn jam_density(&self) -> VehPerKmLane {
        self.jam_density
    }

    /// The largest flow.
    pub fn capacity(&self) -> VehPerMinLane {
        self.capacity
    }

    /// The smallest density that carries capacity.
    pub fn critical_density(&self) -> VehPerKmLane {
        self.capacity / self.free_speed
    }

    /// Flow at a density; densities outside 0 to jam are taken at the nearer end.
    pub fn flow(&self, density: VehPerKmLane) -> VehPerMinLane {
        self.sending(density).min(self.receiving(density))
    }

    /// The most that a cell of this density can send on: rises to capacity and stays there.
    pub(crate) fn sending(&self, density: VehPerKmLane) -> VehPerMinLane {
        (density.max(VehPerKmLane::ZERO) * self.free_speed).min(self.capacity)
    }

    /// The most that a cell of this density can take in: capacity, then falls to zero at jam.
    pub(crate) fn receiving(&self, density: VehPerKmLane) -> VehPerMinLane {
        let room = (self.jam_density - density).max(VehPerKmLane::ZERO);
        (room * self.wave_speed).min(self.capacity)
    }

    /// Speed of the border between two states: the slope of the chord (Rankine–Hugoniot).
    /// `None` between equal densities, where there is no border.
    pub fn shock_speed(&self, up: VehPerKmLane, down: VehPerKmLane) -> Option<MetresPerSecond> {
        let step = down - up;
        (step != VehPerKmLane::ZERO).then(|| (self.flow(down) - self.flow(up)) / step)
    }
}

fn triangle_top(
    free_speed: MetresPerSecond,
    wave_speed: MetresPerSecond,
    jam_density: VehPerKmLane,
) -> VehPerMinLane {
    let critical = jam_density * (wave_speed / (free_speed + wave_speed));
    critical * free_speed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagram() -> FundamentalDiagram {
        // 12 m/s, 6 m/s, 150 veh/km: critical 50 veh/km, capacity 36 veh/min.
        FundamentalDiagram::triangular(
            MetresPerSecond::new(12.0),
            MetresPerSecond::new(6.0),
            VehPerKmLane::new(150.0),
        )
        .unwrap()
    }

    #[test]
    fn the_triangle_has_its_closed_form() {
        let diagram = diagram();
        assert_eq!(diagram.capacity(), VehPerMinLane::new(36.0));
        assert_eq!(diagram.critical_density(), VehPerKmLane::new(50.0));
        assert_eq!(diagram.flow(VehPerKmLane::new(25.0)), VehPerMinLane::new(18.0));
        assert_eq!(diagram.flow(VehPerKmLane::new(100.0)), VehPerMinLane::new(18.0));
        assert_eq!(diagram.flow(VehPerKmLane::new(150.0)), VehPerMinLane::ZERO);
        assert_eq!(diagram.flow(VehPerKmLane::new(200.0)), VehPerMinLane::ZERO);
    }

    #[test]
    fn outside_of_its_densities_the_nearer_end_counts() {
        let diagram = diagram();
        assert_eq!(diagram.sending(VehPerKmLane::new(-3.0)), VehPerMinLane::ZERO);
        assert_eq!(diagram.flow(VehPerKmLane::new(-3.0)), VehPerMinLane::ZERO);
        assert_eq!(diagram.receiving(VehPerKmLane::new(-3.0)), diagram.capacity());
        assert_eq!(diagram.sending(VehPerKmLane::new(1e9)), diagram.capacity());
        assert_eq!(diagram.receiving(VehPerKmLane::new(1e9)), VehPerMinLane::ZERO);
    }

    #[test]
    fn a_trapezoid_carries_its_capacity_between_two_densities() {
        // Capacity 24 veh/min = 0.4 veh/s: k from 0.4/12 = 33.3 veh/km to 150 − 0.4/6 = 83.3 veh/km.
        let trapezoid = FundamentalDiagram::new(
            MetresPerSecond::new(12.0),
            MetresPerSecond::new(6.0),
            VehPerKmLane::new(150.0),
            VehPerMinLane::new(24.0),
        )
        .unwrap();
        assert!((trapezoid.critical_density().get() - 100.0 / 3.0).abs() < 1e-12);
        for density in [34.0, 50.0, 83.0] {
            assert_eq!(trapezoid.flow(VehPerKmLane::new(density)), VehPerMinLane::new(24.0));
        }
        // Below and above, the triangle's own branches.
        assert!((trapezoid.flow(VehPerKmLane::new(30.0)).get() - 21.6).abs() < 1e-12);
        assert!((trapezoid.flow(VehPerKmLane::new(100.0)).get() - 18.0).abs() < 1e-12);
        let plateau = trapezoid.shock_speed(VehPerKmLane::new(40.0), VehPerKmLane::new(80.0));
        assert_eq!(
            plateau,
            Some(MetresPerSecond::ZERO),
            "states of equal flow have a standing border"
        );
    }

    #[test]
    fn borders_within_a_branch_move_with_its_wave() {
        let between = |up: f64, down: f64| {
            diagram().shock_speed(VehPerKmLane::new(up), VehPerKmLane::new(down)).unwrap().get()
        };
        // Free flow: news travel with the vehicles. Congestion: they run upstream with the wave.
        assert!((between(10.0, 40.0) - 12.0).abs() < 1e-12);
        assert!((between(60.0, 140.0) + 6.0).abs() < 1e-12);
        // The same border, whichever side is named first.
        assert_eq!(between(20.0, 120.0), between(120.0, 20.0));
    }

    #[test]
    fn shocks_move_with_the_slope_of_the_chord() {
        let speed =
            diagram().shock_speed(VehPerKmLane::new(25.0), VehPerKmLane::new(150.0)).unwrap();
        // (0 − 18 veh/min)/(150 − 25 veh/km) = −0.144 km/min = −2.4 m/s.
        assert!((speed.get() + 2.4).abs() < 1e-12);
        assert_eq!(diagram().shock_speed(VehPerKmLane::new(5.0), VehPerKmLane::new(5.0)), None);
    }

    #[test]
    fn parameters_that_make_no_diagram_are_refused() {
        let bad = FundamentalDiagram::new(
            MetresPerSecond::new(12.0),
            MetresPerSecond::new(6.0),
            VehPerKmLane::new(150.0),
            VehPerMinLane::new(40.0),
        );
        assert_eq!(
            bad.unwrap_err().to_string(),
            "fundamental diagram: capacity: found 40 veh/min/lane, expected more than 0 and at most 36 veh/min/lane"
        );
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refusal = |values: [f64; 4]| {
                let [free, wave, jam, capacity] = values;
                FundamentalDiagram::new(
                    MetresPerSecond::new(free),
                    MetresPerSecond::new(wave),
                    VehPerKmLane::new(jam),
                    VehPerMinLane::new(capacity),
                )
                .unwrap_err()
                .to_string()
            };
            let expected = |field: &str, unit: &str| {
                format!("fundamental diagram: {field}: found {bad} {unit}, expected more than 0")
            };
            assert_eq!(refusal([bad, 6.0, 150.0, 30.0]), expected("free speed", "m/s"));
            assert_eq!(refusal([12.0, bad, 150.0, 30.0]), expected("wave speed", "m/s"));
            assert_eq!(refusal([12.0, 6.0, bad, 30.0]), expected("jam density", "veh/km/lane"));
            assert_eq!(
                refusal([12.0, 6.0, 150.0, bad]),
                expected("capacity", "veh/min/lane") + " and at most 36 veh/min/lane"
            );
        }
    }

    proptest::proptest! {
        /// Sending rises and receiving falls with density, flow is the smaller of the two and at
        /// most capacity, and no border is faster than traffic or than the wave.
        #[test]
        fn any_diagram_is_concave(
            free in 1.0..40.0_f64,
            wave in 1.0..15.0_f64,
            jam in 50.0..250.0_f64,
            cut in 0.05..1.0_f64,
            shares in (0.0..1.0_f64, 0.0..1.0_f64),
        ) {
            let speeds = (MetresPerSecond::new(free), MetresPerSecond::new(wave));
            let jam_density = VehPerKmLane::new(jam);
            let triangle = FundamentalDiagram::triangular(speeds.0, speeds.1, jam_density).unwrap();
            // The branches meet where v·k = w·(k_jam − k), at k_jam·w/(v + w).
            let top = triangle.critical_density();
            proptest::prop_assert!((top.get() - jam * wave / (free + wave)).abs() < 1e-9);
            proptest::prop_assert!((triangle.receiving(top) - triangle.capacity()).get().abs() < 1e-9);
            let capacity = triangle.capacity() * cut;
            let diagram = FundamentalDiagram::new(speeds.0, speeds.1, jam_density, capacity).unwrap();
            let (low, high) = (shares.0.min(shares.1) * jam, shares.0.max(shares.1) * jam);
            let (low, high) = (VehPerKmLane::new(low), VehPerKmLane::new(high));
            proptest::prop_assert!(diagram.sending(low) <= diagram.sending(high));
            proptest::prop_assert!(diagram.receiving(low) >= diagram.receiving(high));
            for density in [low, high] {
                let flow = diagram.flow(density);
                let (k, per_minute) = (density.get() / 1000.0, 60.0);
                let closed = (free * k).min(wave * (jam / 1000.0 - k)) * per_minute;
                proptest::prop_assert!((flow.get() - closed.min(capacity.get())).abs() < 1e-9);
            }
            if let Some(speed) = diagram.shock_speed(low, high) {
                // Rounding of a difference of flows, over one of densities.
                let slack = 1e-12 * capacity.get() / (high - low).get() * 1000.0 + 1e-9;
                proptest::prop_assert!(speed.get() <= free + slack && speed.get() >= -wave - slack);
            }
        }
    }
}
