//! Parties that learn without ground truth: guests' speeds, as protected as they are unless it is said otherwise.

use std::fs;

use super::{GUESTS, World};

impl World {
    /// Takes the truth away from the host and lets guests tell their speeds.
    pub(crate) fn seal(&self) {
        let (data, features) =
            (self.path("data/features"), |party: &str| self.path(party).join("data/features"));
        for truth in ["all.parquet", "targets.parquet"] {
            fs::remove_file(features("city").join(truth)).expect("a file");
        }
        self.change("city", "[training]", "[training]\nmethod = \"pi-v\"");
        for (number, guest) in GUESTS.into_iter().enumerate() {
            let turns = format!("turns-guest-{}.parquet", number + 1);
            fs::copy(data.join(&turns), features(guest).join(&turns)).expect("a copy");
            let fleet = format!("fleet = \"guest-{}\"", number + 1);
            self.change(guest, &fleet, &format!("{fleet}\nmeasures = [\"speeds\"]"));
        }
    }
}
