//! Bad input gets a clear error that names the file, the line and the field; nothing panics and
//! nothing is left behind.

mod common;

use std::path::{Path, PathBuf};

use common::{ok, refused, text};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file can be written");
        path
    }

    /// Imports a file that must be refused; no dataset may appear.
    fn refuse_import(&self, kind: &str, file: &Path) -> String {
        let out = self.path("out");
        let error = refused(&["import", kind, text(file), "--out", text(&out)]);
        assert!(!out.exists(), "a refused import left a folder behind");
        error
    }
}

fn dataset(folder: &Folder) -> PathBuf {
    let out = folder.path("data");
    ok(&["simulate", "--minutes", "4", "--warm-up", "1", "--out", text(&out)]);
    out
}

#[test]
fn trajectory_csv() {
    let folder = Folder::new();
    let header = "vehicle,time,link,position,speed\n";
    for (rows, expected) in [
        ("a,0,E1,5,1\na,1,E1", "line 3: found 3 fields, expected 5"),
        ("a,0,E1,5,NaN\n", "line 2: speed: found NaN, expected 0 m/s or more"),
        ("a,0,E1,5,-3\n", "line 2: speed: found -3, expected 0 m/s or more"),
        ("a,-inf,E1,5,3\n", "line 2: time: found -inf, expected 0 s to 1e11 s"),
        ("a,-1,E1,5,3\n", "line 2: time: found -1, expected 0 s to 1e11 s"),
        ("a,5,E1,5,3\na,4,E1,6,3\n", "line 3: vehicle \"a\": time: found 4, expected 5 or later"),
        ("a,5,Stadiou,5,3\n", "line 2: link: found \"Stadiou\", expected a link of network"),
        ("a,5,E1,5,3\na,5,E1,6,3\n", "line 3: vehicle \"a\": found twice at time 5"),
        ("", "found no rows"),
    ] {
        let file = folder.write("fleet.csv", format!("{header}{rows}"));
        let error = folder.refuse_import("csv", &file);
        assert!(error.contains("fleet.csv") && error.contains(expected), "{error}");
    }
    let empty = folder.write("empty.csv", "");
    assert!(folder.refuse_import("csv", &empty).contains("empty.csv: columns: found none"));
    let missing = folder.refuse_import("csv", &folder.path("missing.csv"));
    assert!(missing.contains("missing.csv: No such file"), "{missing}");
}

#[test]
fn parquet_that_is_cut_off() {
    let folder = Folder::new();
    let data = dataset(&folder);
    let whole = std::fs::read(data.join("trajectories.parquet")).unwrap();
    let cut = folder.write("cut.parquet", &whole[..whole.len() / 2]);
    let error = folder.refuse_import("parquet", &cut);
    assert!(error.contains("cut.parquet: not a readable Parquet file"), "{error}");
    let error = folder.refuse_import("parquet", &folder.write("empty.parquet", ""));
    assert!(error.contains("empty.parquet: not a readable Parquet file"), "{error}");
}

#[test]
fn datasets_that_were_tampered_with() {
    let folder = Folder::new();
    let data = dataset(&folder);
    let trajectories = data.join("trajectories.parquet");
    let whole = std::fs::read(&trajectories).unwrap();
    std::fs::write(&trajectories, &whole[..whole.len() - 100]).unwrap();
    let error = refused(&["features", text(&data)]);
    assert!(error.contains("trajectories.parquet: not a readable Parquet file"), "{error}");
    std::fs::write(&trajectories, whole).unwrap();

    let network = data.join("network.toml");
    let original = std::fs::read_to_string(&network).unwrap();
    std::fs::write(&network, original.replace("lanes = 5", "lanes = 6")).unwrap();
    let error = refused(&["features", text(&data)]);
    assert!(
        error.contains("network.toml: network hash: found sha256:")
            && error.contains("expected sha256:"),
        "{error}"
    );
    std::fs::write(&network, original).unwrap();
    ok(&["features", text(&data)]);

    let error = refused(&["features", text(&folder.path("nowhere"))]);
    assert!(error.contains("manifest.json: not found; is it a finished dataset?"), "{error}");
    // A second simulation does not overwrite the first.
    let error = refused(&["simulate", "--minutes", "12", "--out", text(&data)]);
    assert!(error.contains("folder is not empty, expected a new or empty one"), "{error}");
}

