//! The worlds of `fedtse reproduce worlds`: recipes by which anyone makes the same traffic on the same roads.
//!
//! Recipes are data (`assets/worlds/worlds.json`): a scenario of SUMO's wheel with its own demand, a net by
//! `netgenerate` or from OpenStreetMap data with generated demand, or the paper's corridor. A demand seed is the seed
//! of demand and drivers; a scenario's demand is also scaled by it. Where loops stand and which links are scored follows
//! from lengths and lanes alone. docs/worlds.md says it in full.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use sensing::osm::{OsmOptions, open_osm};
use sensing::sumo::{ImportOptions, import_net};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use traffic::{LinkId, Network};
use worlds::{Demand, SumoTools};

use crate::data::network_edits::NetworkEdits;
use crate::data::simulate::{SimulateOptions, World, simulate};

/// Links shorter than this are not scored: on a few metres a single vehicle is a jam.
const SHORTEST_TARGET: f64 = 50.0;
/// One in so many targets has a loop, and at least [`FEWEST_LOOPS`].
const TARGETS_PER_LOOP: usize = 10;
const FEWEST_LOOPS: usize = 2;
/// What a scenario's demand is multiplied by, by demand seed.
const SCALES: [f64; 3] = [1.0, 0.9, 1.1];
/// Seconds by which each departure of a scenario is put off at random, at most.
const LATEST: f64 = 30.0;
/// Seconds of SUMO's steps in scenarios.
const SUMO_STEP: f64 = 0.5;
/// Links of a route of generated demand, at most.
const LONGEST_ROUTE: usize = 12;
/// The file that says by which recipe a dataset was made, in its folder.
const FILE: &str = "world.json";

/// A world: its place in the list of recipes. It is written as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub(super) struct WorldName(usize);

/// How a world is made.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    pub name: &'static str,
    pub title: &'static str,
    /// To simulate, warm-up included.
    minutes: f64,
    warm_up: f64,
    /// Whether it is in the small version.
    #[serde(skip_serializing)]
    quick: bool,
    traffic: Traffic,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Traffic {
    /// The paper's corridor in the built-in simulator.
    Corridor {},
    /// A scenario of SUMO's wheel.
    Scenario(Scenario),
    /// A net by `netgenerate`.
    Netgenerate(Netgenerate),
    /// OpenStreetMap data that come with the program, in the built-in simulator.
    OpenStreetMap { file: String, demand: GeneratedDemand },
}

/// Files are of `tools/game` in SUMO's folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    net: String,
    routes: Vec<String>,
    #[serde(default)]
    additional: Vec<String>,
    /// Seconds.
    #[serde(default)]
    begin: f64,
    /// What its demand is multiplied by, with that of the seed; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scale: Option<f64>,
    /// Seconds after which its vehicles set out once more, where they are listed one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeat: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Netgenerate {
    options: Vec<String>,
    world: World,
    demand: GeneratedDemand,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GeneratedDemand {
    /// Vehicles an hour and lane, the mean over links and time if nobody is held up.
    flow: f64,
}

/// Data that come with the program.
const FILES: [(&str, &str); 1] = [("town.osm", include_str!("../../assets/worlds/town.osm"))];

static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    // A file of ours, which a test reads.
    serde_json::from_str(include_str!("../../assets/worlds/worlds.json")).unwrap_or_default()
});

impl TryFrom<String> for WorldName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        Self::parse(&name)
    }
}

impl From<WorldName> for &'static str {
    fn from(world: WorldName) -> Self {
        world.recipe().name
    }
}

impl std::fmt::Display for WorldName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.recipe().name)
    }
}

impl WorldName {
    /// All worlds, or those of the small version.
    pub(super) fn all(quick: bool) -> Vec<Self> {
        let worlds = (0..RECIPES.len()).map(Self);
        worlds.filter(|world| world.recipe().quick || !quick).collect()
    }

