//! Fleets: which vehicles a provider sees.
//!
//! Each vehicle draws one number in [0, 1) from the seed and its *name*, so the draw is the same
//! in a file and in a live stream, in both worlds, and whatever order vehicles appear in. A fleet
//! is an interval of that number: a penetration rate of 20 % is [0, 0.2), and 40 % contains it.

use seeded::{INCREMENT, SplitMix64};
use thiserror::Error;

use crate::concentration::{Concentration, FirstSight};

/// A provider's share of the vehicles.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Its name, as in file names: `fleet-20`.
    pub name: String,
    /// The interval of the vehicles' draws that belongs to it.
    pub from: f64,
    /// Its open end.
    pub to: f64,
}

impl Fleet {
    /// The share of all vehicles that it expects to hold.
    pub fn rate(&self) -> f64 {
        self.to - self.from
    }
}

/// The fleets of a study and the seed that deals out vehicles to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleets {
    seed: u64,
    concentration: Option<Concentration>,
    fleets: Vec<Fleet>,
    /// Sorted borders of all fleets: vehicles between two neighbouring borders are in the same
    /// fleets, so sums are kept for each such *band* and added up once a step.
    borders: Vec<f64>,
}

/// A fleet that cannot be.
#[derive(Debug, Error, PartialEq)]
pub enum FleetError {
    /// A rate outside 0–1.
    #[error("penetration rate: found {0}, expected more than 0 and at most 1")]
    Rate(f64),
    /// Shares of a partition that exceed the whole.
    #[error("fleet shares: found a sum of {0}, expected at most 1")]
    Sum(f64),
    /// Two fleets of the same name.
    #[error("fleet `{0}`: found twice, expected rates that differ by 0.001 % or more")]
    Twice(String),
    /// Too many fleets for one pass.
    #[error("fleets: found {0}, expected at most {MAX_FLEETS}")]
    Count(usize),
    /// Other vehicles by the same name.
    #[error(
        "fleet `{name}`: found {found} % of the vehicles or others than those of the fleet of {expected} % that is there, expected the same"
    )]
    Other {
        /// The fleet.
        name: String,
        /// Wanted.
        found: String,
        /// Stored.
        expected: String,
    },
    /// A concentration outside 0–1.
    #[error("strength of concentration: found {0}, expected 0 or more and less than 1")]
    Strength(f64),
}

/// The most fleets of one study.
pub(crate) const MAX_FLEETS: usize = 64;

/// Shares closer than this are the same: a manifest has rates, from which borders are added up again.
const SAME_SHARE: f64 = 1e-9;
/// Borders closer than this are one: shares that are added up differ from rates by rounding.
const SAME_BORDER: f64 = 1e-12;

impl Fleets {
    /// One fleet for each rate, the smaller contained in the larger.
    ///
    /// ```
    /// let fleets = sensing::Fleets::nested(&[0.2, 0.8], 1)?;
    /// assert_eq!(fleets.all()[0].name, "fleet-20");
    /// # Ok::<(), sensing::FleetError>(())
    /// ```
    pub fn nested(rates: &[f64], seed: u64) -> Result<Self, FleetError> {
        let fleets = rates.iter().map(|&rate| {
            check_rate(rate)?;
            Ok(Fleet { name: format!("fleet-{}", percent(rate)), from: 0.0, to: rate })
        });
        let fleets = Self::new(fleets.collect::<Result<_, _>>()?, seed)?;
        fleets.check_count()?;
        Ok(fleets)
    }

    /// Providers that share the vehicles among them: no vehicle belongs to two.
    pub fn partition(shares: &[f64], seed: u64) -> Result<Self, FleetError> {
        let sum: f64 = shares.iter().sum();
        if sum > 1.0 + SAME_BORDER {
            return Err(FleetError::Sum(sum));
        }
        let mut from = 0.0;
        let mut fleets = Vec::with_capacity(shares.len());
        for (index, &share) in shares.iter().enumerate() {
            check_rate(share)?;
            let to = (from + share).min(1.0);
            fleets.push(Fleet { name: format!("guest-{}", index + 1), from, to });
            from = to;
        }
        let fleets = Self::new(fleets, seed)?;
        fleets.check_count()?;
        Ok(fleets)
    }