#[test]
fn network_files() {
    let folder = Folder::new();
    let corridor = ok(&["network", "corridor"]);
    let refuse = |content: String| {
        let file = folder.write("roads.toml", content);
        let error = refused(&["network", "check", text(&file)]);
        assert!(error.contains("roads.toml: "), "{error}");
        error
    };
    let error = refuse(corridor.replace("green = [\"E2>E3\"]", "green = [\"E2>E5\"]"));
    assert!(
        error.contains("signal `J2`: gives green to `E2>E5`, but there is no such turn"),
        "{error}"
    );
    let turn = "[[turn]]\nfrom = \"E6\"\nto = \"E7\"";
    let apart: String = corridor
        .split("\n\n")
        .filter(|part| {
            let leads_to_e7 = part.starts_with("[[turn]]") && part.contains("to = \"E7\"");
            !(leads_to_e7 || part.starts_with("[[signal]]"))
        })
        .map(|part| format!("{part}\n\n"))
        .collect();
    assert!(corridor.contains(turn) && !apart.contains(turn));
    let error = refuse(apart);
    assert!(error.contains("line 1: network: is disconnected: 16 of 17 links"), "{error}");
    let error = refuse(corridor.replacen("length = 115.0", "length = -115.0", 1));
    assert!(error.contains("link `E1`: length: found -115 m, expected more than 0 m"), "{error}");
    let error = refuse(corridor[..corridor.len() / 2].to_string());
    assert!(error.contains("TOML parse error at line"), "{error}");
    assert!(refuse(String::new()).contains("missing field `format`"));
}

