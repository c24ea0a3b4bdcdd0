//! What a file says, whatever its form: nodes, roads and turn restrictions.

use rustc_hash::FxHashMap;
use traffic::LatLon;

use super::OsmReport;
use super::tags::{Reading, Road, Tags, read_road};

/// The most nodes held: over a gigabyte; larger maps should be cut to the city first.
const MAX_NODES: usize = 50_000_000;
/// The most nodes of one way; OpenStreetMap itself allows 2,000.
pub(super) const MAX_WAY_NODES: usize = 100_000;
/// The most members of one relation that are kept.
pub(super) const MAX_MEMBERS: usize = 1000;

/// What the file says.
#[derive(Default)]
pub(super) struct RawMap {
    pub nodes: FxHashMap<i64, Node>,
    pub ways: Vec<RawWay>,
    pub restrictions: Vec<Restriction>,
    pub ways_read: usize,
    pub report: OsmReport,
}

#[derive(Clone, Copy)]
pub(super) struct Node {
    pub place: LatLon,
    pub signal: bool,
}

pub(super) struct RawWay {
    pub id: i64,
    pub nodes: Vec<i64>,
    pub road: Road,
}

/// A rule about turning from one way into another at a node.
#[derive(Debug)]
pub(super) struct Restriction {
    pub from: Vec<i64>,
    pub via: i64,
    pub to: Vec<i64>,
    pub rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Not from `from` into `to`.
    No,
    /// From `from` only into `to`.
    Only,
    /// Not back along the same way.
    NoTurningRound,
}

/// A node or way that a relation names.
pub(super) struct Member {
    pub way: bool,
    pub id: i64,
    pub role: String,
}

/// The keys of relations that are kept while reading.
pub(super) const RELATION_KEYS: [&str; 2] = ["type", "restriction"];

/// Whether a node's tag says that a traffic light stands there.
pub(super) fn is_signal(key: &str, value: &str) -> bool {
    key == "highway" && value == "traffic_signals"
}

/// A place on the Earth, or what is wrong with it.
pub(super) fn place(lat: f64, lon: f64) -> Result<LatLon, String> {
    for (name, value, most) in [("lat", lat, 90.0), ("lon", lon, 180.0)] {
        if !(-most..=most).contains(&value) {
            return Err(format!("{name}: found {value}, expected degrees from -{most} to {most}"));
        }
    }
    Ok(LatLon { lat, lon })
}

pub(super) fn too_many_nodes() -> String {
    format!("found a way of more than {MAX_WAY_NODES} nodes, expected fewer")
}

impl RawMap {
    pub(super) fn add_node(&mut self, id: i64, node: Node) -> Result<(), String> {
        if self.nodes.len() == MAX_NODES {
            return Err(format!(
                "found more than {MAX_NODES} nodes, expected a map cut to the area"
            ));
        }
        self.nodes.insert(id, node);
        Ok(())
    }

    /// Takes a way, if it is a road for cars.
    pub(super) fn add_way(&mut self, id: i64, nodes: Vec<i64>, tags: &Tags) -> Result<(), String> {
        if nodes.len() > MAX_WAY_NODES {
            return Err(too_many_nodes());
        }
        self.ways_read += 1;
        match read_road(tags) {
            Reading::Road(road, unreadable) => {
                self.report.ways += 1;
                self.report.unreadable_values += unreadable;
                self.ways.push(RawWay { id, nodes, road });
            }
            Reading::Closed => self.report.closed_ways += 1,
            Reading::Other => {}
        }
        Ok(())
    }

    /// Takes a relation, if it is a turn restriction.
    pub(super) fn add_relation(&mut self, members: &[Member], tags: &Tags) {
        let get = |key: &str| tags.iter().find(|(known, _)| known == key).map(|(_, v)| v.as_str());
        let (Some("restriction"), Some(kind)) = (get("type"), get("restriction")) else { return };
        let ways = |role: &str| -> Vec<i64> {
            members.iter().filter(|m| m.way && m.role == role).map(|m| m.id).collect()
        };
        let (from, to) = (ways("from"), ways("to"));
        let mut via = members.iter().filter(|m| m.role == "via");
        let rule = match kind {
            "no_u_turn" if from == to => Some(Rule::NoTurningRound),
            _ if kind.starts_with("no_") => Some(Rule::No),
            _ if kind.starts_with("only_") => Some(Rule::Only),
            _ => None,
        };
        match (via.next(), via.next(), rule) {
            (Some(Member { way: false, id, .. }), None, Some(rule))
                if !from.is_empty() && !to.is_empty() =>
            {
                self.restrictions.push(Restriction { from, via: *id, to, rule });
            }
            // Over several ways, or without a place.
            _ => self.report.ignored_restrictions += 1,
        }
    }
}
