//! Grid cities of any size, for tests at scale.
//!
//! `rows × columns` junctions, two-way streets between neighbours, and an entry and an exit street
//! at every place on the rim where a street would go on. Each junction has a signal of four phases
//! (north–south straight and right, north–south left, then east–west alike), so that no two
//! movements with green cross each other.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::geometry::{LatLon, Point};
use crate::network::{
    LanePair, Link, LinkId, LoopDetector, MAX_LINKS, Movement, Network, NetworkError, NetworkParts,
    Turn,
};
use crate::signal::{Phase, Signal};
use crate::units::{Metres, MetresPerSecond, Seconds};

/// What grid to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GridPlan {
    /// Junctions from south to north.
    pub rows: usize,
    /// Junctions from west to east.
    pub columns: usize,
    /// Distance between neighbouring junctions.
    pub block: Metres,
    /// Lanes of each direction of a street.
    pub lanes: u8,
    /// A loop on every n-th link; 0 for none.
    pub loop_every: usize,
}

impl Default for GridPlan {
    fn default() -> Self {
        Self { rows: 5, columns: 5, block: Metres::new(150.0), lanes: 2, loop_every: 5 }
    }
}

/// Why a grid could not be made.
#[derive(Debug, Error)]
pub enum GridError {
    /// No junctions, or too many.
    #[error(
        "grid of {rows} × {columns} junctions: expected 1 or more of each and at most {MAX_LINKS} links"
    )]
    Size {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        columns: usize,
    },
    /// The plan's numbers do not make a network.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

/// Directions in which a street leaves a junction, counter-clockwise.
const DIRECTIONS: [(i64, i64); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];
const SPEED: MetresPerSecond = MetresPerSecond::new(13.9);
const JUNCTION: Metres = Metres::new(15.0);
const STRAIGHT_GREEN: Seconds = Seconds::new(27.0);
const LEFT_GREEN: Seconds = Seconds::new(10.0);
const YELLOW: Seconds = Seconds::new(3.0);
const CLEARANCE: Seconds = Seconds::new(1.0);

type Place = (i64, i64);

/// Makes a grid city.
///
/// ```
/// let city = traffic::grid(traffic::GridPlan { rows: 3, columns: 4, ..Default::default() })?;
/// // 17 streets between junctions and 14 out of the rim, each with two directions.
/// assert_eq!(city.links().len(), 2 * (17 + 14));
/// # Ok::<(), traffic::GridError>(())
/// ```
pub fn grid(plan: GridPlan) -> Result<Network, GridError> {
    let (rows, columns) = (plan.rows as i64, plan.columns as i64);
    if plan.rows == 0 || plan.columns == 0 || plan.rows.saturating_mul(plan.columns) > MAX_LINKS / 5
    {
        return Err(GridError::Size { rows: plan.rows, columns: plan.columns });
    }
    let inside = |(x, y): Place| (0..columns).contains(&x) && (0..rows).contains(&y);
    let point =
        |(x, y): Place| Point { x: x as f64 * plan.block.get(), y: y as f64 * plan.block.get() };

    let mut links = Vec::new();
    // BTreeMap: the order of links must not depend on a hash.
    let mut between: BTreeMap<(Place, Place), LinkId> = BTreeMap::new();
    for y in -1..=rows {
        for x in -1..=columns {
            for (dx, dy) in DIRECTIONS {
                let (a, b) = ((x, y), (x + dx, y + dy));
                if !(inside(a) || inside(b)) {
                    continue;
                }
                between.insert((a, b), LinkId(links.len() as u32));
                links.push(Link {
                    name: format!("{}_{}-{}_{}", a.0, a.1, b.0, b.1),
                    length: plan.block,
                    junction: if inside(a) { JUNCTION } else { Metres::ZERO },
                    lanes: plan.lanes,
                    speed: SPEED,
                    shape: vec![point(a), point(b)],
                });
            }
        }
    }

    let mut turns = Vec::new();
    let mut signals = Vec::new();
    for y in 0..rows {
        for x in 0..columns {
            let here = (x, y);
            // Movements of the four phases: straight and right along x, left from x; then along y.
            let mut groups: [Vec<Movement>; 4] = Default::default();
            for (arm, (dx, dy)) in DIRECTIONS.into_iter().enumerate() {
                let from = between[&((x - dx, y - dy), here)];
                for (bend, lanes) in [
                    (0, (0..plan.lanes).map(|lane| LanePair { from: lane, to: lane }).collect()),
                    (1, vec![LanePair { from: plan.lanes.max(1) - 1, to: plan.lanes.max(1) - 1 }]),
                    (3, vec![LanePair { from: 0, to: 0 }]),
                ] {
                    let (ex, ey) = DIRECTIONS[(arm + bend) % 4];
                    let to = between[&(here, (x + ex, y + ey))];
                    turns.push(Turn { from, to, lanes });
                    let group = 2 * (arm % 2) + usize::from(bend == 1);
                    groups[group].push(Movement { from, to: Some(to) });
                }
            }
            signals.push(four_phases(here, groups));
        }
    }
    let loops = links.len().checked_div(plan.loop_every).unwrap_or(0);
    let loops = (0..loops).map(|index| LoopDetector {
        name: format!("L{index}"),
        link: LinkId((index * plan.loop_every) as u32),
        position: plan.block * 0.8,
    });
    let parts = NetworkParts {
        name: format!("grid {rows} × {columns}"),
        origin: Some(LatLon { lat: 0.0, lon: 0.0 }),
        links,
        turns,
        signals,
        loops: loops.collect(),
        targets: Vec::new(),
    };
    Ok(Network::new(parts)?)
}

fn four_phases((x, y): Place, groups: [Vec<Movement>; 4]) -> Signal {
    let mut phases = Vec::with_capacity(12);
    for (group, movements) in groups.into_iter().enumerate() {
        let green = if group % 2 == 0 { STRAIGHT_GREEN } else { LEFT_GREEN };
        phases.push(Phase { duration: green, green: movements.clone(), yellow: Vec::new() });
        phases.push(Phase { duration: YELLOW, green: Vec::new(), yellow: movements });
        phases.push(Phase { duration: CLEARANCE, green: Vec::new(), yellow: Vec::new() });
    }
    // Neighbouring signals half a cycle apart: a plain pattern that still makes platoons.
    let offset = Seconds::new(if (x + y) % 2 == 0 { 0.0 } else { 45.0 });
    Signal { name: format!("J{x}_{y}"), offset, phases }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_the_counts_of_its_formula() {
        for (rows, columns) in [(1, 1), (2, 3), (7, 4)] {
            let city = grid(GridPlan { rows, columns, ..GridPlan::default() }).unwrap();
            let inner = rows * (columns - 1) + columns * (rows - 1);
            let rim = 2 * (rows + columns);
            assert_eq!(city.links().len(), 2 * (inner + rim));
            assert_eq!(city.turns().len(), 12 * rows * columns);
            assert_eq!(city.signals().len(), rows * columns);
            assert_eq!(city.entries().count(), rim);
            assert_eq!(city.exits().count(), rim);
            for signal in city.signals() {
                assert_eq!(signal.cycle(), Seconds::new(90.0));
                assert_eq!(signal.movements().len(), 12);
            }
        }
    }

    #[test]
    fn a_grid_without_junctions_is_refused() {
        let error = grid(GridPlan { rows: 0, ..GridPlan::default() }).unwrap_err();
        assert!(error.to_string().starts_with("grid of 0 × 5 junctions"), "{error}");
    }
}
