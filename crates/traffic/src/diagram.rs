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
    pub fn sending(&self, density: VehPerKmLane) -> VehPerMinLane {
        (density.max(VehPerKmLane::ZERO) * self.free_speed).min(self.capacity)
    }

    /// The most that a cell of this density can take in: capacity, then falls to zero at jam.
    pub fn receiving(&self, density: VehPerKmLane) -> VehPerMinLane {
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
    }
}
