//! Any SUMO `.net.xml` as a network of ours.
//!
//! - A link is an edge plus the way into it across the junction: its
//!   [`junction`](traffic::Link::junction) is the mean length of the ways in.
//! - Lanes closed to passenger cars are dropped, and edges that have no others.
//! - Of a net in several parts the largest is kept.
//! - Signals run the program that SUMO would, also from additional files.
//! - Turns are the connections; a turn has green while any of its lanes has.
//! - Coordinates are kept, or, where the net is projected by UTM, laid on the plane that touches
//!   the Earth at the middle of the net.

mod additional;
mod signals;

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use traffic::{
    Groups, LanePair, LatLon, Link, LinkId, LocalPlane, Metres, MetresPerSecond, Network,
    NetworkParts, Point, Seconds, Turn,
};

use self::additional::Additional;
use super::config::SumoConfig;
use super::edges::{EdgeMap, crossings};
use super::loops::LoopMap;
use super::names::OUTSIDE;
use super::net::{SumoEdge, SumoLane, SumoNet};
use super::projection::Utm;
use super::{Fault, SumoFileError};

/// How to import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportOptions {
    /// SUMO's additional files, in the order in which SUMO would load them: induction loops and
    /// programs of traffic lights.
    pub additional: Vec<PathBuf>,
    /// SUMO's option `tls.all-off`: no light works, whatever its programs.
    pub lights_off: bool,
    /// When a run begins: what some programs of lights call `begin`.
    pub begin: Seconds,
}

impl ImportOptions {
    /// As a scenario has it.
    pub fn of(config: &SumoConfig) -> Self {
        let SumoConfig { additional, lights_off, begin, .. } = config;
        Self { additional: additional.clone(), lights_off: *lights_off, begin: *begin }
    }
}

/// A network made from a SUMO net.
#[derive(Clone, Debug)]
pub struct ImportedNet {
    /// The network.
    pub network: Network,
    /// Where SUMO's lanes lie in it, to read FCD.
    pub edges: EdgeMap,
    /// Which SUMO detectors make up its loops, to read their counts.
    pub loops: LoopMap,
    /// What was kept and what was not.
    pub report: ImportReport,
}

/// What an import kept and what it left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ImportReport {
    /// Roads in the net.
    pub edges: usize,
    /// Roads dropped because no lane is open to passenger cars.
    pub edges_not_for_cars: usize,
    /// Lanes dropped from roads that were kept.
    pub lanes_not_for_cars: usize,
    /// Links dropped because they do not hang together with the rest.
    pub links_apart: usize,
    /// Lights that are not fixed-time, taken with the durations given.
    pub lights_made_fixed: usize,
    /// Movements that never have green in their light's program; taken as without a signal.
    pub movements_never_green: usize,
    /// Programs of lights that SUMO does not begin with: all but the last loaded.
    pub unused_programs: usize,
    /// Lights that SUMO switches to other programs later (WAUT); taken with the first.
    pub lights_switched_by_clock: usize,
    /// Lights that are off.
    pub lights_off: usize,
    /// Lights that govern no movement of cars: of crossings and railways, or of no junction of the net.
    pub lights_without_movements: usize,
    /// Movements that a second light governs as well; taken with the first.
    pub movements_of_two_lights: usize,
    /// Signal phases in which the lanes of a turn differ.
    pub mixed_phases: usize,
    /// Detectors on lanes that were dropped.
    pub detectors_apart: usize,
    /// Detectors that are no loops: of lane areas (E2), of entries and exits (E3).
    pub detectors_not_loops: usize,
    /// Whether places on the Earth are known.
    pub georeferenced: bool,
}

/// Reads a net file, and the detectors that the options name.
pub fn import_net(path: &Path, options: &ImportOptions) -> Result<ImportedNet, SumoFileError> {
    let net = SumoNet::read(path)?;
    import(&net, options)
}

