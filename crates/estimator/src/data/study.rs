//! The features of a dataset as numbers to learn from, with the truth.
//!
//! A sample is a window of steps, [`WINDOW`] of them unless another number is chosen, estimated at its last step. Windows never cross a gap,
//! and are split 70/10/20 in time.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sensing::{FeaturesError, HeldSteps, LEAST_RECORDINGS, Split, split, split_by_recording};
use thiserror::Error;
use traffic::{LinkId, LinkState, Network, Seconds, Step};

use crate::data::fleet_sum::SummedFleets;
use crate::data::measurement_table::MeasurementTable;
use crate::data::observed::{Asked, Observed};
use crate::data::sources::{FleetData, LoopData};
use crate::data::timeline::Timeline;

/// Steps of a window (h of the paper) unless another number is chosen: one cycle of the corridor's signals.
pub const WINDOW: usize = 9;
/// The shortest window: guests see cells of its last steps.
pub const LEAST_WINDOW: usize = 3;
/// The longest one.
pub const MOST_WINDOW: usize = 120;

/// Which targets are estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// The step itself.
    Raw,
    /// Trailing mean over 60 s, as the paper's labels were averaged.
    Smooth,
}

/// Whose features an estimator sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureSet {
    /// Loop counts only.
    Host,
    /// Loop counts and the fleets' mean speeds.
    HostAndSpeeds,
    /// Loop counts and the fleets' totals.
    Both,
    /// The same, and the fleets' totals in each cell and sub-step.
    BothAndCells,
}

/// What a guest makes of its fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestFeatures {
    /// Mean speeds.
    Speeds,
    /// Totals of whole links.
    Totals,
    /// The same, and totals in each cell and sub-step.
    TotalsAndCells,
}

impl FeatureSet {
    /// What its guests make of their fleets; none if there are no guests.
    pub fn guest_features(self) -> Option<GuestFeatures> {
        match self {
            FeatureSet::Host => None,
            FeatureSet::HostAndSpeeds => Some(GuestFeatures::Speeds),
            FeatureSet::Both => Some(GuestFeatures::Totals),
            FeatureSet::BothAndCells => Some(GuestFeatures::TotalsAndCells),
        }
    }
}

/// A dataset ready for learning: what the host sees, the truth, and what some fleets see.
pub struct Study {
    folder: PathBuf,
    timeline: Arc<Timeline>,
    loops: LoopData,
    fleets: Vec<FleetData>,
    /// Densities by queue profiles that came with the fleets; made of their trajectories if none.
    queues: Option<MeasurementTable>,
    /// Empty without ground truth.
    raw: Arc<[LinkState]>,
    smooth: Arc<[LinkState]>,
    targets: Vec<LinkId>,
    split: Split,
}

/// Why a dataset cannot be studied.
#[derive(Debug, Error)]
pub enum StudyError {
    /// Its features.
    #[error(transparent)]
    Features(#[from] FeaturesError),
    /// A part of the split is empty.
    #[error(
        "{folder}: {part}: found no windows of {window} steps, expected at least one; the features hold {steps} steps"
    )]
    EmptySplit {
        /// The dataset.
        folder: String,
        /// Which part.
        part: &'static str,
        /// Steps of a window.
        window: usize,
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
    /// Too few recordings to keep some for the test.
    #[error(
        "recordings with windows of {window} steps: found {found}, expected {LEAST_RECORDINGS} or more"
    )]
    Recordings {
        /// How many there are.
        found: usize,
        /// Steps of a window.
        window: usize,
    },
}

/// One window in eight validates: with fewer windows there would be none.
const LEAST_SAMPLES: usize = 8;

impl Study {
    /// Opens a dataset with one fleet's features.
    pub fn open(folder: &Path, fleet: &str) -> Result<Self, StudyError> {
        Self::open_fleets(folder, &[fleet])
    }

    /// Opens a dataset with the features of some fleets; none for what a host has by itself.
    pub fn open_fleets(folder: &Path, fleets: &[&str]) -> Result<Self, StudyError> {
        Self::read(folder, fleets, true)
    }

