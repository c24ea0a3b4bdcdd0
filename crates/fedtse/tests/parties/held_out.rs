//! Parties that learn without ground truth: guests hold out folds of their fleets.

use std::fs;

use super::{GUESTS, World};
use crate::common::{ok, text};

/// Folds of each fleet.
const FOLDS: usize = 8;

impl World {
    /// Takes the truth away from the host, deals each fleet into folds, and says so in the configurations.
    pub(crate) fn hold_out(&self) {
        let data = self.path("data");
        let shares = [["5"; FOLDS], ["3"; FOLDS]].concat().join(",");
        ok(&["features", text(&data), "--guests", &shares, "--replace"]);
        let features = |party: &str| self.path(party).join("data/features");
        let give = |party: &str, table: &str| {
            fs::copy(data.join("features").join(table), features(party).join(table))
                .expect("a copy");
        };
        for truth in ["all.parquet", "targets.parquet"] {
            fs::remove_file(features("city").join(truth)).expect("a file");
        }
        give("city", "manifest.json");
        give("city", "loops.parquet");
        self.change("city", "[training]", "[training]\nmethod = \"hf\"");
        for (number, guest) in GUESTS.into_iter().enumerate() {
            give(guest, "manifest.json");
            let folds = (1..=FOLDS).map(|fold| format!("guest-{}", number * FOLDS + fold));
            let folds: Vec<String> = folds.collect();
            folds.iter().for_each(|fold| give(guest, &format!("{fold}.parquet")));
            let fleet = format!("fleet = \"guest-{}\"", number + 1);
            let dealt = format!("fleet = {folds:?}\nmeasures = [\"held-out\"]");
            self.change(guest, &fleet, &dealt);
        }
    }

    pub(crate) fn change(&self, party: &str, from: &str, to: &str) {
        let config = fs::read_to_string(self.config(party)).expect("a configuration");
        assert!(config.contains(from), "{party}: {from}");
        fs::write(self.config(party), config.replace(from, to)).expect("a file");
    }
}
