//! Which steps of which network a party's features hold: what parties must agree on.

use std::path::Path;

use sensing::{Features, FeaturesError, HeldSteps, read_network};
use traffic::{Network, Seconds, Step};

use crate::study::WINDOW;

/// The steps of a features folder, and the network they belong to.
#[derive(Debug)]
pub struct Timeline {
    network: Network,
    network_hash: String,
    step: Seconds,
    held: HeldSteps,
    windows: Vec<Step>,
    cell_shape: [usize; 2],
    /// First step of each range, and its row in the tables.
    first_rows: Vec<(Step, usize)>,
}

impl Timeline {
    /// Reads `network.toml` and the features' manifest, and nothing else.
    pub(crate) fn read(folder: &Path) -> Result<(Self, Features), FeaturesError> {
        let network = read_network(&folder.join("network.toml"))?;
        let features = Features::open(folder, &network)?;
        let manifest = features.manifest();
        let mut row = 0;
        let mut first_rows = Vec::new();
        for range in manifest.held.ranges() {
            first_rows.push((range.first, row));
            row += (range.last.0 - range.first.0 + 1) as usize;
        }
        let timeline = Self {
            network,
            network_hash: manifest.network_hash.clone(),
            step: manifest.step_s,
            windows: manifest.held.windows(WINDOW),
            held: manifest.held.clone(),
            cell_shape: [manifest.cells, manifest.sub_steps],
            first_rows,
        };
        Ok((timeline, features))
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Hash of the network.
    pub fn network_hash(&self) -> &str {
        &self.network_hash
    }

    /// Length of a step.
    pub fn step(&self) -> Seconds {
        self.step
    }

    /// The steps held.
    pub fn held(&self) -> &HeldSteps {
        &self.held
    }

    /// All steps held, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.held.iter()
    }

    /// All windows, by their last step.
    pub fn windows(&self) -> &[Step] {
        &self.windows
    }

    /// Whether the window that ends with this step is held.
    pub fn has_window(&self, last: Step) -> bool {
        self.windows.binary_search(&last).is_ok()
    }

    /// Cells of a link and sub-steps of a step, as the features were made.
    pub fn cell_shape(&self) -> [usize; 2] {
        self.cell_shape
    }

    /// Where a step's rows are in the tables.
    pub(crate) fn row(&self, step: Step) -> usize {
        let range = self.first_rows.partition_point(|&(first, _)| first <= step).saturating_sub(1);
        let (first, row) = self.first_rows[range];
        row + (step.0 - first.0) as usize
    }
}