    /// The same fleets, and each divided evenly among so many providers, for each number:
    /// `fleet-20` among 2 is `fleet-20-1of2` and `fleet-20-2of2`.
    ///
    /// ```
    /// let fleets = sensing::Fleets::nested(&[0.2], 1)?.divided(&[2])?;
    /// let half = &fleets.all()[2];
    /// assert_eq!((half.name.as_str(), half.from, half.to), ("fleet-20-2of2", 0.1, 0.2));
    /// # Ok::<(), sensing::FleetError>(())
    /// ```
    pub fn divided(self, providers: &[usize]) -> Result<Self, FleetError> {
        let divided = self.divided_where(|_| true, providers)?;
        divided.check_count()?;
        Ok(divided)
    }

    /// The same for some of the fleets only.
    pub fn divided_where(
        self,
        chosen: impl Fn(&Fleet) -> bool,
        providers: &[usize],
    ) -> Result<Self, FleetError> {
        let mut all = self.fleets.clone();
        for fleet in self.fleets.iter().filter(|fleet| chosen(fleet)) {
            for &count in providers {
                if count > MAX_FLEETS {
                    return Err(FleetError::Count(count));
                }
                let border = |part: usize| fleet.from + fleet.rate() * part as f64 / count as f64;
                all.extend((0..count).map(|part| Fleet {
                    name: part_name(&fleet.name, part + 1, count),
                    from: border(part),
                    to: border(part + 1),
                }));
            }
        }
        Ok(Self { concentration: self.concentration, ..Self::new(all, self.seed)? })
    }

    /// The same fleets, no fair samples any more.
    pub fn concentrated(mut self, concentration: Concentration) -> Result<Self, FleetError> {
        concentration.check()?;
        self.concentration = Some(concentration);
        Ok(self)
    }

    /// The fleets that a manifest names with their rates: `guest-2` comes after `guest-1`,
    /// `fleet-20-2of4` is the second of equal parts of `fleet-20`, all others begin at 0.
    pub(crate) fn of_entries(
        entries: &[(&str, f64)],
        seed: u64,
        concentration: Option<Concentration>,
    ) -> Result<Self, FleetError> {
        let mut shared = 0.0;
        let mut fleets: Vec<Fleet> = Vec::new();
        for &(name, rate) in entries {
            check_rate(rate)?;
            let part = part_of(name);
            let from = match part {
                Some((fleet, part, _)) => {
                    let begin = fleets.iter().find(|own| own.name == fleet);
                    begin.map_or(0.0, |own| own.from) + (part - 1) as f64 * rate
                }
                None if name.starts_with("guest-") => shared,
                None => 0.0,
            };
            if part.is_none() && name.starts_with("guest-") {
                shared += rate;
            }
            fleets.push(Fleet { name: name.to_owned(), from, to: (from + rate).min(1.0) });
        }
        let fleets = Self::new(fleets, seed)?;
        match concentration {
            Some(concentration) => fleets.concentrated(concentration),
            None => Ok(fleets),
        }
    }

    /// Those of these fleets that others do not have; an error where a name means other vehicles there.
    pub(crate) fn without(&self, others: &Self) -> Result<Self, FleetError> {
        let mut missing = Vec::new();
        for fleet in &self.fleets {
            let same = |one: f64, other: f64| (one - other).abs() < SAME_SHARE;
            match others.fleets.iter().find(|other| other.name == fleet.name) {
                None => missing.push(fleet.clone()),
                Some(other) if same(other.from, fleet.from) && same(other.to, fleet.to) => {}
                Some(other) => {
                    let (found, expected) = (percent(fleet.rate()), percent(other.rate()));
                    return Err(FleetError::Other { name: fleet.name.clone(), found, expected });
                }
            }
        }
        Ok(Self { concentration: self.concentration, ..Self::new(missing, self.seed)? })
    }

    /// Refuses more fleets than one pass over a recording takes.
    pub(crate) fn check_count(&self) -> Result<(), FleetError> {
        match self.fleets.len() > MAX_FLEETS {
            true => Err(FleetError::Count(self.fleets.len())),
            false => Ok(()),
        }
    }

