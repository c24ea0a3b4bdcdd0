//! Which steps of which network a party's features hold: what parties must agree on.

use std::path::Path;
use std::sync::Arc;

use sensing::{Features, FeaturesError, HeldSteps, read_dataset_network};
use serde::{Deserialize, Serialize};
use traffic::{Network, Seconds, Step, network_hash};

use crate::data::study::WINDOW;

/// How features are cut out of time and road: needed to make the same ones live.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Length of a step.
    pub step_s: f64,
    /// Cells of a link.
    pub cells: usize,
    /// Sub-steps of a step.
    pub sub_steps: usize,
    /// How long a vehicle may go unseen and still be on its way.
    pub patience_s: f64,
}

/// The steps of a features folder, and the network they belong to.
#[derive(Clone, Debug)]
pub struct Timeline {
    network: Arc<Network>,
    network_hash: String,
    step: Seconds,
    patience: Seconds,
    held: HeldSteps,
    /// Steps of a window.
    window: usize,
    windows: Vec<Step>,
    cell_shape: [usize; 2],
    /// First step of each range, and its row in the tables.
    first_rows: Vec<(Step, usize)>,
}

impl Timeline {
    /// Reads `network.toml` and the manifests, and nothing else.
    pub(crate) fn read(folder: &Path) -> Result<(Self, Features), FeaturesError> {
        let network = read_dataset_network(folder)?;
        let features = Features::open(folder, &network)?;
        let manifest = features.manifest();
        let timeline = Self {
            network: Arc::new(network),
            network_hash: manifest.network_hash.clone(),
            step: manifest.step_s,
            patience: manifest.patience_s,
            window: WINDOW,
            windows: Vec::new(),
            held: HeldSteps::default(),
            cell_shape: [manifest.cells, manifest.sub_steps],
            first_rows: Vec::new(),
        };
        Ok((timeline.holding(manifest.held.clone()), features))
    }

    /// Of a party that reads no features, and holds no steps yet.
    pub(crate) fn live(network: Arc<Network>, steps: &StepSpec) -> Self {
        Self {
            network_hash: network_hash(&network),
            network,
            step: Seconds::new(steps.step_s),
            patience: Seconds::new(steps.patience_s),
            window: WINDOW,
            windows: Vec::new(),
            held: HeldSteps::default(),
            cell_shape: [steps.cells, steps.sub_steps],
            first_rows: Vec::new(),
        }
    }

    /// The same with these steps.
    pub(crate) fn holding(&self, held: HeldSteps) -> Self {
        let mut row = 0;
        let mut first_rows = Vec::new();
        for range in held.ranges() {
            first_rows.push((range.first, row));
            row += (range.last.0 - range.first.0 + 1) as usize;
        }
        let windows = held.windows(self.window);
        let (network, network_hash) = (Arc::clone(&self.network), self.network_hash.clone());
        let Self { step, patience, window, cell_shape, .. } = *self;
        Self {
            network,
            network_hash,
            step,
            patience,
            held,
            window,
            windows,
            cell_shape,
            first_rows,
        }
    }

    /// The same with windows of so many steps.
    pub(crate) fn windowed(mut self, window: usize) -> Self {
        self.window = window;
        self.windows = self.held.windows(window);
        self
    }

    /// Steps of a window.
    pub fn window(&self) -> usize {
        self.window
    }

    /// How its steps were made.
    pub fn step_spec(&self) -> StepSpec {
        let [cells, sub_steps] = self.cell_shape;
        StepSpec { step_s: self.step.get(), cells, sub_steps, patience_s: self.patience.get() }
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    pub(crate) fn shared_network(&self) -> Arc<Network> {
        Arc::clone(&self.network)
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
    pub(crate) fn cell_shape(&self) -> [usize; 2] {
        self.cell_shape
    }

    /// Where a step's rows are in the tables.
    pub(crate) fn row(&self, step: Step) -> usize {
        let range = self.first_rows.partition_point(|&(first, _)| first <= step).saturating_sub(1);
        let (first, row) = self.first_rows[range];
        row + (step.0 - first.0) as usize
    }
}
