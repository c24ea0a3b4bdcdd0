use std::io::Cursor;

use proptest::prelude::*;
use traffic::{Movement, Seconds};

use super::super::edges::{LanePlace, OnLink};
use super::super::xml::XmlFile;
use super::*;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn small() -> ImportedNet {
    let options = ImportOptions { additional: vec![data("small.add.xml")], ..Default::default() };
    import_net(&data("small.net.xml"), &options).unwrap()
}

fn from_text(text: &str) -> Result<ImportedNet, SumoFileError> {
    let path = Path::new("a.net.xml");
    let bytes = Box::new(Cursor::new(text.as_bytes().to_vec()));
    let mut xml = XmlFile::from_reader(path, bytes, "net")?;
    import(&SumoNet::from_xml(path, &mut xml)?, &ImportOptions::default())
}

#[test]
fn links_are_edges_with_the_mean_way_into_them() {
    let ImportedNet { network, report, .. } = small();
    let names: Vec<&str> = network.links().iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["A", "B", "D", "W"]);
    let sizes: Vec<(f64, f64, u8)> = network
        .links()
        .iter()
        .map(|link| (link.length.get(), link.junction.get(), link.lanes))
        .collect();
    // Into B lead 12, 12 and 18 m; into D 5 + 9 m.
    assert_eq!(sizes, [(100.0, 0.0, 2), (102.0, 14.0, 2), (74.0, 14.0, 1), (80.0, 0.0, 1)]);
    assert_eq!(report.edges, 7);
    assert_eq!(report.edges_not_for_cars, 1);
    assert_eq!(report.lanes_not_for_cars, 1);
    assert_eq!(report.links_apart, 2);
    assert_eq!((report.lights_made_fixed, report.unused_programs), (1, 1));
    let turns: Vec<String> = network
        .turns()
        .iter()
        .map(|turn| {
            let (from, to) = (&network.link(turn.from).name, &network.link(turn.to).name);
            let lanes: Vec<[u8; 2]> = turn.lanes.iter().map(|&pair| pair.into()).collect();
            format!("{from}>{to} {lanes:?}")
        })
        .collect();
    assert_eq!(turns, ["A>B [[0, 0], [1, 1]]", "A>D [[1, 0]]", "W>B [[0, 0]]"]);
}

#[test]
fn prohibitions_with_arrows_are_passed_over() {
    // SUMO does not escape the `>`, and XML allows it.
    let prohibition = "<prohibition prohibitor=\"A->B\" prohibited=\"W->B\"/>\n";
    let [plain, changed] = ["", prohibition].map(|lines| small_with(lines).unwrap());
    assert_eq!(plain.network, changed.network);
}

#[test]
fn lights_become_fixed_time_signals() {
    let ImportedNet { network, .. } = small();
    let [signal] = network.signals() else { panic!("one signal") };
    assert_eq!((signal.offset, signal.cycle()), (Seconds::new(5.0), Seconds::new(60.0)));
    let movement = |from: &str, to: &str| Movement {
        from: network.link_named(from).unwrap(),
        to: network.link_named(to),
    };
    let greens: Vec<Vec<Movement>> =
        signal.phases.iter().map(|phase| phase.green.clone()).collect();
    let (ab, ad, wb) = (movement("A", "B"), movement("A", "D"), movement("W", "B"));
    assert_eq!(greens, [vec![ab, ad], vec![ab], vec![], vec![wb]]);
    assert_eq!(signal.phases[1].yellow, [ad]);
    assert_eq!(signal.phases[2].yellow, [ab]);
}

#[test]
fn lanes_across_junctions_are_the_start_of_the_next_link() {
    let ImportedNet { network, edges, .. } = small();
    let place = |lane: &str| match edges.place(lane.as_bytes()) {
        Some(LanePlace::On(OnLink { link, lane, start, scale, length })) => {
            Some((network.link(link).name.as_str(), lane, start, start + scale * length))
        }
        _ => None,
    };
    assert_eq!(place("A_2"), Some(("A", 1, 0.0, 100.0)));
    assert_eq!(place("B_1"), Some(("B", 1, 14.0, 102.0)));
    // Both ways into B are stretched to its 14 m: a vehicle moves on without a jump.
    assert_eq!(place(":J_0_1"), Some(("B", 1, 0.0, 14.0)));
    assert_eq!(place(":J_3_0"), Some(("B", 0, 0.0, 14.0)));
    // The second part of A>D goes on where the first ended.
    assert_eq!(place(":J_2_0"), Some(("D", 0, 0.0, 5.0)));
    assert_eq!(place(":J_4_0"), Some(("D", 0, 5.0, 14.0)));
    for outside in ["A_0", "P_0", ":J_w0_0", "X_0"] {
        assert_eq!(edges.place(outside.as_bytes()), Some(LanePlace::Outside), "{outside}");
    }
    assert_eq!(edges.place(b"Z_0"), None);
}

