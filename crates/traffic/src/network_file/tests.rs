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
    // The hash of the whole file does change.
    assert_ne!(network_file_hash(&host), network_file_hash(&parse_network(SMALL).unwrap()));
    let longer = SMALL.replacen("100.0", "100.5", 1);
    assert_ne!(network_hash(&parse_network(&longer).unwrap()), plain);
    assert!(plain.starts_with("sha256:") && plain.len() == 7 + 64);
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
    let unknown = refusal(&SMALL.replace("lanes = 1", "lanes = 1\nlenght = 3"));
    assert!(unknown.contains("line 13") && unknown.contains("unknown field `lenght`"), "{unknown}");
    assert!(refusal("").contains("missing field `format`"));
}

proptest! {
    /// Any text gives a network or an error, never a panic.
    #[test]
    fn any_text_is_read_or_refused(at in 0usize..300, garbage in "\\PC{0,20}") {
        let mut text = SMALL.to_string();
        let at = (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.insert_str(at, &garbage);
        let _ = parse_network(&text);
    }
}
