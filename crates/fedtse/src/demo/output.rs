//! The demo's output on a terminal.

use std::fmt::Write as _;

use experiments::run_record::{MethodRun, RunRecord};

/// The table; with `ledger` also what left each party.
pub(super) fn text(record: &RunRecord, minutes: f64, ledger: bool) -> String {
    let data = &record.data;
    let share = data.rate / f64::from(data.guests);
    let mut text = format!(
        "{}: {} vehicles on {} links in {minutes:.0} simulated minutes.\nA city with loops on 2 links, and {} fleets of {share:.0} % of the vehicles each, estimate\ndensity and flow every {:.0} s. RMSE on the last fifth of the time, {} target links:\n\n",
        data.network, data.vehicles, data.links, data.guests, data.step_s, data.target_links
    );
    let _ = writeln!(
        text,
        "{:<18} {:<25} {:<12} {:>11} {:>12}",
        "", "sees", "learns from", "density", "flow"
    );
    let _ = writeln!(
        text,
        "{:<18} {:<25} {:<12} {:>11} {:>12}",
        "", "", "truth", "veh/km/lane", "veh/min/lane"
    );
    for method in &record.methods {
        let _ = writeln!(
            text,
            "{:<18} {:<25} {:<12} {:>11.2} {:>12.2}",
            method.label,
            method.sees,
            if method.with_truth { "yes" } else { "no" },
            method.score.density.rmse,
            method.score.flow.rmse
        );
    }
    if ledger {
        for method in record.methods.iter().filter(|method| !method.releases.is_empty()) {
            text += &released(method);
        }
        text += "\nA party can send only what its ledger has recorded first. Trajectories, loop counts, truth\nand weights never leave a party.\n";
    }
    text
}

/// Bytes of all ciphertexts of a kind, at least.
const LEAST_SEALED: u64 = 1_000_000;

/// What left each party, by its own ledger.
fn released(method: &MethodRun) -> String {
    let privacy = method.privacy.as_deref().unwrap_or("clear");
    let label = method.label.trim_end_matches(", clear");
    let mut text = format!(
        "\n{label} ({privacy}), {} exchanges. What each party got to see, by the senders' ledgers:\n",
        method.rounds.unwrap_or(0)
    );
    for party in &method.releases {
        for sent in &party.sent {
            let count = match (sent.kind.as_str(), sent.numbers) {
                ("upload", numbers) => format!("{numbers} sealed "),
                // The ledger counts what a budget does: numbers that went into a product.
                ("products", numbers) => format!("of {numbers} numbers"),
                ("masked-products", numbers) => format!("of {numbers} sealed "),
                // What is large and says nothing of itself is a ciphertext; small is what keeps rounds together.
                (_, 0) if sent.bytes >= LEAST_SEALED => "sealed ".to_owned(),
                (_, 0) => continue,
                (_, numbers) => format!("{numbers} numbers"),
            };
            let bytes = sized(sent.bytes);
            let _ = writeln!(
                text,
                "  {:<8} from {:<8} {:<22} {count:>19} {bytes:>11}",
                sent.to, party.party, sent.kind
            );
        }
    }
    let sums =
        method.releases.iter().map(|party| format!("{} {}", party.party, sized(party.bytes)));
    let _ = writeln!(text, "  sent in all: {}", sums.collect::<Vec<_>>().join(", "));
    text
}

fn sized(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} kB", bytes / 1e3),
    }
}
