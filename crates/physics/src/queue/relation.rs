//! What queue positions say of counts: the fleet's rate, and how far a link's lanes spoil the theory.

use super::road::{QueueError, Road};
use super::tally::{Found, Pair};

/// With fewer queue positions a rate would be a guess.
const LEAST_FOR_RATE: usize = 30;
/// With fewer queue positions on a link the theory's own relation is taken.
const LEAST_FOR_FIT: usize = 50;
/// A fit never trusts a queue position more than by this share of the vehicles ahead, nor less.
const SHARES: [f64; 2] = [0.05, 0.5];
/// Nor less than by so many vehicles.
const LARGEST_SPREAD: f64 = 10.0;

/// The share of all vehicles that a fleet has, from its queue positions alone.
///
/// A metre further back there are κ more vehicles ahead, p·κ of them of the fleet: p is the slope of
/// the fleet's count on κ·y, pooled over links. Each link keeps its own offset, for vehicles that are
/// still moving, or overtaken, are counted too.
pub fn penetration(found: &[Found]) -> Result<f64, QueueError> {
    let (mut products, mut squares, mut count) = (0.0, 0.0, 0);
    for link in found {
        let pairs = &link.joining;
        let mean = pairs.iter().map(|pair| pair.expected).sum::<f64>() / pairs.len().max(1) as f64;
        for pair in pairs {
            let away = pair.expected - mean;
            products += pair.counted * away;
            squares += away * away;
        }
        count += pairs.len();
    }
    if count < LEAST_FOR_RATE || squares <= 0.0 {
        return Err(QueueError::Number {
            what: "stops of the fleet in queues",
            found: count as f64,
            expected: "at least 30, from which a fleet that knows no loops learns its share of all vehicles",
        });
    }
    let rate = products / squares;
    if !(rate > 0.0 && rate.is_finite()) {
        let expected = "more than 0: vehicles further back have more of the fleet ahead";
        return Err(QueueError::Number { what: "penetration rate", found: rate, expected });
    }
    Ok(rate.clamp(0.001, 1.0))
}

/// A count of all vehicles, given κ·y: `offset + slope·κ·y`, give or take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relation {
    /// Vehicles.
    pub offset: f64,
    /// One in theory.
    pub slope: f64,
    /// Standard deviation in vehicles where the queue begins.
    pub spread: f64,
    /// What the distance adds to it, as a share of κ·y.
    pub share: f64,
}

impl Relation {
    /// The theory's, for so many lanes.
    fn theory(road: &Road) -> Self {
        Self { offset: 0.0, slope: 1.0, spread: 1.0 + 0.6 * road.lanes, share: 0.25 }
    }

    /// By least squares on the fleet's own counts over its rate. What they scatter beyond the chance of
    /// being in the fleet is the relation's own spread.
    fn fit(road: &Road, rate: f64, pairs: &[Pair]) -> Self {
        if pairs.len() < LEAST_FOR_FIT {
            return Self::theory(road);
        }
        let points = pairs.iter().map(|pair| (pair.expected, pair.counted / rate));
        let Some((offset, slope)) = line(points) else { return Self::theory(road) };
        let excess = pairs.iter().map(|pair| {
            let mean = offset + slope * pair.expected;
            let away = pair.counted / rate - mean;
            (pair.expected * pair.expected, away * away - mean.max(0.5) * (1.0 - rate) / rate)
        });
        let (variance, growth) = line(excess).unwrap_or((f64::INFINITY, 0.0));
        let smallest = 1.0 + 0.2 * road.lanes;
        Self {
            offset,
            slope,
            spread: variance.max(0.0).sqrt().clamp(smallest, LARGEST_SPREAD.max(smallest)),
            share: growth.max(0.0).sqrt().clamp(SHARES[0], SHARES[1]),
        }
    }

    /// Vehicles for κ·y, and the weight 1/variance of that.
    pub(super) fn at(&self, expected: f64) -> (f64, f64) {
        let growth = self.share * expected;
        (self.offset + self.slope * expected, 1.0 / (self.spread * self.spread + growth * growth))
    }
}

/// Both relations of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relations {
    /// Joining the queue.
    pub joining: Relation,
    /// Leaving after release.
    pub leaving: Relation,
}

impl Relations {
    /// The theory's.
    pub fn theory(road: &Road) -> Self {
        Self { joining: Relation::theory(road), leaving: Relation::theory(road) }
    }

    /// Fitted to what a fleet of a rate found.
    pub fn fit(road: &Road, rate: f64, found: &Found) -> Self {
        Self {
            joining: Relation::fit(road, rate, &found.joining),
            leaving: Relation::fit(road, rate, &found.leaving),
        }
    }
}