    /// Finds a world by its name.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let found = RECIPES.iter().position(|recipe| recipe.name == name);
        found.map(Self).ok_or_else(|| {
            let names: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
            format!("found `{name}`, expected one of {}", names.join(", "))
        })
    }

    pub(super) fn recipe(self) -> &'static Recipe {
        &RECIPES[self.0]
    }

    /// Makes the dataset of a demand seed in an empty folder; for other minutes than its own if given.
    pub(super) fn make(self, out: &Path, minutes: Option<f64>, seed: u64) -> Result<()> {
        let recipe = self.recipe();
        let temporary = tempfile::tempdir().context("temporary folder")?;
        let (warm_up, minutes) = recipe.times(minutes);
        let options = SimulateOptions {
            minutes: Some(minutes),
            warm_up: Some(warm_up),
            seed,
            out: out.to_owned(),
            ..SimulateOptions::default()
        };
        let folder = temporary.path();
        let simulated = match &recipe.traffic {
            Traffic::Corridor {} => simulate(&options, None)?,
            Traffic::Scenario(scenario) => {
                let config = scenario.configure(folder, minutes, seed)?;
                let additional = scenario.additional(&game()?);
                let import = ImportOptions { additional, ..ImportOptions::default() };
                let network = import_net(&game()?.join(&scenario.net), &import)?.network;
                let NetworkEdits { loops, targets } = instruments(&network);
                simulate(
                    &SimulateOptions { sumocfg: Some(config), loops, targets, ..options },
                    None,
                )?
            }
            Traffic::Netgenerate(net) => {
                let network = netgenerate(&net.options, &folder.join("net.net.xml"))?;
                let options = SimulateOptions { world: net.world, ..options };
                net.demand.simulate(options, network, folder)?
            }
            Traffic::OpenStreetMap { file, demand } => {
                let text = FILES.iter().find(|(name, _)| name == file);
                let (_, text) = text.with_context(|| format!("{self}: no file {file}"))?;
                let path = folder.join(file);
                durable::write(&path, text)?;
                let name = recipe.title.to_owned();
                let turn_round_at_dead_ends = true;
                let import = OsmOptions { name, turn_round_at_dead_ends, ..OsmOptions::default() };
                demand.simulate(options, open_osm(&path, &import)?.network, folder)?
            }
        };
        let text = json!({
            "recipe": recipe.identity(minutes, seed)?,
            "traffic": simulated.world,
            "warnings": simulated.warnings,
        });
        Ok(durable::write(&out.join(FILE), format!("{text:#}\n"))?)
    }

    /// Refuses a dataset by another recipe.
    pub(super) fn check(self, folder: &Path, minutes: Option<f64>, seed: u64) -> Result<()> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let found: Value =
            serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let recipe = self.recipe();
        let expected = recipe.identity(recipe.times(minutes).1, seed)?;
        ensure!(
            found["recipe"] == expected,
            "{}: recipe: found {}, expected {expected}; delete the folder to simulate again, or choose another folder for datasets",
            path.display(),
            found["recipe"]
        );
        Ok(())
    }
}

impl Recipe {
    /// Minutes of warm-up, and of all; a short version has at most a quarter of warm-up.
    fn times(&self, minutes: Option<f64>) -> (f64, f64) {
        let minutes = minutes.unwrap_or(self.minutes);
        (self.warm_up.min(minutes / 4.0), minutes)
    }

    /// All that the traffic depends on.
    fn identity(&self, minutes: f64, seed: u64) -> Result<Value> {
        let mut identity = serde_json::to_value(self)?;
        identity["minutes"] = minutes.into();
        identity["seed"] = seed.into();
        Ok(identity)
    }
}

/// Loops and targets by the rule of docs/worlds.md.
fn instruments(network: &Network) -> NetworkEdits {
    let length = |link: &LinkId| network.link(*link).length.get();
    let mut targets: Vec<LinkId> =
        network.link_ids().filter(|link| length(link) >= SHORTEST_TARGET).collect();
    if targets.len() < FEWEST_LOOPS {
        targets = network.link_ids().collect();
    }
    let room = |link: &LinkId| f64::from(network.link(*link).lanes) * length(link);
    let mut largest = targets.clone();
    // Stable: of equals the first in the file.
    largest.sort_by(|a, b| room(b).total_cmp(&room(a)));
    largest.truncate(targets.len().div_ceil(TARGETS_PER_LOOP).max(FEWEST_LOOPS));
    let names = |links: Vec<LinkId>| {
        links.into_iter().map(|link| network.link(link).name.clone()).collect()
    };
    NetworkEdits { loops: names(largest), targets: names(targets) }
}

/// The folder of SUMO's scenarios.
fn game() -> Result<PathBuf> {
    let tools = SumoTools::find(None)?;
    let home = tools.home().with_context(|| {
        format!("{}: found no folder `tools/game` of SUMO near it", tools.sumo().display())
    })?;
    Ok(home.join("tools").join("game"))
}

