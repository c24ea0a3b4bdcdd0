//! Quantities of traffic, each a type of its own, so that metres are never added to seconds.
//!
//! Densities and flows are *per lane*, as everywhere in fedtse: veh/km/lane and veh/min/lane.
//!
//! ```
//! use traffic::{Metres, MetresPerSecond, Seconds, VehPerKmLane};
//! let travelled: Metres = MetresPerSecond::new(12.5) * Seconds::new(10.0);
//! assert_eq!(travelled, Metres::new(125.0));
//! // q = k·v: 40 veh/km/lane moving at 5 m/s = 18 km/h pass 12 times a minute.
//! assert_eq!((VehPerKmLane::new(40.0) * MetresPerSecond::new(5.0)).get(), 12.0);
//! ```

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0.0);

            #[doc = concat!("From a number of ", $unit, ".")]
            pub const fn new(value: f64) -> Self {
                Self(value)
            }

            #[doc = concat!("The number of ", $unit, ".")]
            pub const fn get(self) -> f64 {
                self.0
            }

            /// The smaller of two.
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }

            /// The larger of two.
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if let Some(digits) = f.precision() {
                    write!(f, "{:.*} {}", digits, self.0, $unit)
                } else {
                    write!(f, "{} {}", self.0, $unit)
                }
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl Neg for $name {
            type Output = Self;
            fn neg(self) -> Self {
                Self(-self.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }
    };
}

quantity!(
    /// A length along a road.
    Metres, "m"
);
quantity!(
    /// A time, or a span of time.
    Seconds, "s"
);
quantity!(
    /// A speed.
    MetresPerSecond, "m/s"
);
quantity!(
    /// A density: vehicles on a kilometre of one lane.
    VehPerKmLane, "veh/km/lane"
);
quantity!(
    /// A flow: vehicles a minute on one lane.
    VehPerMinLane, "veh/min/lane"
);
quantity!(
    /// A demand or capacity of a whole link: vehicles an hour.
    VehPerHour, "veh/h"
);

/// 1 veh/km/lane at 1 m/s is 0.06 veh/min/lane.
const VEH_PER_MIN_OF_VEH_PER_KM_TIMES_M_PER_S: f64 = 60.0 / 1000.0;

impl MetresPerSecond {
    /// From kilometres an hour.
    pub fn from_kmh(kmh: f64) -> Self {
        Self(kmh / 3.6)
    }
}

impl Mul<Seconds> for MetresPerSecond {
    type Output = Metres;
    fn mul(self, time: Seconds) -> Metres {
        Metres(self.0 * time.0)
    }
}

impl Div<Seconds> for Metres {
    type Output = MetresPerSecond;
    fn div(self, time: Seconds) -> MetresPerSecond {
        MetresPerSecond(self.0 / time.0)
    }
}

impl Div<MetresPerSecond> for Metres {
    type Output = Seconds;
    fn div(self, speed: MetresPerSecond) -> Seconds {
        Seconds(self.0 / speed.0)
    }
}

impl Mul<MetresPerSecond> for VehPerKmLane {
    type Output = VehPerMinLane;
    fn mul(self, speed: MetresPerSecond) -> VehPerMinLane {
        VehPerMinLane(self.0 * speed.0 * VEH_PER_MIN_OF_VEH_PER_KM_TIMES_M_PER_S)
    }
}

impl Div<VehPerKmLane> for VehPerMinLane {
    type Output = MetresPerSecond;
    fn div(self, density: VehPerKmLane) -> MetresPerSecond {
        MetresPerSecond(self.0 / density.0 / VEH_PER_MIN_OF_VEH_PER_KM_TIMES_M_PER_S)
    }
}

impl Div<MetresPerSecond> for VehPerMinLane {
    type Output = VehPerKmLane;
    fn div(self, speed: MetresPerSecond) -> VehPerKmLane {
        VehPerKmLane(self.0 / speed.0 / VEH_PER_MIN_OF_VEH_PER_KM_TIMES_M_PER_S)
    }
}

impl VehPerMinLane {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_is_density_times_speed_both_ways() {
        let density = VehPerKmLane::new(25.0);
        let speed = MetresPerSecond::from_kmh(36.0);
        let flow = density * speed;
        assert_eq!(flow, VehPerMinLane::new(15.0));
        assert!((flow / density - speed).get().abs() < 1e-12);
        assert!((flow / speed - density).get().abs() < 1e-12);
    }

    #[test]
    fn display_names_the_unit() {
        assert_eq!(Metres::new(1.5).to_string(), "1.5 m");
        assert_eq!(format!("{:.1}", VehPerKmLane::new(20.04)), "20.0 veh/km/lane");
        assert_eq!(format!("{:.0}", VehPerHour::new(1799.6)), "1800 veh/h");
        assert_eq!(MetresPerSecond::new(-0.5).to_string(), "-0.5 m/s");
        assert_eq!(VehPerMinLane::ZERO.to_string(), "0 veh/min/lane");
        assert_eq!(Seconds::new(f64::INFINITY).to_string(), "inf s");
    }

    #[test]
    fn quantities_add_and_scale_like_numbers() {
        let mut time = Seconds::new(1.5);
        time += Seconds::new(2.0);
        time -= Seconds::new(0.5);
        assert_eq!(time, Seconds::new(3.0));
        assert_eq!(-time, Seconds::new(-3.0));
        assert_eq!(time + -time, Seconds::ZERO);
        assert_eq!(time * 2.0 - time / 3.0, Seconds::new(5.0));
        // A quantity over another of its kind is a bare number.
        assert_eq!(time / Seconds::new(12.0), 0.25);
        assert_eq!(Seconds::default(), Seconds::ZERO);
    }

    #[test]
    fn the_smaller_and_the_larger_leave_out_what_is_no_number() {
        let (low, high) = (Metres::new(-1.0), Metres::new(2.0));
        assert_eq!((low.min(high), low.max(high)), (low, high));
        assert_eq!((high.min(low), high.max(low)), (low, high));
        let nan = Metres::new(f64::NAN);
        assert_eq!((nan.min(high), low.max(nan)), (high, low));
        assert_eq!(nan.partial_cmp(&high), None);
    }

    #[test]
    fn speeds_and_times_make_distances_and_back() {
        let (speed, time) = (MetresPerSecond::from_kmh(54.0), Seconds::new(8.0));
        assert_eq!(speed, MetresPerSecond::new(15.0));
        assert_eq!(speed * time, Metres::new(120.0));
        assert_eq!(Metres::new(120.0) / time, speed);
        assert_eq!(Metres::new(120.0) / speed, time);
    }

    #[test]
    fn quantities_are_bare_numbers_in_files() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Record {
            length: Metres,
            flow: VehPerMinLane,
        }
        let line = Record { length: Metres::new(0.1), flow: VehPerMinLane::new(-2.5) };
        let text = toml::to_string(&line).unwrap();
        assert_eq!(text, "length = 0.1\nflow = -2.5\n");
        assert_eq!(toml::from_str::<Record>(&text).unwrap(), line);
    }
}