pub(super) fn import(net: &SumoNet, options: &ImportOptions) -> Result<ImportedNet, SumoFileError> {
    let mut report = ImportReport::default();
    let mut kept = Kept::of(net, &mut report);
    kept.largest_component(net, &mut report);
    if kept.edges.is_empty() {
        let found = format!("{} edges, none of them for cars", report.edges);
        let fault = Fault::new("net", found, "at least one edge open to passenger cars");
        return Err(fault.at(&net.file, 1));
    }
    let mut links = kept.links(net)?;
    let origin = georeference(net, &mut links);
    report.georeferenced = origin.is_some();
    let turns = kept.turns(net);
    let mut additional = Additional::of(net, &kept, &links);
    for file in &options.additional {
        additional.read(file, &mut report)?;
    }
    let Additional { loops, map: loop_map, lights, .. } = additional;
    let mut programs = lights.active();
    if options.lights_off {
        programs.switch_off();
    }
    let signals = signals::signals(net, (programs, options.begin), &kept, &turns, &mut report)?;
    let title = net.file.file_name().unwrap_or_default().to_string_lossy();
    let parts = NetworkParts {
        name: title.trim_end_matches(".gz").trim_end_matches(".net.xml").to_owned(),
        origin,
        links,
        turns,
        signals,
        loops,
        targets: Vec::new(),
    };
    let network = Network::new(parts)
        .map_err(|error| SumoFileError::Network { file: net.file.clone(), error })?;
    let edges = EdgeMap::build(net, &network, |edge, lane| kept.lane(edge, lane));
    Ok(ImportedNet { network, edges, loops: loop_map, report })
}

/// The edges that become links, and their lanes that are open to cars.
pub(super) struct Kept<'a> {
    /// In the order of the links.
    edges: Vec<&'a SumoEdge>,
    by_id: FxHashMap<&'a str, LinkId>,
    /// By link and SUMO lane: our number of the lane.
    lanes: Vec<Vec<Option<u8>>>,
}

/// Our lanes are numbered by a byte.
const MOST_LANES: u8 = u8::MAX;

impl<'a> Kept<'a> {
    fn of(net: &'a SumoNet, report: &mut ImportReport) -> Self {
        let mut edges = Vec::new();
        for edge in net.edges.iter().filter(|edge| edge.road && !edge.id.ends_with(OUTSIDE)) {
            report.edges += 1;
            let open = edge.lanes.iter().filter(|lane| lane.for_cars).count();
            if open == 0 {
                report.edges_not_for_cars += 1;
            } else {
                report.lanes_not_for_cars += edge.lanes.len() - open;
                edges.push(edge);
            }
        }
        Self::index(edges)
    }

    fn index(edges: Vec<&'a SumoEdge>) -> Self {
        let by_id = edges.iter().zip(0..).map(|(edge, id)| (edge.id.as_str(), LinkId(id)));
        let number = |edge: &&SumoEdge| {
            let mut next = 0;
            let number = |lane: &SumoLane| {
                (lane.for_cars && next < MOST_LANES).then(|| {
                    next += 1;
                    next - 1
                })
            };
            edge.lanes.iter().map(number).collect()
        };
        Self { by_id: by_id.collect(), lanes: edges.iter().map(number).collect(), edges }
    }

    /// The link and our lane of a lane of an edge.
    pub(super) fn lane(&self, edge: &str, lane: usize) -> Option<(LinkId, u8)> {
        let link = *self.by_id.get(edge)?;
        Some((link, (*self.lanes[link.index()].get(lane)?)?))
    }

    /// The link of an edge.
    pub(super) fn link(&self, edge: &str) -> Option<LinkId> {
        self.by_id.get(edge).copied()
    }

    fn largest_component(&mut self, net: &SumoNet, report: &mut ImportReport) {
        let turns = self.turns(net);
        let mut groups = Groups::new(self.edges.len());
        for turn in &turns {
            groups.join(turn.from.index(), turn.to.index());
        }
        let largest = groups.largest();
        let edges: Vec<&SumoEdge> = (self.edges.iter().enumerate())
            .filter(|&(link, _)| Some(groups.of(link)) == largest)
            .map(|(_, &edge)| edge)
            .collect();
        report.links_apart = self.edges.len() - edges.len();
        *self = Self::index(edges);
    }

