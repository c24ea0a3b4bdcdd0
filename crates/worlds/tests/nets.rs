//! Every road net that SUMO loads becomes a network: those of SUMO's wheel, those that `netgenerate` makes, those that
//! `netconvert` makes of OpenStreetMap and of plain files; each is compared with what its file says, read here once more.
//!
//! Needs SUMO: with `FEDTSE_REQUIRE_SUMO=1` its absence is a failure, without it the tests say that they did nothing.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for tests here"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use sensing::sumo::{ImportOptions, ImportedNet, SumoConfig, XmlFile, import_net};
use traffic::{
    Network, PositionSource, Seconds, network_file_hash, network_hash, parse_network, write_network,
};
use worlds::{ScenarioRun, SumoTools};

/// SUMO, if it is installed or must be.
fn tools() -> Option<SumoTools> {
    match SumoTools::find(None) {
        Ok(tools) => Some(tools),
        Err(error) if std::env::var_os("FEDTSE_REQUIRE_SUMO").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("nothing tested: {error}");
            None
        }
    }
}

/// SUMO's folder of tools, which holds scenarios.
fn scenarios(tools: &SumoTools) -> PathBuf {
    let home = tools.sumo().parent().unwrap().parent().unwrap();
    let of_wheels = std::fs::read_dir(home.join("lib")).into_iter().flatten().flatten();
    let of_wheels = of_wheels.map(|python| python.path().join("site-packages/sumo/tools"));
    let found = of_wheels.chain([home.join("tools")]).find(|tools| tools.join("game").exists());
    found.expect("SUMO's wheel has its tools")
}

fn files_below(folder: &Path, ends: &[&str], into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, ends, into);
        } else if ends.iter().any(|end| path.to_str().is_some_and(|path| path.ends_with(end))) {
            into.push(path);
        }
    }
    into.sort();
}

