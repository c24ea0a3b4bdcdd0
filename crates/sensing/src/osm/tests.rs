use std::fmt::Write as _;

use proptest::prelude::*;
use traffic::MetresPerSecond;

use super::*;

const CROSSING: &str = include_str!("../../tests/data/crossing.osm");

fn import(text: &str) -> Result<OsmImport, OsmError> {
    import_osm(text.as_bytes(), "map.osm", &OsmOptions::default())
}

fn turns(network: &Network) -> Vec<String> {
    let name = |id| network.link(id).name.as_str();
    let mut turns: Vec<String> = network
        .turns()
        .iter()
        .map(|turn| format!("{}>{}", name(turn.from), name(turn.to)))
        .collect();
    turns.sort();
    turns
}

fn link_names(network: &Network) -> Vec<&str> {
    network.links().iter().map(|link| link.name.as_str()).collect()
}

/// Number, nodes and tags of a way.
type TestWay<'a> = (i64, &'a [i64], &'a [(&'a str, &'a str)]);

/// A map of nodes (metres north and east of 50° N 8° E) and ways (nodes, tags).
fn map(nodes: &[(i64, f64, f64)], ways: &[TestWay<'_>]) -> String {
    let mut text = String::from("<osm>\n");
    for (id, north, east) in nodes {
        // 111,195 m to a degree of latitude, 71,475 m to one of longitude there.
        let (lat, lon) = (50.0 + north / 111_195.0, 8.0 + east / 71_475.0);
        writeln!(text, "<node id=\"{id}\" lat=\"{lat}\" lon=\"{lon}\"/>").unwrap();
    }
    for (id, nodes, tags) in ways {
        writeln!(text, "<way id=\"{id}\">").unwrap();
        nodes.iter().for_each(|node| writeln!(text, "<nd ref=\"{node}\"/>").unwrap());
        tags.iter().for_each(|(k, v)| writeln!(text, "<tag k=\"{k}\" v=\"{v}\"/>").unwrap());
        writeln!(text, "</way>").unwrap();
    }
    text + "</osm>\n"
}

#[test]
fn the_crossing_becomes_six_links_and_five_turns() {
    let import = import(CROSSING).unwrap();
    let network = &import.network;
    assert_eq!(
        link_names(network),
        ["100_1_2", "100_2_1", "101_2_10", "104_10_2", "102_4_2", "103_2_5"]
    );
    // No left turn from the north, only straight on from the east, no turning round anywhere.
    assert_eq!(
        turns(network),
        [
            "100_1_2>101_2_10",
            "100_1_2>103_2_5",
            "102_4_2>100_2_1",
            "102_4_2>103_2_5",
            "104_10_2>100_2_1"
        ]
    );
    assert_eq!(
        import.report,
        OsmReport {
            ways: 6,
            closed_ways: 1,
            signals: 2,
            joined_pieces: 1,
            restrictions: 2,
            ignored_restrictions: 1,
            links: 6,
            dropped_links: 2,
            dropped: import.report.dropped,
            ..OsmReport::default()
        }
    );
    // Two directions of 0.001° of latitude.
    assert!((import.report.dropped.get() - 2.0 * 111.195).abs() < 0.01);
    assert!(network.signals().is_empty());
}

#[test]
fn links_have_the_lanes_speeds_and_lengths_of_their_tags() {
    let import = import(CROSSING).unwrap();
    let link = |name| import.network.link(import.network.link_named(name).unwrap());
    assert_eq!(link("100_1_2").lanes, 2);
    assert_eq!(link("101_2_10").lanes, 2);
    assert_eq!(link("104_10_2").lanes, 1);
    assert_eq!(link("100_2_1").speed, MetresPerSecond::from_kmh(60.0));
    assert!((link("103_2_5").speed.get() - 13.4112).abs() < 1e-9);
    assert_eq!(link("102_4_2").speed, MetresPerSecond::from_kmh(30.0));
    // 0.002° of longitude at 50° N is 2 × 71.474 m; the plane's scale is taken a little south of
    // it, at the middle of the map, which makes less than 0.1 %.
    assert!((link("100_1_2").length.get() - 142.95).abs() < 0.15);
    // East Street bends at node 6, where no junction is.
    assert_eq!(link("101_2_10").shape.len(), 4);
    let street = |name: &str| {
        let id = import.network.link_named(name).unwrap();
        import.streets[id.index()].as_deref()
    };
    assert_eq!(street("100_1_2"), Some("West & Central Street"));
    assert_eq!(street("102_4_2"), None);
}

#[test]
fn entries_have_no_junction_and_short_links_a_short_one() {
    let import = import(CROSSING).unwrap();
    let link = |name| import.network.link(import.network.link_named(name).unwrap());
    assert_eq!(link("100_1_2").junction, Metres::ZERO);
    assert_eq!(link("101_2_10").junction, Metres::new(10.0));
    let short = import_osm(
        CROSSING.as_bytes(),
        "map.osm",
        &OsmOptions { junction: Metres::new(500.0), ..OsmOptions::default() },
    )
    .unwrap();
    for link in short.network.links() {
        assert!(link.junction <= link.length * 0.25, "{}", link.name);
    }
}

#[test]
fn ways_are_cut_where_they_meet_and_nowhere_else() {
    // A long road over 1 2 3 4, a side road from 3.
    let text = map(
        &[(1, 0.0, 0.0), (2, 0.0, 50.0), (3, 0.0, 100.0), (4, 0.0, 150.0), (5, 80.0, 100.0)],
        &[
            (10, &[1, 2, 3, 4], &[("highway", "primary"), ("oneway", "yes")]),
            (11, &[3, 5], &[("highway", "residential"), ("oneway", "yes")]),
        ],
    );
    let network = import(&text).unwrap().network;
    assert_eq!(link_names(&network), ["10_1_3", "10_3_4", "11_3_5"]);
    assert_eq!(turns(&network), ["10_1_3>10_3_4", "10_1_3>11_3_5"]);
}

#[test]
fn a_roundabout_goes_one_way_round() {
    let text = map(
        &[
            (1, 20.0, 0.0),
            (2, 0.0, -20.0),
            (3, -20.0, 0.0),
            (4, 0.0, 20.0),
            (5, 100.0, 0.0),
            (6, -100.0, 0.0),
        ],
        &[
            (10, &[1, 2, 3, 4, 1], &[("highway", "primary"), ("junction", "roundabout")]),
            (11, &[5, 1], &[("highway", "primary")]),
            (12, &[3, 6], &[("highway", "primary")]),
        ],
    );
    let network = import(&text).unwrap().network;
    assert_eq!(link_names(&network), ["10_1_3", "10_3_1", "11_5_1", "11_1_5", "12_3_6", "12_6_3"]);
    assert_eq!(
        turns(&network),
        [
            "10_1_3>10_3_1",
            "10_1_3>12_3_6",
            "10_3_1>10_1_3",
            "10_3_1>11_1_5",
            "11_5_1>10_1_3",
            "12_6_3>10_3_1"
        ]
    );
}

#[test]
fn junctions_less_than_a_metre_apart_are_one() {
    // Two side roads half a metre apart on a one-way road: a crossing, as mapped in haste.
    let one_way = &[("highway", "primary"), ("oneway", "yes")][..];
    let text = map(
        &[
            (1, 0.0, 0.0),
            (2, 0.0, 100.0),
            (3, 0.0, 100.5),
            (4, 0.0, 200.0),
            (5, 90.0, 100.0),
            (6, -90.0, 100.0),
        ],
        &[(10, &[1, 2, 3, 4], one_way), (11, &[5, 2], one_way), (12, &[3, 6], one_way)],
    );
    let import = import(&text).unwrap();
    assert_eq!(import.report.short_pieces, 1);
    assert_eq!(link_names(&import.network), ["10_1_2", "10_3_4", "11_5_2", "12_3_6"]);
    assert_eq!(
        turns(&import.network),
        ["10_1_2>10_3_4", "10_1_2>12_3_6", "11_5_2>10_3_4", "11_5_2>12_3_6"]
    );
}

#[test]
fn vehicles_turn_round_at_dead_ends_only_if_told() {
    let text = map(
        &[(1, 0.0, 0.0), (2, 0.0, 100.0), (3, 0.0, 200.0), (4, 80.0, 100.0)],
        &[
            (10, &[1, 2, 3], &[("highway", "primary"), ("oneway", "yes")]),
            (11, &[2, 4], &[("highway", "residential")]),
        ],
    );
    assert!(!turns(&import(&text).unwrap().network).contains(&"11_2_4>11_4_2".into()));
    let options = OsmOptions { turn_round_at_dead_ends: true, ..OsmOptions::default() };
    let network = import_osm(text.as_bytes(), "map.osm", &options).unwrap().network;
    assert!(turns(&network).contains(&"11_2_4>11_4_2".into()));
}

#[test]
fn ways_that_leave_the_extract_end_where_it_ends() {
    let text = map(
        &[(1, 0.0, 0.0), (2, 0.0, 100.0), (3, 50.0, 100.0)],
        &[
            (10, &[1, 2, 99], &[("highway", "primary"), ("oneway", "yes")]),
            (11, &[2, 3], &[("highway", "residential"), ("oneway", "yes")]),
        ],
    );
    let import = import(&text).unwrap();
    assert_eq!(import.report.missing_nodes, 1);
    assert_eq!(link_names(&import.network), ["10_1_2", "11_2_3"]);
}

#[test]
fn bad_files_are_refused_with_their_line() {
    let refusal = |text: &str| import(text).unwrap_err().to_string();
    for (text, expected) in [
        ("", "map.osm: line 1: found no element, expected `<osm>`"),
        ("<html>\n</html>", "map.osm: line 1: found `<html>`, expected `<osm>` first"),
        ("<osm>\n<node id=\"1\"", "map.osm: line 2: "),
        (
            "<osm>\n<way id=\"1\">\n",
            "map.osm: line 3: found the end of the file, expected `</osm>`",
        ),
        (
            "<osm>\n<node id=\"x\" lat=\"1\" lon=\"2\"/></osm>",
            "map.osm: line 2: node id: found `x`, expected a number",
        ),
        (
            "<osm>\n\n<node id=\"1\" lat=\"95\" lon=\"2\"/></osm>",
            "map.osm: line 3: node lat: found 95, expected degrees from -90 to 90",
        ),
        (
            "<osm>\n<node id=\"1\" lat=\"NaN\" lon=\"2\"/></osm>",
            "map.osm: line 2: node lat: found NaN, expected degrees from -90 to 90",
        ),
        (
            "<osm>\n<node id=\"1\" lat=\"5\"/></osm>",
            "map.osm: line 2: node lon: found nothing, expected a number",
        ),
        (
            "<osm></osm>",
            "map.osm: found no roads that cars may use among 0 ways, expected at least one",
        ),
    ] {
        let found = refusal(text);
        assert!(found.starts_with(expected), "{found}");
    }
    // Roads without any node that is there: no links at all.
    let lost = map(&[], &[(1, &[5, 6], &[("highway", "primary")])]);
    assert_eq!(refusal(&lost), "map.osm: network: has 0 links, expected 1 to 1000000");
}

#[test]
fn files_are_told_by_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.osm"), CROSSING).unwrap();
    let mut packed =
        flate2::write::GzEncoder::new(File::create(path("b")).unwrap(), Default::default());
    io::Write::write_all(&mut packed, CROSSING.as_bytes()).unwrap();
    packed.finish().unwrap();
    let options = OsmOptions::default();
    assert_eq!(open_osm(path("a.osm"), &options).unwrap(), open_osm(path("b"), &options).unwrap());
    assert!(matches!(open_osm(path("none"), &options), Err(OsmError::Io { .. })));
}

fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The same map in each form in which OpenStreetMap is distributed, converted by osmium and bzip2.
#[test]
fn all_forms_of_a_map_give_the_same_network() {
    let options = OsmOptions::default();
    let expected = open_osm(data("crossing.osm"), &options).unwrap();
    for name in ["crossing.osm.bz2", "crossing.osm.pbf", "crossing.plain.osm.pbf"] {
        assert_eq!(open_osm(data(name), &options).unwrap(), expected, "{name}");
    }
}

/// The blocks of a file: where each begins.
fn blocks(bytes: &[u8]) -> Vec<usize> {
    // Length of the header, the header with the length of the data in its last field, the data.
    let mut starts = vec![0];
    loop {
        let at = starts[starts.len() - 1];
        let header = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let header = &bytes[at + 4..at + 4 + header];
        let tag = header.iter().rposition(|&byte| byte == 0x18).unwrap();
        let varint = header[tag + 1..].iter().rev();
        let length = varint.fold(0, |sum, &byte| sum << 7 | usize::from(byte & 0x7f));
        let next = at + 4 + header.len() + length;
        if next == bytes.len() {
            return starts;
        }
        starts.push(next);
    }
}

#[test]
fn bad_binary_files_are_refused_with_their_block() {
    let bytes = std::fs::read(data("crossing.plain.osm.pbf")).unwrap();
    let refusal = |bytes: &[u8]| {
        import_pbf(bytes, "map.osm.pbf", &OsmOptions::default()).unwrap_err().to_string()
    };
    let replaced = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    };
    let starts = blocks(&bytes);
    for (bytes, expected) in [
        (Vec::new(), "block 1: found the end of the file, expected an OSMHeader block"),
        (bytes[..bytes.len() - 1].to_vec(), "block 4: found "),
        (vec![0, 0, 0, 13, 10, 9], "block 1: found "),
        (vec![0, 255, 255, 255], "block 1: found a header of 16777215 bytes, expected at most"),
        (bytes[starts[1]..].to_vec(), "block 1: found data, expected an OSMHeader block first"),
        (
            replaced(b"OsmSchema-V0.6", b"OsmSchema-V0.7"),
            "block 1: required features: found `OsmSchema-V0.7`, expected no other than",
        ),
        // Members are way, node, way: 1, 0, 1 in a field of their own (10) of three bytes.
        (
            replaced(&[0x52, 3, 1, 0, 1], &[0x52, 3, 1, 0, 9]),
            "found a member of no known type, expected node, way or relation",
        ),
        // Text with bytes that no UTF-8 has.
        (replaced(b"primary", b"pri\xffary"), "expected text in UTF-8"),
    ] {
        let found = refusal(&bytes);
        assert!(found.starts_with("map.osm.pbf: ") && found.contains(expected), "{found}");
    }
}