/// Offset and slope of the least-squares line; none if all lie above one place.
fn line(points: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (px, py) in points {
        n += 1.0;
        x += px;
        y += py;
        xx += px * px;
        xy += px * py;
    }
    let spread = n * xx - x * x;
    // Rounding leaves this much of a spread that is none.
    (spread > 1e-9 * n * xx).then(|| {
        let slope = (n * xy - x * y) / spread;
        ((y - slope * x) / n, slope)
    })
}

#[cfg(test)]
mod tests {
    use traffic::{FundamentalDiagram, Metres, MetresPerSecond, VehPerKmLane};

    use super::*;

    fn road(lanes: u8) -> Road {
        let diagram = FundamentalDiagram::triangular(
            MetresPerSecond::new(12.5),
            MetresPerSecond::new(5.0),
            VehPerKmLane::new(1000.0 / 7.5),
        );
        Road::new(Metres::new(300.0), lanes, &diagram.unwrap()).unwrap()
    }

    fn pairs(count: usize, counted: impl Fn(f64) -> f64) -> Vec<Pair> {
        (0..count)
            .map(|i| (i % 20) as f64)
            .map(|expected| Pair { expected, counted: counted(expected) })
            .collect()
    }

    #[test]
    fn the_rate_is_the_slope_of_own_vehicles_on_all() {
        // Links with offsets of their own: the slope is what they share.
        let found = |count, offset: f64, rate: f64| Found {
            joining: pairs(count, |x| offset + rate * x),
            leaving: Vec::new(),
        };
        let rate = penetration(&[found(40, 0.0, 0.3), found(40, 5.0, 0.3)]).unwrap();
        assert!((rate - 0.3).abs() < 1e-12, "{rate}");
        // Above one is one: nobody has more than all vehicles.
        assert_eq!(penetration(&[found(40, 0.0, 1.7)]).unwrap(), 1.0);
        assert_eq!(penetration(&[found(40, 0.0, 1e-6)]).unwrap(), 0.001);
        let refusal = |found: &[Found]| penetration(found).unwrap_err();
        let few = refusal(&[found(29, 0.0, 0.3)]);
        assert!(
            matches!(few, QueueError::Number { what: "stops of the fleet in queues", found, .. } if found == 29.0)
        );
        // All at the same place tell no slope.
        let still =
            Found { joining: vec![Pair { expected: 3.0, counted: 1.0 }; 50], leaving: vec![] };
        assert!(matches!(refusal(&[still]), QueueError::Number { found, .. } if found == 50.0));
        let falling = refusal(&[found(40, 30.0, -0.5)]);
        assert!(
            matches!(falling, QueueError::Number { what: "penetration rate", found, .. } if (found + 0.5).abs() < 1e-12)
        );
    }

    #[test]
    fn relations_are_fitted_to_the_fleets_own_counts() {
        let rate = 0.5;
        // Counts of the fleet are half of 2 + 0.8·κy, without any scatter.
        let fitted = Relation::fit(&road(1), rate, &pairs(60, |x| rate * (2.0 + 0.8 * x)));
        assert!((fitted.offset - 2.0).abs() < 1e-12 && (fitted.slope - 0.8).abs() < 1e-12);
        // Less scatter than chance gives: as sure as a fit may be, 1 + 0.2 for a lane.
        assert_eq!((fitted.spread, fitted.share), (1.2, 0.05));
        let (mean, weight) = fitted.at(10.0);
        assert!((mean - 10.0).abs() < 1e-12);
        assert!((weight - 1.0 / (1.2 * 1.2 + 0.5 * 0.5)).abs() < 1e-12);
        // Too few, or all at one place: the theory's own.
        let theory = Relation { offset: 0.0, slope: 1.0, spread: 1.0 + 0.6 * 3.0, share: 0.25 };
        assert_eq!(Relation::fit(&road(3), rate, &pairs(49, |x| x)), theory);
        let still = vec![Pair { expected: 4.0, counted: 1.0 }; 60];
        assert_eq!(Relation::fit(&road(3), rate, &still), theory);
        let both = Relations::fit(&road(3), rate, &Found::default());
        assert_eq!(both, Relations::theory(&road(3)));
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let through = |points: &[(f64, f64)]| line(points.iter().copied());
        assert_eq!(through(&[(0.0, 1.0), (2.0, 5.0)]), Some((1.0, 2.0)));
        // Least squares of three: the mean of the ends' slope, through the mean point.
        assert_eq!(through(&[(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)]), Some((1.0, 0.0)));
        assert_eq!(through(&[(3.0, 1.0), (3.0, 2.0)]), None);
        assert_eq!(through(&[(3.0, 1.0)]), None);
        assert_eq!(through(&[]), None);
    }
}
