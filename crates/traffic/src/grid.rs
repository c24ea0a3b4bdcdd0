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

type GridPoint = (i64, i64);

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
    let inside = |(x, y): GridPoint| (0..columns).contains(&x) && (0..rows).contains(&y);
    let point = |(x, y): GridPoint| Point {
        x: x as f64 * plan.block.get(),
        y: y as f64 * plan.block.get(),
    };

    let mut links = Vec::new();
    // BTreeMap: the order of links must not depend on a hash.
    let mut between: BTreeMap<(GridPoint, GridPoint), LinkId> = BTreeMap::new();
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

fn four_phases((x, y): GridPoint, groups: [Vec<Movement>; 4]) -> Signal {
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
    fn every_junction_leads_straight_left_and_right_from_each_side() {
        let city = grid(GridPlan { rows: 2, columns: 3, lanes: 3, ..GridPlan::default() }).unwrap();
        let mut bends = [0; 3];
        for turn in city.turns() {
            let direction = |link: LinkId| {
                let shape = &city.link(link).shape;
                (shape[1].x - shape[0].x, shape[1].y - shape[0].y)
            };
            let ((ax, ay), (bx, by)) = (direction(turn.from), direction(turn.to));
            assert_eq!(city.link(turn.from).shape[1], city.link(turn.to).shape[0]);
            // Left where the cross product is positive, right where negative, never back.
            let (dot, cross) = (ax * bx + ay * by, ax * by - ay * bx);
            assert!(dot >= 0.0, "{dot} at {}>{}", turn.from.0, turn.to.0);
            let pairs = |lanes: &[[u8; 2]]| {
                lanes.iter().copied().map(LanePair::from).collect::<Vec<LanePair>>()
            };
            let (bend, lanes) = if cross == 0.0 {
                (0, pairs(&[[0, 0], [1, 1], [2, 2]]))
            } else if cross > 0.0 {
                (1, pairs(&[[2, 2]]))
            } else {
                (2, pairs(&[[0, 0]]))
            };
            bends[bend] += 1;
            assert_eq!(turn.lanes, lanes);
        }
        assert_eq!(bends, [24; 3], "four approaches at each of six junctions");
    }

    #[test]
    fn no_two_greens_of_a_grid_cross() {
        let city = grid(GridPlan { rows: 2, columns: 2, ..GridPlan::default() }).unwrap();
        let heading = |link: LinkId| {
            let shape = &city.link(link).shape;
            (shape[1].y - shape[0].y).atan2(shape[1].x - shape[0].x).to_degrees().round() as i64
        };
        for signal in city.signals() {
            for phase in signal.phases.iter().filter(|phase| !phase.green.is_empty()) {
                // All who have green at once come along one axis, and either all of them or none
                // turn left: what crosses oncoming traffic never goes with it.
                let axes: Vec<i64> =
                    phase.green.iter().map(|m| heading(m.from).rem_euclid(180)).collect();
                assert!(axes.iter().all(|&axis| axis == axes[0]), "{axes:?}");
                let left: Vec<bool> = phase
                    .green
                    .iter()
                    .map(|m| (heading(m.to.unwrap()) - heading(m.from)).rem_euclid(360) == 90)
                    .collect();
                assert!(left.iter().all(|&turns| turns == left[0]), "{left:?}");
                assert_eq!(phase.green.len(), if left[0] { 2 } else { 4 });
            }
            // Straight greens 27 s, left greens 10 s, each followed by 3 s of yellow and 1 s of red.
            let durations: Vec<f64> = signal.phases.iter().map(|p| p.duration.get()).collect();
            assert_eq!(durations, [27., 3., 1., 10., 3., 1., 27., 3., 1., 10., 3., 1.]);
        }
        let offsets: Vec<f64> = city.signals().iter().map(|s| s.offset.get()).collect();
        assert_eq!(offsets, [0.0, 45.0, 45.0, 0.0], "neighbours are half a cycle apart");
    }

    #[test]
    fn loops_lie_on_every_nth_link() {
        let loops = |loop_every| {
            let city = grid(GridPlan { loop_every, ..GridPlan::default() }).unwrap();
            (city.links().len(), city.loops().to_vec())
        };
        let (links, none) = loops(0);
        assert_eq!((links, none.len()), (120, 0));
        let (_, seventh) = loops(7);
        assert_eq!(seventh.len(), 17);
        for (index, detector) in seventh.iter().enumerate() {
            assert_eq!(detector.link, LinkId(7 * index as u32));
            assert_eq!(detector.name, format!("L{index}"));
            assert_eq!(detector.position, Metres::new(120.0), "at 80 % of 150 m");
        }
        assert_eq!(loops(120).1.len(), 1);
        assert_eq!(loops(121).1.len(), 0);
    }

    #[test]
    fn a_grid_without_junctions_is_refused() {
        for (rows, columns) in [(0, 5), (5, 0), (usize::MAX, 2), (1000, 201)] {
            let error = grid(GridPlan { rows, columns, ..GridPlan::default() }).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "grid of {rows} × {columns} junctions: expected 1 or more of each and at most 1000000 links"
                )
            );
        }
    }

    #[test]
    fn plans_that_make_no_links_are_refused() {
        let refusal = |plan| grid(plan).unwrap_err().to_string();
        assert_eq!(
            refusal(GridPlan { lanes: 0, ..GridPlan::default() }),
            "link `0_-1-0_0`: lanes: found 0, expected at least 1"
        );
        // The junction's 15 m must leave some road.
        assert_eq!(
            refusal(GridPlan { block: Metres::new(15.0), ..GridPlan::default() }),
            "link `0_0-1_0`: junction: found 15 m, expected 0 m or more and less than the length 15 m"
        );
        assert_eq!(
            refusal(GridPlan { block: Metres::new(f64::NAN), ..GridPlan::default() }),
            "link `0_-1-0_0`: length: found NaN m, expected more than 0 m"
        );
    }
}