proptest! {
    /// Any damage gives a network or an error, never a panic.
    #[test]
    fn damaged_maps_are_read_or_refused(
        at in 0usize..CROSSING.len(),
        cut in 0usize..40,
        garbage in proptest::collection::vec(any::<u8>(), 0..12),
    ) {
        let mut bytes = CROSSING.as_bytes().to_vec();
        bytes.splice(at..(at + cut).min(CROSSING.len()), garbage);
        let _ = import_osm(&bytes[..], "map.osm", &OsmOptions::default());
    }

    /// The same of the binary form.
    #[test]
    fn damaged_binary_maps_are_read_or_refused(
        changes in proptest::collection::vec((0_usize..1200, any::<u8>()), 1..6),
    ) {
        let mut bytes = std::fs::read(data("crossing.plain.osm.pbf")).unwrap();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let _ = import_pbf(&bytes[..], "map.osm.pbf", &OsmOptions::default());
    }

    /// A grid of one-way and two-way streets keeps its geometry: as many links as street sides, and
    /// every turn joins links that touch.
    #[test]
    fn turns_join_links_that_touch(rows in 2i64..5, columns in 2i64..5, one_way in any::<bool>()) {
        let id = |row: i64, column: i64| row * 10 + column;
        let mut nodes = Vec::new();
        let mut streets: Vec<Vec<i64>> = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                nodes.push((id(row, column), row as f64 * 100.0, column as f64 * 120.0));
            }
            streets.push((0..columns).map(|column| id(row, column)).collect());
        }
        streets.extend((0..columns).map(|column| (0..rows).map(|row| id(row, column)).collect()));
        let tags = [("highway", "primary"), ("oneway", if one_way { "yes" } else { "no" })];
        let ways: Vec<TestWay<'_>> =
            streets.iter().enumerate().map(|(i, nodes)| (i as i64, &nodes[..], &tags[..])).collect();
        let network = import(&map(&nodes, &ways)).unwrap().network;
        // Corners are no junctions: where only two pieces of like roads meet, they are joined.
        // One-way corners may meet head to head, which cannot be joined.
        let sides = if one_way { 1 } else { 2 };
        let all = sides * (rows * (columns - 1) + columns * (rows - 1)) as usize;
        prop_assert!(network.links().len() <= all);
        prop_assert!(network.links().len() >= all - sides * 4);
        for turn in network.turns() {
            let end = network.link(turn.from).shape.last().unwrap();
            let start = network.link(turn.to).shape.first().unwrap();
            prop_assert!(end.distance(*start) < 1e-9);
        }
    }
}
