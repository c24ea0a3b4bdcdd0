//! The features of a dataset as numbers to learn from.
//!
//! A sample is a window of [`WINDOW`] steps, estimated at its last step. Windows never cross a gap,
//! and are split 70/10/20 in time.
//!
//! Guest features are in *scale-up units*: the fleet's totals over `L·lanes·Δt·p` are density and
//! flow as the fleet alone would estimate them, comparable between links.

use std::path::Path;

use sensing::{
    Dataset, DatasetError, FeatureTable, Features, FeaturesError, LoopTable, Split, split,
};
use thiserror::Error;
use traffic::{LinkId, LinkState, MetresPerSecond, Network, Seconds, Step};

/// Steps of a window (h of the paper): one cycle of the corridor's signals.
pub const WINDOW: usize = 9;

/// Which targets are estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// Edie's density and flow of the step itself.
    Raw,
    /// Their trailing mean over 60 s, as the paper's labels were averaged.
    Smooth,
}

/// Whose features an estimator sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Party {
    /// Loop counts only.
    Host,
    /// Loop counts and the fleet's mean speeds.
    HostAndSpeeds,
    /// Loop counts and the fleet's totals.
    Both,
    /// The same, and the fleet's totals in each cell and sub-step.
    BothAndCells,
}

/// A dataset ready for learning.
pub struct Study {
    network: Network,
    step: Seconds,
    rate: f64,
    fleet_name: String,
    fleet: FeatureTable,
    loops: LoopTable,
    raw: Vec<LinkState>,
    smooth: Vec<LinkState>,
    /// Position of each stored step in the tables.
    first_rows: Vec<(Step, usize)>,
    targets: Vec<LinkId>,
    windows: Vec<Step>,
    split: Split,
    cell_shape: [usize; 2],
    network_hash: String,
}

/// Why a dataset cannot be studied.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The dataset.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Its features.
    #[error(transparent)]
    Features(#[from] FeaturesError),
    /// A part of the split is empty.
    #[error(
        "{folder}: {part}: found no windows of {WINDOW} steps, expected at least one; the features hold {steps} steps"
    )]
    EmptySplit {
        /// The dataset.
        folder: String,
        /// Which part.
        part: &'static str,
        /// Steps held.
        steps: usize,
    },
    /// More or fewer samples than can be learned from.
    #[error("samples: found {found}, expected {LEAST_SAMPLES} to {most}, all before the test part")]
    Samples {
        /// Asked for.
        found: usize,
        /// Windows before the test part.
        most: usize,
    },
}

/// One window in eight judges: with fewer none would.
const LEAST_SAMPLES: usize = 8;

impl Study {
    /// Opens a dataset with one fleet's features, to learn from it.
    pub fn open(folder: &Path, fleet: &str) -> Result<Self, StudyError> {
        let study = Self::read(folder, fleet)?;
        let split = &study.split;
        for (part, windows) in
            [("train", &split.train), ("validation", &split.validation), ("test", &split.test)]
        {
            if windows.is_empty() {
                return Err(StudyError::EmptySplit {
                    folder: folder.display().to_string(),
                    part,
                    steps: study.fleet.held.len(),
                });
            }
        }
        Ok(study)
    }

    /// Opens a dataset with one fleet's features, to estimate its windows, however few.
    pub fn read(folder: &Path, fleet: &str) -> Result<Self, StudyError> {
        let dataset = Dataset::open(folder)?;
        let network = dataset.network().clone();
        let features = Features::open(folder, &network)?;
        let manifest = features.manifest();
        let step = manifest.step_s;
        let table = features.fleet(fleet)?;
        let rate = manifest.fleets.iter().find(|f| f.name == fleet).map_or(1.0, |f| f.rate);
        let truth = features.all()?;
        let windows = manifest.held.windows(WINDOW);
        let mut row = 0;
        let mut first_rows = Vec::new();
        for range in manifest.held.ranges() {
            first_rows.push((range.first, row));
            row += (range.last.0 - range.first.0 + 1) as usize;
        }
        Ok(Self {
            step,
            rate,
            fleet_name: fleet.to_owned(),
            fleet: table,
            loops: features.loops(network.loops().len())?,
            raw: truth.states(&network, step),
            smooth: truth.smooth_states(&network, step),
            first_rows,
            targets: network.targets(),
            split: split(&windows),
            windows,
            cell_shape: [manifest.cells, manifest.sub_steps],
            network_hash: manifest.network_hash.clone(),
            network,
        })
    }