#[test]
fn detectors_side_by_side_are_one_loop() {
    let ImportedNet { network, report, .. } = small();
    let loops: Vec<(&str, &str, f64)> = network
        .loops()
        .iter()
        .map(|l| (l.name.as_str(), network.link(l.link).name.as_str(), l.position.get()))
        .collect();
    assert_eq!(loops, [("a1", "A", 80.0), ("b0", "B", 14.0 + 44.0)]);
    assert_eq!(report.detectors_apart, 1);
}

#[test]
fn a_projected_net_lies_on_the_earth() {
    let ImportedNet { network, report, .. } = small();
    assert!(report.georeferenced);
    // (100, 0) of the net is UTM 34 (740100, 4206000): by the 11.6 m per 1e-4 degrees of
    // latitude near Athens, about 646 m south of the known place (740148.2, 4206646.1).
    let link = network.link(network.link_named("A").unwrap());
    let end = network.plane().unwrap().place(link.point_at(link.length));
    assert!((end.lat - (37.9757 - 646.1 / 111_000.0)).abs() < 2e-4, "{end:?}");
    assert!((end.lon - 23.7341).abs() < 1e-3, "{end:?}");
    // The plane's mean sphere is narrower than the ellipsoid by up to 0.3 % along a parallel.
    let drawn = traffic::polyline_length(&link.shape);
    assert!((drawn / 100.0 - 1.0).abs() < 4e-3, "{drawn}");
}

/// The small net with these lines before its end.
fn small_with(lines: &str) -> Result<ImportedNet, SumoFileError> {
    let text = std::fs::read_to_string(data("small.net.xml")).unwrap();
    from_text(&text.replace("</net>", &format!("{lines}</net>")))
}

/// The cycle of the small net's only signal with these additional files.
fn cycle_with(files: &[&str]) -> Option<(f64, f64)> {
    let folder = tempfile::tempdir().unwrap();
    let additional = files
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let path = folder.path().join(format!("{number}.add.xml"));
            std::fs::write(&path, format!("<additional>{text}</additional>")).unwrap();
            path
        })
        .collect();
    let net =
        import_net(&data("small.net.xml"), &ImportOptions { additional, ..Default::default() })
            .unwrap();
    let signal = net.network.signals().first()?;
    Some((signal.cycle().get(), signal.offset.get()))
}

#[test]
fn the_program_loaded_last_is_the_active_one() {
    let program = |name: &str, seconds: u32| {
        format!(
            "<tlLogic id=\"J\" type=\"static\" programID=\"{name}\" offset=\"1\">\
             <phase duration=\"{seconds}\" state=\"GGgr\"/><phase duration=\"9\" state=\"rrrG\"/></tlLogic>"
        )
    };
    let (x, y) = (program("x", 21), program("y", 41));
    assert_eq!(cycle_with(&[]), Some((60.0, 5.0)));
    assert_eq!(cycle_with(&[&x, &y]), Some((50.0, 1.0)));
    assert_eq!(cycle_with(&[&y, &x]), Some((30.0, 1.0)));
    // Without phases: another offset of a program that is known, which does not make it active.
    let later = "<tlLogic id=\"J\" programID=\"0\" offset=\"7\"/>";
    assert_eq!(cycle_with(&[later]), Some((60.0, 7.0)));
    assert_eq!(cycle_with(&[&x, later]), Some((30.0, 1.0)));
    let off = "<tlLogic id=\"J\" type=\"static\" programID=\"off\"/>";
    assert_eq!(cycle_with(&[off]), None);
    assert_eq!(cycle_with(&[off, &x]), Some((30.0, 1.0)));
    // Switched by the clock: the program that it starts with.
    let switched = "<WAUT refTime=\"0\" id=\"w\" startProg=\"x\">\
                    <wautSwitch time=\"100\" to=\"y\"/></WAUT>\
                    <wautJunction wautID=\"w\" junctionID=\"J\"/>";
    assert_eq!(cycle_with(&[&x, &y, switched]), Some((30.0, 1.0)));
    assert_eq!(cycle_with(&[&x, &y, &switched.replace("\"x\"", "\"off\"")]), None);
    // Times as SUMO reads them; a run without a configuration begins at 0.
    let timed = x.replace("\"21\"", "\"0:1:1\"").replace("\"1\"", "\"-0:0:4\"");
    assert_eq!(cycle_with(&[&timed]), Some((70.0, -4.0)));
    assert_eq!(cycle_with(&[&x.replace("\"1\"", "\"begin\"")]), Some((30.0, 0.0)));
}

