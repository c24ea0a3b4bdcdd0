//! The road network as SUMO's plain XML: nodes, edges, connections and signal plans.
//!
//! ```text
//!        link m              link n = junction + edge n
//!   ├── edge m ────┤├ connection ├┤───── edge n ─────┤
//! ```
//!
//! A link's edge begins behind the junction, and every connection into it is given the length of
//! the link's junction: so a position on the link is the position on the connection, or the
//! junction's length plus the position on the edge.

use std::fmt::Write as _;

use sensing::sumo::{OUTSIDE, edge_names, signal_names};
use traffic::{Groups, LinkId, Movement, Network, Phase, Point, Signal};

use super::SumoError;

/// Length in metres of the stub edge behind an exit with a signal.
const STUB: f64 = 50.0;

/// The four input files of `netconvert`.
#[derive(Debug)]
pub(super) struct PlainXml {
    pub(super) nodes: String,
    pub(super) edges: String,
    pub(super) connections: String,
    pub(super) signals: String,
}

/// Writing into a String cannot fail, so the results of `writeln!` below carry no information.
pub(super) fn plain_xml(network: &Network) -> Result<PlainXml, SumoError> {
    let ends = Ends::of(network);
    let lights = light_of_each_node(network, &ends)?;
    Ok(PlainXml {
        nodes: nodes(network, &ends, &lights),
        edges: edges(network, &ends),
        connections: connections(network),
        signals: signals(network),
    })
}

/// The nodes at which links begin and end; links joined by a turn share one.
struct Ends {
    start: Vec<usize>,
    end: Vec<usize>,
    /// By node, the mean of the link ends that meet there.
    places: Vec<Point>,
}

impl Ends {
    fn of(network: &Network) -> Self {
        let count = network.links().len();
        // Union-find over the links' starts (0..count) and ends (count..).
        let mut groups = Groups::new(2 * count);
        for turn in network.turns() {
            groups.join(count + turn.from.index(), turn.to.index());
        }
        let mut number = vec![None; 2 * count];
        let mut sums: Vec<(f64, f64, f64)> = Vec::new();
        let mut node_of = Vec::with_capacity(2 * count);
        for side in 0..2 * count {
            let shape = &network.links()[side % count].shape;
            let point = if side < count { shape.first() } else { shape.last() };
            let at = groups.of(side);
            let node = *number[at].get_or_insert_with(|| {
                sums.push((0.0, 0.0, 0.0));
                sums.len() - 1
            });
            if let Some(point) = point {
                let sum = &mut sums[node];
                *sum = (sum.0 + point.x, sum.1 + point.y, sum.2 + 1.0);
            }
            node_of.push(node);
        }
        let end = node_of.split_off(count);
        let places = sums.into_iter().map(|(x, y, n)| Point { x: x / n, y: y / n }).collect();
        Self { start: node_of, end, places }
    }
}

fn light_of_each_node(network: &Network, ends: &Ends) -> Result<Vec<Option<usize>>, SumoError> {
    let mut lights: Vec<Option<usize>> = vec![None; ends.places.len()];
    for (index, signal) in network.signals().iter().enumerate() {
        for movement in signal.movements() {
            let light = &mut lights[ends.end[movement.from.index()]];
            if let Some(other) = light.filter(|&other| other != index) {
                return Err(SumoError::TwoSignals {
                    movement: network.movement_name(movement),
                    signal: signal.name.clone(),
                    other: network.signals()[other].name.clone(),
                });
            }
            *light = Some(index);
        }
    }
    Ok(lights)
}

fn nodes(network: &Network, ends: &Ends, lights: &[Option<usize>]) -> String {
    let names = signal_names(network);
    let mut xml = String::from("<nodes>\n");
    for (node, place) in ends.places.iter().enumerate() {
        let kind = match lights[node] {
            Some(signal) => format!("type=\"traffic_light\" tl=\"{}\"", names[signal]),
            None => "type=\"priority\"".to_owned(),
        };
        let _ = writeln!(
            xml,
            "  <node id=\"n{node}\" x=\"{:.2}\" y=\"{:.2}\" {kind}/>",
            place.x, place.y
        );
    }
    for (link, point) in stubs(network) {
        let _ = writeln!(
            xml,
            "  <node id=\"out{}\" x=\"{:.2}\" y=\"{:.2}\" type=\"dead_end\"/>",
            link.0, point.x, point.y
        );
    }
    xml + "</nodes>\n"
}

fn edges(network: &Network, ends: &Ends) -> String {
    let names = edge_names(network);
    let mut xml = String::from("<edges>\n");
    for (index, link) in network.links().iter().enumerate() {
        let _ = writeln!(
            xml,
            "  <edge id=\"{}\" from=\"n{}\" to=\"n{}\" priority=\"{}\" numLanes=\"{}\" speed=\"{}\" \
             length=\"{}\" spreadType=\"center\" shape=\"{}\"/>",
            names[index],
            ends.start[index],
            ends.end[index],
            link.lanes,
            link.lanes,
            link.speed.get(),
            (link.length - link.junction).get(),
            shape(&link.shape)
        );
    }
    for (id, _) in stubs(network) {
        let link = network.link(id);
        let _ = writeln!(
            xml,
            "  <edge id=\"{}{OUTSIDE}\" from=\"n{}\" to=\"out{}\" priority=\"{}\" numLanes=\"{}\" \
             speed=\"{}\" length=\"{STUB}\" spreadType=\"center\"/>",
            names[id.index()],
            ends.end[id.index()],
            id.0,
            link.lanes,
            link.lanes,
            link.speed.get()
        );
    }
    xml + "</edges>\n"
}

