use proptest::prelude::*;

use super::*;
use crate::{GridPlan, corridor, grid, network_file_hash, network_hash};

const SMALL: &str = r#"format = "fedtse-network/1"
[[link]]
name = "a"
length = 100.0
lanes = 2
speed = 10.0
shape = [[0, 0], [100, 0]]
[[link]]
name = "b"
length = 100.0
junction = 10.0
lanes = 1
speed = 10.0
shape = [[100, 0], [200, 0]]
[[turn]]
from = "a"
to = "b"
"#;

fn refusal(text: &str) -> String {
    parse_network(text).unwrap_err().to_string()
}

#[test]
fn a_written_network_reads_back_equal() {
    for network in [corridor().unwrap(), grid(GridPlan::default()).unwrap()] {
        let again = parse_network(&write_network(&network)).unwrap();
        assert_eq!(again, network);
        assert_eq!(network_hash(&again), network_hash(&network));
    }
}

#[test]
fn lanes_left_out_are_spread() {
    let network = parse_network(SMALL).unwrap();
    assert_eq!(network.turns()[0].lanes, [[0, 0], [1, 0]].map(LanePair::from));
}

#[test]
fn the_hash_is_of_the_roads_alone() {
    let plain = network_hash(&parse_network(SMALL).unwrap());
    let host = format!(
        "# a comment\n{SMALL}[[loop]]\nname = \"L\"\nlink = \"a\"\nposition = 50.0\n[[signal]]\nname = \"J\"\n[[signal.phase]]\nduration = 90.0\ngreen = [\"a>b\"]\n"
    );
    let host = parse_network(&host).unwrap();
    assert_eq!(network_hash(&host), plain);
}

/// Each field that parties must agree on gives the hash another value when it changes, and no two
/// changes the same; the host's own fields change the hash of the whole file alone.
#[test]
fn every_field_is_in_the_hash_that_covers_it() {
    let small = parse_network(SMALL).unwrap();
    let changed = |change: fn(&mut NetworkParts)| {
        let mut parts = small.parts().clone();
        change(&mut parts);
        let network = Network::new(parts).unwrap();
        (network_hash(&network), network_file_hash(&network))
    };
    let shared: [fn(&mut NetworkParts); 13] = [
        |_| (),
        |parts| parts.origin = Some(LatLon { lat: 0.0, lon: 0.0 }),
        |parts| parts.origin = Some(LatLon { lat: 0.0, lon: 1.0 }),
        |parts| parts.links[0].name = "A".into(),
        |parts| parts.links[0].length = Metres::new(100.5),
        |parts| parts.links[1].junction = Metres::new(10.5),
        |parts| parts.links[1].lanes = 3,
        |parts| parts.links[1].speed = MetresPerSecond::new(10.5),
        |parts| parts.links[0].shape[1].x += 1.0,
        |parts| parts.links[0].shape[1].y += 1.0,
        |parts| parts.links[0].shape.push([100.0, 1.0].into()),
        |parts| parts.turns[0].lanes.truncate(1),
        |parts| {
            let Turn { from, to, .. } = parts.turns[0];
            parts.turns.push(Turn { from: to, to: from, lanes: spread_lanes(1, 1) });
        },
    ];
    let hashes: Vec<_> = shared.into_iter().map(changed).collect();
    let distinct = |hashes: Vec<&String>| {
        let count = hashes.len();
        assert_eq!(hashes.iter().collect::<std::collections::HashSet<_>>().len(), count);
        for hash in hashes {
            let digits = hash.strip_prefix("sha256:").unwrap();
            assert!(digits.len() == 64 && digits.bytes().all(|b| b"0123456789abcdef".contains(&b)));
        }
    };
    distinct(hashes.iter().map(|(roads, _)| roads).collect());

    let own: [fn(&mut NetworkParts); 5] = [
        |_| (),
        |parts| parts.name = "title".into(),
        |parts| parts.targets.push(LinkId(1)),
        |parts| {
            let position = Metres::new(50.0);
            parts.loops.push(LoopDetector { name: "L".into(), link: LinkId(0), position });
        },
        |parts| {
            let green = vec![Movement { from: LinkId(0), to: Some(LinkId(1)) }];
            let phases = vec![Phase { duration: Seconds::new(9.0), green, yellow: Vec::new() }];
            parts.signals.push(Signal { name: "J".into(), offset: Seconds::ZERO, phases });
        },
    ];
    let own: Vec<_> = own.into_iter().map(changed).collect();
    assert!(own.iter().all(|(roads, _)| *roads == hashes[0].0));
    distinct(own.iter().map(|(_, file)| file).collect());
}