    /// Opens what a host has by itself, without ground truth.
    pub fn without_truth(folder: &Path) -> Result<Self, StudyError> {
        Self::read(folder, &[], false)
    }

    fn read(folder: &Path, fleets: &[&str], truth: bool) -> Result<Self, StudyError> {
        let (timeline, features) = Timeline::read(folder)?;
        let timeline = Arc::new(timeline);
        let split = split_of(folder, &timeline)?;
        let read = |fleet: &&str| FleetData::read(Arc::clone(&timeline), &features, fleet);
        let fleets = fleets.iter().map(read).collect::<Result<_, _>>()?;
        let truth = if truth { Some(features.all()?) } else { None };
        let (network, step) = (timeline.network(), timeline.step());
        let raw = truth.as_ref().map_or_else(Vec::new, |truth| truth.states(network, step));
        let smooth =
            truth.as_ref().map_or_else(Vec::new, |truth| truth.smooth_states(network, step));
        Ok(Self {
            folder: folder.to_owned(),
            loops: LoopData::read(Arc::clone(&timeline), &features)?,
            fleets,
            queues: None,
            raw: raw.into(),
            smooth: smooth.into(),
            targets: network.targets(),
            split,
            timeline,
        })
    }

    /// What a host has, in some of the steps held, which are split anew.
    pub fn holding(&self, held: HeldSteps) -> Result<Self, StudyError> {
        let rows: Vec<usize> = held.iter().map(|step| self.timeline.row(step)).collect();
        let timeline = Arc::new(self.timeline.holding(held));
        let links = timeline.network().links().len();
        let of_steps = |states: &[LinkState]| -> Arc<[LinkState]> {
            let of_row = |&row: &usize| states.iter().skip(row * links).take(links).copied();
            rows.iter().flat_map(of_row).collect()
        };
        Ok(Self {
            folder: self.folder.clone(),
            loops: self.loops.of_rows(&timeline, &rows),
            fleets: Vec::new(),
            queues: None,
            raw: of_steps(&self.raw),
            smooth: of_steps(&self.smooth),
            targets: self.targets.clone(),
            split: split_of(&self.folder, &timeline)?,
            timeline,
        })
    }

    /// The same with windows of so many steps, which are split anew.
    pub fn windowed(mut self, window: usize) -> Result<Self, StudyError> {
        let timeline = Arc::new(Timeline::clone(&self.timeline).windowed(window));
        self.split = split_of(&self.folder, &timeline)?;
        self.loops = self.loops.windowed(window);
        self.fleets = self.fleets.into_iter().map(|fleet| fleet.windowed(window)).collect();
        self.timeline = timeline;
        Ok(self)
    }

    /// Whether there is ground truth.
    pub fn has_truth(&self) -> bool {
        !self.raw.is_empty()
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

    /// Learns where labels are few: from a percentage of the training and of the validation part, the last
    /// windows of each.
    pub fn with_label_share(mut self, percent: f64) -> Self {
        for part in [&mut self.split.train, &mut self.split.validation] {
            *part = last_share(part, percent).to_vec();
        }
        self
    }

    /// Splits by recording, as [`split_by_recording`] does.
    pub fn by_recording(mut self) -> Result<Self, StudyError> {
        self.split = split_by_recording(self.timeline.windows())
            .map_err(|found| StudyError::Recordings { found, window: self.timeline.window() })?;
        Ok(self)
    }

    /// The same with other fleets, of the same steps, and what queue profiles of them measure.
    pub fn with_fleets(&self, summed: SummedFleets) -> Self {
        let SummedFleets { fleets, queues, .. } = summed;
        Self {
            folder: self.folder.clone(),
            timeline: Arc::clone(&self.timeline),
            loops: self.loops.clone(),
            fleets,
            queues,
            raw: Arc::clone(&self.raw),
            smooth: Arc::clone(&self.smooth),
            targets: self.targets.clone(),
            split: self.split.clone(),
        }
    }

    /// Densities by queue profiles that came with the fleets; none if they are to be made of trajectories.
    pub fn queues(&self) -> Option<&MeasurementTable> {
        self.queues.as_ref()
    }

    /// Where the dataset lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The steps held, and the network.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// What the host sees.
    pub fn loops(&self) -> &LoopData {
        &self.loops
    }

    /// What guests see, in the order asked for.
    pub fn fleets(&self) -> &[FleetData] {
        &self.fleets
    }

    /// The network.
    pub fn network(&self) -> &Network {
        self.timeline.network()
    }

    /// Length of a step.
    pub fn step(&self) -> Seconds {
        self.timeline.step()
    }

    /// All of it but the truth.
    pub fn observed(&self) -> Observed<'_> {
        Observed { folder: &self.folder, loops: &self.loops, fleets: &self.fleets }
    }