fn run(tools: &SumoTools, program: &str, arguments: &[&str], folder: &Path) {
    let program = tools.sumo().with_file_name(program);
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A lane: its length, its speed, and whether passenger cars may use it.
type Lane = (f64, f64, bool);

/// What a net file says, read without the importer.
#[derive(Default)]
struct Said {
    /// Roads by name.
    edges: BTreeMap<String, Vec<Lane>>,
    /// Connections between lanes of roads.
    connections: Vec<(String, usize, String, usize)>,
    /// Programs of lights as they are loaded: the light and the length of the cycle.
    programs: Vec<(String, f64)>,
    /// Whether programs are switched by the clock.
    by_clock: bool,
}

impl Said {
    fn read(net: &Path, additional: &[PathBuf]) -> Self {
        let mut said = Self::default();
        let mut road = None::<String>;
        for (at, path) in
            std::iter::once(net).chain(additional.iter().map(PathBuf::as_path)).enumerate()
        {
            let root = if at == 0 { "net" } else { root_of(path) };
            let mut xml = XmlFile::open(path, root).unwrap();
            while let Some(element) = xml.next_element().unwrap() {
                let get = |name: &str| element.find(name).unwrap().map(str::to_owned);
                let number = |name: &str| get(name).unwrap().parse::<f64>().unwrap();
                match element.name() {
                    b"edge" if at == 0 => {
                        let id = get("id").unwrap();
                        let normal = get("function")
                            .is_none_or(|kind| kind == "normal" || kind == "connector");
                        road = (normal && !id.starts_with(':')).then_some(id);
                        said.edges.extend(road.clone().map(|road| (road, Vec::new())));
                    }
                    b"lane" if at == 0 => {
                        let Some(lanes) = road.as_ref().and_then(|road| said.edges.get_mut(road))
                        else {
                            continue;
                        };
                        let allow = get("allow").filter(|classes| !classes.is_empty());
                        let lists = |classes: String| {
                            classes.split(' ').any(|class| class == "passenger" || class == "all")
                        };
                        let open = match allow {
                            Some(classes) => lists(classes),
                            None => !get("disallow").is_some_and(lists),
                        };
                        lanes.push((number("length"), number("speed"), open));
                    }
                    b"connection" if at == 0 => {
                        let lane = |name| number(name) as usize;
                        let (from, to) = (get("from").unwrap(), get("to").unwrap());
                        said.connections.push((from, lane("fromLane"), to, lane("toLane")));
                    }
                    b"tlLogic" => said.programs.push((get("id").unwrap(), 0.0)),
                    b"phase" => said.programs.last_mut().unwrap().1 += number("duration"),
                    b"WAUT" => said.by_clock = true,
                    _ => {}
                }
            }
        }
        said
    }

    fn open(&self, edge: &str, lane: usize) -> bool {
        self.edges.get(edge).is_some_and(|lanes| lanes.get(lane).is_some_and(|lane| lane.2))
    }

    /// Pairs of roads that a car can drive one after the other.
    fn turns(&self) -> BTreeSet<(&str, &str)> {
        let open = self.connections.iter().filter(|(from, from_lane, to, to_lane)| {
            from != to && self.open(from, *from_lane) && self.open(to, *to_lane)
        });
        open.map(|(from, _, to, _)| (from.as_str(), to.as_str())).collect()
    }

    /// The parts of the net for cars that hang together, each as its roads.
    fn parts(&self) -> Vec<BTreeSet<&str>> {
        let mut beside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (from, to) in self.turns() {
            beside.entry(from).or_default().push(to);
            beside.entry(to).or_default().push(from);
        }
        let drivable = self.edges.iter().filter(|(_, lanes)| lanes.iter().any(|lane| lane.2));
        let mut left: BTreeSet<&str> = drivable.map(|(edge, _)| edge.as_str()).collect();
        let mut parts = Vec::new();
        while let Some(first) = left.pop_first() {
            let (mut part, mut next) = (BTreeSet::from([first]), vec![first]);
            while let Some(edge) = next.pop() {
                for &other in beside.get(edge).into_iter().flatten() {
                    if left.remove(other) {
                        part.insert(other);
                        next.push(other);
                    }
                }
            }
            parts.push(part);
        }
        parts
    }

    /// Compares a network with the file that it was made of.
    fn check(&self, network: &Network, net: &Path) {
        let name = net.display();
        let links: BTreeSet<&str> = network.links().iter().map(|link| link.name.as_str()).collect();
        assert_eq!(links.len(), network.links().len(), "{name}: a link twice");
        let parts = self.parts();
        let largest = parts.iter().map(BTreeSet::len).max();
        assert_eq!(Some(links.len()), largest, "{name}: roads of the largest part");
        assert!(parts.contains(&links), "{name}: links are one part");
        for link in network.links() {
            let open: Vec<&Lane> = self.edges[&link.name].iter().filter(|lane| lane.2).collect();
            let mean = open.iter().map(|lane| lane.0).sum::<f64>() / open.len() as f64;
            let speed = open.iter().map(|lane| lane.1).fold(0.0, f64::max);
            assert_eq!(usize::from(link.lanes), open.len(), "{name}: lanes of {}", link.name);
            assert_eq!(link.speed.get(), speed, "{name}: speed of {}", link.name);
            // A sum and its difference again: rounding of kilometres in f64.
            let on_edge = (link.length - link.junction).get();
            assert!((on_edge - mean).abs() < 1e-9, "{name}: length of {}", link.name);
            assert!(link.junction.get() >= 0.0, "{name}: junction of {}", link.name);
        }
        let expected: BTreeSet<(&str, &str)> =
            self.turns().into_iter().filter(|(from, _)| links.contains(from)).collect();
        let title = |link| network.link(link).name.as_str();
        let turns: BTreeSet<(&str, &str)> =
            network.turns().iter().map(|turn| (title(turn.from), title(turn.to))).collect();
        assert_eq!(turns, expected, "{name}: turns");
        assert_eq!(turns.len(), network.turns().len(), "{name}: a turn twice");
        for turn in network.turns() {
            let lanes = |link| network.link(link).lanes;
            for pair in &turn.lanes {
                assert!(
                    pair.from < lanes(turn.from) && pair.to < lanes(turn.to),
                    "{name}: lanes of a turn"
                );
            }
        }
        for signal in network.signals() {
            let programs =
                self.programs.iter().filter(|(light, cycle)| *light == signal.name && *cycle > 0.0);
            let cycles: Vec<f64> = programs.map(|(_, cycle)| *cycle).collect();
            let cycle = signal.cycle().get();
            let same = |expected: &f64| (cycle - expected).abs() < 1e-9;
            // SUMO runs the program that was loaded last; by the clock it may begin with another.
            let right = if self.by_clock {
                cycles.iter().any(same)
            } else {
                cycles.last().is_some_and(same)
            };
            assert!(right, "{name}: light {}: cycle {cycle} s, programs {cycles:?}", signal.name);
        }
        let stored = parse_network(&write_network(network)).unwrap();
        assert_eq!(network_hash(&stored), network_hash(network), "{name}");
        assert_eq!(network_file_hash(&stored), network_file_hash(network), "{name}");
    }
}

/// Additional files may have any root: the first element outside comments.
fn root_of(path: &Path) -> &'static str {
    let text = std::fs::read_to_string(path).unwrap();
    let outside =
        text.split("<!--").map(|part| part.split_once("-->").map_or(part, |(_, rest)| rest));
    let text = outside.collect::<String>();
    let tags = text.split('<').skip(1);
    let mut tags = tags.filter(|tag| tag.starts_with(|first: char| first.is_ascii_alphabetic()));
    let mut root =
        tags.next().unwrap().split(|end: char| !end.is_ascii_alphanumeric() && end != '-');
    String::leak(root.next().unwrap().to_owned())
}

