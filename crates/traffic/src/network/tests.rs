use proptest::prelude::*;

use super::*;
use crate::signal::Phase;
use crate::units::Seconds;

fn link(name: &str, lanes: u8) -> Link {
    Link {
        name: name.into(),
        length: Metres::new(100.0),
        junction: Metres::new(10.0),
        lanes,
        speed: MetresPerSecond::new(10.0),
        shape: vec![[0.0, 0.0].into(), [100.0, 0.0].into()],
    }
}

fn turn(from: u32, to: u32) -> Turn {
    Turn { from: LinkId(from), to: LinkId(to), lanes: vec![LanePair { from: 0, to: 0 }] }
}

fn movement(from: u32, to: Option<u32>) -> Movement {
    Movement { from: LinkId(from), to: to.map(LinkId) }
}

fn signal(name: &str, green: Vec<Movement>) -> Signal {
    let phase = Phase { duration: Seconds::new(30.0), green, yellow: Vec::new() };
    Signal { name: name.into(), offset: Seconds::ZERO, phases: vec![phase] }
}

fn detector(name: &str, link: u32, position: f64) -> LoopDetector {
    LoopDetector { name: name.into(), link: LinkId(link), position: Metres::new(position) }
}

/// A diamond with a tail: `a` leads to `b` and `c`, both lead to `d`, which leads to `e`.
///
/// ```text
///       ┌ b ┐
///   a ──┤   ├── d ── e
///       └ c ┘
/// ```
fn diamond() -> NetworkParts {
    NetworkParts {
        links: ["a", "b", "c", "d", "e"].map(|name| link(name, 2)).into(),
        turns: vec![turn(0, 1), turn(0, 2), turn(1, 3), turn(2, 3), turn(3, 4)],
        ..NetworkParts::default()
    }
}

fn refusal(change: impl FnOnce(&mut NetworkParts)) -> (NetworkPart, String) {
    let mut parts = diamond();
    change(&mut parts);
    let NetworkError { part, problem } = Network::new(parts).unwrap_err();
    (part, problem)
}

fn link_refusal(change: impl FnOnce(&mut Link)) -> String {
    let (part, problem) = refusal(|parts| change(&mut parts.links[1]));
    assert!(matches!(part, NetworkPart::Link(1, _)), "{part}");
    problem
}

#[test]
fn links_are_indexed_by_name_and_by_their_turns() {
    let network = Network::new(diamond()).unwrap();
    let ids = |turns: &[TurnId]| turns.iter().map(|turn| turn.index()).collect::<Vec<_>>();
    assert_eq!(network.link_named("d"), Some(LinkId(3)));
    assert_eq!(network.link_named("f"), None);
    assert_eq!(network.entries().collect::<Vec<_>>(), [LinkId(0)]);
    assert_eq!(network.exits().collect::<Vec<_>>(), [LinkId(4)]);
    assert_eq!(ids(network.outgoing(LinkId(0))), [0, 1]);
    assert_eq!(ids(network.incoming(LinkId(3))), [2, 3]);
    assert_eq!(ids(network.incoming(LinkId(0))), [] as [usize; 0]);
    assert_eq!(network.turn_between(LinkId(2), LinkId(3)), Some(TurnId(3)));
    assert_eq!(network.turn_between(LinkId(3), LinkId(2)), None, "turns have a direction");
    // A number that is no link's is answered, not a panic: importers ask with what they read.
    assert_eq!(network.turn_between(LinkId(99), LinkId(0)), None);
    assert_eq!(network.plane(), None);
    assert_eq!(network.clone().into_parts(), diamond());
}

#[test]
fn every_link_is_a_target_unless_some_are_named() {
    let all = Network::new(diamond()).unwrap();
    assert_eq!(all.targets(), (0..5).map(LinkId).collect::<Vec<_>>());
    let targets = vec![LinkId(3), LinkId(1)];
    let some = Network::new(NetworkParts { targets: targets.clone(), ..diamond() }).unwrap();
    assert_eq!(some.targets(), targets, "in the order given");
}