fn connections(network: &Network) -> String {
    let names = edge_names(network);
    let mut xml = String::from("<connections>\n");
    for turn in network.turns() {
        let movement = Movement { from: turn.from, to: Some(turn.to) };
        let free = network.signal_of(movement).is_none();
        let length = network.link(turn.to).junction.get();
        for pair in &turn.lanes {
            let _ = write!(
                xml,
                "  <connection from=\"{}\" to=\"{}\" fromLane=\"{}\" toLane=\"{}\"",
                names[turn.from.index()],
                names[turn.to.index()],
                pair.from,
                pair.to
            );
            if length > 0.0 {
                let _ = write!(xml, " length=\"{length}\"");
            }
            if free {
                let _ = write!(xml, " uncontrolled=\"true\"");
            }
            let _ = writeln!(xml, "/>");
        }
    }
    for (id, _) in stubs(network) {
        let name = &names[id.index()];
        for lane in 0..network.link(id).lanes {
            let _ = writeln!(
                xml,
                "  <connection from=\"{name}\" to=\"{name}{OUTSIDE}\" fromLane=\"{lane}\" \
                 toLane=\"{lane}\"/>"
            );
        }
    }
    xml + "</connections>\n"
}

fn signals(network: &Network) -> String {
    let edges = edge_names(network);
    let names = signal_names(network);
    let mut xml = String::from("<tlLogics>\n");
    for (signal, name) in network.signals().iter().zip(&names) {
        let heads = heads(network, signal);
        let _ = writeln!(
            xml,
            "  <tlLogic id=\"{name}\" type=\"static\" programID=\"0\" offset=\"{}\">",
            signal.offset.get()
        );
        for phase in &signal.phases {
            let state: String = heads.iter().map(|head| aspect(network, phase, head)).collect();
            let duration = phase.duration.get();
            let _ = writeln!(xml, "    <phase duration=\"{duration}\" state=\"{state}\"/>");
        }
        let _ = writeln!(xml, "  </tlLogic>");
    }
    for (signal, name) in network.signals().iter().zip(&names) {
        for (index, head) in heads(network, signal).iter().enumerate() {
            let from = &edges[head.movement.from.index()];
            let to = match head.movement.to {
                Some(to) => edges[to.index()].clone(),
                None => format!("{from}{OUTSIDE}"),
            };
            let _ = writeln!(
                xml,
                "  <connection from=\"{from}\" to=\"{to}\" fromLane=\"{}\" toLane=\"{}\" \
                 tl=\"{name}\" linkIndex=\"{index}\"/>",
                head.from_lane, head.to_lane
            );
        }
    }
    xml + "</tlLogics>\n"
}

/// One lane's way through a signal.
struct SignalHead {
    movement: Movement,
    from_lane: u8,
    to_lane: u8,
}

fn heads(network: &Network, signal: &Signal) -> Vec<SignalHead> {
    let mut heads = Vec::new();
    for movement in signal.movements() {
        let mut add = |from_lane, to_lane| heads.push(SignalHead { movement, from_lane, to_lane });
        match movement.to.and_then(|to| network.turn_between(movement.from, to)) {
            Some(turn) => {
                network.turn(turn).lanes.iter().for_each(|pair| add(pair.from, pair.to));
            }
            None => (0..network.link(movement.from).lanes).for_each(|lane| add(lane, lane)),
        }
    }
    heads
}

/// `G` has right of way; `g` gives way: where two links have green into the same lane, both look.
fn aspect(network: &Network, phase: &Phase, head: &SignalHead) -> char {
    if phase.yellow.contains(&head.movement) {
        return 'y';
    }
    if !phase.green.contains(&head.movement) {
        return 'r';
    }
    let merges = phase.green.iter().any(|other| {
        let turn = other.to.and_then(|to| network.turn_between(other.from, to));
        other.from != head.movement.from
            && other.to == head.movement.to
            && turn.is_some_and(|turn| {
                network.turn(turn).lanes.iter().any(|pair| pair.to == head.to_lane)
            })
    });
    if merges { 'g' } else { 'G' }
}

/// Exits with a signal, and where the stub behind them ends.
fn stubs(network: &Network) -> Vec<(LinkId, Point)> {
    network
        .exits()
        .filter(|&from| network.signal_of(Movement { from, to: None }).is_some())
        .filter_map(|link| {
            let [.., before, last] = network.link(link).shape.as_slice() else { return None };
            let share = 1.0 + STUB / before.distance(*last).max(1.0);
            Some((link, before.towards(*last, share)))
        })
        .collect()
}

fn shape(points: &[Point]) -> String {
    let points: Vec<String> =
        points.iter().map(|point| format!("{:.2},{:.2}", point.x, point.y)).collect();
    points.join(" ")
}