fn checked(net: &Path, options: &ImportOptions) -> ImportedNet {
    let imported = import_net(net, options).unwrap_or_else(|error| panic!("{error}"));
    Said::read(net, &options.additional).check(&imported.network, net);
    imported
}

/// Nets that have no road for passenger cars: two of railways, and a race track.
const WITHOUT_ROADS: [&str; 3] =
    ["rail/net.net.xml", "rail_demo/net.net.xml", "racing/spreewaldring.net.xml"];

/// A net that `netgenerate` makes: its name, arguments, and how many links and signals it must have.
type Made<'a> = (&'a str, Vec<&'a str>, Option<usize>, Option<usize>);

#[test]
fn all_nets_become_networks() {
    let Some(tools) = tools() else { return };
    let scenarios = scenarios(&tools);
    let mut nets = Vec::new();
    files_below(&scenarios, &[".net.xml", ".net.xml.gz"], &mut nets);
    assert!(nets.len() >= 28, "found {} nets", nets.len());
    for net in &nets {
        if WITHOUT_ROADS.iter().any(|end| net.ends_with(end)) {
            let error = import_net(net, &ImportOptions::default()).unwrap_err().to_string();
            assert!(error.contains("none of them for cars, expected at least one edge"), "{error}");
        } else {
            checked(net, &ImportOptions::default());
        }
    }

    let mut configs = Vec::new();
    files_below(&scenarios, &[".sumocfg"], &mut configs);
    let mut replaced = 0;
    for path in &configs {
        let config = SumoConfig::read(path).unwrap();
        if WITHOUT_ROADS.iter().any(|end| config.net.ends_with(end)) {
            continue;
        }
        let imported = checked(&config.net, &ImportOptions::of(&config));
        assert!(!config.lights_off || imported.network.signals().is_empty(), "{}", path.display());
        replaced += usize::from(imported.report.unused_programs > 0);
    }
    assert!(replaced > 0, "some scenario has programs in additional files");

    let folder = tempfile::tempdir().unwrap();
    // Grids of n × n junctions have 4 n (n - 1) roads, spiders of a arms and c circles 4 a c; the lights are those
    // of all junctions.
    let light = ["-j", "traffic_light"];
    let walks = ["--default.sidewalk-width", "2", "--crossings.guess"];
    let grid4 = ["--grid", "--grid.number", "4"];
    let made: [Made<'_>; 27] = [
        ("grid", vec!["--grid"], Some(80), Some(0)),
        ("grid3", vec!["--grid", "--grid.number", "3"], Some(24), Some(0)),
        ("grid10", vec!["--grid", "--grid.number", "10"], Some(360), Some(0)),
        ("spider", vec!["--spider"], Some(140), Some(0)),
        (
            "spider2",
            vec!["--spider", "--spider.arm-number", "5", "--spider.circle-number", "3"],
            Some(60),
            Some(0),
        ),
        ("rand", vec!["--rand"], None, Some(0)),
        ("rand50", vec!["--rand", "--rand.iterations", "50", "--seed", "2"], None, Some(0)),
        (
            "rand500",
            vec!["--rand", "--rand.iterations", "500", "--seed", "3", "--random-lanenumber"],
            None,
            Some(0),
        ),
        ("lights", [&["--grid", "--grid.number", "4"][..], &light].concat(), Some(48), Some(16)),
        (
            "walks",
            [&["--grid", "--grid.number", "4"][..], &light, &walks].concat(),
            Some(48),
            Some(16),
        ),
        (
            "bikes",
            vec![
                "--grid",
                "--grid.number",
                "4",
                "--default.bikelane-width",
                "1.5",
                "--bikelanes.guess",
            ],
            Some(48),
            Some(0),
        ),
        (
            "turns",
            [&["--grid", "--grid.number", "4", "--turn-lanes", "1", "-L", "2"][..], &light]
                .concat(),
            None,
            Some(16),
        ),
        ("guessed", vec!["--spider", "--tls.guess"], Some(140), Some(1)),
        (
            "left",
            [&["--rand", "--rand.iterations", "60", "--lefthand", "-L", "3"][..], &light].concat(),
            None,
            None,
        ),
        (
            "actuated",
            [&["--grid", "--grid.number", "4", "--tls.default-type", "actuated"][..], &light]
                .concat(),
            Some(48),
            Some(16),
        ),
        (
            "bidi",
            vec!["--rand", "--rand.iterations", "30", "--bidi-probability", "0.3"],
            None,
            Some(0),
        ),
        // Two links with a U-turn at each end; links of a metre; dead ends all around.
        ("pair", vec!["--grid", "--grid.x-number", "1", "--grid.y-number", "2"], Some(2), Some(0)),
        ("metres", vec!["--grid", "--grid.number", "3", "--grid.length", "1"], Some(24), Some(0)),
        ("attached", vec!["--grid", "--grid.attach-length", "100"], Some(120), Some(0)),
        ("no-u-turns", [&grid4[..], &["--no-turnarounds"]].concat(), Some(48), Some(0)),
        ("no-insides", [&grid4[..], &light, &["--no-internal-links"]].concat(), Some(48), Some(16)),
        (
            "nema",
            [&grid4[..], &light, &["--tls.default-type", "NEMA"]].concat(),
            Some(48),
            Some(16),
        ),
        (
            "delays",
            [
                &grid4[..],
                &light,
                &["--tls.default-type", "delay_based", "--tls.layout", "incoming"],
            ]
            .concat(),
            Some(48),
            Some(16),
        ),
        (
            "right-on-red",
            [&grid4[..], &["-j", "traffic_light_right_on_red"]].concat(),
            Some(48),
            Some(16),
        ),
        ("stops", [&grid4[..], &["-j", "allway_stop"]].concat(), Some(48), Some(0)),
        ("zippers", [&grid4[..], &["-j", "zipper", "-L", "2"]].concat(), Some(48), Some(0)),
        ("crossings", [&grid4[..], &["-j", "rail_crossing"]].concat(), Some(48), Some(0)),
    ];
    for (name, arguments, links, signals) in made {
        let file = format!("{name}.net.xml");
        run(&tools, "netgenerate", &[&arguments[..], &["-o", &file]].concat(), folder.path());
        let network = checked(&folder.path().join(&file), &ImportOptions::default()).network;
        assert_eq!(network.links().len(), links.unwrap_or(network.links().len()), "{name}: links");
        assert_eq!(
            network.signals().len(),
            signals.unwrap_or(network.signals().len()),
            "{name}: signals"
        );
        assert!(network.links().len() >= 30 || links.is_some(), "{name}");
    }

    // Pedestrians, bicycles, bus lanes, crossings, a tram, a roundabout, a street apart.
    let town_map = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/town.osm");
    let of_map =
        ["--osm-files", town_map.to_str().unwrap(), "-o", "town.net.xml", "--tls.guess-signals"];
    let of_map = [
        &of_map[..],
        &["--tls.default-type", "actuated", "--sidewalks.guess", "--crossings.guess"],
    ];
    let more = ["--osm.sidewalks", "--osm.crossings", "--osm.bike-access", "--roundabouts.guess"];
    run(&tools, "netconvert", &[&of_map.concat()[..], &more].concat(), folder.path());
    let town = checked(&folder.path().join("town.net.xml"), &ImportOptions::default());
    assert_eq!((town.network.signals().len(), town.report.lights_made_fixed), (2, 2));
    assert_eq!(town.report.links_apart, 2);
    assert!(town.report.lanes_not_for_cars > 0 && town.report.georeferenced);

    // The same map by other options of the converter.
    let map = town_map.to_str().unwrap();
    let plain = ["--osm-files", map, "-o", "other.net.xml"];
    let others: [&[&str]; 6] = [
        &["--tls.guess", "--tls.join", "--junctions.join", "--tls.default-type", "delay_based"],
        &["--keep-edges.by-vclass", "passenger", "--geometry.remove", "--ramps.guess"],
        &[
            "--osm.turn-lanes",
            "--osm.lane-access",
            "--osm.all-attributes",
            "--output.original-names",
        ],
        &["--lefthand", "--tls.guess", "--tls.layout", "incoming"],
        &["--no-internal-links", "--offset.disable-normalization"],
        &["--simple-projection", "--flip-y-axis", "--walkingareas", "--bikelanes.guess"],
    ];
    for options in others {
        run(&tools, "netconvert", &[&plain[..], options].concat(), folder.path());
        checked(&folder.path().join("other.net.xml"), &ImportOptions::default());
    }

    // Two programs more, one in the net and one beside it; and a movement that yields to another.
    let light = &town.network.signals()[0].name;
    let text = std::fs::read_to_string(folder.path().join("town.net.xml")).unwrap();
    let program = text.split(&format!("<tlLogic id=\"{light}\"")).nth(1).unwrap();
    let heads = program.split("state=\"").nth(1).unwrap().split('"').next().unwrap().len();
    let other = |program: &str, green: u32| {
        let phase = |state: &str, seconds: u32| {
            format!("<phase duration=\"{seconds}\" state=\"{}\"/>", state.repeat(heads))
        };
        let phases = phase("G", green) + &phase("r", 11);
        format!(
            "<tlLogic id=\"{light}\" type=\"static\" programID=\"{program}\" offset=\"3\">{phases}</tlLogic>"
        )
    };
    let two = text.replace("</net>", "") + &other("night", 31) + "</net>";
    let two_programs = folder.path().join("two.net.xml");
    std::fs::write(&two_programs, two).unwrap();
    let beside = folder.path().join("day.add.xml");
    std::fs::write(&beside, format!("<additional>{}</additional>", other("day", 41))).unwrap();
    for (additional, cycle) in [(Vec::new(), 42.0), (vec![beside], 52.0)] {
        let unused = additional.len() + 1;
        let options = ImportOptions { additional, ..ImportOptions::default() };
        let imported = checked(&two_programs, &options);
        let signal =
            imported.network.signals().iter().find(|signal| signal.name == *light).unwrap();
        assert_eq!(signal.cycle(), Seconds::new(cycle));
        assert_eq!(imported.report.unused_programs, unused);
    }

    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "p.nod.xml",
        "<nodes><node id=\"J\" x=\"0\" y=\"0\"/><node id=\"a\" x=\"-100\" y=\"0\"/><node id=\"b\" x=\"100\" y=\"0\"/>\
        <node id=\"c\" x=\"0\" y=\"100\"/><node id=\"d\" x=\"0\" y=\"-100\"/></nodes>",
    );
    write(
        "p.edg.xml",
        "<edges><edge id=\"a\" from=\"a\" to=\"J\" numLanes=\"2\"/><edge id=\"b\" from=\"J\" to=\"b\" numLanes=\"2\"/>\
        <edge id=\"c\" from=\"c\" to=\"J\"/><edge id=\"d\" from=\"J\" to=\"d\"/></edges>",
    );
    write(
        "p.con.xml",
        "<connections><prohibition prohibitor=\"c->d\" prohibited=\"a->b\"/></connections>",
    );
    let plain = ["-n", "p.nod.xml", "-e", "p.edg.xml", "-x", "p.con.xml", "-o", "p.net.xml"];
    run(&tools, "netconvert", &plain, folder.path());
    assert!(std::fs::read_to_string(folder.path().join("p.net.xml")).unwrap().contains("\"c->d\""));
    assert_eq!(
        checked(&folder.path().join("p.net.xml"), &ImportOptions::default()).network.links().len(),
        4
    );
}

