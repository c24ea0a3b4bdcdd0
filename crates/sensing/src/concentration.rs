//! Fleets that are no fair sample: some vehicles belong to them more often than others.
//!
//! A vehicle's chance is multiplied by a factor between `1 − strength` and `1 + strength`, drawn from
//! the seed for all that enter by the same link, in the same hour, or are of the same kind. A vehicle
//! with draw `d` counts as one with `d / factor`, so fleets stay nested and their parts fair among
//! themselves; a chance above 1 is 1.

use serde::{Deserialize, Serialize};
use traffic::{Seconds, VehicleClass};

use crate::fleet::{FleetError, draw};

/// What vehicles have in common that belong to fleets more or less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trait {
    /// The link on which they are first seen.
    Entry,
    /// The hour in which they are first seen.
    Hour,
    /// Their kind.
    Class,
}

/// How a fleet differs from a fair sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concentration {
    /// What counts.
    pub by: Trait,
    /// How much, from 0 (fair) to below 1.
    pub strength: f64,
}

/// A vehicle when it is first seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstSight<'a> {
    pub name: &'a str,
    pub class: VehicleClass,
    pub link: &'a str,
    pub time: Seconds,
}

impl Concentration {
    pub(crate) fn check(&self) -> Result<(), FleetError> {
        let sound = (0.0..1.0).contains(&self.strength);
        if sound { Ok(()) } else { Err(FleetError::Strength(self.strength)) }
    }

    /// By how much a vehicle's chance of belonging to a fleet is multiplied.
    pub(crate) fn factor(&self, seed: u64, seen: &FirstSight) -> f64 {
        let shared = match self.by {
            Trait::Entry => format!("entry {}", seen.link),
            Trait::Hour => format!("hour {}", (seen.time.get() / 3600.0).floor()),
            Trait::Class => format!("class {}", seen.class.name()),
        };
        1.0 + self.strength * (2.0 * draw(seed, &shared) - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Fleets;

    fn enters<'a>(name: &'a str, link: &'a str) -> FirstSight<'a> {
        FirstSight { name, class: VehicleClass::Car, link, time: Seconds::new(5.0) }
    }

    /// Of vehicles that enter by the same link, the fleet holds its rate times the factor.
    #[test]
    fn chances_are_multiplied_by_the_factor_of_the_entry() -> Result<(), FleetError> {
        let by_entry = Concentration { by: Trait::Entry, strength: 0.5 };
        let fleets = Fleets::nested(&[0.4], 7)?.concentrated(by_entry)?;
        let n = 20_000;
        let mut factors = Vec::new();
        for link in ["A", "B", "C"] {
            let factor = by_entry.factor(7, &enters("", link));
            let inside = (0..n).filter(|v| {
                let name = format!("{link}{v}");
                fleets.contains(0, fleets.band_of(&enters(&name, link)))
            });
            let share = inside.count() as f64 / f64::from(n);
            // Five standard errors of at most 0.5/√n.
            assert!((share - 0.4 * factor).abs() < 0.018, "{link}: {share}, factor {factor}");
            assert!((0.5..=1.5).contains(&factor));
            factors.push(factor);
        }
        // 1 + ½·(2·draw − 1): the draw of the link's own name, not of the vehicle's.
        for (factor, link) in factors.iter().zip(["A", "B", "C"]) {
            assert_eq!(*factor, 0.5 + draw(7, &format!("entry {link}")), "{link}");
        }
        Ok(())
    }

    #[test]
    fn a_trait_is_what_vehicles_have_in_common() {
        let factor = |by, link, class, time: f64| {
            let seen = FirstSight { name: "v", class, link, time: Seconds::new(time) };
            Concentration { by, strength: 0.9 }.factor(1, &seen)
        };
        let (car, bus) = (VehicleClass::Car, VehicleClass::Bus);
        let at = |shared: &str| 1.0 + 0.9 * (2.0 * draw(1, shared) - 1.0);
        assert_eq!(factor(Trait::Entry, "A", car, 0.0), at("entry A"));
        assert_eq!(factor(Trait::Entry, "A", bus, 9e9), at("entry A"));
        // Hours begin with the epoch, and those before it are counted downwards.
        assert_eq!(factor(Trait::Hour, "A", car, 3599.9), at("hour 0"));
        assert_eq!(factor(Trait::Hour, "B", bus, 3600.0), at("hour 1"));
        assert_eq!(factor(Trait::Hour, "B", bus, -0.1), at("hour -1"));
        assert_eq!(factor(Trait::Class, "A", bus, 0.0), at("class bus"));
        // Without strength all are alike.
        let fair = Concentration { by: Trait::Class, strength: 0.0 };
        assert_eq!(fair.factor(1, &enters("v", "A")), 1.0);
    }

    /// A chance above one is one: with a factor of 1.9 a fleet of 0.8 has all vehicles of the entry.
    #[test]
    fn fleets_stay_nested_and_full_ones_full() -> Result<(), FleetError> {
        let by_entry = Concentration { by: Trait::Entry, strength: 0.9 };
        let fleets = Fleets::nested(&[0.3, 0.8], 5)?.concentrated(by_entry)?;
        assert_eq!(fleets.concentration(), Some(by_entry));
        for link in ["A", "B", "C", "D", "E", "F"] {
            let factor = by_entry.factor(5, &enters("", link));
            let mut counts = [0; 2];
            for vehicle in 0..2000 {
                let name = format!("{link}{vehicle}");
                let band = fleets.band_of(&enters(&name, link));
                let inside = [0, 1].map(|fleet| fleets.contains(fleet, band));
                assert!(!inside[0] || inside[1], "the smaller lies in the larger");
                (0..2).for_each(|fleet| counts[fleet] += u32::from(inside[fleet]));
            }
            for (rate, count) in [0.3, 0.8].into_iter().zip(counts) {
                // Five standard errors of at most 0.5/√2000.
                let expected = f64::min(rate * factor, 1.0);
                assert!((f64::from(count) / 2000.0 - expected).abs() < 0.056, "{link}: {count}");
            }
        }
        Ok(())
    }

    #[test]
    fn impossible_strengths_are_refused() -> Result<(), FleetError> {
        let error = Fleets::nested(&[0.4], 7)?
            .concentrated(Concentration { by: Trait::Hour, strength: 1.0 })
            .unwrap_err();
        let expected = "strength of concentration: found 1, expected 0 or more and less than 1";
        assert_eq!(error.to_string(), expected);
        for strength in [-0.1, 1.0, f64::NAN] {
            let fleets = Fleets::nested(&[0.4], 7)?;
            let by_class = Concentration { by: Trait::Class, strength };
            assert!(matches!(fleets.concentrated(by_class), Err(FleetError::Strength(_))));
        }
        Ok(())
    }
}