fn netgenerate(options: &[String], out: &Path) -> Result<Network> {
    let program = SumoTools::find(None)?.netgenerate().context("SUMO: found no `netgenerate`")?;
    let output = Command::new(&program).args(options).arg("--output-file").arg(out).output();
    let output = output.with_context(|| program.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: failed: {}", program.display(), said.trim());
    Ok(import_net(out, &ImportOptions::default())?.network)
}

impl Scenario {
    fn additional(&self, game: &Path) -> Vec<PathBuf> {
        self.additional.iter().map(|file| game.join(file)).collect()
    }

    /// Writes a configuration of the scenario for a demand seed.
    fn configure(&self, folder: &Path, minutes: f64, seed: u64) -> Result<PathBuf> {
        let game = game()?;
        let end = self.begin + minutes * 60.0;
        let mut routes = Vec::new();
        for file in &self.routes {
            let path = game.join(file);
            let Some(every) = self.repeat else {
                routes.push(path);
                continue;
            };
            let text =
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let again = repeated(&text, every, end - self.begin)
                .with_context(|| format!("{}: vehicles one by one", path.display()))?;
            let copy = folder.join(file.replace('/', "-"));
            durable::write(&copy, again)?;
            routes.push(copy);
        }
        let list = |files: &[PathBuf]| {
            files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(",")
        };
        let scale = self.scale.unwrap_or(1.0) * SCALES[(seed.max(1) - 1) as usize % SCALES.len()];
        let mut options = vec![
            ("net-file", game.join(&self.net).display().to_string()),
            ("route-files", list(&routes)),
        ];
        if !self.additional.is_empty() {
            options.push(("additional-files", list(&self.additional(&game))));
        }
        options.extend([
            ("begin", self.begin.to_string()),
            ("step-length", SUMO_STEP.to_string()),
            ("scale", scale.to_string()),
            ("random-depart-offset", LATEST.to_string()),
            ("ignore-route-errors", "true".to_owned()),
            // Positions are kept once a second, to a decimetre.
            ("device.fcd.period", "1".to_owned()),
            ("precision", "1".to_owned()),
        ]);
        let mut text = "<configuration>\n".to_owned();
        for (name, value) in options {
            let value = value.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
            let _ = writeln!(text, "  <{name} value=\"{value}\"/>");
        }
        text += "</configuration>\n";
        let path = folder.join("world.sumocfg");
        durable::write(&path, text)?;
        Ok(path)
    }
}

/// A route file whose vehicles set out again `every` seconds until the end, with numbers before their names. None if it
/// lists no vehicles.
fn repeated(text: &str, every: f64, until: f64) -> Option<String> {
    let begin = text.find("<vehicle ")?;
    let end = text.rfind("</vehicle>")? + "</vehicle>".len();
    let vehicles = text.get(begin..end)?;
    let mut out = text[..begin].to_owned();
    let mut round = 0;
    while f64::from(round) * every < until {
        let later = f64::from(round) * every;
        let mut rest = vehicles;
        // Each vehicle's name and departure.
        while let Some(at) = rest.find(" depart=\"") {
            let at = at + " depart=\"".len();
            let value = &rest[at..at + rest[at..].find('"')?];
            let depart: f64 = value.parse().ok()?;
            out += &rest[..at].replace("<vehicle id=\"", &format!("<vehicle id=\"{round}-"));
            let _ = write!(out, "{:.2}", depart + later);
            rest = &rest[at + value.len()..];
        }
        out += rest;
        out.push('\n');
        round += 1;
    }
    Some(out + &text[end..])
}

impl GeneratedDemand {
    /// Simulates it on a network, with loops and targets by the rule.
    fn simulate(
        &self,
        options: SimulateOptions,
        network: Network,
        folder: &Path,
    ) -> Result<crate::data::simulate::Simulated> {
        let network = instruments(&network).apply(network)?;
        let path = folder.join("demand.toml");
        durable::write(&path, self.text(&network)?)?;
        simulate(&SimulateOptions { demand: Some(path), ..options }, Some(&network))
    }

    /// The demand file: vehicles enter at all entries, or on all links of a network that has fewer than two of them,
    /// in proportion to lanes, and turn at random.
    fn text(&self, network: &Network) -> Result<String> {
        let mut entries: Vec<LinkId> = network.entries().collect();
        if entries.len() < 2 {
            entries = network.link_ids().collect();
        }
        let lanes = |link: LinkId| f64::from(network.link(link).lanes);
        let text = |per_lane: f64| -> Result<String> {
            let mut text = format!(
                "format = \"fedtse-demand/1\"\nname = \"generated, {} veh/h and lane\"\nheadways = \"poisson\"\nroutes = \"random\"\nlongest_route = {LONGEST_ROUTE}\n",
                self.flow
            );
            text += "[peaks]\nperiod = 1800\nheight = 1.2\n[noise]\nspread = 0.15\nmemory = 600\n";
            text += "[classes]\ncar = 0.85\nmotorcycle = 0.1\nbus = 0.05\n";
            for &link in &entries {
                // Names of links are written as JSON's strings are, which are TOML's too.
                let name = serde_json::to_string(&network.link(link).name)?;
                let flow = per_lane * lanes(link);
                let _ = writeln!(text, "[[entry]]\nlink = {name}\nflow = {flow:.6}");
            }
            Ok(text)
        };
        let usual = 100.0;
        let flows = Demand::parse(&text(usual)?, network)?.expected_flows(network);
        let per_lane = network.link_ids().zip(&flows).map(|(link, flow)| flow.get() / lanes(link));
        let mean = per_lane.sum::<f64>() / flows.len() as f64;
        text(usual * self.flow / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_read_and_named_differently() {
        let all = WorldName::all(false);
        assert!(all.len() >= 10, "{all:?}");
        let names: std::collections::BTreeSet<&str> =
            all.iter().map(|world| world.recipe().name).collect();
        assert_eq!(names.len(), all.len());
        let quick = WorldName::all(true);
        assert!(!quick.is_empty() && quick.len() < all.len());
        for world in all {
            let recipe = world.recipe();
            assert_eq!(WorldName::parse(recipe.name), Ok(world));
            let (warm_up, minutes) = recipe.times(None);
            // 70, 10 and 20 % of it hold windows by the hundred.
            assert!(warm_up >= 5.0 && minutes - warm_up >= 50.0, "{world}");
        }
        assert!(WorldName::parse("atlantis").unwrap_err().contains("expected one of corridor,"));
    }

    #[test]
    fn vehicles_set_out_again() {
        let text = "<routes><vType id=\"t\"/>\n<vehicle id=\"a\" depart=\"1.50\"><route edges=\"x\"/></vehicle>\n<vehicle id=\"b\" type=\"t\" depart=\"9\"/><vehicle id=\"c\" depart=\"9.5\"></vehicle>\n</routes>";
        let again = repeated(text, 10.0, 20.0).unwrap();
        for part in [
            "<vehicle id=\"0-a\" depart=\"1.50\">",
            "<vehicle id=\"0-c\" depart=\"9.50\">",
            "<vehicle id=\"1-a\" depart=\"11.50\">",
            "<vehicle id=\"1-b\" type=\"t\" depart=\"19.00\"/>",
        ] {
            assert!(again.contains(part), "{again}");
        }
        assert_eq!(again.matches("<vehicle ").count(), 6);
        assert_eq!(again.matches("vType").count(), 1);
        assert!(again.starts_with("<routes>") && again.ends_with("</routes>"));
        assert_eq!(repeated("<routes><flow/></routes>", 10.0, 20.0), None);
    }

    #[test]
    fn the_largest_links_have_loops_and_the_shortest_are_not_scored() {
        let text = r#"
            format = "fedtse-network/1"
            link = [
              { name = "long", length = 200, lanes = 1, speed = 12.5, shape = [[0, 0], [200, 0]] },
              { name = "wide", length = 150, lanes = 2, speed = 12.5, shape = [[200, 0], [350, 0]] },
              { name = "usual", length = 60, lanes = 1, speed = 12.5, shape = [[350, 0], [410, 0]] },
              { name = "short", length = 49, lanes = 3, speed = 12.5, shape = [[410, 0], [459, 0]] },
            ]
            turn = [{ from = "long", to = "wide" }, { from = "wide", to = "usual" }, { from = "usual", to = "short" }]
        "#;
        let network = traffic::parse_network(text).unwrap();
        let NetworkEdits { loops, targets } = instruments(&network);
        assert_eq!(loops, ["wide", "long"]);
        assert_eq!(targets, ["long", "wide", "usual"]);
    }

    #[test]
    fn generated_demand_has_the_flow_asked_for() {
        let world = WorldName::parse("town").unwrap();
        let Traffic::OpenStreetMap { file, demand } = &world.recipe().traffic else {
            panic!("the town is of OpenStreetMap data")
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        std::fs::write(&path, FILES[0].1).unwrap();
        let options = OsmOptions { turn_round_at_dead_ends: true, ..OsmOptions::default() };
        let network = open_osm(&path, &options).unwrap().network;
        let parsed = Demand::parse(&demand.text(&network).unwrap(), &network).unwrap();
        let flows = parsed.expected_flows(&network);
        let per_lane = network.link_ids().zip(&flows);
        let per_lane = per_lane.map(|(id, flow)| flow.get() / f64::from(network.link(id).lanes));
        let mean = per_lane.sum::<f64>() / flows.len() as f64;
        // The file has six decimals.
        assert!((mean - demand.flow).abs() < 1e-6 * demand.flow, "{mean}");
    }
}
