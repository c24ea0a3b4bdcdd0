use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use sensing::sumo::{OUTSIDE, XmlFile};
use traffic::{
    GridPlan, LinkId, Metres, Movement, Network, Phase, Signal, VehicleClass, VehicleId, grid,
};

use super::plain::plain_xml;
use super::trips::{write_loops, write_trips};
use super::*;
use crate::departure::{Departure, Stop};

/// All elements of a name, with the attributes asked for.
fn rows<const N: usize>(
    xml: &str,
    root: &'static str,
    element: &str,
    fields: [&str; N],
) -> Vec<[String; N]> {
    let bytes = Box::new(Cursor::new(xml.as_bytes().to_vec()));
    let mut file = XmlFile::from_reader(Path::new("written.xml"), bytes, root).unwrap();
    let mut rows = Vec::new();
    while let Some(found) = file.next_element().unwrap() {
        if found.name() == element.as_bytes() {
            rows.push(
                fields.map(|field| found.find(field).unwrap().unwrap_or_default().to_owned()),
            );
        }
    }
    rows
}

#[test]
fn edges_and_connections_add_up_to_the_links() {
    let corridor = traffic::corridor().unwrap();
    let plain = plain_xml(&corridor).unwrap();
    let edges = rows(&plain.edges, "edges", "edge", ["id", "length", "numLanes", "speed"]);
    for link in corridor.links() {
        let [_, length, lanes, speed] = edges.iter().find(|[id, ..]| *id == link.name).unwrap();
        assert_eq!(length.parse::<f64>().unwrap(), (link.length - link.junction).get());
        assert_eq!(lanes.parse::<u8>().unwrap(), link.lanes);
        assert_eq!(speed.parse::<f64>().unwrap(), link.speed.get());
    }
    let connections =
        rows(&plain.connections, "connections", "connection", ["from", "to", "fromLane", "length"]);
    let pairs: usize = corridor.turns().iter().map(|turn| turn.lanes.len()).sum();
    // E7 ends at a signal: a stub with as many lanes lies behind it, and it is the only one.
    assert_eq!(edges.len(), 18);
    assert_eq!(connections.len(), pairs + 4);
    for [from, to, _, length] in &connections {
        match corridor.link_named(to) {
            Some(to) => {
                assert_eq!(length.parse::<f64>().unwrap(), corridor.link(to).junction.get());
            }
            None => assert_eq!(*to, format!("{from}{OUTSIDE}")),
        }
    }
}

#[test]
fn links_joined_by_turns_share_a_node_and_others_do_not() {
    let city = grid(GridPlan { rows: 2, columns: 3, ..GridPlan::default() }).unwrap();
    let plain = plain_xml(&city).unwrap();
    let edges = rows(&plain.edges, "edges", "edge", ["id", "from", "to"]);
    let ends = |link: LinkId| &edges[link.index()];
    for turn in city.turns() {
        assert_eq!(ends(turn.from)[2], ends(turn.to)[1]);
    }
    // 6 junctions; each of the 10 streets out of the rim has a node where one enters and another
    // where one leaves, since nothing joins the two.
    assert_eq!(rows(&plain.nodes, "nodes", "node", ["id"]).len(), 6 + 20);
    let lights = rows(&plain.nodes, "nodes", "node", ["tl"]);
    assert_eq!(lights.iter().filter(|[light]| !light.is_empty()).count(), 6);
}

#[test]
fn phases_have_a_letter_for_every_head() {
    let corridor = traffic::corridor().unwrap();
    let xml = plain_xml(&corridor).unwrap().signals;
    let heads = rows(&xml, "tlLogics", "connection", ["tl", "linkIndex"]);
    let states = rows(&xml, "tlLogics", "phase", ["state", "duration"]);
    let mut phase = 0;
    for signal in corridor.signals() {
        let count = heads.iter().filter(|[light, _]| *light == signal.name).count();
        for expected in &signal.phases {
            let [state, duration] = &states[phase];
            assert_eq!(state.len(), count, "{}", signal.name);
            assert_eq!(duration.parse::<f64>().unwrap(), expected.duration.get());
            assert_eq!(state.contains('G'), !expected.green.is_empty());
            assert_eq!(state.contains('y'), !expected.yellow.is_empty());
            phase += 1;
        }
    }
    assert_eq!(phase, states.len());
}

#[test]
fn two_greens_into_one_lane_give_way() {
    let mut parts = traffic::corridor().unwrap().into_parts();
    let id = |name: &str| LinkId(parts.links.iter().position(|l| l.name == name).unwrap() as u32);
    let movement = |from, to| Movement { from: id(from), to: Some(id(to)) };
    let (straight, side) = (movement("E2", "E3"), movement("on_R2", "E3"));
    let signal = parts.signals.iter_mut().find(|signal| signal.name == "J2").unwrap();
    signal.phases[0].green = vec![straight, side];
    let network = Network::new(parts).unwrap();
    let xml = plain_xml(&network).unwrap().signals;
    let all = rows(&xml, "tlLogics", "phase", ["state"]);
    // E2>E3 has five lanes and on_R2 joins the left-most of them.
    assert!(all.iter().any(|[state]| state.starts_with("GGGGgg")), "{all:?}");
}

