//! The road graph: links are its vertices, turns its edges.
//!
//! A link runs **from stop line to stop line**: its first [`Link::junction`] metres cross the
//! junction at its upstream end. So a vehicle that leaves link *m* is at once on link *n*, junction
//! interiors belong to the link they lead into, and vehicles are conserved between links.
//!
//! ```text
//!            link m                         link n
//!   ├──────────────────────┤├─junction─┤─────────────────────┤
//!   x = 0       stop line of m = x 0 of n           stop line of n
//! ```

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::geometry::{LatLon, LocalPlane, Point, point_along};
use crate::signal::Signal;
use crate::units::{Metres, MetresPerSecond};

mod check;
#[cfg(test)]
mod tests;

use check::check_link;
pub use check::{NetworkError, NetworkPart};

/// The index of a link in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(pub u32);

impl LinkId {
    /// As an index into per-link arrays.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The index of a turn in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub u32);

impl TurnId {
    /// As an index into per-turn arrays.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A stretch of road from stop line to stop line.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name, unique in the network.
    pub name: String,
    /// From the upstream stop line to its own.
    pub length: Metres,
    /// How much of the length crosses the upstream junction; zero at an entry.
    pub junction: Metres,
    /// Number of lanes; lane 0 is the right-most.
    pub lanes: u8,
    /// The speed limit, which is also the free-flow speed.
    pub speed: MetresPerSecond,
    /// Its centre line, in the direction of travel. Two points or more.
    pub shape: Vec<Point>,
}

impl Link {
    /// Length times lanes.
    pub fn lane_length(&self) -> Metres {
        self.length * f64::from(self.lanes)
    }

    /// Where a position along the link lies in the plane.
    pub fn point_at(&self, position: Metres) -> Point {
        point_along(&self.shape, position / self.length).unwrap_or(Point { x: 0.0, y: 0.0 })
    }
}

/// A permitted passage from one link to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The link that it leaves.
    pub from: LinkId,
    /// The link that it enters.
    pub to: LinkId,
    /// Which lane of `from` leads to which lane of `to`. Never empty.
    pub lanes: Vec<LanePair>,
}

/// One lane's way through a junction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "[u8; 2]", into = "[u8; 2]")]
pub struct LanePair {
    /// A lane of the link that the turn leaves.
    pub from: u8,
    /// A lane of the link that it enters.
    pub to: u8,
}

impl From<[u8; 2]> for LanePair {
    fn from([from, to]: [u8; 2]) -> Self {
        Self { from, to }
    }
}

impl From<LanePair> for [u8; 2] {
    fn from(pair: LanePair) -> Self {
        [pair.from, pair.to]
    }
}

/// What a signal head governs: a turn, or leaving the network at the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Movement {
    /// The link whose stop line it is.
    pub from: LinkId,
    /// Where it leads; `None` is out of the network.
    pub to: Option<LinkId>,
}

/// A loop detector across all lanes of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopDetector {
    /// Its name, unique in the network.
    pub name: String,
    /// The link it lies on.
    pub link: LinkId,
    /// How far along the link.
    pub position: Metres,
}

/// The content of a network before it is checked: what a file, an importer or a generator gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkParts {
    /// A title for people.
    pub name: String,
    /// Where `x = y = 0` lies on the Earth, if known.
    pub origin: Option<LatLon>,
    /// The links; their order is the order of every per-link array.
    pub links: Vec<Link>,
    /// The turns.
    pub turns: Vec<Turn>,
    /// The signals.
    pub signals: Vec<Signal>,
    /// The loop detectors.
    pub loops: Vec<LoopDetector>,
    /// The links whose estimates are scored; all links if empty.
    pub targets: Vec<LinkId>,
}

/// A checked road network.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    parts: NetworkParts,
    by_name: HashMap<String, LinkId>,
    outgoing: Vec<Vec<TurnId>>,
    incoming: Vec<Vec<TurnId>>,
    signal_of: HashMap<Movement, usize>,
}

/// The most links a network may have; more is taken for a damaged file.
pub const MAX_LINKS: usize = 1_000_000;