    /// Learns from fewer samples: the last ones before the test part, seven in eight to train and
    /// one in eight, the latest, to validate. The test part stays.
    pub fn with_samples(mut self, samples: usize) -> Result<Self, StudyError> {
        let before: Vec<Step> = [&self.split.train[..], &self.split.validation[..]].concat();
        if !(LEAST_SAMPLES..=before.len()).contains(&samples) {
            return Err(StudyError::Samples { found: samples, most: before.len() });
        }
        let kept = &before[before.len() - samples..];
        let (train, validation) = kept.split_at(samples - samples / 8);
        self.split.train = train.to_vec();
        self.split.validation = validation.to_vec();
        Ok(self)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Length of a step.
    pub fn step(&self) -> Seconds {
        self.step
    }

    /// Hash of the network.
    pub fn network_hash(&self) -> &str {
        &self.network_hash
    }

    /// Cells of a link and sub-steps of a step, as the features were made.
    pub fn cell_shape(&self) -> [usize; 2] {
        self.cell_shape
    }

    /// The fleet's name.
    pub fn fleet_name(&self) -> &str {
        &self.fleet_name
    }

    /// The fleet's penetration rate.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// All windows, by their last step.
    pub fn windows(&self) -> &[Step] {
        &self.windows
    }

    /// All steps held, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.fleet.held.iter()
    }

    /// The windows of each part, by their last step.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// The links that are scored.
    pub fn targets(&self) -> &[LinkId] {
        &self.targets
    }

    /// The true state of a link in a step.
    pub fn target(&self, kind: TargetKind, step: Step, link: LinkId) -> LinkState {
        let at = self.row(step) * self.network.links().len() + link.index();
        match kind {
            TargetKind::Raw => self.raw[at],
            TargetKind::Smooth => self.smooth[at],
        }
    }

    /// The state of a link in a step as the fleet alone would estimate it.
    pub fn scaled_up(&self, step: Step, link: LinkId) -> LinkState {
        let at = self.row(step) * self.network.links().len() + link.index();
        let totals = self.fleet.totals[at];
        let state = totals.state(self.network.link(link), self.step);
        LinkState { density: state.density / self.rate, flow: state.flow / self.rate }
    }

    /// What each loop counted in a step; none where it did not report.
    pub fn loop_counts(&self, step: Step) -> &[Option<f64>] {
        let detectors = self.loops.detectors;
        &self.loops.counts[self.row(step) * detectors..][..detectors]
    }

    /// Mean speed of the fleet on a link in a step; none where it had no vehicle.
    pub fn fleet_speed(&self, step: Step, link: LinkId) -> Option<MetresPerSecond> {
        self.fleet.totals[self.row(step) * self.network.links().len() + link.index()].speed()
    }

    /// The fleet's totals in the cells and sub-steps of a link in a step, in scale-up units: all
    /// densities, then all flows.
    pub fn scaled_up_cells(&self, step: Step, link: LinkId) -> impl Iterator<Item = f64> + '_ {
        let count = self.fleet.cell_count;
        let at = (self.row(step) * self.network.links().len() + link.index()) * 2 * count;
        let boxes = self.network.link(link).lane_length().get() * self.step.get() / count as f64;
        let cells = &self.fleet.cells[at..at + 2 * count];
        cells.iter().enumerate().map(move |(i, &total)| {
            let unit = if i < count { 1000.0 } else { 60.0 };
            f64::from(total) * unit / (boxes * self.rate)
        })
    }

    /// Appends the features of a window that ends with `last`, oldest step first.
    ///
    /// Per step: of each loop its count and whether it reported; then, as the party goes, of each
    /// link the fleet's scaled-up density and flow (then those of its cells), or its speed and
    /// whether it has one.
    pub fn window(&self, party: Party, last: Step, out: &mut Vec<f64>) {
        for step in (last.0 + 1 - WINDOW as i64..=last.0).map(Step) {
            for count in self.loop_counts(step) {
                out.extend([count.unwrap_or(0.0), f64::from(u8::from(count.is_some()))]);
            }
            for link in self.network.link_ids() {
                match party {
                    Party::Host => {}
                    Party::Both | Party::BothAndCells => {
                        let state = self.scaled_up(step, link);
                        out.extend([state.density.get(), state.flow.get()]);
                        if party == Party::BothAndCells {
                            out.extend(self.scaled_up_cells(step, link));
                        }
                    }
                    Party::HostAndSpeeds => {
                        let speed = self.fleet_speed(step, link).map(|speed| speed.get());
                        out.extend([speed.unwrap_or(0.0), f64::from(u8::from(speed.is_some()))]);
                    }
                }
            }
        }
    }

    /// Where a step's rows are in the tables.
    fn row(&self, step: Step) -> usize {
        let range = self.first_rows.partition_point(|&(first, _)| first <= step).saturating_sub(1);
        let (first, row) = self.first_rows[range];
        row + (step.0 - first.0) as usize
    }
}