    fn new(fleets: Vec<Fleet>, seed: u64) -> Result<Self, FleetError> {
        for (index, fleet) in fleets.iter().enumerate() {
            if fleets[..index].iter().any(|other| other.name == fleet.name) {
                return Err(FleetError::Twice(fleet.name.clone()));
            }
        }
        let mut borders: Vec<f64> =
            fleets.iter().flat_map(|fleet| [fleet.from, fleet.to]).collect();
        borders.retain(|&border| border > SAME_BORDER && border < 1.0 - SAME_BORDER);
        borders.sort_by(f64::total_cmp);
        borders.dedup_by(|a, b| (*a - *b).abs() <= SAME_BORDER);
        Ok(Self { seed, concentration: None, fleets, borders })
    }

    /// The fleets.
    pub fn all(&self) -> &[Fleet] {
        &self.fleets
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How the fleets differ from fair samples.
    pub(crate) fn concentration(&self) -> Option<Concentration> {
        self.concentration
    }

    /// Number of bands.
    pub(crate) fn bands(&self) -> usize {
        self.borders.len() + 1
    }

    /// The band of a vehicle.
    pub(crate) fn band_of(&self, seen: &FirstSight) -> usize {
        let factor = self.concentration.map_or(1.0, |how| how.factor(self.seed, seen));
        let draw = draw(self.seed, seen.name) / factor;
        self.borders.iter().take_while(|&&border| border <= draw).count()
    }

    /// Whether a fleet contains a band.
    pub(crate) fn contains(&self, fleet: usize, band: usize) -> bool {
        let from = if band == 0 { 0.0 } else { self.borders[band - 1] };
        let fleet = &self.fleets[fleet];
        from >= fleet.from - SAME_BORDER && from < fleet.to - SAME_BORDER
    }
}

/// The name of one of the parts, numbered from 1, into which a fleet is divided.
pub fn part_name(fleet: &str, part: usize, parts: usize) -> String {
    format!("{fleet}-{part}of{parts}")
}

/// Of the name of a part: the fleet, which part of it, and into how many it is divided; see [`part_name`].
pub fn part_of(name: &str) -> Option<(&str, usize, usize)> {
    let (fleet, place) = name.rsplit_once('-')?;
    let (part, parts) = place.split_once("of")?;
    let (part, parts): (usize, usize) = (part.parse().ok()?, parts.parse().ok()?);
    (1..=parts).contains(&part).then_some((fleet, part, parts))
}

/// A vehicle's number in [0, 1): uniform over names, fixed for a seed.
pub fn draw(seed: u64, name: &str) -> f64 {
    // FNV-1a gathers the name, SplitMix64's finaliser spreads it: neighbouring names such as 17
    // and 18 must give unrelated draws.
    let gathered = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let once = SplitMix64::new(gathered.wrapping_add(seed.wrapping_mul(INCREMENT))).next_u64();
    SplitMix64::new(once).next_f64()
}

fn check_rate(rate: f64) -> Result<(), FleetError> {
    if rate > 0.0 && rate <= 1.0 { Ok(()) } else { Err(FleetError::Rate(rate)) }
}

/// `0.2` → `20`, `0.125` → `12.5`.
fn percent(rate: f64) -> String {
    let text = format!("{:.3}", rate * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use traffic::{Seconds, VehicleClass};

    use super::*;

    /// Fleets are drawn by these numbers: they never change.
    #[test]
    fn a_draw_is_known() {
        assert_eq!(draw(42, "17"), 0.486172657707827);
    }

    #[test]
    fn draws_are_uniform_and_independent_of_the_seed() {
        let n = 100_000;
        for seed in [0, 1, 2023] {
            let draws: Vec<f64> = (0..n).map(|v| draw(seed, &v.to_string())).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(n);
            // Standard error of the mean is 0.29/√n = 0.0009: five of them.
            assert!((mean - 0.5).abs() < 0.0046, "{mean}");
            let lag: f64 =
                draws.windows(2).map(|w| (w[0] - 0.5) * (w[1] - 0.5)).sum::<f64>() * 12.0;
            // Correlation of neighbours: standard error 1/√n = 0.0032, five of them.
            assert!((lag / f64::from(n)).abs() < 0.016, "{lag}");
        }
        let both = (0..n).filter(|v| {
            let name = v.to_string();
            draw(1, &name) < 0.2 && draw(2, &name) < 0.2
        });
        // Independent draws: 4 %, standard error 0.06 %.
        assert!((both.count() as f64 / f64::from(n) - 0.04).abs() < 0.0031);
    }

    #[test]
    fn nested_fleets_contain_each_other_and_partitions_do_not_overlap() {
        let nested = Fleets::nested(&[0.2, 0.4, 0.8], 7).unwrap();
        assert_eq!(nested.bands(), 4);
        let contained = |fleets: &Fleets, fleet| -> Vec<usize> {
            (0..fleets.bands()).filter(|&band| fleets.contains(fleet, band)).collect()
        };
        assert_eq!(contained(&nested, 0), [0]);
        assert_eq!(contained(&nested, 2), [0, 1, 2]);
        let shared = Fleets::partition(&[0.1, 0.2, 0.7], 7).unwrap();
        assert_eq!(shared.bands(), 3);
        assert_eq!([0, 1, 2].map(|fleet| contained(&shared, fleet)), [[0], [1], [2]]);
        for vehicle in 0..1000 {
            let name = vehicle.to_string();
            let expected = [0.2, 0.4, 0.8].iter().filter(|&&b| b <= draw(7, &name)).count();
            let (class, time) = (VehicleClass::Car, Seconds::new(0.0));
            let seen = FirstSight { name: &name, class, link: "A", time };
            assert_eq!(nested.band_of(&seen), expected);
        }
    }

    /// Datasets, streams and both worlds draw alike: a changed draw would deal all vehicles out anew.
    #[test]
    fn draws_are_those_of_every_version() {
        let bits = |seed, name: &str| (draw(seed, name) * 2f64.powi(53)) as u64;
        assert_eq!(bits(0, ""), 1_195_500_735_948_716);
        assert_eq!(bits(1, "17"), 1_178_869_826_610_617);
        assert_eq!(bits(1, "18"), 5_296_106_615_356_635);
        assert_eq!(bits(2023, "vehicle ü"), 8_355_050_053_554_228);
    }

    #[test]
    fn fleets_hold_their_rate_of_the_vehicles() {
        let fleets = Fleets::partition(&[0.05, 0.3, 0.65], 3).unwrap();
        let n = 50_000;
        let mut counts = [0u32; 3];
        for vehicle in 0..n {
            let name = format!("v{vehicle}");
            let (class, time) = (VehicleClass::Car, Seconds::new(0.0));
            let band = fleets.band_of(&FirstSight { name: &name, class, link: "A", time });
            (0..3)
                .filter(|&fleet| fleets.contains(fleet, band))
                .for_each(|fleet| counts[fleet] += 1);
        }
        assert_eq!(counts.iter().sum::<u32>(), n, "each vehicle in one fleet");
        for (fleet, count) in fleets.all().iter().zip(counts) {
            let (found, rate) = (f64::from(count) / f64::from(n), fleet.rate());
            // Binomial: five standard errors.
            let error = (rate * (1.0 - rate) / f64::from(n)).sqrt();
            assert!((found - rate).abs() < 5.0 * error, "{}: {found}", fleet.name);
        }
    }

    #[test]
    fn a_fleet_of_all_vehicles_and_no_fleet_have_one_band() {
        let whole = Fleets::nested(&[1.0], 1).unwrap();
        assert_eq!((whole.bands(), whole.contains(0, 0)), (1, true));
        assert_eq!(whole.all()[0].name, "fleet-100");
        let none = Fleets::nested(&[], 1).unwrap();
        assert_eq!((none.bands(), none.all().len(), none.seed()), (1, 0, 1));
        // Shares that sum to one but for rounding are the whole.
        let tenths = Fleets::partition(&[0.1; 10], 1).unwrap();
        assert_eq!(tenths.bands(), 10);
        assert!((tenths.all()[9].to - 1.0).abs() < 1e-12);
    }

    /// A manifest has names and rates alone: the fleets are the same intervals again.
    #[test]
    fn fleets_are_found_again_from_their_names_and_rates() {
        for fleets in [
            Fleets::nested(&[0.05, 0.2, 0.8], 9).unwrap(),
            Fleets::nested(&[0.2, 0.5], 9).unwrap().divided(&[2, 4]).unwrap(),
            Fleets::partition(&[0.1, 0.25, 0.4], 9).unwrap(),
        ] {
            let entries: Vec<(&str, f64)> =
                fleets.all().iter().map(|fleet| (fleet.name.as_str(), fleet.rate())).collect();
            let again = Fleets::of_entries(&entries, 9, None).unwrap();
            assert_eq!(again.bands(), fleets.bands());
            for (found, fleet) in again.all().iter().zip(fleets.all()) {
                assert_eq!(found.name, fleet.name);
                // Rates are differences of borders, and borders sums of rates.
                assert!((found.from - fleet.from).abs() < 1e-12, "{found:?} {fleet:?}");
                assert!((found.to - fleet.to).abs() < 1e-12, "{found:?} {fleet:?}");
            }
        }
        assert_eq!(Fleets::of_entries(&[("fleet-0", 0.0)], 1, None), Err(FleetError::Rate(0.0)));
    }

    #[test]
    fn only_the_chosen_fleets_are_divided() {
        let fleets = Fleets::nested(&[0.2, 0.8], 7)
            .unwrap()
            .divided_where(|fleet| fleet.rate() > 0.5, &[2])
            .unwrap();
        let names: Vec<&str> = fleets.all().iter().map(|fleet| fleet.name.as_str()).collect();
        assert_eq!(names, ["fleet-20", "fleet-80", "fleet-80-1of2", "fleet-80-2of2"]);
        // Dividing by nobody adds nobody; dividing twice gives the same name twice.
        assert_eq!(fleets.clone().divided_where(|_| true, &[0]).unwrap(), fleets);
        let twice = fleets.divided_where(|fleet| fleet.name == "fleet-80", &[2]);
        assert_eq!(twice, Err(FleetError::Twice("fleet-80-1of2".into())));
    }

    #[test]
    fn parts_make_up_their_fleet() {
        let fleets = Fleets::nested(&[0.2, 0.8], 7).unwrap().divided(&[1, 3]).unwrap();
        let bands = |name: &str| -> Vec<usize> {
            let at = fleets.all().iter().position(|fleet| fleet.name == name).unwrap();
            (0..fleets.bands()).filter(|&band| fleets.contains(at, band)).collect()
        };
        for whole in ["fleet-20", "fleet-80"] {
            assert_eq!(bands(&part_name(whole, 1, 1)), bands(whole));
            let parts = (1..=3).flat_map(|part| bands(&part_name(whole, part, 3)));
            assert_eq!(parts.collect::<Vec<_>>(), bands(whole), "each band in one part");
        }
        let many = Fleets::nested(&[0.2], 7).unwrap().divided(&[65]);
        assert_eq!(many, Err(FleetError::Count(65)));
    }

    #[test]
    fn impossible_fleets_are_refused() {
        assert_eq!(Fleets::nested(&[1.2], 0), Err(FleetError::Rate(1.2)));
        assert!(
            matches!(Fleets::nested(&[f64::NAN], 0), Err(FleetError::Rate(rate)) if rate.is_nan())
        );
        assert_eq!(Fleets::nested(&[0.0], 0), Err(FleetError::Rate(0.0)));
        assert_eq!(Fleets::partition(&[0.6, 0.6], 0), Err(FleetError::Sum(1.2)));
        assert_eq!(Fleets::partition(&[0.6, -0.1], 0), Err(FleetError::Rate(-0.1)));
        let many: Vec<f64> = (1..=65).map(|i| f64::from(i) / 100.0).collect();
        let error = Fleets::nested(&many, 0).unwrap_err();
        assert_eq!(error.to_string(), "fleets: found 65, expected at most 64");
        assert_eq!(Fleets::nested(&[0.2, 0.2], 0), Err(FleetError::Twice("fleet-20".into())));
        assert_eq!(Fleets::nested(&[0.125], 0).unwrap().all()[0].name, "fleet-12.5");
    }
}