impl Network {
    /// Checks the parts and indexes them.
    pub fn new(parts: NetworkParts) -> Result<Self, NetworkError> {
        let link_count = parts.links.len();
        let fail = |part, problem: String| Err(NetworkError { part, problem });
        if link_count == 0 || link_count > MAX_LINKS {
            return fail(
                NetworkPart::Whole,
                format!("has {link_count} links, expected 1 to {MAX_LINKS}"),
            );
        }
        if let Some(LatLon { lat, lon }) = parts.origin
            && !(lat.is_finite() && lon.is_finite())
        {
            return fail(
                NetworkPart::Whole,
                format!("origin: found {lat}, {lon}, expected two numbers"),
            );
        }
        let mut by_name = HashMap::with_capacity(link_count);
        for (index, link) in parts.links.iter().enumerate() {
            check_link(link).map_err(|problem| NetworkError {
                part: NetworkPart::Link(index, link.name.clone()),
                problem,
            })?;
            if by_name.insert(link.name.clone(), LinkId(index as u32)).is_some() {
                return fail(
                    NetworkPart::Link(index, link.name.clone()),
                    "name is used twice, expected unique names".into(),
                );
            }
        }
        let mut network = Self {
            outgoing: vec![Vec::new(); link_count],
            incoming: vec![Vec::new(); link_count],
            signal_of: HashMap::new(),
            by_name,
            parts,
        };
        network.index_turns()?;
        network.check_connected()?;
        network.index_signals()?;
        network.check_loops_and_targets()?;
        Ok(network)
    }

    /// The parts it was made of.
    pub fn parts(&self) -> &NetworkParts {
        &self.parts
    }

    /// Takes it apart again, to change it.
    pub fn into_parts(self) -> NetworkParts {
        self.parts
    }

    /// The title.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// All links, indexed by [`LinkId`].
    pub fn links(&self) -> &[Link] {
        &self.parts.links
    }

    /// All link ids in order.
    pub fn link_ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.parts.links.len() as u32).map(LinkId)
    }

    /// A link.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.parts.links[id.index()]
    }

    /// The link of a name.
    pub fn link_named(&self, name: &str) -> Option<LinkId> {
        self.by_name.get(name).copied()
    }

    /// All turns, indexed by [`TurnId`].
    pub fn turns(&self) -> &[Turn] {
        &self.parts.turns
    }

    /// A turn.
    pub fn turn(&self, id: TurnId) -> &Turn {
        &self.parts.turns[id.index()]
    }

    /// The turn from one link straight into another.
    pub fn turn_between(&self, from: LinkId, to: LinkId) -> Option<TurnId> {
        // A link has a handful of turns: looking at each is faster than hashing.
        self.outgoing.get(from.index())?.iter().copied().find(|&turn| self.turn(turn).to == to)
    }

    /// The turns that leave a link; empty at an exit.
    pub fn outgoing(&self, link: LinkId) -> &[TurnId] {
        &self.outgoing[link.index()]
    }

    /// The turns that enter a link; empty at an entry.
    pub fn incoming(&self, link: LinkId) -> &[TurnId] {
        &self.incoming[link.index()]
    }

    /// Links without an upstream link: where traffic enters.
    pub fn entries(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.link_ids().filter(|&link| self.incoming(link).is_empty())
    }

    /// Links without a downstream link: where traffic leaves.
    pub fn exits(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.link_ids().filter(|&link| self.outgoing(link).is_empty())
    }

    /// All signals.
    pub fn signals(&self) -> &[Signal] {
        &self.parts.signals
    }

    /// The signal that governs a movement; `None` is always free to go.
    pub fn signal_of(&self, movement: Movement) -> Option<&Signal> {
        self.signal_of.get(&movement).map(|&index| &self.parts.signals[index])
    }

    /// All loop detectors.
    pub fn loops(&self) -> &[LoopDetector] {
        &self.parts.loops
    }

    /// The links whose estimates are scored.
    pub fn targets(&self) -> Vec<LinkId> {
        if self.parts.targets.is_empty() {
            self.link_ids().collect()
        } else {
            self.parts.targets.clone()
        }
    }

    /// Where the origin lies on the Earth, if known.
    pub fn plane(&self) -> Option<LocalPlane> {
        self.parts.origin.map(LocalPlane::at)
    }

    /// The shortest chain of links from one to another, both included, by number of links.
    ///
    /// `None` if there is none within `max_turns` turns. Used where a record skips a short link.
    pub fn path(&self, from: LinkId, to: LinkId, max_turns: usize) -> Option<Vec<LinkId>> {
        if from == to {
            return Some(vec![from]);
        }
        let mut came_from: HashMap<LinkId, LinkId> = HashMap::new();
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((link, depth)) = queue.pop_front() {
            if depth == max_turns {
                continue;
            }
            for &turn in self.outgoing(link) {
                let next = self.turn(turn).to;
                if next == from || came_from.contains_key(&next) {
                    continue;
                }
                came_from.insert(next, link);
                if next == to {
                    let mut path = vec![to];
                    while let Some(&before) = path.last().and_then(|last| came_from.get(last)) {
                        path.push(before);
                    }
                    path.reverse();
                    return Some(path);
                }
                queue.push_back((next, depth + 1));
            }
        }
        None
    }

    /// `E1>E2`, or `E7>` for leaving the network.
    pub fn movement_name(&self, movement: Movement) -> String {
        let to = movement.to.map_or("", |to| &self.link(to).name);
        format!("{}>{to}", self.link(movement.from).name)
    }
}
