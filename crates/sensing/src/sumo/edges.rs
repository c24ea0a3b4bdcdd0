//! From SUMO's lanes to our links.

use std::path::Path;

use rustc_hash::FxHashMap;
use traffic::{LinkId, Network};

use super::names::edge_names;
use super::net::SumoNet;
use super::{Fault, SumoFileError};

/// Where each lane of a SUMO net lies in a network.
#[derive(Clone, Debug, Default)]
pub struct EdgeMap {
    lanes: FxHashMap<Box<[u8]>, LanePlace>,
    /// Whether a lane inside a junction may be missing here, to be skipped.
    without_junctions: bool,
}

/// Where a SUMO lane lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LanePlace {
    /// On a link.
    On(OnLink),
    /// In SUMO's net, but on no link of ours.
    Outside,
}

/// A SUMO lane on a link: the position on the link is `start + scale · pos`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OnLink {
    pub(super) link: LinkId,
    pub(super) lane: u8,
    pub(super) start: f64,
    pub(super) scale: f64,
    /// The lane's own length in metres.
    pub(super) length: f64,
}

/// How a lane's stated length may differ from ours: SUMO writes centimetres.
const ROUNDING: f64 = 0.02;

impl EdgeMap {
    /// For the FCD of a network that we wrote for SUMO, from the net file that `netconvert` made
    /// of it.
    pub fn read(network: &Network, net_file: &Path) -> Result<Self, SumoFileError> {
        let net = SumoNet::read(net_file)?;
        let links: FxHashMap<String, LinkId> =
            edge_names(network).into_iter().zip(network.link_ids()).collect();
        for edge in net.edges.iter().filter(|edge| edge.road) {
            let Some(&id) = links.get(&edge.id) else { continue };
            let link = network.link(id);
            let expected = (link.length - link.junction).get();
            for lane in &edge.lanes {
                if (lane.length - expected).abs() > ROUNDING {
                    let found = format!("{} m", lane.length);
                    let expected = format!("{expected} m, as in the network");
                    let field = format!("length of lane {}", lane.id);
                    return Err(Fault::new(&field, found, expected).at(&net.file, 1));
                }
            }
        }
        let missing = |name: &&String| !net.edge_by_id.contains_key(*name);
        if let Some(name) = links.keys().filter(missing).min() {
            let fault = Fault::new("edge", "none", format!("one with id `{name}`"));
            return Err(fault.at(&net.file, 1));
        }
        Ok(Self::build(&net, network, |edge, lane| Some((*links.get(edge)?, lane as u8))))
    }

    /// Without a net file: the lanes of the links' edges, but no insides of junctions. Vehicles are
    /// then not seen while they cross.
    pub fn of(network: &Network) -> Self {
        let mut map = Self { without_junctions: true, ..Self::default() };
        for (name, id) in edge_names(network).into_iter().zip(network.link_ids()) {
            let link = network.link(id);
            let (start, length) = (link.junction.get(), (link.length - link.junction).get());
            for lane in 0..link.lanes {
                let place = OnLink { link: id, lane, start, scale: 1.0, length };
                map.insert(&format!("{name}_{lane}"), LanePlace::On(place));
            }
        }
        map
    }

    /// `find` gives the link and our number of a lane of an edge.
    pub(super) fn build(
        net: &SumoNet,
        network: &Network,
        find: impl Fn(&str, usize) -> Option<(LinkId, u8)>,
    ) -> Self {
        let mut map = Self::default();
        for edge in &net.edges {
            for (index, lane) in edge.lanes.iter().enumerate() {
                let place = find(&edge.id, index).filter(|_| edge.road).map(|(id, number)| {
                    let link = network.link(id);
                    let on_edge = (link.length - link.junction).get();
                    LanePlace::On(OnLink {
                        link: id,
                        lane: number,
                        start: link.junction.get(),
                        scale: if lane.length > 0.0 { on_edge / lane.length } else { 1.0 },
                        length: lane.length,
                    })
                });
                map.insert(&lane.id, place.unwrap_or(LanePlace::Outside));
            }
        }
        for crossing in crossings(net) {
            let Some((id, number)) = find(crossing.to, crossing.to_lane) else { continue };
            let junction = network.link(id).junction.get();
            let total: f64 = crossing.lanes.iter().map(|(_, length)| length).sum();
            let scale = if total > 0.0 { junction / total } else { 0.0 };
            let mut start = 0.0;
            for (lane, length) in crossing.lanes {
                let place = OnLink { link: id, lane: number, start, scale, length };
                map.insert(lane, LanePlace::On(place));
                start += scale * length;
            }
        }
        map
    }

    /// Where a lane lies; `None` if the net has no such lane.
    #[inline]
    pub(super) fn place(&self, lane: &[u8]) -> Option<LanePlace> {
        match self.lanes.get(lane) {
            Some(&place) => Some(place),
            None if self.without_junctions && lane.starts_with(b":") => Some(LanePlace::Outside),
            None => None,
        }
    }

    fn insert(&mut self, lane: &str, place: LanePlace) {
        self.lanes.insert(lane.as_bytes().into(), place);
    }
}

/// One lane's way across a junction.
pub(super) struct LaneConnection<'a> {
    pub(super) to: &'a str,
    pub(super) to_lane: usize,
    /// The internal lanes in order, with their lengths in metres.
    pub(super) lanes: Vec<(&'a str, f64)>,
}

/// No way across a junction has more parts than this.
const MOST_PARTS: usize = 16;

/// Follows each connection between roads over its internal lanes.
///
/// A crossing has two parts where vehicles may wait inside the junction: the connection leads over
/// `:J_3_0`, and the connection from there over `:J_9_0`.
pub(super) fn crossings(net: &SumoNet) -> Vec<LaneConnection<'_>> {
    let onward: FxHashMap<(&str, usize), &str> = net
        .connections
        .iter()
        .filter(|connection| connection.from.starts_with(':'))
        .filter_map(|inner| Some(((inner.from.as_str(), inner.from_lane), inner.via.as_deref()?)))
        .collect();
    let mut crossings = Vec::new();
    for connection in &net.connections {
        if connection.from.starts_with(':') {
            continue;
        }
        let mut lanes = Vec::new();
        let mut next = connection.via.as_deref();
        while let Some(lane) = next.filter(|_| lanes.len() < MOST_PARTS) {
            lanes.push((lane, net.lane(lane).map_or(0.0, |lane| lane.length)));
            next = lane
                .rsplit_once('_')
                .and_then(|(edge, index)| onward.get(&(edge, index.parse().ok()?)).copied());
        }
        let to_lane = connection.to_lane;
        crossings.push(LaneConnection { to: &connection.to, to_lane, lanes });
    }
    crossings
}