    fn links(&self, net: &SumoNet) -> Result<Vec<Link>, SumoFileError> {
        // By link: lengths of the ways in, and where they begin.
        let mut ways: Vec<Vec<(f64, Option<Point>)>> = vec![Vec::new(); self.edges.len()];
        for crossing in crossings(net) {
            let Some((link, _)) = self.lane(crossing.to, crossing.to_lane) else { continue };
            let length = crossing.lanes.iter().map(|(_, length)| length).sum();
            let first = crossing.lanes.first().and_then(|(lane, _)| net.lane(lane));
            let begin = first.and_then(|lane| lane.shape.first().copied());
            if !crossing.lanes.is_empty() {
                ways[link.index()].push((length, begin));
            }
        }
        self.edges.iter().zip(ways).map(|(edge, ways)| link_of(net, edge, &ways)).collect()
    }

    fn turns(&self, net: &SumoNet) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        let mut index: FxHashMap<(LinkId, LinkId), usize> = FxHashMap::default();
        for connection in &net.connections {
            let ends = (
                self.lane(&connection.from, connection.from_lane),
                self.lane(&connection.to, connection.to_lane),
            );
            let (Some((from, from_lane)), Some((to, to_lane))) = ends else { continue };
            if from == to {
                continue;
            }
            let turn = *index.entry((from, to)).or_insert_with(|| {
                turns.push(Turn { from, to, lanes: Vec::new() });
                turns.len() - 1
            });
            let pair = LanePair { from: from_lane, to: to_lane };
            if !turns[turn].lanes.contains(&pair) {
                turns[turn].lanes.push(pair);
            }
        }
        turns
    }
}

fn link_of(
    net: &SumoNet,
    edge: &SumoEdge,
    ways: &[(f64, Option<Point>)],
) -> Result<Link, SumoFileError> {
    let open: Vec<&SumoLane> = edge.lanes.iter().filter(|lane| lane.for_cars).collect();
    let lanes = u8::try_from(open.len()).map_err(|_| {
        let expected = format!("at most {MOST_LANES}");
        Fault::new(&format!("lanes of edge {}", edge.id), open.len().to_string(), expected)
            .at(&net.file, 1)
    })?;
    let count = open.len() as f64;
    let length = open.iter().map(|lane| lane.length).sum::<f64>() / count;
    let junction =
        ways.iter().map(|(length, _)| length).sum::<f64>() / (ways.len() as f64).max(1.0);
    let begins: Vec<Point> = ways.iter().filter_map(|&(_, begin)| begin).collect();
    let mut shape: Vec<Point> = mean_point(&begins).into_iter().collect();
    shape.extend(centre_line(&open));
    Ok(Link {
        name: edge.id.clone(),
        length: Metres::new(length + junction),
        junction: Metres::new(junction),
        lanes,
        speed: MetresPerSecond::new(open.iter().map(|lane| lane.speed).fold(0.0, f64::max)),
        shape,
    })
}

/// The middle lane's line, or the line between the two middle ones.
fn centre_line(lanes: &[&SumoLane]) -> Vec<Point> {
    let (Some(left), Some(right)) = (lanes.get(lanes.len() / 2), lanes.get((lanes.len() - 1) / 2))
    else {
        return Vec::new();
    };
    if left.shape.len() != right.shape.len() {
        return right.shape.clone();
    }
    left.shape.iter().zip(&right.shape).map(|(a, b)| a.towards(*b, 0.5)).collect()
}

fn mean_point(points: &[Point]) -> Option<Point> {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.x, y + point.y));
    (!points.is_empty()).then_some(Point { x: x / count, y: y / count })
}

/// Lays the links on the plane at the middle of the net, if its place on the Earth is known.
fn georeference(net: &SumoNet, links: &mut [Link]) -> Option<LatLon> {
    let utm = Utm::of(net.location.as_ref()?)?;
    let all: Vec<Point> = links.iter().flat_map(|link| link.shape.iter().copied()).collect();
    let origin = utm.place(mean_point(&all)?);
    let plane = LocalPlane::at(origin);
    for point in links.iter_mut().flat_map(|link| link.shape.iter_mut()) {
        *point = plane.point(utm.place(*point));
    }
    Some(origin)
}

#[cfg(test)]
mod tests;
