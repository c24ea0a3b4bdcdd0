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
use traffic::{LinkId, LinkState, Network, Seconds, Step};

/// Steps of a window (h of the paper): one cycle of the corridor's signals.
pub const WINDOW: usize = 9;

/// Which targets are estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// Edie's density and flow of the step itself.
    Raw,
    /// Their trailing mean over 60 s, as the paper's labels were averaged.
    Smooth,
}

/// Whose features an estimator sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Loop counts only.
    Host,
    /// Loop counts and the fleet's mean speeds.
    HostAndSpeeds,
    /// Loop counts and the fleet's totals.
    Both,
}

/// A dataset ready for learning.
pub struct Study {
    network: Network,
    step: Seconds,
    rate: f64,
    fleet: FeatureTable,
    loops: LoopTable,
    raw: Vec<LinkState>,
    smooth: Vec<LinkState>,
    /// Position of each stored step in the tables.
    first_rows: Vec<(Step, usize)>,
    targets: Vec<LinkId>,
    split: Split,
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
}

impl Study {
    /// Opens a dataset with one fleet's features.
    pub fn open(folder: &Path, fleet: &str) -> Result<Self, StudyError> {
        let dataset = Dataset::open(folder)?;
        let network = dataset.network().clone();
        let features = Features::open(folder, &network)?;
        let manifest = features.manifest();
        let step = manifest.step_s;
        let table = features.fleet(fleet)?;
        let rate = manifest.fleets.iter().find(|f| f.name == fleet).map_or(1.0, |f| f.rate);
        let truth = features.all()?;
        let split = split(&manifest.held.windows(WINDOW));
        for (part, windows) in
            [("train", &split.train), ("validation", &split.validation), ("test", &split.test)]
        {
            if windows.is_empty() {
                return Err(StudyError::EmptySplit {
                    folder: folder.display().to_string(),
                    part,
                    steps: manifest.held.len(),
                });
            }
        }
        let mut row = 0;
        let mut first_rows = Vec::new();
        for range in manifest.held.ranges() {
            first_rows.push((range.first, row));
            row += (range.last.0 - range.first.0 + 1) as usize;
        }
        Ok(Self {
            step,
            rate,
            fleet: table,
            loops: features.loops(network.loops().len())?,
            raw: truth.states(&network, step),
            smooth: truth.smooth_states(&network, step),
            first_rows,
            targets: network.targets(),
            split,
            network,
        })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Length of a step.
    pub fn step(&self) -> Seconds {
        self.step
    }

    /// The fleet's penetration rate.
    pub fn rate(&self) -> f64 {
        self.rate
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

    /// Appends the features of a window that ends with `last`, oldest step first.
    ///
    /// Per step: of each loop its count and whether it reported; then, as the party goes, of each
    /// link the fleet's scaled-up density and flow, or its speed and whether it has one.
    pub fn window(&self, party: Party, last: Step, out: &mut Vec<f64>) {
        for step in (last.0 + 1 - WINDOW as i64..=last.0).map(Step) {
            let row = self.row(step);
            let detectors = self.loops.detectors;
            for count in &self.loops.counts[row * detectors..][..detectors] {
                out.extend([count.unwrap_or(0.0), f64::from(u8::from(count.is_some()))]);
            }
            for link in self.network.link_ids() {
                match party {
                    Party::Host => {}
                    Party::Both => {
                        let state = self.scaled_up(step, link);
                        out.extend([state.density.get(), state.flow.get()]);
                    }
                    Party::HostAndSpeeds => {
                        let totals =
                            self.fleet.totals[row * self.network.links().len() + link.index()];
                        let speed = totals.speed().map(|speed| speed.get());
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