/// What an additional file leaves of the small net.
fn with_additional(body: &str) -> Result<ImportedNet, SumoFileError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.add.xml");
    std::fs::write(&file, format!("<additional>{body}</additional>")).unwrap();
    let options = ImportOptions { additional: vec![file], ..Default::default() };
    import_net(&data("small.net.xml"), &options)
}

#[test]
fn what_has_no_use_is_told() {
    let program = |light: &str, state: &str| {
        format!(
            "<tlLogic id=\"{light}\" type=\"static\" programID=\"x\"><phase duration=\"9\" state=\"{state}\"/></tlLogic>"
        )
    };
    // A light that is red for all governs nobody, and the net has no other.
    let red = with_additional(&program("J", "rrrr")).unwrap();
    assert!(red.network.signals().is_empty());
    assert!(red.report.movements_never_green > 0);
    let before = small().report.lights_without_movements;
    let unknown = with_additional(&program("nowhere", "GGgr")).unwrap();
    assert_eq!(unknown.report.lights_without_movements, before + 1);
    assert_eq!(unknown.network.signals().len(), 1);
    let error = with_additional(&program("J", "G")).unwrap_err().to_string();
    assert!(error.contains("state of light J: found 1, expected "), "{error}");
    let area = "<laneAreaDetector id=\"a\" lane=\"A_0\" pos=\"1\" endPos=\"9\" freq=\"60\" file=\"o\"/>\
        <entryExitDetector id=\"e\" freq=\"60\" file=\"o\"><detEntry lane=\"A_0\" pos=\"1\"/></entryExitDetector>";
    let areas = with_additional(area).unwrap();
    assert_eq!((areas.report.detectors_not_loops, areas.network.loops().len()), (2, 0));
}

#[test]
fn an_offset_may_be_the_begin_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("p.add.xml");
    std::fs::write(
        &program,
        "<additional><tlLogic id=\"J\" programID=\"0\" offset=\"begin\"/></additional>",
    )
    .unwrap();
    let options = ImportOptions {
        additional: vec![program],
        begin: Seconds::new(17.0),
        ..Default::default()
    };
    let net = import_net(&data("small.net.xml"), &options).unwrap();
    assert_eq!(net.network.signals()[0].offset, Seconds::new(17.0));
}

#[test]
fn additional_files_may_include_others() {
    let folder = tempfile::tempdir().unwrap();
    let outer = folder.path().join("outer.xml");
    std::fs::write(&outer, "<add><include href=\"inner.xml\"/></add>").unwrap();
    let inner = "<add><instantInductionLoop id=\"i\" lane=\"W_0\" pos=\"500\" friendlyPos=\"1\" file=\"x\"/></add>";
    std::fs::write(folder.path().join("inner.xml"), inner).unwrap();
    let options = ImportOptions { additional: vec![outer.clone()], ..Default::default() };
    let network = import_net(&data("small.net.xml"), &options).unwrap().network;
    assert_eq!(network.loops()[0].position, network.link(network.link_named("W").unwrap()).length);
    std::fs::write(&outer, "<add><include href=\"outer.xml\"/></add>").unwrap();
    let error = import_net(&data("small.net.xml"), &options).unwrap_err().to_string();
    assert!(error.contains("at most 16 files within each other"), "{error}");
}

#[test]
fn a_configuration_names_net_and_additional_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sumocfg");
    let text = "<configuration><input><net-file value=\"a.net.xml\"/>\
                <additional-files value=\"b.xml, c.xml\"/></input></configuration>";
    std::fs::write(&path, text).unwrap();
    let config = super::super::SumoConfig::read(&path).unwrap();
    let beside = |name: &str| folder.path().join(name);
    assert_eq!(config.net, beside("a.net.xml"));
    assert_eq!(config.additional, [beside("b.xml"), beside("c.xml")]);
    std::fs::write(&path, "<configuration></configuration>").unwrap();
    let error = super::super::SumoConfig::read(&path).unwrap_err().to_string();
    assert!(error.contains("net-file: found nothing"), "{error}");
}

#[test]
fn connections_without_a_signal_of_their_own_are_free() {
    let text = std::fs::read_to_string(data("small.net.xml")).unwrap();
    let network = from_text(&text.replace("linkIndex=\"3\"", "linkIndex=\"-1\"")).unwrap().network;
    let free = Movement { from: network.link_named("W").unwrap(), to: network.link_named("B") };
    assert!(network.signal_of(free).is_none());
    assert_eq!(network.signals().len(), 1);
}

#[test]
fn inside_junctions_numbers_of_lanes_may_repeat() {
    let text = std::fs::read_to_string(data("small.net.xml")).unwrap();
    let repeated = text.replace("id=\":J_0_1\" index=\"1\"", "id=\":J_0_1\" index=\"0\"");
    assert_ne!(text, repeated);
    assert_eq!(from_text(&repeated).unwrap().network, from_text(&text).unwrap().network);
}