#[test]
fn one_link_without_turns_is_a_network() {
    let parts = NetworkParts { links: vec![link("only", 1)], ..NetworkParts::default() };
    let network = Network::new(parts).unwrap();
    assert_eq!(network.entries().collect::<Vec<_>>(), [LinkId(0)]);
    assert_eq!(network.exits().collect::<Vec<_>>(), [LinkId(0)]);
    assert_eq!(network.path(LinkId(0), LinkId(0), 0), Some(vec![LinkId(0)]));
}

#[test]
fn a_path_is_the_shortest_within_the_turns_allowed() {
    let network = Network::new(diamond()).unwrap();
    let path = |from, to, most| network.path(LinkId(from), LinkId(to), most);
    let links = |ids: &[u32]| Some(ids.iter().copied().map(LinkId).collect::<Vec<_>>());
    assert_eq!(path(2, 2, 0), links(&[2]));
    // Both branches have three links: the turn given first wins.
    assert_eq!(path(0, 3, 2), links(&[0, 1, 3]));
    assert_eq!(path(0, 3, 1), None, "two turns are needed");
    assert_eq!(path(0, 4, usize::MAX), links(&[0, 1, 3, 4]));
    assert_eq!(path(4, 0, 10), None, "there is no way back");
    assert_eq!(path(1, 2, 10), None, "the branches do not meet upstream");
    // A shortcut is taken.
    let mut parts = diamond();
    parts.turns.push(turn(0, 3));
    let network = Network::new(parts).unwrap();
    assert_eq!(network.path(LinkId(0), LinkId(4), 5), links(&[0, 3, 4]));
}

#[test]
fn a_path_ends_on_a_circle() {
    let mut parts = diamond();
    parts.turns.push(turn(4, 0));
    let network = Network::new(parts).unwrap();
    assert_eq!(network.entries().count(), 0);
    let around = network.path(LinkId(3), LinkId(1), 3).unwrap();
    assert_eq!(around, [3, 4, 0, 1].map(LinkId));
    assert_eq!(network.path(LinkId(3), LinkId(3), 3), Some(vec![LinkId(3)]), "not once around");
}

#[test]
fn a_position_lies_on_the_drawing_by_its_share_of_the_length() {
    // The drawing is 200 m long, the link 100 m: half way is at the corner all the same.
    let mut bent = link("bent", 3);
    bent.shape = [[0.0, 0.0], [100.0, 0.0], [100.0, 100.0]].map(Point::from).into();
    assert_eq!(bent.point_at(Metres::new(50.0)), Point { x: 100.0, y: 0.0 });
    assert_eq!(bent.point_at(Metres::new(75.0)), Point { x: 100.0, y: 50.0 });
    assert_eq!(bent.point_at(Metres::new(-5.0)), Point { x: 0.0, y: 0.0 });
    assert_eq!(bent.point_at(Metres::new(500.0)), Point { x: 100.0, y: 100.0 });
    assert_eq!(bent.lane_length(), Metres::new(300.0));
}

#[test]
fn a_signal_is_found_by_what_it_governs() {
    let governed = [movement(3, Some(4)), movement(4, None)];
    let parts = NetworkParts { signals: vec![signal("J", governed.into())], ..diamond() };
    let network = Network::new(parts).unwrap();
    for movement in governed {
        assert_eq!(network.signal_of(movement).map(|signal| signal.name.as_str()), Some("J"));
    }
    assert_eq!(network.signal_of(movement(0, Some(1))), None);
    assert_eq!(network.movement_name(governed[0]), "d>e");
    assert_eq!(network.movement_name(governed[1]), "e>");
}

#[test]
fn links_that_are_none_are_refused() {
    for name in ["", "a>b", "a\"b", "a\nb"] {
        assert_eq!(
            link_refusal(|link| link.name = name.into()),
            "name: expected some text without `>`, `\"` and line breaks"
        );
    }
    for (length, found) in [(0.0, "0"), (-1.0, "-1"), (f64::INFINITY, "inf")] {
        assert_eq!(
            link_refusal(|link| link.length = Metres::new(length)),
            format!("length: found {found} m, expected more than 0 m")
        );
    }
    for (junction, found) in [(-0.5, "-0.5"), (100.0, "100"), (f64::NAN, "NaN")] {
        assert_eq!(
            link_refusal(|link| link.junction = Metres::new(junction)),
            format!(
                "junction: found {found} m, expected 0 m or more and less than the length 100 m"
            )
        );
    }
    assert_eq!(link_refusal(|link| link.lanes = 0), "lanes: found 0, expected at least 1");
    assert_eq!(
        link_refusal(|link| link.speed = MetresPerSecond::ZERO),
        "speed: found 0 m/s, expected more than 0 m/s"
    );
    assert_eq!(
        link_refusal(|link| link.shape.truncate(1)),
        "shape: found 1 points, expected 2 or more"
    );
    assert_eq!(
        link_refusal(|link| link.shape[1].y = f64::INFINITY),
        "shape: found a coordinate that is not a number"
    );
    let (part, problem) = refusal(|parts| parts.links[3].name = "b".into());
    assert_eq!(part, NetworkPart::Link(3, "b".into()));
    assert_eq!(problem, "name is used twice, expected unique names");
}

