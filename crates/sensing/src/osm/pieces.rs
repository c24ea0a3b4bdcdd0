//! Cuts ways into pieces between junctions, and mends what mapping has cut too finely.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use traffic::{LatLon, LocalPlane, Metres, Point, polyline_length};

use super::OsmReport;
use super::raw_map::RawMap;
use super::tags::Road;

/// Roads between junctions.
pub(super) struct Pieces {
    pub pieces: Vec<Piece>,
    /// Where the plane touches the Earth: the middle of the roads.
    pub origin: LatLon,
    junction_of: FxHashMap<i64, i64>,
}

/// A stretch of road without a junction in between.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The way at its first node, and the one at its last.
    pub ways: [i64; 2],
    pub nodes: Vec<i64>,
    pub shape: Vec<Point>,
    pub road: Road,
}

impl Pieces {
    /// The junction that a node belongs to.
    pub(super) fn junction(&self, node: i64) -> i64 {
        self.junction_of.get(&node).copied().unwrap_or(node)
    }
}

impl Piece {
    pub(super) fn first(&self) -> i64 {
        self.nodes.first().copied().unwrap_or_default()
    }

    pub(super) fn last(&self) -> i64 {
        self.nodes.last().copied().unwrap_or_default()
    }

    fn reverse(&mut self) {
        self.ways.reverse();
        self.nodes.reverse();
        self.shape.reverse();
        std::mem::swap(&mut self.road.along, &mut self.road.against);
    }
}

pub(super) fn cut(map: &RawMap, min_length: Metres, report: &mut OsmReport) -> Pieces {
    let mut visits: FxHashMap<i64, u32> = FxHashMap::default();
    for node in map.ways.iter().flat_map(|way| &way.nodes) {
        *visits.entry(*node).or_default() += 1;
    }
    let known = |node: &&i64| map.nodes.contains_key(node);
    report.missing_nodes = visits.keys().filter(|node| !known(node)).count();
    report.signals =
        visits.keys().filter(|node| map.nodes.get(node).is_some_and(|node| node.signal)).count();
    let origin = middle(map);
    let plane = LocalPlane::at(origin);

    let mut pieces = Vec::new();
    for way in &map.ways {
        let mut piece = Vec::new();
        let mut finish = |nodes: &mut Vec<i64>| {
            if nodes.len() > 1 {
                let shape =
                    nodes.iter().filter_map(|node| Some(plane.point(map.nodes.get(node)?.place)));
                pieces.push(Piece {
                    ways: [way.id; 2],
                    shape: shape.collect(),
                    nodes: nodes.clone(),
                    road: way.road.clone(),
                });
            }
            nodes.clear();
        };
        for node in &way.nodes {
            if !map.nodes.contains_key(node) {
                finish(&mut piece);
                continue;
            }
            if piece.last() == Some(node) {
                continue;
            }
            piece.push(*node);
            if visits.get(node).is_some_and(|&count| count > 1) {
                finish(&mut piece);
                piece.push(*node);
            }
        }
        finish(&mut piece);
    }
    let pieces = join(pieces, map, report);
    pull_together(pieces, min_length, origin, report)
}

/// The mean place of all nodes of roads, to a millionth of a degree.
fn middle(map: &RawMap) -> LatLon {
    let places = map.ways.iter().flat_map(|way| &way.nodes).filter_map(|node| map.nodes.get(node));
    let (mut lat, mut lon, mut count) = (0.0, 0.0, 0.0_f64);
    for node in places {
        lat += node.place.lat;
        lon += node.place.lon;
        count += 1.0;
    }
    let mean = |sum: f64| (sum / count.max(1.0) * 1e6).round() / 1e6;
    LatLon { lat: mean(lat), lon: mean(lon) }
}

/// Joins two pieces that meet where no other does, if cars see no difference between them.
fn join(pieces: Vec<Piece>, map: &RawMap, report: &mut OsmReport) -> Vec<Piece> {
    let ruled: FxHashSet<i64> = map.restrictions.iter().map(|rule| rule.via).collect();
    let mut ends: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (index, piece) in pieces.iter().enumerate() {
        ends.entry(piece.first()).or_default().push(index);
        ends.entry(piece.last()).or_default().push(index);
    }
    let mut pieces: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
    let nodes: Vec<i64> = ends.keys().copied().filter(|node| !ruled.contains(node)).collect();
    for node in nodes {
        let [a, b] = ends.get(&node).map_or(&[][..], Vec::as_slice) else { continue };
        let (mut a, mut b) = (*a, *b);
        if a == b {
            continue;
        }
        let (Some(mut first), Some(mut second)) = (pieces[a].clone(), pieces[b].clone()) else {
            continue;
        };
        if first.last() != node && second.last() == node {
            std::mem::swap(&mut first, &mut second);
            std::mem::swap(&mut a, &mut b);
        }
        if first.last() != node {
            first.reverse();
        }
        if second.first() != node {
            second.reverse();
        }
        let alike =
            first.road.along == second.road.along && first.road.against == second.road.against;
        if !alike {
            continue;
        }
        first.nodes.extend(second.nodes.iter().skip(1));
        first.shape.extend(second.shape.iter().skip(1));
        first.ways[1] = second.ways[1];
        first.road.street = first.road.street.or(second.road.street);
        if let Some(far) = ends.get_mut(&first.last())
            && let Some(end) = far.iter_mut().find(|end| **end == b)
        {
            *end = a;
        }
        ends.remove(&node);
        pieces[a] = Some(first);
        pieces[b] = None;
        report.joined_pieces += 1;
    }
    pieces.into_iter().flatten().collect()
}

/// Makes one junction of those that too short a piece connects, and drops the piece.
fn pull_together(
    pieces: Vec<Piece>,
    min_length: Metres,
    origin: LatLon,
    report: &mut OsmReport,
) -> Pieces {
    let mut joined: FxHashMap<i64, i64> = FxHashMap::default();
    let root = |joined: &FxHashMap<i64, i64>, mut node: i64| {
        while let Some(&next) = joined.get(&node) {
            node = next;
        }
        node
    };
    let (short, pieces): (Vec<Piece>, Vec<Piece>) =
        pieces.into_iter().partition(|piece| polyline_length(&piece.shape) < min_length.get());
    for piece in &short {
        let (a, b) = (root(&joined, piece.first()), root(&joined, piece.last()));
        if a != b {
            // The smaller number stays: the result does not depend on the order of ways.
            joined.insert(a.max(b), a.min(b));
        }
    }
    report.short_pieces = short.len();
    let junction_of = joined.keys().map(|&node| (node, root(&joined, node))).collect();
    Pieces { pieces, origin, junction_of }
}