#[test]
fn dead_ends_turn_round() {
    let edge = |id: &str, way: &str| {
        format!(
            "<edge id=\"{id}\" priority=\"1\"><lane id=\"{id}_0\" index=\"0\" speed=\"9\" length=\"50\" shape=\"{way}\"/></edge>"
        )
    };
    let connection = |from: &str, to: &str| {
        format!("<connection from=\"{from}\" to=\"{to}\" fromLane=\"0\" toLane=\"0\" dir=\"t\"/>")
    };
    let net = format!(
        "<net>{}{}{}{}</net>",
        edge("ab", "0,0 50,0"),
        edge("ba", "50,0 0,0"),
        connection("ab", "ba"),
        connection("ba", "ab")
    );
    let network = from_text(&net).unwrap().network;
    assert_eq!((network.entries().count(), network.exits().count()), (0, 0));
    assert_eq!(network.turns().len(), 2);
}

#[test]
fn the_corridor_written_for_sumo_comes_back() {
    let imported = import_net(&data("corridor.net.xml"), &ImportOptions::default()).unwrap();
    let (found, expected) = (imported.network, traffic::corridor().unwrap());
    assert_eq!(found.links().len(), expected.links().len());
    for link in expected.links() {
        let twin = found.link(found.link_named(&link.name).unwrap());
        assert_eq!((twin.lanes, twin.speed), (link.lanes, link.speed), "{}", link.name);
        // SUMO writes centimetres.
        assert!((twin.length - link.length).get().abs() < 0.011, "{}", link.name);
        assert!((twin.junction - link.junction).get().abs() < 0.011, "{}", link.name);
    }
    let turns = |network: &Network| {
        let mut turns: Vec<(String, Vec<LanePair>)> = network
            .turns()
            .iter()
            .map(|turn| {
                let movement = Movement { from: turn.from, to: Some(turn.to) };
                let mut lanes = turn.lanes.clone();
                lanes.sort();
                (network.movement_name(movement), lanes)
            })
            .collect();
        turns.sort();
        turns
    };
    assert_eq!(turns(&found), turns(&expected));
    let signals = |network: &Network| {
        let names = |movements: &[Movement]| {
            let mut names: Vec<String> =
                movements.iter().map(|&movement| network.movement_name(movement)).collect();
            names.sort();
            names
        };
        let mut signals: Vec<String> = network
            .signals()
            .iter()
            .map(|signal| {
                let phases: Vec<_> = signal
                    .phases
                    .iter()
                    .map(|phase| (phase.duration, names(&phase.green), names(&phase.yellow)))
                    .collect();
                format!("{} {} {phases:?}", signal.name, signal.offset)
            })
            .collect();
        signals.sort();
        signals
    };
    assert_eq!(signals(&found), signals(&expected));
}

#[test]
fn mistakes_are_named() {
    let net = |body: &str| format!("<net>\n<edge id=\"A\">\n{body}</edge>\n</net>\n");
    let lane = "<lane id=\"A_0\" index=\"0\" speed=\"9\" length=\"50\" shape=\"0,0 50,0\"/>\n";
    assert_eq!(from_text(&net(lane)).unwrap().network.links().len(), 1);
    for (text, expected) in [
        (net(&lane.replace("\"50\"", "\"-50\"")), "a.net.xml: line 3: lane length: found `-50`"),
        (net(&lane.replace("\"50\"", "\"0\"")), "link `A`: length: found 0 m"),
        (net(&lane.replace("50,0", "50;0")), "line 3: lane shape: found 50;0"),
        (net(&lane.replace("index=\"0\"", "index=\"3\"")), "lane index: found 3, expected 0"),
        (net(&lane.replace("speed", "sped")), "lane speed: found nothing"),
        (
            net(""),
            "net: found 1 edges, none of them for cars, expected at least one edge open to passenger cars",
        ),
        (net(lane).replace("</net>", ""), "the file ends too early, expected </net>"),
        (net(&format!("{lane}</edge><edge id=\"A\">")), "edge id: found `A` twice"),
        (lane.into(), "found element `lane`, expected <net>"),
    ] {
        let error = from_text(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in "[ -~\n]{0,300}") {
        let _ = from_text(&text);
        let _ = from_text(&format!("<net>{text}</net>"));
    }

    #[test]
    fn damaged_nets_are_read_without_panic(
        cuts in prop::collection::vec((0..6000_usize, any::<u8>()), 1..6),
    ) {
        let mut bytes = std::fs::read(data("small.net.xml")).unwrap();
        for (at, byte) in cuts {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let path = Path::new("a.net.xml");
        let file = XmlFile::from_reader(path, Box::new(Cursor::new(bytes)), "net");
        let _ = file.and_then(|mut xml| {
            import(&SumoNet::from_xml(path, &mut xml)?, &ImportOptions::default())
        });
    }
}