#[test]
fn pneuma_files() {
    let folder = Folder::new();
    let header = "track_id; type; traveled_d; avg_speed; lat; lon; speed; lon_acc; lat_acc; time\n";
    let row = |speed: &str, times: [&str; 2]| {
        format!(
            "{header}1; Car; 48.85; 9.77; 37.9757; 23.7341; {speed}; 0.05; -0.03; {}; 37.9757; 23.7341; 4.9; 0.05; -0.03; {}; \n",
            times[0], times[1]
        )
    };
    for (content, expected) in [
        (String::new(), "found no header"),
        (header.to_string(), "found no tracks"),
        ("a; b; c\n".to_string(), "line 1: header: found `a; b; c`"),
        (row("NaN", ["0.000000", "0.040000"]), "line 2, column 7 (speed"),
        (row("-4.0", ["0.000000", "0.040000"]), "line 2, column 7 (speed"),
        (row("4.0", ["0.040000", "0.000000"]), "line 2, column 16 (time"),
        (row("4.0", ["0.000000", "0.040000"]).replace("; 0.040000; ", ""), "line 2"),
    ] {
        let file = folder.write("film.csv", &content);
        let error = folder.refuse_import("pneuma", &file);
        assert!(error.contains("film.csv: ") && error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn sumo_files() {
    let folder = Folder::new();
    let net = concat!(env!("CARGO_MANIFEST_DIR"), "/../sensing/tests/data/corridor.net.xml");
    let fcd = |vehicles: &str| {
        format!("<fcd-export>\n<timestep time=\"0.00\">\n{vehicles}\n</timestep>\n</fcd-export>\n")
    };
    let vehicle = |id: &str, lane: &str, position: &str, speed: &str| {
        format!("<vehicle id=\"{id}\" lane=\"{lane}\" pos=\"{position}\" speed=\"{speed}\"/>")
    };
    let good = vehicle("1", "E1_0", "5.0", "3.0");
    for (content, expected) in [
        (fcd(&good)[..60].to_string(), "line 3"),
        (fcd(&vehicle("1", "E1_0", "5.0", "NaN")), "line 3: vehicle speed: found"),
        (fcd(&vehicle("1", "E1_0", "5.0", "-3.0")), "line 3: vehicle speed: found"),
        (fcd(&vehicle("1", "Z9_0", "5.0", "3.0")), "line 3: vehicle lane: found `Z9_0`"),
        (fcd(&format!("{good}\n{good}")), "line 4"),
        (
            fcd(&good)
                .replace("</timestep>", "</timestep>\n<timestep time=\"-1.00\">\n</timestep>"),
            "line 5: time",
        ),
        (String::new(), "fcd.xml"),
    ] {
        let file = folder.write("fcd.xml", &content);
        let out = folder.path("out");
        let error =
            refused(&["import", "sumo", "--net", net, "--fcd", text(&file), "--out", text(&out)]);
        assert!(error.contains("fcd.xml") && error.contains(expected), "{expected}: {error}");
        assert!(!out.exists(), "a refused import left a folder behind");
    }
    let cut = std::fs::read_to_string(net).unwrap();
    let cut = folder.write("cut.net.xml", &cut[..cut.len() / 2]);
    let out = folder.path("net.toml");
    let error = refused(&["import", "sumo", "--net", text(&cut), "--out", text(&out)]);
    assert!(error.contains("cut.net.xml: line "), "{error}");
}

#[test]
fn osm_files() {
    let folder = Folder::new();
    let out = folder.path("roads.toml");
    for (content, expected) in [
        ("", "map.osm"),
        ("<osm><node id=\"1\" lat=\"x\" lon=\"2\"/></osm>", "line 1"),
        ("<osm>\n<node id=\"1\"", "line 2"),
    ] {
        let file = folder.write("map.osm", content);
        let error = refused(&["import", "osm", text(&file), "--out", text(&out)]);
        assert!(error.contains("map.osm") && error.contains(expected), "{expected}: {error}");
        assert!(!out.exists());
    }
    // Cut off in the middle, whatever the form.
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../sensing/tests/data"));
    for (name, expected) in [
        ("crossing.osm", "line "),
        ("crossing.osm.bz2", "line "),
        ("crossing.osm.pbf", "block "),
        ("crossing.plain.osm.pbf", "block "),
    ] {
        let whole = std::fs::read(data.join(name)).unwrap();
        let file = folder.write(name, &whole[..whole.len() / 2]);
        let error = refused(&["import", "osm", text(&file), "--out", text(&out)]);
        assert!(error.contains(&format!("{name}: {expected}")), "{error}");
        assert!(!out.exists());
        let file = folder.write(name, &whole);
        let error =
            refused(&["import", "osm", text(&file), "--targets", "Elm", "--out", text(&out)]);
        assert!(error.contains("targets: found `Elm`, expected a link of `crossing"), "{error}");
    }
}

#[test]
fn sumo_scenarios() {
    let folder = Folder::new();
    let net = concat!(env!("CARGO_MANIFEST_DIR"), "/../sensing/tests/data/small.net.xml");
    let out = folder.path("out");
    let with = |inner: &str| format!("<configuration>{inner}</configuration>");
    let net_file = format!("<net-file value=\"{net}\"/>");
    folder.write("bad.add.xml", "<additional>\n<tlLogic id=\"J\" offset=\"x\"/></additional>");
    folder.write("loop.add.xml", "<a>\n<e1Detector id=\"l\" lane=\"Z_0\" pos=\"3\"/></a>");
    folder.write("round.add.xml", "<a>\n<include href=\"round.add.xml\"/></a>");
    let additional = |file: &str| with(&format!("{net_file}<additional-files value=\"{file}\"/>"));
    for (content, expected) in [
        (String::new(), "a.sumocfg: the file is empty, expected configuration"),
        (with(""), "a.sumocfg: line 1: net-file: found nothing, expected the name of a net"),
        (with("<net-file value=\"none.xml\"/>"), "none.xml: line 1: No such file"),
        (format!("<configuration>{net_file}"), "a.sumocfg: line 1: the file ends too early"),
        (additional("none.add.xml"), "none.add.xml: line 1: No such file"),
        (
            additional("bad.add.xml"),
            "bad.add.xml: line 2: tlLogic offset: found `x`, expected a number",
        ),
        (
            additional("loop.add.xml"),
            "loop.add.xml: line 2: e1Detector lane: found `Z_0`, expected a lane",
        ),
        (
            additional("round.add.xml"),
            "include href: found another file, expected at most 16 files",
        ),
    ] {
        let file = folder.write("a.sumocfg", &content);
        let error = refused(&["simulate", "--sumocfg", text(&file), "--out", text(&out)]);
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!out.exists());
    }
}

#[test]
fn changes_of_networks() {
    let folder = Folder::new();
    let data = dataset(&folder);
    let network = data.join("network.toml");
    let before = std::fs::read_to_string(&network).unwrap();
    let other = folder.write("other.toml", before.replacen("lanes = 5", "lanes = 6", 1));
    let net = concat!(env!("CARGO_MANIFEST_DIR"), "/../sensing/tests/data/small.net.xml");
    let programs = folder.write("p.add.xml", "<additional/>");
    for (arguments, expected) in [
        (vec!["--targets", "Z"], "targets: found `Z`, expected a link of `"),
        (vec!["--loops", "E2@9999"], "loops: found `E2@9999`, expected metres along the link"),
        (vec!["--loops", "0%"], "loops: found `0%`, expected a share above 0%"),
        (vec!["--from", text(&other)], "other.toml: found other links or turns, expected those of"),
        (
            vec!["--net", net, "--additional", text(&programs)],
            "small.net.xml: found other links or turns, expected those of",
        ),
        (vec!["--out", "x.toml"], "out: found with a dataset"),
    ] {
        let error = refused(&[&["network", "edit", text(&data)], &arguments[..]].concat());
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(std::fs::read_to_string(&network).unwrap(), before);
    }
    let nowhere = folder.path("nowhere");
    let error = refused(&["network", "edit", text(&nowhere), "--targets", "E3"]);
    assert!(error.contains("nowhere: No such file"), "{error}");
}

/// A network that was changed by hand is refused by all that read the dataset; changed by the command it
/// is accepted by all.
#[test]
fn a_dataset_and_its_network_stay_together() {
    let folder = Folder::new();
    let data = folder.path("data");
    ok(&["simulate", "--minutes", "30", "--warm-up", "1", "--out", text(&data)]);
    let features = ["features", text(&data), "--rates", "40"];
    let model = folder.path("model");
    let train = |out: &Path| {
        let (data, out) = (text(&data).to_owned(), text(out).to_owned());
        let fixed = ["--method", "oracle", "--rate", "40", "--target", "raw", "--epochs", "1"]
            .map(String::from);
        [vec!["train".into(), "--data".into(), data], fixed.to_vec(), vec!["--out".into(), out]]
            .concat()
    };
    let train_at = |name: &str| train(&folder.path(name));
    let estimates = folder.path("estimates.csv");
    let estimate =
        ["estimate", "--model", text(&model), "--data", text(&data), "--out", text(&estimates)];
    let run = |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ok(&arguments)
    };
    ok(&features);
    run(&train(&model));
    ok(&estimate);

    let network = data.join("network.toml");
    let original = std::fs::read_to_string(&network).unwrap();
    let targets = original.lines().find(|line| line.starts_with("targets = ")).unwrap();
    for changed in [
        original.replace("lanes = 5", "lanes = 6"),
        original.replace(targets, "targets = [\"E3\"]"),
        original.replacen("name = \"L1\"", "name = \"L9\"", 1),
    ] {
        assert_ne!(changed, original);
        std::fs::write(&network, changed).unwrap();
        let train = train_at("refused");
        let train: Vec<&str> = train.iter().map(String::as_str).collect();
        for arguments in [&features[..], &train, &estimate, &["inspect", text(&data)]] {
            let error = refused(arguments);
            let expected = "as when the data were made; loops, targets and signals are changed by `fedtse network edit`";
            assert!(error.contains("network.toml: network hash: found sha256:"), "{error}");
            assert!(error.contains(expected), "{error}");
        }
    }
    std::fs::write(&network, &original).unwrap();

    // Targets and signals leave the features as they are.
    ok(&["network", "edit", text(&data), "--targets", "E3,E4"]);
    run(&train_at("targets"));
    ok(&estimate);
    let edited = folder.path("edited.toml");
    let text_of = std::fs::read_to_string(&network).unwrap();
    std::fs::write(&edited, text_of.replacen("duration = ", "duration = 1", 1)).unwrap();
    ok(&["network", "edit", text(&data), "--from", text(&edited)]);
    run(&train_at("signals"));
    // Other loops make other features.
    let said = ok(&["network", "edit", text(&data), "--loops", "E2@5"]);
    assert!(said.contains("features deleted, since they count at the loops"), "{said}");
    let train = train_at("loops");
    let train: Vec<&str> = train.iter().map(String::as_str).collect();
    let error = refused(&train);
    assert!(error.contains("features/manifest.json: not found"), "{error}");
    ok(&features);
    ok(&train);
    let (model, out) = (folder.path("loops"), folder.path("again.csv"));
    ok(&["estimate", "--model", text(&model), "--data", text(&data), "--out", text(&out)]);
}

#[test]
fn arguments_out_of_range() {
    let folder = Folder::new();
    let data = dataset(&folder);
    for (arguments, expected) in [
        (
            vec!["features", text(&data), "--rates", "120"],
            "--rates: found 120, expected percentages",
        ),
        (vec!["features", text(&data), "--guests", "60,60"], "fleet shares: found a sum of 1.2"),
        (
            vec!["features", text(&data), "--step", "0"],
            "data: features: step: found 0 s, expected 0.001 s or more\n",
        ),
        (vec!["features", text(&data), "--cells", "0"], "cells: found 0, expected 1 to 100"),
        (vec!["features", text(&data), "--from", "1e9"], "no complete step of 10 s"),
        (
            vec!["inspect", text(&data), "--plot", text(folder.0.path()), "--along", "E1,X"],
            "--along: found \"X\"",
        ),
        (vec!["simulate", "--minutes", "5", "--out", "never"], "--warm-up: found 10"),
        (vec!["simulate", "--step", "3", "--out", "never"], "step: found 3 s"),
    ] {
        let error = refused(&arguments);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    assert!(!Path::new("never").exists());
}

/// A dataset as imported, without features, is taken; what cannot be is told before anything is trained.
#[test]
fn up_checks_basemap_alarms_and_loops_before_it_trains() {
    let folder = Folder::new();
    let data = dataset(&folder);
    let out = folder.path("up");
    let up = |more: &[&str]| {
        let mut words = vec!["up", "--http", "127.0.0.1:0"];
        words.extend(["--data", text(&data), "--folder", text(&out)]);
        words.extend(more);
        let error = refused(&words);
        assert!(!out.join("city").exists(), "{more:?}: parties were made");
        error
    };
    let other = folder.write("town.pmtiles", "something else");
    for (more, expected) in [
        (["--tiles", "missing.pmtiles"], "readers.tiles: missing.pmtiles: "),
        (["--tiles", text(&other)], "expected a PMTiles file of version 3"),
        (["--tiles", "https://a.example/{z}/{x}/{y}.png"], "found no --attribution"),
        (["--alarm", "density >> 3"], "alarms.rules: found \"density >> 3\""),
        (["--alarm", "density > 3 on nowhere"], "found link \"nowhere\""),
        (["--webhook", "https://a.example/"], "alarms.webhook: found \"https://a.example/\""),
    ] {
        let error = up(&more);
        assert!(error.contains(expected), "{error}");
    }
    assert!(data.join("features/manifest.json").exists(), "features of guests were made");
    let network = std::fs::read_to_string(data.join("network.toml")).expect("the network");
    let parts: Vec<&str> = network.split("\n[[").collect();
    let without: Vec<&str> = parts.into_iter().filter(|part| !part.starts_with("loop]]")).collect();
    let without = folder.write("without.toml", without.join("\n[["));
    ok(&["network", "edit", text(&data), "--from", text(&without)]);
    let error = up(&["--method", "hf"]);
    assert!(error.contains("found no loops in the network"), "{error}");
}
