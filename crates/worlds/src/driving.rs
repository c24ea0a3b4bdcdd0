//! How each class of vehicle is built and driven, in both worlds.
//!
//! All classes share one deceleration and one reaction time, because the proof that nobody
//! collides in the built-in world needs a leader who brakes no harder than its follower can; in
//! SUMO, too, unequal decelerations and reaction times below the step end in collisions.

use traffic::VehicleClass;

/// Everyone's comfortable, and in the built-in world hardest, deceleration in m/s².
pub(crate) const DECELERATION: f64 = 4.5;
/// Everyone's reaction time in seconds. A simulation's step may not be longer.
pub(crate) const REACTION_TIME: f64 = 1.1;

/// The length of the longest vehicle in metres.
pub(crate) const LONGEST: f64 = Driving::of(VehicleClass::Bus).length;

/// What a class of vehicle can do and how it is driven. Plain numbers in SI units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Driving {
    /// Bumper to bumper, m.
    pub length: f64,
    /// What it leaves to the vehicle ahead when standing, m.
    pub min_gap: f64,
    /// Acceleration, m/s².
    pub acceleration: f64,
    /// Krauss' imperfection: the share of the acceleration that is lost at random, at most.
    pub imperfection: f64,
    /// Standard deviation between drivers of the ratio of free speed to speed limit; its mean is 1.
    pub speed_deviation: f64,
}

impl Driving {
    /// The parameters of a class.
    pub const fn of(class: VehicleClass) -> Self {
        let (length, min_gap, acceleration) = match class {
            VehicleClass::Car | VehicleClass::Taxi => (4.5, 2.0, 2.6),
            VehicleClass::Motorcycle => (2.2, 1.5, 3.0),
            VehicleClass::Bus => (12.0, 2.5, 1.2),
            VehicleClass::Medium => (6.5, 2.5, 2.2),
            VehicleClass::Heavy => (12.0, 2.5, 1.3),
        };
        Self { length, min_gap, acceleration, imperfection: 0.5, speed_deviation: 0.1 }
    }

    /// One driver's ratio of free speed to speed limit, from a uniform number in 0–1.
    ///
    /// Triangular, which is bounded and close to a normal: a triangle of half-width w has variance
    /// w²/6, so here the ratio stays within 1 ± 0.245.
    pub(crate) fn speed_factor(&self, uniform: f64) -> f64 {
        let half_width = self.speed_deviation * 6.0_f64.sqrt();
        let triangular = if uniform < 0.5 {
            (2.0 * uniform).sqrt() - 1.0
        } else {
            1.0 - (2.0 * (1.0 - uniform)).sqrt()
        };
        1.0 + half_width * triangular
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_vehicle_is_longer_than_the_longest() {
        use VehicleClass::{Bus, Car, Heavy, Medium, Motorcycle, Taxi};
        for class in [Car, Taxi, Motorcycle, Bus, Medium, Heavy] {
            assert!(Driving::of(class).length <= LONGEST, "{class:?}");
        }
    }

    #[test]
    fn speed_factors_grow_from_end_to_end_of_a_symmetric_triangle() {
        let car = Driving::of(VehicleClass::Car);
        let half_width = 0.1 * 6.0_f64.sqrt();
        assert!((car.speed_factor(0.0) - (1.0 - half_width)).abs() < 1e-15);
        assert_eq!(car.speed_factor(0.5), 1.0);
        // The quartiles of a triangle lie 1 − √½ of its half-width from the middle.
        let quartile = half_width * (1.0 - 0.5_f64.sqrt());
        assert!((car.speed_factor(0.25) - (1.0 - quartile)).abs() < 1e-15);
        assert!((car.speed_factor(0.75) - (1.0 + quartile)).abs() < 1e-15);
        let factors: Vec<f64> = (0..=100).map(|i| car.speed_factor(f64::from(i) / 100.0)).collect();
        assert!(factors.windows(2).all(|pair| pair[0] < pair[1]));
        for (low, high) in factors.iter().zip(factors.iter().rev()) {
            assert!((low + high - 2.0).abs() < 1e-12, "{low} {high}");
        }
    }

    #[test]
    fn speed_factors_have_the_stated_mean_and_deviation() {
        let car = Driving::of(VehicleClass::Car);
        const N: u32 = 10_000;
        // A grid over 0–1 integrates the quantile function: error of the order of 1/N.
        let factors: Vec<f64> =
            (0..N).map(|i| car.speed_factor((f64::from(i) + 0.5) / f64::from(N))).collect();
        let mean = factors.iter().sum::<f64>() / f64::from(N);
        let variance = factors.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / f64::from(N);
        assert!((mean - 1.0).abs() < 1e-4, "{mean}");
        assert!((variance.sqrt() - 0.1).abs() < 1e-4, "{variance}");
    }
}