/// Zero has two forms, of which a file may have either.
#[test]
fn negative_zero_hashes_like_zero() {
    let negative = SMALL.replace("[[0, 0]", "[[-0.0, -0.0]");
    let (zero, negative) = (parse_network(SMALL).unwrap(), parse_network(&negative).unwrap());
    assert_eq!(network_hash(&negative), network_hash(&zero));
}

/// Golden: a changed hash would make every stored dataset refuse its network.
#[test]
fn the_hash_of_a_known_network_stays() {
    assert_eq!(
        network_hash(&parse_network(SMALL).unwrap()),
        "sha256:c6a19e39d0d1ec1863f89f1633240f31a28a69a9cad8fd4f7d6c42192c9227dc"
    );
}

#[test]
fn errors_name_line_field_found_and_expected() {
    let signal = "[[signal]]\nname = \"J\"\n[[signal.phase]]\nduration = 90.0\n";
    for (text, expected) in [
        (
            SMALL.replace("network/1", "network/9"),
            "line 1: format: found \"fedtse-network/9\", expected \"fedtse-network/1\"",
        ),
        (
            SMALL.replacen("100.0", "-5.0", 1),
            "line 3: link `a`: length: found -5 m, expected more than 0 m",
        ),
        (
            SMALL.replacen("100.0", "nan", 1),
            "line 3: link `a`: length: found NaN m, expected more than 0 m",
        ),
        (
            SMALL.replace("lanes = 1", "lanes = 0"),
            "line 9: link `b`: lanes: found 0, expected at least 1",
        ),
        (
            SMALL.replace("\"b\"", "\"a\""),
            "line 9: link `a`: name is used twice, expected unique names",
        ),
        (
            SMALL.replace("to = \"b\"", "to = \"c\""),
            "line 17: turn.to: found `c`, expected the name of a link of this file",
        ),
        (
            format!("{SMALL}lanes = [[2, 0]]\n"),
            "line 16: turn `a>b`: lanes: found [2, 0], expected a lane below 2 of `a` and below 1 of `b`",
        ),
        (
            SMALL.replace("[[turn]]\nfrom = \"a\"\nto = \"b\"\n", ""),
            "line 1: network: is disconnected: 1 of 2 links hang together with `a`, but not `b`",
        ),
        (
            format!("{SMALL}{signal}green = [\"b>a\"]\n"),
            "line 19: signal `J`: gives green to `b>a`, but there is no such turn",
        ),
        (
            format!("{SMALL}{signal}green = [\"a>\"]\n"),
            "line 19: signal `J`: gives green to `a>`, but the link is no exit",
        ),
        (
            format!("{SMALL}[[loop]]\nname = \"L\"\nlink = \"a\"\nposition = 200.0\n"),
            "line 19: loop `L`: position: found 200 m, expected more than 0 m and at most 100 m (link `a`)",
        ),
    ] {
        assert_eq!(refusal(&text), expected);
    }
    for (added, expected) in [
        (
            "[[turn]]\nfrom = \"x\"\nto = \"a\"\n",
            "line 19: turn.from: found `x`, expected the name of a link of this file",
        ),
        ("[[turn]]\nfrom = \"b\"\nto = \"b\"\n", "line 19: turn `b>b`: leads a link into itself"),
        (
            "[[loop]]\nname = \"L\"\nlink = \"x\"\nposition = 1.0\n",
            "line 20: loop.link: found `x`, expected the name of a link of this file",
        ),
        ("[[signal]]\nname = \"J\"\n", "line 19: signal `J`: has no phases, expected at least one"),
        (
            "[[signal]]\nname = \"J\"\n[[signal.phase]]\nduration = 9.0\ngreen = [\"x>b\"]\n",
            "line 22: signal.phase.green: found `x`, expected the name of a link of this file",
        ),
        (
            "[[signal]]\nname = \"J\"\n[[signal.phase]]\nduration = 9.0\nyellow = [\"a>x\"]\n",
            "line 22: signal.phase.yellow: found `x`, expected the name of a link of this file",
        ),
        // Without an arrow it is the way out of the network, which `a` has not.
        (
            "[[signal]]\nname = \"J\"\n[[signal.phase]]\nduration = 9.0\nyellow = [\"a\"]\n",
            "line 19: signal `J`: gives green to `a>`, but the link is no exit",
        ),
    ] {
        assert_eq!(refusal(&format!("{SMALL}{added}")), expected);
    }
    for (targets, expected) in [
        ("\"x\"", "line 2: targets: found `x`, expected the name of a link of this file"),
        ("\"b\",\n\"b\"", "line 3: target number 2: expected the name of a link, each once"),
    ] {
        let text = SMALL.replacen('\n', &format!("\ntargets = [{targets}]\n"), 1);
        assert_eq!(refusal(&text), expected);
    }
    let unknown = refusal(&SMALL.replace("lanes = 1", "lanes = 1\nlenght = 3"));
    assert!(unknown.contains("line 13") && unknown.contains("unknown field `lenght`"), "{unknown}");
    assert!(refusal("").contains("missing field `format`"));
}

