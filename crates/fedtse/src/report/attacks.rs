//! What `fedtse audit attacks --json` found, mode by mode, and how much noise an ε takes.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use sealed::noise::accounting::{Budget, continuous_ratio, least_ratio};
use serde::Deserialize;

use super::section::{Chart, Grid, Line, Row, Section, Value};

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
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
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

/// The section of a file.
pub fn read(path: &Path) -> Result<Section> {
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(named)?;
    let file: AttacksFile = serde_json::from_str(&text).with_context(named)?;
    ensure!(
        file.format == FORMAT,
        "{}: format: found \"{}\", expected \"{FORMAT}\"",
        path.display(),
        file.format
    );
    file.section().with_context(named)
}

impl AttacksFile {
    fn section(&self) -> Result<Section> {
        let Self { data, rate, seed, epsilon, delta, .. } = self;
        let notes = self.attacks.iter().flat_map(|attack| {
            let noise = (!attack.noise.is_empty()).then(|| format!("noise: {}", attack.noise));
            let told = [Some(attack.setting.clone()), noise];
            told.into_iter().flatten().map(|text| format!("{}: {text}", attack.name))
        });
        Ok(Section {
            id: "attacks".to_owned(),
            title: "Attacks: what the other side could find out, by trying".to_owned(),
            short: "Attacks".to_owned(),
            made: format!(
                "Made by fedtse audit attacks --data {data} --rate {rate} --seed {seed} --epsilon {epsilon} --delta {delta:e}"
            ),
            warnings: Vec::new(),
            charts: vec![noise_by_epsilon(*delta)?],
            grids: self.attacks.iter().map(Attack::grid).collect(),
            notes: notes.collect(),
        })
    }
}

impl Attack {
    fn grid(&self) -> Grid {
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
            Row { label: one.mode.clone(), paper: false, cells }
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
                "{}: {} against {}. Found: 1 − (error/trivial)², so that 100 % is all of it and 0 % nothing",
                self.name, self.adversary, self.victim
            ),
            columns: columns.map(String::from).to_vec(),
            rows: rows.collect(),
        }
    }
}

/// How large noise must be for an ε, in units of what it hides.
fn noise_by_epsilon(delta: f64) -> Result<Chart> {
    let line = |label: &str, ratio: fn(Budget) -> f64| -> Result<Line> {
        let points =
            EPSILONS.iter().map(|&epsilon| Ok((epsilon, ratio(Budget::new(epsilon, delta)?))));
        let points = points.collect::<Result<_>>()?;
        Ok(Line { label: label.to_owned(), points, paper: false, shown: true })
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
        "trivial_rmse":9.5,"explained":1.0,"note":""}]}]}"#;

    #[test]
    fn a_file_becomes_a_section_with_its_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("attacks.json");
        std::fs::write(&path, FILE).unwrap();
        let section = read(&path).unwrap();
        let texts: Vec<&str> =
            section.grids[0].rows[0].cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(texts, ["density, veh/km/lane", "1", "1.0e-5", "9.500", "100.00 %", "", ""]);
        // More noise for a smaller ε.
        let ratios = section.charts[0].lines[0].points.iter().map(|point| point.1);
        assert!(ratios.clone().zip(ratios.skip(1)).all(|(small, large)| small > large));
        std::fs::write(&path, FILE.replace("attacks/1", "attacks/9")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("expected \"fedtse-attacks/1\""));
    }
}