#[test]
fn two_signals_at_one_junction_are_refused() {
    let mut parts = traffic::corridor().unwrap().into_parts();
    let on_r1 = parts.links.iter().position(|link| link.name == "on_R1").unwrap() as u32;
    let first = parts.signals.iter_mut().find(|signal| signal.name == "J1").unwrap();
    let mine = |movement: &Movement| movement.from == LinkId(on_r1);
    let movements: Vec<Movement> = first.movements().into_iter().filter(mine).collect();
    for phase in &mut first.phases {
        phase.green.retain(|movement| !mine(movement));
        phase.yellow.retain(|movement| !mine(movement));
    }
    let phases = vec![Phase { duration: Seconds::new(90.0), green: movements, yellow: Vec::new() }];
    parts.signals.push(Signal { name: "extra".into(), offset: Seconds::ZERO, phases });
    let error = plain_xml(&Network::new(parts).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("signal `extra` governs `on_R1>"), "{error}");
}

#[test]
fn a_departure_is_written_with_its_stop_and_the_stub_behind_its_exit() {
    let corridor = traffic::corridor().unwrap();
    let link = |name| corridor.link_named(name).unwrap();
    let departure = Departure {
        time: Seconds::new(12.34),
        vehicle: VehicleId(7),
        class: VehicleClass::Bus,
        route: Arc::from([link("E6"), link("E7")]),
        stop: Some(Stop {
            link: link("E7"),
            lane: 1,
            position: Metres::new(90.0),
            duration: Seconds::new(300.0),
        }),
    };
    let mut written = Vec::new();
    write_trips(&corridor, std::iter::once(departure), &mut written).unwrap();
    let xml = String::from_utf8(written).unwrap();
    let vehicle = rows(&xml, "routes", "vehicle", ["id", "type", "depart"]);
    assert_eq!(vehicle, [["7", "bus", "12.34"]]);
    assert_eq!(rows(&xml, "routes", "route", ["edges"]), [[format!("E6 E7 E7{OUTSIDE}")]]);
    // E7 begins 15 m into the junction.
    let stop = rows(&xml, "routes", "stop", ["lane", "endPos", "duration"]);
    assert_eq!(stop, [["E7_1", "75.00", "300"]]);
    let types = rows(&xml, "routes", "vType", ["id", "length", "tau"]);
    assert!(types.contains(&["bus".into(), "12".into(), "1.1".into()]), "{types:?}");
}

#[test]
fn no_departures_make_an_empty_list_of_all_types() {
    let corridor = traffic::corridor().unwrap();
    let mut written = Vec::new();
    write_trips(&corridor, std::iter::empty(), &mut written).unwrap();
    let xml = String::from_utf8(written).unwrap();
    assert_eq!(rows(&xml, "routes", "vehicle", ["id"]), [] as [[String; 1]; 0]);
    let names: Vec<String> =
        rows(&xml, "routes", "vType", ["id"]).into_iter().map(|[name]| name).collect();
    assert_eq!(names, ["car", "taxi", "motorcycle", "bus", "medium", "heavy"]);
    for [gap, deceleration] in rows(&xml, "routes", "vType", ["minGap", "decel"]) {
        assert_eq!(deceleration, "4.5");
        assert!((1.5..=2.5).contains(&gap.parse::<f64>().unwrap()), "{gap}");
    }
}

/// A stop in the junction, and one right behind it: SUMO's lane begins behind the junction and its stops are 5 m long.
#[test]
fn stops_near_the_junction_begin_where_the_edge_does() {
    let corridor = traffic::corridor().unwrap();
    let e7 = corridor.link_named("E7").unwrap();
    let written = |position: f64| {
        let departure = Departure {
            time: Seconds::ZERO,
            vehicle: VehicleId(0),
            class: VehicleClass::Car,
            route: Arc::from([e7]),
            stop: Some(Stop {
                link: e7,
                lane: 0,
                position: Metres::new(position),
                duration: Seconds::new(1.5),
            }),
        };
        let mut written = Vec::new();
        write_trips(&corridor, std::iter::once(departure), &mut written).unwrap();
        let xml = String::from_utf8(written).unwrap();
        let [stop] = rows(&xml, "routes", "stop", ["startPos", "endPos", "duration"])
            .try_into()
            .unwrap_or_else(|_| panic!("one stop: {xml}"));
        stop
    };
    assert_eq!(written(18.0), ["0.00", "3.00", "1.5"]);
    assert_eq!(written(25.25), ["5.25", "10.25", "1.5"]);
    // In the junction: 1 m is as near as it gets.
    assert_eq!(written(3.0), ["0.00", "1.00", "1.5"]);
}

#[test]
fn every_lane_of_a_loop_has_a_detector() {
    let corridor = traffic::corridor().unwrap();
    let mut written = Vec::new();
    write_loops(&corridor, Seconds::new(10.0), "loops.xml", &mut written).unwrap();
    let xml = String::from_utf8(written).unwrap();
    let detectors = rows(&xml, "additional", "inductionLoop", ["id", "lane", "pos", "period"]);
    assert_eq!(detectors.len(), 5 + 4);
    assert_eq!(detectors[0], ["L1_0", "E1_0", "95.00", "10"]);
    assert_eq!(detectors[8], ["L5_3", "E5_3", "60.00", "10"]);
}