#[test]
fn networks_without_links_or_in_pieces_are_refused() {
    let none = Network::new(NetworkParts::default()).unwrap_err();
    assert_eq!(none.to_string(), "network: has 0 links, expected 1 to 1000000");
    let (part, problem) = refusal(|parts| parts.turns.truncate(4));
    assert_eq!(part, NetworkPart::Whole);
    assert_eq!(problem, "is disconnected: 4 of 5 links hang together with `a`, but not `e`");
}

#[test]
fn an_origin_that_is_no_place_is_refused() {
    for origin in [(f64::NAN, 0.0), (0.0, f64::INFINITY)] {
        let (part, problem) =
            refusal(|parts| parts.origin = Some(LatLon { lat: origin.0, lon: origin.1 }));
        assert_eq!(part, NetworkPart::Whole);
        assert_eq!(
            problem,
            format!("origin: found {}, {}, expected two numbers", origin.0, origin.1)
        );
    }
}

#[test]
fn turns_that_are_none_are_refused() {
    for (changed, title, expected) in [
        (turn(0, 9), "a>?", "names a link that does not exist"),
        (turn(9, 0), "?>a", "names a link that does not exist"),
        (turn(2, 2), "c>c", "leads a link into itself"),
        (turn(1, 3), "b>d", "is given twice"),
    ] {
        let (part, problem) = refusal(|parts| parts.turns.push(changed));
        assert_eq!((part, problem.as_str()), (NetworkPart::Turn(5, title.into()), expected));
    }
    let (_, problem) = refusal(|parts| parts.turns[0].lanes.clear());
    assert_eq!(problem, "lanes: found none, expected at least one pair [from, to]");
    for pair in [[2, 0], [0, 2]] {
        let (_, problem) = refusal(|parts| parts.turns[0].lanes.push(pair.into()));
        assert_eq!(
            problem,
            format!(
                "lanes: found [{}, {}], expected a lane below 2 of `a` and below 2 of `b`",
                pair[0], pair[1]
            )
        );
    }
}

#[test]
fn signals_that_are_none_are_refused() {
    let refusal = |signals: Vec<Signal>| {
        let last = signals.len() - 1;
        let name = signals[last].name.clone();
        let (part, problem) = refusal(|parts| parts.signals = signals);
        assert_eq!(part, NetworkPart::Signal(last, name));
        problem
    };
    let plain = || signal("J", vec![movement(0, Some(1))]);
    assert_eq!(
        refusal(vec![plain(), signal("J", Vec::new())]),
        "name is used twice, expected unique names"
    );
    assert_eq!(
        refusal(vec![Signal { offset: Seconds::new(f64::NAN), ..plain() }]),
        "offset: found NaN s, expected a number"
    );
    assert_eq!(
        refusal(vec![Signal { phases: Vec::new(), ..plain() }]),
        "has no phases, expected at least one"
    );
    for duration in [0.0, -3.0, f64::INFINITY, f64::NAN] {
        let mut wrong = plain();
        wrong.phases[0].duration = Seconds::new(duration);
        assert_eq!(
            refusal(vec![wrong]),
            format!("phase duration: found {duration} s, expected more than 0 s")
        );
    }
    assert_eq!(
        refusal(vec![plain(), signal("K", vec![movement(0, Some(1))])]),
        "governs `a>b`, which signal `J` governs already"
    );
    assert_eq!(
        refusal(vec![signal("J", vec![movement(9, None)])]),
        "names a link that does not exist"
    );
    assert_eq!(
        refusal(vec![signal("J", vec![movement(1, Some(2))])]),
        "gives green to `b>c`, but there is no such turn"
    );
    assert_eq!(
        refusal(vec![signal("J", vec![movement(0, None)])]),
        "gives green to `a>`, but the link is no exit"
    );
    // What has only yellow is governed too.
    let mut yellow = signal("J", Vec::new());
    yellow.phases[0].yellow.push(movement(0, None));
    assert_eq!(refusal(vec![yellow]), "gives green to `a>`, but the link is no exit");
}

