//! What the attacks found, for people and for machines.

use attacks::{Mode, Recovery};
use serde::Serialize;

/// All attacks on one dataset; the format is described in docs/sealed.md.
#[derive(Serialize)]
pub struct Report {
    pub format: &'static str,
    pub data: String,
    pub rate: f64,
    pub seed: u64,
    pub epsilon: f64,
    pub delta: f64,
    pub attacks: Vec<Attack>,
}

/// The format of [`Report`].
pub const FORMAT: &str = "fedtse-attacks/1";

/// One attack in one setting.
#[derive(Serialize)]
pub struct Attack {
    /// Which: `least-squares`, `lattice`, `embedding`, `labels`, `membership`.
    pub name: &'static str,
    /// Who runs it.
    pub adversary: &'static str,
    /// Whose data it is after.
    pub victim: &'static str,
    /// In one sentence: with what it is run.
    pub setting: String,
    /// In one sentence: what noise there is, where there is some.
    pub noise: String,
    pub results: Vec<Outcome>,
}

/// What an attack came to in one mode.
#[derive(Serialize)]
pub struct Outcome {
    pub mode: Mode,
    /// What was looked for.
    pub quantity: String,
    pub unit: &'static str,
    /// Exchanges that the adversary has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
    #[serde(flatten)]
    pub recovery: Recovery,
    /// Deviation of the noise, in the same unit; nothing without noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// In a few words, what else there is to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

pub fn print(report: &Report) {
    println!(
        "{}: fleet of {} %, noise for ε = {}, δ = {:e}",
        report.data, report.rate, report.epsilon, report.delta
    );
    for attack in &report.attacks {
        println!("\n{}: {} against {}", attack.name, attack.adversary, attack.victim);
        println!("  {}", attack.setting);
        if !attack.noise.is_empty() {
            println!("  noise: {}", attack.noise);
        }
        println!(
            "  {:<13} {:<22} {:>6} {:>11} {:>11} {:>9} {:>9}",
            "mode", "looked for", "rounds", "error", "trivial", "found", "noise"
        );
        for one in &attack.results {
            let Recovery { rmse, trivial_rmse, explained } = one.recovery;
            let rounds = one.rounds.map_or(String::new(), |rounds| rounds.to_string());
            let noise = one.noise.map_or(String::new(), |noise| format!("{noise:.3}"));
            println!(
                "  {:<13} {:<22} {rounds:>6} {} {} {:>8.2}% {noise:>9}  {}",
                one.mode.name(),
                format!("{} {}", one.quantity, one.unit),
                number(rmse),
                number(trivial_rmse),
                100.0 * explained,
                one.note
            );
        }
    }
    println!(
        "\nerror: root mean square; trivial: of a guess without messages; found: 1 − (error/trivial)²"
    );
}

fn number(value: f64) -> String {
    if value != 0.0 && value < 1e-3 { format!("{value:>11.1e}") } else { format!("{value:>11.3}") }
}