/// Two of the wheel's scenarios, copied: all vehicles are seen, in steps of SUMO's, and the scenario's folder is left as it
/// was, although both have outputs of their own. `bs3d` asks for a display.
#[test]
fn scenarios_are_driven_as_they_are() {
    let Some(tools) = tools() else { return };
    let game = scenarios(&tools).join("game");
    for (name, net, step) in [("square", "square", 0.1_f64), ("bs3d", "bs3d", 0.2)] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(net)).unwrap();
        for entry in std::fs::read_dir(game.join(net)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                std::fs::copy(&path, folder.path().join(net).join(path.file_name().unwrap()))
                    .unwrap();
            }
        }
        let config = format!("{name}.sumocfg");
        for file in [config.as_str(), "input_additional.add.xml"] {
            std::fs::copy(game.join(file), folder.path().join(file)).unwrap();
        }
        let files = || {
            let mut files = Vec::new();
            files_below(folder.path(), &[""], &mut files);
            files
        };
        let before = files();
        let config = SumoConfig::read(&folder.path().join(config)).unwrap();
        let net = import_net(&config.net, &ImportOptions::of(&config)).unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let end = Some(Seconds::new(40.0));
        let mut run =
            ScenarioRun::start(&tools, &config, net.edges, 1, end, temporary.path()).unwrap();
        let (mut samples, mut times, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        while let Some(time) = run.next_moment(&mut samples).unwrap() {
            times.push(time.get());
            for sample in &samples {
                let length = net.network.link(sample.link).length.get();
                assert!((0.0..=length + 1e-3).contains(&f64::from(sample.position)), "{name}");
                seen.insert(sample.vehicle);
            }
        }
        let outcome = run.finish().unwrap();
        // SUMO writes times in hundredths.
        assert!(times.windows(2).all(|pair| (pair[1] - pair[0] - step).abs() < 1e-6), "{name}");
        assert_eq!(times.len(), (40.0 / step).round() as usize, "{name}");
        assert_eq!(seen.len(), outcome.vehicles.all().len(), "{name}");
        assert!(!seen.is_empty() && seen.len() as u64 <= outcome.statistics.inserted, "{name}");
        if outcome.skipped.outside == 0 {
            assert_eq!(seen.len() as u64, outcome.statistics.inserted, "{name}");
        }
        assert_eq!(files(), before, "{name}: files of the scenario's folder");
    }
}