#[test]
fn loops_and_targets_that_are_none_are_refused() {
    let (part, problem) = refusal(|parts| parts.loops.push(detector("L", 9, 1.0)));
    assert_eq!(part, NetworkPart::Loop(0, "L".into()));
    assert_eq!(problem, "lies on a link that does not exist");
    let (part, problem) = refusal(|parts| {
        parts.loops = vec![detector("L", 0, 1.0), detector("L", 1, 1.0)];
    });
    assert_eq!(part, NetworkPart::Loop(1, "L".into()));
    assert_eq!(problem, "name is used twice, expected unique names");
    // Loops lie within the link or on its stop line, not on its start, which is the last link's end.
    for position in [0.0, 100.000_1, f64::NAN] {
        let (_, problem) = refusal(|parts| parts.loops.push(detector("L", 0, position)));
        assert_eq!(
            problem,
            format!(
                "position: found {position} m, expected more than 0 m and at most 100 m (link `a`)"
            )
        );
    }
    let ends = NetworkParts { loops: vec![detector("L", 0, 100.0)], ..diamond() };
    assert_eq!(Network::new(ends).unwrap().loops().len(), 1);
    for targets in [vec![LinkId(1), LinkId(5)], vec![LinkId(1), LinkId(1)]] {
        let (part, problem) = refusal(|parts| parts.targets = targets);
        assert_eq!(part, NetworkPart::Target(1));
        assert_eq!(part.to_string(), "target number 2");
        assert_eq!(problem, "expected the name of a link, each once");
    }
}

proptest! {
    /// In any connected graph, a path's links follow each other, it is as short as breadth-first
    /// search by layers says, and one turn fewer does not suffice.
    #[test]
    fn paths_are_chains_of_least_length(
        count in 2usize..9,
        extra in prop::collection::vec((0u32..9, 0u32..9), 0..12),
        from in 0u32..9,
        to in 0u32..9,
    ) {
        let names: Vec<String> = (0..count).map(|index| index.to_string()).collect();
        // A chain connects them; the others are drawn.
        let mut turns: Vec<Turn> = (1..count as u32).map(|to| turn(to - 1, to)).collect();
        for (from, to) in extra {
            let (from, to) = (from % count as u32, to % count as u32);
            if from != to && !turns.iter().any(|t| (t.from.0, t.to.0) == (from, to)) {
                turns.push(turn(from, to));
            }
        }
        let parts = NetworkParts {
            links: names.iter().map(|name| link(name, 1)).collect(),
            turns,
            ..NetworkParts::default()
        };
        let network = Network::new(parts).unwrap();
        let (from, to) = (LinkId(from % count as u32), LinkId(to % count as u32));
        // Layers: all links that some number of turns lead to.
        let mut layer = vec![from];
        let mut distance = None;
        for turns in 0..=count {
            if layer.contains(&to) {
                distance = Some(turns);
                break;
            }
            layer = layer
                .iter()
                .flat_map(|&link| network.outgoing(link).iter().map(|&turn| network.turn(turn).to))
                .collect();
            layer.sort();
            layer.dedup();
        }
        let path = network.path(from, to, count);
        prop_assert_eq!(path.as_ref().map(|path| path.len() - 1), distance);
        if let Some(path) = path {
            prop_assert_eq!((path[0], path[path.len() - 1]), (from, to));
            for pair in path.windows(2) {
                let turn = network.turn(network.turn_between(pair[0], pair[1]).unwrap());
                prop_assert_eq!((turn.from, turn.to), (pair[0], pair[1]));
            }
            if path.len() > 1 {
                prop_assert_eq!(network.path(from, to, path.len() - 2), None);
            }
        }
    }
}
