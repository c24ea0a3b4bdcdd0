//! What the attacks found, for people and for machines.

use attacks::membership::Membership;
use attacks::{Mode, Recovery};
use serde::Serialize;

/// All attacks on one dataset; the format is described in docs/sealed.md.
#[derive(Serialize)]
pub(crate) struct Report {
    pub format: &'static str,
    pub data: String,
    pub rate: f64,
    pub seed: u64,
    pub epsilon: f64,
    pub delta: f64,
    pub attacks: Vec<Attack>,
}

/// The format of [`Report`].
pub(super) const FORMAT: &str = "fedtse-attacks/1";

/// One attack in one setting.
#[derive(Serialize)]
pub(crate) struct Attack {
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
    /// Of attacks that guess numbers.
    pub results: Vec<AttackResult>,
    /// Of attacks that guess whether a vehicle is there.
    pub memberships: Vec<MembershipOutcome>,
}

/// What guessing numbers came to in one mode.
#[derive(Serialize)]
pub(crate) struct AttackResult {
    pub mode: Mode,
    /// What was looked for.
    pub quantity: String,
    pub unit: &'static str,
    /// Exchanges that the adversary has seen.
    pub rounds: usize,
    #[serde(flatten)]
    pub recovery: Recovery,
    /// Deviation of the noise, in the same unit; nothing without noise, or where it is on something else.
    pub noise: Option<f64>,
    /// In a few words, what else there is to say.
    pub note: String,
}

/// What guessing whether a vehicle is there came to in one mode.
#[derive(Serialize)]
pub(crate) struct MembershipOutcome {
    pub mode: Mode,
    /// What is there or not.
    pub unit: String,
    #[serde(flatten)]
    pub membership: Membership,
    /// What is promised for it; nothing without noise.
    pub epsilon_accounted: Option<f64>,
}

pub(super) fn print(report: &Report) {
    println!(
        "{}: fleet of {} %, noise for ε = {}, δ = {:e}",
        report.data, report.rate, report.epsilon, report.delta
    );
    for attack in &report.attacks {
        println!("\n{}: {} against {}", attack.name, attack.adversary, attack.victim);
        println!("  {}", attack.setting);
        println!("  noise: {}", attack.noise);
        if !attack.results.is_empty() {
            print_results(&attack.results);
        }
        if !attack.memberships.is_empty() {
            print_memberships(&attack.memberships);
        }
    }
    println!(
        "\nerror: root mean square; trivial: of a guess without messages; found: 1 − (error/trivial)²"
    );
}

fn print_results(results: &[AttackResult]) {
    println!(
        "  {:<13} {:<32} {:>6} {:>10} {:>10} {:>9} {:>8}",
        "mode", "looked for", "rounds", "error", "trivial", "found", "noise"
    );
    for one in results {
        let Recovery { rmse, trivial_rmse, explained } = one.recovery;
        let noise = one.noise.map_or(String::new(), |noise| format!("{noise:.3}"));
        println!(
            "  {:<13} {:<32} {:>6} {} {} {:>8.2}% {noise:>8}  {}",
            one.mode.name(),
            format!("{} {}", one.quantity, one.unit),
            one.rounds,
            number(rmse),
            number(trivial_rmse),
            100.0 * explained,
            one.note
        );
    }
}

fn print_memberships(memberships: &[MembershipOutcome]) {
    println!(
        "  {:<13} {:<20} {:>10} {:>12} {:>10} {:>9}",
        "mode", "what is there", "said there", "said wrongly", "ε at least", "promised"
    );
    for one in memberships {
        let promised =
            one.epsilon_accounted.map_or("none".to_owned(), |epsilon| format!("{epsilon:.2}"));
        println!(
            "  {:<13} {:<20} {:>9.1}% {:>11.1}% {:>10.2} {promised:>9}",
            one.mode.name(),
            one.unit,
            100.0 * one.membership.true_positives,
            100.0 * one.membership.false_positives,
            one.membership.epsilon_at_least
        );
    }
}

fn number(value: f64) -> String {
    if value != 0.0 && value < 1e-3 { format!("{value:>10.1e}") } else { format!("{value:>10.3}") }
}
