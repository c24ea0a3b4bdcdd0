//! What `fedtse audit attacks --json` found, mode by mode, and how much noise an ε takes.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use sealed::noise::accounting::{Budget, continuous_ratio, least_ratio};
use serde::Deserialize;

use super::section::{Chart, ChartLine, Grid, GridRow, Section, Value};

const FORMAT: &str = "fedtse-attacks/1";
/// Values of ε that the curve is drawn through.
const EPSILONS: [f64; 13] = [0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0];

/// As much of the file as is shown.
#[derive(Deserialize)]
struct AttacksFile {
    format: String,
    data: String,
    rate: f64,
    seed: u64,
    epsilon: f64,
    delta: f64,
    attacks: Vec<Attack>,
}

#[derive(Deserialize)]
struct Attack {
    name: String,
    adversary: String,
    victim: String,
    setting: String,
    noise: String,
    results: Vec<AttackResult>,
    #[serde(default)]
    memberships: Vec<MembershipOutcome>,
}

#[derive(Deserialize)]
struct AttackResult {
    mode: String,
    quantity: String,
    unit: String,
    rounds: Option<usize>,
    rmse: f64,
    trivial_rmse: f64,
    explained: f64,
    noise: Option<f64>,
    #[serde(default)]
    note: String,
}

/// Whether a vehicle was there.
#[derive(Deserialize)]
struct MembershipOutcome {
    mode: String,
    unit: String,
    true_positives: f64,
    false_positives: f64,
    epsilon_at_least: f64,
    confidence: f64,
    epsilon_accounted: Option<f64>,
}

/// Of its section.
pub(super) const ID: &str = "attacks";
/// The file's name in a folder of results.
pub(super) const ATTACKS_FILE: &str = "attacks.json";

/// The section of a file.
pub(super) fn read(path: &Path) -> Result<Section> {
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(named)?;
    parse(&text).with_context(named)
}

/// The section of a file's text.
pub(super) fn parse(text: &str) -> Result<Section> {
    let file: AttacksFile = serde_json::from_str(text)?;
    ensure!(file.format == FORMAT, "format: found \"{}\", expected \"{FORMAT}\"", file.format);
    file.section()
}

impl AttacksFile {
    fn section(&self) -> Result<Section> {
        let Self { data, rate, seed, epsilon, delta, .. } = self;
        let noised = self.attacks.iter().filter(|attack| !attack.noise.is_empty());
        let notes = noised.map(|attack| format!("{}, noise: {}", attack.name, attack.noise));
        Ok(Section {
            id: ID.to_owned(),
            title: "Attacks: what the other side could find out, by trying".to_owned(),
            short: "Attacks".to_owned(),
            made: format!(
                "Made by fedtse audit attacks --data {data} --rate {rate} --seed {seed} --epsilon {epsilon} --delta {delta:e}"
            ),
            warnings: Vec::new(),
            charts: vec![noise_by_epsilon(*delta)?],
            grids: self.attacks.iter().flat_map(Attack::grids).collect(),
            notes: notes.collect(),
        })
    }
}

impl Attack {
    fn grids(&self) -> impl Iterator<Item = Grid> {
        let guessed = (!self.results.is_empty()).then(|| self.guessed());
        let told = (!self.memberships.is_empty()).then(|| self.told());
        guessed.into_iter().chain(told)
    }

    /// Of attacks that guess whether a vehicle was there.
    fn told(&self) -> Grid {
        let rows = self.memberships.iter().map(|one| {
            let percent = |share: f64| Value::plain(format!("{:.1} %", 100.0 * share));
            let promised = one.epsilon_accounted.map_or("nothing".to_owned(), significant);
            let cells = vec![
                Value::words(one.unit.clone()),
                percent(one.true_positives),
                percent(one.false_positives),
                Value::plain(format!("{:.2}", one.epsilon_at_least)),
                percent(one.confidence),
                Value::plain(promised),
            ];
            GridRow { label: one.mode.clone(), paper: false, cells }
        });
        let columns = [
            "what is there",
            "said so rightly",
            "said so wrongly",
            "ε is at least",
            "with confidence",
            "ε promised",
        ];
        Grid {
            caption: format!("{}. {}", self.title(), self.setting),
            columns: columns.map(String::from).to_vec(),
            rows: rows.collect(),
        }
    }