    /// The states of the scored links at the ends of some windows.
    pub fn asked<'a>(&'a self, target: TargetKind, windows: &'a [Step]) -> Asked<'a> {
        Asked { target, links: &self.targets, windows }
    }

    /// All windows, by their last step.
    pub fn windows(&self) -> &[Step] {
        self.timeline.windows()
    }

    /// All steps held, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.timeline.steps()
    }

    /// The windows of each part, by their last step.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// The steps of the training part.
    pub fn train_span(&self) -> RangeInclusive<Step> {
        train_span(&self.split.train, self.timeline.window())
    }

    /// The links that are scored.
    pub fn targets(&self) -> &[LinkId] {
        &self.targets
    }

    /// The true state of a link in a step.
    ///
    /// # Panics
    /// Without ground truth.
    pub fn target(&self, kind: TargetKind, step: Step, link: LinkId) -> LinkState {
        let at = self.timeline.row(step) * self.network().links().len() + link.index();
        match kind {
            TargetKind::Raw => self.raw[at],
            TargetKind::Smooth => self.smooth[at],
        }
    }

    /// Appends the features of a window that ends with `last`, oldest step first.
    ///
    /// Per step: of each loop its count and whether it reported; then, as the party goes, of each
    /// fleet and link its scaled-up density and flow (then those of its cells), or its speed and
    /// whether it has one.
    pub fn window(&self, party: FeatureSet, last: Step, out: &mut Vec<f64>) {
        for step in (last.0 + 1 - self.timeline.window() as i64..=last.0).map(Step) {
            for count in self.loops.counts(step) {
                out.extend([count.unwrap_or(0.0), f64::from(u8::from(count.is_some()))]);
            }
            let Some(features) = party.guest_features() else { continue };
            for fleet in &self.fleets {
                for link in self.network().link_ids() {
                    if features == GuestFeatures::Speeds {
                        let speed = fleet.speed(step, link).map(|speed| speed.get());
                        out.extend([speed.unwrap_or(0.0), f64::from(u8::from(speed.is_some()))]);
                        continue;
                    }
                    let state = fleet.scaled_up(step, link);
                    out.extend([state.density.get(), state.flow.get()]);
                    if features == GuestFeatures::TotalsAndCells {
                        out.extend(fleet.scaled_up_cells(step, link));
                    }
                }
            }
        }
    }
}

/// The parts in time, none of which is empty.
fn split_of(folder: &Path, timeline: &Timeline) -> Result<Split, StudyError> {
    let split = split(timeline.windows());
    for (part, windows) in
        [("train", &split.train), ("validation", &split.validation), ("test", &split.test)]
    {
        if windows.is_empty() {
            let (folder, steps) = (folder.display().to_string(), timeline.held().len());
            let window = timeline.window();
            return Err(StudyError::EmptySplit { folder, part, window, steps });
        }
    }
    Ok(split)
}

/// The last windows of a part, a percentage of them; at least one unless it is zero.
pub fn last_share(windows: &[Step], percent: f64) -> &[Step] {
    let share = (windows.len() as f64 * percent / 100.0).round() as usize;
    let kept = if percent > 0.0 { share.max(1) } else { 0 };
    &windows[windows.len() - kept.min(windows.len())..]
}

/// The steps that windows of so many steps, given by their last ones in order, are made of.
pub fn train_span(windows: &[Step], window: usize) -> RangeInclusive<Step> {
    let first = windows.first().map_or(0, |step| step.0 + 1 - window as i64);
    let last = windows.last().map_or(first - 1, |step| step.0);
    Step(first)..=Step(last)
}