#[test]
fn lanes_left_over_join_the_last_one() {
    let pairs =
        |from, to| spread_lanes(from, to).into_iter().map(<[u8; 2]>::from).collect::<Vec<_>>();
    assert_eq!(pairs(1, 1), [[0, 0]]);
    assert_eq!(pairs(2, 4), [[0, 0], [1, 1], [1, 2], [1, 3]]);
    assert_eq!(pairs(4, 2), [[0, 0], [1, 1], [2, 1], [3, 1]]);
    assert_eq!(pairs(0, 0), [] as [[u8; 2]; 0]);
    assert_eq!(pairs(255, 1).len(), 255);
}

#[test]
fn what_a_file_leaves_out_has_its_stated_meaning() {
    let network = parse_network(SMALL).unwrap();
    assert_eq!(network.name(), "");
    assert_eq!(network.parts().origin, None);
    assert_eq!(network.link(LinkId(0)).junction, Metres::ZERO);
    assert_eq!((network.signals().len(), network.loops().len()), (0, 0));
    let signal = "[[signal]]\nname = \"J\"\n[[signal.phase]]\nduration = 9.0\ngreen = [\"b>\"]\n";
    let network = parse_network(&format!("{SMALL}{signal}")).unwrap();
    let signal = &network.signals()[0];
    assert_eq!(signal.offset, Seconds::ZERO);
    assert_eq!(signal.phases[0].green, [Movement { from: LinkId(1), to: None }]);
    assert_eq!(signal.phases[0].yellow, []);
}

proptest! {
    /// Names of any letters and numbers of any size are read back as they were written.
    #[test]
    fn any_network_reads_back_equal(
        title in "\\PC{0,12}",
        names in prop::collection::hash_set("[^>\"\n]{1,8}", 2),
        own in "[^\u{0}]{0,8}",
        numbers in prop::collection::vec(1e-6..1e9_f64, 8),
        (lat, lon) in (-90.0..90.0_f64, -180.0..180.0_f64),
        lanes in (1u8..=255, 1u8..=255),
    ) {
        let link = |name: String, at: usize, lanes| Link {
            name,
            length: Metres::new(numbers[at]),
            junction: Metres::new(numbers[at] * 0.1),
            lanes,
            speed: MetresPerSecond::new(numbers[at + 1]),
            shape: vec![[-numbers[at + 2], 0.0].into(), [1e-300, numbers[at + 3]].into()],
        };
        let mut names = names.into_iter();
        let (first, second) = (names.next().unwrap(), names.next().unwrap());
        let through = Movement { from: LinkId(0), to: Some(LinkId(1)) };
        let out = Movement { from: LinkId(1), to: None };
        let parts = NetworkParts {
            name: title,
            origin: Some(LatLon { lat, lon }),
            links: vec![link(first, 0, lanes.0), link(second, 4, lanes.1)],
            turns: vec![Turn {
                from: LinkId(0),
                to: LinkId(1),
                lanes: spread_lanes(lanes.0, lanes.1),
            }],
            signals: vec![Signal {
                name: own.clone(),
                offset: Seconds::new(-numbers[2]),
                phases: vec![
                    Phase { duration: Seconds::new(numbers[3]), green: vec![through, out], yellow: vec![] },
                    Phase { duration: Seconds::new(numbers[4]), green: vec![], yellow: vec![out] },
                ],
            }],
            loops: vec![LoopDetector {
                name: own,
                link: LinkId(1),
                position: Metres::new(numbers[4]),
            }],
            targets: vec![LinkId(1)],
        };
        let network = Network::new(parts).unwrap();
        let text = write_network(&network);
        let again = parse_network(&text).unwrap();
        prop_assert_eq!(&again, &network);
        prop_assert_eq!(write_network(&again), text);
    }

    /// Any text gives a network or an error, never a panic.
    #[test]
    fn any_text_is_read_or_refused(at in 0usize..300, garbage in "\\PC{0,20}") {
        let mut text = SMALL.to_string();
        let at = (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.insert_str(at, &garbage);
        let _ = parse_network(&text);
    }
}