    fn title(&self) -> String {
        format!("{}: {} against {}", self.name, self.adversary, self.victim)
    }

    /// Of attacks that guess numbers.
    fn guessed(&self) -> Grid {
        let rows = self.results.iter().map(|one| {
            let rounds = one.rounds.map_or(String::new(), |rounds| rounds.to_string());
            let noise = one.noise.map_or(String::new(), significant);
            let cells = vec![
                Value::words(format!("{}, {}", one.quantity, one.unit)),
                Value::plain(rounds),
                Value::plain(significant(one.rmse)),
                Value::plain(significant(one.trivial_rmse)),
                Value::plain(format!("{:.2} %", 100.0 * one.explained)),
                Value::plain(noise),
                Value::words(one.note.clone()),
            ];
            GridRow { label: one.mode.clone(), paper: false, cells }
        });
        let columns = [
            "looked for",
            "exchanges seen",
            "error",
            "of a trivial guess",
            "found",
            "noise",
            "besides",
        ];
        Grid {
            caption: format!(
                "{}. {}. Found: 1 − (error/trivial)², so that 100 % is all of it and 0 % nothing",
                self.title(),
                self.setting.trim_end_matches('.')
            ),
            columns: columns.map(String::from).to_vec(),
            rows: rows.collect(),
        }
    }
}

/// How large noise must be for an ε, in units of what it hides.
fn noise_by_epsilon(delta: f64) -> Result<Chart> {
    let line = |label: &str, ratio: fn(Budget) -> f64| -> Result<ChartLine> {
        let points =
            EPSILONS.iter().map(|&epsilon| Ok((epsilon, ratio(Budget::new(epsilon, delta)?))));
        let points = points.collect::<Result<_>>()?;
        Ok(ChartLine { label: label.to_owned(), points, paper: false, shown: true })
    };
    Ok(Chart {
        caption: format!("Noise that an ε takes, δ = {delta:e}"),
        x: "ε".to_owned(),
        y: "σ over the change that is hidden".to_owned(),
        lines: vec![
            line("as drawn, proven for whole vectors", least_ratio)?,
            line("continuous noise, to compare", continuous_ratio)?,
        ],
        levels: Vec::new(),
    })
}

fn significant(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:.1e}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"format":"fedtse-attacks/1","data":"d","rate":20,"seed":1,"epsilon":4,"delta":1e-6,
        "attacks":[{"name":"least-squares","adversary":"host","victim":"guest","setting":"s","noise":"",
        "results":[{"mode":"sealed","quantity":"density","unit":"veh/km/lane","rounds":1,"rmse":0.00001,
        "trivial_rmse":9.5,"explained":1.0,"noise":null,"note":""}],"memberships":[]},
        {"name":"membership","adversary":"host","victim":"guest","setting":"s","noise":"n","results":[],
        "memberships":[{"mode":"sealed+noise","unit":"vehicle in a step","trials":100,"true_positives":0.5,
        "false_positives":0.25,"epsilon_at_least":1.25,"confidence":0.99,"epsilon_accounted":4.0}]}]}"#;

    #[test]
    fn a_file_becomes_a_section_with_its_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("attacks.json");
        std::fs::write(&path, FILE).unwrap();
        let section = read(&path).unwrap();
        let texts: Vec<&str> =
            section.grids[0].rows[0].cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(texts, ["density, veh/km/lane", "1", "1.0e-5", "9.500", "100.00 %", "", ""]);
        let texts: Vec<&str> =
            section.grids[1].rows[0].cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(texts, ["vehicle in a step", "50.0 %", "25.0 %", "1.25", "99.0 %", "4.000"]);
        // More noise for a smaller ε.
        let ratios = section.charts[0].lines[0].points.iter().map(|point| point.1);
        assert!(ratios.clone().zip(ratios.skip(1)).all(|(small, large)| small > large));
        std::fs::write(&path, FILE.replace("attacks/1", "attacks/9")).unwrap();
        let error = format!("{:#}", read(&path).unwrap_err());
        assert!(error.contains("expected \"fedtse-attacks/1\""), "{error}");
    }
}
